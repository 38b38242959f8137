/* base/json_scan.h - the inner loop that the JSON parser and writer share. */
#ifndef BASE_JSON_SCAN_H
#define BASE_JSON_SCAN_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* How many bytes at text[0..len) stand for themselves in a JSON string: ASCII without control
 * characters, quote and backslash.  Looks at eight bytes at a time: each test below sets the
 * top bit of a byte that ends the run.  A borrow may also mark bytes behind the first marked
 * byte, but never before it, and only the first mark is used. */
static inline size_t lr_json_plain_len(const char *text, size_t len)
{
    const uint64_t ones = 0x0101010101010101u, tops = 0x8080808080808080u;
    size_t at = 0;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (uint64_t word; len - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, text + at, sizeof(word));
        uint64_t quote = word ^ ones * '"', backslash = word ^ ones * '\\';
        uint64_t marks = (word - ones * 0x20) & ~word;
        marks |= (quote - ones) & ~quote;
        marks |= (backslash - ones) & ~backslash;
        marks = (marks | word) & tops;
        if (marks != 0)
            return at + (size_t)__builtin_ctzll(marks) / 8;
    }
#endif
    for (; at < len; at++) {
        unsigned char c = (unsigned char)text[at];
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\')
            break;
    }
    return at;
}

#endif
