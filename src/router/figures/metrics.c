#include "router/figures/metrics.h"

size_t router_bucket_of(uint64_t ns)
{
    uint64_t half_ms = ns / 500000;
    size_t i = 0;
    while (i + 1 < ROUTER_BUCKETS && half_ms >= (uint64_t)1 << i)
        i++;
    return i;
}

uint64_t router_histogram_count(const struct router_histogram *h)
{
    uint64_t count = 0;
    for (size_t i = 0; i < ROUTER_BUCKETS; i++)
        count += atomic_load_explicit(&h->counts[i], memory_order_relaxed);
    return count;
}
