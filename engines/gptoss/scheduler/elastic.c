/* gptoss/scheduler/elastic.c - see elastic.h. */
#include "engines/gptoss/scheduler/elastic.h"

#include <stdlib.h>

/* The pool grows by a sixteenth at least: a call of the device costs up to a millisecond. */
enum { GROWTH = 16 };

static uint32_t held(const struct gptoss_pages *p)
{
    return p->total - p->free_count;
}

static bool is_in_use(const struct gptoss_page *page)
{
    return page->holders != 0 || page->memory != GPTOSS_NO_PAGE;
}

uint32_t gptoss_elastic_available(const struct gptoss_pages *p)
{
    return p->free_count + (p->limit > p->total ? p->limit - p->total : 0);
}

bool gptoss_elastic_room(struct gptoss_cache *c, enum gptoss_kind kind, uint32_t count)
{
    struct gptoss_pages *p = &c->pages[kind];

    if (c->device.resize != NULL && p->free_count < count && p->total < p->limit) {
        uint32_t more = count - p->free_count;
        more = more > p->total / GROWTH ? more : p->total / GROWTH;
        more = more < p->limit - p->total ? more : p->limit - p->total;
        if (c->device.resize(c->device.ctx, kind, p->total + more))
            gptoss_pages_add(p, more);
        else
            p->limit = p->total; /* not asked again before the next limit */
    }
    return p->free_count >= count;
}

uint32_t gptoss_elastic_excess(const struct gptoss_pages *p, uint32_t limit)
{
    uint32_t stays = limit > p->least ? limit : p->least;

    stays = stays > held(p) ? stays : held(p);
    return p->total > stays ? p->total - stays : 0;
}

/* Prefixes leave the cache, the oldest first, until everything in use fits into `to` pages. */
static void evict(struct gptoss_cache *c, enum gptoss_kind kind, uint32_t to)
{
    struct gptoss_pages *p = &c->pages[kind];

    for (uint32_t i = p->oldest; i != GPTOSS_NO_PAGE && held(p) + p->cached_count > to;
         i = p->at[i].newer)
        gptoss_cache_forget(c, kind, i);
}

/* Moves what is in use from page `to` on into the holes below. */
static void compact(struct gptoss_cache *c, enum gptoss_kind kind, uint32_t to, uint32_t *moved,
                    struct gptoss_move *moves)
{
    struct gptoss_pages *p = &c->pages[kind];
    uint32_t hole = 0, count = 0;

    for (uint32_t i = to; i < p->total; i++) {
        moved[i - to] = GPTOSS_NO_PAGE;
        if (!is_in_use(&p->at[i]))
            continue;
        while (is_in_use(&p->at[hole]))
            hole++;
        p->at[hole].holders = p->at[i].holders;
        p->at[hole].memory = p->at[i].memory;
        if (p->at[i].memory != GPTOSS_NO_PAGE)
            c->memories[p->at[i].memory].page[kind] = hole;
        moved[i - to] = hole;
        moves[count++] = (struct gptoss_move){.from = i, .to = hole};
    }
    if (count != 0)
        c->device.move(c->device.ctx, kind, moves, count);
}

/* Links the free pages below `to` anew: the empty ones, then the cached ones in the order of
 * the old list. */
static void relink(struct gptoss_pages *p, uint32_t to, const uint32_t *moved,
                   const uint32_t *order, uint32_t count)
{
    p->oldest = p->newest = GPTOSS_NO_PAGE;
    p->free_count = p->cached_count = 0;
    for (uint32_t i = 0; i < to; i++)
        if (!is_in_use(&p->at[i]))
            gptoss_pages_link(p, i);
    for (uint32_t i = 0; i < count; i++)
        gptoss_pages_link(p, order[i] < to ? order[i] : moved[order[i] - to]);
    p->total = to;
}

uint32_t *gptoss_elastic_shrink(struct gptoss_cache *c, enum gptoss_kind kind)
{
    struct gptoss_pages *p = &c->pages[kind];
    uint32_t excess = gptoss_elastic_excess(p, p->limit), to = p->total - excess, cached = 0;

    if (c->device.resize == NULL || excess == 0)
        return NULL;
    uint32_t *moved = calloc(excess, sizeof(*moved));
    uint32_t *order = calloc((size_t)p->free_count + 1, sizeof(*order));
    struct gptoss_move *moves = calloc(excess, sizeof(*moves));
    if (moved == NULL || order == NULL || moves == NULL) {
        free(moved);
        moved = NULL; /* no RAM: the pool keeps its size */
    } else {
        evict(c, kind, to);
        for (uint32_t i = p->oldest; i != GPTOSS_NO_PAGE; i = p->at[i].newer)
            if (p->at[i].memory != GPTOSS_NO_PAGE)
                order[cached++] = i;
        compact(c, kind, to, moved, moves);
        relink(p, to, moved, order, cached);
        (void)c->device.resize(c->device.ctx, kind, to);
    }
    free(order);
    free(moves);
    return moved;
}

/* Pages of a kind, within the plan's bounds. */
static uint32_t within(const struct gptoss_plan *plan, enum gptoss_kind kind, uint64_t pages)
{
    uint32_t planned = kind == GPTOSS_FULL ? plan->full_pages : plan->window_pages,
             least = plan->least_pages[kind],
             most = plan->most_pages[kind] > planned ? plan->most_pages[kind] : planned;

    if (pages > most)
        return most;
    return pages > least ? (uint32_t)pages : least;
}

struct gptoss_kv_share gptoss_elastic_divide(const struct gptoss_plan *plan, uint64_t bytes)
{
    /* Of memory beyond the plan an eighth goes to the windows: a cached prefix can only be
     * continued where its last windows are cached. */
    enum { WINDOW_PART = 8 };
    uint64_t size = plan->window_page_bytes, window = plan->window_pages,
             full = plan->full_pages;
    struct gptoss_kv_share share;

    if (size != 0 && bytes > plan->kv)
        window += (bytes - plan->kv) / WINDOW_PART / size;
    else if (bytes < plan->kv)
        window = (uint64_t)((double)window * ((double)bytes / (double)plan->kv));
    share.pages[GPTOSS_WINDOW] = within(plan, GPTOSS_WINDOW, window);
    window = share.pages[GPTOSS_WINDOW] * size;
    if (plan->full_page_bytes != 0)
        full = bytes > window ? (bytes - window) / plan->full_page_bytes : 0;
    share.pages[GPTOSS_FULL] = within(plan, GPTOSS_FULL, full);
    return share;
}
