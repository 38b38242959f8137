/* LINK: chat base */
/* A body of POST /v1/responses with what the store has of its conversation: body, NUL, items of
 * the conversation, NUL, items that the body refers to.  The body is refused, or its answer's
 * record is JSON. */
#include <stdint.h>
#include <stdlib.h>

#include "chat/codec.h"
#include "chat/response.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_json(struct lr_str text)
{
    struct lr_arena arena;
    const struct lr_json *root;
    lr_arena_init(&arena, 64 << 20);
    if (lr_json_parse(&arena, text, &(struct lr_json_limits){.max_depth = 80}, &root, NULL) !=
        LR_OK)
        abort();
    lr_arena_free(&arena);
}

static void check_record(const struct chat_request *req)
{
    struct chat_usage usage = {1, 2, 0};
    struct wire_token token = {.bytes = LR_STR_LIT("ab")};
    struct chat_response_options o = {.request = req,
                                      .id = LR_STR_LIT("resp_aaaaaaaaaaaaaaaaaaaaaaaa")};
    struct chat_record record;
    struct chat_response *r;
    struct lr_buf out;
    lr_buf_init(&out, 16 << 20);
    if (chat_response_create(&o, &r, NULL) != LR_OK)
        abort();
    chat_response_on_token(r, 0, &token, &out);
    chat_response_on_done(r, 0, LR_FINISH_STOP, &usage, &out);
    if (chat_response_is_due(r)) {
        if (!chat_response_record(r, req, NULL, NULL, 16 << 20, &record))
            abort();
        check_json(lr_buf_str(&record.input));
        check_json(lr_buf_str(&record.answer));
        check_json(lr_buf_str(&record.output));
        if (record.output_at > record.answer.len)
            abort();
        chat_record_free(&record);
        chat_response_complete(r, true, &out);
    }
    if (!chat_response_is_complete(r))
        abort();
    chat_response_destroy(r);
    lr_buf_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_str rest = lr_str((const char *)data, size), body = {0};
    struct chat_stored stored = {0};
    struct chat_terms terms = {.can_keep = true, .stored = &stored};
    struct chat_wanted wanted = {0};
    const struct chat_request *req = NULL;
    const struct lr_json *root;
    struct chat_error e = {0};
    struct lr_str model;
    struct lr_arena arena;
    if (size > (64 << 10))
        return 0;
    (void)(lr_str_split(&rest, '\0', &body) && lr_str_split(&rest, '\0', &stored.earlier) &&
           lr_str_split(&rest, '\0', &stored.items));
    lr_arena_init(&arena, 16 * size + (64 << 10));
    lr_code code = chat_request_read(&arena, body, &root, &model, &e);
    if (code == LR_OK)
        code = chat_responses.find_stored(&arena, root, &wanted, &e);
    if (code == LR_OK)
        code = chat_request_check(&arena, &chat_responses, root, &terms, &req, &e);
    if (code == LR_OUT_OF_RAM || (code != LR_OK && e.error.text[0] == '\0'))
        abort();
    if (code == LR_OK)
        check_record(req);
    lr_arena_free(&arena);
    return 0;
}
