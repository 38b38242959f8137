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

int main(void)
{
#define PROMISE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        PROMISE(a_model_that_fits_lies_on_the_card_and_not_on_the_integrated_gpu),
        PROMISE(an_extra_replica_lies_on_a_card_first),
        PROMISE(a_model_that_no_card_can_hold_lies_on_the_integrated_gpu),
        PROMISE(a_model_that_no_device_can_hold_asks_each_of_them_once),
        PROMISE(a_device_that_gives_no_more_than_one_that_was_too_small_is_not_asked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
