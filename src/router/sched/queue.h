/* router/sched/queue.h - who waits for a model: first come first served within a key, turn by
 * turn between keys.
 *
 * Each key that waits has a lane; lanes form a ring and the ring turns by one with each
 * waiter that is taken.  So a key that sends a thousand requests delays another's single
 * one by one, not by a thousand.
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_SCHED_QUEUE_H
#define ROUTER_SCHED_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct router_lane;

#define ROUTER_NO_LANE UINT64_MAX /* nobody's */

/* Lies in whoever waits. */
struct router_waiter {
    struct router_waiter *next, *prev; /* in its lane */
    struct router_lane *lane;          /* NULL: it does not wait */
    size_t bytes;                      /* of memory that it holds; set before it waits */
};

struct router_queue {
    struct router_lane *head; /* whose turn it is; a ring */
    size_t count;
    size_t bytes; /* held by all who wait */
};

/* At the end of its lane, or at its front (it has waited before).  False without memory. */
bool router_queue_push(struct router_queue *queue, struct router_waiter *waiter, uint64_t lane,
                       bool at_front);

/* What a lane has beside those who wait; held NULL: nothing. */
struct router_queue_weight {
    uint32_t (*held)(const void *ctx, uint64_t lane);
    const void *ctx;
};

/* Who leaves so that a full queue can take one more into `lane`: the last to come of the lane
 * with the most, where that is more than `lane` would have.  NULL: nobody. */
struct router_waiter *router_queue_pushed_out(const struct router_queue *queue, uint64_t lane,
                                              struct router_queue_weight weight);

/* Whose turn it is; NULL when nobody waits.  pop takes it out and turns the ring. */
struct router_waiter *router_queue_peek(const struct router_queue *queue);
struct router_waiter *router_queue_pop(struct router_queue *queue);

/* The first of the lane after this one's; NULL when the ring is back at its head. */
struct router_waiter *router_queue_next_lane(const struct router_queue *queue,
                                             const struct router_waiter *waiter);

/* Takes anybody out; nothing happens where it does not wait. */
void router_queue_remove(struct router_queue *queue, struct router_waiter *waiter);

/* How many of this lane wait. */
size_t router_queue_lane_count(const struct router_queue *queue, uint64_t lane);

/* Whether `limit` bytes have room for these: for all together, and half of it for one lane.  A
 * queue, and a lane that has room in the whole, takes any first one. */
bool router_queue_has_bytes(const struct router_queue *queue, uint64_t lane, size_t bytes,
                            size_t limit);

/* Calls fn for each, lane by lane; fn may remove the one it is given. */
void router_queue_each(struct router_queue *queue,
                       void (*fn)(void *ctx, struct router_waiter *waiter), void *ctx);

#endif
