/* Shared by the fuzz targets of chat APIs: a body is refused with a valid error body, or
 * rendered and answered with a call of its first tool; all output is JSON.
 */
#ifndef TESTS_CODEC_FUZZ_H
#define TESTS_CODEC_FUZZ_H

#include <stdint.h>
#include <stdlib.h>

#include "chat/codec.h"
#include "chat/dialect/dialect.h"
#include "chat/prompt.h"
#include "chat/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void say(struct chat_response *r, struct lr_str bytes, bool special,
                       struct lr_buf *out)
{
    struct wire_token token = {
        .bytes = bytes, .special = special, .has_logprob = true, .logprob = -1};
    chat_response_on_token(r, 0, &token, out);
}

/* call: the arguments of the call, which end in the middle. */
static inline void answer(const struct chat_request *req, struct lr_str call,
                          struct lr_buf *out)
{
    struct lr_str name = LR_STR_LIT("f");
    struct chat_usage usage = {1, 2, 0};
    struct chat_response *r;
    struct chat_dialect dialect =
        chat_dialect_of(LR_STR_LIT("<|start|><|message|>"), (struct lr_str){0});
    struct chat_response_options o = {
        .request = req, .id = LR_STR_LIT("id_x"), .dialect = &dialect};
    if (chat_response_create(&o, &r, NULL) != LR_OK)
        abort();
    if (req->tools != NULL)
        (void)lr_json_str(lr_json_get(lr_json_get(&req->tools->items[0], "function"), "name"),
                          &name);
    say(r, LR_STR_LIT("<|channel|>"), true, out);
    say(r, LR_STR_LIT("final"), false, out);
    say(r, LR_STR_LIT("<|message|>"), true, out);
    say(r, LR_STR_LIT("ab\xF0"), false, out);
    say(r, LR_STR_LIT("\x9F\x98\x80"), false, out);
    say(r, LR_STR_LIT("<|end|>"), true, out);
    say(r, LR_STR_LIT("<|start|>"), true, out);
    say(r, LR_STR_LIT("assistant to=functions."), false, out);
    say(r, name, false, out);
    say(r, LR_STR_LIT("<|message|>"), true, out);
    say(r, call, false, out);
    chat_response_on_done(r, 0, LR_FINISH_LENGTH, &usage, out);
    if (!chat_response_is_complete(r))
        abort();
    chat_response_destroy(r);
}

static inline void render(const struct chat_request *req)
{
    struct chat_model model = {
        .dialect = chat_dialect_of(LR_STR_LIT("<|start|><|message|>"), (struct lr_str){0})};
    struct chat_prompt prompt;
    struct lr_error err;
    lr_code code = chat_prompt_render(req, &model, 0, 0, &prompt, &err);
    if (code != LR_OK && err.text[0] == '\0')
        abort();
    chat_prompt_free(&prompt);
}

/* Every line of data is JSON; begin: of such a line. */
static inline void check_lines(struct lr_arena *arena, struct lr_str text, const char *begin)
{
    struct lr_str line;
    const struct lr_json *root;
    while (lr_str_split(&text, '\n', &line))
        if (line.len > 0 && lr_str_starts(line, begin) &&
            lr_json_parse(arena, lr_str_sub(line, strlen(begin), line.len),
                          &(struct lr_json_limits){.max_depth = 80}, &root, NULL) != LR_OK)
            abort();
}

static inline void fuzz_codec(const struct chat_codec *codec, struct lr_str call,
                              struct lr_str body)
{
    struct lr_arena arena, scratch;
    struct lr_buf out;
    struct chat_error e;
    const struct chat_request *req;
    const struct lr_json *root;
    if (body.len > (64 << 10))
        return;
    lr_arena_init(&arena,
                  16 * body.len + (64 << 10)); /* the documented limit of chat/codec.h */
    lr_arena_init(&scratch, 64 << 20);
    lr_buf_init(&out, 16 << 20);
    lr_code code = chat_request_parse(&arena, codec, body, &req, &e);
    if (code == LR_OUT_OF_RAM)
        abort();
    if (code != LR_OK) {
        chat_error_write(&out, codec, &e);
        if (lr_code_http(code) < 400 || e.error.text[0] == '\0')
            abort();
    } else {
        render(req);
        answer(req, call, &out);
    }
    if (code == LR_OK && req->stream)
        check_lines(&scratch, lr_buf_str(&out), codec->stream_type == NULL ? "data: " : "");
    else if (lr_json_parse(&scratch, lr_buf_str(&out), NULL, &root, NULL) != LR_OK)
        abort();
    lr_buf_free(&out);
    lr_arena_free(&arena);
    lr_arena_free(&scratch);
}

#endif
