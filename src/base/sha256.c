#include "base/sha256.h"

#include <string.h>

#include "base/sha256_internal.h"

/* clang-format off */
/* Fractional parts of the cube roots of the first 64 primes (FIPS 180-4, 4.2.2). */
const uint32_t lr_sha256_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};
/* clang-format on */

static uint32_t sha256_rotate(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static uint32_t load_big(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void store_big(unsigned char *p, uint32_t x)
{
    p[0] = (unsigned char)(x >> 24);
    p[1] = (unsigned char)(x >> 16);
    p[2] = (unsigned char)(x >> 8);
    p[3] = (unsigned char)x;
}

void lr_sha256_blocks_plain(uint32_t state[8], const unsigned char *blocks, size_t count)
{
    for (; count != 0; count--, blocks += 64) {
        uint32_t w[64];
        for (int i = 0; i < 16; i++)
            w[i] = load_big(blocks + 4 * i);
        for (int i = 16; i < 64; i++) {
            uint32_t s0 =
                sha256_rotate(w[i - 15], 7) ^ sha256_rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
            uint32_t s1 =
                sha256_rotate(w[i - 2], 17) ^ sha256_rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
            w[i] = w[i - 16] + s0 + w[i - 7] + s1;
        }
        uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
        uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
        for (int i = 0; i < 64; i++) {
            uint32_t s1 = sha256_rotate(e, 6) ^ sha256_rotate(e, 11) ^ sha256_rotate(e, 25);
            uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + lr_sha256_constants[i] + w[i];
            uint32_t s0 = sha256_rotate(a, 2) ^ sha256_rotate(a, 13) ^ sha256_rotate(a, 22);
            uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
            h = g;
            g = f;
            f = e;
            e = d + t1;
            d = c;
            c = b;
            b = a;
            a = t1 + t2;
        }
        state[0] += a;
        state[1] += b;
        state[2] += c;
        state[3] += d;
        state[4] += e;
        state[5] += f;
        state[6] += g;
        state[7] += h;
    }
}

static void sha256_fold(struct lr_sha256 *h, const unsigned char *blocks, size_t count)
{
    if (!h->plain && lr_sha256_has_ni())
        lr_sha256_blocks_ni(h->state, blocks, count);
    else
        lr_sha256_blocks_plain(h->state, blocks, count);
}

void lr_sha256_init(struct lr_sha256 *h)
{
    *h = (struct lr_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void lr_sha256_add(struct lr_sha256 *h, const void *bytes, size_t len)
{
    const unsigned char *next = bytes;
    size_t held = (size_t)(h->total % 64);
    if (len == 0)
        return;
    h->total += len;
    if (held != 0) {
        size_t take = len < 64 - held ? len : 64 - held;
        memcpy(h->block + held, next, take);
        next += take;
        len -= take;
        if (held + take < 64)
            return;
        sha256_fold(h, h->block, 1);
    }
    if (len >= 64)
        sha256_fold(h, next, len / 64);
    next += len / 64 * 64;
    len %= 64;
    memcpy(h->block, next, len);
}

void lr_sha256_end(struct lr_sha256 *h, unsigned char out[LR_SHA256_LEN])
{
    uint64_t bits = h->total * 8;
    size_t held = (size_t)(h->total % 64);
    h->block[held++] = 0x80;
    if (held > 56) {
        memset(h->block + held, 0, 64 - held);
        sha256_fold(h, h->block, 1);
        held = 0;
    }
    memset(h->block + held, 0, 56 - held);
    store_big(h->block + 56, (uint32_t)(bits >> 32));
    store_big(h->block + 60, (uint32_t)bits);
    sha256_fold(h, h->block, 1);
    for (int i = 0; i < 8; i++)
        store_big(out + 4 * i, h->state[i]);
}

void lr_sha256_of(struct lr_str bytes, unsigned char out[LR_SHA256_LEN])
{
    struct lr_sha256 h;
    lr_sha256_init(&h);
    lr_sha256_add(&h, bytes.ptr, bytes.len);
    lr_sha256_end(&h, out);
}

void lr_hmac_sha256(struct lr_str key, const struct lr_str *parts, size_t count,
                    unsigned char out[LR_SHA256_LEN])
{
    unsigned char block[64] = {0};
    struct lr_sha256 h;
    if (key.len > sizeof(block))
        lr_sha256_of(key, block);
    else if (key.len != 0)
        memcpy(block, key.ptr, key.len);
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] ^= 0x36;
    lr_sha256_init(&h);
    lr_sha256_add(&h, block, sizeof(block));
    for (size_t i = 0; i < count; i++)
        lr_sha256_add(&h, parts[i].ptr, parts[i].len);
    lr_sha256_end(&h, out);
    for (size_t i = 0; i < sizeof(block); i++)
        block[i] ^= 0x36 ^ 0x5c;
    lr_sha256_init(&h);
    lr_sha256_add(&h, block, sizeof(block));
    lr_sha256_add(&h, out, LR_SHA256_LEN);
    lr_sha256_end(&h, out);
}

void lr_sha256_hex(const unsigned char digest[LR_SHA256_LEN], char out[LR_SHA256_HEX_LEN + 1])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < LR_SHA256_LEN; i++) {
        out[2 * i] = digits[digest[i] >> 4];
        out[2 * i + 1] = digits[digest[i] & 15];
    }
    out[LR_SHA256_HEX_LEN] = '\0';
}

bool lr_sha256_parse(struct lr_str hex, unsigned char out[LR_SHA256_LEN])
{
    if (hex.len != LR_SHA256_HEX_LEN)
        return false;
    for (int i = 0; i < LR_SHA256_LEN; i++) {
        int high = lr_hex_digit(hex.ptr[2 * i]), low = lr_hex_digit(hex.ptr[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[i] = (unsigned char)(high << 4 | low);
    }
    return true;
}
