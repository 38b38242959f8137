#include "base/base64.h"

void lr_base64_add(struct lr_buf *out, const unsigned char *bytes, size_t count)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        uint32_t left = count - i < 3 ? (uint32_t)(count - i) : 3;
        uint32_t three = (uint32_t)bytes[i] << 16 |
                         (left > 1 ? (uint32_t)bytes[i + 1] << 8 : 0) |
                         (left > 2 ? (uint32_t)bytes[i + 2] : 0);
        char four[4];
        for (uint32_t k = 0; k < 4; k++)
            four[k] = k <= left ? letters[three >> (18 - 6 * k) & 63] : '=';
        lr_buf_add(out, four, sizeof(four));
    }
}
