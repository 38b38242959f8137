/* cli/pull.c - llm-router pull: registers a model and waits until a node has its files. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "cli/terminal.h"

static const struct lr_setting flags[] = {CLI_REMOTE_FLAGS};

static lr_code pull_run(const struct lr_settings *s, struct lr_error *err)
{
    char id[CLI_ID_MAX];
    const char *name = lr_settings_positional(s, 0);
    lr_code code = cli_model_id(s, name, id, err);
    /* Without a slash it is no repository: the error suggests a model of that name. */
    if (code == LR_NOT_FOUND && strchr(name, '/') != NULL)
        code = cli_register_repo(s, name, id, sizeof(id), err);
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
        "MODEL is a repository of Hugging Face (org/name, or a URL), or the name of a model\n"
        "that is registered. Ctrl-C ends the wait; the nodes go on with the download.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .least = 1,
    .most = 1,
    .run = pull_run,
};
