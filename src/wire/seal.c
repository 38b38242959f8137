#include "wire/seal.h"

#include "base/crc32c.h"
#include "wire/bytes.h"

static uint32_t u32_at(struct lr_str bytes, size_t at)
{
    struct wire_cursor c = wire_cursor(lr_str_sub(bytes, at, at + sizeof(uint32_t)));
    return wire_get_u32(&c);
}

void wire_seal(struct lr_buf *out, struct lr_str frames)
{
    while (frames.len >= WIRE_HEADER_LEN) {
        size_t len = WIRE_HEADER_LEN + (size_t)u32_at(frames, 0);
        uint32_t head = lr_crc32c(0, frames.ptr, WIRE_HEADER_LEN);
        wire_put_u32(out, head);
        lr_buf_add_str(out, lr_str_sub(frames, 0, len));
        wire_put_u32(out, lr_crc32c(head, frames.ptr + WIRE_HEADER_LEN, len - WIRE_HEADER_LEN));
        frames = lr_str_sub(frames, len, frames.len);
    }
}

static lr_code fail_changed(struct lr_error *err)
{
    return lr_fail(
        err, LR_INVALID_ARGUMENT,
        "a frame has a wrong checksum: bits were changed on the way; use TLS between "
        "router and node, and check the network");
}

lr_code wire_seal_next(struct lr_str *bytes, size_t frame_max, struct wire_frame *out,
                       bool *has, struct lr_error *err)
{
    struct lr_str frame = lr_str_sub(*bytes, WIRE_SEAL_LEAD, bytes->len);
    *has = false;
    if (frame.len < WIRE_HEADER_LEN)
        return LR_OK;
    uint32_t head = lr_crc32c(0, frame.ptr, WIRE_HEADER_LEN);
    if (head != u32_at(*bytes, 0))
        return fail_changed(err);
    size_t len = WIRE_HEADER_LEN + (size_t)u32_at(frame, 0);
    if (len > frame_max)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "a frame of %zu bytes is over the limit of %zu", len - WIRE_HEADER_LEN,
                       frame_max - WIRE_HEADER_LEN);
    if (frame.len < len + WIRE_SEAL_TAIL)
        return LR_OK;
    if (lr_crc32c(head, frame.ptr + WIRE_HEADER_LEN, len - WIRE_HEADER_LEN) !=
        u32_at(frame, len))
        return fail_changed(err);
    *bytes = lr_str_sub(frame, len + WIRE_SEAL_TAIL, frame.len);
    frame = lr_str_sub(frame, 0, len);
    return wire_frame_next(&frame, out, has, err);
}
