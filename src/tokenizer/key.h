/* tokenizer/key.h - keys for looking up a short string of bytes in the vocabulary. */
#ifndef TOKENIZER_KEY_H
#define TOKENIZER_KEY_H

#include <stdint.h>
#include <string.h>

#include "tokenizer/internal.h"

struct key {
    uint64_t low;
    uint64_t high;
};

static inline uint64_t key_load8(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

static inline uint32_t key_load4(const char *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

static inline uint64_t key_mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b << 29 | b >> 35)) * 0x9E3779B97F4A7C15u;
    return x ^ x >> 32;
}

enum { KEY_WHOLE = 16 }; /* the most bytes that are their own key, padded with zeros */

/* The lowest len bytes of a word, 1 <= len <= 8. */
static inline uint64_t key_cut(uint64_t word, size_t len)
{
    return word & UINT64_MAX >> (64 - 8 * len);
}

static inline struct key key_long(const char *bytes, size_t len)
{
    uint64_t low = len, high = ~len;
    for (size_t i = 0; i + 8 <= len; i += 8) {
        uint64_t word = key_load8(bytes + i);
        low = key_mix(word, low);
        high = key_mix(high, word);
    }
    uint64_t last = key_load8(bytes + len - 8);
    return (struct key){key_mix(last, low), key_mix(high, last)};
}

/* Reads exactly bytes[0..len), len >= 1.  Up to KEY_WHOLE bytes the key and len identify the
 * bytes; above that the key is a hash and the bytes must be compared. */
static inline struct key key_of(const char *bytes, size_t len)
{
    if (len <= 3) {
        uint64_t low = (unsigned char)bytes[0] | (uint64_t)(unsigned char)bytes[len >> 1] << 8 |
                       (uint64_t)(unsigned char)bytes[len - 1] << 16;
        return (struct key){key_cut(low, len), 0};
    }
    if (len < 8)
        return (struct key){
            key_load4(bytes) | (uint64_t)key_load4(bytes + len - 4) << 8 * (len - 4), 0};
    if (len == 8)
        return (struct key){key_load8(bytes), 0};
    if (len <= KEY_WHOLE)
        return (struct key){key_load8(bytes), key_load8(bytes + len - 8) >> 8 * (16 - len)};
    return key_long(bytes, len);
}

/* The same if KEY_WHOLE bytes can be read, without a branch on the length. */
static inline struct key key_of_near(const char *bytes, size_t len)
{
    if (len > KEY_WHOLE)
        return key_long(bytes, len);
    uint64_t low = key_cut(key_load8(bytes), len < 8 ? len : 8);
    uint64_t high = key_cut(key_load8(bytes + 8), len > 8 ? len - 8 : 1);
    return (struct key){low, len > 8 ? high : 0};
}

static inline uint64_t key_hash(struct key key, size_t len)
{
    uint64_t x = (key.low ^ (uint64_t)len << 56) * 0x9E3779B97F4A7C15u;
    x ^= key.high * 0xC2B2AE3D27D4EB4Fu;
    x ^= x >> 29;
    return x * 0xBF58476D1CE4E5B9u;
}

/* Four filter bits for each slot: rules out most strings that are no tokens. */
static inline uint64_t key_filter_bit(const struct vocab *v, uint64_t hash)
{
    return hash >> (62 - v->slot_bits);
}

static inline bool key_passes(const struct vocab *v, uint64_t hash)
{
    uint64_t bit = key_filter_bit(v, hash);
    return (v->filter[bit >> 6] >> (bit & 63) & 1) != 0;
}

static inline const struct vocab_slot *key_find_slot(const struct vocab *v, struct key key,
                                                     uint64_t hash, const char *bytes,
                                                     size_t len)
{
    uint32_t mask = (1u << v->slot_bits) - 1;
    for (uint32_t i = (uint32_t)(hash >> (64 - v->slot_bits));; i = (i + 1) & mask) {
        const struct vocab_slot *slot = &v->slots[i];
        if (slot->len == 0)
            return NULL;
        if (slot->low == key.low && slot->high == key.high && slot->len == len &&
            (len <= 16 ||
             memcmp(vocab_bytes(v, slot->id & ~(uint32_t)VOCAB_DIRECT), bytes, len) == 0))
            return slot;
    }
}

/* tokenizer_vocab_find for a caller that has the key and its hash. */
static inline const struct vocab_slot *key_find(const struct vocab *v, struct key key,
                                                uint64_t hash, const char *bytes, size_t len)
{
    return key_passes(v, hash) ? key_find_slot(v, key, hash, bytes, len) : NULL;
}

#endif
