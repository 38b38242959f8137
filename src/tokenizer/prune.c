/* tokenizer/prune.c - drops merges that can never happen.
 *
 * Files made from ranked tokens list every way to split a token in two, but merging uses only
 * one of them.  Until two symbols that make up a token's bytes become neighbours, those bytes
 * had the merges that they would have had alone (bpe.h).  So the two symbols are what merging
 * the token's own bytes leaves before its last merge, and every other pair with the same result
 * never occurs.  For o200k this halves the table.
 */
#include <stdlib.h>

#include "tokenizer/bpe.h"

/* The decision about a rank. */
enum { DROP, KEEP };

/* For every token with several ranks, keeps the rank by which it is really made. */
static void choose(const struct tokenizer *t, const uint64_t *pairs, uint8_t *verdict,
                   uint32_t *makers)
{
    const struct merges *m = &t->merges;
    for (uint32_t rank = 0; rank < m->count; rank++)
        if (pairs[rank] != MERGES_FREE)
            makers[m->results[rank]]++;
    for (uint32_t rank = 0; rank < m->count; rank++) {
        uint32_t id = m->results[rank];
        if (pairs[rank] == MERGES_FREE || makers[id] == 0)
            continue; /* repeated later in the list, or the token is decided */
        if (makers[id] == 1 || t->vocab.tokens[id].len > BPE_SMALL_MAX) {
            verdict[rank] = KEEP;
            continue;
        }
        makers[id] = 0;
        uint32_t last = tokenizer_merge_last_rank(t, id);
        if (last != TOKENIZER_NONE)
            verdict[last] = KEEP;
    }
}

/* Renumbers the kept ranks, in order, and fills a table of the right size. */
static bool rebuild(struct merges *m, const uint64_t *pairs, const uint8_t *verdict)
{
    uint32_t kept = 0;
    for (uint32_t rank = 0; rank < m->count; rank++)
        kept += verdict[rank];
    uint32_t bits = 10;
    while ((1u << bits) < 2 * kept)
        bits++;
    uint64_t *slots = tokenizer_table_alloc(sizeof(*slots) << bits);
    uint64_t *filter = calloc((size_t)1 << (bits - 5), sizeof(*filter));
    uint32_t *results = malloc((kept + 1) * sizeof(*results));
    if (slots == NULL || filter == NULL || results == NULL) {
        free(slots);
        free(filter);
        free(results);
        return false;
    }
    memset(slots, 0xFF, sizeof(*slots) << bits);
    kept = 0;
    for (uint32_t rank = 0; rank < m->count; rank++) {
        if (verdict[rank] == DROP)
            continue;
        uint32_t i = merges_hash(pairs[rank], bits);
        while (slots[i] != MERGES_FREE)
            i = (i + 1) & ((1u << bits) - 1);
        slots[i] = pairs[rank] << 24 | kept;
        uint32_t bit = merges_hash(pairs[rank], bits + 1);
        filter[bit >> 6] |= (uint64_t)1 << (bit & 63);
        results[kept++] = m->results[rank];
    }
    free(m->slots);
    free(m->results);
    m->slots = slots;
    m->filter = filter;
    m->slot_bits = bits;
    m->results = results;
    m->count = kept;
    return true;
}

lr_code tokenizer_prune(struct tokenizer *t, struct lr_error *err)
{
    struct merges *m = &t->merges;
    uint64_t *pairs = malloc((m->count + 1) * sizeof(*pairs)); /* by rank */
    uint8_t *verdict = calloc(m->count + 1, 1);
    uint32_t *makers = calloc(t->vocab.size, sizeof(*makers));
    bool good = pairs != NULL && verdict != NULL && makers != NULL;
    if (good) {
        memset(pairs, 0xFF, (m->count + 1) * sizeof(*pairs));
        for (size_t i = 0; i < (size_t)1 << m->slot_bits; i++)
            if (m->slots[i] != MERGES_FREE)
                pairs[m->slots[i] & 0xFFFFFF] = m->slots[i] >> 24;
        choose(t, pairs, verdict, makers);
        good = rebuild(m, pairs, verdict);
        tokenizer_merges_index_bytes(m, &t->vocab);
    }
    free(pairs);
    free(verdict);
    free(makers);
    return good ? LR_OK
                : lr_fail(err, LR_OUT_OF_RAM, "no memory to examine %u merges", m->count);
}
