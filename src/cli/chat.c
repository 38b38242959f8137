/* cli/chat.c - llm-router chat: talk to a model in the terminal, streamed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/fd.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "wire/reply.h"

enum { HISTORY_BYTES = 16 << 20, REPLY_BYTES = 4 << 20 };

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    {.name = "model",
     .type = LR_SETTING_STRING,
     .value = "ID",
     .help = "the model to use; default: the first model that is ready"},
    {.name = "system", .type = LR_SETTING_STRING, .help = "system message"},
    {.name = "reasoning",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "also print the model's reasoning"},
    {.name = "temperature",
     .type = LR_SETTING_FLOAT,
     .fallback = "1",
     .max = 2,
     .help = "sampling temperature; 0: always the most likely token"},
};

struct chat {
    const struct lr_settings *settings;
    struct lr_buf history; /* messages, with commas, without brackets */
    struct lr_buf reply;
    char model[256];
    bool is_thinking; /* the reasoning is being printed */
    struct lr_error failure;
};

static void add_message(struct chat *c, const char *role, struct lr_str text)
{
    if (c->history.len != 0)
        lr_buf_add_char(&c->history, ',');
    lr_buf_addf(&c->history, "{\"role\":\"%s\",\"content\":", role);
    lr_json_quote(&c->history, text);
    lr_buf_add_char(&c->history, '}');
}

static void print(struct lr_str text)
{
    (void)fwrite(text.ptr, 1, text.len, stdout);
    (void)fflush(stdout);
}

static void on_event(void *arg, struct lr_str data)
{
    struct chat *c = arg;
    struct lr_arena arena;
    const struct lr_json *event, *delta;
    struct lr_str text;
    if (lr_str_eq_z(data, "[DONE]"))
        return;
    lr_arena_init(&arena, 16 << 20);
    if (lr_json_parse(&arena, data, NULL, &event, NULL) == LR_OK) {
        const struct lr_json *choices = lr_json_get(event, "choices");
        delta = choices != NULL && choices->count != 0
                    ? lr_json_get(&choices->items[0], "delta")
                    : NULL;
        text = wire_refusal_message(&arena, data);
        if (text.len != 0)
            (void)lr_fail(&c->failure, LR_UPSTREAM, LR_STR_FMT, LR_STR_ARG(text));
        if (lr_settings_bool(c->settings, "reasoning") &&
            lr_json_str(lr_json_get(delta, "reasoning_content"), &text) && text.len != 0) {
            c->is_thinking = true;
            print(text);
        }
        if (lr_json_str(lr_json_get(delta, "content"), &text) && text.len != 0) {
            if (c->is_thinking)
                print(LR_STR_LIT("\n\n"));
            c->is_thinking = false;
            print(text);
            lr_buf_add_str(&c->reply, text);
        }
    }
    lr_arena_free(&arena);
}

static lr_code turn(struct chat *c, struct lr_str text, struct lr_error *err)
{
    struct lr_buf body;
    lr_buf_init(&body, HISTORY_BYTES + 4096);
    lr_buf_clear(&c->reply);
    c->failure = (struct lr_error){0};
    c->is_thinking = false;
    add_message(c, "user", text);
    lr_buf_add_z(&body, "{\"model\":");
    lr_json_quote(&body, lr_str_z(c->model));
    lr_buf_addf(&body, ",\"stream\":true,\"temperature\":%g,\"messages\":[" LR_STR_FMT "]}",
                lr_settings_float(c->settings, "temperature"),
                LR_STR_ARG(lr_buf_str(&c->history)));
    lr_code code = cli_stream(c->settings, "/v1/chat/completions", &body, on_event, c, err);
    (void)printf("\n");
    if (code == LR_OK && c->failure.code != LR_OK)
        code = lr_fail(err, c->failure.code, "%s", c->failure.text);
    if (code == LR_OK)
        add_message(c, "assistant", lr_buf_str(&c->reply));
    lr_buf_free(&body);
    return code;
}

static lr_code choose_model(struct chat *c, struct lr_error *err)
{
    struct cli_answer a;
    if (lr_settings_has(c->settings, "model")) {
        (void)snprintf(c->model, sizeof(c->model), "%s", lr_settings_str(c->settings, "model"));
        return LR_OK;
    }
    lr_code code = cli_ask(c->settings, "GET", "/v1/models", NULL, &a, err);
    const struct lr_json *list = code == LR_OK ? lr_json_get(a.json, "data") : NULL;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (c->model[0] == '\0' ||
            strcmp(cli_text(&a.arena, &list->items[i], "state"), "ready") == 0) {
            (void)snprintf(c->model, sizeof(c->model), "%s",
                           cli_text(&a.arena, &list->items[i], "id"));
            if (strcmp(cli_text(&a.arena, &list->items[i], "state"), "ready") == 0)
                break;
        }
    if (code == LR_OK && c->model[0] == '\0')
        code = lr_fail(err, LR_NOT_FOUND,
                       "the router has no model that can run: see llm-router models");
    cli_answer_free(&a);
    return code;
}

static lr_code converse(struct chat *c, struct lr_error *err)
{
    char *line = NULL;
    size_t size = 0;
    lr_code code = LR_OK;
    bool is_person = isatty(STDIN_FILENO) != 0;
    if (is_person)
        (void)printf("Talking to %s; Ctrl-D ends.\n", c->model);
    while (code == LR_OK) {
        if (is_person)
            print(LR_STR_LIT("\n> "));
        ssize_t got = getline(&line, &size, stdin);
        if (got < 0)
            break;
        struct lr_str text = lr_str_trim(lr_str(line, (size_t)got));
        if (text.len != 0)
            code = turn(c, text, err);
    }
    free(line);
    return code;
}

static lr_code run(const struct lr_settings *s, struct lr_error *err)
{
    struct chat c = {.settings = s};
    lr_buf_init(&c.history, HISTORY_BYTES);
    lr_buf_init(&c.reply, REPLY_BYTES);
    lr_code code = choose_model(&c, err);
    if (code == LR_OK && lr_settings_has(s, "system"))
        add_message(&c, "system", lr_str_z(lr_settings_str(s, "system")));
    if (code == LR_OK && lr_settings_positional_count(s) != 0) {
        struct lr_buf text;
        lr_buf_init(&text, HISTORY_BYTES);
        for (size_t i = 0; i < lr_settings_positional_count(s); i++)
            lr_buf_addf(&text, "%s%s", i != 0 ? " " : "", lr_settings_positional(s, i));
        code = turn(&c, lr_buf_str(&text), err);
        lr_buf_free(&text);
    } else if (code == LR_OK) {
        code = converse(&c, err);
    }
    lr_buf_free(&c.history);
    lr_buf_free(&c.reply);
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
    .run = run,
};
