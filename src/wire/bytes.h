/* wire/bytes.h - writing and reading little-endian numbers and length-prefixed texts.
 *
 * Writing appends to an lr_buf and needs no checks.  Reading is bounded: a cursor that runs
 * past its end becomes `failed` and gives zeros from then on; callers check it once, at the end
 * of a message.
 */
#ifndef WIRE_BYTES_H
#define WIRE_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/str.h"

static inline void wire_put_u8(struct lr_buf *buf, uint8_t v)
{
    lr_buf_add_char(buf, (char)v);
}

static inline void wire_put_u16(struct lr_buf *buf, uint16_t v)
{
    unsigned char b[2] = {(unsigned char)v, (unsigned char)(v >> 8)};
    lr_buf_add(buf, b, sizeof(b));
}

static inline void wire_put_u32(struct lr_buf *buf, uint32_t v)
{
    unsigned char b[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16),
                          (unsigned char)(v >> 24)};
    lr_buf_add(buf, b, sizeof(b));
}

static inline void wire_put_u64(struct lr_buf *buf, uint64_t v)
{
    unsigned char b[8];
    for (unsigned i = 0; i < 8; i++)
        b[i] = (unsigned char)(v >> (8 * i));
    lr_buf_add(buf, b, sizeof(b));
}

static inline void wire_put_f32(struct lr_buf *buf, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof(bits));
    wire_put_u32(buf, bits);
}

/* A 32-bit length, then the bytes. */
static inline void wire_put_str(struct lr_buf *buf, struct lr_str s)
{
    wire_put_u32(buf, (uint32_t)s.len);
    lr_buf_add_str(buf, s);
}

static inline void wire_put_u32s(struct lr_buf *buf, const uint32_t *v, size_t count)
{
    wire_put_u32(buf, (uint32_t)count);
    for (size_t i = 0; i < count; i++)
        wire_put_u32(buf, v[i]);
}

struct wire_cursor {
    const unsigned char *at;
    const unsigned char *end;
    bool failed;
};

static inline struct wire_cursor wire_cursor(struct lr_str body)
{
    const unsigned char *at = (const unsigned char *)body.ptr;
    return (struct wire_cursor){at, at != NULL ? at + body.len : at, false};
}

static inline const unsigned char *wire_take(struct wire_cursor *c, size_t len)
{
    if (c->failed || (size_t)(c->end - c->at) < len) {
        c->failed = true;
        return NULL;
    }
    const unsigned char *p = c->at;
    c->at += len;
    return p;
}

static inline uint8_t wire_get_u8(struct wire_cursor *c)
{
    const unsigned char *p = wire_take(c, 1);
    return p != NULL ? *p : 0;
}

static inline uint16_t wire_get_u16(struct wire_cursor *c)
{
    const unsigned char *p = wire_take(c, 2);
    return p != NULL ? (uint16_t)((unsigned)p[0] | (unsigned)p[1] << 8) : (uint16_t)0;
}

static inline uint32_t wire_get_u32(struct wire_cursor *c)
{
    const unsigned char *p = wire_take(c, 4);
    return p != NULL ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                           (uint32_t)p[3] << 24
                     : 0;
}

static inline uint64_t wire_get_u64(struct wire_cursor *c)
{
    uint64_t low = wire_get_u32(c);
    return low | (uint64_t)wire_get_u32(c) << 32;
}

static inline float wire_get_f32(struct wire_cursor *c)
{
    uint32_t bits = wire_get_u32(c);
    float v;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* Borrowed from the body. */
static inline struct lr_str wire_get_str(struct wire_cursor *c)
{
    uint32_t len = wire_get_u32(c);
    const unsigned char *p = wire_take(c, len);
    return p != NULL ? lr_str((const char *)p, len) : lr_str("", 0);
}

/* True when the message was read exactly to its end. */
static inline bool wire_cursor_done(const struct wire_cursor *c)
{
    return !c->failed && c->at == c->end;
}

#endif
