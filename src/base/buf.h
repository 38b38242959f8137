/* base/buf.h - a growing buffer with a limit.
 *
 * A buffer is created with the most bytes it may ever hold.  An append past the limit or
 * without memory sets `failed` and is dropped, like all later appends.  So callers append
 * freely and check `failed` once, at the end.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/str.h"
#include "llm-router/status.h"

struct lr_buf {
    char *data; /* owned; not terminated */
    size_t len;
    size_t capacity;
    size_t limit;
    bool failed; /* an append was dropped; stays set until lr_buf_clear */
};

void lr_buf_init(struct lr_buf *buf, size_t limit);
void lr_buf_free(struct lr_buf *buf);  /* leaves an empty buffer with the same limit */
void lr_buf_clear(struct lr_buf *buf); /* keeps the memory, resets `failed` */

void lr_buf_grow_and_add(struct lr_buf *buf, const void *bytes, size_t len);

/* Inline: messages are written as many small numbers, and most appends fit without growing. */
static inline void lr_buf_add(struct lr_buf *buf, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    if (buf->failed || len > buf->capacity - buf->len) {
        lr_buf_grow_and_add(buf, bytes, len);
        return;
    }
    memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
}

static inline void lr_buf_add_str(struct lr_buf *buf, struct lr_str s)
{
    lr_buf_add(buf, s.ptr, s.len);
}

static inline void lr_buf_add_z(struct lr_buf *buf, const char *text)
{
    lr_buf_add(buf, text, strlen(text));
}

static inline void lr_buf_add_char(struct lr_buf *buf, char c)
{
    lr_buf_add(buf, &c, 1);
}

void lr_buf_addf(struct lr_buf *buf, const char *fmt, ...) LR_PRINTF(2, 3);

/* Room for `len` bytes at the end, or NULL; lr_buf_commit says how many were used. */
char *lr_buf_reserve(struct lr_buf *buf, size_t len);
void lr_buf_commit(struct lr_buf *buf, size_t len);

void lr_buf_consume(struct lr_buf *buf, size_t len); /* drops bytes from the front */

/* A terminated view of the content ("" when empty or failed), valid until the next change. */
const char *lr_buf_z(struct lr_buf *buf);

static inline struct lr_str lr_buf_str(const struct lr_buf *buf)
{
    return lr_str(buf->data, buf->len);
}

#endif
