/* cli/chat.c - llm-router chat: talk to a model in the terminal, streamed. */
#include <stdio.h>
#include <string.h>

#include "base/os/fd.h"
#include "cli/commands.h"
#include "cli/resolve.h"
#include "cli/talk.h"

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    {.name = "model",
     .type = LR_SETTING_STRING,
     .value = "ID",
     .help = "the model to use; default: the first model that is ready"},
    CLI_TALK_FLAGS,
};

static lr_code choose_model(struct cli_talk *t, struct lr_error *err)
{
    const struct lr_settings *s = t->settings;
    return lr_settings_has(s, "model")
               ? cli_resolve_ready(s, lr_settings_str(s, "model"), t->model, err)
               : cli_first_model(s, t->model, err);
}

static lr_code chat_run(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_talk t;
    cli_talk_init(&t, s);
    lr_code code = choose_model(&t, err);
    if (code == LR_OK && lr_settings_positional_count(s) != 0) {
        struct lr_buf text;
        lr_buf_init(&text, CLI_TALK_BYTES);
        cli_talk_join(s, 0, &text);
        code = cli_talk_turn(&t, lr_buf_str(&text), err);
        lr_buf_free(&text);
    } else if (code == LR_OK) {
        code = cli_talk_converse(&t, err);
    }
    cli_talk_free(&t);
    return code;
}

const struct cli_command cli_command_chat = {
    .name = "chat",
    .summary = "Chat with a model in the terminal",
    .arguments = "[MESSAGE...]",
    .details =
        "With MESSAGE it prints one answer and exits; without, it reads messages until Ctrl-D.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .most = 4096,
    .run = chat_run,
};
