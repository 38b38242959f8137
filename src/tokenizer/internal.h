/* tokenizer/internal.h - the parts of an open tokenizer; for this folder only.
 *
 * load.c builds the parts in this order: vocabulary (vocab.c), added tokens (added.c),
 * merges (merges.c), pre-tokenizer (split_load.c).
 * Afterwards everything here is const.
 */
#ifndef TOKENIZER_INTERNAL_H
#define TOKENIZER_INTERNAL_H

#include "base/json.h"
#include "tokenizer/tokenizer.h"

#define TOKENIZER_NONE UINT32_MAX

/* ---- vocabulary ---- */

enum {
    TOKEN_PRESENT = 1,
    TOKEN_SPECIAL = 2, /* added with "special": true */
    TOKEN_ADDED = 4,
    TOKEN_BYTES = 8, /* in the model's vocabulary and written in the byte alphabet */
};

struct token {
    uint32_t offset; /* of its bytes in vocab.bytes */
    uint16_t len;
    uint16_t flags;
};

/* A token of at most 16 bytes is its own key: two overlapping words and the length identify it,
 * so a lookup touches one cache line.  Longer tokens have two hashes and are compared in
 * vocab.bytes. */
struct vocab_slot {
    uint64_t low;
    uint64_t high;
    uint32_t len; /* 0: free */
    uint32_t id;  /* VOCAB_DIRECT: a piece with these bytes is this token, without merging */
};

enum { VOCAB_DIRECT = 1 << 30 };

struct vocab {
    struct token *tokens; /* owned, by id */
    uint32_t size;        /* highest id + 1 */
    uint32_t capacity;
    struct lr_buf bytes;      /* owned */
    struct vocab_slot *slots; /* owned, power of two, at most half full */
    uint64_t *filter;         /* owned: a Bloom filter over all tokens; small enough for L2 */
    uint32_t slot_bits;
    uint32_t byte_ids[256];
};

/* Adds a token at its id; MODEL_CORRUPT when the id is taken or out of range. */
LR_MUST_USE lr_code tokenizer_vocab_add(struct vocab *v, uint64_t id, struct lr_str bytes,
                                        uint16_t flags, struct lr_error *err);
/* Reads model.vocab (JSON text of the object). */
LR_MUST_USE lr_code tokenizer_vocab_read(struct vocab *v, struct lr_str whole,
                                         struct lr_str object, struct lr_error *err);
/* Fills slots. */
LR_MUST_USE lr_code tokenizer_vocab_index(struct vocab *v, struct lr_error *err);
/* Fills byte_ids; added tokens must be known by then. */
LR_MUST_USE lr_code tokenizer_vocab_find_bytes(struct vocab *v, struct lr_error *err);
const struct vocab_slot *tokenizer_vocab_find(const struct vocab *v, const char *bytes,
                                              size_t len);
void tokenizer_vocab_free(struct vocab *v);

static inline const char *vocab_bytes(const struct vocab *v, uint32_t id)
{
    return v->bytes.data + v->tokens[id].offset;
}

/* ---- merges ---- */

/* A slot holds left id (20 bits), right id (20) and rank (24): a whole pair in one word,
 * because merging consists mostly of these lookups. */
struct merges {
    uint64_t *slots;  /* owned */
    uint64_t *filter; /* owned: a Bloom filter over all pairs.  Most pairs have no rank, and
                         this stays in the cache; NULL until prune.c */
    uint32_t slot_bits;
    uint32_t *results;              /* owned: rank -> id of the merged token */
    uint32_t count;                 /* ranks */
    uint32_t *byte_pairs;           /* owned, 256 x 256 ranks of the pairs of single bytes */
    uint64_t seams[256 * 256 / 64]; /* bit a << 8 | b: a merge joins ...a with b... */
};

#define MERGES_FREE UINT64_MAX

/* Zeroed memory for a table with random access, on huge pages if possible: with small pages
 * half of every cache miss is spent on the page lookup. free() it. */
void *tokenizer_table_alloc(size_t bytes);

LR_MUST_USE lr_code tokenizer_merges_read(struct merges *m, const struct vocab *v,
                                          struct lr_str whole, struct lr_str array,
                                          struct lr_error *err);
/* Fills byte_pairs and seams. */
void tokenizer_merges_index_bytes(struct merges *m, const struct vocab *v);
void tokenizer_merges_free(struct merges *m);

static inline uint32_t merges_hash(uint64_t pair, uint32_t bits)
{
    return (uint32_t)((pair * 0x9E3779B97F4A7C15u) >> (64 - bits));
}

static inline bool merges_passes(const struct merges *m, uint64_t pair)
{
    uint32_t bit = merges_hash(pair, m->slot_bits + 1);
    return m->filter == NULL || (m->filter[bit >> 6] >> (bit & 63) & 1) != 0;
}

/* False: no merge crosses the border between byte a and byte b. */
static inline bool merges_cross(const struct merges *m, unsigned char a, unsigned char b)
{
    return (m->seams[a << 2 | b >> 6] >> (b & 63) & 1) != 0;
}

/* The rank of a pair, or TOKENIZER_NONE. */
static inline uint32_t merges_rank(const struct merges *m, uint32_t left, uint32_t right)
{
    uint64_t pair = (uint64_t)left << 20 | right;
    if (!merges_passes(m, pair))
        return TOKENIZER_NONE;
    uint32_t mask = (1u << m->slot_bits) - 1;
    for (uint32_t i = merges_hash(pair, m->slot_bits);; i = (i + 1) & mask) {
        uint64_t slot = m->slots[i];
        if (slot >> 24 == pair)
            return (uint32_t)(slot & 0xFFFFFF);
        if (slot == MERGES_FREE)
            return TOKENIZER_NONE;
    }
}

/* ---- added tokens ---- */

struct added_token {
    struct lr_str text; /* borrowed from struct added */
    uint32_t id;
    bool special;
    bool single_word;
    bool lstrip;
    bool rstrip;
    bool normalized;
};

/* Tokens in byte order; found by narrowing a range byte by byte. */
struct added_matcher {
    struct added_token *tokens; /* owned */
    uint32_t count;
    bool first[256]; /* bytes that a token may begin with */
    int only_first;  /* the only such byte, for memchr; or -1 */
};

struct added {
    struct added_matcher matchers[2]; /* "normalized": false ones are matched first */
    char *text;                       /* owned: the bytes of all of them */
    void *word;                       /* owned pcre2_code of one word character */
};

/* Reads added_tokens (may be NULL) and enters them into the vocabulary. */
LR_MUST_USE lr_code tokenizer_added_read(struct added *a, struct vocab *v,
                                         const struct lr_json *list, struct lr_error *err);
void tokenizer_added_free(struct added *a);

/* Where control tokens may be: offsets at which trust changes; the text begins untrusted. */
struct trust {
    const size_t *flips;
    size_t count;
};

struct added_hit {
    size_t start; /* of the replaced text, with stripped blanks */
    size_t end;
    uint32_t id;
};

/* The first token at or after *from in text[0..len); `base` is the offset of text in the text
 * of `trust`.  *from moves past the checked part. */
bool tokenizer_added_next(const struct added *a, const struct added_matcher *m,
                          struct lr_str text, size_t *from, size_t base,
                          const struct trust *trust, struct added_hit *hit);

/* ---- pre-tokenizer ---- */

struct split_classes; /* scan.h */

enum split_kind {
    SPLIT_REGEX,  /* every match is a piece, and so is the text between matches */
    SPLIT_O200K,  /* the same for one pattern, by a hand-written scanner */
    SPLIT_PREFIX, /* a blank before every piece that does not begin with one */
};

struct split_step {
    enum split_kind kind;
    void *code; /* pcre2_code, owned */
};

enum { SPLIT_MAX_STEPS = 8 };

struct splitter {
    struct split_step steps[SPLIT_MAX_STEPS];
    uint32_t count;
    struct split_classes *classes; /* owned; only with SPLIT_O200K */
};

/* Compiles a pattern written for Oniguruma; `what` names it in messages. */
LR_MUST_USE lr_code tokenizer_split_compile(struct lr_str pattern, bool literal,
                                            const char *what, void **code,
                                            struct lr_error *err);
void tokenizer_split_free_code(void *code);

LR_MUST_USE lr_code tokenizer_split_read(struct splitter *s,
                                         const struct lr_json *pre_tokenizer,
                                         struct lr_error *err);
void tokenizer_split_free(struct splitter *s);

/* ---- the tokenizer ---- */

struct tokenizer {
    struct vocab vocab;
    struct merges merges;
    struct added added;
    struct splitter splitter;
    uint32_t *characters; /* owned: see closed.c; TOKENIZER_NONE: not closed */
    bool ignore_merges;
    bool pairs_merge; /* every token of two bytes comes from a merge */
};

/* Room for one more id. */
bool tokenizer_ids_grow(struct tokenizer_ids *ids, size_t more);

static inline void tokenizer_ids_add(struct tokenizer_ids *ids, uint32_t id)
{
    if (ids->count == ids->capacity && !tokenizer_ids_grow(ids, 1))
        return;
    ids->items[ids->count++] = id;
}

#endif
