/* cli/run.c - llm-router run MODEL [PROMPT]: fetches and loads the model where needed, then
 * answers a prompt, or talks. */
#include <stdio.h>

#include "base/os/fd.h"
#include "cli/commands.h"
#include "cli/resolve.h"
#include "cli/talk.h"

static const struct lr_setting flags[] = {CLI_REMOTE_FLAGS, CLI_CHOICE_FLAGS, CLI_TALK_FLAGS,
                                          CLI_TALK_MORE_FLAGS};

/* The arguments behind MODEL, and standard input if that is no terminal. */
static lr_code read_prompt(const struct lr_settings *s, struct lr_buf *out,
                           struct lr_error *err)
{
    cli_talk_join(s, 1, out);
    if (isatty(STDIN_FILENO) != 0)
        return LR_OK;
    size_t before = out->len;
    if (before != 0)
        lr_buf_add_z(out, "\n\n");
    size_t begin = out->len;
    lr_code code = cli_read_stdin(out, err);
    if (code == LR_OK && out->len == begin)
        out->len = before;
    return code;
}

static lr_code cmd_run_this(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_talk t;
    struct lr_buf prompt;
    cli_talk_init(&t, s);
    lr_buf_init(&prompt, CLI_TALK_BYTES);
    lr_code code = read_prompt(s, &prompt, err);
    struct lr_str text = lr_str_trim(lr_buf_str(&prompt));
    bool talks = text.len == 0 && isatty(STDIN_FILENO) != 0;
    if (code == LR_OK && text.len == 0 && !talks)
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "there is no prompt: give it after MODEL, or on standard input");
    if (code == LR_OK)
        code = cli_resolve_ready(s, lr_settings_positional(s, 0), t.model, err);
    if (code == LR_OK)
        code = talks ? cli_talk_converse(&t, err) : cli_talk_turn(&t, text, err);
    lr_buf_free(&prompt);
    cli_talk_free(&t);
    return code;
}

const struct cli_command cli_command_run = {
    .name = "run",
    .summary = "Run a model: answer a prompt, or chat",
    .arguments = "MODEL [PROMPT...]",
    .details =
        "Prints the answer as it comes. Standard input that is no terminal is the prompt, or "
        "is\n"
        "appended to it; without a prompt, a terminal gets a chat. A model that is not loaded "
        "is\n"
        "loaded first, and a repository of Hugging Face (org/name, hf.co/org/name:Q4_K_M) is\n"
        "registered first; choice and progress are shown on standard error. Ctrl-C ends the\n"
        "answer.\n"
        "  git diff | llm-router run gpt-oss-20b Write a commit message",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .least = 1,
    .most = 4096,
    .run = cmd_run_this,
};
