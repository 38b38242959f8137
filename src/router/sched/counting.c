#include "router/sched/counting.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/machine.h"

#define TO(name) LR_STATE(ROUTER_COUNT_##name)
static const struct lr_machine machine = {
    "count",
    {
        [ROUTER_COUNT_NEW] = {"new", TO(WAITING) | TO(RUNNING)},
        [ROUTER_COUNT_WAITING] = {"waiting", TO(RUNNING) | TO(REFUSED) | TO(OVER)},
        [ROUTER_COUNT_RUNNING] = {"running", TO(OVER)},
        [ROUTER_COUNT_REFUSED] = {"refused", TO(OVER)},
        [ROUTER_COUNT_OVER] = {"over", 0},
    },
};

/* The only function that changes the state, and what follows from it. */
static void counting_move(struct router_counting *c, struct router_count_ask *ask,
                          enum router_count_state state)
{
    if (!lr_machine_allows(&machine, "tokens", ask->state, state))
        return;
    if (ask->state == ROUTER_COUNT_WAITING)
        router_queue_remove(&c->waiting, &ask->waiter);
    if (ask->state == ROUTER_COUNT_RUNNING)
        c->running--;
    if (state == ROUTER_COUNT_RUNNING)
        c->running++;
    ask->state = state;
}

static struct router_count_ask *ask_of(struct router_waiter *waiter)
{
    return (struct router_count_ask *)waiter;
}

static bool counting_has_room(const struct router_counting *c,
                              const struct router_count_ask *ask, size_t bytes_max)
{
    return c->waiting.count < ROUTER_COUNTS_WAITING &&
           router_queue_has_bytes(&c->waiting, ask->key, ask->waiter.bytes, bytes_max);
}

lr_code router_counting_enter(struct router_counting *c, struct router_count_ask *ask,
                              size_t bytes_max, uint64_t now_ms,
                              struct router_count_ask **pushed_out, struct lr_error *err)
{
    const struct router_queue_weight none = {0};
    *pushed_out = NULL;
    ask->since_ms = now_ms;
    if (c->running < ROUTER_COUNTS_RUNNING && c->waiting.count == 0) {
        counting_move(c, ask, ROUTER_COUNT_RUNNING);
        return LR_OK;
    }
    if (!counting_has_room(c, ask, bytes_max)) {
        struct router_waiter *other = router_queue_pushed_out(&c->waiting, ask->key, none);
        if (other == NULL)
            return lr_fail_as(err, count_waiting, c->waiting.count, ROUTER_COUNTS_WAITING);
        *pushed_out = ask_of(other);
        counting_move(c, *pushed_out, ROUTER_COUNT_REFUSED);
    }
    if (!router_queue_push(&c->waiting, &ask->waiter, ask->key, false))
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request that waits");
    counting_move(c, ask, ROUTER_COUNT_WAITING);
    return LR_OK;
}

void router_counting_leave(struct router_counting *c, struct router_count_ask *ask)
{
    counting_move(c, ask, ROUTER_COUNT_OVER);
}

struct router_count_ask *router_counting_next(struct router_counting *c, uint64_t now_ms)
{
    struct router_waiter *first = router_queue_peek(&c->waiting);
    if (first == NULL || c->running >= ROUTER_COUNTS_RUNNING)
        return NULL;
    (void)router_queue_pop(&c->waiting); /* turns the ring, too */
    struct router_count_ask *ask = ask_of(first);
    bool is_late = lr_elapsed(ask->since_ms, now_ms) >= ROUTER_COUNTS_WAIT_MS;
    counting_move(c, ask, is_late ? ROUTER_COUNT_REFUSED : ROUTER_COUNT_RUNNING);
    return ask;
}
