/* gptoss/scheduler/cache.c - see cache.h. */
#include "engines/gptoss/scheduler/cache.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/strmap.h"
#include "engines/gptoss/scheduler/elastic.h"

#define NONE UINT32_MAX

/* ---- memories ---- */

static uint32_t *bucket_of(const struct gptoss_cache *c, uint64_t parent, const uint32_t *ids)
{
    uint64_t h = lr_hash((struct lr_str){(const char *)ids, c->page_tokens * sizeof(*ids)});

    h = (h ^ parent) * 0x9E3779B97F4A7C15u; /* spreads names that differ by one */
    return &c->buckets[(h >> 32) & (c->bucket_count - 1)];
}

static uint32_t *ids_of(const struct gptoss_cache *c, uint32_t memory)
{
    return c->ids + (size_t)memory * c->page_tokens;
}

static uint32_t scheduler_cache_find(const struct gptoss_cache *c, uint64_t parent,
                                     const uint32_t *ids)
{
    uint32_t i = *bucket_of(c, parent, ids);

    while (i != NONE && (c->memories[i].parent != parent ||
                         memcmp(ids_of(c, i), ids, c->page_tokens * sizeof(*ids)) != 0))
        i = c->memories[i].next;
    return i;
}

static uint32_t scheduler_cache_add(struct gptoss_cache *c, uint64_t parent,
                                    const uint32_t *ids)
{
    uint32_t i = c->unused, *bucket = bucket_of(c, parent, ids);

    if (i != NONE)
        c->unused = c->memories[i].next;
    else
        i = c->fresh++;
    /* Names are odd and scopes even, so they never collide. */
    c->memories[i] = (struct gptoss_memory){.name = c->names++ * 2 + 1,
                                            .parent = parent,
                                            .page = {GPTOSS_NO_PAGE, GPTOSS_NO_PAGE},
                                            .next = *bucket};
    memcpy(ids_of(c, i), ids, c->page_tokens * sizeof(*ids));
    *bucket = i;
    return i;
}

/* The block loses a page; without pages the block is removed. */
static void scheduler_cache_forget(struct gptoss_cache *c, uint32_t memory,
                                   enum gptoss_kind kind)
{
    struct gptoss_memory *m = &c->memories[memory];

    m->page[kind] = GPTOSS_NO_PAGE;
    if (m->page[GPTOSS_FULL] != GPTOSS_NO_PAGE || m->page[GPTOSS_WINDOW] != GPTOSS_NO_PAGE)
        return;
    uint32_t *at = bucket_of(c, m->parent, ids_of(c, memory));
    while (*at != memory)
        at = &c->memories[*at].next;
    *at = m->next;
    m->next = c->unused;
    c->unused = memory;
}

/* ---- pages ---- */

uint32_t gptoss_cache_take(struct gptoss_cache *c, enum gptoss_kind kind)
{
    struct gptoss_pages *pages = &c->pages[kind];

    if (pages->free_count == pages->cached_count)
        (void)gptoss_elastic_room(c, kind, pages->free_count + 1);
    uint32_t page = gptoss_pages_take(pages);
    if (page != GPTOSS_NO_PAGE && c->pages[kind].at[page].memory != GPTOSS_NO_PAGE) {
        scheduler_cache_forget(c, c->pages[kind].at[page].memory, kind);
        c->pages[kind].at[page].memory = GPTOSS_NO_PAGE;
    }
    return page;
}

void gptoss_cache_forget(struct gptoss_cache *c, enum gptoss_kind kind, uint32_t page)
{
    struct gptoss_pages *pages = &c->pages[kind];

    if (pages->at[page].memory == GPTOSS_NO_PAGE)
        return;
    scheduler_cache_forget(c, pages->at[page].memory, kind);
    pages->at[page].memory = GPTOSS_NO_PAGE;
    pages->cached_count--;
}

void gptoss_cache_give(struct gptoss_cache *c, enum gptoss_kind kind, uint32_t page)
{
    gptoss_pages_give(&c->pages[kind], page);
}

uint32_t gptoss_cache_window_first(const struct gptoss_cache *c, uint32_t position)
{
    uint32_t oldest = position + 1 > c->window ? position + 1 - c->window : 0;

    return oldest / c->page_tokens;
}

/* ---- chains ---- */

struct gptoss_match gptoss_cache_match(const struct gptoss_cache *c, uint64_t scope,
                                       const uint32_t *ids, uint32_t count)
{
    struct gptoss_match best = {0, scope};
    uint64_t chain = scope;
    uint32_t windows = 0; /* consecutive blocks, up to here, that have their window page */

    for (uint32_t n = 0; count > 0 && n < (count - 1) / c->page_tokens; n++) {
        uint32_t i = scheduler_cache_find(c, chain, ids + (size_t)n * c->page_tokens);
        if (i == NONE || c->memories[i].page[GPTOSS_FULL] == GPTOSS_NO_PAGE)
            break;
        chain = c->memories[i].name;
        windows = c->memories[i].page[GPTOSS_WINDOW] != GPTOSS_NO_PAGE ? windows + 1 : 0;
        if (windows >= n + 1 - gptoss_cache_window_first(c, (n + 1) * c->page_tokens))
            best = (struct gptoss_match){n + 1, chain};
    }
    return best;
}

void gptoss_cache_hold(struct gptoss_cache *c, uint64_t scope, const uint32_t *ids,
                       struct gptoss_match match, uint32_t *full_pages, uint32_t *window_pages)
{
    uint32_t first = gptoss_cache_window_first(c, match.pages * c->page_tokens);
    uint64_t chain = scope;

    for (uint32_t n = 0; n < match.pages; n++) {
        uint32_t i = scheduler_cache_find(c, chain, ids + (size_t)n * c->page_tokens);
        const struct gptoss_memory *m = &c->memories[i];
        full_pages[n] = m->page[GPTOSS_FULL];
        gptoss_pages_hold(&c->pages[GPTOSS_FULL], full_pages[n]);
        window_pages[n] = n >= first ? m->page[GPTOSS_WINDOW] : GPTOSS_NO_PAGE;
        if (n >= first)
            gptoss_pages_hold(&c->pages[GPTOSS_WINDOW], window_pages[n]);
        chain = m->name;
    }
}

uint64_t gptoss_cache_remember(struct gptoss_cache *c, uint64_t chain, const uint32_t *ids,
                               uint32_t full_page, uint32_t window_page)
{
    const uint32_t page[GPTOSS_KINDS] = {full_page, window_page};
    uint32_t i = scheduler_cache_find(c, chain, ids);

    /* There is a memory for each page, so one is always unused. */
    if (i == NONE)
        i = scheduler_cache_add(c, chain, ids);
    for (int kind = 0; kind < GPTOSS_KINDS; kind++) {
        if (page[kind] == GPTOSS_NO_PAGE || c->memories[i].page[kind] != GPTOSS_NO_PAGE)
            continue;
        c->memories[i].page[kind] = page[kind];
        c->pages[kind].at[page[kind]].memory = i;
    }
    return c->memories[i].name;
}

/* ---- beginning and ending ---- */

lr_code gptoss_cache_init(struct gptoss_cache *c, uint32_t page_tokens, uint32_t window,
                          const uint32_t pages[GPTOSS_KINDS], const uint32_t most[GPTOSS_KINDS],
                          struct lr_error *err)
{
    size_t all = 0;

    *c = (struct gptoss_cache){
        .page_tokens = page_tokens, .window = window, .bucket_count = 16, .unused = NONE};
    for (int kind = 0; kind < GPTOSS_KINDS; kind++)
        all += most[kind] > pages[kind] ? most[kind] : pages[kind];
    while (c->bucket_count < all)
        c->bucket_count *= 2;
    /* Fresh memory of the system: what is never used costs nothing. */
    c->memories = calloc(all + 1, sizeof(*c->memories));
    c->ids = calloc(all + 1, page_tokens * sizeof(*c->ids));
    c->buckets = malloc(c->bucket_count * sizeof(*c->buckets));
    if (c->memories == NULL || c->ids == NULL || c->buckets == NULL ||
        !gptoss_pages_init(&c->pages[GPTOSS_FULL], pages[GPTOSS_FULL], most[GPTOSS_FULL]) ||
        !gptoss_pages_init(&c->pages[GPTOSS_WINDOW], pages[GPTOSS_WINDOW],
                           most[GPTOSS_WINDOW])) {
        gptoss_cache_deinit(c);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the lists of %zu pages", all);
    }
    for (uint32_t i = 0; i < c->bucket_count; i++)
        c->buckets[i] = NONE;
    return LR_OK;
}

void gptoss_cache_deinit(struct gptoss_cache *c)
{
    for (int kind = 0; kind < GPTOSS_KINDS; kind++)
        gptoss_pages_deinit(&c->pages[kind]);
    free(c->memories);
    free(c->ids);
    free(c->buckets);
    *c = (struct gptoss_cache){0};
}
