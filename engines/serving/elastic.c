/* serving/elastic.c - see elastic.h. */
#include "engines/serving/elastic.h"

#include <stdlib.h>

/* The pool grows by a sixteenth at least: a call of the device costs up to a millisecond. */
enum { GROWTH = 16 };

static uint32_t held(const struct serving_pages *p)
{
    return p->total - p->free_count;
}

static bool is_in_use(const struct serving_page *page)
{
    return page->holders != 0 || page->memory != SERVING_NO_PAGE;
}

uint32_t serving_elastic_available(const struct serving_pages *p)
{
    return p->free_count + (p->limit > p->total ? p->limit - p->total : 0);
}

bool serving_elastic_room(struct serving_cache *c, uint32_t kind, uint32_t count)
{
    struct serving_pages *p = &c->pages[kind];

    if (c->device.resize != NULL && p->free_count < count && p->total < p->limit) {
        uint32_t more = count - p->free_count;
        more = more > p->total / GROWTH ? more : p->total / GROWTH;
        more = more < p->limit - p->total ? more : p->limit - p->total;
        if (c->device.resize(c->device.ctx, kind, p->total + more))
            serving_pages_add(p, more);
        else
            p->limit = p->total; /* not asked again before the next limit */
    }
    return p->free_count >= count;
}

uint32_t serving_elastic_excess(const struct serving_pages *p, uint32_t limit)
{
    uint32_t stays = limit > p->least ? limit : p->least;

    stays = stays > held(p) ? stays : held(p);
    return p->total > stays ? p->total - stays : 0;
}

/* Prefixes leave the cache, the oldest first, until everything in use fits into `to` pages. */
static void evict(struct serving_cache *c, uint32_t kind, uint32_t to)
{
    struct serving_pages *p = &c->pages[kind];

    for (uint32_t i = p->oldest; i != SERVING_NO_PAGE && held(p) + p->cached_count > to;
         i = p->at[i].newer)
        serving_cache_forget(c, kind, i);
}

/* Moves what is in use from page `to` on into the holes below. */
static void compact(struct serving_cache *c, uint32_t kind, uint32_t to, uint32_t *moved,
                    struct serving_move *moves)
{
    struct serving_pages *p = &c->pages[kind];
    uint32_t hole = 0, count = 0;

    for (uint32_t i = to; i < p->total; i++) {
        moved[i - to] = SERVING_NO_PAGE;
        if (!is_in_use(&p->at[i]))
            continue;
        while (is_in_use(&p->at[hole]))
            hole++;
        p->at[hole].holders = p->at[i].holders;
        p->at[hole].memory = p->at[i].memory;
        if (p->at[i].memory != SERVING_NO_PAGE)
            c->memories[p->at[i].memory].page[kind] = hole;
        moved[i - to] = hole;
        moves[count++] = (struct serving_move){.from = i, .to = hole};
    }
    if (count != 0)
        c->device.move(c->device.ctx, kind, moves, count);
}

/* Links the free pages below `to` anew: the empty ones, then the cached ones in the order of
 * the old list. */
static void relink(struct serving_pages *p, uint32_t to, const uint32_t *moved,
                   const uint32_t *order, uint32_t count)
{
    p->oldest = p->newest = SERVING_NO_PAGE;
    p->free_count = p->cached_count = 0;
    for (uint32_t i = 0; i < to; i++)
        if (!is_in_use(&p->at[i]))
            serving_pages_link(p, i);
    for (uint32_t i = 0; i < count; i++)
        serving_pages_link(p, order[i] < to ? order[i] : moved[order[i] - to]);
    p->total = to;
}

uint32_t *serving_elastic_shrink(struct serving_cache *c, uint32_t kind)
{
    struct serving_pages *p = &c->pages[kind];
    uint32_t excess = serving_elastic_excess(p, p->limit), to = p->total - excess, cached = 0;

    if (c->device.resize == NULL || excess == 0)
        return NULL;
    uint32_t *moved = calloc(excess, sizeof(*moved));
    uint32_t *order = calloc((size_t)p->free_count + 1, sizeof(*order));
    struct serving_move *moves = calloc(excess, sizeof(*moves));
    if (moved == NULL || order == NULL || moves == NULL) {
        free(moved);
        moved = NULL; /* no RAM: the pool keeps its size */
    } else {
        evict(c, kind, to);
        for (uint32_t i = p->oldest; i != SERVING_NO_PAGE; i = p->at[i].newer)
            if (p->at[i].memory != SERVING_NO_PAGE)
                order[cached++] = i;
        compact(c, kind, to, moved, moves);
        relink(p, to, moved, order, cached);
        (void)c->device.resize(c->device.ctx, kind, to);
    }
    free(order);
    free(moves);
    return moved;
}

static struct serving_kind kind_of(const struct serving_plan *plan, uint32_t pool)
{
    if (pool != SERVING_SNAPSHOTS)
        return plan->kinds[pool];
    return (struct serving_kind){.page_bytes = plan->state_bytes,
                                 .pages = plan->snapshots,
                                 .most = plan->most_snapshots};
}

/* Pages of a kind, within the plan's bounds. */
static uint32_t within(const struct serving_kind *kind, uint64_t pages)
{
    uint32_t most = kind->most > kind->pages ? kind->most : kind->pages;

    if (pages > most)
        return most;
    return pages > kind->least ? (uint32_t)pages : kind->least;
}

/* The part of a pool that grows with a part of the memory beyond the plan, and shrinks with the
 * whole.  Returns its bytes. */
static uint64_t divide_part(const struct serving_plan *plan, uint32_t pool, uint64_t bytes,
                            uint32_t part, struct serving_kv_share *out)
{
    const struct serving_kind kind = kind_of(plan, pool);
    uint64_t pages = kind.pages;

    if (kind.page_bytes != 0 && bytes > plan->kv)
        pages += (bytes - plan->kv) / part / kind.page_bytes;
    else if (bytes < plan->kv)
        pages = (uint64_t)((double)pages * ((double)bytes / (double)plan->kv));
    out->pages[pool] = within(&kind, pages);
    return out->pages[pool] * kind.page_bytes;
}

struct serving_kv_share serving_elastic_divide(const struct serving_plan *plan, uint64_t bytes)
{
    /* Of memory beyond the plan an eighth goes to the windows: a cached prefix can only be
     * continued where its last windows are cached.  A quarter goes to the snapshots. */
    enum { WINDOW_PART = 8, SNAPSHOT_PART = 4 };
    struct serving_kv_share share = {0};
    uint32_t windows = 0;
    uint64_t used = 0, whole = 0;

    for (uint32_t kind = 0; kind < plan->kind_count; kind++)
        if (plan->kinds[kind].window != 0)
            windows++;
        else
            whole += plan->kinds[kind].page_bytes;
    for (uint32_t kind = 0; kind < plan->kind_count; kind++)
        if (plan->kinds[kind].window != 0)
            used += divide_part(plan, kind, bytes, WINDOW_PART * windows, &share);
    if (plan->state_bytes != 0)
        used += divide_part(plan, SERVING_SNAPSHOTS, bytes,
                            plan->kind_count != 0 ? SNAPSHOT_PART : 1, &share);
    /* A sequence has as many pages of each kind that covers all positions. */
    for (uint32_t kind = 0; kind < plan->kind_count; kind++) {
        const struct serving_kind *k = &plan->kinds[kind];
        uint64_t pages = k->pages;
        if (whole != 0)
            pages = bytes > used ? (bytes - used) / whole : 0;
        if (k->window == 0)
            share.pages[kind] = within(k, pages);
    }
    return share;
}
