/* A worker, a replica, a model and a download walk through their states: no process runs, and
 * time moves when the test says so. */
#include "base/machine.h"
#include "node/fetch/fetch.h"
#include "node/host/reload.h"
#include "tests/unit/node/support.h"

/* ---- every pair of states ---- */

#define W(name) NODE_WORKER_##name
#define R(name) NODE_REPLICA_##name
#define D(name) NODE_FETCH_##name
#define S(name) NODE_MODEL_##name

static void a_worker_moves_as_its_picture_says_and_is_killed_otherwise(void **state)
{
    static const struct move legal[] = {
        {W(LOADING), W(PROVING)}, {W(LOADING), W(READY)},   {W(LOADING), W(CLOSING)},
        {W(LOADING), W(KILLED)},  {W(LOADING), W(GONE)},    {W(PROVING), W(READY)},
        {W(PROVING), W(CLOSING)}, {W(PROVING), W(KILLED)},  {W(PROVING), W(GONE)},
        {W(READY), W(LEAVING)},   {W(READY), W(CLOSING)},   {W(READY), W(KILLED)},
        {W(READY), W(GONE)},      {W(LEAVING), W(CLOSING)}, {W(LEAVING), W(KILLED)},
        {W(LEAVING), W(GONE)},    {W(CLOSING), W(GONE)},    {W(KILLED), W(GONE)},
    };
    (void)state;
    for (unsigned from = 0; from <= W(GONE); from++)
        for (unsigned to = 0; to <= W(GONE); to++) {
            struct node_proc proc = {0};
            struct node_worker w = {.model = model, .proc = &proc, .state = from};
            uint64_t before = lr_machine_bad_moves();
            bool is_legal = LISTED(legal, from, to);
            node_worker_move(&w, to);
            assert_int_equal(lr_machine_bad_moves() - before, !is_legal);
            assert_int_equal(w.state, is_legal ? to : W(KILLED));
            assert_int_equal(proc.is_killed, !is_legal);
        }
}

static void a_replica_moves_as_its_picture_says_and_ends_its_worker_otherwise(void **state)
{
    static const struct move legal[] = {
        {R(EMPTY), R(LOADING)},  {R(LOADING), R(READY)},  {R(LOADING), R(DRAINING)},
        {R(LOADING), R(EMPTY)},  {R(READY), R(DRAINING)}, {R(READY), R(EMPTY)},
        {R(DRAINING), R(EMPTY)},
    };
    static const unsigned as_model[] = {S(STARTING), S(LOADING), S(READY), S(DRAINING)};
    (void)state;
    for (unsigned from = 0; from <= R(DRAINING); from++)
        for (unsigned to = 0; to <= R(DRAINING); to++) {
            struct node_proc proc = {0};
            struct node_worker w = {.model = model, .proc = &proc, .state = W(READY)};
            uint64_t before = lr_machine_bad_moves();
            bool is_legal = LISTED(legal, from, to);
            replica->worker = &w;
            replica->state = from;
            model->state = as_model[from];
            node_replica_move(replica, to, NULL);
            assert_int_equal(lr_machine_bad_moves() - before, !is_legal);
            assert_int_equal(replica->state, is_legal ? to : from);
            assert_int_equal(proc.is_killed, !is_legal);
            /* An empty replica says nothing of the model. */
            assert_int_equal(model->state, as_model[is_legal && to != R(EMPTY) ? to : from]);
        }
    *replica = (struct node_replica){.model = model};
}

static void a_model_moves_as_its_picture_says_and_fails_otherwise(void **state)
{
    static const struct move legal[] = {
        {S(ABSENT), S(FETCHING)},   {S(ABSENT), S(VERIFYING)}, {S(ABSENT), S(PRESENT)},
        {S(ABSENT), S(FAILED)},     {S(FETCHING), S(ABSENT)},  {S(FETCHING), S(VERIFYING)},
        {S(FETCHING), S(FAILED)},   {S(VERIFYING), S(ABSENT)}, {S(VERIFYING), S(FETCHING)},
        {S(VERIFYING), S(PRESENT)}, {S(VERIFYING), S(FAILED)}, {S(PRESENT), S(ABSENT)},
        {S(PRESENT), S(STARTING)},  {S(PRESENT), S(FAILED)},   {S(STARTING), S(LOADING)},
        {S(STARTING), S(PRESENT)},  {S(STARTING), S(WAITING)}, {S(STARTING), S(FAILED)},
        {S(LOADING), S(READY)},     {S(LOADING), S(PRESENT)},  {S(LOADING), S(DRAINING)},
        {S(LOADING), S(WAITING)},   {S(LOADING), S(FAILED)},   {S(READY), S(LOADING)},
        {S(READY), S(DRAINING)},    {S(READY), S(PRESENT)},    {S(READY), S(WAITING)},
        {S(READY), S(FAILED)},      {S(DRAINING), S(PRESENT)}, {S(WAITING), S(ABSENT)},
        {S(WAITING), S(PRESENT)},   {S(WAITING), S(STARTING)}, {S(WAITING), S(FAILED)},
        {S(FAILED), S(ABSENT)},     {S(FAILED), S(PRESENT)},
    };
    (void)state;
    for (unsigned from = 0; from <= S(FAILED); from++)
        for (unsigned to = 0; to <= S(FAILED); to++) {
            uint64_t before = lr_machine_bad_moves();
            bool is_legal = from == to || LISTED(legal, from, to);
            model->state = from;
            node_model_move(model, to, NULL);
            assert_int_equal(lr_machine_bad_moves() - before, !is_legal);
            assert_int_equal(model->state, is_legal ? to : S(FAILED));
        }
}

static void a_download_moves_as_its_picture_says_and_is_over_otherwise(void **state)
{
    static const struct move legal[] = {
        {D(NEW), D(RUNNING)},
        {D(NEW), D(WAITING)},
        {D(NEW), D(OVER)},
        {D(RUNNING), D(NEW)},
        {D(RUNNING), D(WAITING)},
        {D(RUNNING), D(INSTALLING)},
        {D(RUNNING), D(STOPPING)},
        {D(RUNNING), D(RESTARTING)},
        {D(RUNNING), D(OVER)},
        {D(RESTARTING), D(NEW)},
        {D(RESTARTING), D(STOPPING)},
        {D(STOPPING), D(RUNNING)},
        {D(STOPPING), D(RESTARTING)},
        {D(STOPPING), D(OVER)},
        {D(WAITING), D(NEW)},
        {D(WAITING), D(OVER)},
        {D(INSTALLING), D(NEW)},
        {D(INSTALLING), D(WAITING)},
        {D(INSTALLING), D(OVER)},
        {D(OVER), D(NEW)},
    };
    static char id[] = "m";
    struct hub_manifest manifest = {.id = id};
    (void)state;
    for (unsigned from = 0; from <= D(OVER); from++)
        for (unsigned to = 0; to <= D(OVER); to++) {
            struct node_fetch_job job = {.manifest = &manifest, .state = from};
            uint64_t before = lr_machine_bad_moves();
            bool is_legal = LISTED(legal, from, to);
            node_fetch_move(&job, to);
            assert_int_equal(lr_machine_bad_moves() - before, !is_legal);
            assert_int_equal(job.state, is_legal ? to : D(OVER));
        }
}

/* ---- what moves them ---- */

static void an_unload_lets_the_worker_finish_and_then_leave(void **state)
{
    (void)state;
    struct node_worker *w = serve(model);
    struct node_proc *proc = w->proc;
    w->live_count = 1;
    node_model_unload(model, "a test");
    assert_int_equal(w->state, NODE_WORKER_LEAVING);
    assert_int_equal(replica->state, NODE_REPLICA_DRAINING);
    assert_int_equal(model->state, NODE_MODEL_DRAINING);
    w->live_count = 0;
    node_model_pump(model);
    assert_int_equal(w->state, NODE_WORKER_CLOSING);
    assert_int_equal(proc->last, WIRE_CLOSE);
    assert_false(proc->is_killed);
    lr_fake_clock_advance_ms(&time_, CLOSE_MS);
    node_workers_watch(&all, node_now(&all));
    assert_true(proc->is_killed); /* it had its time */
    ends(proc, "killed by SIGKILL");
    assert_int_equal(replica->state, NODE_REPLICA_EMPTY);
    assert_int_equal(model->state, NODE_MODEL_PRESENT);
    assert_int_equal(all.count.worker_deaths, 0);
}

static void an_unload_in_the_middle_of_a_load_kills_the_worker(void **state)
{
    (void)state;
    struct node_worker *w = load(model);
    node_model_unload(model, "a test");
    assert_int_equal(w->state, NODE_WORKER_CLOSING);
    assert_true(w->proc->is_killed);
    says_need(w->proc, WIRE_OPENED, NEED); /* too late */
    assert_int_equal(w->state, NODE_WORKER_CLOSING);
    ends(w->proc, "killed by SIGKILL");
    assert_int_equal(model->state, NODE_MODEL_PRESENT);
}

static void the_watchdog_kills_a_worker_once_and_the_death_is_counted(void **state)
{
    (void)state;
    struct node_worker *w = load(model);
    lr_fake_clock_advance_ms(&time_, LOAD_MS - 1); /* long for a step, not for a load */
    node_workers_watch(&all, node_now(&all));
    says_need(w->proc, WIRE_OPENED, NEED);
    w->live_count = 1;
    lr_fake_clock_advance_ms(&time_, STEP_MS - 1);
    node_workers_watch(&all, node_now(&all));
    assert_int_equal(w->state, NODE_WORKER_READY);
    lr_fake_clock_advance_ms(&time_, 1);
    node_workers_watch(&all, node_now(&all));
    lr_fake_clock_advance_ms(&time_, STEP_MS);
    node_workers_watch(&all, node_now(&all));
    assert_int_equal(w->state, NODE_WORKER_KILLED);
    assert_int_equal(all.count.watchdog_kills, 1);
    ends(w->proc, "killed by SIGKILL");
    assert_int_equal(all.count.worker_deaths, 1);
    assert_int_equal(replica->state,
                     NODE_REPLICA_LOADING); /* again at once: it may be chance */
}

static void deaths_in_a_row_open_the_breaker_and_its_time_closes_it(void **state)
{
    (void)state;
    struct node_worker *w = serve(model);
    for (int i = 1; i < KILLS; i++) {
        w->live_count = 1; /* somebody used it */
        ends(w->proc, "killed by SIGSEGV");
        assert_int_equal(model->state, NODE_MODEL_LOADING);
        w = replica->worker;
        says_need(w->proc, WIRE_OPENED, NEED);
    }
    w->live_count = 1;
    ends(w->proc, "killed by SIGSEGV");
    assert_int_equal(model->state, NODE_MODEL_WAITING);
    assert_int_equal(replica->state, NODE_REPLICA_EMPTY);
    lr_fake_clock_advance_ms(&time_, NODE_BREAKER_FIRST_MS - 1);
    node_recovery_watch(&all);
    assert_int_equal(model->state, NODE_MODEL_WAITING);
    lr_fake_clock_advance_ms(&time_, 1);
    node_recovery_watch(&all);
    assert_int_equal(model->state, NODE_MODEL_LOADING);
}

static void a_probe_that_judges_fails_the_model_until_somebody_acts(void **state)
{
    (void)state;
    node_model_load(model);
    says_failed(newest(), LR_ABI_MISMATCH);
    ends(newest(), "exited with 1");
    assert_int_equal(model->state, NODE_MODEL_FAILED);
    lr_fake_clock_advance_ms(&time_, NODE_BREAKER_MOST_MS);
    node_recovery_watch(&all);
    assert_int_equal(model->state, NODE_MODEL_FAILED);
    (void)serve(model);
}

static void a_load_that_fails_waits_and_an_unload_ends_the_wait(void **state)
{
    (void)state;
    struct node_worker *w = load(model);
    says_failed(w->proc, LR_IO);
    ends(w->proc, "exited with 1");
    assert_int_equal(replica->state, NODE_REPLICA_EMPTY);
    assert_int_equal(model->state, NODE_MODEL_WAITING);
    node_model_unload(model, "a test");
    assert_int_equal(model->state, NODE_MODEL_PRESENT);
}

static void a_model_makes_room_and_is_not_marked_for_its_next_load(void **state)
{
    struct node_model *second = &models[1];
    (void)state;
    struct node_worker *w = serve(model);
    w->live_count = 1;
    node_model_load(second);
    says_need(newest(), WIRE_PROBED, NEED);
    ends(newest(), "exited with 0");
    assert_int_equal(second->state, NODE_MODEL_STARTING);
    assert_true(second->wants_room && replica->is_yielding);
    assert_int_equal(replica->state, NODE_REPLICA_READY); /* it has a request still */
    w->live_count = 0;
    node_model_pump(model);
    assert_int_equal(replica->state, NODE_REPLICA_DRAINING);
    node_admit_waiting(&all); /* it is on its way: nothing marks it again */
    assert_int_equal(all.count.evictions, 1);
    ends(w->proc, "exited with 0");
    assert_int_equal(model->state, NODE_MODEL_PRESENT);
    assert_int_equal(second->state, NODE_MODEL_LOADING);
    assert_false(replica->is_yielding);
}

static struct node_worker *start_candidate(struct node_worker *old)
{
    struct lr_error err;
    old->reserved = NEED / 2; /* both fit */
    engine.previous = &library;
    engine.library = &other_library;
    assert_int_equal(
        node_worker_start(replica, &other_library, old->reserved, &replica->candidate, &err),
        LR_OK);
    struct node_worker *candidate = replica->candidate;
    says_need(candidate->proc, WIRE_OPENED, NEED / 2);
    assert_int_equal(candidate->state, NODE_WORKER_PROVING);
    assert_int_equal(replica->state, NODE_REPLICA_READY);
    assert_ptr_equal(replica->worker, old);
    return candidate;
}

static void proves(struct node_worker *candidate)
{
    struct wire_done done = {.request = candidate->live->id, .reason = LR_FINISH_LENGTH};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_done_encode(&buf, &done);
    say(candidate->proc, &buf);
}

static void a_candidate_that_proves_itself_replaces_the_worker(void **state)
{
    (void)state;
    struct node_worker *old = serve(model);
    struct node_worker *candidate = start_candidate(old);
    old->live_count = 1;
    proves(candidate);
    assert_int_equal(candidate->state, NODE_WORKER_READY);
    assert_ptr_equal(replica->worker, candidate);
    assert_null(replica->candidate);
    assert_int_equal(old->state, NODE_WORKER_LEAVING);
    old->live_count = 0;
    node_worker_retire(old);
    ends(old->proc, "exited with 0");
    assert_int_equal(replica->state, NODE_REPLICA_READY);
    assert_int_equal(model->state, NODE_MODEL_READY);
}

static void a_candidate_that_was_told_to_end_is_not_promoted_by_a_late_answer(void **state)
{
    (void)state;
    struct node_worker *candidate = start_candidate(serve(model));
    node_model_unload(model, "a test");
    assert_int_equal(candidate->state, NODE_WORKER_CLOSING);
    proves(candidate);
    assert_int_equal(candidate->state, NODE_WORKER_CLOSING);
    assert_ptr_not_equal(replica->worker, candidate);
    ends(candidate->proc, "killed by SIGKILL");
    assert_ptr_equal(engine.library, &other_library); /* the reload has not failed */
}

static void a_candidate_that_dies_leaves_the_worker_and_the_old_version(void **state)
{
    (void)state;
    struct node_worker *old = serve(model);
    ends(start_candidate(old)->proc, "killed by SIGSEGV");
    assert_ptr_equal(engine.library, &library);
    assert_ptr_equal(replica->worker, old);
    assert_null(replica->candidate);
    assert_int_equal(model->state, NODE_MODEL_READY);
}

static void a_worker_that_dies_during_a_reload_takes_the_candidate_with_it(void **state)
{
    (void)state;
    struct node_worker *old = serve(model);
    struct node_worker *candidate = start_candidate(old);
    old->live_count = 1;
    ends(old->proc, "killed by SIGSEGV");
    assert_int_equal(candidate->state, NODE_WORKER_CLOSING);
    ends(candidate->proc, "killed by SIGKILL");
    assert_ptr_equal(engine.library, &other_library); /* the next load is of this one */
    says_need(newest(), WIRE_PROBED, NEED);
    ends(newest(), "exited with 0");
    assert_int_equal(replica->state, NODE_REPLICA_LOADING);
    assert_true(replica->is_swapping);
    says_need(replica->worker->proc, WIRE_OPENED, NEED);
    assert_int_equal(model->state, NODE_MODEL_READY);
    assert_false(replica->is_swapping);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(a_worker_moves_as_its_picture_says_and_is_killed_otherwise),
        WITH(a_replica_moves_as_its_picture_says_and_ends_its_worker_otherwise),
        WITH(a_model_moves_as_its_picture_says_and_fails_otherwise),
        WITH(a_download_moves_as_its_picture_says_and_is_over_otherwise),
        WITH(an_unload_lets_the_worker_finish_and_then_leave),
        WITH(an_unload_in_the_middle_of_a_load_kills_the_worker),
        WITH(the_watchdog_kills_a_worker_once_and_the_death_is_counted),
        WITH(deaths_in_a_row_open_the_breaker_and_its_time_closes_it),
        WITH(a_probe_that_judges_fails_the_model_until_somebody_acts),
        WITH(a_load_that_fails_waits_and_an_unload_ends_the_wait),
        WITH(a_model_makes_room_and_is_not_marked_for_its_next_load),
        WITH(a_candidate_that_proves_itself_replaces_the_worker),
        WITH(a_candidate_that_was_told_to_end_is_not_promoted_by_a_late_answer),
        WITH(a_candidate_that_dies_leaves_the_worker_and_the_old_version),
        WITH(a_worker_that_dies_during_a_reload_takes_the_candidate_with_it),
    };
    lr_machine_tolerate(true); /* as in a release: the illegal moves are part of the test */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
