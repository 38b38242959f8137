/* Alerts: one for each cause, numbers that stay, a bounded table, silences. */
#include "tests/unit/router/support.h"

#include "base/clock.h"
#include "router/fleet/alerts.h"

static struct router_alerts alerts; /* large */
static struct net_bus events;

static int setup(void **state)
{
    (void)state;
    net_bus_init(&events);
    alerts = (struct router_alerts){.events = &events};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    router_alerts_free(&alerts);
    net_bus_free(&events);
    return 0;
}

static struct router_node *node(int number)
{
    static struct router_node made;
    made = (struct router_node){0};
    (void)snprintf(made.id, sizeof(made.id), "node-%d", number);
    (void)snprintf(made.name, sizeof(made.name), "n%d", number);
    return &made;
}

static void raise_on(int number, const char *subject)
{
    struct lr_error why;
    (void)lr_fail(&why, LR_MODEL_CORRUPT, "it is cut");
    router_alert_raise(&alerts, ROUTER_ALERT_MODEL_FAILED, node(number), lr_str_z(subject),
                       &why);
}

static const struct router_alert *only_alert(void)
{
    assert_int_equal(alerts.all[1].id, 0);
    return &alerts.all[0];
}

static void nodes_with_one_cause_are_one_alert_that_ends_with_the_last_of_them(void **state)
{
    (void)state;
    for (int i = 0; i < 300; i++)
        raise_on(i, "m");
    raise_on(7, "m"); /* again: still one node */
    const struct router_alert *a = only_alert();
    assert_int_equal(a->node_count, 300);
    assert_int_equal(a->count, 301);
    assert_string_equal(a->node, "node-7");
    for (int i = 299; i >= 1; i--)
        router_alert_settle(&alerts, ROUTER_ALERT_MODEL_FAILED, node(i), lr_str_z("m"));
    assert_true(router_alert_is_open(a));
    assert_string_equal(a->node_name, "n0");
    router_alert_settle(&alerts, ROUTER_ALERT_MODEL_FAILED, node(5), lr_str_z("m"));
    assert_true(router_alert_is_open(a)); /* of a node without it */
    router_alerts_settle_node(&alerts, node(0));
    assert_false(router_alert_is_open(a));
    raise_on(3, "m");
    assert_true(router_alert_is_open(only_alert()));
}

static void the_number_follows_from_kind_and_subject_and_the_router_is_apart(void **state)
{
    (void)state;
    raise_on(1, "m");
    uint64_t id = alerts.all[0].id;
    assert_true(id > 0 && id < (UINT64_C(1) << 48));
    router_alerts_free(&alerts);
    raise_on(2, "other");
    raise_on(2, "m");
    assert_int_equal(alerts.all[1].id, id);
    assert_int_not_equal(alerts.all[0].id, id);
    struct lr_error why;
    (void)lr_fail(&why, LR_IO, "own");
    router_alert_raise(&alerts, ROUTER_ALERT_CERTIFICATE_ENDS, node(1), lr_str_z(""), &why);
    assert_true(router_alert_watch(&alerts, ROUTER_ALERT_CERTIFICATE_ENDS, true, &why));
    assert_int_not_equal(alerts.all[2].id, alerts.all[3].id);
    assert_true(alerts.all[3].is_own);
    assert_ptr_equal(router_alerts_find(&alerts, id), &alerts.all[1]);
    assert_null(router_alerts_find(&alerts, 0));
}

static void the_oldest_alert_that_is_over_makes_room(void **state)
{
    char subject[16];
    (void)state;
    for (int i = 0; i < ROUTER_ALERTS_MAX; i++) {
        (void)snprintf(subject, sizeof(subject), "m%d", i);
        raise_on(1, subject);
    }
    router_alert_settle(&alerts, ROUTER_ALERT_MODEL_FAILED, node(1), lr_str_z("m42"));
    raise_on(2, "new");
    assert_string_equal(alerts.all[42].subject, "new");
    assert_int_equal(alerts.all[42].node_count, 1);
}

static void a_silenced_alert_is_listed_and_not_counted_until_the_silence_ends(void **state)
{
    struct lr_buf out;
    (void)state;
    raise_on(1, "m");
    lr_buf_init(&out, 1 << 20);
    struct router_silence silence = {.alert = alerts.all[0].id,
                                     .until_ms = lr_clock_wall_ms(NULL) + 60000};
    router_silences_set(&alerts.silences, &silence);
    router_alerts_metrics(&alerts, &out);
    assert_contains(lr_buf_z(&out), "{kind=\"model_failed\",level=\"error\"} 0\n");
    silence.until_ms = lr_clock_wall_ms(NULL) - 1;
    router_silences_set(&alerts.silences, &silence);
    assert_int_equal(alerts.silences.count, 1);
    lr_buf_clear(&out);
    router_alerts_metrics(&alerts, &out);
    assert_contains(lr_buf_z(&out), "{kind=\"model_failed\",level=\"error\"} 1\n");
    for (uint64_t i = 1; i <= ROUTER_SILENCES_MAX + 1; i++) {
        silence = (struct router_silence){.alert = i, .until_ms = INT64_MAX / 2};
        router_silences_set(&alerts.silences, &silence);
    }
    assert_int_equal(alerts.silences.count, ROUTER_SILENCES_MAX);
    lr_buf_free(&out);
}

/* A heartbeat of the node with two GPUs. */
static void beat(struct router_node *from, bool is_faulty_0, bool is_faulty_1)
{
    const struct wire_fleet_pool pools[] = {
        {.name = lr_str_z("GPU-0"),
         .title = lr_str_z("H200"),
         .gpu = {.is_faulty = is_faulty_0},
         .fault = lr_str_z("it is hot")},
        {.name = lr_str_z("GPU-1"), .title = lr_str_z("H200"), .gpu.is_faulty = is_faulty_1},
    };
    const struct wire_heartbeat heartbeat = {.epoch = 1, .pools = pools, .pool_count = 2};
    router_alerts_heartbeat(&alerts, from, &heartbeat);
}

static void the_alert_of_a_faulty_gpu_follows_the_heartbeats_without_an_event(void **state)
{
    struct router_node a = *node(1), b = *node(2);
    (void)state;
    beat(&a, true, false);
    beat(&a, true, false);
    const struct router_alert *alert = only_alert();
    assert_int_equal(alert->kind, ROUTER_ALERT_GPU_FAULTY);
    assert_string_equal(alert->subject, "GPU-0");
    assert_string_equal(alert->message, "H200 (GPU-0): it is hot");
    assert_int_equal(alert->count, 1);
    beat(&b, true, true);
    assert_int_equal(alert->node_count, 2);
    assert_string_equal(alerts.all[1].subject, "GPU-1");
    assert_contains(alerts.all[1].message, "H200 (GPU-1): "); /* its node says no reason */
    beat(&a, false, false);
    assert_true(router_alert_is_open(alert)); /* on the other node */
    assert_int_equal(alert->node_count, 1);
    beat(&b, false, true);
    assert_false(router_alert_is_open(alert));
    assert_true(router_alert_is_open(&alerts.all[1]));
    beat(&a, true, false);
    assert_true(router_alert_is_open(alert));
}

static void the_event_of_a_faulty_gpu_and_its_heartbeats_are_one_alert(void **state)
{
    struct router_node from = *node(1);
    struct lr_arena arena;
    const struct lr_json *event = NULL;
    (void)state;
    lr_arena_init(&arena, 1 << 16);
    assert_int_equal(lr_json_parse(&arena,
                                   lr_str_z("{\"event\":\"gpu_faulty\",\"pool\":\"GPU-0\","
                                            "\"reason\":\"H200 (GPU-0): it is hot\"}"),
                                   NULL, &event, NULL),
                     LR_OK);
    const struct wire_fleet_pool pool = {.name = lr_str_z("GPU-0"), .gpu.is_faulty = true};
    struct wire_heartbeat heartbeat = {.epoch = 1,
                                       .pools = &pool,
                                       .pool_count = 1,
                                       .events = &event,
                                       .event_count = 1,
                                       .event_end = 1};
    beat(&from, true, false); /* the figures, then the event with them */
    router_alerts_heartbeat(&alerts, &from, &heartbeat);
    router_alerts_heartbeat(&alerts, &from, &heartbeat);
    assert_int_equal(only_alert()->count, 1);
    assert_int_equal(only_alert()->node_count, 1);
    lr_arena_free(&arena);
}

static void faulty_gpus_that_find_all_alerts_open_do_not_displace_one(void **state)
{
    struct router_node from = *node(1);
    char subject[16];
    (void)state;
    for (int i = 0; i < ROUTER_ALERTS_MAX; i++) {
        (void)snprintf(subject, sizeof(subject), "m%d", i);
        raise_on(1, subject);
    }
    beat(&from, true, true);
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++)
        assert_int_equal(alerts.all[i].kind, ROUTER_ALERT_MODEL_FAILED);
    router_alert_settle(&alerts, ROUTER_ALERT_MODEL_FAILED, node(1), lr_str_z("m7"));
    beat(&from, true, true);
    assert_string_equal(alerts.all[7].subject, "GPU-0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            nodes_with_one_cause_are_one_alert_that_ends_with_the_last_of_them, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            the_number_follows_from_kind_and_subject_and_the_router_is_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(the_oldest_alert_that_is_over_makes_room, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(
            a_silenced_alert_is_listed_and_not_counted_until_the_silence_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_alert_of_a_faulty_gpu_follows_the_heartbeats_without_an_event, setup, teardown),
        cmocka_unit_test_setup_teardown(
            the_event_of_a_faulty_gpu_and_its_heartbeats_are_one_alert, setup, teardown),
        cmocka_unit_test_setup_teardown(
            faulty_gpus_that_find_all_alerts_open_do_not_displace_one, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
