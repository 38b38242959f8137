/* An answer that lost its worker or node: it waits for a free slot and for no other answer, and
 * where it waits for a load it goes to a slot that becomes free elsewhere. */
#include "tests/unit/router/support.h"

#include "router/sched/sched.h"

enum { NODES = 2, SLOTS = 2, TICKETS = 8, KEY = 1, OTHER_KEY = 2 };

struct node {
    struct router_health health;
    struct router_replica replica;
    bool is_online;
};

static struct node nodes[NODES];
static struct router_sched sched;
static struct router_schedule schedule;
static struct router_ticket tickets[TICKETS];
static uint64_t now_ms;

/* ---- the host ---- */

static size_t list_replicas(void *ctx, const struct router_schedule *of,
                            const struct router_ticket *ticket, struct router_candidate *out,
                            size_t capacity)
{
    size_t count = 0;
    (void)ctx, (void)of, (void)ticket;
    for (size_t i = 0; i < NODES && count < capacity; i++)
        if (nodes[i].is_online)
            out[count++] = (struct router_candidate){.node = (struct router_node *)&nodes[i],
                                                     .replica = &nodes[i].replica};
    return count;
}

static void ignore(void *ctx, struct router_ticket *ticket)
{
    (void)ctx, (void)ticket;
}

static void never_refuses(void *ctx, struct router_ticket *ticket, enum router_refusal why)
{
    (void)ctx, (void)ticket, (void)why;
    fail();
}

static void can_leave(struct router_ticket *ticket)
{
    (void)ticket;
}

static int setup(void **state)
{
    static const struct router_sched_host host = {list_replicas, ignore, never_refuses, ignore,
                                                  NULL};
    (void)state;
    now_ms = 1000;
    sched = (struct router_sched){
        .host = &host, .preempts = true, .queue_limit = 100, .queue_bytes = 1 << 20};
    schedule = (struct router_schedule){0};
    for (size_t i = 0; i < NODES; i++) {
        nodes[i] = (struct node){.is_online = true};
        nodes[i].replica = (struct router_replica){.health = &nodes[i].health,
                                                   .slots = SLOTS,
                                                   .is_loaded = true,
                                                   .load_ms = 20000,
                                                   .prefill_ms = 0.1,
                                                   .step_ms = 5};
    }
    for (size_t i = 0; i < TICKETS; i++)
        tickets[i] = (struct router_ticket){
            .schedule = &schedule, .key = KEY, .on_preempt = can_leave, .prompt_tokens = 10};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (size_t i = 0; i < TICKETS; i++) {
        (void)router_sched_withdraw(&sched, &tickets[i]);
        if (tickets[i].state == ROUTER_TICKET_GRANTED)
            (void)router_sched_acknowledge(&sched, &tickets[i]);
    }
    for (size_t i = 0; i < TICKETS; i++)
        router_sched_release(&sched, &tickets[i], ROUTER_LOST, NULL, now_ms);
    assert_null(sched.busy);
    router_schedule_free(&schedule);
    return 0;
}

/* ---- what happens ---- */

static enum router_admission arrive(size_t i, bool again)
{
    enum router_refusal why;
    return router_sched_arrive(&sched, &tickets[i], again, now_ms, &why);
}

/* Tickets 0 and 1 are on the first node, 2 and 3 on the second; each has tokens. */
static void take_all_slots(void)
{
    for (size_t i = 0; i < NODES; i++) {
        nodes[1 - i].is_online = false;
        for (size_t k = 0; k < SLOTS; k++) {
            assert_int_equal(arrive(SLOTS * i + k, false), ROUTER_GRANTED);
            router_sched_token(&tickets[SLOTS * i + k]);
        }
        nodes[1 - i].is_online = true;
    }
}

static void worker_dies(size_t node)
{
    nodes[node].replica.is_loaded = false;
    for (size_t i = 0; i < TICKETS; i++) {
        if (tickets[i].replica != &nodes[node].replica)
            continue;
        router_sched_release(&sched, &tickets[i], ROUTER_LOST, NULL, now_ms);
        (void)arrive(i, true);
    }
}

static void node_dies(size_t node)
{
    nodes[node].is_online = false;
    for (size_t i = 0; i < TICKETS; i++) {
        if (tickets[i].replica != &nodes[node].replica)
            continue;
        router_sched_release(&sched, &tickets[i], ROUTER_FAILED, NULL, now_ms);
        (void)arrive(i, true);
    }
}

static void answer_ends(size_t i)
{
    router_sched_release(&sched, &tickets[i], ROUTER_ENDED, NULL, now_ms);
}

static bool is_on(size_t i, size_t node)
{
    return tickets[i].replica == &nodes[node].replica;
}

/* ---- promises ---- */

static void after_a_worker_died_no_answer_goes_beyond_the_slots_of_another_node(void **state)
{
    (void)state;
    take_all_slots();
    worker_dies(0);
    assert_int_equal(nodes[1].replica.inflight, SLOTS);
    assert_true(is_on(0, 0) && is_on(1, 0)); /* which has room, as soon as it has loaded */
}

static void after_a_node_died_its_answers_wait_until_it_is_back(void **state)
{
    (void)state;
    take_all_slots();
    node_dies(0);
    assert_int_equal(nodes[1].replica.inflight, SLOTS);
    assert_int_equal(schedule.queues[ROUTER_MOVED].count, 2);
    nodes[0].is_online = true;
    nodes[0].health = (struct router_health){0}; /* as where it joins */
    router_sched_pump_all(&sched, now_ms);
    assert_true(is_on(0, 0) && is_on(1, 0));
}

static void
a_slot_that_is_free_goes_to_an_answer_that_lost_its_node_before_others_begin(void **state)
{
    (void)state;
    sched.preempts = false;
    take_all_slots();
    node_dies(0);
    /* A key with less than its share may use the room beyond the slots, but not before them. */
    tickets[5].key = OTHER_KEY;
    assert_int_equal(arrive(4, false), ROUTER_WAITING);
    assert_int_equal(arrive(5, false), ROUTER_WAITING);
    answer_ends(2);
    assert_true(is_on(0, 1));
    answer_ends(3);
    assert_true(is_on(1, 1));
    assert_true(is_on(4, 1) || is_on(5, 1)); /* beyond the slots, as none of them waits */
}

static void
an_answer_that_waits_for_a_load_goes_to_a_slot_that_becomes_free_elsewhere(void **state)
{
    (void)state;
    take_all_slots();
    worker_dies(0);
    answer_ends(2);
    /* The newest of the two is told to leave, and its slot is kept for it. */
    size_t moved = tickets[0].is_recalled ? 0 : 1;
    assert_true(tickets[moved].is_recalled);
    assert_int_equal(tickets[moved].state, ROUTER_TICKET_PREEMPTED);
    assert_int_equal(nodes[1].replica.reserved, 1);
    router_sched_release(&sched, &tickets[moved], ROUTER_RECALLED, NULL, now_ms);
    assert_int_equal(arrive(moved, true), ROUTER_GRANTED);
    assert_true(is_on(moved, 1));
    assert_int_equal(nodes[1].replica.reserved, 0);
}

static void an_answer_is_not_recalled_from_a_node_that_computes_it(void **state)
{
    (void)state;
    take_all_slots();
    worker_dies(0);
    router_sched_prefill(&tickets[0]);
    router_sched_token(&tickets[1]);
    answer_ends(2);
    answer_ends(3);
    assert_true(is_on(0, 0) && is_on(1, 0));
    assert_int_equal(tickets[0].state, ROUTER_TICKET_RUNNING);
    assert_int_equal(tickets[1].state, ROUTER_TICKET_RUNNING);
}

static void a_request_beyond_the_slots_goes_to_a_slot_that_is_free_elsewhere(void **state)
{
    (void)state;
    nodes[1].is_online = false;
    sched.preempts = false;
    for (size_t i = 0; i < SLOTS; i++) {
        assert_int_equal(arrive(i, false), ROUTER_GRANTED);
        router_sched_token(&tickets[i]);
    }
    tickets[2].key = OTHER_KEY; /* it may use the room beyond the slots */
    assert_int_equal(arrive(2, false), ROUTER_GRANTED);
    nodes[1].is_online = true;
    router_sched_tick(&sched, now_ms);
    assert_true(tickets[2].is_recalled);
    assert_ptr_equal(tickets[2].recalled_to, &nodes[1].replica);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            after_a_worker_died_no_answer_goes_beyond_the_slots_of_another_node, setup,
            teardown),
        cmocka_unit_test_setup_teardown(after_a_node_died_its_answers_wait_until_it_is_back,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_slot_that_is_free_goes_to_an_answer_that_lost_its_node_before_others_begin, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            an_answer_that_waits_for_a_load_goes_to_a_slot_that_becomes_free_elsewhere, setup,
            teardown),
        cmocka_unit_test_setup_teardown(an_answer_is_not_recalled_from_a_node_that_computes_it,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_request_beyond_the_slots_goes_to_a_slot_that_is_free_elsewhere, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
