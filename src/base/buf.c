#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { FIRST_CAPACITY = 256 };

void lr_buf_init(struct lr_buf *buf, size_t limit)
{
    *buf = (struct lr_buf){.limit = limit};
}

void lr_buf_free(struct lr_buf *buf)
{
    free(buf->data);
    lr_buf_init(buf, buf->limit);
}

void lr_buf_clear(struct lr_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
}

char *lr_buf_reserve(struct lr_buf *buf, size_t len)
{
    if (buf->failed)
        return NULL;
    if (len > buf->limit || buf->len > buf->limit - len) {
        buf->failed = true;
        return NULL;
    }
    size_t needed = buf->len + len;
    if (needed > buf->capacity || buf->data == NULL) {
        size_t capacity = buf->capacity < FIRST_CAPACITY ? FIRST_CAPACITY : buf->capacity;
        while (capacity < needed)
            capacity = capacity > buf->limit / 2 ? buf->limit : capacity * 2;
        if (capacity > buf->limit && buf->limit >= needed)
            capacity = buf->limit;
        /* One byte more than asked for, so that lr_buf_z never has to grow. */
        char *data = realloc(buf->data, capacity + 1);
        if (data == NULL) {
            buf->failed = true;
            return NULL;
        }
        buf->data = data;
        buf->capacity = capacity;
    }
    return buf->data + buf->len;
}

void lr_buf_commit(struct lr_buf *buf, size_t len)
{
    buf->len += len;
}

void lr_buf_grow_and_add(struct lr_buf *buf, const void *bytes, size_t len)
{
    char *room = lr_buf_reserve(buf, len);
    if (room == NULL)
        return;
    memcpy(room, bytes, len);
    buf->len += len;
}

void lr_buf_addf(struct lr_buf *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *room = len >= 0 ? lr_buf_reserve(buf, (size_t)len) : NULL;
    if (room != NULL) {
        /* reserve() always leaves one spare byte for the terminator. */
        (void)vsnprintf(room, (size_t)len + 1, fmt, again);
        buf->len += (size_t)len;
    }
    va_end(again);
}

void lr_buf_consume(struct lr_buf *buf, size_t len)
{
    if (len >= buf->len) {
        buf->len = 0;
        return;
    }
    memmove(buf->data, buf->data + len, buf->len - len);
    buf->len -= len;
}

const char *lr_buf_z(struct lr_buf *buf)
{
    if (buf->failed || buf->data == NULL)
        return "";
    buf->data[buf->len] = '\0';
    return buf->data;
}
