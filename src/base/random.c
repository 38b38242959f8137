#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/types.h>

void lr_random_bytes(void *out, size_t len)
{
    unsigned char *next = out;
    while (len != 0) {
        /* Requests up to 256 bytes are never interrupted or cut short. */
        ssize_t got = getrandom(next, len < 256 ? len : 256, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort();
        next += got;
        len -= (size_t)got;
    }
}

uint64_t lr_random_u64(void)
{
    uint64_t value;
    lr_random_bytes(&value, sizeof(value));
    return value;
}

uint64_t lr_random_below(uint64_t bound)
{
    /* Values below 2^64 mod bound are drawn again, or low results would be likelier. */
    uint64_t reject_below = (0 - bound) % bound;
    uint64_t value;
    do
        value = lr_random_u64();
    while (value < reject_below);
    return value % bound;
}

/* One byte gives one digit; bytes past the largest multiple of base are dropped. */
static void random_digits(char *out, size_t len, const char *digits, unsigned base)
{
    unsigned char pool[64];
    size_t used = sizeof(pool);
    unsigned fair = 256 / base * base;
    for (size_t i = 0; i < len;) {
        if (used == sizeof(pool)) {
            lr_random_bytes(pool, sizeof(pool));
            used = 0;
        }
        unsigned byte = pool[used++];
        if (byte < fair)
            out[i++] = digits[byte % base];
    }
    out[len] = '\0';
}

void lr_random_hex(char *out, size_t len)
{
    random_digits(out, len, "0123456789abcdef", 16);
}

void lr_random_base62(char *out, size_t len)
{
    random_digits(out, len, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                  62);
}
