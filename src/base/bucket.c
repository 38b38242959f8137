#include "base/bucket.h"

double lr_bucket_refill(struct lr_bucket *bucket, double per_minute, uint64_t now_ms)
{
    if (bucket->at_ms == 0)
        bucket->level = per_minute;
    else
        bucket->level += (double)(now_ms - bucket->at_ms) * per_minute / 60000.0;
    if (bucket->level > per_minute)
        bucket->level = per_minute;
    bucket->at_ms = now_ms;
    return bucket->level;
}
