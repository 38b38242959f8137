/* chat/stop.c - see chat/stop.h. */
#include "chat/stop.h"

/* Text is processed in pieces, so that held-back and new text fit side by side on the stack. */
enum { PIECE_MAX = 1024 };

void chat_stop_init(struct chat_stop *s, const struct lr_str *strings, uint32_t count)
{
    s->strings = strings;
    s->count = count;
    s->matched = false;
    s->held_len = 0;
}

/* Where the match that ends first begins, or LR_STR_NONE. The first end decides, because a
 * reader of single letters would see that match first. s->match is the string that matched. */
static size_t find_match(struct chat_stop *s, struct lr_str text)
{
    size_t best = LR_STR_NONE;
    size_t best_end = LR_STR_NONE;
    for (uint32_t i = 0; i < s->count; i++) {
        size_t at = lr_str_find(text, s->strings[i]);
        if (at == LR_STR_NONE)
            continue;
        size_t end = at + s->strings[i].len;
        if (end < best_end || (end == best_end && at < best)) {
            best = at;
            s->match = i;
            best_end = end;
        }
    }
    return best;
}

/* Length of the longest suffix of text that begins a stop string. */
static size_t held_tail(const struct chat_stop *s, struct lr_str text)
{
    size_t longest = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        struct lr_str stop = s->strings[i];
        size_t n = stop.len - 1 < text.len ? stop.len - 1 : text.len;
        for (; n > longest; n--)
            if (text.ptr[text.len - n] == stop.ptr[0] &&
                memcmp(text.ptr + text.len - n, stop.ptr, n) == 0)
                longest = n;
    }
    return longest;
}

static void feed_piece(struct chat_stop *s, struct lr_str piece, chat_text_fn fn, void *ctx)
{
    char joined[CHAT_STOP_BYTES_MAX + PIECE_MAX];
    struct lr_str text = piece;
    if (s->held_len > 0) {
        memcpy(joined, s->held, s->held_len);
        memcpy(joined + s->held_len, piece.ptr, piece.len);
        text = lr_str(joined, s->held_len + piece.len);
    }

    size_t give = find_match(s, text);
    if (give != LR_STR_NONE) {
        s->matched = true;
        s->held_len = 0;
    } else {
        size_t hold = held_tail(s, text);
        give = text.len - hold;
        memcpy(s->held, text.ptr + give, hold);
        s->held_len = (uint32_t)hold;
    }
    if (give > 0)
        fn(ctx, lr_str(text.ptr, give));
}

bool chat_stop_feed(struct chat_stop *s, struct lr_str text, chat_text_fn fn, void *ctx)
{
    if (s->count == 0) {
        fn(ctx, text);
        return false;
    }
    while (text.len > 0 && !s->matched) {
        size_t n = text.len < PIECE_MAX ? text.len : PIECE_MAX;
        while (n < text.len && n > 1 && ((unsigned char)text.ptr[n] & 0xC0) == 0x80)
            n--; /* pieces end between characters */
        feed_piece(s, lr_str(text.ptr, n), fn, ctx);
        text = lr_str(text.ptr + n, text.len - n);
    }
    return s->matched;
}

void chat_stop_flush(struct chat_stop *s, chat_text_fn fn, void *ctx)
{
    uint32_t n = s->held_len;
    s->held_len = 0;
    if (n > 0 && !s->matched)
        fn(ctx, lr_str(s->held, n));
}
