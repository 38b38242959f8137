#include "wire/frame.h"

#include "wire/bytes.h"

size_t wire_frame_begin(struct lr_buf *buf, enum wire_type type)
{
    size_t start = buf->len;
    const unsigned char head[WIRE_HEADER_LEN] = {0, 0, 0, 0, WIRE_VERSION, (unsigned char)type};
    lr_buf_add(buf, head, sizeof(head));
    return start;
}

void wire_frame_end(struct lr_buf *buf, size_t start)
{
    if (buf->failed) {
        buf->len = start; /* half a frame would be taken for a whole one */
        return;
    }
    size_t len = buf->len - start - WIRE_HEADER_LEN;
    if (len > WIRE_BODY_MAX) {
        buf->failed = true;
        buf->len = start;
        return;
    }
    for (size_t i = 0; i < 4; i++)
        buf->data[start + i] = (char)(unsigned char)(len >> (8 * i));
}

lr_code wire_frame_next(struct lr_str *bytes, struct wire_frame *out, bool *has,
                        struct lr_error *err)
{
    *has = false;
    if (bytes->len < WIRE_HEADER_LEN)
        return LR_OK;
    struct wire_cursor c = wire_cursor(*bytes);
    uint32_t len = wire_get_u32(&c);
    uint8_t version = wire_get_u8(&c);
    uint8_t type = wire_get_u8(&c);
    uint16_t zero = wire_get_u16(&c);
    if (version != WIRE_VERSION || zero != 0)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "a frame of protocol version %u arrived, this program speaks %d: both "
                       "ends must be of one release",
                       version, WIRE_VERSION);
    if (len > WIRE_BODY_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "a frame of %u bytes is over the limit of %d",
                       len, WIRE_BODY_MAX);
    if (bytes->len - WIRE_HEADER_LEN < len)
        return LR_OK;
    *out = (struct wire_frame){
        .type = (enum wire_type)type,
        .body = lr_str(bytes->ptr + WIRE_HEADER_LEN, len),
        .bytes = lr_str(bytes->ptr, WIRE_HEADER_LEN + (size_t)len),
    };
    *bytes = lr_str_sub(*bytes, out->bytes.len, bytes->len);
    *has = true;
    return LR_OK;
}

lr_code wire_malformed(struct lr_error *err, const char *what)
{
    return lr_fail(err, LR_INVALID_ARGUMENT, "a malformed %s frame arrived", what);
}
