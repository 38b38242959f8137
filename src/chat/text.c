/* chat/text.c - see chat/text.h. */
#include "chat/text.h"

#include "base/utf8.h"

static const struct lr_str replacement = {"\xEF\xBF\xBD", 3};

/* Takes bytes until the pending character is complete or invalid; returns how many. */
static size_t finish_pending(struct chat_utf8 *u, struct lr_str bytes, chat_text_fn fn,
                             void *ctx)
{
    size_t used = 0;
    while (u->pending_len > 0 && used < bytes.len) {
        uint32_t code_point;
        u->pending[u->pending_len] = bytes.ptr[used];
        int n = lr_utf8_decode(u->pending, u->pending_len + 1, &code_point);
        if (n == 0) {
            /* The pending bytes were a prefix of a character, and this byte does not continue
             * it.  The byte itself may begin a character and stays in the input. */
            u->pending_len = 0;
            fn(ctx, replacement);
            break;
        }
        used++;
        u->pending_len++;
        if (n > 0) {
            struct lr_str whole = {u->pending, u->pending_len};
            u->pending_len = 0;
            fn(ctx, whole);
        }
    }
    return used;
}

void chat_utf8_feed(struct chat_utf8 *u, struct lr_str bytes, chat_text_fn fn, void *ctx)
{
    size_t at = u->pending_len > 0 ? finish_pending(u, bytes, fn, ctx) : 0;

    while (at < bytes.len) {
        struct lr_str rest = {bytes.ptr + at, bytes.len - at};
        size_t valid = lr_utf8_valid_prefix(rest);
        if (valid > 0)
            fn(ctx, lr_str(rest.ptr, valid));
        at += valid;
        if (valid == rest.len)
            return;

        uint32_t code_point;
        rest = lr_str(bytes.ptr + at, bytes.len - at);
        if (lr_utf8_decode(rest.ptr, rest.len, &code_point) < 0) {
            memcpy(u->pending, rest.ptr, rest.len); /* at most three bytes */
            u->pending_len = (uint32_t)rest.len;
            return;
        }
        fn(ctx, replacement);
        at += lr_utf8_invalid_len(rest.ptr, rest.len);
    }
}

void chat_utf8_flush(struct chat_utf8 *u, chat_text_fn fn, void *ctx)
{
    if (u->pending_len == 0)
        return;
    u->pending_len = 0;
    fn(ctx, replacement);
}
