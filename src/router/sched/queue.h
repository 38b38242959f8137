/* router/sched/queue.h - the tickets that wait for a model: first come first served within a
 * key, turn by turn between keys.
 *
 * Each key with a waiting ticket has a key queue.  The key queues form a ring that turns by one
 * with each ticket taken, so a key with a thousand tickets delays the single ticket of another
 * key by one, not by a thousand.
 * Thread: one at a time.
 */
#ifndef ROUTER_SCHED_QUEUE_H
#define ROUTER_SCHED_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct router_key_queue;

#define ROUTER_NO_KEY UINT64_MAX /* the number of no key */

/* The link of a ticket that waits. */
struct router_waiter {
    struct router_waiter *next, *prev; /* in its key queue */
    struct router_key_queue *queue;    /* NULL: the ticket does not wait */
    /* Set before it waits: */
    size_t bytes; /* memory that the request holds */
    bool is_kept; /* it makes room for none */
};

struct router_queue {
    struct router_key_queue *head; /* the key whose turn it is; a ring */
    size_t count;
    size_t bytes; /* held by all that wait */
};

/* To the end of the key's queue, or to its front.  False without memory. */
bool router_queue_push(struct router_queue *queue, struct router_waiter *waiter, uint64_t key,
                       bool at_front);

/* What a key has beside its waiting tickets; of NULL: nothing. */
struct router_queue_weight {
    double (*of)(const void *ctx, uint64_t key);
    const void *ctx;
};

/* The ticket that makes room where a full queue takes one more of `key`: the newest of the key
 * with the most, where that is more than `key` would have.  NULL: none. */
struct router_waiter *router_queue_pushed_out(const struct router_queue *queue, uint64_t key,
                                              struct router_queue_weight weight);

/* The ticket whose turn it is; NULL: none waits.  pop takes it out and turns the ring. */
struct router_waiter *router_queue_peek(const struct router_queue *queue);
struct router_waiter *router_queue_pop(struct router_queue *queue);

/* The first ticket of the next key; NULL when the ring is back at its head. */
struct router_waiter *router_queue_next_key(const struct router_queue *queue,
                                            const struct router_waiter *waiter);

/* Takes any ticket out; nothing happens where the ticket does not wait. */
void router_queue_remove(struct router_queue *queue, struct router_waiter *waiter);

/* How many tickets have their turn before this one, which waits. */
size_t router_queue_ahead(const struct router_queue *queue, const struct router_waiter *waiter);

/* How many tickets of this key wait. */
size_t router_queue_key_count(const struct router_queue *queue, uint64_t key);

/* Whether `limit` bytes have room for `bytes` more: for all keys together, and half of the
 * limit for one key.  An empty queue takes any ticket, and so does an empty key queue where the
 * whole has room. */
bool router_queue_has_bytes(const struct router_queue *queue, uint64_t key, size_t bytes,
                            size_t limit);

/* Calls fn for each ticket, key by key; fn may remove the ticket that it is given. */
void router_queue_each(struct router_queue *queue,
                       void (*fn)(void *ctx, struct router_waiter *waiter), void *ctx);

#endif
