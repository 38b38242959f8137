#include "router/sched/replica.h"

enum {
    AVOID_MS = 2000, /* a node that failed; twice as long each time in a row */
    AVOID_DOUBLINGS = 3,
};

/* Moving averages: a new value counts a fifth. */
static const double share_of_new = 0.2;

static void replica_average(double *value, double measured)
{
    if (measured > 0)
        *value = *value > 0 ? *value + share_of_new * (measured - *value) : measured;
}

/* Weighed by tokens: of a short prompt's time little is computing, and what it says must not
 * outweigh a long one's. */
static void average_prefill(struct router_replica *replica, const struct router_measure *m)
{
    if (m->prefill_ms <= 0 || m->prefill_tokens <= 0)
        return;
    double kept = (1 - share_of_new) * replica->prefill_tokens;
    double fresh = (replica->prefill_tokens > 0 ? share_of_new : 1) * m->prefill_tokens;
    replica->prefill_tokens = kept + fresh;
    replica->prefill_ms =
        (replica->prefill_ms * kept + m->prefill_ms * fresh) / replica->prefill_tokens;
}

void router_replica_measure(struct router_replica *replica, const struct router_measure *m)
{
    replica_average(&replica->load_ms, m->load_ms);
    average_prefill(replica, m);
    replica_average(&replica->step_ms, m->step_ms);
    replica->is_caching = replica->is_caching || m->found_cached;
}

void router_health_fail(struct router_health *health, uint64_t now)
{
    health->failures++;
    /* What was under way when the node failed the first ticket says nothing new. */
    if (now < health->avoided_until_ms)
        return;
    uint32_t row = atomic_fetch_add(&health->failures_in_row, 1);
    health->avoided_until_ms =
        now + ((uint64_t)AVOID_MS << (row < AVOID_DOUBLINGS ? row : AVOID_DOUBLINGS));
}

void router_health_trust(struct router_health *health)
{
    if (atomic_load_explicit(&health->failures_in_row, memory_order_relaxed) != 0)
        atomic_store(&health->failures_in_row, 0);
}

bool router_replica_is_doubtful(const struct router_replica *replica, uint64_t now)
{
    return now < replica->health->avoided_until_ms ||
           (atomic_load(&replica->health->failures_in_row) != 0 && replica->inflight != 0);
}
