/* tokenizer/bpe.c - encodes pieces: lookups, a cache of earlier pieces, windows over long ones.
 *
 * See bpe.h for the rule and for why windows are exact; merge.c merges.
 */
#include "tokenizer/bpe.h"

#include <stdlib.h>

#include "tokenizer/key.h"

enum {
    LONG_FROM = BPE_SMALL_MAX + 1, /* bytes from which a piece is encoded window by window */
    WINDOW_NEW = 24,               /* bytes a window adds */
    REMEMBER_MIN = 5,              /* shorter pieces: merging is as fast as a cache lookup */
    PULL_FIRST = 2,                /* tokens before the seam that a window encodes again */
    PULL_MAX = 1 << 16, /* most bytes to go back before the piece is merged as a whole */
};

void tokenizer_bpe_init(struct bpe *b, const struct tokenizer *t, struct tokenizer_ids *out)
{
    *b = (struct bpe){.t = t, .out = out};
    lr_buf_init(&b->ended, 0);
}

void tokenizer_bpe_free(struct bpe *b)
{
    free(b->entries);
    free(b->pool);
    free(b->keys);
    free(b->heap);
    free(b->paths);
    lr_buf_free(&b->ended);
}

void tokenizer_bpe_remember(struct bpe *b)
{
    b->entries = calloc(BPE_ENTRIES, sizeof(*b->entries));
    b->pool = malloc(BPE_POOL * sizeof(*b->pool));
    b->keys = malloc(BPE_KEYS);
    if (b->entries == NULL || b->pool == NULL || b->keys == NULL) { /* slower, not wrong */
        free(b->entries);
        b->entries = NULL;
    }
}

/* ---- blocks: short enough for the cache ---- */

static void append(struct tokenizer_ids *out, const uint32_t *ids, size_t count)
{
    if (out->capacity - out->count < count && !tokenizer_ids_grow(out, count))
        return;
    memcpy(out->items + out->count, ids, count * sizeof(*ids));
    out->count += count;
}

static void merge_any(struct bpe *b, const char *bytes, size_t len)
{
    struct tokenizer_ids *out = b->out;
    uint32_t ids[BPE_SMALL_MAX], rank;
    if (len > BPE_SMALL_MAX)
        tokenizer_merge_large(b, bytes, len);
    else if (out->capacity - out->count >= len)
        out->count += tokenizer_merge_small(b->t, bytes, len, out->items + out->count, &rank);
    else
        append(out, ids, tokenizer_merge_small(b->t, bytes, len, ids, &rank));
}

bool tokenizer_bpe_recall(struct bpe *b, uint64_t hash, const char *bytes, size_t len)
{
    if (b->entries == NULL || len > BPE_CACHED_MAX)
        return false;
    const struct bpe_entry *entry = &b->entries[hash >> 53];
    if (entry->hash != hash || entry->len != len ||
        memcmp(b->keys + entry->key, bytes, len) != 0)
        return false;
    append(b->out, b->pool + entry->at, entry->count);
    return true;
}

void tokenizer_bpe_store(struct bpe *b, uint64_t hash, const char *bytes, size_t len,
                         size_t first)
{
    size_t count = b->out->count - first;
    if (b->entries == NULL || len > BPE_CACHED_MAX || b->out->failed || b->out_of_memory)
        return;
    if (b->pool_used + count > BPE_POOL || b->keys_used + len > BPE_KEYS) {
        memset(b->entries, 0, BPE_ENTRIES * sizeof(*b->entries));
        b->pool_used = b->keys_used = 0;
    }
    memcpy(b->pool + b->pool_used, b->out->items + first, count * sizeof(*b->pool));
    memcpy(b->keys + b->keys_used, bytes, len);
    b->entries[hash >> 53] =
        (struct bpe_entry){hash, b->keys_used, (uint32_t)len, (uint32_t)count, b->pool_used};
    b->pool_used += (uint32_t)count;
    b->keys_used += (uint32_t)len;
}

/* Appends the ids that merging gives, from the cache if possible. */
static void merge_block(struct bpe *b, uint64_t hash, const char *bytes, size_t len)
{
    if (len < REMEMBER_MIN) {
        merge_any(b, bytes, len);
        return;
    }
    if (tokenizer_bpe_recall(b, hash, bytes, len))
        return;
    size_t first = b->out->count;
    merge_any(b, bytes, len);
    tokenizer_bpe_store(b, hash, bytes, len, first);
}

/* ---- long pieces ---- */

/* True when these two tokens, which meet at `seam`, stay separate when their bytes are merged
 * together. */
static bool seam_holds(struct bpe *b, uint32_t left, uint32_t right, const char *seam)
{
    struct tokenizer_ids *out = b->out;
    const char *bytes = seam - b->t->vocab.tokens[left].len;
    size_t len = (size_t)b->t->vocab.tokens[left].len + b->t->vocab.tokens[right].len;
    size_t first = out->count;
    merge_block(b, key_hash(key_of(bytes, len), len), bytes, len);
    bool holds =
        out->count == first + 2 && out->items[first] == left && out->items[first + 1] == right;
    out->count = first;
    return holds;
}

/* Encodes bytes[done..end) after the piece's ids in b->out from `first` on; false when the seam
 * is too far back.  *redone is the number of bytes before `done` that were encoded again. */
static bool add_window(struct bpe *b, const char *bytes, size_t done, size_t end, size_t first,
                       size_t *redone)
{
    struct tokenizer_ids *out = b->out;
    size_t kept = out->count, before = done;
    for (size_t pull = PULL_FIRST;; pull *= 2) {
        for (size_t i = 0; i < pull && kept > first; i++)
            before -= b->t->vocab.tokens[out->items[--kept]].len;
        *redone = done - before;
        if (*redone > PULL_MAX)
            return false;
        size_t added = out->count;
        size_t len = end - before;
        merge_block(b, key_hash(key_of(bytes + before, len), len), bytes + before, len);
        if (out->failed || b->out_of_memory)
            return true;
        size_t count = out->count - added;
        if (kept != first &&
            !seam_holds(b, out->items[kept - 1], out->items[added], bytes + before)) {
            out->count = added;
            continue;
        }
        memmove(out->items + kept, out->items + added, count * sizeof(*out->items));
        out->count = kept + count;
        return true;
    }
}

/* Where a window that ends near `end` may end: between two symbols. */
static size_t window_end(const struct tokenizer *t, const char *bytes, size_t end, size_t len)
{
    while (t->characters_only && end < len && ((unsigned char)bytes[end] & 0xC0) == 0x80)
        end++;
    return t->suffix.len != 0 && end + 1 == len ? len : end;
}

static void merge_long(struct bpe *b, const char *bytes, size_t len)
{
    size_t first = b->out->count, redone = 0;
    for (size_t done = 0; done < len;) {
        /* Long tokens (runs of blanks) are encoded again whole; then a window adds as much, so
         * that no byte is encoded more than a few times. */
        size_t more = redone > WINDOW_NEW ? redone : WINDOW_NEW;
        size_t end = len - done > more ? done + more : len;
        end = window_end(b->t, bytes, end, len);
        if (!add_window(b, bytes, done, end, first, &redone)) {
            b->out->count = first;
            tokenizer_merge_large(b, bytes, len);
            return;
        }
        if (b->out->failed || b->out_of_memory)
            return;
        done = end;
    }
}

/* Pieces of one or two bytes are common in code and data, and need no hashing. */
static bool piece_of_two(struct bpe *b, const char *bytes, size_t len)
{
    const unsigned char *byte = (const unsigned char *)bytes;
    const struct tokenizer *t = b->t;
    if (len == 1) {
        tokenizer_ids_add(b->out, t->vocab.byte_ids[byte[0]]);
        return true;
    }
    uint32_t rank = t->merges.byte_pairs[byte[0] << 8 | byte[1]];
    if (rank != TOKENIZER_NONE) {
        tokenizer_ids_add(b->out, t->merges.results[rank]);
        return true;
    }
    if (!t->pairs_merge)
        return false;
    tokenizer_ids_add(b->out, t->vocab.byte_ids[byte[0]]);
    tokenizer_ids_add(b->out, t->vocab.byte_ids[byte[1]]);
    return true;
}

static void piece(struct bpe *b, const struct vocab_slot *slot, uint64_t hash,
                  const char *bytes, size_t len)
{
    if (slot != NULL && (slot->id & VOCAB_DIRECT) != 0)
        tokenizer_ids_add(b->out, slot->id & ~(uint32_t)VOCAB_DIRECT);
    else if (len >= LONG_FROM)
        merge_long(b, bytes, len);
    else
        merge_block(b, hash, bytes, len);
}

void tokenizer_bpe_piece(struct bpe *b, const char *bytes, size_t len)
{
    if (len <= 2 && b->t->plain_bytes && piece_of_two(b, bytes, len))
        return;
    struct key key = key_of(bytes, len);
    uint64_t hash = key_hash(key, len);
    piece(b, key_find(&b->t->vocab, key, hash, bytes, len), hash, bytes, len);
}

/* Three passes: the first prefetches cache lines of the filter, the second those of matching
 * slots, and the third uses them. */
void tokenizer_bpe_pieces(struct bpe *b, const char *start, const char *const *ends,
                          size_t count, const char *end)
{
    const struct vocab *v = &b->t->vocab;
    struct key keys[BPE_BATCH];
    uint64_t hashes[BPE_BATCH];
    bool known[BPE_BATCH];
    const char *at = start;
    for (size_t i = 0; i < count; at = ends[i++]) {
        size_t len = (size_t)(ends[i] - at);
        keys[i] = end - at >= KEY_WHOLE ? key_of_near(at, len) : key_of(at, len);
        hashes[i] = key_hash(keys[i], len);
        __builtin_prefetch(&v->filter[key_filter_bit(v, hashes[i]) >> 6]);
    }
    for (size_t i = 0; i < count; i++) {
        known[i] = key_passes(v, hashes[i]);
        if (known[i])
            __builtin_prefetch(&v->slots[hashes[i] >> (64 - v->slot_bits)]);
    }
    at = start;
    for (size_t i = 0; i < count; at = ends[i++]) {
        size_t len = (size_t)(ends[i] - at);
        if (len <= 2 && piece_of_two(b, at, len))
            continue;
        piece(b, known[i] ? key_find_slot(v, keys[i], hashes[i], at, len) : NULL, hashes[i], at,
              len);
    }
}

lr_code tokenizer_bpe_mark_direct(struct tokenizer *t, struct lr_error *err)
{
    struct tokenizer_ids ids;
    struct bpe b;
    tokenizer_ids_init(&ids, TOKENIZER_MAX_TOKEN);
    tokenizer_bpe_init(&b, t, &ids);
    struct vocab *v = &t->vocab;
    t->pairs_merge = true;
    for (size_t i = 0; i < (size_t)1 << v->slot_bits; i++) {
        struct vocab_slot *slot = &v->slots[i];
        if (slot->len == 0 || (v->tokens[slot->id].flags & TOKEN_SPECIAL) != 0)
            continue;
        ids.count = 0;
        if (!t->ignore_merges)
            merge_any(&b, vocab_bytes(v, slot->id), slot->len);
        if (slot->len == 2) {
            const unsigned char *pair = (const unsigned char *)vocab_bytes(v, slot->id);
            if (t->merges.byte_pairs[pair[0] << 8 | pair[1]] == TOKENIZER_NONE)
                t->pairs_merge = false;
        }
        if (t->ignore_merges || (ids.count == 1 && ids.items[0] == slot->id))
            slot->id |= VOCAB_DIRECT;
    }
    bool failed = ids.failed || b.out_of_memory;
    tokenizer_bpe_free(&b);
    tokenizer_ids_free(&ids);
    return failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory to check the vocabulary") : LR_OK;
}
