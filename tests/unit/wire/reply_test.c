/* Answers between routers and nodes arrive as they were sent; a wrong member is dropped
 * alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/reply.h"

static void a_reply_to_a_join_and_to_a_heartbeat_arrive_whole(void **state)
{
    struct wire_fleet_reply sent = {.node_id = LR_STR_LIT("node-1"),
                                    .protocol = 2,
                                    .version = LR_STR_LIT("0.2.0"),
                                    .heartbeat_ms = 1000,
                                    .has_registry = true,
                                    .registry_version = 9,
                                    .names_routers = true,
                                    .routers = {LR_STR_LIT("http://a"), LR_STR_LIT("http://b")},
                                    .router_count = 2};
    struct wire_fleet_reply got;
    struct lr_arena arena;
    struct lr_buf buf;
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&buf, 4096);
    wire_fleet_reply_write(&buf, &sent);
    assert_string_equal(lr_buf_z(&buf),
                        "{\"node_id\":\"node-1\",\"protocol\":2,\"version\":\"0.2.0\","
                        "\"heartbeat_ms\":1000,\"registry_version\":9,"
                        "\"routers\":[\"http://a\",\"http://b\"]}");
    assert_int_equal(wire_fleet_reply_parse(&arena, lr_buf_str(&buf), &got, NULL), LR_OK);
    assert_true(lr_str_eq(got.node_id, sent.node_id));
    assert_true(got.protocol == 2 && got.heartbeat_ms == 1000 && !got.must_join);
    assert_true(got.has_registry && got.registry_version == 9);
    assert_true(got.router_count == 2 && lr_str_eq_z(got.routers[1], "http://b"));
    sent.node_id = lr_str("", 0);
    sent.must_join = true;
    lr_buf_clear(&buf);
    wire_fleet_reply_write(&buf, &sent);
    assert_string_equal(lr_buf_z(&buf), "{\"registry_version\":9,\"join\":true,"
                                        "\"routers\":[\"http://a\",\"http://b\"]}");
    lr_buf_free(&buf);
    lr_arena_free(&arena);
}

static void a_wrong_member_is_left_out_alone(void **state)
{
    static const char reply_text[] =
        "{\"node_id\":7,\"protocol\":-1,\"heartbeat_ms\":99999999999,\"registry_version\":4,"
        "\"routers\":[1,\"http://a\",null],\"unknown\":{}}";
    static const char list_text[] =
        "{\"version\":3,\"models\":[{\"id\":5},{\"id\":\"m\",\"source\":1,"
        "\"generation\":-2},7,{\"id\":\"n\",\"path\":\"/p\",\"generation\":8}]}";
    struct wire_fleet_reply reply;
    struct wire_registry list;
    struct lr_arena arena;
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    assert_int_equal(wire_fleet_reply_parse(&arena, lr_str_z(reply_text), &reply, NULL), LR_OK);
    assert_true(reply.node_id.len == 0 && reply.protocol == 0 && reply.heartbeat_ms == 0);
    assert_true(reply.has_registry && reply.registry_version == 4);
    assert_true(reply.router_count == 1 && lr_str_eq_z(reply.routers[0], "http://a"));
    assert_int_equal(wire_registry_parse(&arena, lr_str_z(list_text), &list, NULL), LR_OK);
    assert_true(list.version == 3 && list.count == 2);
    assert_true(list.models[0].source.len == 0 && list.models[0].generation == 0);
    assert_true(lr_str_eq_z(list.models[1].path, "/p") && list.models[1].generation == 8);
    assert_int_equal(wire_registry_parse(&arena, lr_str_z("{\"models\":[]}"), &list, NULL),
                     LR_INVALID_ARGUMENT);
    assert_int_equal(wire_fleet_reply_parse(&arena, lr_str_z("[]"), &reply, NULL),
                     LR_INVALID_ARGUMENT);
    lr_arena_free(&arena);
}

static void a_registry_arrives_whole(void **state)
{
    const struct wire_registered models[] = {
        {LR_STR_LIT("a/b"), LR_STR_LIT("hub"), LR_STR_LIT("gguf"), LR_STR_LIT("12ab"), {0}, 5},
        {LR_STR_LIT("c"), LR_STR_LIT("local"), LR_STR_LIT(""), {0}, LR_STR_LIT("/m/c"), 0},
    };
    struct wire_registry sent = {.version = 11, .models = models, .count = 2}, got;
    struct lr_arena arena;
    struct lr_buf buf;
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&buf, 4096);
    wire_registry_write(&buf, &sent);
    assert_int_equal(wire_registry_parse(&arena, lr_buf_str(&buf), &got, NULL), LR_OK);
    assert_true(got.version == 11 && got.count == 2);
    for (size_t i = 0; i < 2; i++) {
        assert_true(lr_str_eq(got.models[i].id, models[i].id));
        assert_true(lr_str_eq(got.models[i].source, models[i].source));
        assert_true(lr_str_eq(got.models[i].manifest_sha256, models[i].manifest_sha256));
        assert_true(lr_str_eq(got.models[i].path, models[i].path));
        assert_true(got.models[i].generation == models[i].generation);
    }
    lr_buf_free(&buf);
    lr_arena_free(&arena);
}

static void a_refusal_and_a_health_answer_are_read_where_they_are_such(void **state)
{
    struct lr_arena arena;
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    assert_true(lr_str_eq_z(
        wire_refusal_message(&arena, lr_str_z("{\"error\":{\"message\":\"no\"}}")), "no"));
    assert_int_equal(wire_refusal_message(&arena, lr_str_z("{\"error\":7}")).len, 0);
    assert_int_equal(wire_refusal_message(&arena, lr_str_z("<html>")).len, 0);
    assert_int_equal(wire_health_epoch(&arena, lr_str_z("{\"epoch\":12}")), 12);
    assert_int_equal(wire_health_epoch(&arena, lr_str_z("{\"epoch\":\"x\"}")), 0);
    assert_int_equal(wire_health_epoch(&arena, lr_str_z("")), 0);
    lr_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_to_a_join_and_to_a_heartbeat_arrive_whole),
        cmocka_unit_test(a_wrong_member_is_left_out_alone),
        cmocka_unit_test(a_registry_arrives_whole),
        cmocka_unit_test(a_refusal_and_a_health_answer_are_read_where_they_are_such),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
