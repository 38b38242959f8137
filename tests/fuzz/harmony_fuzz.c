/* LINK: chat base */
/* A Harmony stream: bytes F8..FF are control tokens, all others are text.  The answer is valid
 * JSON and the same whether text comes whole or byte by byte, streamed or collected. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "chat/codec.h"
#include "chat/dialect/dialect.h"
#include "chat/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const controls[8] = {"<|start|>",     "<|channel|>",   "<|message|>",
                                        "<|end|>",       "<|call|>",      "<|return|>",
                                        "<|constrain|>", "<|reserved_1|>"};

static const struct chat_request *request(struct lr_arena *arena, const char *body)
{
    const struct chat_request *req;
    struct chat_error e;
    if (chat_request_parse(arena, &chat_openai_chat, lr_str_z(body), &req, &e) != LR_OK)
        abort();
    return req;
}

static void answer(const struct chat_request *req, struct lr_str input, bool split,
                   struct lr_buf *out)
{
    struct chat_response *r;
    struct chat_dialect dialect =
        chat_dialect_of(LR_STR_LIT("<|start|><|message|>"), (struct lr_str){0});
    struct chat_response_options o = {
        .request = req, .id = LR_STR_LIT("x"), .dialect = &dialect};
    struct chat_usage usage = {0};
    if (chat_response_create(&o, &r, NULL) != LR_OK)
        abort();
    for (size_t i = 0; i < input.len;) {
        unsigned char c = (unsigned char)input.ptr[i];
        struct wire_token t = {.special = c >= 0xF8};
        size_t n = 1;
        while (!t.special && !split && i + n < input.len &&
               (unsigned char)input.ptr[i + n] < 0xF8)
            n++;
        t.bytes = t.special ? lr_str_z(controls[c - 0xF8]) : lr_str(input.ptr + i, n);
        if (!chat_response_on_token(r, 0, &t, out))
            break;
        i += n;
    }
    chat_response_on_done(r, 0, LR_FINISH_STOP, &usage, out);
    if (!chat_response_is_complete(r) || out->failed)
        abort();
    chat_response_destroy(r);
}

/* The message of a body as text, without usage, which counts tokens. */
static struct lr_str message(struct lr_arena *arena, struct lr_str body)
{
    const struct lr_json *root;
    if (lr_json_parse(arena, body, NULL, &root, NULL) != LR_OK)
        abort();
    return lr_str_sub(body, 0, lr_str_find(body, LR_STR_LIT("],\"usage\"")));
}

static void check_events(struct lr_arena *arena, struct lr_str events)
{
    while (events.len > 0) {
        const struct lr_json *root;
        size_t end = lr_str_find(events, LR_STR_LIT("\n\n"));
        struct lr_str event = lr_str_sub(events, 6, end);
        if (end == LR_STR_NONE || (!lr_str_eq_z(event, "[DONE]") &&
                                   lr_json_parse(arena, event, NULL, &root, NULL) != LR_OK))
            abort();
        events = lr_str_sub(events, end + 2, events.len);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 4096)
        return 0;
#define MESSAGES "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\"}]"
    struct lr_arena arena;
    struct lr_buf whole, split, stream;
    struct lr_str input = {(const char *)data, size};
    lr_arena_init(&arena, 256 << 20);
    lr_buf_init(&whole, 64 << 20);
    lr_buf_init(&split, 64 << 20);
    lr_buf_init(&stream, 64 << 20);

    const struct chat_request *req = request(&arena, MESSAGES ",\"stop\":[\"ab\",\"bc\\n\"]}");
    answer(req, input, false, &whole);
    answer(req, input, true, &split);
    if (!lr_str_eq(message(&arena, lr_buf_str(&whole)), message(&arena, lr_buf_str(&split))))
        abort();
    answer(request(&arena, MESSAGES ",\"stream\":true}"), input, false, &stream);
    check_events(&arena, lr_buf_str(&stream));

    lr_buf_free(&whole);
    lr_buf_free(&split);
    lr_buf_free(&stream);
    lr_arena_free(&arena);
    return 0;
}
