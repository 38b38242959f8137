/* cli/debug_harmony.c - `debug harmony`: the client's view of a gpt-oss answer.
 *
 * Without --tokenizer stdin is text in which <|name|> is a control token; with it, a JSON array
 * of token ids.  The result is the message of a chat completion, or with --stream its events.
 */
#include "base/json.h"
#include "chat/codec.h"
#include "chat/dialect/dialect.h"
#include "chat/response.h"
#include "cli/commands.h"
#include "tokenizer/tokenizer.h"

enum { INPUT_MAX = 64 << 20, TREE_MAX = 1 << 30, OUTPUT_MAX = 1 << 30 };

/* A request whose answer the text could be. */
#define REQUEST(stream)                                                                        \
    "{\"model\":\"harmony\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}],"              \
    "\"stream\":" stream "}"

struct answer {
    struct lr_arena arena;
    struct chat_response *response;
    struct lr_buf out;
    uint32_t tokens;
};

static void feed(struct answer *a, struct lr_str bytes, bool special)
{
    struct wire_token token = {.bytes = bytes, .special = special};
    a->tokens++;
    chat_response_on_token(a->response, 0, &token, &a->out);
}

/* Length of the control token at the front of s: <|letters, digits, _|>; 0: none. */
static size_t control_len(struct lr_str s)
{
    size_t i = 2;
    if (!lr_str_starts(s, "<|"))
        return 0;
    while (i < s.len && ((s.ptr[i] >= 'a' && s.ptr[i] <= 'z') || s.ptr[i] == '_' ||
                         (s.ptr[i] >= '0' && s.ptr[i] <= '9')))
        i++;
    return i > 2 && lr_str_starts(lr_str_sub(s, i, s.len), "|>") ? i + 2 : 0;
}

static void feed_text(struct answer *a, struct lr_str s)
{
    while (s.len > 0) {
        size_t n = control_len(s);
        bool special = n > 0;
        for (; !special && n < s.len && (n == 0 || control_len(lr_str_sub(s, n, s.len)) == 0);)
            n++;
        feed(a, lr_str(s.ptr, n), special);
        s = lr_str_sub(s, n, s.len);
    }
}

static lr_code feed_ids(struct answer *a, const char *path, struct lr_str json,
                        struct lr_error *err)
{
    const struct lr_json *list;
    struct tokenizer *t = NULL;
    lr_code rc = lr_json_parse(&a->arena, json, NULL, &list, err);
    if (rc != LR_OK)
        return lr_fail_prefix(err, "--tokenizer wants a JSON array of token ids on stdin");
    if (list->type != LR_JSON_ARRAY)
        return lr_fail(err, LR_INVALID_ARGUMENT, "a JSON array of token ids is expected");
    rc = tokenizer_open_file(path, &t, err);
    for (uint32_t i = 0; rc == LR_OK && i < list->count; i++) {
        uint64_t id;
        const char *bytes;
        uint32_t len;
        uint32_t flags;
        if (!lr_json_u64(&list->items[i], &id) || id > UINT32_MAX ||
            !tokenizer_token(t, (uint32_t)id, &bytes, &len, &flags))
            rc = lr_fail(err, LR_INVALID_ARGUMENT, "item %u is no token id of %s", i, path);
        else
            feed(a, lr_str(bytes, len), (flags & LR_VOCAB_SPECIAL) != 0);
    }
    tokenizer_free(t);
    return rc;
}

/* Keeps only the message of a whole answer. */
static lr_code keep_message(struct answer *a, struct lr_error *err)
{
    const struct lr_json *root;
    struct lr_buf message;
    struct lr_json_writer w;
    lr_code rc = lr_json_parse(&a->arena, lr_buf_str(&a->out), NULL, &root, err);
    if (rc != LR_OK)
        return rc;
    const struct lr_json *choices = lr_json_get(root, "choices");
    if (!lr_json_is(choices, LR_JSON_ARRAY) || choices->count != 1)
        return lr_fail(err, LR_INTERNAL, "the answer has no choice");
    lr_buf_init(&message, OUTPUT_MAX);
    lr_json_writer_init(&w, &message);
    lr_json_put_value(&w, lr_json_get(&choices->items[0], "message"));
    lr_buf_add_char(&message, '\n');
    rc = message.failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory for the message")
                        : cli_print(&message, err);
    lr_buf_free(&message);
    return rc;
}

static lr_code debug_harmony_answer(struct answer *a, const struct lr_settings *settings,
                                    struct lr_str input, struct lr_error *err)
{
    bool stream = lr_settings_bool(settings, "stream");
    const char *tokenizer = lr_settings_str(settings, "tokenizer");
    const struct chat_request *req;
    struct chat_error e;
    lr_code rc = chat_request_parse(
        &a->arena, &chat_openai_chat,
        stream ? LR_STR_LIT(REQUEST("true")) : LR_STR_LIT(REQUEST("false")), &req, &e);
    if (rc != LR_OK)
        return lr_fail(err, rc, "%s", e.error.text);
    struct chat_dialect dialect;
    (void)chat_dialect_named(LR_STR_LIT("harmony"), (struct lr_str){0}, &dialect);
    struct chat_response_options options = {
        .request = req, .id = LR_STR_LIT("chatcmpl-debug"), .dialect = &dialect};
    rc = chat_response_create(&options, &a->response, err);
    if (rc != LR_OK)
        return rc;

    if (tokenizer != NULL)
        rc = feed_ids(a, tokenizer, input, err);
    else
        feed_text(a, input);
    if (rc != LR_OK)
        return rc;
    struct chat_usage usage = {.completion_tokens = a->tokens};
    chat_response_on_done(a->response, 0, LR_FINISH_STOP, &usage, &a->out);
    if (a->out.failed)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the result");
    return stream ? cli_print(&a->out, err) : keep_message(a, err);
}

static lr_code debug_harmony_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct answer a = {0};
    struct lr_buf input;

    lr_arena_init(&a.arena, TREE_MAX);
    lr_buf_init(&a.out, OUTPUT_MAX);
    lr_buf_init(&input, INPUT_MAX);
    lr_code rc = cli_read_stdin(&input, err);
    if (rc == LR_OK)
        rc = debug_harmony_answer(&a, settings, lr_buf_str(&input), err);
    chat_response_destroy(a.response);
    lr_buf_free(&input);
    lr_buf_free(&a.out);
    lr_arena_free(&a.arena);
    return rc;
}

static const struct lr_setting flags[] = {
    {.name = "tokenizer",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "tokenizer.json of the model; stdin is then a JSON array of token ids"},
    {.name = "stream",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print the events of a stream instead of the message"},
};

const struct cli_command cli_debug_harmony = {
    .name = "harmony",
    .summary = "Convert output of gpt-oss into an OpenAI message",
    .details = "stdin is the text after the prompt (after <|start|>assistant); <|name|> in it "
               "is a control token.\n"
               "  printf '<|channel|>final<|message|>Hi<|return|>' | llm-router debug harmony",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = debug_harmony_run,
};
