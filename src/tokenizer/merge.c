/* tokenizer/merge.c - the merging itself: bytes to ids by the rule of bpe.h.
 *
 * Two ways to find the next pair: scanning a short row, a heap for a long one.
 */
#include <stdlib.h>

#include "tokenizer/bpe.h"

/* rank << 8 | position: the lowest of these is the next pair to merge. */
static inline uint32_t pair_key(uint32_t rank, size_t position)
{
    return rank == TOKENIZER_NONE ? rank : rank << 8 | (uint32_t)position;
}

/* Merges ids[0..n), n >= 2, in place; keys[] are the keys of its pairs.  Positions do not move:
 * in a short row, scanning dead positions costs less than closing the gaps. */
static size_t merge_row(const struct merges *m, uint32_t *ids, uint32_t *keys, size_t n,
                        uint32_t *last_rank)
{
    uint8_t next[BPE_SMALL_MAX + 1], before[BPE_SMALL_MAX + 1];
    for (size_t i = 0; i < n; i++) {
        next[i] = (uint8_t)(i + 1);
        before[i] = (uint8_t)(i - 1);
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

/* Where no merge joins two adjacent bytes, a row ends and the next begins: code and data fall
 * apart into rows of a character or two. */
size_t tokenizer_merge_small(const struct tokenizer *t, const char *bytes, size_t len,
                             uint32_t *ids, uint32_t *last_rank)
{
    const struct merges *m = &t->merges;
    const unsigned char *byte = (const unsigned char *)bytes;
    uint32_t keys[BPE_SMALL_MAX];
    size_t done = 0, n = 0; /* final ids, and the row behind them */
    bool was_byte = false;
    for (size_t i = 0, width; i < len; i += width, n++) {
        uint32_t id = symbol_at(t, byte + i, len - i, &width);
        if (i != 0 && !merges_cross(m, byte[i - 1], byte[i])) {
            done += n > 1 ? merge_row(m, ids + done, keys, n, last_rank) : n;
            n = 0;
        } else if (n != 0) {
            uint32_t rank = was_byte && width == 1 ? m->byte_pairs[byte[i - 1] << 8 | byte[i]]
                                                   : merges_rank(m, ids[done + n - 1], id);
            keys[n - 1] = pair_key(rank, n - 1);
        }
        ids[done + n] = id;
        was_byte = width == 1;
    }
    return done + (n > 1 ? merge_row(m, ids + done, keys, n, last_rank) : n);
}

/* A symbol in the linked list of tokenizer_merge_large. */
struct symbol {
    uint32_t id;
    uint32_t
        rank; /* of the pair with the next symbol; a heap entry with another rank is stale */
    uint32_t next;
    uint32_t before;
};

struct heap {
    uint64_t *items; /* rank << 32 | position: integer order is merge order */
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
        if (s->rank != rank) /* a neighbour has merged, or this symbol is gone */
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

void tokenizer_merge_large(struct bpe *b, const char *bytes, size_t len)
{
    const struct merges *m = &b->t->merges;
    /* A merge removes one heap entry and adds at most two, and there are fewer merges than
     * bytes. */
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
    uint32_t count = 0;
    for (size_t i = 0, width; i < len; i += width, count++) {
        uint32_t id = symbol_at(b->t, (const unsigned char *)bytes + i, len - i, &width);
        symbols[count] = (struct symbol){id, TOKENIZER_NONE, count + 1, count - 1};
    }
    symbols[count - 1].next = TOKENIZER_NONE;
    for (uint32_t i = 0; i + 1 < count; i++) {
        symbols[i].rank = pair_rank(m, symbols, i);
        if (symbols[i].rank != TOKENIZER_NONE)
            h.items[h.count++] = (uint64_t)symbols[i].rank << 32 | i;
    }
    for (size_t i = h.count / 2; i-- > 0;)
        sift_down(&h, i);
    merge_all(m, symbols, &h);
    for (uint32_t i = 0; i != TOKENIZER_NONE; i = symbols[i].next)
        tokenizer_ids_add(b->out, symbols[i].id);
}

uint32_t tokenizer_merge_last_rank(const struct tokenizer *t, uint32_t id)
{
    uint32_t ids[BPE_SMALL_MAX], rank = TOKENIZER_NONE;
    size_t count = tokenizer_merge_small(t, vocab_bytes(&t->vocab, id), t->vocab.tokens[id].len,
                                         ids, &rank);
    return count == 1 && ids[0] == id ? rank : TOKENIZER_NONE;
}
