/* A generation on the node walks through its states: no process runs, and time moves when the
 * test says so. */
#include "base/machine.h"
#include "tests/unit/node/support.h"

#define G(name) NODE_GENERATION_##name

/* ---- an owner ---- */

struct owner {
    enum wire_type heard[64];
    size_t count;
    struct wire_error error;
    struct wire_done done;
    struct wire_lost lost;
    struct wire_accepted accepted;
    struct node_generation *generation;
};

static void on_event(void *ctx, const struct wire_frame *frame)
{
    struct owner *o = ctx;
    assert_true(o->count < sizeof(o->heard) / sizeof(o->heard[0]));
    o->heard[o->count++] = frame->type;
    if (frame->type == WIRE_ERROR)
        assert_int_equal(wire_error_decode(frame->body, &o->error, NULL), LR_OK);
    if (frame->type == WIRE_DONE)
        assert_int_equal(wire_done_decode(frame->body, &o->done, NULL), LR_OK);
    if (frame->type == WIRE_LOST)
        assert_int_equal(wire_lost_decode(frame->body, &o->lost, NULL), LR_OK);
    if (frame->type == WIRE_ACCEPTED)
        assert_int_equal(wire_accepted_decode(frame->body, &o->accepted, NULL), LR_OK);
    if (wire_event_is_last(frame->type))
        o->generation = NULL;
}

static enum wire_type last_heard(const struct owner *o)
{
    assert_true(o->count != 0);
    return o->heard[o->count - 1];
}

static struct wire_generate ask_for(const char *name)
{
    static const struct lr_segment hello = {.text = "Hello", .len = 5};
    struct wire_generate g;
    wire_generate_defaults(&g);
    g.request_id = lr_str_z(name);
    g.model = lr_str_z(model->id);
    g.segments = &hello;
    g.segment_count = 1;
    return g;
}

static lr_code ask(struct owner *o, const struct wire_generate *g, bool takes_lost)
{
    struct node_sink sink = {.ctx = o, .on_event = on_event, .takes_lost = takes_lost};
    struct lr_error err;
    *o = (struct owner){0};
    return node_generation_start(model, g, sink, &o->generation, &err);
}

static struct node_generation *begin(struct owner *o, const char *name, bool takes_lost)
{
    struct wire_generate g = ask_for(name);
    assert_int_equal(ask(o, &g, takes_lost), LR_OK);
    assert_non_null(o->generation);
    return o->generation;
}

/* ---- what the worker says ---- */

static void enters(struct node_proc *proc, uint64_t id)
{
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_enter_encode(&buf, &id, 1);
    say(proc, &buf);
}

static void gives_token(struct node_proc *proc, uint64_t id)
{
    struct wire_token m = {.request = id, .id = 7, .bytes = LR_STR_LIT("x")};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_token_encode(&buf, &m);
    say(proc, &buf);
}

static void finishes(struct node_proc *proc, uint64_t id, enum lr_finish reason)
{
    struct wire_done m = {.request = id, .reason = reason, .prompt_tokens = 5};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_done_encode(&buf, &m);
    say(proc, &buf);
}

/* The model is loaded again after a death; the new worker serves. */
static struct node_worker *next_worker(void)
{
    struct node_worker *w = replica->worker;
    assert_non_null(w);
    says_need(w->proc, WIRE_OPENED, NEED);
    assert_int_equal(w->state, NODE_WORKER_READY);
    return w;
}

static bool is_reset(const struct node_attempt *attempt)
{
    return attempt->worker == NULL && attempt->submitted_ms == 0 &&
           attempt->first_token_ms == 0 && attempt->given == 0 && attempt->tokens == 0 &&
           attempt->probation == 0 && attempt->ahead == 0 &&
           attempt->progress == NODE_PROGRESS_NONE && !attempt->has_connection;
}

/* ---- every pair of states ---- */

static bool is_in_worker(unsigned state)
{
    return state == G(RUNNING) || state == G(STOPPING) || state == G(LEAVING) ||
           state == G(PROVING);
}

static bool is_in_queue(unsigned state)
{
    return state == G(QUEUED) || state == G(STOPPED);
}

/* The lists and counts are those of the state. */
static void check_counts(const struct node_worker *w, unsigned state)
{
    bool is_told = state == G(STOPPING) || state == G(LEAVING);
    assert_int_equal(model->queue_count, is_in_queue(state));
    assert_int_equal(model->queue != NULL, is_in_queue(state));
    assert_int_equal(w->live_count, is_in_worker(state));
    assert_int_equal(w->live != NULL, is_in_worker(state));
    assert_int_equal(w->newcomer_count, is_in_worker(state));
    assert_int_equal(w->connection_count, is_in_worker(state));
    assert_int_equal(w->leaving_count, is_told);
    assert_int_equal(w->suspect_count, 0);
    assert_int_equal(w->entering_count, 0);
}

static bool move_to(struct node_generation *g, struct node_worker *w, unsigned state)
{
    if (is_in_worker(state) && !is_in_worker(g->state))
        g->attempt = (struct node_attempt){.worker = w, .has_connection = true};
    return node_generation_move(g, state);
}

/* Through legal moves only. */
static struct node_generation *bring_to(struct owner *o, struct node_worker *w, unsigned state)
{
    static const unsigned way[][4] = {
        [G(NEW)] = {0},
        [G(QUEUED)] = {G(QUEUED)},
        [G(RUNNING)] = {G(QUEUED), G(RUNNING)},
        [G(STOPPING)] = {G(QUEUED), G(RUNNING), G(STOPPING)},
        [G(STOPPED)] = {G(QUEUED), G(RUNNING), G(STOPPING), G(STOPPED)},
        [G(LEAVING)] = {G(QUEUED), G(RUNNING), G(LEAVING)},
        [G(PROVING)] = {G(PROVING)},
        [G(OVER)] = {G(OVER)},
    };
    struct node_generation *g = calloc(1, sizeof(*g));
    assert_non_null(g);
    *o = (struct owner){.generation = g};
    *g = (struct node_generation){
        .model = model, .sink = {.ctx = o, .on_event = on_event, .has_connection = true}};
    g->id = lr_slots_take(&all.generations, g);
    for (size_t i = 0; i < 4 && way[state][i] != G(NEW); i++) {
        assert_true(move_to(g, w, way[state][i]));
        check_counts(w, way[state][i]);
    }
    assert_int_equal(g->state, state);
    return g;
}

static void a_generation_moves_as_its_picture_says_and_fails_otherwise(void **state)
{
    static const struct move legal[] = {
        {G(NEW), G(QUEUED)},       {G(NEW), G(PROVING)},      {G(NEW), G(OVER)},
        {G(QUEUED), G(RUNNING)},   {G(QUEUED), G(OVER)},      {G(RUNNING), G(QUEUED)},
        {G(RUNNING), G(STOPPING)}, {G(RUNNING), G(LEAVING)},  {G(RUNNING), G(OVER)},
        {G(STOPPING), G(STOPPED)}, {G(STOPPING), G(LEAVING)}, {G(STOPPING), G(OVER)},
        {G(STOPPED), G(STOPPING)}, {G(STOPPED), G(OVER)},     {G(LEAVING), G(OVER)},
        {G(PROVING), G(OVER)},
    };
    (void)state;
    for (unsigned from = 0; from <= G(OVER); from++)
        for (unsigned to = 0; to <= G(OVER); to++) {
            struct owner o;
            struct node_proc proc = {0};
            struct node_worker w = {.models = &all, .model = model, .proc = &proc};
            struct node_generation *g = bring_to(&o, &w, from);
            uint64_t before = lr_machine_bad_moves(), id = g->id;
            bool is_legal = LISTED(legal, from, to);
            bool has_moved = is_legal ? move_to(g, &w, to) : node_generation_move(g, to);
            assert_int_equal(has_moved, is_legal);
            assert_int_equal(lr_machine_bad_moves() - before, !is_legal);
            if (is_legal) {
                assert_int_equal(g->state, to);
                assert_int_equal(is_reset(&g->attempt), !is_in_worker(to));
                check_counts(&w, to);
            } else if (from != G(OVER)) { /* over: there is nobody to tell */
                assert_int_equal(o.count, 1);
                assert_int_equal(o.error.error.code, LR_INTERNAL);
                assert_null(lr_slots_find(&all.generations, id));
                assert_int_equal(proc.last == WIRE_CANCEL, is_in_worker(from));
                check_counts(&w, G(OVER));
                continue; /* it is freed */
            }
            if (g->state != G(OVER))
                assert_true(node_generation_move(g, G(OVER)));
            check_counts(&w, G(OVER));
            lr_slots_give(&all.generations, id);
            free(g);
        }
}

/* ---- what moves it ---- */

static void a_generation_waits_for_the_model_runs_and_ends(void **state)
{
    static struct owner o;
    (void)state;
    struct node_generation *g = begin(&o, "a", false);
    uint64_t id = g->id;
    assert_int_equal(last_heard(&o), WIRE_ACCEPTED);
    assert_int_equal(g->state, G(QUEUED));
    struct node_worker *w = serve(model); /* a load was under way already */
    assert_int_equal(g->state, G(RUNNING));
    assert_int_equal(w->proc->last, WIRE_SUBMIT);
    assert_int_equal(w->newcomer_count, 1);
    lr_fake_clock_advance_ms(&time_, 10);
    enters(w->proc, id);
    assert_int_equal(g->attempt.progress, NODE_PROGRESS_ENTERING);
    gives_token(w->proc, id);
    assert_int_equal(g->attempt.progress, NODE_PROGRESS_ENTERED);
    assert_int_equal(w->newcomer_count + w->entering_count, 0);
    assert_int_equal(g->attempt.first_token_ms - g->attempt.submitted_ms, 10);
    assert_int_equal(last_heard(&o), WIRE_TOKEN);
    finishes(w->proc, id, LR_FINISH_STOP);
    assert_int_equal(last_heard(&o), WIRE_DONE);
    assert_int_equal(all.generations.used, 0);
    assert_int_equal(w->live_count, 0);
    assert_int_equal(model->requests_done, 1);
    gives_token(w->proc, id); /* a word about what has ended is heard by nobody */
    assert_int_equal(last_heard(&o), WIRE_DONE);
}

static void
a_generation_goes_on_in_the_next_worker_with_its_tokens_and_a_new_attempt(void **state)
{
    static struct owner o;
    (void)state;
    struct node_worker *w = serve(model);
    struct node_generation *g = begin(&o, "a", false);
    enters(w->proc, g->id);
    gives_token(w->proc, g->id);
    gives_token(w->proc, g->id);
    ends(w->proc, "killed by SIGSEGV");
    assert_int_equal(g->state, G(QUEUED));
    assert_true(is_reset(&g->attempt));
    assert_int_equal(model->queue_count, 1);
    lr_fake_clock_advance_ms(&time_, 50);
    w = next_worker();
    assert_int_equal(g->state, G(RUNNING));
    assert_int_equal(w->proc->submit.generated_count, 2);
    assert_int_equal(g->attempt.given, 2);
    assert_int_equal(g->attempt.tokens, 0);
    assert_int_equal(g->attempt.submitted_ms, node_now(&all));
    finishes(w->proc, g->id, LR_FINISH_STOP);
    assert_null(o.generation);
}

static void an_owner_that_holds_the_tokens_hears_that_the_worker_died(void **state)
{
    static struct owner o;
    (void)state;
    struct node_worker *w = serve(model);
    struct node_generation *g = begin(&o, "a", true);
    assert_null(g->frame); /* it is sent once */
    enters(w->proc, g->id);
    gives_token(w->proc, g->id);
    assert_int_equal(g->generated.len, 0);
    ends(w->proc, "killed by SIGSEGV");
    assert_int_equal(last_heard(&o), WIRE_LOST);
    assert_int_equal(all.generations.used, 0);
}

static void a_generation_with_two_strikes_is_not_tried_again(void **state)
{
    static struct owner o;
    (void)state;
    struct node_worker *w = serve(model);
    struct node_generation *g = begin(&o, "a", false);
    enters(w->proc, g->id);
    ends(w->proc, "killed by SIGSEGV");
    assert_int_equal(g->strikes, 1);
    assert_int_equal(g->ask.entry, WIRE_ENTRY_SUSPECT);
    w = next_worker();
    assert_int_equal(w->suspect_count, 1);
    enters(w->proc, g->id);
    ends(w->proc, "killed by SIGSEGV");
    assert_int_equal(last_heard(&o), WIRE_ERROR);
    assert_false(o.error.retryable);
    assert_int_equal(all.generations.used, 0);
}

static void a_stop_waits_for_the_usage_also_where_the_worker_dies_over_it(void **state)
{
    static struct owner o;
    (void)state;
    struct node_worker *w = serve(model);
    struct node_generation *g = begin(&o, "a", false);
    enters(w->proc, g->id);
    gives_token(w->proc, g->id);
    node_generation_stop(g);
    assert_int_equal(g->state, G(STOPPING));
    assert_int_equal(w->proc->last, WIRE_CANCEL);
    assert_int_equal(node_worker_load(w), 0); /* its slot is free for the next one */
    ends(w->proc, "killed by SIGSEGV");
    assert_int_equal(g->state, G(STOPPED));
    w = next_worker();
    assert_int_equal(g->state, G(STOPPING));
    assert_int_equal(w->proc->before, WIRE_SUBMIT);
    assert_int_equal(w->proc->last, WIRE_CANCEL);
    finishes(w->proc, g->id, LR_FINISH_CANCELLED);
    assert_int_equal(o.done.prompt_tokens, 5);
    assert_int_equal(w->leaving_count, 0);
}

static void a_generation_without_an_owner_stays_until_the_worker_confirms(void **state)
{
    static struct owner o;
    (void)state;
    struct node_worker *w = serve(model);
    struct node_generation *g = begin(&o, "a", false);
    size_t heard = o.count;
    node_generation_stop(g);
    node_generation_cancel(g);
    assert_int_equal(g->state, G(LEAVING));
    assert_int_equal(w->leaving_count, 1);
    gives_token(w->proc, g->id);
    finishes(w->proc, g->id, LR_FINISH_CANCELLED);
    assert_int_equal(o.count, heard);
    assert_int_equal(all.generations.used + w->leaving_count + w->live_count, 0);
}

static void a_worker_that_dies_takes_what_has_no_owner_with_it(void **state)
{
    static struct owner o;
    (void)state;
    struct node_worker *w = serve(model);
    node_generation_cancel(begin(&o, "a", false));
    ends(w->proc, "killed by SIGSEGV");
    assert_int_equal(all.generations.used, 0);
}

static void a_generation_that_waits_ends_at_once_when_its_owner_wants_no_more(void **state)
{
    static struct owner first, second;
    (void)state;
    (void)begin(&first, "a", false);
    node_generation_cancel(begin(&second, "b", false));
    assert_int_equal(last_heard(&second), WIRE_ACCEPTED);
    assert_int_equal(model->queue_count, 1);
    node_generation_stop(first.generation);
    assert_int_equal(last_heard(&first), WIRE_DONE);
    assert_int_equal(first.done.reason, LR_FINISH_CANCELLED);
    assert_int_equal(model->queue_count, 0);
}

static void a_generation_that_waits_hears_ticks_and_ends_at_its_deadline(void **state)
{
    static struct owner o;
    struct wire_generate g = ask_for("a");
    (void)state;
    g.deadline_ms = 2000;
    assert_int_equal(ask(&o, &g, false), LR_OK);
    lr_fake_clock_advance_ms(&time_, 1000);
    node_generations_tick(&all, node_now(&all));
    assert_int_equal(last_heard(&o), WIRE_TICK);
    lr_fake_clock_advance_ms(&time_, 999);
    node_generations_tick(&all, node_now(&all));
    assert_int_equal(o.generation->state, G(QUEUED));
    lr_fake_clock_advance_ms(&time_, 1);
    node_generations_tick(&all, node_now(&all));
    assert_int_equal(o.error.error.code, LR_TIMEOUT);
    assert_int_equal(all.generations.used, 0);
}

static void a_swap_takes_the_slot_of_the_generation_that_leaves(void **state)
{
    static struct owner old[6], o;
    struct wire_generate g = ask_for("next");
    char name[8];
    (void)state;
    struct node_worker *w = serve(model);
    g.no_queue = true;
    for (size_t i = 0; i < 6; i++) { /* four slots, and two that wait in the worker */
        (void)snprintf(name, sizeof(name), "%zu", i);
        (void)begin(&old[i], name, true);
    }
    assert_int_equal(ask(&o, &g, true), LR_RATE_LIMITED);
    g.leaves = lr_str_z("3");
    assert_int_equal(ask(&o, &g, true), LR_OK);
    assert_true(o.accepted.has_swapped);
    assert_int_equal(old[3].generation->state, G(STOPPING));
    assert_int_equal(o.generation->state, G(RUNNING));
    assert_int_equal(w->proc->before, WIRE_CANCEL); /* both before the next step */
    assert_int_equal(w->proc->last, WIRE_SUBMIT);
}

static void those_that_were_computed_before_wait_ahead_of_those_that_were_not(void **state)
{
    static struct owner owners[5];
    static const char order[] = "bdac"; /* b and d were computed before */
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        char name[] = {(char)('a' + i), '\0'};
        uint32_t token = 7;
        struct wire_generate g = ask_for(name);
        g.generated = &token;
        g.generated_count = i % 2;
        assert_int_equal(ask(&owners[i], &g, false), LR_OK);
    }
    size_t at = 0;
    for (const struct node_generation *g = model->queue; g != NULL; g = g->next)
        assert_int_equal(g->name[0], order[at++]);
    assert_int_equal(at, 4);
    node_generation_cancel(owners[2].generation); /* the last one: another takes its place */
    const struct node_generation *last = begin(&owners[4], "e", false);
    assert_ptr_equal(owners[0].generation->next, last);
    while (model->queue != NULL)
        node_generation_cancel(model->queue);
    assert_int_equal(model->queue_count, 0);
}

static void a_candidate_is_asked_by_a_generation_that_nobody_else_finds(void **state)
{
    static struct owner o;
    struct wire_generate g = ask_for("next");
    struct lr_error err;
    (void)state;
    struct node_worker *w = serve(model);
    struct node_sink sink = {.ctx = &o, .on_event = on_event};
    assert_int_equal(node_generation_prove(w, sink, &err), LR_OK);
    struct node_generation *proof = w->live;
    assert_int_equal(proof->state, G(PROVING));
    g.leaves = lr_str_z(proof->name);
    static struct owner other;
    assert_int_equal(ask(&other, &g, true), LR_OK);
    assert_false(other.accepted.has_swapped);
    ends(w->proc, "killed by SIGSEGV"); /* a proof is not tried in another worker */
    assert_int_equal(o.count, 0);
    assert_int_equal(all.generations.used, 0);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(a_generation_moves_as_its_picture_says_and_fails_otherwise),
        WITH(a_generation_waits_for_the_model_runs_and_ends),
        WITH(a_generation_goes_on_in_the_next_worker_with_its_tokens_and_a_new_attempt),
        WITH(an_owner_that_holds_the_tokens_hears_that_the_worker_died),
        WITH(a_generation_with_two_strikes_is_not_tried_again),
        WITH(a_stop_waits_for_the_usage_also_where_the_worker_dies_over_it),
        WITH(a_generation_without_an_owner_stays_until_the_worker_confirms),
        WITH(a_worker_that_dies_takes_what_has_no_owner_with_it),
        WITH(a_generation_that_waits_ends_at_once_when_its_owner_wants_no_more),
        WITH(a_generation_that_waits_hears_ticks_and_ends_at_its_deadline),
        WITH(a_swap_takes_the_slot_of_the_generation_that_leaves),
        WITH(those_that_were_computed_before_wait_ahead_of_those_that_were_not),
        WITH(a_candidate_is_asked_by_a_generation_that_nobody_else_finds),
    };
    lr_machine_tolerate(true); /* as in a release: the illegal moves are part of the test */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
