/* The states of a ticket: each move of the picture in ticket.h, what each state holds, and no
 * other move. */
#include "tests/unit/router/support.h"

#include "base/machine.h"
#include "router/sched/sched.h"

#define IDLE      ROUTER_TICKET_IDLE
#define QUEUED    ROUTER_TICKET_QUEUED
#define GRANTED   ROUTER_TICKET_GRANTED
#define REFUSED   ROUTER_TICKET_REFUSED
#define RUNNING   ROUTER_TICKET_RUNNING
#define SWAPPED   ROUTER_TICKET_SWAPPED
#define PREEMPTED ROUTER_TICKET_PREEMPTED
#define ALL       ROUTER_TICKET_STATES

static const bool is_legal[ALL][ALL] = {
    [IDLE] = {[QUEUED] = true, [RUNNING] = true},
    [QUEUED] = {[IDLE] = true, [GRANTED] = true, [REFUSED] = true},
    [GRANTED] = {[RUNNING] = true},
    [REFUSED] = {[IDLE] = true},
    [RUNNING] = {[IDLE] = true, [SWAPPED] = true, [PREEMPTED] = true},
    [SWAPPED] = {[IDLE] = true, [PREEMPTED] = true},
    [PREEMPTED] = {[IDLE] = true},
};

/* What a ticket of each state holds. */
static const struct holding {
    uint64_t waiting, held;
    uint32_t inflight, preempting, swapped, batch;
} holdings[ALL] = {
    [QUEUED] = {.waiting = 1},
    [GRANTED] = {.held = 1, .inflight = 1, .batch = 1},
    [RUNNING] = {.held = 1, .inflight = 1, .batch = 1},
    [SWAPPED] = {.held = 1, .inflight = 1, .preempting = 1, .swapped = 1},
    [PREEMPTED] = {.held = 1, .inflight = 1, .preempting = 1, .batch = 1},
};

static struct router_sched sched;
static struct router_schedule schedule;
static struct router_health health;
static struct router_replica replica;
static struct router_ticket ticket;
static int refused;

static void note_refused(void *ctx, struct router_ticket *t, enum router_refusal why)
{
    (void)ctx;
    refused += t == &ticket && why == ROUTER_REFUSE_DEFECT;
}

static void move(enum router_ticket_state to)
{
    if (to == QUEUED)
        assert_true(
            router_queue_push(&schedule.queues[ticket.priority], &ticket.waiter, 1, false));
    if (router_ticket_holds(to))
        ticket.replica = &replica;
    assert_true(router_ticket_move(&sched, &ticket, to));
}

/* A new ticket in this state. */
static void put(enum router_ticket_state state, enum router_priority priority)
{
    static const struct router_sched_host host = {.refuse = note_refused};
    static const enum router_ticket_state before[ALL] = {
        [GRANTED] = QUEUED, [REFUSED] = QUEUED, [SWAPPED] = RUNNING, [PREEMPTED] = RUNNING};
    router_schedule_free(&schedule);
    sched = (struct router_sched){.host = &host};
    schedule = (struct router_schedule){0};
    health = (struct router_health){0};
    replica = (struct router_replica){.health = &health, .slots = 1};
    ticket = (struct router_ticket){.schedule = &schedule, .key = 1, .priority = priority};
    if (before[state] != IDLE)
        move(before[state]);
    if (state != IDLE)
        move(state);
}

static void check(enum router_ticket_state state)
{
    struct holding h = holdings[state];
    bool is_live = ticket.priority == ROUTER_LIVE;
    assert_int_equal(ticket.state, state);
    assert_int_equal(sched.waiting, h.waiting);
    assert_int_equal(sched.held, h.held);
    assert_int_equal(schedule.queues[ticket.priority].count, h.waiting);
    assert_ptr_equal(sched.busy, h.waiting + h.held != 0 ? &schedule : NULL);
    assert_int_equal(replica.inflight, h.inflight);
    assert_int_equal(replica.preempting, h.preempting);
    assert_int_equal(replica.swapped, h.swapped);
    assert_int_equal(replica.batch, is_live ? 0 : h.batch);
    assert_ptr_equal(replica.held, h.held != 0 ? &ticket : NULL);
    assert_ptr_equal(ticket.replica, h.held != 0 ? &replica : NULL);
    assert_int_equal(router_shares_held(&schedule.shares, 1), is_live ? h.held : 0);
}

static int teardown(void **state)
{
    (void)state;
    put(IDLE, ROUTER_LIVE);
    return 0;
}

static void each_move_leaves_the_ticket_with_what_its_new_state_holds(void **state)
{
    (void)state;
    for (int priority = 0; priority < ROUTER_PRIORITIES; priority++)
        for (int from = 0; from < (int)ALL; from++)
            for (int to = 0; to < (int)ALL; to++) {
                if (!is_legal[from][to])
                    continue;
                put((enum router_ticket_state)from, (enum router_priority)priority);
                check((enum router_ticket_state)from);
                move((enum router_ticket_state)to);
                check((enum router_ticket_state)to);
                router_queue_remove(&schedule.queues[priority], &ticket.waiter);
            }
}

/* The ticket loses what it held; an owner that waits for an answer gets one. */
static void expect_failure(enum router_ticket_state from, enum router_ticket_state to)
{
    refused = 0;
    assert_false(router_ticket_move(&sched, &ticket, to));
    assert_int_equal(sched.illegal_moves, 1);
    assert_int_equal(refused, from == QUEUED);
    check(from == QUEUED ? REFUSED : IDLE);
}

static void any_other_move_is_a_defect(void **state)
{
    (void)state;
    lr_machine_tolerate(true);
    for (int from = 0; from < (int)ALL; from++)
        for (int to = 0; to < (int)ALL; to++) {
            if (is_legal[from][to])
                continue;
            put((enum router_ticket_state)from, ROUTER_LIVE);
            expect_failure((enum router_ticket_state)from, (enum router_ticket_state)to);
        }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, teardown)
    const struct CMUnitTest tests[] = {
        TEST(each_move_leaves_the_ticket_with_what_its_new_state_holds),
        TEST(any_other_move_is_a_defect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
