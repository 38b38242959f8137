#include "router/sched/queue.h"

#include <stdlib.h>

struct router_lane {
    struct router_lane *next, *prev; /* ring */
    struct router_waiter *first, *last;
    uint64_t id;
    size_t count;
    size_t bytes;
};

static struct router_lane *find_lane(const struct router_queue *queue, uint64_t id)
{
    struct router_lane *lane = queue->head;
    if (lane == NULL)
        return NULL;
    do {
        if (lane->id == id)
            return lane;
        lane = lane->next;
    } while (lane != queue->head);
    return NULL;
}

/* A new lane comes last: just before the head of the ring. */
static struct router_lane *add_lane(struct router_queue *queue, uint64_t id)
{
    struct router_lane *lane = calloc(1, sizeof(*lane));
    if (lane == NULL)
        return NULL;
    lane->id = id;
    if (queue->head == NULL) {
        lane->next = lane->prev = lane;
        queue->head = lane;
        return lane;
    }
    lane->next = queue->head;
    lane->prev = queue->head->prev;
    lane->prev->next = lane;
    queue->head->prev = lane;
    return lane;
}

static void remove_lane(struct router_queue *queue, struct router_lane *lane)
{
    if (lane->next == lane) {
        queue->head = NULL;
    } else {
        if (queue->head == lane)
            queue->head = lane->next;
        lane->prev->next = lane->next;
        lane->next->prev = lane->prev;
    }
    free(lane);
}

bool router_queue_push(struct router_queue *queue, struct router_waiter *waiter, uint64_t id,
                       bool at_front)
{
    struct router_lane *lane = find_lane(queue, id);
    if (lane == NULL)
        lane = add_lane(queue, id);
    if (lane == NULL)
        return false;
    waiter->lane = lane;
    waiter->next = at_front ? lane->first : NULL;
    waiter->prev = at_front ? NULL : lane->last;
    if (waiter->next != NULL)
        waiter->next->prev = waiter;
    else
        lane->last = waiter;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter;
    else
        lane->first = waiter;
    lane->count++;
    lane->bytes += waiter->bytes;
    queue->count++;
    queue->bytes += waiter->bytes;
    return true;
}

void router_queue_remove(struct router_queue *queue, struct router_waiter *waiter)
{
    struct router_lane *lane = waiter->lane;
    if (lane == NULL)
        return;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter->next;
    else
        lane->first = waiter->next;
    if (waiter->next != NULL)
        waiter->next->prev = waiter->prev;
    else
        lane->last = waiter->prev;
    *waiter = (struct router_waiter){.bytes = waiter->bytes};
    lane->bytes -= waiter->bytes;
    queue->bytes -= waiter->bytes;
    queue->count--;
    if (--lane->count == 0)
        remove_lane(queue, lane);
}

struct router_waiter *router_queue_peek(const struct router_queue *queue)
{
    return queue->head != NULL ? queue->head->first : NULL;
}

struct router_waiter *router_queue_pop(struct router_queue *queue)
{
    struct router_waiter *waiter = router_queue_peek(queue);
    if (waiter == NULL)
        return NULL;
    queue->head = queue->head->next;
    router_queue_remove(queue, waiter);
    return waiter;
}

struct router_waiter *router_queue_next_lane(const struct router_queue *queue,
                                             const struct router_waiter *waiter)
{
    const struct router_lane *next = waiter->lane->next;
    return next != queue->head ? next->first : NULL;
}

static size_t weigh(struct router_queue_weight weight, uint64_t lane, size_t waiting)
{
    return waiting + (weight.held != NULL ? weight.held(weight.ctx, lane) : 0);
}

struct router_waiter *router_queue_pushed_out(const struct router_queue *queue, uint64_t id,
                                              struct router_queue_weight weight)
{
    const struct router_lane *lane = queue->head;
    struct router_waiter *last = NULL;
    size_t most = weigh(weight, id, router_queue_lane_count(queue, id) + 1);
    if (lane == NULL)
        return NULL;
    do {
        size_t has = weigh(weight, lane->id, lane->count);
        if (has > most) {
            most = has;
            last = lane->last;
        }
        lane = lane->next;
    } while (lane != queue->head);
    return last;
}

size_t router_queue_lane_count(const struct router_queue *queue, uint64_t id)
{
    const struct router_lane *lane = find_lane(queue, id);
    return lane != NULL ? lane->count : 0;
}

bool router_queue_has_bytes(const struct router_queue *queue, uint64_t id, size_t bytes,
                            size_t limit)
{
    const struct router_lane *lane = find_lane(queue, id);
    if (queue->count == 0)
        return true;
    return bytes <= limit && queue->bytes <= limit - bytes &&
           (lane == NULL || lane->bytes + bytes <= limit / 2);
}

void router_queue_each(struct router_queue *queue,
                       void (*fn)(void *ctx, struct router_waiter *waiter), void *ctx)
{
    size_t lanes = 0;
    struct router_lane *lane = queue->head;
    if (lane == NULL)
        return;
    do
        lanes++;
    while ((lane = lane->next) != queue->head);
    for (; lanes != 0; lanes--) {
        struct router_lane *next = lane->next;
        size_t left = lane->count;
        for (struct router_waiter *w = lane->first, *after; left != 0; left--, w = after) {
            after = w->next; /* the lane goes with its last waiter: not touched after fn */
            fn(ctx, w);
        }
        lane = next;
    }
}
