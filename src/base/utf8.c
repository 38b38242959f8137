#include "base/utf8.h"

/* Length of a sequence by its first byte, and the allowed range of the second byte.  That range
 * excludes overlong forms, surrogates and values above U+10FFFF. */
static int sequence(unsigned char first, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (first < 0x80)
        return 1;
    if (first < 0xC2)
        return 0;
    if (first < 0xE0)
        return 2;
    if (first < 0xF0) {
        if (first == 0xE0)
            *low = 0xA0;
        if (first == 0xED)
            *high = 0x9F;
        return 3;
    }
    if (first < 0xF5) {
        if (first == 0xF0)
            *low = 0x90;
        if (first == 0xF4)
            *high = 0x8F;
        return 4;
    }
    return 0;
}

/* Matches one sequence; *matched is the number of bytes that were right. */
static int match(const char *text, size_t len, size_t *matched)
{
    unsigned char low, high;
    *matched = 0;
    if (len == 0)
        return -1;
    int need = sequence((unsigned char)text[0], &low, &high);
    if (need == 0)
        return 0;
    *matched = 1;
    while (*matched < (size_t)need) {
        if (*matched == len)
            return -1;
        unsigned char c = (unsigned char)text[*matched];
        if (c < low || c > high)
            return 0;
        low = 0x80;
        high = 0xBF;
        ++*matched;
    }
    return need;
}

int lr_utf8_decode(const char *text, size_t len, uint32_t *code_point)
{
    static const unsigned char first_mask[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    size_t matched;
    int need = match(text, len, &matched);
    if (need <= 0)
        return need;
    uint32_t value = (unsigned char)text[0] & first_mask[need];
    for (int i = 1; i < need; i++)
        value = value << 6 | ((unsigned char)text[i] & 0x3Fu);
    *code_point = value;
    return need;
}

size_t lr_utf8_invalid_len(const char *text, size_t len)
{
    size_t matched;
    (void)match(text, len, &matched);
    return matched != 0 ? matched : 1;
}

size_t lr_utf8_encode(uint32_t code_point, char out[4])
{
    if (code_point < 0x80) {
        out[0] = (char)code_point;
        return 1;
    }
    if (code_point < 0x800) {
        out[0] = (char)(0xC0 | code_point >> 6);
        out[1] = (char)(0x80 | (code_point & 0x3F));
        return 2;
    }
    if (code_point < 0x10000) {
        out[0] = (char)(0xE0 | code_point >> 12);
        out[1] = (char)(0x80 | (code_point >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code_point & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code_point >> 18);
    out[1] = (char)(0x80 | (code_point >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code_point >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code_point & 0x3F));
    return 4;
}

size_t lr_utf8_valid_prefix(struct lr_str s)
{
    size_t at = 0;
    while (at < s.len) {
        /* Eight ASCII bytes at a time: most text is ASCII. */
        uint64_t word;
        if (s.len - at >= sizeof(word)) {
            memcpy(&word, s.ptr + at, sizeof(word));
            if ((word & 0x8080808080808080u) == 0) {
                at += sizeof(word);
                continue;
            }
        }
        size_t step =
            (unsigned char)s.ptr[at] < 0x80 ? 1 : lr_utf8_step(s.ptr + at, s.len - at);
        if (step == 0)
            break;
        at += step;
    }
    return at;
}

bool lr_utf8_valid(struct lr_str s)
{
    return lr_utf8_valid_prefix(s) == s.len;
}

void lr_utf8_add_repaired(struct lr_buf *buf, struct lr_str s)
{
    while (s.len != 0) {
        size_t good = lr_utf8_valid_prefix(s);
        lr_buf_add(buf, s.ptr, good);
        s = lr_str(s.ptr + good, s.len - good);
        if (s.len == 0)
            return;
        lr_buf_add(buf, "\xEF\xBF\xBD", 3);
        size_t bad = lr_utf8_invalid_len(s.ptr, s.len);
        s = lr_str(s.ptr + bad, s.len - bad);
    }
}

size_t lr_utf8_count(struct lr_str s)
{
    size_t count = 0;
    for (size_t i = 0; i < s.len; i++)
        count += ((unsigned char)s.ptr[i] & 0xC0) != 0x80;
    return count;
}
