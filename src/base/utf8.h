/* base/utf8.h - decoding, checking and repairing UTF-8.
 *
 * Strict: no overlong forms, no surrogates, nothing above U+10FFFF.
 */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/str.h"

enum { LR_UTF8_REPLACEMENT = 0xFFFD };

/* Decodes the sequence at text[0..len).  Returns its length, 0 when it is invalid,
 * or -1 when it is a proper prefix of a valid one (more bytes are needed). */
int lr_utf8_decode(const char *text, size_t len, uint32_t *code_point);

/* Length of the valid sequence of two or more bytes at text[0..len); 0 when it is invalid.
 * Inline, for loops that have handled ASCII already. */
static inline size_t lr_utf8_step(const char *text, size_t len)
{
    const unsigned char *p = (const unsigned char *)text;
    if (len >= 3 && (p[0] & 0xF0) == 0xE0) {
        unsigned high = (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6; /* the rest is free */
        return (p[1] & 0xC0) == 0x80 && (p[2] & 0xC0) == 0x80 && high >= 0x800 &&
                       (high < 0xD800 || high >= 0xE000)
                   ? 3
                   : 0;
    }
    if (len >= 2 && p[0] >= 0xC2 && p[0] <= 0xDF)
        return (p[1] & 0xC0) == 0x80 ? 2 : 0;
    if (len >= 4 && (p[0] & 0xF8) == 0xF0) {
        unsigned high = (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12;
        return (p[1] & 0xC0) == 0x80 && (p[2] & 0xC0) == 0x80 && (p[3] & 0xC0) == 0x80 &&
                       high >= 0x10000 && high < 0x110000
                   ? 4
                   : 0;
    }
    return 0;
}

/* text[0..len) does not start a valid sequence.  Returns how many bytes one U+FFFD replaces:
 * the longest prefix of a valid sequence, at least 1 (Unicode 3.9, like Python and the WHATWG
 * decoders). */
size_t lr_utf8_invalid_len(const char *text, size_t len);

/* Writes 1..4 bytes and returns how many. */
size_t lr_utf8_encode(uint32_t code_point, char out[4]);

bool lr_utf8_valid(struct lr_str s);

/* Length of the longest valid prefix. */
size_t lr_utf8_valid_prefix(struct lr_str s);

/* Appends s with every invalid part replaced by U+FFFD. */
void lr_utf8_add_repaired(struct lr_buf *buf, struct lr_str s);

size_t lr_utf8_count(struct lr_str s); /* code points of a valid string */

#endif
