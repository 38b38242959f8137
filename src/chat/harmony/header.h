/* chat/harmony/header.h - reading the header of a Harmony message (internal).
 *
 *   role [to=RECIPIENT] [<|channel|>CHANNEL [to=RECIPIENT]] [[<|constrain|>]TYPE]
 *
 * is what the format says; what models write is in the tests.  Nothing here fails.
 */
#ifndef CHAT_HARMONY_HEADER_H
#define CHAT_HARMONY_HEADER_H

#include "chat/harmony/parser.h"

struct chat_harmony_header {
    enum chat_harmony_class class;
    struct lr_str tool; /* name of the function; CHAT_CLASS_TOOL only */
    bool is_code;       /* the content type is "code" */
    size_t text_at;     /* what stands from here on is no part of the header */
};

/* Reads h->header.  has_message: <|message|> came, so that every word is header;
 * without it the words after the known ones are the message's text. */
struct chat_harmony_header chat_harmony_header_read(const struct chat_harmony *h,
                                                    bool has_message);

/* True when the last word of h->header, which just ended or holds a letter no header
 * has, shows that a text without <|channel|> is no header. */
bool chat_harmony_header_is_text(const struct chat_harmony *h);

/* Nothing but words that headers are made of, and blanks. */
bool chat_harmony_header_words_only(struct lr_str text);

/* The stream ended in h's header, and text, what its header_read left over, is only
 * the beginning of a channel or of a role. */
bool chat_harmony_header_is_cut(const struct chat_harmony *h, struct lr_str text);

#endif
