#include "router/sched/queue.h"

#include <stdlib.h>

struct router_key_queue {
    struct router_key_queue *next, *prev; /* ring */
    struct router_waiter *first, *last;
    uint64_t key;
    size_t count;
    size_t bytes;
};

static struct router_key_queue *find_key(const struct router_queue *queue, uint64_t key)
{
    struct router_key_queue *entry = queue->head;
    if (entry == NULL)
        return NULL;
    do {
        if (entry->key == key)
            return entry;
        entry = entry->next;
    } while (entry != queue->head);
    return NULL;
}

/* A new key comes last: just before the head of the ring. */
static struct router_key_queue *add_key(struct router_queue *queue, uint64_t key)
{
    struct router_key_queue *entry = calloc(1, sizeof(*entry));
    if (entry == NULL)
        return NULL;
    entry->key = key;
    if (queue->head == NULL) {
        entry->next = entry->prev = entry;
        queue->head = entry;
        return entry;
    }
    entry->next = queue->head;
    entry->prev = queue->head->prev;
    entry->prev->next = entry;
    queue->head->prev = entry;
    return entry;
}

static void remove_key(struct router_queue *queue, struct router_key_queue *entry)
{
    if (entry->next == entry) {
        queue->head = NULL;
    } else {
        if (queue->head == entry)
            queue->head = entry->next;
        entry->prev->next = entry->next;
        entry->next->prev = entry->prev;
    }
    free(entry);
}

bool router_queue_push(struct router_queue *queue, struct router_waiter *waiter, uint64_t key,
                       bool at_front)
{
    struct router_key_queue *entry = find_key(queue, key);
    if (entry == NULL)
        entry = add_key(queue, key);
    if (entry == NULL)
        return false;
    waiter->queue = entry;
    waiter->next = at_front ? entry->first : NULL;
    waiter->prev = at_front ? NULL : entry->last;
    if (waiter->next != NULL)
        waiter->next->prev = waiter;
    else
        entry->last = waiter;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter;
    else
        entry->first = waiter;
    entry->count++;
    entry->bytes += waiter->bytes;
    queue->count++;
    queue->bytes += waiter->bytes;
    return true;
}

void router_queue_remove(struct router_queue *queue, struct router_waiter *waiter)
{
    struct router_key_queue *entry = waiter->queue;
    if (entry == NULL)
        return;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter->next;
    else
        entry->first = waiter->next;
    if (waiter->next != NULL)
        waiter->next->prev = waiter->prev;
    else
        entry->last = waiter->prev;
    *waiter = (struct router_waiter){.bytes = waiter->bytes, .is_kept = waiter->is_kept};
    entry->bytes -= waiter->bytes;
    queue->bytes -= waiter->bytes;
    queue->count--;
    if (--entry->count == 0)
        remove_key(queue, entry);
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

struct router_waiter *router_queue_next_key(const struct router_queue *queue,
                                            const struct router_waiter *waiter)
{
    const struct router_key_queue *next = waiter->queue->next;
    return next != queue->head ? next->first : NULL;
}

size_t router_queue_ahead(const struct router_queue *queue, const struct router_waiter *waiter)
{
    size_t before = 0; /* of its own key */
    for (const struct router_waiter *w = waiter->prev; w != NULL; w = w->prev)
        before++;
    size_t ahead = before;
    size_t turns = before + 1; /* of the keys that come before its own in a round */
    const struct router_key_queue *entry = queue->head;
    do {
        if (entry == waiter->queue)
            turns = before;
        else
            ahead += entry->count < turns ? entry->count : turns;
        entry = entry->next;
    } while (entry != queue->head);
    return ahead;
}

static double weigh(struct router_queue_weight weight, uint64_t key, size_t waiting)
{
    return (double)waiting + (weight.of != NULL ? weight.of(weight.ctx, key) : 0);
}

struct router_waiter *router_queue_pushed_out(const struct router_queue *queue, uint64_t key,
                                              struct router_queue_weight weight)
{
    const struct router_key_queue *entry = queue->head;
    struct router_waiter *last = NULL;
    double most = weigh(weight, key, router_queue_key_count(queue, key) + 1);
    if (entry == NULL)
        return NULL;
    do {
        double has = weigh(weight, entry->key, entry->count);
        if (has > most && !entry->last->is_kept) {
            most = has;
            last = entry->last;
        }
        entry = entry->next;
    } while (entry != queue->head);
    return last;
}

size_t router_queue_key_count(const struct router_queue *queue, uint64_t key)
{
    const struct router_key_queue *entry = find_key(queue, key);
    return entry != NULL ? entry->count : 0;
}

bool router_queue_has_bytes(const struct router_queue *queue, uint64_t key, size_t bytes,
                            size_t limit)
{
    const struct router_key_queue *entry = find_key(queue, key);
    if (queue->count == 0)
        return true;
    return bytes <= limit && queue->bytes <= limit - bytes &&
           (entry == NULL || entry->bytes + bytes <= limit / 2);
}

void router_queue_each(struct router_queue *queue,
                       void (*fn)(void *ctx, struct router_waiter *waiter), void *ctx)
{
    size_t keys = 0;
    struct router_key_queue *entry = queue->head;
    if (entry == NULL)
        return;
    do
        keys++;
    while ((entry = entry->next) != queue->head);
    for (; keys != 0; keys--) {
        struct router_key_queue *next = entry->next;
        size_t left = entry->count;
        for (struct router_waiter *w = entry->first, *after; left != 0; left--, w = after) {
            after = w->next; /* the key queue goes with its last ticket: not touched after fn */
            fn(ctx, w);
        }
        entry = next;
    }
}
