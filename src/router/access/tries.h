/* router/access/tries.h - how many wrong keys, and how many steps of sign-ins with an
 * OpenID provider, may come from an address.
 *
 * Each address has a bucket that holds a minute's tries and refills evenly.  Of IPv6 the
 * network /64 counts, which one person may own whole.  The table is bounded: the address that
 * tried longest ago makes room.
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_ACCESS_TRIES_H
#define ROUTER_ACCESS_TRIES_H

#include <stdint.h>

#include "base/bucket.h"
#include "base/fail.h"

enum {
    ROUTER_TRIERS_MAX = 256,
    ROUTER_WRONG_KEYS_PER_MINUTE = 10,
    /* A sign-in has two: to the provider, and back.  An office may share one address. */
    ROUTER_SIGN_IN_STEPS_PER_MINUTE = 60,
};

struct router_tries {
    unsigned per_minute;
    const char *what; /* is counted, in the plural */
    struct router_trier {
        char network[48];
        struct lr_bucket left;
    } all[ROUTER_TRIERS_MAX];
};

/* Counts a try.  RATE_LIMITED: too many came from there; *retry_s says when to try again. */
LR_MUST_USE lr_code router_try(struct router_tries *tries, const char *address, uint64_t now_ms,
                               uint32_t *retry_s, struct lr_error *err);
#endif
