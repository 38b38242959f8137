#include "node/models/ledger.h"

static uint64_t threshold(const struct node_pool_state *pool)
{
    return pool->total / 100 * pool->limit_percent;
}

uint64_t node_ledger_limit(const struct node_pool_state *pool)
{
    uint64_t limit = threshold(pool);
    return pool->cap != 0 && pool->cap < limit ? pool->cap : limit;
}

uint64_t node_ledger_foreign(const struct node_pool_state *pool,
                             const struct node_claim *claims, size_t count)
{
    uint64_t ours = 0;
    for (size_t i = 0; i < count; i++)
        ours += claims[i].measured;
    return pool->used > ours ? pool->used - ours : 0;
}

uint64_t node_ledger_capacity(const struct node_pool_state *pool,
                              const struct node_claim *claims, size_t count)
{
    uint64_t limit = threshold(pool);
    uint64_t foreign = node_ledger_foreign(pool, claims, count);
    limit = limit > foreign ? limit - foreign : 0;
    return pool->cap != 0 && pool->cap < limit ? pool->cap : limit;
}

/* What a claim holds after it has given back what it can. */
static uint64_t firm(const struct node_claim *claim)
{
    return claim->bytes - claim->reclaimable;
}

/* What the others have to give back once the victims are gone: the least recently used first.
 */
static bool share_giving(struct node_claim *claims, size_t count, uint64_t capacity,
                         uint64_t need)
{
    uint64_t held = need;
    for (size_t i = 0; i < count; i++)
        held += claims[i].is_victim ? 0 : claims[i].bytes;
    uint64_t lacking = held > capacity ? held - capacity : 0;
    bool has_lacked = lacking != 0;
    while (lacking != 0) {
        struct node_claim *next = NULL;
        for (struct node_claim *c = claims; c < claims + count; c++)
            if (!c->is_victim && c->gives == 0 && c->reclaimable != 0 &&
                (next == NULL || c->last_used_ms < next->last_used_ms))
                next = c;
        if (next == NULL)
            break;
        next->gives = next->reclaimable < lacking ? next->reclaimable : lacking;
        lacking -= next->gives;
    }
    return has_lacked;
}

static size_t least_recent(const struct node_claim *claims, size_t count,
                           enum node_claim_kind kind)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++)
        if (claims[i].kind == kind && !claims[i].is_victim && firm(&claims[i]) != 0 &&
            (best == count || claims[i].last_used_ms < claims[best].last_used_ms))
            best = i;
    return best;
}

/* Chosen in order of age, an early small victim may have become needless. */
static void spare_needless(struct node_claim *claims, size_t count, uint64_t free_bytes,
                           uint64_t need)
{
    for (size_t i = 0; i < count; i++)
        if (claims[i].is_victim && free_bytes - firm(&claims[i]) >= need) {
            claims[i].is_victim = false;
            free_bytes -= firm(&claims[i]);
        }
}

enum node_plan node_ledger_plan(const struct node_pool_state *pool, struct node_claim *claims,
                                size_t count, uint64_t need, uint64_t *available)
{
    static const enum node_claim_kind order[] = {NODE_CLAIM_IDLE, NODE_CLAIM_BUSY};
    uint64_t held = 0;
    uint64_t pinned = 0;

    for (size_t i = 0; i < count; i++) {
        claims[i].is_victim = false;
        claims[i].gives = 0;
        held += firm(&claims[i]);
        pinned += claims[i].kind == NODE_CLAIM_PINNED ? firm(&claims[i]) : 0;
    }
    *available = UINT64_MAX;
    if (pool->total == 0)
        return NODE_PLAN_FITS;
    uint64_t capacity = node_ledger_capacity(pool, claims, count);
    *available = capacity > pinned ? capacity - pinned : 0;
    if (need > *available)
        return NODE_PLAN_NEVER;
    uint64_t free_bytes = capacity > held ? capacity - held : 0;
    /* Foreign use may have grown over what we hold: then freeing must first pay that. */
    uint64_t debt = held > capacity ? held - capacity : 0;
    if (free_bytes >= need && debt == 0)
        return share_giving(claims, count, capacity, need) ? NODE_PLAN_RECLAIM : NODE_PLAN_FITS;

    bool has_busy = false;
    for (size_t k = 0; k < 2; k++)
        while (free_bytes < need + debt) {
            size_t i = least_recent(claims, count, order[k]);
            if (i == count)
                break;
            claims[i].is_victim = true;
            free_bytes += firm(&claims[i]);
        }
    spare_needless(claims, count, free_bytes, need + debt);
    (void)share_giving(claims, count, capacity, need);
    for (size_t i = 0; i < count; i++)
        has_busy = has_busy || (claims[i].is_victim && claims[i].kind == NODE_CLAIM_BUSY);
    return has_busy ? NODE_PLAN_WAIT : NODE_PLAN_EVICT;
}

size_t node_ledger_pressure(const struct node_pool_state *pool, const struct node_claim *claims,
                            size_t count)
{
    size_t best = count;
    for (size_t i = 0; i < count; i++) {
        uint64_t frees = claims[i].measured != 0 ? claims[i].measured : claims[i].bytes;
        if (claims[i].kind == NODE_CLAIM_IDLE && frees >= pool->total / 100 &&
            (best == count || claims[i].last_used_ms < claims[best].last_used_ms))
            best = i;
    }
    return best;
}
