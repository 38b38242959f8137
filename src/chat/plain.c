/* chat/plain.c - see chat/plain.h. */
#include "chat/plain.h"

static void give(void *ctx, struct lr_str text)
{
    struct chat_plain *p = ctx;
    struct chat_delta delta = {.kind = CHAT_DELTA_CONTENT, .text = text};
    p->fn(p->ctx, &delta);
}

void chat_plain_init(struct chat_plain *p, chat_delta_fn fn, void *ctx)
{
    *p = (struct chat_plain){.fn = fn, .ctx = ctx};
}

void chat_plain_token(struct chat_plain *p, struct lr_str bytes, bool special)
{
    if (!special)
        chat_utf8_feed(&p->utf8, bytes, give, p);
}

void chat_plain_end(struct chat_plain *p)
{
    chat_utf8_flush(&p->utf8, give, p);
}
