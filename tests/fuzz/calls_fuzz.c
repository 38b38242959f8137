/* LINK: chat base */
/* The output of a model of any dialect but Harmony: the first byte chooses the dialect, and
 * whether the prompt opened reasoning.  Bytes E0..EF stand for the marks of the form, FC..FF
 * are control tokens, all others are text.  The answer is valid JSON and the same whether text
 * comes whole or byte by byte, and its calls name declared tools. */
#include <stdint.h>
#include <stdlib.h>

#include "chat/codec.h"
#include "chat/dialect/dialect.h"
#include "chat/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const controls[4] = {"<tool_call>", "</tool_call>", "<|python_tag|>",
                                        "<|im_end|>"};

/* The text of a byte; empty: the byte itself. */
static struct lr_str text_of(const struct chat_dialect *d, unsigned char c)
{
    const struct grammar_form *f = grammar_form_of(d->format);
    const struct lr_str marks[16] = {
        f->section,
        f->section_end,
        f->begin,
        f->end,
        f->name_end,
        f->name_close,
        f->key,
        f->key_end,
        f->value,
        f->value_end,
        f->key_close,
        f->id_mark,
        d->thought.begin,
        d->thought.end,
        LR_STR_LIT("{\"name\": \"f\", \"arguments\": "),
        f->quote.len != 0    ? f->quote
        : f->id_end.len != 0 ? f->id_end
                             : f->heading,
    };
    return (c & 0xF0) == 0xE0 ? marks[c & 15] : (struct lr_str){0};
}

/* The input with its marks written out. */
static void write_out(const struct chat_dialect *d, struct lr_str input, struct lr_buf *out)
{
    for (size_t i = 0; i < input.len; i++) {
        struct lr_str text = text_of(d, (unsigned char)input.ptr[i]);
        lr_buf_add_str(out, text.len != 0 ? text : lr_str(input.ptr + i, 1));
    }
}

static const struct chat_request *request(struct lr_arena *arena, const char *body)
{
    const struct chat_request *req;
    struct chat_error e;
    if (chat_request_parse(arena, &chat_openai_chat, lr_str_z(body), &req, &e) != LR_OK)
        abort();
    return req;
}

static void answer(const struct chat_request *req, const struct chat_dialect *dialect,
                   bool is_opened, struct lr_str input, bool split, struct lr_buf *out)
{
    struct chat_response *r;
    struct chat_response_options o = {
        .request = req, .id = LR_STR_LIT("x"), .dialect = dialect, .is_opened = is_opened};
    struct chat_usage usage = {0};
    if (chat_response_create(&o, &r, NULL) != LR_OK)
        abort();
    for (size_t i = 0; i < input.len;) {
        unsigned char c = (unsigned char)input.ptr[i];
        struct wire_token t = {.special = c >= 0xFC};
        size_t n = 1;
        while (!t.special && !split && i + n < input.len &&
               (unsigned char)input.ptr[i + n] < 0xFC)
            n++;
        t.bytes = t.special ? lr_str_z(controls[c - 0xFC]) : lr_str(input.ptr + i, n);
        if (!chat_response_on_token(r, 0, &t, out))
            abort();
        i += n;
    }
    chat_response_on_done(r, 0, input.len % 3 == 0 ? LR_FINISH_LENGTH : LR_FINISH_STOP, &usage,
                          out);
    if (!chat_response_is_complete(r) || out->failed)
        abort();
    chat_response_destroy(r);
}

static void check_calls(const struct lr_json *calls)
{
    for (uint32_t i = 0; calls != NULL && i < calls->count; i++) {
        const struct lr_json *function = lr_json_get(&calls->items[i], "function");
        struct lr_str name, arguments;
        if (!lr_json_str(lr_json_get(function, "name"), &name) ||
            !lr_json_str(lr_json_get(function, "arguments"), &arguments) ||
            !(lr_str_eq_z(name, "f") || lr_str_eq_z(name, "gg")) ||
            (arguments.len != 0 && arguments.ptr[0] != '{'))
            abort();
    }
}

/* The message of a body as text, without usage, which counts tokens. */
static struct lr_str message(struct lr_arena *arena, struct lr_str body)
{
    const struct lr_json *root;
    if (lr_json_parse(arena, body, NULL, &root, NULL) != LR_OK)
        abort();
    check_calls(lr_json_get(lr_json_get(&lr_json_get(root, "choices")->items[0], "message"),
                            "tool_calls"));
    return lr_str_sub(body, 0, lr_str_find(body, LR_STR_LIT("],\"usage\"")));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || size > 8192)
        return 0;
#define TOOL(name) "{\"type\":\"function\",\"function\":{\"name\":\"" name "\"}}"
#define REQUEST                                                                                \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}],\"tools\":[" TOOL(   \
        "f") "," TOOL("gg") "]"
    enum grammar_format format =
        (enum grammar_format)(GRAMMAR_MUSE + data[0] % (GRAMMAR_FORMAT_COUNT - 2));
    bool is_opened = data[0] >= 128;
    struct chat_dialect dialect;
    struct lr_buf written;
    lr_buf_init(&written, 1 << 20);
    if (!chat_dialect_named(lr_str_z(grammar_format_name(format)), LR_STR_LIT("<think>"),
                            &dialect))
        abort();
    write_out(&dialect, lr_str((const char *)data + 1, size - 1), &written);
    struct lr_str input = lr_buf_str(&written);
    struct lr_arena arena;
    struct lr_buf whole, split, stream;
    lr_arena_init(&arena, 256 << 20);
    lr_buf_init(&whole, 64 << 20);
    lr_buf_init(&split, 64 << 20);
    lr_buf_init(&stream, 64 << 20);

    const struct chat_request *req = request(&arena, REQUEST "}");
    answer(req, &dialect, is_opened, input, false, &whole);
    answer(req, &dialect, is_opened, input, true, &split);
    if (!lr_str_eq(message(&arena, lr_buf_str(&whole)), message(&arena, lr_buf_str(&split))))
        abort();
    answer(request(&arena, REQUEST ",\"stream\":true,\"logprobs\":true}"), &dialect, is_opened,
           input, true, &stream);

    lr_buf_free(&written);
    lr_buf_free(&whole);
    lr_buf_free(&split);
    lr_buf_free(&stream);
    lr_arena_free(&arena);
    return 0;
}
