/* chat/text.h - assembles UTF-8 across token borders.
 *
 * A token may end in the middle of a character.  Complete characters pass through unchanged,
 * and at most three bytes wait for the rest.  Invalid bytes become U+FFFD, with the same result
 * as lr_utf8_add_repaired on the whole text.
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

/* Calls fn zero to three times, each with complete characters. */
void chat_utf8_feed(struct chat_utf8 *u, struct lr_str bytes, chat_text_fn fn, void *ctx);

/* The message is over: pending bytes become one U+FFFD. */
void chat_utf8_flush(struct chat_utf8 *u, chat_text_fn fn, void *ctx);

#endif
