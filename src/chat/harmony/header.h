/* chat/harmony/header.h - parsing the header of a Harmony message (internal).
 *
 *   role [to=RECIPIENT] [<|channel|>CHANNEL [to=RECIPIENT]] [[<|constrain|>]TYPE]
 *
 * This is the format's definition; the tests show what models write in practice.  Parsing never
 * fails.
 */
#ifndef CHAT_HARMONY_HEADER_H
#define CHAT_HARMONY_HEADER_H

#include "chat/harmony/parser.h"

struct chat_harmony_header {
    enum chat_harmony_class class;
    struct lr_str tool; /* name of the function; CHAT_CLASS_TOOL only */
    bool is_code;       /* the content type is "code" */
    size_t text_at;     /* text from here on does not belong to the header */
};

/* Parses h->header. has_message: <|message|> came, so every word belongs to the header; without
 * it the words after the known ones are the message's text. */
struct chat_harmony_header chat_harmony_header_read(const struct chat_harmony *h,
                                                    bool has_message);

/* True when the last word of h->header shows that a text without <|channel|> is no header: the
 * word is unknown, or has a letter that headers never have. */
bool chat_harmony_header_is_text(const struct chat_harmony *h);

/* True when text has only blanks and words that headers consist of. */
bool chat_harmony_header_words_only(struct lr_str text);

/* True when the stream ended inside h's header and the rest, text, is only the beginning of a
 * channel's or role's name. */
bool chat_harmony_header_is_cut(const struct chat_harmony *h, struct lr_str text);

#endif
