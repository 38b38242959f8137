/* A node's messages are read member by member: only a wrong identity is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/fleet.h"

static struct lr_arena arena;
static struct lr_error err;

static int begin(void **state)
{
    (void)state;
    lr_arena_init(&arena, 8 << 20);
    return 0;
}

static int end(void **state)
{
    (void)state;
    lr_arena_free(&arena);
    return 0;
}

static struct wire_heartbeat heartbeat_of(const char *text)
{
    struct wire_heartbeat heartbeat;
    assert_int_equal(wire_heartbeat_parse(&arena, lr_str_z(text), &heartbeat, &err), LR_OK);
    return heartbeat;
}

static void a_number_out_of_range_is_left_out_alone(void **state)
{
    static const char *const members[] = {
        "slots", "live", "queued", "load_ms", "prefill_us", "step_us", "weight_bytes",
    };
    static const char *const wrong[] = {
        "18446744073709551615000", "-1", "1.5", "\"7\"", "null", "[]", "{}", "true",
    };
    char text[300];
    (void)state;
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++)
        for (size_t j = 0; j < sizeof(wrong) / sizeof(wrong[0]); j++) {
            (void)snprintf(text, sizeof(text),
                           "{\"epoch\":5,\"models\":[{\"id\":\"m\",\"state\":\"ready\","
                           "\"can_run\":true,\"context_tokens\":9,\"%s\":%s}]}",
                           members[i], wrong[j]);
            struct wire_heartbeat heartbeat = heartbeat_of(text);
            const struct wire_fleet_model *m = heartbeat.models;
            assert_int_equal(heartbeat.model_count, 1);
            assert_true(m->can_run && m->context_tokens == 9 && heartbeat.epoch == 5);
            assert_true(m->slots == 0 && m->live == 0 && m->queued == 0 && m->load_ms == 0 &&
                        m->prefill_us == 0 && m->step_us == 0 && m->weight_bytes == 0);
            assert_string_equal(heartbeat.ignored, members[i]);
        }
}

static void an_engine_with_too_many_slots_costs_its_slots_only(void **state)
{
    struct wire_heartbeat heartbeat =
        heartbeat_of("{\"models\":[{\"id\":\"m\",\"state\":\"ready\","
                     "\"slots\":1048577,\"live\":3}]}");
    (void)state;
    assert_int_equal(heartbeat.model_count, 1);
    assert_int_equal(heartbeat.models[0].slots, 0);
    assert_int_equal(heartbeat.models[0].live, 3);
    heartbeat =
        heartbeat_of("{\"models\":[{\"id\":\"m\",\"state\":\"ready\",\"slots\":1048576}]}");
    assert_int_equal(heartbeat.models[0].slots, 1048576);
    assert_null(heartbeat.ignored);
}

static void what_is_no_model_or_memory_is_left_out_and_the_others_stay(void **state)
{
    struct wire_heartbeat heartbeat =
        heartbeat_of("{\"models\":[7,{\"id\":\"\"},{\"state\":\"ready\"},{\"id\":\"m\","
                     "\"state\":\"ready\",\"reason\":[]}],\"pools\":[{},3,{\"name\":\"ram\","
                     "\"title\":5,\"total\":9}],\"downloads\":[1,{\"id\":\"d\",\"rate\":-3},"
                     "{\"id\":\"e\"}],\"events\":[{},{}],\"event_end\":1}");
    (void)state;
    assert_int_equal(heartbeat.model_count, 1);
    assert_true(lr_str_eq_z(heartbeat.models[0].id, "m"));
    assert_int_equal(heartbeat.pool_count, 1);
    assert_int_equal(heartbeat.pools[0].total, 9);
    assert_int_equal(heartbeat.download_count, 1);
    assert_true(lr_str_eq_z(heartbeat.downloads[0].id, "e"));
    assert_int_equal(heartbeat.event_count, 0);
    assert_int_equal(heartbeat.event_end, 0);
    assert_non_null(heartbeat.ignored);
}

static void
the_figures_of_a_gpu_arrive_as_sent_and_a_wrong_figure_is_left_out_alone(void **state)
{
    struct wire_fleet_pool pool = {
        .name = lr_str_z("GPU-1"), .gpu = {.is_faulty = true}, .fault = lr_str_z("it is hot")};
    struct wire_heartbeat sent = {.pools = &pool, .pool_count = 1};
    struct lr_buf text;
    (void)state;
    for (uint32_t i = 0; i < WIRE_GPU_FIGURE_COUNT; i += 2)
        wire_gpu_set(&pool.gpu, i, 1000 + i);
    lr_buf_init(&text, 1 << 16);
    wire_heartbeat_write(&text, &sent);
    struct wire_heartbeat got = heartbeat_of(lr_buf_z(&text));
    assert_int_equal(got.pool_count, 1);
    assert_null(got.ignored);
    assert_memory_equal(&got.pools[0].gpu, &pool.gpu, sizeof(pool.gpu));
    assert_true(lr_str_eq_z(got.pools[0].fault, "it is hot"));
    lr_buf_free(&text);
    got = heartbeat_of("{\"pools\":[{\"name\":\"GPU-1\",\"gpu\":"
                       "{\"clock_mhz\":-3,\"temperature_celsius\":70,\"faulty\":7}}]}");
    assert_string_equal(got.ignored, "clock_mhz");
    assert_int_equal(got.pools[0].gpu.reported, 1u << WIRE_GPU_TEMPERATURE);
    assert_int_equal(got.pools[0].gpu.figures[WIRE_GPU_TEMPERATURE], 70);
    assert_false(got.pools[0].gpu.is_faulty);
    assert_int_equal(got.pools[0].fault.len, 0);
    got = heartbeat_of("{\"pools\":[{\"name\":\"GPU-1\",\"gpu\":{\"faulty\":true,"
                       "\"reason\":7}}]}");
    assert_string_equal(got.ignored, "reason");
    assert_true(got.pools[0].gpu.is_faulty);
    assert_int_equal(got.pools[0].fault.len, 0);
}

static void lists_of_another_type_are_empty(void **state)
{
    struct wire_heartbeat heartbeat = heartbeat_of(
        "{\"models\":{},\"pools\":\"x\",\"downloads\":4,\"events\":true,\"epoch\":[]}");
    (void)state;
    assert_int_equal(heartbeat.model_count + heartbeat.pool_count + heartbeat.download_count +
                         heartbeat.event_count,
                     0);
    assert_int_equal(heartbeat.epoch, 0);
}

static void of_too_many_models_the_first_ones_are_taken(void **state)
{
    struct lr_buf text;
    struct wire_heartbeat heartbeat;
    (void)state;
    lr_buf_init(&text, 1 << 20);
    lr_buf_add_z(&text, "{\"models\":[");
    for (int i = 0; i < WIRE_FLEET_MODELS_MAX + 5; i++)
        lr_buf_addf(&text, "%s{\"id\":\"m%d\",\"state\":\"ready\"}", i != 0 ? "," : "", i);
    lr_buf_add_z(&text, "]}");
    heartbeat = heartbeat_of(lr_buf_z(&text));
    assert_int_equal(heartbeat.model_count, WIRE_FLEET_MODELS_MAX);
    assert_string_equal(heartbeat.ignored, "models");
    lr_buf_free(&text);
}

static void a_join_is_refused_for_who_it_is_and_for_nothing_else(void **state)
{
    static const struct {
        const char *text;
        bool is_taken;
    } cases[] = {
        {"{\"protocol\":2,\"version\":\"0\",\"node_id\":\"n\",\"device\":\"cpu\","
         "\"secret\":\"s\",\"port\":7,\"epoch\":9}",
         true},
        {"{\"protocol\":2,\"version\":\"0\",\"node_id\":\"n\",\"device\":\"cpu\","
         "\"secret\":\"s\",\"port\":7,\"epoch\":9,\"name\":[],\"models\":[{\"id\":\"m\","
         "\"state\":\"ready\",\"slots\":-1}],\"pools\":7}",
         true},
        {"{\"protocol\":2,\"version\":\"0\",\"device\":\"cpu\",\"secret\":\"s\"}", false},
        {"{\"protocol\":2,\"version\":\"0\",\"node_id\":\"n\",\"device\":\"cpu\"}", false},
        {"{\"protocol\":2,\"version\":\"0\",\"node_id\":\"n\",\"device\":\"cpu\","
         "\"secret\":\"s\",\"port\":65536}",
         false},
        {"{\"protocol\":5,\"version\":\"0\",\"node_id\":\"n\",\"device\":\"cpu\","
         "\"secret\":\"s\"}",
         false},
    };
    struct wire_join join;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        lr_code code = wire_join_parse(&arena, lr_str_z(cases[i].text), &join, &err);
        assert_int_equal(code == LR_OK, cases[i].is_taken);
        if (cases[i].is_taken)
            assert_int_equal(join.state.epoch, 9);
    }
}

static void a_node_that_does_not_say_what_a_model_can_do_generates_text(void **state)
{
    (void)state;
    struct wire_heartbeat heartbeat =
        heartbeat_of("{\"models\":[{\"id\":\"old\",\"state\":\"ready\"},{\"id\":\"open\","
                     "\"state\":\"ready\","
                     "\"requests\":0},{\"id\":\"bert\",\"state\":\"ready\",\"requests\":2}]}");
    const struct wire_fleet_model *m = heartbeat.models;
    assert_int_equal(wire_abilities_check(m[0].requests, 0, "old", &err), LR_OK);
    assert_int_equal(wire_abilities_check(m[0].requests, 1, "old", &err), LR_UNSUPPORTED);
    assert_string_equal(err.text,
                        "model \"old\" gives no embeddings; it can: chat, completion");
    for (uint32_t kind = 0; kind < 3; kind++) /* only its engine knows */
        assert_int_equal(wire_abilities_check(m[1].requests, kind, "open", &err), LR_OK);
    assert_int_equal(wire_abilities_check(m[2].requests, 1, "bert", &err), LR_OK);
    assert_int_equal(wire_abilities_check(m[2].requests, 2, "bert", &err), LR_UNSUPPORTED);
    assert_string_equal(err.text, "model \"bert\" ranks no documents; it can: embed");
}

static void what_a_neighbour_of_the_protocol_before_does_not_know_is_not_sent(void **state)
{
    struct wire_fleet_model m = {.id = LR_STR_LIT("demo"),
                                 .state = LR_STR_LIT("ready"),
                                 .weights = LR_STR_LIT("0123abcd")};
    struct wire_heartbeat sent = {.models = &m, .model_count = 1, .clock_ms = 1763450000123};
    struct lr_buf text;
    (void)state;
    lr_buf_init(&text, 1 << 16);
    for (sent.protocol = 2; sent.protocol <= WIRE_PROTOCOL; sent.protocol++) {
        lr_buf_clear(&text);
        wire_heartbeat_write(&text, &sent);
        struct wire_heartbeat got = heartbeat_of(lr_buf_z(&text));
        bool has = sent.protocol >= WIRE_SINCE_WEIGHTS;
        assert_true(lr_str_eq_z(got.models[0].weights, has ? "0123abcd" : ""));
        assert_int_equal(strstr(lr_buf_z(&text), "weights") != NULL, has);
        has = sent.protocol >= WIRE_SINCE_CLOCK;
        assert_true(got.clock_ms == (has ? 1763450000123 : 0));
        assert_int_equal(strstr(lr_buf_z(&text), "clock_ms") != NULL, has);
    }
    lr_buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            what_a_neighbour_of_the_protocol_before_does_not_know_is_not_sent, begin, end),
        cmocka_unit_test_setup_teardown(a_number_out_of_range_is_left_out_alone, begin, end),
        cmocka_unit_test_setup_teardown(an_engine_with_too_many_slots_costs_its_slots_only,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            what_is_no_model_or_memory_is_left_out_and_the_others_stay, begin, end),
        cmocka_unit_test_setup_teardown(
            the_figures_of_a_gpu_arrive_as_sent_and_a_wrong_figure_is_left_out_alone, begin,
            end),
        cmocka_unit_test_setup_teardown(lists_of_another_type_are_empty, begin, end),
        cmocka_unit_test_setup_teardown(
            a_node_that_does_not_say_what_a_model_can_do_generates_text, begin, end),
        cmocka_unit_test_setup_teardown(of_too_many_models_the_first_ones_are_taken, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_join_is_refused_for_who_it_is_and_for_nothing_else,
                                        begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
