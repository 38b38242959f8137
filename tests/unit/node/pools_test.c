/* On which device of the machine a model lies. No process runs, and time moves when the test
 * says so. */
#include "tests/unit/node/support.h"

#define GB 1000000000ull

/* A card and the GPU of the processor, which shares the machine's memory. */
static void add_card_and_integrated(uint64_t card, uint64_t integrated)
{
    const struct wire_device devices[] = {{.number = 0,
                                           .title = "integrated",
                                           .type = "integrated",
                                           .uuid = "a",
                                           .memory = integrated,
                                           .budget = integrated},
                                          {.number = 1,
                                           .title = "card",
                                           .type = "discrete",
                                           .uuid = "b",
                                           .memory = card,
                                           .budget = card}};

    node_pools_replace(&all.pools, devices, 2);
    (void)snprintf(all.devices.kind, sizeof(all.devices.kind), "vulkan");
    all.devices.is_cpu = false;
}

static const char *title_of(uint32_t pool)
{
    return all.pools.pool[pool].title;
}

static void says_gpu_need(struct node_proc *proc, enum wire_type type, uint64_t total)
{
    struct lr_engine_need need = {
        .size = sizeof(need), .total = total, .max_sequences = 4, .on_device = 1};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_need_encode(&buf, type, &need);
    say(proc, &buf);
}

/* The engine of the newest process says what the model needs. */
static void probed(uint64_t total)
{
    assert_true(newest()->is_probe && !newest()->has_ended);
    says_gpu_need(newest(), WIRE_PROBED, total);
    ends(newest(), "exited with 0");
}

static void refused(lr_code code)
{
    says_failed(newest(), code);
    ends(newest(), "exited with 1");
}

static void loads_on(struct node_model *m, const char *title)
{
    assert_int_equal(m->state, NODE_MODEL_LOADING);
    assert_string_equal(title_of(m->replicas[0].pool), title);
}

/* ---- the kind of the device before its memory ---- */

static void a_model_that_fits_lies_on_the_card_and_not_on_the_integrated_gpu(void **state)
{
    (void)state;
    add_card_and_integrated(16 * GB, 24 * GB);
    node_model_load(model);
    probed(14 * GB);
    loads_on(model, "card");
    all.replicas = 2;
    says_gpu_need(newest(), WIRE_OPENED, 14 * GB);
    node_replicas_watch(&all, node_now(&all));
    assert_string_equal(title_of(model->replicas[1].pool), "integrated");
}

static void an_extra_replica_lies_on_a_card_first(void **state)
{
    (void)state;
    add_card_and_integrated(16 * GB, 24 * GB);
    uint32_t card = strcmp(title_of(1), "card") == 0 ? 1 : 2;
    all.pools.pool[card].copies = 2;
    all.replicas = 2;
    node_model_load(model);
    probed(7 * GB);
    loads_on(model, "card");
    says_gpu_need(newest(), WIRE_OPENED, 7 * GB);
    node_replicas_watch(&all, node_now(&all));
    assert_int_equal(model->replicas[1].pool, card);
}

static void a_model_that_no_card_can_hold_lies_on_the_integrated_gpu(void **state)
{
    (void)state;
    add_card_and_integrated(8 * GB, 24 * GB);
    node_model_load(model);
    refused(LR_OUT_OF_VRAM); /* the engine was asked for a plan with 8 GB */
    probed(14 * GB);
    loads_on(model, "integrated");
}

static void a_model_that_no_device_can_hold_asks_each_of_them_once(void **state)
{
    (void)state;
    add_card_and_integrated(8 * GB, 12 * GB);
    node_model_load(model);
    refused(LR_OUT_OF_VRAM);
    assert_int_equal(model->state, NODE_MODEL_STARTING);
    refused(LR_OUT_OF_VRAM);
    assert_int_equal(model->state, NODE_MODEL_WAITING);
    assert_int_equal(proc_count, 2);
}

static void a_device_that_gives_no_more_than_one_that_was_too_small_is_not_asked(void **state)
{
    (void)state;
    add_card_and_integrated(8 * GB, 6 * GB);
    node_model_load(model);
    refused(LR_OUT_OF_VRAM);
    assert_int_equal(model->state, NODE_MODEL_WAITING);
    assert_int_equal(proc_count, 1);
}

/* ---- GPUs that an engine cannot use ---- */

static void an_engine_that_refuses_one_gpu_runs_the_model_on_another(void **state)
{
    (void)state;
    add_card_and_integrated(48 * GB, 24 * GB);
    node_model_load(model);
    refused(LR_UNSUPPORTED); /* asked about the plan */
    probed(14 * GB);
    loads_on(model, "integrated");
    says_gpu_need(newest(), WIRE_OPENED, 14 * GB);
    assert_int_equal(model->state, NODE_MODEL_READY);
    /* The refused one gets neither extra replicas nor the next load. */
    all.replicas = 2;
    node_replicas_watch(&all, node_now(&all));
    assert_int_equal(model->replicas[1].state, NODE_REPLICA_EMPTY);
    assert_string_equal(model->replicas_reason,
                        "the node has 2 GPUs, and the engine cannot use 1 of them");
    ends(newest(), "killed by SIGKILL");
    node_model_load(model);
    loads_on(model, "integrated");
}

static void a_gpu_that_is_refused_while_the_model_loads_is_left_for_another(void **state)
{
    (void)state;
    add_card_and_integrated(48 * GB, 24 * GB);
    node_model_load(model);
    probed(14 * GB);
    loads_on(model, "card");
    refused(LR_UNSUPPORTED);
    loads_on(model, "integrated");
}

static void a_gpu_that_refuses_an_extra_replica_is_not_tried_again(void **state)
{
    (void)state;
    add_card_and_integrated(16 * GB, 24 * GB);
    all.replicas = 2;
    node_model_load(model);
    probed(14 * GB);
    says_gpu_need(newest(), WIRE_OPENED, 14 * GB);
    node_replicas_watch(&all, node_now(&all));
    assert_string_equal(title_of(model->replicas[1].pool), "integrated");
    refused(LR_UNSUPPORTED);
    lr_fake_clock_advance_ms(&time_, 1000000);
    node_replicas_watch(&all, node_now(&all));
    assert_int_equal(model->replicas[1].state, NODE_REPLICA_EMPTY);
    assert_int_equal(model->state, NODE_MODEL_READY);
}

static void an_extra_replica_passes_the_gpu_that_the_engine_refused(void **state)
{
    (void)state;
    add_card_and_integrated(48 * GB, 24 * GB);
    uint32_t other = strcmp(title_of(1), "card") == 0 ? 2 : 1;
    all.pools.pool[3] = all.pools.pool[other];
    all.pools.count = 4;
    all.replicas = 2;
    node_model_load(model);
    refused(LR_UNSUPPORTED);
    probed(14 * GB);
    says_gpu_need(newest(), WIRE_OPENED, 14 * GB);
    node_replicas_watch(&all, node_now(&all));
    assert_int_equal(model->replicas[1].state, NODE_REPLICA_LOADING);
    assert_string_equal(title_of(model->replicas[1].pool), "integrated");
}

static void a_model_that_every_gpu_refuses_does_not_load_and_the_next_try_asks_all(void **state)
{
    (void)state;
    add_card_and_integrated(48 * GB, 24 * GB);
    for (int i = 0; i < 2; i++) {
        node_model_load(model);
        refused(LR_UNSUPPORTED);
        assert_int_equal(model->state, NODE_MODEL_STARTING);
        refused(LR_UNSUPPORTED);
        assert_int_equal(model->state, NODE_MODEL_WAITING);
    }
    assert_int_equal(proc_count, 4);
}

static void another_version_of_the_engine_is_asked_about_every_gpu(void **state)
{
    (void)state;
    add_card_and_integrated(48 * GB, 24 * GB);
    node_model_load(model);
    refused(LR_UNSUPPORTED);
    probed(14 * GB);
    loads_on(model, "integrated");
    refused(LR_INTERNAL);
    engine.library = &other_library;
    lr_fake_clock_advance_ms(&time_, 1000000);
    node_model_load(model);
    probed(14 * GB);
    loads_on(model, "card");
}

int main(void)
{
#define PROMISE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        PROMISE(a_model_that_fits_lies_on_the_card_and_not_on_the_integrated_gpu),
        PROMISE(an_extra_replica_lies_on_a_card_first),
        PROMISE(a_model_that_no_card_can_hold_lies_on_the_integrated_gpu),
        PROMISE(a_model_that_no_device_can_hold_asks_each_of_them_once),
        PROMISE(a_device_that_gives_no_more_than_one_that_was_too_small_is_not_asked),
        PROMISE(an_engine_that_refuses_one_gpu_runs_the_model_on_another),
        PROMISE(a_gpu_that_is_refused_while_the_model_loads_is_left_for_another),
        PROMISE(a_gpu_that_refuses_an_extra_replica_is_not_tried_again),
        PROMISE(an_extra_replica_passes_the_gpu_that_the_engine_refused),
        PROMISE(a_model_that_every_gpu_refuses_does_not_load_and_the_next_try_asks_all),
        PROMISE(another_version_of_the_engine_is_asked_about_every_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
