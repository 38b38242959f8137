/* tokenizer/chars.h - properties of characters, as the Hugging Face tokenizer sees them.
 *
 * Categories come from utf8proc.  The reference asks several libraries with several versions
 * of Unicode; chars.c lists the characters on which they differ.
 */
#ifndef TOKENIZER_CHARS_H
#define TOKENIZER_CHARS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The character at text, which is valid UTF-8, and its length. */
static inline uint32_t char_at(const char *text, size_t *len)
{
    const unsigned char *p = (const unsigned char *)text;
    uint32_t c = p[0];
    if (c < 0x80) {
        *len = 1;
        return c;
    }
    if (c < 0xE0) {
        *len = 2;
        return (c & 0x1F) << 6 | (p[1] & 0x3Fu);
    }
    if (c < 0xF0) {
        *len = 3;
        return (c & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
    }
    *len = 4;
    return (c & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

/* The length of the character that starts with this byte of valid UTF-8. */
static inline size_t char_width(char first)
{
    unsigned char c = (unsigned char)first;
    return c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

/* White_Space */
static inline bool char_is_space(uint32_t c)
{
    if (c < 0x80)
        return c == 0x20 || (c >= 0x09 && c <= 0x0D);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
           c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool tokenizer_char_is_number(uint32_t c);      /* N */
bool tokenizer_char_is_punctuation(uint32_t c); /* P, and the ASCII symbols */
bool tokenizer_char_is_mark(uint32_t c);        /* M */
bool tokenizer_char_is_accent(uint32_t c);      /* Mn, as BertNormalizer strips it */
bool tokenizer_char_is_other(uint32_t c);       /* Cc Cf Co, as BertNormalizer drops it */
bool tokenizer_char_is_ideograph(
    uint32_t c); /* the blocks around which BertNormalizer puts blanks */

uint32_t tokenizer_char_lower(uint32_t c);      /* in one character; U+0130 has two */
unsigned char tokenizer_char_order(uint32_t c); /* the canonical combining class */
bool tokenizer_char_has_form(uint32_t c);       /* false: NFD and NFKD leave it as it is */

#endif
