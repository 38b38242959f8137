/* tokenizer/internal.h - the parts of an open tokenizer; for this folder only.
 *
 * load.c builds the parts in this order: vocabulary (vocab.c), added tokens (added.c),
 * merges (merges.c), pre-tokenizer (split_load.c).
 * Afterwards everything here is const.
 */
#ifndef TOKENIZER_INTERNAL_H
#define TOKENIZER_INTERNAL_H

#include "base/json.h"
#include "tokenizer/decoding.h"
#include "tokenizer/normal.h"
#include "tokenizer/split.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/trie.h"

#define TOKENIZER_NONE UINT32_MAX
/* U+2581, with which SentencePiece writes a blank. */
#define TOKENIZER_WORD_MARK "\xE2\x96\x81"

/* ---- vocabulary ---- */

enum {
    TOKEN_PRESENT = 1,
    TOKEN_SPECIAL = 2, /* added with "special": true */
    TOKEN_ADDED = 4,
    TOKEN_INDEXED = 8,  /* in the model's vocabulary, and its bytes can occur in a piece */
    TOKEN_LETTERS = 16, /* its bytes are written in the byte alphabet in the file */
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
    uint32_t byte_ids[256]; /* TOKENIZER_NONE: no token is this byte */
    bool repeats;           /* a text may be of several tokens; the last one is found */
    bool raw;               /* tokens are text as written, not in the byte alphabet */
    struct lr_str suffix;   /* borrowed: end_of_word_suffix; tokens have BPE_END for it */
};

/* Adds a token at its id; MODEL_CORRUPT when the id is taken or out of range. */
LR_MUST_USE lr_code tokenizer_vocab_add(struct vocab *v, uint64_t id, struct lr_str bytes,
                                        uint16_t flags, struct lr_error *err);
/* Reads model.vocab (JSON text of the object). */
LR_MUST_USE lr_code tokenizer_vocab_read(struct vocab *v, struct lr_str whole,
                                         struct lr_str object, struct lr_error *err);
/* Fills slots. */
LR_MUST_USE lr_code tokenizer_vocab_index(struct vocab *v, struct lr_error *err);
/* The form that a token of the file has in the vocabulary, from `scratch` where it changes; its
 * flags. */
struct lr_str tokenizer_vocab_form(const struct vocab *v, struct lr_str text, bool is_letters,
                                   struct lr_buf *scratch);
/* The text of a token as the file has it, appended to out. */
void tokenizer_vocab_content(const struct vocab *v, uint32_t id, struct lr_buf *out);
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
    size_t at;          /* of its normalized text, while that is made */
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
    int only_first;  /* the only byte that a token may begin with, for memchr; or -1 */
};

struct added {
    struct added_matcher matchers[2]; /* "normalized": false ones are matched first */
    char *text;                       /* owned: the bytes of all of them */
    char *normalized;                 /* owned: the same of the second matcher, normalized */
    void *word;                       /* owned pcre2_code of one word character */
};

/* Reads added_tokens (may be NULL) and enters them into the vocabulary. */
LR_MUST_USE lr_code tokenizer_added_read(struct added *a, struct vocab *v,
                                         const struct lr_json *list, struct lr_error *err);
void tokenizer_added_free(struct added *a);

/* Normalizes the tokens of the second matcher, which are found in normalized text. */
LR_MUST_USE lr_code tokenizer_added_normalize(struct added *a, const struct normalizer *n,
                                              struct lr_error *err);

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

/* ---- the tokenizer ---- */

enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORDPIECE };

struct unigram {
    double *scores; /* owned, by id */
    double least;   /* of all scores */
    size_t longest; /* bytes of the longest token */
    uint32_t unknown;
};

struct wordpiece {
    struct lr_str prefix; /* owned: of a token that continues a word */
    uint32_t inner;       /* node of the trie after the prefix; 0: no token begins with it */
    uint32_t unknown;
    size_t longest; /* characters of a word; a longer one is unknown */
};

/* The ids that a post-processor puts around a text, and between two. */
struct wrapping {
    uint32_t *before;  /* owned */
    uint32_t *after;   /* owned */
    uint32_t *between; /* owned */
    uint32_t before_count;
    uint32_t after_count;
    uint32_t between_count; /* 0: as `after` */
};

struct tokenizer {
    enum model_kind kind;
    struct vocab vocab;
    struct merges merges;
    struct added added;
    struct normalizer normalizer;
    struct splitter splitter;
    struct decoder decoder;
    struct wrapping wrapping;
    struct trie trie;           /* Unigram, WordPiece */
    struct unigram unigram;     /* Unigram */
    struct wordpiece wordpiece; /* WordPiece */
    uint32_t *characters;       /* owned: see closed.c; TOKENIZER_NONE: not closed */
    struct lr_str suffix;       /* owned: BPE's end_of_word_suffix; empty: none */
    uint32_t unknown;           /* BPE's unk_token, or TOKENIZER_NONE */
    bool fuse_unknown;          /* neighbours become one */
    bool fallback;              /* what is unknown becomes the tokens of its bytes */
    uint32_t fallback_ids[256]; /* "<0x00>"..., or TOKENIZER_NONE */
    uint32_t *shown;            /* owned, by id: end of its text in shown_bytes; NULL: the
                                   vocabulary's bytes are the text */
    struct lr_buf shown_bytes;  /* owned */
    bool ignore_merges;
    bool characters_only;   /* BPE's symbols are characters, not bytes */
    bool plain_bytes;       /* BPE's symbols are all the 256 bytes */
    bool pairs_merge;       /* every token of two bytes comes from a merge */
    bool cuts;              /* text may be cut before a word mark, see mark_seams */
    uint64_t mark_seams[4]; /* bit b: a merge joins ...b and a word mark */
};

struct encoding; /* encoding.h */

/* Appends the ids of a piece that is not empty. */
LR_MUST_USE lr_code tokenizer_model_encode(struct encoding *e, struct lr_str piece);
LR_MUST_USE lr_code tokenizer_unigram_encode(struct encoding *e, struct lr_str piece);
LR_MUST_USE lr_code tokenizer_wordpiece_encode(struct encoding *e, struct lr_str piece);

/* Decodes each token alone, as in the middle of a text (decode.c). */
LR_MUST_USE lr_code tokenizer_shown_make(struct tokenizer *t, struct lr_error *err);

/* Reads post_processor; borrowed for the call. */
LR_MUST_USE lr_code tokenizer_wrapping_read(struct wrapping *w, const struct lr_json *json,
                                            struct lr_error *err);
void tokenizer_wrapping_free(struct wrapping *w);

/* Room for one more id. */
bool tokenizer_ids_grow(struct tokenizer_ids *ids, size_t more);

static inline void tokenizer_ids_add(struct tokenizer_ids *ids, uint32_t id)
{
    if (ids->count == ids->capacity && !tokenizer_ids_grow(ids, 1))
        return;
    ids->items[ids->count++] = id;
}

#endif
