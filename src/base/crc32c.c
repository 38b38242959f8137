#include "base/crc32c.h"

#include <pthread.h>

enum { SLICES = 8 }; /* bytes that one turn of the loop takes */

static uint32_t table[SLICES][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void)
{
    const uint32_t polynomial = 0x82F63B78; /* reflected */
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = (crc & 1) != 0 ? crc >> 1 ^ polynomial : crc >> 1;
        table[0][i] = crc;
    }
    /* table[n][i]: the byte i with n zero bytes behind it. */
    for (uint32_t i = 0; i < 256; i++)
        for (int n = 1; n < SLICES; n++)
            table[n][i] = table[n - 1][i] >> 8 ^ table[0][table[n - 1][i] & 0xFF];
}

static uint32_t crc32c_read_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint32_t lr_crc32c(uint32_t crc, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    (void)pthread_once(&once, fill);
    crc = ~crc;
    for (; len >= SLICES; len -= SLICES, p += SLICES) {
        uint32_t low = crc ^ crc32c_read_u32(p), high = crc32c_read_u32(p + 4);
        crc = table[7][low & 0xFF] ^ table[6][low >> 8 & 0xFF] ^ table[5][low >> 16 & 0xFF] ^
              table[4][low >> 24] ^ table[3][high & 0xFF] ^ table[2][high >> 8 & 0xFF] ^
              table[1][high >> 16 & 0xFF] ^ table[0][high >> 24];
    }
    for (; len != 0; len--, p++)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 0xFF];
    return ~crc;
}
