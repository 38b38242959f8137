/* chat/stop.h - stop strings in a stream of text.
 *
 * Text that may be the beginning of a stop string is held back.  The match that ends first
 * wins, and the text is cut where that match begins.  The result does not depend on how the
 * text is split.
 */
#ifndef CHAT_STOP_H
#define CHAT_STOP_H

#include <stdbool.h>

#include "chat/request.h"
#include "chat/text.h"

struct chat_stop {
    const struct lr_str *strings; /* borrowed for the matcher's life; none is empty */
    uint32_t count;
    bool matched;
    uint32_t match; /* index of the string that matched */
    uint32_t held_len;
    char held[CHAT_STOP_BYTES_MAX];
};

void chat_stop_init(struct chat_stop *s, const struct lr_str *strings, uint32_t count);

/* Passes on text that is certain.  True once a string has matched; later text is dropped. */
bool chat_stop_feed(struct chat_stop *s, struct lr_str text, chat_text_fn fn, void *ctx);

/* The text is over: passes on the text that was held back. */
void chat_stop_flush(struct chat_stop *s, chat_text_fn fn, void *ctx);

#endif
