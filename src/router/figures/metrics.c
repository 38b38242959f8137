#include "router/figures/metrics.h"

size_t router_bucket_of(uint64_t ns)
{
    uint64_t half_ms = ns / 500000;
    size_t i = 0;
    while (i + 1 < ROUTER_BUCKETS && half_ms >= (uint64_t)1 << i)
        i++;
    return i;
}
