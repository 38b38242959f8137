/* tokenizer/bpe.c - see bpe.h for the rule and for why windows are exact. */
#include "tokenizer/bpe.h"

#include <stdlib.h>

#include "tokenizer/key.h"

enum {
    LONG_MIN = BPE_SMALL_MAX + 1, /* bytes from which a piece is encoded window by window */
    WINDOW_NEW = 24,              /* bytes a window adds */
    REMEMBER_MIN = 5,             /* bytes below which merging is as fast as remembering */
    PULL_FIRST = 2,               /* tokens before the seam that a window encodes again */
    PULL_MAX = 4096,              /* bytes to pull back before the piece is merged as a whole */
};

void tokenizer_bpe_init(struct bpe *b, const struct tokenizer *t, struct tokenizer_ids *out)
{
    *b = (struct bpe){.t = t, .out = out};
}

void tokenizer_bpe_free(struct bpe *b)
{
    free(b->entries);
    free(b->pool);
    free(b->heap);
}

void tokenizer_bpe_remember(struct bpe *b)
{
    b->entries = calloc(BPE_ENTRIES, sizeof(*b->entries));
    b->pool = malloc(BPE_POOL * sizeof(*b->pool));
    if (b->entries == NULL || b->pool == NULL) { /* slower, not wrong */
        free(b->entries);
        b->entries = NULL;
    }
}

void tokenizer_bpe_forget(struct bpe *b)
{
    if (b->entries != NULL)
        memset(b->entries, 0, BPE_ENTRIES * sizeof(*b->entries));
    b->pool_used = 0;
}

/* ---- merging ---- */

/* rank << 8 | position: the lowest of these is the next pair to merge. */
static inline uint32_t pair_key(uint32_t rank, size_t position)
{
    return rank == TOKENIZER_NONE ? rank : rank << 8 | (uint32_t)position;
}

/* len <= BPE_SMALL_MAX.  Returns the number of ids.  No position moves: short as the row is,
 * looking at the dead ones again costs less than closing the gaps. */
static size_t merge_small(const struct tokenizer *t, const char *bytes, size_t len,
                          uint32_t ids[BPE_SMALL_MAX], uint32_t *last_rank)
{
    const struct merges *m = &t->merges;
    const unsigned char *byte = (const unsigned char *)bytes;
    uint32_t keys[BPE_SMALL_MAX];
    uint8_t next[BPE_SMALL_MAX + 1], before[BPE_SMALL_MAX + 1];
    size_t n = 0;
    bool was_byte = false;
    for (size_t i = 0, width; i < len; i += width, n++) {
        uint32_t closed = closed_at(t, byte + i, len - i, &width);
        if (closed == TOKENIZER_NONE)
            width = 1;
        ids[n] = closed == TOKENIZER_NONE ? t->vocab.byte_ids[byte[i]] : closed;
        next[n] = (uint8_t)(n + 1);
        before[n] = (uint8_t)(n - 1);
        if (n != 0) {
            uint32_t rank = was_byte && width == 1 ? m->byte_pairs[byte[i - 1] << 8 | byte[i]]
                                                   : merges_rank(m, ids[n - 1], ids[n]);
            keys[n - 1] = pair_key(rank, n - 1);
        }
        was_byte = width == 1;
    }
    keys[n - 1] = TOKENIZER_NONE;
    for (;;) {
        uint32_t lowest = keys[0];
        for (size_t i = 1; i + 1 < n; i++) {
            lowest = keys[i] < lowest ? keys[i] : lowest;
            __asm__("" : "+r"(lowest)); /* a vector load would wait for the stores above */
        }
        if (lowest == TOKENIZER_NONE)
            break;
        size_t at = lowest & 0xFF, gone = next[at], after = next[gone];
        *last_rank = lowest >> 8;
        ids[at] = m->results[lowest >> 8];
        keys[gone] = keys[at] = TOKENIZER_NONE;
        next[at] = (uint8_t)after;
        before[after] = (uint8_t)at;
        if (after < n)
            keys[at] = pair_key(merges_rank(m, ids[at], ids[after]), at);
        if (at != 0) {
            size_t p = before[at];
            keys[p] = pair_key(merges_rank(m, ids[p], ids[at]), p);
        }
    }
    size_t count = 0;
    for (size_t i = 0; i < n; i = next[i])
        ids[count++] = ids[i];
    return count;
}

/* A symbol of the linked list that merge_large works on. */
struct symbol {
    uint32_t id;
    uint32_t rank; /* of the pair with the next symbol; what a heap entry must agree with */
    uint32_t next;
    uint32_t before;
};

struct heap {
    uint64_t *items; /* rank << 32 | position: the order of merging is that of integers */
    size_t count;
};

static void sift_down(struct heap *h, size_t at)
{
    uint64_t item = h->items[at];
    for (size_t child; (child = 2 * at + 1) < h->count; at = child) {
        if (child + 1 < h->count && h->items[child + 1] < h->items[child])
            child++;
        if (h->items[child] >= item)
            break;
        h->items[at] = h->items[child];
    }
    h->items[at] = item;
}

static void heap_push(struct heap *h, uint32_t rank, uint32_t position)
{
    if (rank == TOKENIZER_NONE)
        return;
    uint64_t item = (uint64_t)rank << 32 | position;
    size_t at = h->count++;
    for (; at != 0 && h->items[(at - 1) / 2] > item; at = (at - 1) / 2)
        h->items[at] = h->items[(at - 1) / 2];
    h->items[at] = item;
}

static uint64_t heap_pop(struct heap *h)
{
    uint64_t top = h->items[0];
    h->items[0] = h->items[--h->count];
    if (h->count != 0)
        sift_down(h, 0);
    return top;
}

static uint32_t pair_rank(const struct merges *m, const struct symbol *symbols, uint32_t at)
{
    uint32_t next = symbols[at].next;
    return next == TOKENIZER_NONE ? TOKENIZER_NONE
                                  : merges_rank(m, symbols[at].id, symbols[next].id);
}

static void merge_all(const struct merges *m, struct symbol *symbols, struct heap *h)
{
    while (h->count != 0) {
        uint64_t item = heap_pop(h);
        uint32_t at = (uint32_t)item, rank = (uint32_t)(item >> 32);
        struct symbol *s = &symbols[at];
        if (s->rank != rank) /* a neighbour merged meanwhile, or this one is gone */
            continue;
        struct symbol *gone = &symbols[s->next];
        s->id = m->results[rank];
        s->next = gone->next;
        gone->rank = TOKENIZER_NONE;
        if (s->next != TOKENIZER_NONE)
            symbols[s->next].before = at;
        s->rank = pair_rank(m, symbols, at);
        heap_push(h, s->rank, at);
        if (s->before != TOKENIZER_NONE) {
            symbols[s->before].rank = pair_rank(m, symbols, s->before);
            heap_push(h, symbols[s->before].rank, s->before);
        }
    }
}

/* Any length, in O(n log n).  Appends to b->out. */
static void merge_large(struct bpe *b, const char *bytes, size_t len)
{
    const struct merges *m = &b->t->merges;
    /* A merge takes one entry off the heap and adds at most two, and there are fewer
     * merges than bytes. */
    size_t needed = len * sizeof(struct symbol) + 2 * len * sizeof(uint64_t);
    if (needed > b->heap_bytes) {
        free(b->heap);
        b->heap = malloc(needed);
        b->heap_bytes = b->heap != NULL ? needed : 0;
    }
    if (b->heap == NULL) {
        b->out_of_memory = true;
        return;
    }
    struct heap h = {.items = b->heap};
    struct symbol *symbols = (struct symbol *)(h.items + 2 * len);
    for (size_t i = 0; i < len; i++) {
        bool last = i + 1 == len;
        unsigned char byte = (unsigned char)bytes[i];
        uint32_t rank =
            last ? TOKENIZER_NONE : m->byte_pairs[byte << 8 | (unsigned char)bytes[i + 1]];
        symbols[i] = (struct symbol){b->t->vocab.byte_ids[byte], rank,
                                     last ? TOKENIZER_NONE : (uint32_t)i + 1,
                                     i == 0 ? TOKENIZER_NONE : (uint32_t)i - 1};
        if (rank != TOKENIZER_NONE)
            h.items[h.count++] = (uint64_t)rank << 32 | i;
    }
    for (size_t i = h.count / 2; i-- > 0;)
        sift_down(&h, i);
    merge_all(m, symbols, &h);
    for (uint32_t i = 0; i != TOKENIZER_NONE; i = symbols[i].next)
        tokenizer_ids_add(b->out, symbols[i].id);
}

/* ---- blocks: short enough to be remembered ---- */

static void append(struct tokenizer_ids *out, const uint32_t *ids, size_t count)
{
    if (out->capacity - out->count < count && !tokenizer_ids_grow(out, count))
        return;
    memcpy(out->items + out->count, ids, count * sizeof(*ids));
    out->count += count;
}

static void merge_any(struct bpe *b, const char *bytes, size_t len)
{
    uint32_t ids[BPE_SMALL_MAX], rank;
    if (len > BPE_SMALL_MAX)
        merge_large(b, bytes, len);
    else
        append(b->out, ids, merge_small(b->t, bytes, len, ids, &rank));
}

static void remember(struct bpe *b, struct bpe_entry *entry, uint64_t hash, const char *bytes,
                     size_t len, size_t first)
{
    size_t count = b->out->count - first;
    if (b->out->failed || b->out_of_memory)
        return;
    if (b->pool_used + count > BPE_POOL)
        tokenizer_bpe_forget(b);
    memcpy(b->pool + b->pool_used, b->out->items + first, count * sizeof(*b->pool));
    *entry = (struct bpe_entry){hash, bytes, (uint32_t)len, (uint32_t)count, b->pool_used};
    b->pool_used += count;
}

/* Appends the ids that merging gives, from memory where it was done before. */
static void merge_block(struct bpe *b, uint64_t hash, const char *bytes, size_t len)
{
    if (b->entries == NULL || len < REMEMBER_MIN || len > BPE_CACHED_MAX) {
        merge_any(b, bytes, len);
        return;
    }
    struct bpe_entry *entry = &b->entries[hash >> 53];
    if (entry->hash == hash && entry->len == len && memcmp(entry->bytes, bytes, len) == 0) {
        append(b->out, b->pool + entry->at, entry->count);
        return;
    }
    size_t first = b->out->count;
    merge_any(b, bytes, len);
    remember(b, entry, hash, bytes, len, first);
}

/* ---- long pieces ---- */

/* Do these two tokens, whose bytes meet at `seam`, stay apart when they are merged
 * together? */
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

/* Encodes bytes[done..end) behind what b->out holds of the piece since `first`; false
 * when the seam would have to be looked for too far back. */
static bool add_window(struct bpe *b, const char *bytes, size_t done, size_t end, size_t first)
{
    struct tokenizer_ids *out = b->out;
    size_t kept = out->count, before = done;
    for (size_t pull = PULL_FIRST;; pull *= 2) {
        for (size_t i = 0; i < pull && kept > first; i++)
            before -= b->t->vocab.tokens[out->items[--kept]].len;
        if (done - before > PULL_MAX)
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

static void merge_long(struct bpe *b, const char *bytes, size_t len)
{
    size_t first = b->out->count;
    for (size_t done = 0; done < len;) {
        size_t end = len - done > WINDOW_NEW ? done + WINDOW_NEW : len;
        if (!add_window(b, bytes, done, end, first)) {
            b->out->count = first;
            merge_large(b, bytes, len);
            return;
        }
        if (b->out->failed || b->out_of_memory)
            return;
        done = end;
    }
}

/* Pieces of one or two bytes are common in what is not prose and need no hashing. */
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
    else if (len >= LONG_MIN)
        merge_long(b, bytes, len);
    else
        merge_block(b, hash, bytes, len);
}

void tokenizer_bpe_piece(struct bpe *b, const char *bytes, size_t len)
{
    if (len <= 2 && piece_of_two(b, bytes, len))
        return;
    struct key key = key_of(bytes, len);
    uint64_t hash = key_hash(key, len);
    piece(b, key_find(&b->t->vocab, key, hash, bytes, len), hash, bytes, len);
}

/* Three passes: the filter's lines are asked for in the first, those of the slots that
 * can matter in the second, and the third finds them near. */
void tokenizer_bpe_pieces(struct bpe *b, const char *start, const char *const *ends,
                          size_t count)
{
    const struct vocab *v = &b->t->vocab;
    struct key keys[BPE_BATCH];
    uint64_t hashes[BPE_BATCH];
    bool known[BPE_BATCH];
    const char *at = start;
    for (size_t i = 0; i < count; at = ends[i++]) {
        size_t len = (size_t)(ends[i] - at);
        keys[i] = key_of(at, len);
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

uint32_t tokenizer_bpe_last_rank(const struct tokenizer *t, uint32_t id)
{
    uint32_t ids[BPE_SMALL_MAX], rank = TOKENIZER_NONE;
    size_t count =
        merge_small(t, vocab_bytes(&t->vocab, id), t->vocab.tokens[id].len, ids, &rank);
    return count == 1 && ids[0] == id ? rank : TOKENIZER_NONE;
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
