/* A model on several GPUs: where its replicas lie, which one gets a request, what a death
 * costs. No process runs, and time moves when the test says so. */
#include "tests/unit/node/support.h"

/* ---- three GPUs of 1000 MB ---- */

enum { MB = 1000000, GPU_NEED = 600 * MB, SLOTS = 4 };

static void add_gpus(uint32_t count)
{
    for (uint32_t i = 1; i <= count; i++) {
        struct node_pool *p = &all.pools.pool[i];
        *p = (struct node_pool){.copies = 1,
                                .state = {.total = 1000 * MB, .limit_percent = 100}};
        (void)snprintf(p->name, sizeof(p->name), "GPU-%u", i);
        (void)snprintf(p->title, sizeof(p->title), "GPU %u", i);
    }
    all.pools.count = 1 + count;
}

static void says_gpu_need(struct node_proc *proc, enum wire_type type)
{
    struct lr_engine_need need = {
        .size = sizeof(need), .total = GPU_NEED, .max_sequences = SLOTS, .on_device = 1};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_need_encode(&buf, type, &need);
    say(proc, &buf);
}

static void opens(struct node_replica *r)
{
    assert_int_equal(r->state, NODE_REPLICA_LOADING);
    says_gpu_need(r->worker->proc, WIRE_OPENED);
    assert_int_equal(r->state, NODE_REPLICA_READY);
}

static void load_first(struct node_model *m)
{
    node_model_load(m);
    says_gpu_need(newest(), WIRE_PROBED);
    ends(newest(), "exited with 0");
    opens(&m->replicas[0]);
}

static void watch(void)
{
    node_replicas_watch(&all, node_now(&all));
}

/* All of them serve. */
static void serve_with(struct node_model *m, uint32_t count)
{
    all.replicas = count;
    load_first(m);
    watch();
    for (size_t i = 1; i < count; i++)
        opens(&m->replicas[i]);
    assert_int_equal(node_replicas_ready(m), count);
}

/* ---- requests ---- */

struct owner {
    struct node_generation *generation;
    bool is_lost;
};

static void on_event(void *ctx, const struct wire_frame *frame)
{
    struct owner *o = ctx;
    o->is_lost = o->is_lost || frame->type == WIRE_LOST;
    if (wire_event_is_last(frame->type))
        o->generation = NULL;
}

static struct node_worker *ask_text(struct owner *o, const char *text, bool takes_lost)
{
    struct lr_segment segment = {.text = text, .len = strlen(text)};
    struct node_sink sink = {.ctx = o, .on_event = on_event, .takes_lost = takes_lost};
    struct wire_generate g;
    struct lr_error err;
    wire_generate_defaults(&g);
    g.request_id = lr_str_z("r");
    g.model = lr_str_z(model->id);
    g.segments = &segment;
    g.segment_count = 1;
    *o = (struct owner){0};
    assert_int_equal(node_generation_start(model, &g, sink, &o->generation, &err), LR_OK);
    return o->generation->attempt.worker;
}

static void gives_token(struct owner *o)
{
    struct wire_token m = {.request = o->generation->id, .id = 7, .bytes = LR_STR_LIT("x")};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_token_encode(&buf, &m);
    say(o->generation->attempt.worker->proc, &buf);
}

static void finishes(struct owner *o, uint32_t cached)
{
    struct wire_done m = {.request = o->generation->id,
                          .reason = LR_FINISH_STOP,
                          .prompt_tokens = 100,
                          .cached_tokens = cached};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_done_encode(&buf, &m);
    say(o->generation->attempt.worker->proc, &buf);
    assert_null(o->generation);
}

/* ---- placement ---- */

static void replicas_lie_on_gpus_of_their_own_once_the_first_serves(void **state)
{
    (void)state;
    add_gpus(3);
    all.replicas = 3;
    node_model_load(model);
    says_gpu_need(newest(), WIRE_PROBED);
    ends(newest(), "exited with 0");
    watch();
    assert_int_equal(model->replicas[1].state, NODE_REPLICA_EMPTY);
    opens(&model->replicas[0]);
    watch();
    opens(&model->replicas[2]);
    opens(&model->replicas[1]);
    bool is_used[4] = {false};
    for (size_t i = 0; i < 3; i++)
        is_used[model->replicas[i].pool] = true;
    assert_true(is_used[1] && is_used[2] && is_used[3]);
    assert_int_equal(node_replicas_slots(model), 3 * SLOTS);
    /* More are wanted than there are GPUs. */
    model->has_own_replicas = true;
    model->own_replicas = 9;
    watch();
    assert_int_equal(model->replicas[3].state, NODE_REPLICA_EMPTY);
    /* Fewer are wanted. */
    model->own_replicas = 1;
    watch();
    assert_int_equal(node_replicas_ready(model), 1);
    assert_int_equal(model->state, NODE_MODEL_READY);
}

static void a_gpu_that_was_named_twice_holds_two_replicas_if_its_memory_does(void **state)
{
    (void)state;
    add_gpus(1);
    all.pools.pool[1].copies = 2;
    all.replicas = 2;
    load_first(model);
    watch();
    assert_int_equal(model->replicas[1].state, NODE_REPLICA_EMPTY); /* 1200 of 1000 MB */
    all.pools.pool[1].state.total = 2000ull * MB;
    watch();
    opens(&model->replicas[1]);
    assert_int_equal(model->replicas[1].pool, 1);
}

static void two_models_that_load_at_once_lie_on_different_gpus(void **state)
{
    (void)state;
    add_gpus(2);
    node_model_load(&models[0]);
    node_model_load(&models[1]);
    for (size_t i = 0; i < 2; i++) {
        says_gpu_need(&procs[i], WIRE_PROBED);
        ends(&procs[i], "exited with 0");
    }
    assert_int_equal(models[0].state, NODE_MODEL_LOADING);
    assert_int_equal(models[1].state, NODE_MODEL_LOADING);
    assert_int_not_equal(models[0].replicas[0].pool, models[1].replicas[0].pool);
}

static void an_extra_replica_leaves_for_a_model_that_needs_its_memory(void **state)
{
    (void)state;
    add_gpus(2);
    model->is_pinned = true; /* which protects one replica and not two */
    serve_with(model, 2);
    node_model_load(&models[1]);
    says_gpu_need(newest(), WIRE_PROBED);
    ends(newest(), "exited with 0");
    assert_int_equal(models[1].state, NODE_MODEL_STARTING);
    size_t leaves = model->replicas[0].state == NODE_REPLICA_DRAINING ? 0 : 1;
    assert_int_equal(model->replicas[leaves].state, NODE_REPLICA_DRAINING);
    assert_int_equal(model->replicas[1 - leaves].state, NODE_REPLICA_READY);
    uint32_t pool = model->replicas[leaves].pool;
    watch(); /* the memory that becomes free is not taken back */
    ends(model->replicas[leaves].worker->proc, "exited with 0");
    watch();
    assert_int_equal(models[1].state, NODE_MODEL_LOADING);
    assert_int_equal(models[1].replicas[0].pool, pool);
    assert_int_equal(model->state, NODE_MODEL_READY);
    assert_int_equal(node_replicas_ready(model), 1);
}

static void a_faulty_gpu_loses_its_replica_to_another_gpu(void **state)
{
    static struct owner o;
    (void)state;
    add_gpus(2);
    load_first(model);
    uint32_t sick = model->replicas[0].pool;
    struct node_worker *old = ask_text(&o, "x", true);
    node_health_note_xid(&all.pools.pool[sick].health, 79);
    node_health_watch(&all);
    assert_int_equal(model->replicas[0].state, NODE_REPLICA_DRAINING);
    assert_int_equal(model->state, NODE_MODEL_LOADING);
    assert_int_equal(model->replicas[1].pool, 3 - sick);
    opens(&model->replicas[1]);
    gives_token(&o); /* the running request ends where it is */
    finishes(&o, 0);
    assert_int_equal(old->state, NODE_WORKER_CLOSING);
    ends(old->proc, "exited with 0");
    assert_int_equal(model->state, NODE_MODEL_READY);
}

/* ---- reasons ---- */

static void the_reason_for_a_missing_replica_follows_what_is_missing(void **state)
{
    (void)state;
    add_gpus(3);
    serve_with(model, 2);
    assert_string_equal(model->replicas_reason, "");
    all.replicas = 8;
    watch(); /* the third one loads */
    assert_string_equal(model->replicas_reason, "the node has 3 GPUs");
    opens(&model->replicas[2]);
    all.replicas = 3;
    watch();
    assert_string_equal(model->replicas_reason, "");

    node_health_note_xid(&all.pools.pool[model->replicas[2].pool].health, 79);
    node_health_watch(&all);
    watch();
    assert_string_equal(model->replicas_reason, "the node has 3 GPUs, and 1 of them is faulty");
    all.replicas = 2;
    watch();
    assert_string_equal(model->replicas_reason, "");

    all.pools.pool[model->replicas[1].pool].state.total = 500 * MB;
    ends(model->replicas[1].worker->proc, "killed by SIGKILL");
    watch();
    assert_string_equal(model->replicas_reason,
                        "no GPU that may hold one more replica has 572.2 MiB free");
    node_model_unload(model, "the test wants it");
    watch();
    assert_string_equal(model->replicas_reason, "");
}

static void the_reason_names_the_failure_of_a_replica_that_waits_for_its_next_try(void **state)
{
    (void)state;
    add_gpus(2);
    all.replicas = 2;
    load_first(model);
    watch();
    says_failed(model->replicas[1].worker->proc, LR_INTERNAL);
    ends(model->replicas[1].worker->proc, "exited with 1");
    watch();
    assert_string_equal(model->replicas_reason,
                        "a replica failed and waits for its next try: it does not work");
    lr_fake_clock_advance_ms(&time_, 1000);
    watch();
    assert_string_equal(model->replicas_reason, "");
    opens(&model->replicas[1]);
}

static void the_reason_names_the_model_that_waits_for_the_memory(void **state)
{
    (void)state;
    add_gpus(2);
    serve_with(model, 2);
    models[1].has_own_replicas = true;
    models[1].own_replicas = 1;
    node_model_load(&models[1]);
    says_gpu_need(newest(), WIRE_PROBED);
    ends(newest(), "exited with 0");
    size_t leaves = model->replicas[0].state == NODE_REPLICA_DRAINING ? 0 : 1;
    watch();
    assert_string_equal(model->replicas_reason,
                        "a replica that is leaving still holds its GPU");
    models[1].wants_room = false; /* so that the memory stays where it is */
    ends(model->replicas[leaves].worker->proc, "exited with 0");
    models[1].wants_room = true;
    watch();
    assert_string_equal(model->replicas_reason, "model \"two\" waits for the memory");
    models[1].wants_room = false;
}

/* ---- KV memory ---- */

static void says_elastic_need(struct node_proc *proc, enum wire_type type, uint64_t total)
{
    struct lr_engine_need need = {.size = sizeof(need),
                                  .total = total,
                                  .kv = 100 * MB,
                                  .kv_most = 900 * MB,
                                  .max_sequences = SLOTS,
                                  .on_device = 1};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_need_encode(&buf, type, &need);
    say(proc, &buf);
}

static struct node_worker *serve_elastic(struct node_model *m, uint64_t total)
{
    node_model_load(m);
    says_elastic_need(newest(), WIRE_PROBED, total);
    ends(newest(), "exited with 0");
    says_elastic_need(m->replicas[0].worker->proc, WIRE_OPENED, total);
    assert_int_equal(m->replicas[0].state, NODE_REPLICA_READY);
    return m->replicas[0].worker;
}

/* Live requests hold all that it may have; the worker has obeyed the last limit. */
static void is_full(struct node_worker *w)
{
    w->stats.kv_bytes = w->stats.kv_bytes_in_use = w->kv_limit;
    w->stats.kv_bytes_reclaimable = 0;
    node_kv_limit_settle(w, true);
}

static void kv_memory_grows_while_a_model_waits_for_memory_of_another_gpu(void **state)
{
    (void)state;
    add_gpus(2);
    struct node_worker *w = serve_elastic(model, 300 * MB);
    models[1].wants_room = true; /* as long as others must leave there */
    models[1].room_pool = w->pool;
    is_full(w);
    (void)node_kv_limit_watch(&all, w->pool);
    assert_int_equal(w->kv_limit, 100 * MB);
    models[1].room_pool = 3 - w->pool;
    (void)node_kv_limit_watch(&all, w->pool);
    assert_int_equal(w->kv_limit, 150 * MB);
    models[1].wants_room = false;
}

static void kv_memory_grows_while_a_replica_waits_for_memory_of_another_gpu(void **state)
{
    (void)state;
    add_gpus(2);
    struct node_worker *one = serve_elastic(model, 600 * MB);
    struct node_worker *two = serve_elastic(&models[1], 200 * MB);
    assert_int_not_equal(one->pool, two->pool);
    for (size_t i = 0; i < 8; i++) {
        is_full(two);
        (void)node_kv_limit_watch(&all, two->pool);
    }
    is_full(two);
    assert_true(two->reserved > 900ull * MB);
    /* Its requests have ended. */
    two->stats.kv_bytes_in_use = 0;
    two->stats.kv_bytes_reclaimable = two->stats.kv_bytes;
    model->has_own_replicas = true;
    model->own_replicas = 2;
    watch();
    assert_string_equal(model->replicas_reason,
                        "a replica waits for KV memory that other models give back");
    assert_int_equal(two->proc->last, WIRE_LIMIT_KV);

    is_full(one);
    (void)node_kv_limit_watch(&all, one->pool);
    assert_int_equal(one->kv_limit, 150 * MB);

    /* What the other model gives back is not the other model's again. */
    two->stats.kv_bytes = two->kv_sent;
    two->stats.kv_bytes_in_use = two->kv_sent;
    node_kv_limit_settle(two, true);
    uint64_t given = two->kv_limit;
    (void)node_kv_limit_watch(&all, two->pool);
    assert_int_equal(two->kv_limit, given);
    watch();
    assert_int_equal(model->replicas[1].pool, two->pool);
    assert_int_equal(model->replicas[1].state, NODE_REPLICA_LOADING);
}

/* ---- balance ---- */

static void requests_go_to_the_replica_with_the_least_to_do(void **state)
{
    static struct owner o[2 * SLOTS + 4];
    (void)state;
    add_gpus(2);
    serve_with(model, 2);
    const struct node_worker *a = model->replicas[0].worker, *b = model->replicas[1].worker;
    for (size_t i = 0; i < 2 * SLOTS; i++) {
        (void)ask_text(&o[i], "x", false);
        gives_token(&o[i]);
    }
    assert_int_equal(a->live_count, SLOTS);
    assert_int_equal(b->live_count, SLOTS);
    /* Beyond the slots of both, and then into the queue that both share. */
    for (size_t i = 2 * SLOTS; i < 2 * SLOTS + 4; i++) {
        (void)ask_text(&o[i], "x", false);
        gives_token(&o[i]);
    }
    assert_int_equal(a->live_count, SLOTS + 2);
    assert_int_equal(b->live_count, SLOTS + 2);
    static struct owner late;
    assert_null(ask_text(&late, "x", false));
    finishes(&o[1], 0);
    assert_non_null(late.generation->attempt.worker);
}

static void a_conversation_goes_to_the_replica_that_has_its_prefix(void **state)
{
    static char text[4096], other[4096];
    static struct owner o;
    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    memset(other, 'b', sizeof(other) - 1);
    add_gpus(2);
    serve_with(model, 2);
    struct node_worker *first = ask_text(&o, text, false);
    gives_token(&o);
    finishes(&o, 64); /* the engine has a prefix cache */
    for (size_t i = 0; i < 4; i++) {
        static struct owner busy;
        /* The replica with the prefix has one request more to do, and is cheaper still. */
        struct node_worker *w = ask_text(&busy, other, false);
        gives_token(&busy);
        assert_ptr_equal(ask_text(&o, text, false), first);
        gives_token(&o);
        finishes(&o, 64);
        assert_true(w == model->replicas[0].worker || w == model->replicas[1].worker);
        finishes(&busy, 0);
    }
}

static void
a_conversation_that_began_while_another_replica_was_full_stays_where_it_is(void **state)
{
    enum { FULL = SLOTS + 2 };
    static char text[4096];
    static struct owner others[2 * FULL], o;
    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    add_gpus(2);
    serve_with(model, 2);
    const struct node_worker *a = model->replicas[0].worker, *b = model->replicas[1].worker;
    for (size_t i = 0; i < 2 * FULL; i++) {
        (void)ask_text(&others[i], "x", false);
        gives_token(&others[i]);
    }
    assert_int_equal(a->live_count, FULL);
    for (size_t i = 0; i < 2 * FULL; i++)
        if (others[i].generation->attempt.worker == b)
            finishes(&others[i], 0);
    assert_ptr_equal(ask_text(&o, text, false), b); /* no other one has room */
    gives_token(&o);
    finishes(&o, 64);
    for (size_t i = 0; i < 2 * FULL; i++)
        if (others[i].generation != NULL)
            finishes(&others[i], 0);
    assert_int_equal(a->live_count, 0);
    assert_ptr_equal(ask_text(&o, text, false), b);
    gives_token(&o);
    finishes(&o, 64);
}

static void
a_conversation_of_the_only_replica_stays_there_when_auto_adds_another_one(void **state)
{
    static char text[4096];
    static struct owner others[SLOTS], o;
    (void)state;
    memset(text, 'a', sizeof(text) - 1);
    add_gpus(2);
    all.replicas = NODE_REPLICAS_AUTO;
    load_first(model);
    struct node_worker *first = ask_text(&o, text, false);
    gives_token(&o);
    finishes(&o, 64);
    for (size_t i = 0; i < SLOTS; i++) {
        (void)ask_text(&others[i], "x", false);
        gives_token(&others[i]);
    }
    watch();
    lr_fake_clock_advance_ms(&time_, NODE_SCALE_PRESSED_MS);
    watch();
    opens(&model->replicas[1]);
    finishes(&others[0], 0);
    /* The new replica has nothing to do, and the old one three requests. */
    assert_ptr_equal(ask_text(&o, text, false), first);
    gives_token(&o);
    finishes(&o, 64);
}

static void prompts_are_not_looked_at_where_only_one_replica_is_possible(void **state)
{
    static struct owner o;
    (void)state;
    add_gpus(2);
    all.replicas = 1;
    load_first(model);
    assert_non_null(ask_text(&o, "x", false));
    assert_null(o.generation->prefixes);
    finishes(&o, 0);
    all.replicas = NODE_REPLICAS_AUTO;
    all.pools.count = 2; /* one GPU */
    assert_non_null(ask_text(&o, "x", false));
    assert_null(o.generation->prefixes);
    finishes(&o, 0);
    assert_null(all.prefixes.noted);
}

/* ---- death ---- */

static void
an_answer_that_lost_its_replica_waits_for_a_slot_and_not_for_another_answer(void **state)
{
    static struct owner on_a[SLOTS], on_b[SLOTS], late;
    size_t a_count = 0, b_count = 0;
    (void)state;
    add_gpus(2);
    serve_with(model, 2);
    const struct node_worker *a = model->replicas[0].worker;
    for (size_t i = 0; i < 2 * SLOTS; i++) {
        struct owner *o = a->live_count <= model->replicas[1].worker->live_count
                              ? &on_a[a_count++]
                              : &on_b[b_count++];
        (void)ask_text(o, "x", false);
        gives_token(o);
    }
    ends(model->replicas[1].worker->proc, "killed by SIGKILL");
    assert_int_equal(a->live_count, SLOTS);
    assert_int_equal(model->queue_count, SLOTS);
    /* The next free slot is theirs: nothing goes beyond the slots meanwhile. */
    assert_null(ask_text(&late, "x", false));
    finishes(&on_a[0], 0);
    assert_int_equal(a->live_count, SLOTS);
    assert_null(late.generation->attempt.worker);
    watch();
    opens(&model->replicas[1]);
    for (size_t i = 0; i < SLOTS; i++)
        assert_non_null(on_b[i].generation->attempt.worker);
    assert_non_null(late.generation->attempt.worker);
}

static void the_death_of_a_replica_is_the_load_of_the_others(void **state)
{
    static struct owner kept, lost;
    (void)state;
    add_gpus(2);
    serve_with(model, 2);
    struct node_worker *a = ask_text(&kept, "x", false), *b = ask_text(&lost, "x", true);
    assert_ptr_not_equal(a, b);
    gives_token(&kept);
    gives_token(&lost);
    ends(b->proc, "killed by SIGKILL");
    assert_true(lost.is_lost); /* its owner submits it again */
    assert_int_equal(model->state, NODE_MODEL_READY);
    ends(a->proc, "killed by SIGKILL");
    /* That was the last one: the model is loaded again for the request that the node kept. */
    assert_int_equal(model->state, NODE_MODEL_LOADING);
    opens(&model->replicas[0]);
    assert_ptr_equal(kept.generation->attempt.worker, model->replicas[0].worker);
}

static void a_request_of_a_dead_replica_goes_on_in_another_one_at_once(void **state)
{
    static struct owner o[2];
    (void)state;
    add_gpus(2);
    serve_with(model, 2);
    for (size_t i = 0; i < 2; i++) {
        (void)ask_text(&o[i], "x", false);
        gives_token(&o[i]);
    }
    struct node_worker *dead = o[0].generation->attempt.worker;
    struct node_worker *alive = o[1].generation->attempt.worker;
    struct node_replica *r = dead->replica;
    uint32_t pool = dead->pool;
    ends(dead->proc, "killed by SIGKILL");
    assert_int_equal(model->state, NODE_MODEL_READY);
    assert_int_equal(model->breaker.failures, 0);
    assert_ptr_equal(o[0].generation->attempt.worker, alive);
    watch();
    assert_int_equal(r->state, NODE_REPLICA_LOADING);
    assert_int_equal(r->pool, pool);
    opens(r);
    assert_int_equal(node_replicas_ready(model), 2);
}

static void a_replica_that_cannot_be_loaded_waits_and_the_others_serve(void **state)
{
    (void)state;
    add_gpus(2);
    all.replicas = 2;
    load_first(model);
    for (uint64_t pause = 1000; pause <= 4000; pause *= 2) {
        watch();
        struct node_replica *r = &model->replicas[1];
        assert_int_equal(r->state, NODE_REPLICA_LOADING);
        says_failed(r->worker->proc, LR_INTERNAL);
        ends(r->worker->proc, "exited with 1");
        assert_int_equal(model->state, NODE_MODEL_READY);
        lr_fake_clock_advance_ms(&time_, pause - 1);
        watch();
        assert_int_equal(r->state, NODE_REPLICA_EMPTY);
        lr_fake_clock_advance_ms(&time_, 1);
    }
}

/* ---- auto ---- */

static void auto_adds_a_replica_for_requests_that_wait_and_drops_it_again(void **state)
{
    static struct owner o[SLOTS + 1];
    (void)state;
    add_gpus(2);
    all.replicas = NODE_REPLICAS_AUTO;
    load_first(model);
    for (size_t i = 0; i <= SLOTS; i++) {
        (void)ask_text(&o[i], "x", false);
        gives_token(&o[i]);
    }
    watch();
    lr_fake_clock_advance_ms(&time_, NODE_SCALE_PRESSED_MS - 1);
    watch();
    assert_int_equal(model->replicas[1].state, NODE_REPLICA_EMPTY);
    lr_fake_clock_advance_ms(&time_, 1);
    watch();
    opens(&model->replicas[1]);
    for (size_t i = 0; i <= SLOTS; i++)
        finishes(&o[i], 0);
    watch();
    lr_fake_clock_advance_ms(&time_, NODE_SCALE_SLACK_MS);
    watch();
    assert_int_equal(node_replicas_ready(model), 1);
    assert_int_equal(model->state, NODE_MODEL_READY);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(replicas_lie_on_gpus_of_their_own_once_the_first_serves),
        WITH(a_gpu_that_was_named_twice_holds_two_replicas_if_its_memory_does),
        WITH(two_models_that_load_at_once_lie_on_different_gpus),
        WITH(an_extra_replica_leaves_for_a_model_that_needs_its_memory),
        WITH(a_faulty_gpu_loses_its_replica_to_another_gpu),
        WITH(the_reason_for_a_missing_replica_follows_what_is_missing),
        WITH(the_reason_names_the_failure_of_a_replica_that_waits_for_its_next_try),
        WITH(the_reason_names_the_model_that_waits_for_the_memory),
        WITH(kv_memory_grows_while_a_model_waits_for_memory_of_another_gpu),
        WITH(kv_memory_grows_while_a_replica_waits_for_memory_of_another_gpu),
        WITH(requests_go_to_the_replica_with_the_least_to_do),
        WITH(a_conversation_goes_to_the_replica_that_has_its_prefix),
        WITH(a_conversation_that_began_while_another_replica_was_full_stays_where_it_is),
        WITH(a_conversation_of_the_only_replica_stays_there_when_auto_adds_another_one),
        WITH(prompts_are_not_looked_at_where_only_one_replica_is_possible),
        WITH(an_answer_that_lost_its_replica_waits_for_a_slot_and_not_for_another_answer),
        WITH(the_death_of_a_replica_is_the_load_of_the_others),
        WITH(a_request_of_a_dead_replica_goes_on_in_another_one_at_once),
        WITH(a_replica_that_cannot_be_loaded_waits_and_the_others_serve),
        WITH(auto_adds_a_replica_for_requests_that_wait_and_drops_it_again),
    };
#undef WITH
    return cmocka_run_group_tests(tests, NULL, NULL);
}
