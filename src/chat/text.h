/* chat/text.h - assembling UTF-8 over token borders.
 *
 * A token may end in the middle of a character.  Whole characters pass through as
 * they are; at most three bytes wait for the rest; what can never become a character
 * is given as U+FFFD, as lr_utf8_add_repaired would over the whole text.
 */
#ifndef CHAT_TEXT_H
#define CHAT_TEXT_H

#include <stdint.h>

#include "base/str.h"

struct chat_utf8 {
    uint32_t pending_len;
    char pending[4];
};

typedef void (*chat_text_fn)(void *ctx, struct lr_str text);

/* Calls fn zero to three times, each with whole characters. */
void chat_utf8_feed(struct chat_utf8 *u, struct lr_str bytes, chat_text_fn fn, void *ctx);

/* The message is over: bytes that still wait become one U+FFFD. */
void chat_utf8_flush(struct chat_utf8 *u, chat_text_fn fn, void *ctx);

#endif
