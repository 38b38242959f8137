/* serving/cache.c - see cache.h. */
#include "engines/serving/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/strmap.h"
#include "engines/serving/elastic.h"

#define NONE UINT32_MAX

/* ---- memories ---- */

static uint32_t *bucket_of(const struct serving_cache *c, uint64_t parent, const uint32_t *ids)
{
    uint64_t h = lr_hash((struct lr_str){(const char *)ids, c->page_tokens * sizeof(*ids)});

    h = (h ^ parent) * 0x9E3779B97F4A7C15u; /* spreads names that differ by one */
    return &c->buckets[(h >> 32) & (c->bucket_count - 1)];
}

static uint32_t *ids_of(const struct serving_cache *c, uint32_t memory)
{
    return c->ids + (size_t)memory * c->page_tokens;
}

static uint32_t cache_find(const struct serving_cache *c, uint64_t parent, const uint32_t *ids)
{
    uint32_t i = *bucket_of(c, parent, ids);

    while (i != NONE && (c->memories[i].parent != parent ||
                         memcmp(ids_of(c, i), ids, c->page_tokens * sizeof(*ids)) != 0))
        i = c->memories[i].next;
    return i;
}

static uint32_t cache_add(struct serving_cache *c, uint64_t parent, const uint32_t *ids)
{
    uint32_t i = c->unused, *bucket = bucket_of(c, parent, ids);

    if (i != NONE)
        c->unused = c->memories[i].next;
    else
        i = c->fresh++;
    /* Names are odd and scopes even, so they never collide. */
    c->memories[i] =
        (struct serving_memory){.name = c->names++ * 2 + 1, .parent = parent, .next = *bucket};
    for (uint32_t pool = 0; pool < SERVING_POOLS; pool++)
        c->memories[i].page[pool] = SERVING_NO_PAGE;
    memcpy(ids_of(c, i), ids, c->page_tokens * sizeof(*ids));
    *bucket = i;
    return i;
}

/* The block loses a page; without pages the block is removed. */
static void cache_forget(struct serving_cache *c, uint32_t memory, uint32_t kind)
{
    struct serving_memory *m = &c->memories[memory];
    uint32_t *snapshot = &m->page[SERVING_SNAPSHOTS];

    m->page[kind] = SERVING_NO_PAGE;
    /* Without its pages a block is no place to continue from. */
    if (*snapshot != SERVING_NO_PAGE) {
        serving_pages_empty(&c->pages[SERVING_SNAPSHOTS], *snapshot);
        *snapshot = SERVING_NO_PAGE;
    }
    for (uint32_t pool = 0; pool < SERVING_POOLS; pool++)
        if (m->page[pool] != SERVING_NO_PAGE)
            return;
    uint32_t *at = bucket_of(c, m->parent, ids_of(c, memory));
    while (*at != memory)
        at = &c->memories[*at].next;
    *at = m->next;
    m->next = c->unused;
    c->unused = memory;
}

/* ---- pages ---- */

uint32_t serving_cache_take(struct serving_cache *c, uint32_t kind)
{
    struct serving_pages *pages = &c->pages[kind];

    if (pages->free_count == pages->cached_count)
        (void)serving_elastic_room(c, kind, pages->free_count + 1);
    uint32_t page = serving_pages_take(pages);
    if (page != SERVING_NO_PAGE && pages->at[page].memory != SERVING_NO_PAGE) {
        uint32_t memory = pages->at[page].memory;
        pages->at[page].memory = SERVING_NO_PAGE;
        cache_forget(c, memory, kind);
    }
    return page;
}

void serving_cache_forget(struct serving_cache *c, uint32_t kind, uint32_t page)
{
    struct serving_pages *pages = &c->pages[kind];
    uint32_t memory = pages->at[page].memory;

    if (memory == SERVING_NO_PAGE)
        return;
    pages->at[page].memory = SERVING_NO_PAGE;
    pages->cached_count--;
    cache_forget(c, memory, kind);
}

void serving_cache_drop(struct serving_cache *c, uint32_t kind, uint32_t page)
{
    struct serving_pages *pages = &c->pages[kind];

    if (page == SERVING_NO_PAGE || pages->at[page].holders != 0 ||
        pages->at[page].memory == SERVING_NO_PAGE)
        return;
    uint32_t memory = pages->at[page].memory;
    serving_pages_empty(pages, page);
    cache_forget(c, memory, kind);
}

void serving_cache_give(struct serving_cache *c, uint32_t kind, uint32_t page)
{
    serving_pages_give(&c->pages[kind], page);
}

uint32_t serving_cache_first(const struct serving_cache *c, uint32_t kind, uint32_t position)
{
    uint32_t window = c->window[kind];

    return window != 0 && position + 1 > window ? (position + 1 - window) / c->page_tokens : 0;
}

/* ---- chains ---- */

/* Whether a sequence can continue after the block, the n-th of its chain.  run[]: consecutive
 * blocks, up to this one, that have their page, by kind. */
static bool can_continue(const struct serving_cache *c, const struct serving_memory *m,
                         uint32_t n, const uint32_t run[SERVING_KINDS_MAX])
{
    for (uint32_t kind = 0; kind < c->kinds; kind++)
        if (run[kind] < n - serving_cache_first(c, kind, n * c->page_tokens))
            return false;
    return !c->has_state || m->page[SERVING_SNAPSHOTS] != SERVING_NO_PAGE;
}

struct serving_match serving_cache_match(const struct serving_cache *c, uint64_t scope,
                                         const uint32_t *ids, uint32_t count)
{
    struct serving_match best = {.chain = scope, .snapshot = SERVING_NONE};
    uint64_t chain = scope;
    uint32_t run[SERVING_KINDS_MAX] = {0};

    for (uint32_t n = 1; count > 0 && n <= (count - 1) / c->page_tokens; n++) {
        uint32_t i = cache_find(c, chain, ids + (size_t)(n - 1) * c->page_tokens);
        if (i == NONE)
            break;
        const struct serving_memory *m = &c->memories[i];
        bool has_whole = true;
        for (uint32_t kind = 0; kind < c->kinds; kind++) {
            bool has = m->page[kind] != SERVING_NO_PAGE;
            run[kind] = has ? run[kind] + 1 : 0;
            has_whole = has_whole && (has || c->window[kind] != 0);
        }
        if (!has_whole)
            break;
        chain = m->name;
        best.known = n;
        if (!can_continue(c, m, n, run))
            continue;
        best.pages = n;
        best.chain = chain;
        best.snapshot = m->page[SERVING_SNAPSHOTS];
    }
    return best;
}

void serving_cache_hold(struct serving_cache *c, uint64_t scope, const uint32_t *ids,
                        struct serving_match match, uint32_t *const *tables)
{
    uint64_t chain = scope;

    for (uint32_t n = 0; n < match.pages; n++) {
        uint32_t i = cache_find(c, chain, ids + (size_t)n * c->page_tokens);
        const struct serving_memory *m = &c->memories[i];
        for (uint32_t kind = 0; kind < c->kinds; kind++) {
            bool is_needed = n >= serving_cache_first(c, kind, match.pages * c->page_tokens);
            tables[kind][n] = is_needed ? m->page[kind] : SERVING_NO_PAGE;
            if (is_needed)
                serving_pages_hold(&c->pages[kind], m->page[kind]);
        }
        chain = m->name;
    }
    if (match.snapshot != SERVING_NONE)
        serving_pages_hold(&c->pages[SERVING_SNAPSHOTS], match.snapshot);
}

uint64_t serving_cache_remember(struct serving_cache *c, uint64_t chain, const uint32_t *ids,
                                const uint32_t pages[SERVING_POOLS])
{
    uint32_t i = cache_find(c, chain, ids);

    /* There is a memory for each page, so one is always unused. */
    if (i == NONE)
        i = cache_add(c, chain, ids);
    for (uint32_t pool = 0; pool < SERVING_POOLS; pool++) {
        if (pages[pool] == SERVING_NO_PAGE || c->memories[i].page[pool] != SERVING_NO_PAGE)
            continue;
        c->memories[i].page[pool] = pages[pool];
        c->pages[pool].at[pages[pool]].memory = i;
    }
    return c->memories[i].name;
}

/* ---- beginning and ending ---- */

/* Sizes of the pools: at open, and at most. */
struct sizes {
    uint32_t open[SERVING_POOLS], most[SERVING_POOLS];
};

/* A kind without memory, which covers all positions. */
static lr_code add_whole_kind(struct serving_cache *c, const struct serving_plan *plan,
                              struct sizes *sizes, struct lr_error *err)
{
    uint32_t context = (plan->max_context + plan->page_tokens - 1) / plan->page_tokens;

    for (uint32_t kind = 0; kind < c->kinds; kind++)
        if (c->window[kind] == 0)
            return LR_OK;
    if (c->kinds == SERVING_KINDS_MAX)
        return lr_fail(err, LR_INTERNAL, "%u kinds of KV memory, none of all positions",
                       c->kinds);
    /* Every sequence, and as much for the prefixes of ended ones. */
    uint64_t pages = 2ull * context * plan->max_sequences;
    sizes->open[c->kinds++] = pages < UINT32_MAX / 2 ? (uint32_t)pages : UINT32_MAX / 2;
    return LR_OK;
}

static bool allot(struct serving_cache *c, const struct sizes *sizes, size_t all)
{
    /* Fresh memory of the system: what is never used costs nothing. */
    c->memories = calloc(all + 1, sizeof(*c->memories));
    c->ids = calloc(all + 1, c->page_tokens * sizeof(*c->ids));
    c->buckets = malloc(c->bucket_count * sizeof(*c->buckets));
    if (c->memories == NULL || c->ids == NULL || c->buckets == NULL)
        return false;
    for (uint32_t pool = 0; pool < SERVING_POOLS; pool++)
        if (!serving_pages_init(&c->pages[pool], sizes->open[pool], sizes->most[pool]))
            return false;
    for (uint32_t i = 0; i < c->bucket_count; i++)
        c->buckets[i] = NONE;
    return true;
}

lr_code serving_cache_init(struct serving_cache *c, const struct serving_plan *plan,
                           struct lr_error *err)
{
    struct sizes sizes = {0};
    size_t all = 0;

    *c = (struct serving_cache){.page_tokens = plan->page_tokens,
                                .kinds = plan->kind_count,
                                .has_state = plan->state_bytes != 0,
                                .bucket_count = 16,
                                .unused = NONE};
    for (uint32_t kind = 0; kind < plan->kind_count; kind++) {
        c->window[kind] = plan->kinds[kind].window;
        sizes.open[kind] = plan->kinds[kind].pages;
        sizes.most[kind] = plan->kinds[kind].most;
    }
    sizes.open[SERVING_SNAPSHOTS] = plan->state_bytes != 0 ? plan->snapshots : 0;
    sizes.most[SERVING_SNAPSHOTS] = plan->state_bytes != 0 ? plan->most_snapshots : 0;
    lr_code code = add_whole_kind(c, plan, &sizes, err);
    if (code != LR_OK)
        return code;
    for (uint32_t pool = 0; pool < SERVING_POOLS; pool++)
        all += sizes.most[pool] > sizes.open[pool] ? sizes.most[pool] : sizes.open[pool];
    while (c->bucket_count < all)
        c->bucket_count *= 2;
    if (allot(c, &sizes, all))
        return LR_OK;
    serving_cache_deinit(c);
    return lr_fail(err, LR_OUT_OF_RAM, "no memory for the lists of %zu pages", all);
}

void serving_cache_deinit(struct serving_cache *c)
{
    for (uint32_t pool = 0; pool < SERVING_POOLS; pool++)
        serving_pages_deinit(&c->pages[pool]);
    free(c->memories);
    free(c->ids);
    free(c->buckets);
    *c = (struct serving_cache){0};
}
