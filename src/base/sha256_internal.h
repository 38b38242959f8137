/* base/sha256_internal.h - the block functions behind base/sha256.c. */
#ifndef BASE_SHA256_INTERNAL_H
#define BASE_SHA256_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern const uint32_t lr_sha256_constants[64];

/* Folds `count` blocks of 64 bytes into state. */
void lr_sha256_blocks_plain(uint32_t state[8], const unsigned char *blocks, size_t count);

/* The same with SHA-NI; call only where lr_sha256_has_ni() is true. */
void lr_sha256_blocks_ni(uint32_t state[8], const unsigned char *blocks, size_t count);
bool lr_sha256_has_ni(void);

#endif
