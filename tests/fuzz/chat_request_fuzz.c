/* LINK: chat base */
/* A request body (the first byte selects the API): parsed, or refused with a valid error body;
 * a parsed request can be answered. */
#include <stdint.h>
#include <stdlib.h>

#include "chat/codec.h"
#include "chat/dialect/dialect.h"
#include "chat/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void answer(const struct chat_request *req, struct lr_buf *out)
{
    struct wire_alternative top = {1, -1, LR_STR_LIT("a\"")};
    struct wire_token tokens[] = {
        {.bytes = LR_STR_LIT("<|channel|>"), .special = true},
        {.bytes = LR_STR_LIT("final")},
        {.bytes = LR_STR_LIT("<|message|>"), .special = true},
        {.bytes = LR_STR_LIT("ab\xF0"), .has_logprob = true, .top = {top}, .top_count = 1},
        {.bytes = LR_STR_LIT("\x9F\x98\x80"), .has_logprob = true},
    };
    struct chat_usage usage = {1, 2, 0};
    struct chat_response *r;
    struct chat_dialect dialect =
        chat_dialect_of(LR_STR_LIT("<|start|><|message|>"), (struct lr_str){0});
    struct chat_response_options o = {
        .request = req, .id = LR_STR_LIT("x"), .dialect = &dialect};
    if (chat_response_create(&o, &r, NULL) != LR_OK)
        abort();
    for (uint32_t c = 0; c < chat_request_choices(req); c++) {
        for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++)
            chat_response_on_token(r, c, &tokens[i], out);
        chat_response_on_done(r, c, LR_FINISH_LENGTH, &usage, out);
    }
    if (!chat_response_is_complete(r))
        abort();
    chat_response_destroy(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_arena arena;
    struct lr_buf out;
    struct chat_error e;
    const struct chat_request *req;
    const struct lr_json *root;
    if (size == 0 || size > (64 << 10))
        return 0;
    lr_arena_init(&arena, 16 << 20);
    lr_buf_init(&out, 16 << 20);
    const struct chat_codec *codec =
        (data[0] & 1) != 0 ? &chat_openai_chat : &chat_openai_completions;
    struct lr_str body = {(const char *)data + 1, size - 1};
    lr_code code = chat_request_parse(&arena, codec, body, &req, &e);
    if (code != LR_OK) {
        chat_error_write(&out, codec, &e);
        if (lr_code_http(code) < 400 || e.error.text[0] == '\0')
            abort();
    } else {
        answer(req, &out);
    }
    if ((code != LR_OK || !req->stream) &&
        lr_json_parse(&arena, lr_buf_str(&out), NULL, &root, NULL) != LR_OK)
        abort();
    lr_buf_free(&out);
    lr_arena_free(&arena);
    return 0;
}
