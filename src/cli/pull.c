/* cli/pull.c - llm-router pull: registers a model and waits until a node has its files. */
#include <stdio.h>

#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/resolve.h"
#include "cli/terminal.h"

static const struct lr_setting flags[] = {CLI_REMOTE_FLAGS, CLI_CHOICE_FLAGS};

static lr_code pull_run(const struct lr_settings *s, struct lr_error *err)
{
    char id[CLI_ID_MAX];
    const char *name = lr_settings_positional(s, 0);
    lr_code code = cli_resolve(s, name, false, stdout, id, err);
    if (code == LR_OK)
        code = cli_follow(s, id, "", CLI_GOAL_FILES, stdout, err);
    if (code == LR_OK)
        cli_tell(stdout, "%s can be used\n", id);
    return code;
}

const struct cli_command cli_command_pull = {
    .name = "pull",
    .summary = "Download a model to the nodes and wait for it",
    .arguments = "MODEL",
    .details =
        "MODEL is a repository of Hugging Face (org/name, a URL, or hf.co/org/name:Q4_K_M for "
        "a\n"
        "quantization), or the name of a model that is registered. Of several GGUF files the\n"
        "best that fits the nodes is taken, and the choice is printed. Ctrl-C ends the wait;\n"
        "the nodes go on with the download.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .least = 1,
    .most = 1,
    .run = pull_run,
};
