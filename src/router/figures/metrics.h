/* router/figures/metrics.h - counters and histograms for GET /metrics.
 *
 * Everything is a relaxed atomic: a scrape may be a few requests behind, nothing waits.
 * Thread: any.
 */
#ifndef ROUTER_FIGURES_METRICS_H
#define ROUTER_FIGURES_METRICS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "chat/calls.h"

enum { ROUTER_BUCKETS = 16 };

/* Milliseconds; bucket i counts values up to 2^i / 2 ms, the last one everything. */
struct router_histogram {
    _Atomic uint64_t counts[ROUTER_BUCKETS];
    _Atomic uint64_t sum_us;
};

struct router_metrics {
    _Atomic uint64_t answers[6]; /* by status / 100 */
#define ROUTER_COUNTER(member, name, help)                   _Atomic uint64_t member;
#define ROUTER_HISTOGRAM(member, name, by_model, vllm, help) struct router_histogram member;
#include "router/figures/figures.def"
    _Atomic uint64_t repaired[GRAMMAR_FORMAT_COUNT][CHAT_REPAIR_COUNT];
};

/* Of one model; it lives and dies with its registration. */
struct router_model_metrics {
    _Atomic uint64_t succeeded, prompt_tokens, completion_tokens, cached_tokens;
#define ROUTER_HISTOGRAM(member, name, by_model, vllm, help) struct router_histogram member;
#include "router/figures/figures.def"
};

static inline void router_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* The bucket of a histogram that counts this value. */
size_t router_bucket_of(uint64_t ns);
/* Counts a value whose bucket is known, as where several histograms have it. */
static inline void router_observe_in(struct router_histogram *h, size_t bucket, uint64_t ns)
{
    router_count(&h->counts[bucket], 1);
    router_count(&h->sum_us, ns / 1000);
}
/* Values of all buckets. */
uint64_t router_histogram_count(const struct router_histogram *h);

#endif
