#include "wire/reader.h"

#include "wire/bytes.h"
#include "wire/seal.h"

enum { KEEP_BYTES = 64 << 10 /* of memory, between two frames that were cut */ };

void wire_reader_init(struct wire_reader *reader, size_t body_max)
{
    *reader = (struct wire_reader){.frame_max = WIRE_HEADER_LEN + body_max};
    lr_buf_init(&reader->kept, WIRE_SEAL_LEAD + reader->frame_max + WIRE_SEAL_TAIL);
}

void wire_reader_expect_seals(struct wire_reader *reader)
{
    reader->is_sealed = true;
}

void wire_reader_free(struct wire_reader *reader)
{
    lr_buf_free(&reader->kept);
    reader->rest = (struct lr_str){0};
    reader->is_whole = false;
}

/* Moves bytes of the read behind the kept ones, until those are `len` bytes. */
static bool reader_keep(struct wire_reader *r, size_t len)
{
    size_t missing = len > r->kept.len ? len - r->kept.len : 0;
    struct lr_str part = lr_str_sub(r->rest, 0, missing);
    lr_buf_add_str(&r->kept, part);
    r->rest = lr_str_sub(r->rest, part.len, r->rest.len);
    return !r->kept.failed && r->kept.len >= len;
}

/* Bytes until the length of a frame is known. */
static size_t head_len(const struct wire_reader *r)
{
    return WIRE_HEADER_LEN + (r->is_sealed ? (size_t)WIRE_SEAL_LEAD : 0);
}

/* Bytes of a frame whose head is there, with its seal. */
static size_t frame_len(const struct wire_reader *r, struct lr_str bytes)
{
    struct wire_cursor c =
        wire_cursor(r->is_sealed ? lr_str_sub(bytes, WIRE_SEAL_LEAD, bytes.len) : bytes);
    return WIRE_HEADER_LEN + (size_t)wire_get_u32(&c) +
           (r->is_sealed ? (size_t)WIRE_SEAL_LEAD + WIRE_SEAL_TAIL : 0);
}

static lr_code read_one(const struct wire_reader *r, struct lr_str *bytes,
                        struct wire_frame *out, bool *has, struct lr_error *err)
{
    if (r->is_sealed)
        return wire_seal_next(bytes, r->frame_max, out, has, err);
    if (bytes->len >= WIRE_HEADER_LEN && frame_len(r, *bytes) > r->frame_max)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "a frame of %zu bytes is over the limit of %zu",
                       frame_len(r, *bytes) - WIRE_HEADER_LEN, r->frame_max - WIRE_HEADER_LEN);
    return wire_frame_next(bytes, out, has, err);
}

void wire_reader_give(struct wire_reader *reader, struct lr_str bytes)
{
    struct lr_buf *kept = &reader->kept;
    reader->rest = bytes;
    if (kept->len == 0 || reader->is_whole || !reader_keep(reader, head_len(reader)))
        return;
    struct lr_str head = lr_buf_str(kept);
    struct wire_frame frame;
    bool has, is_bad = read_one(reader, &head, &frame, &has, NULL) != LR_OK;
    reader->is_whole =
        is_bad ||
        reader_keep(reader, frame_len(reader, lr_buf_str(kept))); /* bad: _next says it */
}

lr_code wire_reader_next(struct wire_reader *reader, struct wire_frame *out, bool *has,
                         struct lr_error *err)
{
    struct lr_buf *kept = &reader->kept;
    *has = false;
    if (reader->is_whole) {
        struct lr_str bytes = lr_buf_str(kept);
        lr_code code = read_one(reader, &bytes, out, has, err);
        /* The bytes stay where they are until the next call. */
        kept->len = 0;
        reader->is_whole = false;
        return code;
    }
    if (kept->len == 0 && kept->capacity > KEEP_BYTES)
        lr_buf_free(kept);
    if (kept->len == 0) {
        lr_code code = read_one(reader, &reader->rest, out, has, err);
        if (code != LR_OK || *has)
            return code;
        (void)reader_keep(reader, reader->rest.len);
    }
    return kept->failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory for a frame") : LR_OK;
}

bool wire_reader_look(const struct wire_reader *reader, size_t *at, struct wire_frame *out)
{
    struct lr_str rest = reader->rest;
    bool has = false;
    if (*at == 0 && reader->is_whole) {
        struct lr_str bytes = lr_buf_str(&reader->kept);
        *at = 1;
        return read_one(reader, &bytes, out, &has, NULL) == LR_OK && has;
    }
    size_t skip = *at != 0 ? *at - 1 : 0;
    rest = lr_str_sub(rest, skip, rest.len);
    size_t before = rest.len;
    if (read_one(reader, &rest, out, &has, NULL) != LR_OK || !has)
        return false;
    *at = skip + (before - rest.len) + 1;
    return true;
}
