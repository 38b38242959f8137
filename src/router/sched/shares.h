/* router/sched/shares.h - how much of a model each key has, now and over time, for two rules:
 * the places beyond the slots are for keys that have less than their share, and who has more
 * steps aside for them.
 *
 * A share is meant over time.  A key with a tenth of the load has for moments more than half of
 * the slots, by chance, and one that fills the model for moments fewer; so what a key used of
 * late, the average of the places it held since it came, of the last ten seconds or so, counts
 * as well: while another one had more than its share over time, who had less may hold more for
 * a moment, and the other keeps half of its share.
 *
 * What is sent beyond a node's slots starts in the first step that has a slot free; what
 * waits here misses that step.  So while several keys use a model, one that fills it gets its
 * slots and no more, and another's request goes ahead of its next.  A key that is alone gets
 * everything.  Thread: the router's lock is held.
 */
#ifndef ROUTER_SCHED_SHARES_H
#define ROUTER_SCHED_SHARES_H

#include <stdbool.h>
#include <stdint.h>

/* Keys looked at for one model.  One more than that is taken for a newcomer. */
enum { ROUTER_SHARES_MAX = 32 };

struct router_share {
    uint64_t lane;
    uint64_t seen_ms; /* 0: nobody's */
    uint32_t held;
    uint32_t leaving; /* of them, asked to step aside */
    /* Sums that forget, as they were at used_ms: of the places it held, and of the time. */
    uint64_t used_ms;
    double used, time;
};

struct router_shares {
    struct router_share all[ROUTER_SHARES_MAX];
};

/* A request of this key came, now. */
void router_shares_see(struct router_shares *shares, uint64_t lane, uint64_t now_ms);

/* Whether this key's next request may go beyond the slots, of which the model has `slots`. */
bool router_shares_is_light(const struct router_shares *shares, uint64_t lane, uint64_t slots,
                            uint64_t now_ms);

/* Whether `from` gives one of its places to `to`.  Where it had more than its share over time
 * and the other less: down to half of a share.  Else only what it holds beyond its share, and
 * not to one that used more. */
bool router_shares_gives(const struct router_shares *shares, uint64_t from, uint64_t to,
                         uint64_t slots, uint64_t now_ms);
/* Places it held over time. */
double router_shares_used(const struct router_shares *shares, uint64_t lane, uint64_t now_ms);
/* It was asked for a place; or that is settled. */
void router_shares_ask(struct router_shares *shares, uint64_t lane, bool is_asked);

/* How many places it holds.  For struct router_queue_weight: shares is a struct router_shares.
 */
uint32_t router_shares_held(const void *shares, uint64_t lane);

/* It got a place, or gave one back. */
void router_shares_hold(struct router_shares *shares, uint64_t lane, uint64_t now_ms);
void router_shares_release(struct router_shares *shares, uint64_t lane, uint64_t now_ms);

#endif
