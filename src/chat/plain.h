/* chat/plain.h - parser for a model without a message format: all text is content, control
 * tokens are dropped.  Has the same functions as chat/harmony/parser.h. */
#ifndef CHAT_PLAIN_H
#define CHAT_PLAIN_H

#include "chat/events.h"
#include "chat/text.h"

struct chat_plain {
    chat_delta_fn fn; /* borrowed */
    void *ctx;
    struct chat_utf8 utf8;
};

void chat_plain_init(struct chat_plain *p, chat_delta_fn fn, void *ctx);
void chat_plain_token(struct chat_plain *p, struct lr_str bytes, bool special);
void chat_plain_end(struct chat_plain *p);

#endif
