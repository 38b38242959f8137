/* tokenizer/bpe.h - merges the bytes of a piece into tokens; for this folder only.
 *
 * The rule: of all neighbouring pairs the pair with the lowest rank merges, the leftmost of
 * equals, until no pair has a rank.
 *
 * A property of that rule makes long pieces cheap: a list of tokens is the encoding of its
 * bytes exactly if every two neighbours are the encoding of their bytes.  (Proof: follow the
 * merges of the whole text until the first merge that crosses a border between two of the
 * tokens.  Until then the bytes of these two had the same merges, in the same order, as they
 * would have alone; so that merge would have crossed the border there too.)  So a long piece is
 * encoded window by window, and only the seams must be checked.
 */
#ifndef TOKENIZER_BPE_H
#define TOKENIZER_BPE_H

#include "tokenizer/internal.h"

/* The ids of a byte string seen before in the same call. */
struct bpe_entry {
    uint64_t hash;
    uint32_t key;   /* its bytes in bpe.keys */
    uint32_t len;   /* 0: free */
    uint32_t count; /* of ids */
    uint32_t at;    /* in bpe.pool */
};

enum {
    BPE_ENTRIES = 2048,
    BPE_POOL = 1 << 16,
    BPE_KEYS = 1 << 20,
    BPE_CACHED_MAX = 1 << 15,
};

/* Working memory of one call.  Thread: the caller's. */
struct bpe {
    const struct tokenizer *t;
    struct tokenizer_ids *out;
    struct bpe_entry *entries; /* owned; NULL: no cache */
    uint32_t *pool;            /* owned */
    char *keys;                /* owned */
    uint32_t pool_used;
    uint32_t keys_used;
    void *heap; /* owned: for pieces that fit nowhere else */
    size_t heap_bytes;
    struct lr_buf ended; /* owned: a piece with the mark of its end */
    uint64_t *paths;     /* owned: unigram.c */
    size_t path_room;
    bool out_of_memory; /* stays set */
};

void tokenizer_bpe_init(struct bpe *b, const struct tokenizer *t, struct tokenizer_ids *out);
void tokenizer_bpe_free(struct bpe *b);
/* Enables the cache; useful for texts of more than a few thousand bytes. */
void tokenizer_bpe_remember(struct bpe *b);
/* The ids of a piece as encoded before; true: they were appended. */
bool tokenizer_bpe_recall(struct bpe *b, uint64_t hash, const char *bytes, size_t len);
/* Remembers the ids from `first` on as those of the piece. */
void tokenizer_bpe_store(struct bpe *b, uint64_t hash, const char *bytes, size_t len,
                         size_t first);

/* Appends the ids of one piece (len >= 1), by ignore_merges or by merging.  Every symbol of it
 * is in the vocabulary. */
void tokenizer_bpe_piece(struct bpe *b, const char *bytes, size_t len);

/* The same for a piece that may have unknown symbols (symbols.c). */
void tokenizer_bpe_any_piece(struct bpe *b, const char *bytes, size_t len);

/* The same for consecutive pieces: piece i ends at ends[i], where the next begins; bytes up to
 * `end` may be read.  Faster, because the lookups wait for memory together. */
enum { BPE_BATCH = 128 };
void tokenizer_bpe_pieces(struct bpe *b, const char *start, const char *const *ends,
                          size_t count, const char *end);

/* Pieces of up to this number of bytes are merged by scanning all pairs for the lowest rank. */
enum { BPE_SMALL_MAX = 64 };

/* The ids of at most BPE_SMALL_MAX bytes, and the last rank applied (unchanged if there was
 * none). ids has room for len.  Returns the number of ids. */
size_t tokenizer_merge_small(const struct tokenizer *t, const char *bytes, size_t len,
                             uint32_t *ids, uint32_t *last_rank);

/* Appends the ids of any number of bytes, in O(n log n). */
void tokenizer_merge_large(struct bpe *b, const char *bytes, size_t len);

/* The last rank applied when a token's own bytes are merged, or TOKENIZER_NONE when they do not
 * become the token.  The token has at most BPE_SMALL_MAX bytes. */
uint32_t tokenizer_merge_last_rank(const struct tokenizer *t, uint32_t id);

/* Marks the tokens that merging makes of their own bytes (all tokens under ignore_merges), so
 * that a piece that is a token needs one lookup. */
LR_MUST_USE lr_code tokenizer_bpe_mark_direct(struct tokenizer *t, struct lr_error *err);

/* Drops merges that can never happen (prune.c); ids stay the same, ranks change. */
LR_MUST_USE lr_code tokenizer_prune(struct tokenizer *t, struct lr_error *err);

/* Finds the characters of two or three bytes whose bytes always merge into one token first, in
 * any context (closed.c). */
LR_MUST_USE lr_code tokenizer_closed_find(struct tokenizer *t, struct lr_error *err);

enum { CLOSED_CHARACTERS = 0x10000 };

/* The byte that marks the end of a piece where the model has an end_of_word_suffix; no text has
 * it, because it occurs in no UTF-8. */
#define BPE_END '\xFF'

/* The first symbol of bytes[0..left), as merging begins, and its length; TOKENIZER_NONE: it is
 * not in the vocabulary. */
uint32_t tokenizer_symbol_slow(const struct tokenizer *t, const unsigned char *bytes,
                               size_t left, size_t *len);

/* The token of the closed character that begins at bytes, and its length; or
 * TOKENIZER_NONE. */
static inline uint32_t closed_at(const struct tokenizer *t, const unsigned char *bytes,
                                 size_t left, size_t *len)
{
    uint32_t c = bytes[0];
    if (c < 0xC2 || t->characters == NULL || left < 2 || (bytes[1] & 0xC0) != 0x80)
        return TOKENIZER_NONE;
    if (c < 0xE0) {
        *len = 2;
        return t->characters[(c & 0x1F) << 6 | (bytes[1] & 0x3Fu)];
    }
    if (c >= 0xF0 || left < 3 || (bytes[2] & 0xC0) != 0x80)
        return TOKENIZER_NONE;
    *len = 3;
    c = (c & 0x0F) << 12 | (bytes[1] & 0x3Fu) << 6 | (bytes[2] & 0x3Fu);
    /* An overlong form would use another character's entry. */
    return c >= 0x800 ? t->characters[c] : TOKENIZER_NONE;
}

static inline uint32_t symbol_at(const struct tokenizer *t, const unsigned char *bytes,
                                 size_t left, size_t *len)
{
    if (!t->plain_bytes)
        return tokenizer_symbol_slow(t, bytes, left, len);
    uint32_t id = closed_at(t, bytes, left, len);
    if (id != TOKENIZER_NONE)
        return id;
    *len = 1;
    return t->vocab.byte_ids[bytes[0]];
}

#endif
