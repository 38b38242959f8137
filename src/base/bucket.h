/* base/bucket.h - a limit per minute: a bucket that holds a minute's worth and refills
 * evenly.  The caller takes from the level, and refuses where too little is left.
 */
#ifndef BASE_BUCKET_H
#define BASE_BUCKET_H

#include <stdint.h>

/* Zeroed: full. */
struct lr_bucket {
    double level;
    uint64_t at_ms; /* of the last refill, on a monotonic clock; 0: never used */
};

/* Until now; gives the level. */
double lr_bucket_refill(struct lr_bucket *bucket, double per_minute, uint64_t now_ms);

#endif
