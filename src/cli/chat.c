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
    struct cli_answer a;
    if (lr_settings_has(s, "model"))
        return cli_resolve_ready(s, lr_settings_str(s, "model"), t->model, err);
    lr_code code = cli_ask(s, "GET", "/v1/models", NULL, &a, err);
    const struct lr_json *list = code == LR_OK ? cli_array(a.json, "data") : NULL;
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct lr_json *m = &list->items[i];
        bool is_ready = strcmp(cli_raw(&a.arena, m, "state"), "ready") == 0;
        if (t->model[0] == '\0' || is_ready)
            LR_COPY(t->model, lr_str_z(cli_raw(&a.arena, m, "id")));
        if (is_ready)
            break;
    }
    if (code == LR_OK && t->model[0] == '\0')
        code = lr_fail(err, LR_NOT_FOUND,
                       "the router has no model that can run: see llm-router models");
    cli_answer_free(&a);
    return code;
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
