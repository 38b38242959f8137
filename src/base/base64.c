#include "base/base64.h"

static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static const char url[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

static void base64_add(struct lr_buf *out, const unsigned char *bytes, size_t count,
                       const char *letters, bool is_padded)
{
    for (size_t i = 0; i < count; i += 3) {
        uint32_t left = count - i < 3 ? (uint32_t)(count - i) : 3;
        uint32_t three = (uint32_t)bytes[i] << 16 |
                         (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? (uint32_t)bytes[i + 2] : 0);
        char four[4];
        for (uint32_t k = 0; k < 4; k++)
            four[k] = k <= left ? letters[three >> (18 - 6 * k) & 63] : '=';
        lr_buf_add(out, four, is_padded ? 4 : left + 1);
    }
}

void lr_base64_add(struct lr_buf *out, const unsigned char *bytes, size_t count)
{
    base64_add(out, bytes, count, plain, true);
}

void lr_base64url_add(struct lr_buf *out, const unsigned char *bytes, size_t count)
{
    base64_add(out, bytes, count, url, false);
}

static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '-' ? 62 : c == '_' ? 63 : -1;
}

bool lr_base64url_read(struct lr_str text, unsigned char *out, size_t *len)
{
    uint32_t bits = 0;
    unsigned count = 0; /* of bits that are not written yet */
    *len = 0;
    if (text.len % 4 == 1)
        return false;
    for (size_t i = 0; i < text.len; i++) {
        int value = value_of(text.ptr[i]);
        if (value < 0)
            return false;
        bits = bits << 6 | (uint32_t)value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            out[(*len)++] = (unsigned char)(bits >> count);
        }
    }
    return (bits & ((1U << count) - 1)) == 0; /* the rest of the last letter is zero */
}
