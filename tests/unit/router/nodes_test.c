/* The fleet as the router sees it: joining, heartbeats, falling silent, and the wire form. */
#include "tests/unit/router/support.h"

#include "base/machine.h"
#include "router/fleet/nodes.h"
#include "router/http/api.h"

static struct wire_fleet_model demo(void)
{
    return (struct wire_fleet_model){
        .id = LR_STR_LIT("Org/Demo"),
        .state = LR_STR_LIT("ready"),
        .can_run = true,
        .is_loaded = true,
        .slots = 16,
        .live = 3,
        .format = LR_STR_LIT("safetensors"),
        .chat_template = LR_STR_LIT("{{ messages[0].content }}"),
        .dialect = LR_STR_LIT("harmony"),
        .bos_token = LR_STR_LIT("<s>"),
        .context_tokens = 4096,
    };
}

static struct wire_join a_join(const struct wire_fleet_model *models, size_t count)
{
    return (struct wire_join){
        .protocol = WIRE_PROTOCOL,
        .version = LR_STR_LIT("0.1.0"),
        .node_id = LR_STR_LIT("node-1"),
        .name = LR_STR_LIT("one"),
        .port = 7,
        .device = LR_STR_LIT("cuda"),
        .secret = LR_STR_LIT("0123456789012345678901234567890123456789"),
        .state = {.models = models, .model_count = count},
    };
}

static void a_join_reads_back_as_it_was_written(void **state)
{
    struct wire_fleet_model m = demo();
    struct wire_join in = a_join(&m, 1), out;
    struct lr_arena arena;
    struct lr_buf text;
    struct lr_error err;
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&text, 1 << 20);
    wire_join_write(&text, &in);
    assert_int_equal(wire_join_parse(&arena, lr_buf_str(&text), &out, &err), LR_OK);
    assert_int_equal(out.state.model_count, 1);
    assert_true(lr_str_eq(out.state.models[0].chat_template, m.chat_template));
    assert_true(lr_str_eq_z(out.state.models[0].dialect, "harmony"));
    assert_int_equal(out.state.models[0].slots, 16);
    assert_int_equal(out.port, 7);
    lr_buf_free(&text);
    lr_arena_free(&arena);
}

static void another_protocol_is_refused_with_both_numbers(void **state)
{
    struct wire_join in = a_join(NULL, 0), out;
    struct lr_arena arena;
    struct lr_buf text;
    struct lr_error err;
    (void)state;
    in.protocol = 9;
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&text, 1 << 20);
    wire_join_write(&text, &in);
    assert_int_equal(wire_join_parse(&arena, lr_buf_str(&text), &out, &err), LR_UNSUPPORTED);
    assert_contains(err.text, "protocol 9");
    assert_contains(err.text, "protocol 3");
    assert_contains(err.text, "upgrade the router");
    lr_buf_free(&text);
    lr_arena_free(&arena);
}

static void a_node_that_joined_can_serve_and_shares_its_template(void **state)
{
    struct wire_fleet_model m = demo();
    struct wire_join join = a_join(&m, 1);
    struct router_nodes nodes;
    struct router_node *one, *two;
    struct lr_error err;
    struct lr_error why_not;
    (void)state;
    router_nodes_init(&nodes);
    assert_int_equal(router_nodes_join(&nodes, &join, "http://a:1", 5, 5, &one, &err), LR_OK);
    join.node_id = LR_STR_LIT("node-2");
    assert_int_equal(router_nodes_join(&nodes, &join, "http://b:1", 5, 5, &two, &err), LR_OK);
    assert_true(router_node_serves(one, &why_not));
    struct lr_str folded = LR_STR_LIT("org/demo");
    assert_non_null(router_node_replica(one, folded));
    assert_ptr_equal(router_node_replica(one, folded)->info,
                     router_node_replica(two, folded)->info);
    assert_non_null(router_nodes_info(&nodes, folded));
    router_node_move(one, ROUTER_NODE_OFFLINE);
    router_node_move(two, ROUTER_NODE_OFFLINE);
    assert_null(router_nodes_info(&nodes, folded));
    assert_false(router_node_serves(one, &why_not));
    assert_string_equal(why_not.text, "offline");
    router_nodes_free(&nodes);
}

static void every_gpu_of_a_node_with_64_of_them_is_kept(void **state)
{
    enum { POOLS = 1 + 64 };
    struct wire_fleet_pool pools[POOLS];
    char names[POOLS][16];
    struct wire_join join = a_join(NULL, 0), read;
    struct router_nodes nodes;
    struct router_node *node;
    struct lr_arena arena;
    struct lr_buf text;
    struct lr_error err;
    (void)state;
    for (unsigned i = 0; i < POOLS; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "GPU-%u", i);
        pools[i] = (struct wire_fleet_pool){.name = lr_str_z(names[i]), .total = 1 + i};
    }
    join.state.pools = pools;
    join.state.pool_count = POOLS;
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&text, 1 << 20);
    wire_join_write(&text, &join);
    assert_int_equal(wire_join_parse(&arena, lr_buf_str(&text), &read, &err), LR_OK);
    router_nodes_init(&nodes);
    assert_int_equal(router_nodes_join(&nodes, &read, "http://a:1", 5, 5, &node, &err), LR_OK);
    assert_int_equal(node->pool_count, POOLS);
    assert_string_equal(node->pools[64].name, "GPU-64");
    assert_int_equal(node->pools[64].total, 65);
    router_nodes_free(&nodes);
    lr_buf_free(&text);
    lr_arena_free(&arena);
}

static void a_heartbeat_about_an_unknown_model_asks_to_join_again(void **state)
{
    struct wire_fleet_model m = demo();
    struct wire_join join = a_join(&m, 1);
    struct router_nodes nodes;
    struct router_node *node;
    struct lr_error err;
    (void)state;
    router_nodes_init(&nodes);
    assert_int_equal(router_nodes_join(&nodes, &join, "http://a:1", 5, 5, &node, &err), LR_OK);
    m.live = 9;
    struct wire_heartbeat heartbeat = {.models = &m, .model_count = 1};
    assert_true(router_nodes_heartbeat(node, &heartbeat, 9));
    assert_int_equal(router_node_replica(node, LR_STR_LIT("org/demo"))->live, 9);
    m.id = LR_STR_LIT("new");
    heartbeat.is_draining = true;
    assert_false(router_nodes_heartbeat(node, &heartbeat, 19));
    assert_true(node->is_draining &&
                router_node_is_online(node)); /* all else that it said counts */
    assert_int_equal(node->heartbeat_ms, 19);
    router_nodes_free(&nodes);
}

static void heartbeats_alone_do_not_bring_back_a_node_that_is_not_reached(void **state)
{
    enum { OFFLINE_MS = 50 };
    struct wire_join join = a_join(NULL, 0);
    struct wire_heartbeat heartbeat = {0};
    struct router_nodes nodes;
    struct router_node *node;
    struct lr_error err;
    struct lr_error why_not;
    (void)state;
    router_nodes_init(&nodes);
    assert_int_equal(router_nodes_join(&nodes, &join, "http://a:1", 5, 5, &node, &err), LR_OK);
    router_node_move(node, ROUTER_NODE_UNREACHABLE);
    assert_true(router_nodes_heartbeat(node, &heartbeat, 20));
    assert_false(router_node_is_online(node));
    assert_false(router_node_serves(node, &why_not));
    assert_contains(why_not.text, "cannot reach it");
    assert_true(router_node_reached(node, 30, OFFLINE_MS));
    assert_true(router_node_serves(node, &why_not));
    /* Silent and then reached: it has to be heard as well. */
    router_node_move(node, ROUTER_NODE_UNREACHABLE);
    assert_false(router_node_reached(node, 200, OFFLINE_MS));
    assert_true(router_nodes_heartbeat(node, &heartbeat, 210) && router_node_is_online(node));
    router_nodes_free(&nodes);
}

static void a_node_moves_as_its_picture_says_and_is_offline_otherwise(void **state)
{
    static const enum router_node_state legal[][2] = {
        {ROUTER_NODE_OFFLINE, ROUTER_NODE_ONLINE},
        {ROUTER_NODE_OFFLINE, ROUTER_NODE_REMOVED},
        {ROUTER_NODE_ONLINE, ROUTER_NODE_OFFLINE},
        {ROUTER_NODE_ONLINE, ROUTER_NODE_UNREACHABLE},
        {ROUTER_NODE_ONLINE, ROUTER_NODE_REMOVED},
        {ROUTER_NODE_UNREACHABLE, ROUTER_NODE_OFFLINE},
        {ROUTER_NODE_UNREACHABLE, ROUTER_NODE_ONLINE},
        {ROUTER_NODE_UNREACHABLE, ROUTER_NODE_REMOVED},
        {ROUTER_NODE_REMOVED, ROUTER_NODE_OFFLINE},
        {ROUTER_NODE_REMOVED, ROUTER_NODE_ONLINE},
    };
    (void)state;
    lr_machine_tolerate(true);
    for (unsigned from = 0; from <= ROUTER_NODE_REMOVED; from++)
        for (unsigned to = 0; to <= ROUTER_NODE_REMOVED; to++) {
            struct router_node node = {.id = "n", .state = from};
            bool is_legal = false;
            for (size_t i = 0; i < sizeof(legal) / sizeof(legal[0]); i++)
                is_legal |= legal[i][0] == from && legal[i][1] == to;
            router_node_move(&node, to);
            assert_int_equal(node.state, is_legal ? to : ROUTER_NODE_OFFLINE);
        }
    lr_machine_tolerate(false);
}

static void a_removed_node_comes_back_when_it_joins_again(void **state)
{
    struct wire_join join = a_join(NULL, 0);
    struct router_nodes nodes;
    struct router_node *node, *again;
    struct lr_error err;
    (void)state;
    router_nodes_init(&nodes);
    assert_int_equal(router_nodes_join(&nodes, &join, "http://a:1", 5, 5, &node, &err), LR_OK);
    router_node_move(node, ROUTER_NODE_UNREACHABLE);
    router_node_remove(node);
    router_node_remove(node); /* twice is once */
    assert_null(router_nodes_find(&nodes, join.node_id));
    assert_int_equal(router_nodes_join(&nodes, &join, "http://a:1", 9, 9, &again, &err), LR_OK);
    assert_ptr_equal(again, node);
    assert_true(router_node_is_online(node));
    router_nodes_free(&nodes);
}

static void a_template_that_does_not_compile_is_a_reason_not_a_crash(void **state)
{
    struct wire_fleet_model m = demo();
    struct wire_join join = a_join(&m, 1);
    struct router_nodes nodes;
    struct router_node *node;
    struct lr_error err;
    (void)state;
    m.chat_template = LR_STR_LIT("{% if %}");
    router_nodes_init(&nodes);
    assert_int_equal(router_nodes_join(&nodes, &join, "http://a:1", 5, 5, &node, &err), LR_OK);
    const struct router_replica *replica = router_node_replica(node, LR_STR_LIT("org/demo"));
    assert_false(replica->can_run);
    assert_contains(replica->reason.text, "chat template");
    router_nodes_free(&nodes);
}

static void a_model_that_is_gone_after_a_new_join_cannot_run_and_has_no_files(void **state)
{
    struct wire_fleet_model m = demo();
    struct wire_join join = a_join(&m, 1);
    struct router_nodes nodes;
    struct router_node *node;
    struct lr_error err;
    (void)state;
    router_nodes_init(&nodes);
    assert_int_equal(router_nodes_join(&nodes, &join, "http://a:1", 5, 5, &node, &err), LR_OK);
    assert_non_null(router_nodes_listing(&nodes, LR_STR_LIT("ORG/demo")));
    join.state.model_count = 0;
    assert_int_equal(router_nodes_join(&nodes, &join, "http://a:1", 6, 6, &node, &err), LR_OK);
    assert_false(router_node_replica(node, LR_STR_LIT("org/demo"))->can_run);
    assert_null(router_nodes_listing(&nodes, LR_STR_LIT("org/demo")));
    router_nodes_free(&nodes);
}

static void routes_take_ids_with_a_slash_in_either_spelling(void **state)
{
    static const struct {
        const char *method, *path, *pattern, *tail;
    } rows[] = {
        {"GET", "/v1/models", "v1/models", ""},
        {"GET", "/v1/models/org/name", "v1/models/**", "org/name"},
        {"GET", "/v1/models/org%2Fname", "v1/models/**", "org/name"},
        {"HEAD", "/v1/models/x", "v1/models/**", "x"},
        {"GET", "/v0/models/registry/o/n/manifest.json", "v0/models/registry/**/manifest.json",
         "o/n"},
        {"POST", "/v0/models/o/n/load", "v0/models/**/load", "o/n"},
        {"POST", "/v0/models/register", "v0/models/register", ""},
        {"DELETE", "/v0/models/register", "v0/models/**", "register"},
        {"POST", "/v0/nodes/join", "v0/nodes/join", ""},
        {"POST", "/v0/nodes/abc/heartbeat", "v0/nodes/*/heartbeat", "abc"},
    };
    struct lr_arena arena;
    struct lr_error err;
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct net_path path;
        struct lr_str tail;
        assert_int_equal(net_path_split(&arena, lr_str_z(rows[i].path), &path, &err), LR_OK);
        const struct router_route *route =
            net_routes_find(&router_routes, lr_str_z(rows[i].method), &path, &tail, &arena);
        assert_non_null(route);
        assert_string_equal(route->at.pattern, rows[i].pattern);
        assert_true(lr_str_eq_z(tail, rows[i].tail));
    }
    lr_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_join_reads_back_as_it_was_written),
        cmocka_unit_test(another_protocol_is_refused_with_both_numbers),
        cmocka_unit_test(a_node_that_joined_can_serve_and_shares_its_template),
        cmocka_unit_test(every_gpu_of_a_node_with_64_of_them_is_kept),
        cmocka_unit_test(a_heartbeat_about_an_unknown_model_asks_to_join_again),
        cmocka_unit_test(heartbeats_alone_do_not_bring_back_a_node_that_is_not_reached),
        cmocka_unit_test(a_node_moves_as_its_picture_says_and_is_offline_otherwise),
        cmocka_unit_test(a_removed_node_comes_back_when_it_joins_again),
        cmocka_unit_test(a_template_that_does_not_compile_is_a_reason_not_a_crash),
        cmocka_unit_test(a_model_that_is_gone_after_a_new_join_cannot_run_and_has_no_files),
        cmocka_unit_test(routes_take_ids_with_a_slash_in_either_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
