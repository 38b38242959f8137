/* Shared by the fuzz targets of APIs that answer with vectors: a body is refused with a valid
 * error body, or answered with a vector for each text; all output is JSON. */
#ifndef TESTS_VECTORS_FUZZ_H
#define TESTS_VECTORS_FUZZ_H

#include "codec_fuzz.h"

static inline void answer_vectors(const struct chat_request *req, struct lr_buf *out)
{
    static const unsigned char values[8] = {0, 0, 0x80, 0x3f, 1, 2, 3, 0x3d};
    struct wire_vector v = {.count = 2, .values = values};
    struct chat_usage usage = {1, 0, 0};
    struct chat_response *r;
    struct chat_response_options o = {.request = req, .id = LR_STR_LIT("id_x")};
    if (chat_response_create(&o, &r, NULL) != LR_OK)
        abort();
    for (uint32_t i = 0; i < chat_request_choices(req); i++) {
        chat_response_on_vector(r, i, &v, out);
        chat_response_on_done(r, i, LR_FINISH_STOP, &usage, out);
    }
    if (!chat_response_is_complete(r))
        abort();
    chat_response_destroy(r);
}

static inline void fuzz_vectors(const struct chat_codec *codec, struct lr_str body)
{
    struct lr_arena arena, scratch;
    struct lr_buf out;
    struct chat_error e;
    const struct chat_request *req;
    const struct lr_json *root;
    if (body.len > (64 << 10))
        return;
    lr_arena_init(&arena, 16 * body.len + (64 << 10));
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
        answer_vectors(req, &out);
    }
    if (lr_json_parse(&scratch, lr_buf_str(&out), NULL, &root, NULL) != LR_OK)
        abort();
    lr_buf_free(&out);
    lr_arena_free(&arena);
    lr_arena_free(&scratch);
}

#endif
