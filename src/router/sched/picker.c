#include "router/sched/picker.h"

#include <stdlib.h>

/* Before anything was measured: a slow GPU, so that real figures look good beside it. */
static const double default_prefill_ms = 0.5, default_step_ms = 20;

/* Reading 1 GB of weights, for a node that has not loaded the model yet. */
static const double load_ms_per_gb = 500, load_ms_least = 1000;

/* A full slot means waiting for another answer to end: a short answer's steps. */
enum { FULL_STEPS = 64 };

/* More than any wait: an avoided node is the last resort. */
static const double avoided_ms = 1e9;

/* A live ticket that may not go beyond the slots counts live tickets only. */
static bool picker_has_room(const struct router_candidate *node,
                            const struct router_demand *demand)
{
    uint32_t slots = node->slots != 0 ? node->slots : ROUTER_SLOTS_UNKNOWN;
    uint32_t counted = node->inflight - (demand->is_batch ? 0 : node->batch);
    return !node->is_barred && node->inflight < slots + ROUTER_SLOTS_BEYOND &&
           (!demand->is_within_slots || counted < slots);
}

bool router_has_room(const struct router_candidate *node)
{
    return picker_has_room(node, &(struct router_demand){0});
}

static int picker_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The middle value of those that were measured; a lone node's own. */
static double median(const struct router_candidate *nodes, size_t count, bool prefill,
                     double fallback)
{
    double measured[ROUTER_CANDIDATES_MAX];
    size_t n = 0;
    for (size_t i = 0; i < count && n < ROUTER_CANDIDATES_MAX; i++) {
        double value = prefill ? nodes[i].prefill_ms : nodes[i].step_ms;
        if (value > 0)
            measured[n++] = value;
    }
    qsort(measured, n, sizeof(measured[0]), picker_compare);
    return n != 0 ? measured[(n - 1) / 2] : fallback;
}

static double estimate(const struct router_candidate *n, const struct router_demand *demand,
                       double prefill, double step)
{
    double cost = 0;
    if (!n->is_loaded) {
        double guess = (double)n->weight_bytes / 1e9 * load_ms_per_gb;
        cost += n->load_ms > 0 ? n->load_ms : guess > load_ms_least ? guess : load_ms_least;
    }
    cost +=
        demand->prompt_tokens * (1 - n->cached) * (n->prefill_ms > 0 ? n->prefill_ms : prefill);
    double own_step = n->step_ms > 0 ? n->step_ms : step;
    /* A batch ticket leaves at once where a live one comes. */
    uint32_t active = n->active - (demand->is_batch ? 0 : n->batch);
    cost += active * own_step;
    if (n->slots != 0 && active >= n->slots)
        cost += FULL_STEPS * own_step;
    return n->is_avoided ? cost + avoided_ms : cost;
}

size_t router_pick(struct router_candidate *nodes, size_t count,
                   const struct router_demand *demand)
{
    double prefill = median(nodes, count, true, default_prefill_ms);
    double step = median(nodes, count, false, default_step_ms);
    size_t best = ROUTER_NOBODY;
    for (size_t i = 0; i < count; i++) {
        nodes[i].cost = estimate(&nodes[i], demand, prefill, step);
        if (picker_has_room(&nodes[i], demand) &&
            (best == ROUTER_NOBODY || nodes[i].cost < nodes[best].cost))
            best = i;
    }
    return best;
}
