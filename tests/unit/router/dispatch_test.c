/* Slots on nodes: who gets one, who waits, who is refused, and what a failure changes. */
#include "tests/unit/router/support.h"

#include "net/loop.h"
#include "router/fleet/dispatch.h"

enum { SLOTS = 2, ROOM = SLOTS + ROUTER_SLOTS_BEYOND, TICKETS = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct router_registry registry;
static struct router_nodes fleet;
static struct router_dispatch d;
static struct router_model *model;
static struct router_node *nodes[2];
static struct router_ticket tickets[TICKETS];
static struct lr_fake_clock time_;
static struct net_loop *loop; /* turned where a test does, and when it ends */

static struct router_node *join(const char *id)
{
    struct wire_fleet_model m = {
        .id = LR_STR_LIT("demo"), .can_run = true, .is_loaded = true, .slots = SLOTS};
    struct wire_join told = {.node_id = lr_str_z(id),
                             .name = lr_str_z(id),
                             .state = {.models = &m, .model_count = 1}};
    struct router_node *node;
    struct lr_error err;
    assert_int_equal(router_nodes_join(&fleet, &told, "http://127.0.0.1:1", 1, 1, &node, &err),
                     LR_OK);
    return node;
}

static void ignore(struct router_ticket *ticket, const struct lr_error *err)
{
    (void)ticket, (void)err;
}

static int setup(void **state)
{
    struct router_new_model demo = {.id = LR_STR_LIT("demo"), .source = LR_STR_LIT("local")};
    struct lr_error err;
    (void)state;
    memset(tickets, 0, sizeof(tickets));
    router_registry_init(&registry);
    router_nodes_init(&fleet);
    lr_fake_clock_init(&time_, 1000000, 0);
    d = (struct router_dispatch){.lock = &lock,
                                 .nodes = &fleet,
                                 .registry = &registry,
                                 .clock = &time_.clock,
                                 .sched = {.queue_limit = 3}};
    router_dispatch_init(&d);
    assert_int_equal(router_registry_add(&registry, &demo, &model, &err), LR_OK);
    assert_int_equal(net_loop_create(&loop, &err), LR_OK);
    nodes[0] = join("node-one");
    for (int i = 0; i < TICKETS; i++) {
        tickets[i].dispatch = &d;
        tickets[i].model = model;
        tickets[i].loop = loop;
        tickets[i].on_ready = ignore;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < TICKETS; i++)
        router_queue_remove(&model->schedule.queues[ROUTER_LIVE], &tickets[i].waiter);
    net_loop_destroy(loop);
    router_registry_free(&registry);
    router_nodes_free(&fleet);
    return 0;
}

static enum router_admission admit(int i, bool again)
{
    struct lr_error err;
    return router_admit(&tickets[i], again, &err);
}

static uint64_t avoided_ms(const struct router_node *node)
{
    uint64_t now = lr_clock_ms(&time_.clock);
    return node->health.avoided_until_ms > now ? node->health.avoided_until_ms - now : 0;
}

/* As if the time of its being avoided were over. */
static void forgive(struct router_node *node)
{
    node->health.avoided_until_ms = 0;
}

static void slots_and_two_beyond_then_the_queue_then_a_refusal(void **state)
{
    (void)state;
    for (int i = 0; i < ROOM; i++)
        assert_int_equal(admit(i, false), ROUTER_GRANTED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(admit(ROOM + i, false), ROUTER_WAITING);
    assert_int_equal(admit(ROOM + 3, false), ROUTER_REFUSED);
    assert_int_equal(admit(ROOM + 3, true), ROUTER_WAITING); /* one that ran before */
    assert_int_equal(model->schedule.queues[ROUTER_LIVE].count, 4);
    assert_int_equal(d.sched.waiting, 4);
    assert_true(router_withdraw(&tickets[ROOM]));
    assert_int_equal(d.sched.waiting, 3);
}

static void nobody_overtakes_those_who_wait(void **state)
{
    (void)state;
    for (int i = 0; i <= ROOM; i++)
        (void)admit(i, false);
    nodes[1] = join("node-two"); /* room again, but the queue has not moved yet */
    assert_int_equal(admit(ROOM + 1, false), ROUTER_WAITING);
    assert_int_equal(admit(ROOM + 2, true), ROUTER_GRANTED);
}

static void the_room_beyond_the_slots_is_for_keys_that_hold_less(void **state)
{
    (void)state;
    for (int i = 0; i < 8; i++)
        tickets[i].key = i < 4 ? 1 : 2;
    assert_int_equal(admit(4, false), ROUTER_GRANTED);
    router_release(&tickets[4], ROUTER_ENDED, NULL);
    /* Another key was here: this one gets the slots, and no more. */
    for (int i = 0; i < SLOTS; i++)
        assert_int_equal(admit(i, false), ROUTER_GRANTED);
    assert_int_equal(admit(2, false), ROUTER_WAITING);
    assert_int_equal(admit(5, false), ROUTER_GRANTED);
    assert_int_equal(admit(6, false), ROUTER_WAITING); /* it has its share now */
    /* What ends leaves the slots full; then the turns go on. */
    router_release(&tickets[0], ROUTER_ENDED, NULL);
    assert_int_equal(tickets[2].state, ROUTER_TICKET_QUEUED);
    router_release(&tickets[1], ROUTER_ENDED, NULL);
    assert_int_equal(tickets[2].state, ROUTER_TICKET_GRANTED);
    assert_int_equal(tickets[6].state, ROUTER_TICKET_QUEUED);
}

static void who_waits_with_less_than_its_share_goes_before_a_turn_that_has_more(void **state)
{
    (void)state;
    tickets[0].key = tickets[1].key = 1;
    tickets[2].key = tickets[3].key = 2;
    tickets[4].key = 3;
    assert_int_equal(admit(4, false), ROUTER_GRANTED);
    assert_int_equal(admit(2, false), ROUTER_GRANTED);
    assert_int_equal(admit(3, false), ROUTER_WAITING);
    assert_int_equal(admit(0, false), ROUTER_GRANTED);
    assert_int_equal(admit(1, false), ROUTER_WAITING);
    router_release(&tickets[0], ROUTER_ENDED, NULL);
    assert_int_equal(tickets[3].state,
                     ROUTER_TICKET_QUEUED); /* its turn, but it has its share */
    assert_int_equal(tickets[1].state, ROUTER_TICKET_GRANTED);
    router_release(&tickets[2], ROUTER_ENDED, NULL);
    router_release(&tickets[4], ROUTER_ENDED, NULL);
    assert_int_equal(tickets[3].state, ROUTER_TICKET_GRANTED);
}

static void a_full_queue_counts_what_a_key_holds_on_nodes_as_well(void **state)
{
    (void)state;
    for (int i = 0; i < TICKETS; i++)
        tickets[i].key = i <= ROOM ? 1 : 2;
    for (int i = 0; i < ROOM; i++)
        assert_int_equal(admit(i, false), ROUTER_GRANTED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(admit(ROOM + i, false), ROUTER_WAITING);
    /* One waits here and two there; but this one's key has all the slots. */
    assert_int_equal(admit(ROOM + 3, false), ROUTER_WAITING);
    assert_int_equal(tickets[ROOM].state, ROUTER_TICKET_REFUSED);
    assert_null(tickets[ROOM].node);
    assert_int_equal(admit(ROOM + 4, false), ROUTER_REFUSED);
}

static int asked;
static void note_asked(struct router_ticket *ticket)
{
    (void)ticket;
    asked++;
}

static void stop(void *arg)
{
    net_loop_stop(arg);
}

static void turn_loop(void)
{
    net_loop_post(loop, stop, loop);
    net_loop_run(loop);
}

/* A key that fills both slots, and others that come. */
static struct router_replica *flood(void)
{
    d.sched.preempts = true;
    asked = 0;
    for (int i = 0; i < TICKETS; i++) {
        tickets[i].on_preempt = note_asked;
        tickets[i].key = i < 4 ? 1 : (uint64_t)i;
    }
    for (int i = 0; i < SLOTS; i++)
        assert_int_equal(admit(i, false), ROUTER_GRANTED);
    return tickets[0].replica;
}

static void a_key_with_more_than_its_share_is_preempted_for_a_key_with_less(void **state)
{
    (void)state;
    struct router_replica *replica = flood();
    assert_int_equal(admit(4, false), ROUTER_GRANTED); /* beyond the slots */
    assert_int_equal(tickets[1].state,
                     ROUTER_TICKET_PREEMPTED); /* the newest: it has done the least */
    assert_int_equal(tickets[0].state, ROUTER_TICKET_RUNNING); /* with one it has its share */
    assert_int_equal(replica->preempting, 1);
    turn_loop();
    assert_int_equal(asked, 1);
    /* It waits for a slot, first of its key, and no room beyond the slots is for it. */
    router_release(&tickets[1], ROUTER_PREEMPTED, NULL);
    assert_int_equal(replica->preempting, 0);
    assert_int_equal(admit(2, false), ROUTER_WAITING);
    assert_int_equal(admit(1, true), ROUTER_WAITING);
    router_release(&tickets[0], ROUTER_ENDED, NULL);
    assert_int_equal(tickets[1].state, ROUTER_TICKET_GRANTED);
    assert_int_equal(tickets[2].state, ROUTER_TICKET_QUEUED);
    assert_int_equal(replica->inflight, SLOTS);
}

static void
nobody_is_preempted_for_a_key_that_has_its_share_or_while_slots_are_free(void **state)
{
    (void)state;
    struct router_replica *replica = flood();
    assert_int_equal(admit(3, false), ROUTER_GRANTED); /* its own: alone it gets all the room */
    assert_int_equal(replica->preempting, 0);
    router_release(&tickets[3], ROUTER_ENDED, NULL);
    router_release(&tickets[1], ROUTER_ENDED, NULL);
    assert_int_equal(admit(4, false), ROUTER_GRANTED); /* the free slot */
    tickets[5].key = tickets[4].key;
    assert_int_equal(admit(5, false), ROUTER_WAITING); /* it has its share */
    assert_int_equal(replica->preempting, 0);
}

static void
a_ticket_whose_client_has_a_token_is_preempted_before_one_whose_client_waits(void **state)
{
    (void)state;
    (void)flood();
    router_sched_token(&tickets[0]);
    assert_int_equal(admit(4, false), ROUTER_GRANTED);
    assert_int_equal(tickets[0].state, ROUTER_TICKET_PREEMPTED);
    assert_int_equal(tickets[1].state, ROUTER_TICKET_RUNNING);
}

static void who_is_asked_and_ends_first_is_forgotten(void **state)
{
    (void)state;
    struct router_replica *replica = flood();
    assert_int_equal(admit(4, false), ROUTER_GRANTED);
    assert_int_equal(tickets[1].state, ROUTER_TICKET_PREEMPTED);
    router_release(&tickets[1], ROUTER_ENDED, NULL);
    assert_int_equal(replica->preempting, 0);
    turn_loop();
    assert_int_equal(asked, 0);
}

static void
nobody_is_asked_twice_nor_for_a_prompt_that_takes_long_to_compute_again(void **state)
{
    (void)state;
    struct router_replica *replica = flood();
    replica->prefill_ms = 1;
    tickets[0].was_preempted = true;
    tickets[1].prompt_tokens = 2000;
    assert_int_equal(admit(4, false), ROUTER_GRANTED);
    assert_int_equal(replica->preempting, 0);
}

/* The key had all the room when it was alone: those beyond the slots leave, too. */
static void where_no_room_is_left_as_many_leave_as_are_too_many(void **state)
{
    (void)state;
    struct router_replica *replica = flood();
    assert_int_equal(admit(2, false), ROUTER_GRANTED);
    assert_int_equal(admit(3, false), ROUTER_GRANTED);
    assert_int_equal(admit(4, false), ROUTER_WAITING);
    assert_int_equal(replica->preempting, 3);
    router_release(&tickets[3], ROUTER_PREEMPTED, NULL);
    assert_int_equal(tickets[4].state, ROUTER_TICKET_GRANTED);
    assert_int_equal(replica->preempting, 2);
}

/* As flood, with names: who comes tells the node who leaves. */
static struct router_replica *named_flood(void)
{
    for (int i = 0; i < TICKETS; i++)
        (void)snprintf(tickets[i].name, sizeof(tickets[i].name), "ticket-%d", i);
    struct router_replica *replica = flood();
    assert_int_equal(admit(4, false), ROUTER_GRANTED);
    assert_string_equal(tickets[4].swap, "ticket-1");
    assert_int_equal(tickets[1].state, ROUTER_TICKET_SWAPPED);
    assert_int_equal(replica->swapped, 1);
    return replica;
}

static void a_swap_names_the_ticket_that_leaves_and_the_slots_of_both_count_once(void **state)
{
    (void)state;
    struct router_replica *replica = named_flood();
    router_swap_confirmed(&tickets[4], true);
    turn_loop();
    assert_int_equal(asked, 0); /* the node has told it */
    assert_true(tickets[1].was_preempted);
    assert_false(tickets[0].was_preempted);
    /* Two more in the same step: the one that leaves is not in their way. */
    assert_int_equal(admit(5, false), ROUTER_GRANTED);
    assert_int_equal(admit(6, false), ROUTER_GRANTED);
    assert_int_equal(admit(7, false), ROUTER_WAITING);
    router_release(&tickets[1], ROUTER_PREEMPTED, NULL);
    assert_int_equal(replica->swapped, 0);
    assert_int_equal(replica->inflight, ROOM);
    assert_int_equal(tickets[7].state, ROUTER_TICKET_QUEUED);
}

static void
a_node_that_does_not_confirm_is_sent_no_more_than_before_and_who_leaves_is_asked(void **state)
{
    (void)state;
    struct router_replica *replica = named_flood();
    router_swap_confirmed(&tickets[4], false);
    assert_int_equal(replica->swapped, 0);
    assert_int_equal(replica->preempting, 1);
    turn_loop();
    assert_int_equal(asked, 1);
    assert_int_equal(admit(5, false), ROUTER_GRANTED);
    assert_int_equal(admit(6, false), ROUTER_WAITING);
    router_release(&tickets[1], ROUTER_PREEMPTED, NULL);
    assert_int_equal(replica->preempting, 0);
}

static void who_is_named_and_ends_first_is_not_asked(void **state)
{
    (void)state;
    struct router_replica *replica = named_flood();
    router_release(&tickets[1], ROUTER_ENDED, NULL);
    router_swap_confirmed(&tickets[4], false);
    turn_loop();
    assert_int_equal(asked, 0);
    assert_int_equal(replica->swapped + replica->preempting, 0);
}

static void who_leaves_before_the_node_has_answered_has_the_other_asked(void **state)
{
    (void)state;
    struct router_replica *replica = named_flood();
    router_release(&tickets[4], ROUTER_BUSY, NULL);
    assert_int_equal(replica->swapped, 0);
    assert_string_equal(tickets[4].swap, "");
    turn_loop();
    assert_int_equal(asked, 1);
}

static void a_job_does_not_go_back_to_the_node_that_has_just_failed_it(void **state)
{
    (void)state;
    assert_int_equal(admit(0, false), ROUTER_GRANTED);
    router_release(&tickets[0], ROUTER_FAILED, NULL);
    assert_int_equal(admit(0, true), ROUTER_WAITING);
    assert_true(router_withdraw(&tickets[0]));
    /* Another one has nowhere else to go and may find out by itself. */
    assert_int_equal(admit(1, false), ROUTER_GRANTED);
    /* Later it is worth a try, and with a second node it never comes to that. */
    forgive(nodes[0]);
    assert_int_equal(admit(0, true), ROUTER_GRANTED);
    nodes[1] = join("node-two");
    router_release(&tickets[0], ROUTER_FAILED, NULL);
    forgive(nodes[0]);
    assert_int_equal(admit(0, true), ROUTER_GRANTED);
    assert_ptr_equal(tickets[0].node, nodes[1]);
}

static void a_batch_ticket_takes_no_slot_while_a_live_ticket_waits(void **state)
{
    (void)state;
    tickets[1].priority = ROUTER_BATCH;
    tickets[3].key = 2; /* no key overtakes itself */
    assert_int_equal(admit(0, false), ROUTER_GRANTED);
    router_release(&tickets[0], ROUTER_FAILED, NULL);
    assert_int_equal(admit(0, true), ROUTER_WAITING); /* its node is barred for it alone */
    assert_int_equal(admit(1, false), ROUTER_WAITING);
    assert_int_equal(admit(3, false), ROUTER_GRANTED);
    router_release(&tickets[3], ROUTER_ENDED, NULL);
    assert_int_equal(tickets[1].state, ROUTER_TICKET_QUEUED);
    assert_true(router_withdraw(&tickets[0]));
    router_dispatch_watch(&d, lr_clock_ms(&time_.clock));
    assert_int_equal(tickets[1].state, ROUTER_TICKET_GRANTED);
}

static void a_full_queue_refuses_batch_tickets_before_live_ones(void **state)
{
    (void)state;
    for (int i = 0; i < ROOM; i++)
        assert_int_equal(admit(i, false), ROUTER_GRANTED);
    for (int i = ROOM; i < ROOM + 3; i++) {
        tickets[i].priority = ROUTER_BATCH;
        assert_int_equal(admit(i, false), ROUTER_WAITING);
    }
    tickets[ROOM + 3].priority = ROUTER_BATCH;
    assert_int_equal(admit(ROOM + 3, false), ROUTER_REFUSED);
    assert_int_equal(admit(ROOM + 4, false), ROUTER_WAITING);
    assert_int_equal(tickets[ROOM + 2].state, ROUTER_TICKET_REFUSED);
    assert_int_equal(d.sched.waiting, 3);
    router_queue_remove(&model->schedule.queues[ROUTER_BATCH], &tickets[ROOM].waiter);
    router_queue_remove(&model->schedule.queues[ROUTER_BATCH], &tickets[ROOM + 1].waiter);
}

static void a_node_is_avoided_longer_each_time_in_a_row(void **state)
{
    static const uint64_t expected[] = {2000, 4000, 8000, 16000, 16000};
    (void)state;
    for (int i = 0; i < 5; i++) {
        assert_int_equal(admit(i, false), ROUTER_GRANTED);
        router_release(&tickets[i], ROUTER_FAILED, NULL);
        assert_int_equal(avoided_ms(nodes[0]), expected[i]);
        forgive(nodes[0]);
    }
    assert_int_equal(admit(5, false), ROUTER_GRANTED);
    router_sched_token(&tickets[5]);
    router_release(&tickets[5], ROUTER_FAILED, NULL);
    assert_int_equal(avoided_ms(nodes[0]), 2000);
}

static void what_fails_together_counts_once(void **state)
{
    (void)state;
    for (int i = 0; i < ROOM; i++)
        assert_int_equal(admit(i, false), ROUTER_GRANTED);
    for (int i = 0; i < ROOM; i++)
        router_release(&tickets[i], ROUTER_FAILED, NULL);
    assert_int_equal(avoided_ms(nodes[0]), 2000);
    assert_int_equal(nodes[0]->health.failures, ROOM);
}

static void a_doubted_node_gets_one_request_until_that_brings_a_token(void **state)
{
    (void)state;
    nodes[1] = join("node-two");
    assert_int_equal(admit(0, false), ROUTER_GRANTED);
    struct router_node *bad = tickets[0].node;
    router_release(&tickets[0], ROUTER_FAILED, NULL);
    forgive(bad);
    bool was_tried = false;
    for (int i = 1; i <= ROOM; i++) {
        assert_int_equal(admit(i, false), ROUTER_GRANTED);
        assert_false(was_tried && tickets[i].node == bad);
        was_tried = was_tried || tickets[i].node == bad;
    }
    assert_true(was_tried);
}

static void a_busy_node_is_full_not_ill(void **state)
{
    (void)state;
    assert_int_equal(admit(0, false), ROUTER_GRANTED);
    router_release(&tickets[0], ROUTER_BUSY, NULL);
    assert_int_equal(avoided_ms(nodes[0]), 0);
    assert_int_equal(admit(0, true), ROUTER_WAITING);
    assert_int_equal(nodes[0]->health.failures, 0);
}

static void without_a_node_a_new_one_is_refused_and_one_that_ran_waits(void **state)
{
    struct lr_error err;
    (void)state;
    router_node_move(nodes[0], ROUTER_NODE_OFFLINE);
    assert_int_equal(router_admit(&tickets[0], false, &err), ROUTER_REFUSED);
    assert_int_equal(err.code, LR_UNAVAILABLE);
    assert_non_null(strstr(err.text, "node-one: offline"));
    assert_int_equal(admit(0, true), ROUTER_WAITING);
    assert_true(tickets[0].nobody_since_ms != 0);
}

static void what_was_measured_is_averaged_and_nothing_is_not_zero(void **state)
{
    struct router_measure m = {
        .load_ms = 100, .prefill_ms = 2, .prefill_tokens = 50, .step_ms = 10};
    (void)state;
    assert_int_equal(admit(0, false), ROUTER_GRANTED);
    const struct router_replica *replica = tickets[0].replica;
    router_release(&tickets[0], ROUTER_ENDED, &m);
    m = (struct router_measure){.step_ms = 20};
    assert_int_equal(admit(1, false), ROUTER_GRANTED);
    router_release(&tickets[1], ROUTER_ENDED, &m);
    assert_true(replica->load_ms == 100 && replica->prefill_ms == 2 && replica->step_ms == 12);
}

static void the_time_of_a_short_prompt_says_little_of_a_long_one(void **state)
{
    const struct router_measure long_one = {.prefill_ms = 0.02, .prefill_tokens = 1000},
                                short_one = {.prefill_ms = 1, .prefill_tokens = 5};
    (void)state;
    assert_int_equal(admit(0, false), ROUTER_GRANTED);
    const struct router_replica *replica = tickets[0].replica;
    router_release(&tickets[0], ROUTER_ENDED, &short_one);
    assert_true(replica->prefill_ms == 1);
    assert_int_equal(admit(1, false), ROUTER_GRANTED);
    router_release(&tickets[1], ROUTER_ENDED, &long_one);
    assert_true(replica->prefill_ms < 0.05);
    assert_int_equal(admit(2, false), ROUTER_GRANTED);
    router_release(&tickets[2], ROUTER_ENDED, &short_one);
    assert_true(replica->prefill_ms < 0.05);
}

/* The model is deleted while tickets[0] waits to go on; its owner's reference keeps it. */
static void delete_while_one_waits_to_go_on(void)
{
    router_node_move(nodes[0], ROUTER_NODE_OFFLINE);
    assert_int_equal(admit(0, true), ROUTER_WAITING);
    (void)router_model_ref(model);
    router_sched_delete(&d.sched, &model->schedule);
    router_registry_remove(&registry, model);
    assert_int_equal(tickets[0].state, ROUTER_TICKET_QUEUED);
}

static void let_go_of_deleted(void)
{
    turn_loop();
    router_release(&tickets[0], ROUTER_ENDED, NULL);
    assert_null(d.sched.busy);
    assert_int_equal(d.sched.waiting, 0);
    /* setup's tickets still point at it: the teardown takes them out of its queue. */
    struct router_new_model demo = {.id = LR_STR_LIT("demo"), .source = LR_STR_LIT("local")};
    struct lr_error err;
    router_model_unref(model);
    assert_int_equal(router_registry_add(&registry, &demo, &model, &err), LR_OK);
}

static void a_request_of_a_deleted_model_goes_on_when_its_node_is_back(void **state)
{
    (void)state;
    delete_while_one_waits_to_go_on();
    router_dispatch_watch(&d, lr_clock_ms(&time_.clock));
    assert_int_equal(tickets[0].state, ROUTER_TICKET_QUEUED);
    router_node_move(nodes[0], ROUTER_NODE_ONLINE);
    router_dispatch_watch(&d, lr_clock_ms(&time_.clock));
    assert_int_equal(tickets[0].state, ROUTER_TICKET_GRANTED);
    assert_ptr_equal(tickets[0].node, nodes[0]);
    let_go_of_deleted();
}

static void a_request_of_a_deleted_model_is_refused_when_no_node_comes_back(void **state)
{
    (void)state;
    delete_while_one_waits_to_go_on();
    router_dispatch_watch(&d, lr_clock_ms(&time_.clock) + 11000);
    assert_int_equal(tickets[0].state, ROUTER_TICKET_REFUSED);
    assert_int_equal(tickets[0].refusal.code, LR_UNAVAILABLE);
    assert_non_null(
        strstr(tickets[0].refusal.text, "deleted model \"demo\": node-one: offline"));
    let_go_of_deleted();
}

static void queue_timeout_reaches_a_request_of_a_deleted_model(void **state)
{
    (void)state;
    d.sched.queue_timeout_ms = 2000;
    delete_while_one_waits_to_go_on();
    router_dispatch_watch(&d, lr_clock_ms(&time_.clock) + 3000);
    assert_int_equal(tickets[0].state, ROUTER_TICKET_REFUSED);
    assert_int_equal(tickets[0].refusal.code, LR_UNAVAILABLE);
    assert_non_null(strstr(tickets[0].refusal.text, "queue-timeout"));
    let_go_of_deleted();
}

static void an_answer_never_goes_on_with_another_model_of_the_same_name(void **state)
{
    struct router_new_model other = {
        .id = LR_STR_LIT("Demo"), .source = LR_STR_LIT("local"), .path = LR_STR_LIT("other")};
    struct router_model *added;
    struct lr_error err;
    (void)state;
    delete_while_one_waits_to_go_on();
    assert_int_equal(router_registry_add(&registry, &other, &added, &err), LR_OK);
    router_node_move(nodes[0], ROUTER_NODE_ONLINE);
    router_dispatch_watch(&d, lr_clock_ms(&time_.clock));
    assert_int_equal(tickets[0].state, ROUTER_TICKET_QUEUED);
    router_dispatch_watch(&d, lr_clock_ms(&time_.clock) + 11000);
    assert_int_equal(tickets[0].refusal.code, LR_UNAVAILABLE);
    assert_non_null(strstr(tickets[0].refusal.text, "another model was registered"));
    router_registry_remove(&registry, added);
    let_go_of_deleted();
}

static struct router_replica *has(struct router_node *node, const char *weights)
{
    struct router_replica *replica = router_node_replica(node, LR_STR_LIT("demo"));
    LR_COPY(replica->weights, lr_str_z(weights));
    return replica;
}

static void an_answer_goes_on_where_the_weights_are_that_began_it(void **state)
{
    (void)state;
    nodes[1] = join("node-two");
    (void)has(nodes[0], "aaaa");
    (void)has(nodes[1], "bbbb");
    for (int i = 0; i < 4; i++) { /* whichever has less to do */
        LR_COPY(tickets[i].weights, LR_STR_LIT("bbbb"));
        assert_int_equal(admit(i, true), ROUTER_GRANTED);
        assert_ptr_equal(tickets[i].node, nodes[1]);
    }
    assert_int_equal(admit(4, true), ROUTER_GRANTED); /* begins anew: any will do */
    assert_ptr_equal(tickets[4].node, nodes[0]);
}

static void an_answer_whose_weights_are_away_waits_and_keeps_nobody_waiting(void **state)
{
    uint64_t now = lr_clock_ms(&time_.clock);
    (void)state;
    nodes[1] = join("node-two");
    (void)has(nodes[0], "aaaa");
    (void)has(nodes[1], "bbbb");
    router_node_move(nodes[1], ROUTER_NODE_OFFLINE);
    LR_COPY(tickets[0].weights, LR_STR_LIT("bbbb"));
    assert_int_equal(admit(0, true), ROUTER_WAITING);
    (void)admit(1, false); /* of the same key */
    router_dispatch_watch(&d, now + 5000);
    assert_int_equal(tickets[0].state, ROUTER_TICKET_QUEUED);
    assert_true(router_ticket_holds(tickets[1].state));
    router_node_move(nodes[1], ROUTER_NODE_ONLINE);
    router_dispatch_watch(&d, now + 9000);
    assert_int_equal(tickets[0].state, ROUTER_TICKET_GRANTED);
    assert_ptr_equal(tickets[0].node, nodes[1]);
}

static void an_answer_whose_weights_no_node_has_any_more_is_refused_and_told_why(void **state)
{
    (void)state;
    (void)has(nodes[0], "aaaa");
    LR_COPY(tickets[0].weights, LR_STR_LIT("bbbb"));
    assert_int_equal(admit(0, true), ROUTER_WAITING);
    router_dispatch_watch(&d, lr_clock_ms(&time_.clock) + 250);
    assert_int_equal(tickets[0].state, ROUTER_TICKET_REFUSED);
    assert_int_equal(tickets[0].refusal.code, LR_UNAVAILABLE);
    assert_non_null(strstr(tickets[0].refusal.text, "were replaced while it was made"));
}

static void a_node_that_says_nothing_of_its_weights_is_taken_as_before(void **state)
{
    (void)state;
    LR_COPY(tickets[0].weights, LR_STR_LIT("bbbb"));
    assert_int_equal(admit(0, true), ROUTER_GRANTED);
}

static void a_new_request_of_a_deleted_model_is_told_so(void **state)
{
    struct lr_error err;
    (void)state;
    (void)router_model_ref(model);
    router_registry_remove(&registry, model);
    assert_int_equal(router_admit(&tickets[0], false, &err), ROUTER_REFUSED);
    assert_int_equal(err.code, LR_NOT_FOUND);
    let_go_of_deleted();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(slots_and_two_beyond_then_the_queue_then_a_refusal),
        TEST(nobody_overtakes_those_who_wait),
        TEST(the_room_beyond_the_slots_is_for_keys_that_hold_less),
        TEST(who_waits_with_less_than_its_share_goes_before_a_turn_that_has_more),
        TEST(a_full_queue_counts_what_a_key_holds_on_nodes_as_well),
        TEST(a_key_with_more_than_its_share_is_preempted_for_a_key_with_less),
        TEST(nobody_is_preempted_for_a_key_that_has_its_share_or_while_slots_are_free),
        TEST(a_ticket_whose_client_has_a_token_is_preempted_before_one_whose_client_waits),
        TEST(who_is_asked_and_ends_first_is_forgotten),
        TEST(nobody_is_asked_twice_nor_for_a_prompt_that_takes_long_to_compute_again),
        TEST(where_no_room_is_left_as_many_leave_as_are_too_many),
        TEST(a_swap_names_the_ticket_that_leaves_and_the_slots_of_both_count_once),
        TEST(a_node_that_does_not_confirm_is_sent_no_more_than_before_and_who_leaves_is_asked),
        TEST(who_is_named_and_ends_first_is_not_asked),
        TEST(who_leaves_before_the_node_has_answered_has_the_other_asked),
        TEST(a_job_does_not_go_back_to_the_node_that_has_just_failed_it),
        TEST(a_batch_ticket_takes_no_slot_while_a_live_ticket_waits),
        TEST(a_full_queue_refuses_batch_tickets_before_live_ones),
        TEST(a_node_is_avoided_longer_each_time_in_a_row),
        TEST(what_fails_together_counts_once),
        TEST(a_doubted_node_gets_one_request_until_that_brings_a_token),
        TEST(an_answer_goes_on_where_the_weights_are_that_began_it),
        TEST(an_answer_whose_weights_are_away_waits_and_keeps_nobody_waiting),
        TEST(an_answer_whose_weights_no_node_has_any_more_is_refused_and_told_why),
        TEST(a_node_that_says_nothing_of_its_weights_is_taken_as_before),
        TEST(a_busy_node_is_full_not_ill),
        TEST(without_a_node_a_new_one_is_refused_and_one_that_ran_waits),
        TEST(a_request_of_a_deleted_model_goes_on_when_its_node_is_back),
        TEST(a_request_of_a_deleted_model_is_refused_when_no_node_comes_back),
        TEST(queue_timeout_reaches_a_request_of_a_deleted_model),
        TEST(an_answer_never_goes_on_with_another_model_of_the_same_name),
        TEST(a_new_request_of_a_deleted_model_is_told_so),
        TEST(what_was_measured_is_averaged_and_nothing_is_not_zero),
        TEST(the_time_of_a_short_prompt_says_little_of_a_long_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
