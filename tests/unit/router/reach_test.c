/* Nodes that fall silent, and what operators hear of them. */
#include "tests/unit/router/support.h"

#include "router/fleet/reach.h"

enum { NOW = 100000, OFFLINE_MS = 3000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct net_bus events;
static struct router_alerts alerts;
static struct router_nodes nodes;
static struct router_node *node;
static struct router_reach reach;

static int setup(void **state)
{
    struct wire_join told = {.node_id = LR_STR_LIT("node-one")};
    struct lr_error err;
    (void)state;
    net_bus_init(&events);
    router_nodes_init(&nodes);
    alerts = (struct router_alerts){.events = &events};
    reach = (struct router_reach){
        .lock = &lock, .nodes = &nodes, .alerts = &alerts, .offline_ms = OFFLINE_MS};
    return router_nodes_join(&nodes, &told, "http://127.0.0.1:1", NOW, 1, &node, &err) == LR_OK
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    router_alerts_free(&alerts);
    router_nodes_free(&nodes);
    net_bus_free(&events);
    return 0;
}

static bool has_alert(enum router_alert_kind kind)
{
    bool is_open = false;
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++)
        is_open |=
            alerts.all[i].id != 0 && alerts.all[i].kind == kind && alerts.all[i].ended_ms == 0;
    return is_open;
}

static void a_node_that_is_silent_for_the_timeout_is_offline_and_an_alert_says_so(void **state)
{
    (void)state;
    router_reach_watch(&reach, NOW + OFFLINE_MS - 1);
    assert_int_equal(node->state, ROUTER_NODE_ONLINE);
    assert_int_equal(events.count, 0);
    router_reach_watch(&reach, NOW + OFFLINE_MS);
    assert_int_equal(node->state, ROUTER_NODE_OFFLINE);
    assert_true(has_alert(ROUTER_ALERT_NODE_OFFLINE));
    assert_contains(net_bus_kept(&events, 0), "node.offline");
}

/* Another loop may take a heartbeat after the watch has read the clock. */
static void a_heartbeat_later_than_the_time_of_the_watch_is_no_silence(void **state)
{
    (void)state;
    router_reach_watch(&reach, NOW - 1);
    assert_int_equal(node->state, ROUTER_NODE_ONLINE);
}

static void
a_silent_node_that_was_out_of_reach_is_offline_and_only_its_silence_is_told(void **state)
{
    (void)state;
    struct lr_error why;
    (void)lr_fail(&why, LR_UPSTREAM, "why");
    router_node_move(node, ROUTER_NODE_UNREACHABLE);
    router_alert_raise(&alerts, ROUTER_ALERT_NODE_UNREACHABLE, node, lr_str_z(""), &why);
    router_reach_watch(&reach, NOW + OFFLINE_MS);
    assert_int_equal(node->state, ROUTER_NODE_OFFLINE);
    assert_false(has_alert(ROUTER_ALERT_NODE_UNREACHABLE));
    assert_true(has_alert(ROUTER_ALERT_NODE_OFFLINE));
}

static void a_node_that_said_it_leaves_is_not_missed(void **state)
{
    (void)state;
    node->is_draining = true;
    router_reach_watch(&reach, NOW + OFFLINE_MS);
    assert_int_equal(node->state, ROUTER_NODE_OFFLINE);
    assert_false(has_alert(ROUTER_ALERT_NODE_OFFLINE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            a_node_that_is_silent_for_the_timeout_is_offline_and_an_alert_says_so, setup,
            teardown),
        cmocka_unit_test_setup_teardown(
            a_heartbeat_later_than_the_time_of_the_watch_is_no_silence, setup, teardown),
        cmocka_unit_test_setup_teardown(
            a_silent_node_that_was_out_of_reach_is_offline_and_only_its_silence_is_told, setup,
            teardown),
        cmocka_unit_test_setup_teardown(a_node_that_said_it_leaves_is_not_missed, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
