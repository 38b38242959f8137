/* router/sched/shares.h - how much of a model each key has, now and over time.
 *
 * While several keys use a model, each has an equal share of its slots; what one key leaves,
 * the others may have.  Two rules need to know the shares: the room beyond the slots is for
 * keys that have less than their share, and a key that has more is preempted for them.
 *
 * A key's use is an average over time: the slots that it held during about the last ten
 * seconds.  While the use of some key is above its share, a key below its share may hold more
 * than its share for a moment; the key above keeps half of its share.  While no key's use is
 * above its share, the slots that each key holds now decide (docs/adr/0014).
 *
 * Thread: one at a time.  Times are the caller's, monotonic.
 */
#ifndef ROUTER_SCHED_SHARES_H
#define ROUTER_SCHED_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct router_share {
    uint64_t key;
    uint64_t seen_ms; /* of the last request; 0: the entry is free */
    uint32_t held;
    uint32_t leaving; /* of the slots held, those that are preempted */
    /* Sums that forget, as they were at used_ms: of the slots held, and of the time. */
    uint64_t used_ms;
    double used, time;
    double spent; /* its account: slot time in ms, see router_shares_account */
};

/* How many keys use the model, and whether one of them had more than its share. */
struct router_share_round {
    uint64_t active, slots, now;
    bool has_over;
};

/* All zero: empty. */
struct router_shares {
    struct router_share *all; /* owned: a hash table, by key */
    size_t capacity, count;
    double spent, ended; /* slot time and answers of late, for the time of an answer */
    struct router_share_round round; /* kept until something changes */
    bool has_round;
};

void router_shares_free(struct router_shares *shares);

/* A request of this key came, now.  Without memory for the key it counts as one that uses
 * nothing. */
void router_shares_see(struct router_shares *shares, uint64_t key, uint64_t now_ms);

/* Whether the next request of this key may go beyond the model's `slots`. */
bool router_shares_is_light(struct router_shares *shares, uint64_t key, uint64_t slots,
                            uint64_t now_ms);

/* Whether `from` gives one of its slots to `to`.  Where `from` had more than its share over
 * time and `to` less: down to half of a share.  Else only what `from` holds beyond its share,
 * and not to a key that used more. */
bool router_shares_gives(struct router_shares *shares, uint64_t from, uint64_t to,
                         uint64_t slots, uint64_t now_ms);
/* The slots that the key held over time, and holds now. */
double router_shares_used(const struct router_shares *shares, uint64_t key, uint64_t now_ms);
/* The slot time that the key has used, in answers of the usual length.  No key is more than
 * four answers, or ten seconds, from the average of the keys on nodes: a key that was away, or
 * that had the model alone, is soon level with the others. */
double router_shares_account(const struct router_shares *shares, uint64_t key, uint64_t now_ms);
uint32_t router_shares_held(const struct router_shares *shares, uint64_t key);

/* The key got a slot, or gave one back. */
void router_shares_hold(struct router_shares *shares, uint64_t key, uint64_t now_ms);
void router_shares_release(struct router_shares *shares, uint64_t key, uint64_t now_ms);
/* One of its slots is preempted, or that is over. */
void router_shares_preempt(struct router_shares *shares, uint64_t key, bool is_leaving);

#endif
