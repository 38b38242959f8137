#include "cli/talk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/os/fd.h"
#include "cli/command.h"
#include "cli/remote.h"
#include "cli/terminal.h"
#include "wire/reply.h"

enum { REPLY_BYTES = 4 << 20, SCHEMA_BYTES = 1 << 20 };

static void talk_add_message(struct cli_talk *t, const char *role, struct lr_str text)
{
    if (t->history.len != 0)
        lr_buf_add_char(&t->history, ',');
    lr_buf_addf(&t->history, "{\"role\":\"%s\",\"content\":", role);
    lr_json_quote(&t->history, text);
    lr_buf_add_char(&t->history, '}');
}

void cli_talk_init(struct cli_talk *t, const struct lr_settings *settings)
{
    *t = (struct cli_talk){.settings = settings, .is_terminal = isatty(STDOUT_FILENO) != 0};
    t->shows_reasoning = lr_settings_has(settings, "reasoning")
                             ? lr_settings_bool(settings, "reasoning")
                             : t->is_terminal;
    lr_buf_init(&t->history, CLI_TALK_BYTES);
    lr_buf_init(&t->reply, REPLY_BYTES);
    if (lr_settings_has(settings, "system"))
        talk_add_message(t, "system", lr_str_z(lr_settings_str(settings, "system")));
}

void cli_talk_free(struct cli_talk *t)
{
    lr_buf_free(&t->history);
    lr_buf_free(&t->reply);
}

/* A file gets the bytes of the answer; a terminal would obey some of them. */
static void print(const struct cli_talk *t, struct lr_str text)
{
    if (t->is_terminal) {
        struct lr_buf visible;
        lr_buf_init(&visible, (size_t)REPLY_BYTES * 8);
        cli_add_visible(&visible, text, CLI_LINES);
        (void)fwrite(visible.data, 1, visible.len, stdout);
        lr_buf_free(&visible);
    } else {
        (void)fwrite(text.ptr, 1, text.len, stdout);
    }
    (void)fflush(stdout);
}

static void on_delta(struct cli_talk *t, const struct lr_json *delta)
{
    struct lr_str text;
    if (t->first_ms == 0)
        t->first_ms = lr_clock_ms(NULL);
    if (t->shows_reasoning && lr_json_str(lr_json_get(delta, "reasoning_content"), &text) &&
        text.len != 0) {
        t->is_thinking = true;
        print(t, text);
    }
    if (lr_json_str(lr_json_get(delta, "content"), &text) && text.len != 0) {
        if (t->is_thinking)
            print(t, LR_STR_LIT("\n\n"));
        t->is_thinking = false;
        print(t, text);
        lr_buf_add_str(&t->reply, text);
    }
}

static void keep_failure(struct cli_talk *t, struct lr_str message)
{
    struct lr_buf visible;
    lr_buf_init(&visible, REPLY_BYTES);
    cli_put(&visible, message);
    (void)lr_fail(&t->failure, LR_UPSTREAM, "%s", lr_buf_z(&visible));
    lr_buf_free(&visible);
}

static void talk_on_event(void *arg, struct lr_str data)
{
    struct cli_talk *t = arg;
    struct lr_arena arena;
    const struct lr_json *event;
    if (lr_str_eq_z(data, "[DONE]"))
        return;
    lr_arena_init(&arena, 16 << 20);
    if (lr_json_parse(&arena, data, NULL, &event, NULL) == LR_OK) {
        const struct lr_json *choices = cli_array(event, "choices");
        const struct lr_json *usage = lr_json_get(event, "usage");
        if (usage != NULL && usage->type == LR_JSON_OBJECT) {
            (void)lr_json_u64(lr_json_get(usage, "prompt_tokens"), &t->prompt_tokens);
            (void)lr_json_u64(lr_json_get(usage, "completion_tokens"), &t->tokens);
        }
        struct lr_str refusal = wire_refusal_message(&arena, data);
        if (refusal.len != 0)
            keep_failure(t, refusal);
        if (choices != NULL && choices->count != 0)
            on_delta(t, lr_json_get(&choices->items[0], "delta"));
    }
    lr_arena_free(&arena);
}

static bool talk_has(const struct cli_talk *t, const char *flag)
{
    return lr_settings_knows(t->settings, lr_str_z(flag)) && lr_settings_has(t->settings, flag);
}

/* "json", or the schema in a file. */
static lr_code add_format(const struct cli_talk *t, struct lr_buf *body, struct lr_error *err)
{
    const char *format = talk_has(t, "format") ? lr_settings_str(t->settings, "format") : NULL;
    if (format == NULL)
        return LR_OK;
    if (strcmp(format, "json") == 0) {
        lr_buf_add_z(body, ",\"response_format\":{\"type\":\"json_object\"}");
        return LR_OK;
    }
    struct lr_arena arena;
    struct lr_buf schema;
    const struct lr_json *tree;
    lr_arena_init(&arena, (size_t)SCHEMA_BYTES * 32);
    lr_buf_init(&schema, SCHEMA_BYTES);
    struct lr_error why;
    lr_code code = lr_file_read_buf(format, &schema, &why);
    if (code == LR_OK)
        code = lr_json_parse(&arena, lr_buf_str(&schema), NULL, &tree, &why);
    if (code != LR_OK)
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "--format takes json, or a file with a JSON Schema: %.300s", why.text);
    else
        lr_buf_addf(body,
                    ",\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{"
                    "\"name\":\"answer\",\"schema\":" LR_STR_FMT "}}",
                    LR_STR_ARG(lr_buf_str(&schema)));
    lr_buf_free(&schema);
    lr_arena_free(&arena);
    return code;
}

static lr_code add_options(const struct cli_talk *t, struct lr_buf *body, struct lr_error *err)
{
    const struct lr_settings *s = t->settings;
    if (talk_has(t, "seed"))
        lr_buf_addf(body, ",\"seed\":%lld", (long long)lr_settings_int(s, "seed"));
    if (talk_has(t, "max-tokens"))
        lr_buf_addf(body, ",\"max_completion_tokens\":%lld",
                    (long long)lr_settings_int(s, "max-tokens"));
    if (talk_has(t, "think"))
        lr_buf_addf(body, ",\"think\":%s", lr_settings_bool(s, "think") ? "true" : "false");
    lr_buf_add_z(body, ",\"stream_options\":{\"include_usage\":true}");
    return add_format(t, body, err);
}

/* As Ollama prints them; the second rate is that of the answer alone. */
static void tell_times(const struct cli_talk *t)
{
    uint64_t now = lr_clock_ms(NULL), first = t->first_ms != 0 ? t->first_ms : now;
    double prompt = (double)(first - t->begin_ms) / 1000;
    double answer = (double)(now - first) / 1000;
    cli_tell(stderr,
             "total duration:    %.2f s\n"
             "prompt:            %llu tokens, first text after %.2f s\n"
             "answer:            %llu tokens in %.2f s, %.1f tokens/s\n",
             (double)(now - t->begin_ms) / 1000, (unsigned long long)t->prompt_tokens, prompt,
             (unsigned long long)t->tokens, answer,
             answer > 0 && t->tokens > 1 ? (double)(t->tokens - 1) / answer : 0);
}

lr_code cli_talk_turn(struct cli_talk *t, struct lr_str text, struct lr_error *err)
{
    struct lr_buf body;
    size_t before = t->history.len;
    lr_buf_init(&body, CLI_TALK_BYTES + SCHEMA_BYTES + 4096);
    t->begin_ms = lr_clock_ms(NULL);
    t->first_ms = t->prompt_tokens = t->tokens = 0;
    lr_buf_clear(&t->reply);
    t->failure = (struct lr_error){0};
    t->is_thinking = false;
    talk_add_message(t, "user", text);
    lr_buf_add_z(&body, "{\"model\":");
    lr_json_quote(&body, lr_str_z(t->model));
    lr_buf_addf(&body, ",\"stream\":true,\"temperature\":%g",
                lr_settings_float(t->settings, "temperature"));
    lr_code code = add_options(t, &body, err);
    lr_buf_addf(&body, ",\"messages\":[" LR_STR_FMT "]}", LR_STR_ARG(lr_buf_str(&t->history)));
    if (code != LR_OK) {
        t->history.len = before;
        lr_buf_free(&body);
        return code;
    }
    code = t->history.failed || body.failed
               ? lr_fail(err, LR_TOO_LARGE,
                         "the conversation is over %d bytes: begin a new one", CLI_TALK_BYTES)
               : cli_stream(t->settings, "/v1/chat/completions", &body, talk_on_event, t, err);
    (void)printf("\n");
    if (code == LR_OK)
        code = cli_printed(err);
    if (code == LR_OK && t->failure.code != LR_OK)
        code = lr_fail(err, t->failure.code, "%s", t->failure.text);
    if (code == LR_OK && lr_settings_knows(t->settings, LR_STR_LIT("verbose")) &&
        lr_settings_bool(t->settings, "verbose"))
        tell_times(t);
    /* A message without an answer is forgotten; the beginning of an answer is not. */
    if (t->reply.len != 0 || code == LR_OK)
        talk_add_message(t, "assistant", lr_buf_str(&t->reply));
    else
        t->history.len = before;
    lr_buf_free(&body);
    return code;
}

lr_code cli_talk_converse(struct cli_talk *t, struct lr_error *err)
{
    char *line = NULL;
    size_t size = 0;
    lr_code code = LR_OK;
    bool is_person = isatty(STDIN_FILENO) != 0;
    if (is_person)
        cli_tell(stdout, "Talking to %s; Ctrl-C ends an answer, Ctrl-D the conversation.\n",
                 t->model);
    while (code == LR_OK) {
        if (is_person)
            cli_tell(stdout, "\n> ");
        ssize_t got = getline(&line, &size, stdin);
        if (got < 0)
            break;
        struct lr_str text = lr_str_trim(lr_str(line, (size_t)got));
        if (text.len == 0)
            continue;
        code = cli_talk_turn(t, text, err);
        if (code == LR_CANCELLED && is_person)
            code = LR_OK;
    }
    if (is_person && code == LR_OK)
        (void)printf("\n");
    free(line);
    return code;
}

void cli_talk_join(const struct lr_settings *s, size_t first, struct lr_buf *out)
{
    for (size_t i = first; i < lr_settings_positional_count(s); i++)
        lr_buf_addf(out, "%s%s", i != first ? " " : "", lr_settings_positional(s, i));
}
