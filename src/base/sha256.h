/* base/sha256.h - SHA-256 (FIPS 180-4), streaming.
 *
 * Uses the CPU's SHA extensions where they exist (asked at run time), plain C
 * elsewhere; both give the same digest.  Thread: one per struct.
 */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

enum { LR_SHA256_LEN = 32, LR_SHA256_HEX_LEN = 64 };

struct lr_sha256 {
    uint32_t state[8];
    uint64_t total; /* bytes so far */
    unsigned char block[64];
    bool plain; /* set after init to force plain C (tests) */
};

void lr_sha256_init(struct lr_sha256 *h);
void lr_sha256_add(struct lr_sha256 *h, const void *bytes, size_t len);
void lr_sha256_end(struct lr_sha256 *h, unsigned char out[LR_SHA256_LEN]);

void lr_sha256_of(struct lr_str bytes, unsigned char out[LR_SHA256_LEN]);

/* HMAC (RFC 2104) of the parts, one after the other. */
void lr_hmac_sha256(struct lr_str key, const struct lr_str *parts, size_t count,
                    unsigned char out[LR_SHA256_LEN]);

/* Lower-case hex, terminated. */
void lr_sha256_hex(const unsigned char digest[LR_SHA256_LEN], char out[LR_SHA256_HEX_LEN + 1]);
/* Exactly 64 hex digits of either case. */
bool lr_sha256_parse(struct lr_str hex, unsigned char out[LR_SHA256_LEN]);

#endif
