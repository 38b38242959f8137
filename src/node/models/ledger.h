/* node/models/ledger.h - who holds how much memory, and who must go so that another fits.
 *
 * Pure functions over numbers: no clock, no process, tested by table.
 * A pool is one kind of memory: the machine's RAM, or one GPU.  A claim is one loaded
 * model's allotment in it.
 */
#ifndef NODE_MODELS_LEDGER_H
#define NODE_MODELS_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum node_claim_kind {
    NODE_CLAIM_IDLE,   /* may be evicted at once */
    NODE_CLAIM_BUSY,   /* may be evicted once its requests have ended */
    NODE_CLAIM_PINNED, /* stays: pinned */
};

struct node_worker;

struct node_claim {
    struct node_worker *owner; /* for the caller; not looked into here */
    uint64_t bytes;            /* reserved */
    uint64_t reclaimable;      /* of them, could be given back without evicting it */
    uint64_t measured;         /* what the system says; 0: not known */
    uint64_t last_used_ms;
    enum node_claim_kind kind;
    bool is_victim; /* out: chosen by node_ledger_plan */
    uint64_t gives; /* out: what it has to give back, of reclaimable; 0 for a victim */
};

struct node_pool_state {
    uint64_t total;         /* 0: not known, everything fits */
    uint64_t used;          /* by everybody, measured */
    uint64_t cap;           /* what our models may hold together at most; 0: no such setting */
    uint32_t limit_percent; /* of total, for us and everybody else together */
};

enum node_plan {
    NODE_PLAN_FITS,
    NODE_PLAN_RECLAIM, /* fits once others have given back what `gives` says */
    NODE_PLAN_EVICT,   /* evict the victims, all idle; others give back, too */
    NODE_PLAN_WAIT,    /* some victims are busy: let them finish, take nothing new */
    NODE_PLAN_NEVER,   /* not even alone, beside pinned models and foreign use */
};

/* What others than our claims use. */
uint64_t node_ledger_foreign(const struct node_pool_state *pool,
                             const struct node_claim *claims, size_t count);

/* What our models may hold together. */
uint64_t node_ledger_capacity(const struct node_pool_state *pool,
                              const struct node_claim *claims, size_t count);

/* The most that a model may be planned with. */
uint64_t node_ledger_limit(const struct node_pool_state *pool);

/* Reclaimable memory counts as free: nobody is evicted where it is enough.  Marks the victims:
 * the least recently used first, idle before busy, and none that is not needed in the end.
 * *available gets what would be free for `need` at most. */
enum node_plan node_ledger_plan(const struct node_pool_state *pool, struct node_claim *claims,
                                size_t count, uint64_t need, uint64_t *available);

/* The claim to evict under pressure from outside, or count when there is none:
 * the least recently used idle one that holds at least 1 % of the pool. */
size_t node_ledger_pressure(const struct node_pool_state *pool, const struct node_claim *claims,
                            size_t count);

static inline bool node_ledger_over(const struct node_pool_state *pool)
{
    return pool->total != 0 && pool->used >= pool->total / 100 * pool->limit_percent;
}

#endif
