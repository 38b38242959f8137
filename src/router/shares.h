/* router/shares.h - how much of a model each key holds, for two rules: the places beyond the
 * slots are for keys that hold less than their share, and who holds more steps aside for them.
 *
 * What is sent beyond a node's slots starts in the first step that has a slot free; what
 * waits here misses that step.  So while several keys use a model, one that fills it gets its
 * slots and no more, and another's request goes ahead of its next.  A key that is alone gets
 * everything.  Thread: the router's lock is held.
 */
#ifndef ROUTER_SHARES_H
#define ROUTER_SHARES_H

#include <stdbool.h>
#include <stdint.h>

/* Keys looked at for one model.  One more than that is taken for a newcomer. */
enum { ROUTER_SHARES_MAX = 32 };

struct router_share {
    uint64_t lane;
    uint64_t seen_ms; /* 0: nobody's */
    uint32_t held;
    uint32_t leaving; /* of them, asked to step aside */
};

struct router_shares {
    struct router_share all[ROUTER_SHARES_MAX];
};

/* A request of this key came, now. */
void router_shares_see(struct router_shares *shares, uint64_t lane, uint64_t now_ms);

/* Whether this key's next request may go beyond the slots, of which the model has `slots`. */
bool router_shares_is_light(const struct router_shares *shares, uint64_t lane, uint64_t slots,
                            uint64_t now_ms);

/* Whether this key has its share even with one place less: it can give one to another. */
bool router_shares_is_heavy(const struct router_shares *shares, uint64_t lane, uint64_t slots,
                            uint64_t now_ms);
/* It was asked for a place; or that is settled. */
void router_shares_ask(struct router_shares *shares, uint64_t lane, bool is_asked);

/* How many places it holds.  For struct router_queue_weight: shares is a struct router_shares.
 */
uint32_t router_shares_held(const void *shares, uint64_t lane);

/* It got a place, or gave one back. */
void router_shares_hold(struct router_shares *shares, uint64_t lane);
void router_shares_release(struct router_shares *shares, uint64_t lane);

#endif
