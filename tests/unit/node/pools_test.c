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

/* ---- many GPUs ---- */

static void models_wait_for_room_on_each_of_64_gpus(void **state)
{
    (void)state;
    add_card_and_integrated(16 * GB, 16 * GB);
    for (uint32_t i = 1; i < NODE_POOLS_MAX; i++) {
        all.pools.pool[i] = all.pools.pool[1];
        all.pools.pool[i].state.total = GB;
    }
    all.pools.count = NODE_POOLS_MAX;
    all.pools.pool[40].state.total = 16 * GB; /* the only one with room for one of them */
    node_model_load(&models[0]);
    probed(14 * GB);
    says_gpu_need(newest(), WIRE_OPENED, 14 * GB);
    node_model_load(&models[1]);
    probed(14 * GB);
    assert_true(models[1].wants_room);
    assert_int_equal(models[1].room_pool, 40);
    node_admit_waiting(&all);
    assert_true(models[1].wants_room); /* the first one has not left */
    ends(models[0].replicas[0].worker->proc, "exited with 0");
    assert_int_equal(models[1].state, NODE_MODEL_LOADING);
    assert_int_equal(models[1].replicas[0].pool, 40);
}

/* ---- memory that other programs hold ---- */

static struct wire_device game_card = {
    .number = 0, .title = "card", .type = "discrete", .uuid = "b", .memory = 24 * GB};
static uint32_t lists; /* that were asked for */

static bool begin_list(struct node_models *m)
{
    assert_ptr_equal(m, &all);
    lists++;
    return true;
}

/* One card of 24 GB, of which other programs hold so much. */
static void add_card_beside(uint64_t others)
{
    lists = 0;
    add_card_and_integrated(1, 1); /* sets the kind of devices */
    game_card.budget = game_card.memory - others;
    node_pools_replace(&all.pools, &game_card, 1);
    all.refresh.begin = begin_list;
}

static void is_listed_with(uint64_t others)
{
    game_card.budget = game_card.memory - others;
    node_device_refreshed(&all, &game_card, 1);
}

static void memory_that_a_game_has_given_back_is_found_before_a_load(void **state)
{
    (void)state;
    add_card_beside(14 * GB);
    assert_int_equal(all.pools.pool[1].state.total, 24 * GB);
    assert_int_equal(all.pools.pool[1].state.used, 14 * GB);
    node_model_load(model);
    assert_int_equal(lists, 1);
    assert_int_equal(proc_count, 0); /* the list comes first */
    is_listed_with(1 * GB);
    probed(14 * GB);
    loads_on(model, "card");
}

static void a_load_asks_for_one_list_and_lists_are_ten_seconds_apart(void **state)
{
    (void)state;
    add_card_beside(14 * GB);
    node_model_load(model);
    is_listed_with(14 * GB);
    probed(14 * GB); /* by the card's limit */
    probed(14 * GB); /* and with what is free */
    assert_int_equal(model->state, NODE_MODEL_WAITING);
    node_model_load(model);
    assert_int_equal(lists, 1);
    assert_int_equal(model->state,
                     NODE_MODEL_STARTING); /* without a list, it goes on at once */
    probed(14 * GB);
    assert_int_equal(model->state, NODE_MODEL_WAITING);
    lr_fake_clock_advance_ms(&time_, 10000);
    node_model_load(model);
    assert_int_equal(lists, 2);
    node_device_refreshed(&all, NULL, 0); /* the list could not be read */
    probed(14 * GB);
    assert_int_equal(model->state, NODE_MODEL_WAITING);
}

static void memory_that_a_game_has_taken_meanwhile_is_found_before_the_next_try(void **state)
{
    (void)state;
    add_card_beside(0);
    node_model_load(model);
    assert_int_equal(lists, 0);
    probed(20 * GB);
    refused(LR_OUT_OF_VRAM); /* while it loads */
    assert_int_equal(model->state, NODE_MODEL_WAITING);
    lr_fake_clock_advance_ms(&time_, 1000000);
    node_model_load(model);
    assert_int_equal(lists, 1);
    is_listed_with(9 * GB);
    probed(14 * GB); /* with what is free: 20 GB are too much now */
    loads_on(model, "card");
}

static void a_device_over_its_threshold_is_listed_until_others_have_left(void **state)
{
    (void)state;
    add_card_beside(23 * GB);
    all.pools.pool[1].state.limit_percent = 90;
    node_memory_watch(&all, node_now(&all));
    node_memory_watch(&all, node_now(&all));
    assert_int_equal(lists, 1);
    assert_true(all.pools.pool[1].is_over);
    is_listed_with(1 * GB);
    lr_fake_clock_advance_ms(&time_, 10000);
    node_memory_watch(&all, node_now(&all));
    assert_int_equal(lists, 1);
    assert_false(all.pools.pool[1].is_over);
}

static void what_our_own_models_hold_is_not_taken_for_that_of_others(void **state)
{
    (void)state;
    add_card_beside(1 * GB);
    node_model_load(model);
    is_listed_with(1 * GB);
    probed(14 * GB);
    says_gpu_need(newest(), WIRE_OPENED, 14 * GB);
    model->replicas[0].worker->stats.weights_bytes = 13 * GB;
    node_measure(&all);
    assert_int_equal(all.pools.pool[1].state.used, 14 * GB);
    is_listed_with(16 * GB);
    assert_int_equal(all.pools.pool[1].foreign, 3 * GB);
    assert_int_equal(all.pools.pool[1].state.used, 16 * GB);
    ends(newest(), "killed by SIGKILL");
    node_measure(&all);
    assert_int_equal(all.pools.pool[1].state.used, 3 * GB);
}

static void on_event(void *ctx, const struct wire_frame *frame)
{
    bool *has_ended = ctx;
    *has_ended = *has_ended || wire_event_is_last(frame->type);
}

static void a_request_for_a_model_that_waits_for_memory_leads_to_a_list(void **state)
{
    struct lr_segment segment = {.text = "x", .len = 1};
    bool has_ended = false;
    struct node_sink sink = {.ctx = &has_ended, .on_event = on_event};
    struct node_generation *generation;
    struct wire_generate g;
    struct lr_error err;
    (void)state;
    add_card_beside(14 * GB);
    node_model_load(model);
    is_listed_with(14 * GB);
    probed(14 * GB);
    probed(14 * GB);
    assert_int_equal(model->state, NODE_MODEL_WAITING);
    lr_fake_clock_advance_ms(&time_, 10000);
    wire_generate_defaults(&g);
    g.request_id = lr_str_z("r");
    g.model = lr_str_z(model->id);
    g.segments = &segment;
    g.segment_count = 1;
    assert_int_equal(node_generation_start(model, &g, sink, &generation, &err), LR_OK);
    assert_int_equal(lists, 2);
    is_listed_with(1 * GB);
    assert_int_not_equal(model->state, NODE_MODEL_WAITING);
}

/* ---- the list itself: this program prints it, started as a node starts itself ---- */

static int print_list(void)
{
    struct lr_buf text;
    lr_buf_init(&text, 4096);
    game_card.budget = 20 * GB;
    wire_devices_write(&text, &game_card, 1);
    (void)printf("%.*s\n", (int)text.len, text.data);
    lr_buf_free(&text);
    return 0;
}

static void open_list(void)
{
    add_card_beside(14 * GB);
    assert_int_equal(net_loop_create(&all.loop, NULL), LR_OK);
    node_device_refresh_open(&all);
    assert_true(node_device_refresh(&all));
    assert_true(node_device_refresh(&all)); /* the same one */
}

static void stop_when_listed(void *arg)
{
    (void)arg;
    if (!all.refresh.is_running)
        net_loop_stop(all.loop);
}

static void a_list_is_read_while_the_loop_goes_on(void **state)
{
    (void)state;
    open_list();
    (void)net_timer_start(all.loop, 1, 1, stop_when_listed, NULL);
    net_loop_run(all.loop);
    assert_int_equal(all.pools.pool[1].state.used, 4 * GB);
    node_device_refresh_close(&all);
    net_loop_destroy(all.loop);
}

static void a_node_that_ends_while_a_list_is_read_does_not_use_it(void **state)
{
    (void)state;
    open_list();
    node_device_refresh_close(&all);
    net_loop_destroy(all.loop); /* waits for the list */
    assert_int_equal(all.pools.pool[1].state.used, 14 * GB);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "worker") == 0)
        return print_list();
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
        PROMISE(models_wait_for_room_on_each_of_64_gpus),
        PROMISE(memory_that_a_game_has_given_back_is_found_before_a_load),
        PROMISE(a_load_asks_for_one_list_and_lists_are_ten_seconds_apart),
        PROMISE(memory_that_a_game_has_taken_meanwhile_is_found_before_the_next_try),
        PROMISE(a_device_over_its_threshold_is_listed_until_others_have_left),
        PROMISE(what_our_own_models_hold_is_not_taken_for_that_of_others),
        PROMISE(a_request_for_a_model_that_waits_for_memory_leads_to_a_list),
        PROMISE(a_list_is_read_while_the_loop_goes_on),
        PROMISE(a_node_that_ends_while_a_list_is_read_does_not_use_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
