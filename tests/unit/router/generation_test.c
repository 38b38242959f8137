/* A generation walks through its states: the link is this file's, time moves when the test says
 * so, and no process runs.  Scheduler and turn are the real ones. */
#include "tests/unit/router/support.h"

#include "base/machine.h"
#include "net/server_internal.h"
#include "router/relay/call.h"

#define IDLE    ROUTER_GENERATION_IDLE
#define QUEUED  ROUTER_GENERATION_QUEUED
#define SENT    ROUTER_GENERATION_SENT
#define RUNNING ROUTER_GENERATION_RUNNING
#define STOPPED ROUTER_GENERATION_STOPPED
#define OVER    ROUTER_GENERATION_OVER
#define PAUSED  ROUTER_GENERATION_PAUSED
#define ALL     (ROUTER_GENERATION_OVER + 1)

enum { SLOTS = 1, ROOM = SLOTS + ROUTER_SLOTS_BEYOND };

/* ---- the injected link: one stream ---- */

static char link_itself; /* what stream->link points to */
static struct router_stream *stream;
static struct wire_generate asked; /* the last SUBMIT */
static int submits, cancels;
static bool link_fails;

lr_code router_link_submit(struct router_links *links, const struct router_node *node,
                           struct wire_generate *ask, struct router_stream *s,
                           struct lr_error *err)
{
    (void)node;
    submits++;
    asked = *ask;
    if (link_fails)
        return lr_fail(err, LR_UNAVAILABLE, "the node reads too slowly");
    s->link = (struct router_link *)(void *)&link_itself;
    s->sent_ns = lr_clock_ns(links->clock);
    stream = s;
    return LR_OK;
}

void router_link_cancel(struct router_stream *s)
{
    cancels += s->link != NULL;
}

void router_link_leave(struct router_stream *s)
{
    router_link_cancel(s);
    s->link = NULL;
}

void router_links_init(struct router_links *links)
{
    (void)links;
}

void router_links_watch(struct router_links *links, uint64_t now_ms)
{
    (void)links, (void)now_ms;
}

void router_links_free(struct router_links *links)
{
    (void)links;
}

/* ---- a call with one generation, and a fleet ---- */

static struct lr_fake_clock time_;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct router_registry registry;
static struct router_nodes nodes;
static struct router_metrics metrics;
static struct router_dispatch dispatch;
static struct router_relay relay;
static struct net_loop *loop;
static struct router_model *model;
static struct router_access access_;
static struct lr_arena arena;
static struct router_call call;
static struct router_generation *g;
static struct router_ticket others[ROOM];
static struct lr_error failure; /* that the client was told */
static struct lr_buf answer;

static lr_code write_piece(void *owner, struct lr_str bytes)
{
    (void)owner;
    lr_buf_add_str(&answer, bytes);
    return LR_OK;
}

static void finish(void *owner, lr_code status, struct lr_str bytes)
{
    (void)owner, (void)status;
    lr_buf_add_str(&answer, bytes);
}

static void fail_turn(void *owner, const struct lr_error *err, struct lr_str bytes)
{
    (void)owner, (void)bytes;
    if (err != NULL)
        failure = *err;
}

static void join(const char *id)
{
    struct wire_fleet_model m = {
        .id = LR_STR_LIT("demo"), .can_run = true, .is_loaded = true, .slots = SLOTS};
    struct wire_join told = {.node_id = lr_str_z(id),
                             .name = lr_str_z(id),
                             .state = {.models = &m, .model_count = 1}};
    struct router_node *node;
    struct lr_error err;
    assert_int_equal(router_nodes_join(&nodes, &told, "http://127.0.0.1:1", 1, 1, &node, &err),
                     LR_OK);
}

static void ignore(struct router_ticket *ticket, const struct lr_error *err)
{
    (void)ticket, (void)err;
}

static void prepare(void)
{
    static const char body[] =
        "{\"model\":\"demo\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}],"
        "\"stream\":true,\"stream_options\":{\"include_usage\":true},\"stop\":\"END\"}";
    static const struct chat_generator generator = {router_generation_start,
                                                    router_generation_stop};
    static const struct chat_sink sink = {
        .write = write_piece, .finish = finish, .fail = fail_turn};
    struct chat_model chat = {0};
    struct lr_str name;
    chat_turn_init(&call.turn, &chat_openai_chat, &arena, &generator, &sink, &call);
    assert_true(chat_turn_read(&call.turn, lr_str_z(body), &name) &&
                chat_turn_parse(&call.turn) &&
                chat_turn_prepare(&call.turn, &chat, LR_STR_LIT("demo")));
}

static int setup(void **state)
{
    static struct router_generation generation;
    struct router_new_model demo = {.id = LR_STR_LIT("demo"), .source = LR_STR_LIT("local")};
    struct lr_error err;
    (void)state;
    memset(others, 0, sizeof(others));
    lr_fake_clock_init(&time_, 1000000, 0);
    router_registry_init(&registry);
    router_nodes_init(&nodes);
    dispatch = (struct router_dispatch){.lock = &lock,
                                        .clock = &time_.clock,
                                        .nodes = &nodes,
                                        .registry = &registry,
                                        .sched = {.queue_limit = 3, .preempts = true}};
    router_dispatch_init(&dispatch);
    if (router_registry_add(&registry, &demo, &model, &err) != LR_OK ||
        net_loop_create(&loop, &err) != LR_OK)
        return -1;
    relay = (struct router_relay){.dispatch = &dispatch,
                                  .metrics = &metrics,
                                  .links = {.clock = &time_.clock, .net = loop}};
    for (int i = 0; i < ROOM; i++)
        others[i] = (struct router_ticket){.dispatch = &dispatch,
                                           .model = model,
                                           .loop = loop,
                                           .on_ready = ignore,
                                           .key = 1,
                                           .priority = ROUTER_LIVE};
    lr_arena_init(&arena, 16 << 20);
    lr_buf_init(&answer, 1 << 20);
    access_ = (struct router_access){0};
    g = &generation;
    *g = (struct router_generation){.call = &call,
                                    .ticket = {.dispatch = &dispatch,
                                               .model = model,
                                               .loop = loop,
                                               .name = "a-request.0",
                                               .key = 1}};
    lr_buf_init(&g->generated, 1 << 20);
    call = (struct router_call){.relay = &relay,
                                .access = &access_,
                                .model = model,
                                .generations = g,
                                .generation_count = 1,
                                .begun_ns = lr_clock_ns(&time_.clock),
                                .holds = 1}; /* this file's */
    submits = cancels = 0;
    link_fails = false;
    stream = NULL;
    failure = (struct lr_error){0};
    join("node-one");
    prepare();
    return 0;
}

static void stop_loop(void *arg)
{
    net_loop_stop(arg);
}

static void turn_loop(void)
{
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop);
}

static int teardown(void **state)
{
    (void)state;
    lr_machine_tolerate(false);
    chat_turn_gone(&call.turn);
    turn_loop();
    for (int i = 0; i < ROOM; i++)
        router_queue_remove(&model->schedule.queues[ROUTER_LIVE], &others[i].waiter);
    router_generation_free(g);
    net_loop_destroy(loop);
    lr_arena_free(&arena);
    lr_buf_free(&answer);
    router_registry_free(&registry);
    router_nodes_free(&nodes);
    return 0;
}

/* ---- what happens ---- */

static void start(void)
{
    (void)chat_turn_start(&call.turn);
}

static void fill_slots(void)
{
    struct lr_error err;
    for (int i = 0; i < ROOM; i++)
        assert_int_equal(router_admit(&others[i], false, &err), ROUTER_GRANTED);
}

static void free_slot(void)
{
    router_release(&others[0], ROUTER_ENDED, NULL);
}

static void client_leaves(void)
{
    chat_turn_gone(&call.turn);
}

static void say(struct lr_buf *buf)
{
    struct lr_str bytes = lr_buf_str(buf);
    struct wire_frame frame;
    bool has = false;
    assert_int_equal(wire_frame_next(&bytes, &frame, &has, NULL), LR_OK);
    if (wire_event_is_last(frame.type))
        stream->link = NULL; /* as the link does */
    stream->on_event(stream->arg, &frame, false);
    lr_buf_free(buf);
}

static struct lr_buf frame(void)
{
    struct lr_buf buf;
    lr_buf_init(&buf, 1 << 16);
    return buf;
}

static void node_accepts(void)
{
    struct lr_buf buf = frame();
    wire_accepted_encode(&buf, &(struct wire_accepted){.engine = LR_STR_LIT("echo")});
    say(&buf);
}

static void node_gives(const char *text)
{
    struct lr_buf buf = frame();
    lr_fake_clock_advance_ms(&time_, 10);
    wire_token_encode(&buf, &(struct wire_token){.id = 7, .bytes = lr_str_z(text)});
    say(&buf);
}

static void node_is_done(enum lr_finish reason)
{
    struct lr_buf buf = frame();
    wire_done_encode(&buf, &(struct wire_done){.reason = reason,
                                               .prompt_tokens = 5,
                                               .completion_tokens = 9,
                                               .cached_tokens = 2});
    say(&buf);
}

static void node_errs(enum wire_type type, lr_code code, bool retryable)
{
    struct lr_buf buf = frame();
    struct wire_error m = {.error = {.code = code, .text = "it is ill"},
                           .retryable = retryable};
    wire_error_encode(&buf, type, &m);
    say(&buf);
}

static void worker_dies(bool has_strike, enum wire_entry entry, uint32_t cohort)
{
    struct lr_buf buf = frame();
    struct wire_lost m = {.has_strike = has_strike,
                          .entry = entry,
                          .cohort = cohort,
                          .error = {.code = LR_INTERNAL, .text = "killed by SIGSEGV"}};
    wire_lost_encode(&buf, &m);
    say(&buf);
}

static void link_breaks(void)
{
    struct lr_error err = {.code = LR_UPSTREAM, .text = "reset"};
    stream->link = NULL;
    stream->on_lost(stream->arg, &err);
}

static bool holds_call(enum router_generation_state state)
{
    return state != IDLE && state != PAUSED && state != OVER;
}

static void expect(enum router_generation_state state)
{
    assert_int_equal(g->state, state);
    assert_int_equal(call.holds, holds_call(state) ? 2 : 1);
    assert_int_equal(g->attempt.stream.link != NULL,
                     state == SENT || state == RUNNING || (state == STOPPED && cancels != 0));
}

static void pause_for_client(void)
{
    static struct net_request unread = {.unread = 1};
    router_generation_pause(g);
    call.req = &unread;
    node_is_done(LR_FINISH_CANCELLED);
    call.req = NULL;
}

/* A generation in this state, by events. */
static void bring_to(enum router_generation_state state)
{
    if (state == QUEUED || state == STOPPED)
        fill_slots();
    if (state != IDLE)
        start();
    if (state == STOPPED) { /* a grant is on its way */
        free_slot();
        client_leaves();
    }
    if (state == RUNNING || state == PAUSED)
        node_accepts();
    if (state == PAUSED)
        pause_for_client();
    if (state == OVER) {
        node_accepts();
        node_is_done(LR_FINISH_STOP);
    }
    expect(state);
}

/* ---- the moves of the picture ---- */

static void a_free_slot_is_used_at_once_and_the_answer_completes(void **state)
{
    (void)state;
    bring_to(SENT);
    assert_int_equal(submits, 1);
    node_accepts();
    expect(RUNNING);
    node_gives("Hi");
    expect(RUNNING);
    assert_contains(lr_buf_z(&answer), "\"content\":\"Hi\"");
    node_is_done(LR_FINISH_STOP);
    expect(OVER);
    assert_contains(lr_buf_z(&answer), "[DONE]");
    assert_int_equal(dispatch.sched.held, 0);
    assert_int_equal(g->usage.completion_tokens, 9);
}

static void without_a_slot_it_waits_and_begins_when_the_owner_hears_of_the_grant(void **state)
{
    (void)state;
    bring_to(QUEUED);
    free_slot();
    expect(QUEUED);
    assert_int_equal(submits, 0);
    turn_loop();
    expect(SENT);
    assert_int_equal(submits, 1);
}

static void a_refusal_ends_it_before_it_began(void **state)
{
    (void)state;
    router_node_move(router_nodes_find(&nodes, LR_STR_LIT("node-one")), ROUTER_NODE_OFFLINE);
    start();
    expect(OVER);
    assert_int_equal(failure.code, LR_UNAVAILABLE);
}

static void a_ticket_that_is_refused_in_the_queue_ends_it(void **state)
{
    (void)state;
    bring_to(QUEUED);
    router_sched_delete(&dispatch.sched, &model->schedule);
    expect(QUEUED);
    turn_loop();
    expect(OVER);
    assert_int_equal(failure.code, LR_NOT_FOUND);
}

static void a_client_that_leaves_the_queue_leaves_nothing_behind(void **state)
{
    (void)state;
    bring_to(QUEUED);
    client_leaves();
    expect(OVER);
    assert_int_equal(dispatch.sched.waiting, 0);
}

static void a_grant_that_comes_after_the_client_left_is_given_back(void **state)
{
    (void)state;
    bring_to(STOPPED);
    assert_int_equal(dispatch.sched.held, ROOM);
    turn_loop();
    expect(OVER);
    assert_int_equal(dispatch.sched.held, ROOM - 1);
    assert_int_equal(submits, 0);
}

/* The node may have computed the prompt and some tokens already. */
static void
a_client_that_leaves_before_the_node_has_accepted_pays_what_the_node_made(void **state)
{
    (void)state;
    bring_to(SENT);
    client_leaves();
    assert_int_equal(cancels, 1);
    expect(STOPPED);
    assert_int_equal(dispatch.sched.held, 1);
    node_accepts();
    expect(STOPPED);
    node_is_done(LR_FINISH_CANCELLED);
    expect(OVER);
    assert_int_equal(g->usage.completion_tokens, 9);
    assert_int_equal(dispatch.sched.held, 0);
}

static void a_client_that_leaves_before_the_link_is_open_waits_for_nothing(void **state)
{
    (void)state;
    bring_to(SENT);
    stream->sent_ns = 0;
    client_leaves();
    expect(OVER);
    assert_int_equal(dispatch.sched.held, 0);
}

/* The second node has the request in its queue, and has computed nothing. */
static void the_usage_of_an_earlier_attempt_outlives_a_node_that_had_not_begun(void **state)
{
    struct lr_buf buf;

    (void)state;
    bring_to(SENT);
    g->usage.prompt_tokens = 1000;
    client_leaves();
    expect(STOPPED);
    buf = frame();
    wire_done_encode(&buf, &(struct wire_done){.reason = LR_FINISH_CANCELLED});
    say(&buf);
    expect(OVER);
    assert_int_equal(g->usage.prompt_tokens, 1000);
}

static void after_the_client_left_the_node_still_tells_the_usage(void **state)
{
    (void)state;
    bring_to(RUNNING);
    client_leaves();
    assert_int_equal(cancels, 1);
    expect(STOPPED);
    node_gives("late");
    expect(STOPPED);
    node_is_done(LR_FINISH_CANCELLED);
    expect(OVER);
    assert_int_equal(g->usage.completion_tokens, 9);
    assert_int_equal(dispatch.sched.held, 0);
}

static void a_node_that_never_tells_the_usage_is_left_after_five_seconds(void **state)
{
    (void)state;
    bring_to(RUNNING);
    client_leaves();
    lr_fake_clock_advance_ms(&time_, ROUTER_SILENCE_MS - 1);
    router_generation_watch(g, lr_clock_ns(&time_.clock));
    expect(STOPPED);
    lr_fake_clock_advance_ms(&time_, 1);
    router_generation_watch(g, lr_clock_ns(&time_.clock));
    expect(OVER);
}

static void a_link_that_breaks_after_the_client_left_ends_it(void **state)
{
    (void)state;
    bring_to(RUNNING);
    client_leaves();
    link_breaks();
    expect(OVER);
    assert_int_equal(submits, 1);
}

/* ---- a stop string ---- */

static void an_answer_that_a_stop_string_ends_tells_the_cached_tokens_of_the_node(void **state)
{
    (void)state;
    bring_to(RUNNING);
    node_gives("Hi END");
    expect(STOPPED);
    assert_contains(lr_buf_z(&answer), "\"content\":\"Hi \"");
    assert_null(strstr(lr_buf_z(&answer), "[DONE]"));
    node_is_done(LR_FINISH_CANCELLED);
    expect(OVER);
    assert_contains(lr_buf_z(&answer), "\"finish_reason\":\"stop\"");
    assert_contains(lr_buf_z(&answer), "\"completion_tokens\":1,");
    assert_contains(lr_buf_z(&answer), "\"cached_tokens\":2}");
    assert_contains(lr_buf_z(&answer), "[DONE]");
}

static void a_node_that_does_not_tell_the_usage_delays_a_complete_answer_briefly(void **state)
{
    (void)state;
    bring_to(RUNNING);
    node_gives("Hi END");
    lr_fake_clock_advance_ms(&time_, 1000);
    router_generation_watch(g, lr_clock_ns(&time_.clock));
    expect(STOPPED);
    assert_contains(lr_buf_z(&answer), "[DONE]");
    node_is_done(LR_FINISH_CANCELLED);
    expect(OVER);
    assert_int_equal(g->usage.cached_tokens, 2);
}

static void a_link_that_breaks_after_a_stop_string_ends_the_answer(void **state)
{
    (void)state;
    bring_to(RUNNING);
    node_gives("Hi END");
    link_breaks();
    expect(OVER);
    assert_contains(lr_buf_z(&answer), "[DONE]");
    assert_int_equal(submits, 1);
}

/* ---- the next attempt ---- */

static void what_an_attempt_measured_ends_with_it_and_the_tokens_stay(void **state)
{
    (void)state;
    join("node-two");
    bring_to(RUNNING);
    const struct router_node *first = g->ticket.node;
    node_gives("Hi");
    node_gives(" there");
    assert_int_equal(g->attempt.tokens, 2);
    node_errs(WIRE_ERROR, LR_INTERNAL, true);
    expect(SENT);
    assert_ptr_not_equal(g->ticket.node, first);
    assert_int_equal(submits, 2);
    assert_int_equal(asked.generated_count, 2);
    assert_int_equal(g->attempt.tokens_before, 2);
    assert_int_equal(g->attempt.tokens, 0);
    assert_int_equal(g->attempt.first_ns, 0);
    assert_int_equal(g->failures, 1);
    node_accepts();
    node_gives("!");
    assert_int_equal(g->failures, 0);
}

static void a_silent_node_and_a_broken_link_lead_to_another_node(void **state)
{
    (void)state;
    join("node-two");
    bring_to(SENT);
    lr_fake_clock_advance_ms(&time_, ROUTER_SILENCE_MS);
    router_generation_watch(g, lr_clock_ns(&time_.clock));
    expect(SENT);
    node_accepts();
    join("node-three");
    link_breaks();
    expect(SENT);
    assert_int_equal(submits, 3);
    assert_int_equal(g->failures, 2);
}

static void where_no_other_node_has_room_the_next_attempt_waits_in_the_queue(void **state)
{
    (void)state;
    bring_to(RUNNING);
    node_gives("Hi");
    node_errs(WIRE_ERROR, LR_INTERNAL, true); /* the only node is avoided for a while */
    expect(QUEUED);
    assert_int_equal(g->attempt.tokens, 0); /* what comes next is not measured by it */
    lr_fake_clock_advance_ms(&time_, 3000);
    (void)pthread_mutex_lock(&lock);
    router_pump_all(&dispatch);
    (void)pthread_mutex_unlock(&lock);
    turn_loop();
    expect(SENT);
    assert_int_equal(asked.generated_count, 1);
}

static void a_preempted_generation_leaves_with_its_last_event_and_comes_again(void **state)
{
    (void)state;
    bring_to(RUNNING);
    g->ticket.was_preempted = true;
    g->ticket.on_preempt(&g->ticket);
    expect(RUNNING); /* what the node makes until then is not lost */
    assert_int_equal(cancels, 1);
    cancels = 0;
    node_gives("Hi");
    node_is_done(LR_FINISH_CANCELLED);
    expect(SENT);
    assert_int_equal(asked.generated_count, 1);
    g->ticket.on_preempt(&g->ticket); /* not accepted yet: it leaves at once */
    expect(SENT);
    assert_int_equal(submits, 3);
    assert_int_equal(g->failures, 0);
}

static void a_worker_that_dies_costs_no_attempt_and_two_strikes_are_the_end(void **state)
{
    (void)state;
    bring_to(RUNNING);
    node_gives("Hi");
    worker_dies(false, WIRE_ENTRY_RESUMED, 0);
    expect(SENT); /* the only node, which is well */
    assert_int_equal(asked.entry, WIRE_ENTRY_RESUMED);
    assert_int_equal(g->failures, 0);
    node_accepts();
    worker_dies(true, WIRE_ENTRY_SUSPECT, 0);
    expect(SENT);
    assert_int_equal(asked.entry, WIRE_ENTRY_SUSPECT);
    node_accepts();
    worker_dies(true, WIRE_ENTRY_SUSPECT, 0);
    expect(OVER);
    assert_int_equal(submits, 3);
    assert_int_equal(dispatch.sched.held, 0);
    assert_int_not_equal(failure.code, LR_OK);
}

static void a_cohort_is_tried_on_its_node_until_it_has_come_through_its_probation(void **state)
{
    (void)state;
    join("node-two");
    bring_to(RUNNING);
    const struct router_node *first = g->ticket.node;
    worker_dies(false, WIRE_ENTRY_COHORT, WIRE_COHORT_TOGETHER + 1);
    expect(SENT);
    assert_ptr_equal(g->ticket.node, first);
    assert_int_equal(asked.cohort, WIRE_COHORT_TOGETHER + 1);
    node_accepts();
    for (int i = 1; i < WIRE_PROBATION_TOKENS; i++)
        node_gives("x");
    assert_ptr_equal(g->ticket.bound, first);
    node_gives("x");
    assert_null(g->ticket.bound);
    assert_int_equal(g->entry, WIRE_ENTRY_RESUMED);
}

static void five_failures_in_a_row_are_the_end(void **state)
{
    (void)state;
    static const char *const ids[] = {"node-b", "node-c", "node-d", "node-e"};
    for (size_t i = 0; i < 4; i++)
        join(ids[i]);
    link_fails = true;
    start();
    expect(OVER);
    assert_int_equal(submits, 5);
    assert_int_equal(failure.code, LR_UPSTREAM);
    assert_int_equal(dispatch.sched.held, 0);
}

static void a_request_that_no_node_takes_fails_at_once(void **state)
{
    (void)state;
    join("node-two");
    bring_to(SENT);
    node_errs(WIRE_REFUSED, LR_INVALID_ARGUMENT, false);
    expect(OVER);
    assert_int_equal(submits, 1);
    assert_int_equal(failure.code, LR_INVALID_ARGUMENT);
}

static void
an_answer_is_paused_until_its_client_has_read_and_has_no_slot_meanwhile(void **state)
{
    (void)state;
    bring_to(PAUSED);
    assert_null(g->ticket.replica);
    router_generation_resume(g);
    expect(SENT);
}

/* ---- every other move ---- */

static const bool is_legal[ALL][ALL] = {
    [IDLE] = {[QUEUED] = true, [SENT] = true, [OVER] = true},
    [QUEUED] = {[SENT] = true, [STOPPED] = true, [OVER] = true},
    [SENT] = {[RUNNING] = true, [IDLE] = true, [STOPPED] = true, [OVER] = true},
    [RUNNING] = {[IDLE] = true, [PAUSED] = true, [STOPPED] = true, [OVER] = true},
    [PAUSED] = {[IDLE] = true, [OVER] = true},
    [STOPPED] = {[OVER] = true},
};

static void any_other_move_ends_the_generation_and_fails_its_call(void **state)
{
    uint64_t bad = lr_machine_bad_moves();
    for (unsigned from = 0; from < ALL; from++)
        for (unsigned to = 0; to < ALL; to++) {
            if (is_legal[from][to])
                continue;
            assert_int_equal(teardown(state) | setup(state), 0);
            bring_to((enum router_generation_state)from);
            lr_machine_tolerate(true);
            assert_false(router_generation_move(g, (enum router_generation_state)to));
            assert_int_equal(lr_machine_bad_moves(), ++bad);
            assert_true(chat_turn_is_over(&call.turn));
            if (from != STOPPED && from != OVER)
                assert_int_equal(failure.code, LR_INTERNAL);
            turn_loop();
            expect(OVER);
            assert_null(g->attempt.stream.link);
            assert_int_equal(dispatch.sched.waiting, 0);
            assert_null(g->ticket.replica);
        }
}

static void
each_move_of_the_picture_is_made_and_holds_the_call_while_something_points_to_it(void **state)
{
    uint64_t bad = lr_machine_bad_moves();
    for (unsigned from = 0; from < ALL; from++)
        for (unsigned to = 0; to < ALL; to++) {
            if (!is_legal[from][to])
                continue;
            assert_int_equal(teardown(state) | setup(state), 0);
            g->state = (enum router_generation_state)from; /* without what it holds */
            call.holds += holds_call((enum router_generation_state)from);
            assert_true(router_generation_move(g, (enum router_generation_state)to));
            assert_int_equal(g->state, to);
            assert_int_equal(call.holds, holds_call((enum router_generation_state)to) ? 2 : 1);
            g->state = OVER;
        }
    assert_int_equal(lr_machine_bad_moves(), bad);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_free_slot_is_used_at_once_and_the_answer_completes),
        TEST(an_answer_is_paused_until_its_client_has_read_and_has_no_slot_meanwhile),
        TEST(without_a_slot_it_waits_and_begins_when_the_owner_hears_of_the_grant),
        TEST(a_refusal_ends_it_before_it_began),
        TEST(a_ticket_that_is_refused_in_the_queue_ends_it),
        TEST(a_client_that_leaves_the_queue_leaves_nothing_behind),
        TEST(a_grant_that_comes_after_the_client_left_is_given_back),
        TEST(a_client_that_leaves_before_the_node_has_accepted_pays_what_the_node_made),
        TEST(a_client_that_leaves_before_the_link_is_open_waits_for_nothing),
        TEST(the_usage_of_an_earlier_attempt_outlives_a_node_that_had_not_begun),
        TEST(after_the_client_left_the_node_still_tells_the_usage),
        TEST(a_node_that_never_tells_the_usage_is_left_after_five_seconds),
        TEST(a_link_that_breaks_after_the_client_left_ends_it),
        TEST(an_answer_that_a_stop_string_ends_tells_the_cached_tokens_of_the_node),
        TEST(a_node_that_does_not_tell_the_usage_delays_a_complete_answer_briefly),
        TEST(a_link_that_breaks_after_a_stop_string_ends_the_answer),
        TEST(what_an_attempt_measured_ends_with_it_and_the_tokens_stay),
        TEST(a_silent_node_and_a_broken_link_lead_to_another_node),
        TEST(where_no_other_node_has_room_the_next_attempt_waits_in_the_queue),
        TEST(a_preempted_generation_leaves_with_its_last_event_and_comes_again),
        TEST(a_worker_that_dies_costs_no_attempt_and_two_strikes_are_the_end),
        TEST(a_cohort_is_tried_on_its_node_until_it_has_come_through_its_probation),
        TEST(five_failures_in_a_row_are_the_end),
        TEST(a_request_that_no_node_takes_fails_at_once),
        TEST(any_other_move_ends_the_generation_and_fails_its_call),
        TEST(each_move_of_the_picture_is_made_and_holds_the_call_while_something_points_to_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
