/* A generation request means the same to the router, the node and the worker. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/generate.h"
#include "wire/open.h"

static const struct lr_segment segments[] = {
    {.text = "<|start|>", .len = 9, .control = 1},
    {.text = "caf\xc3\xa9 \"quoted\"\n", .len = 15, .control = 0},
};
static const uint32_t generated[] = {1, 2, 200002};
static const uint32_t stops[] = {200012};
static const struct lr_logit_bias bias[] = {{.token = 5, .bias = -1.5f}};

static struct wire_generate sample(void)
{
    struct wire_generate g;
    wire_generate_defaults(&g);
    g.id = 77;
    g.request_id = lr_str_z("req-1");
    g.model = lr_str_z("openai/gpt-oss-20b");
    g.deadline_ms = 30000;
    g.cache_scope = lr_str_z("key-1");
    g.segments = segments;
    g.segment_count = 2;
    g.generated = generated;
    g.generated_count = 3;
    g.stop_ids = stops;
    g.stop_id_count = 1;
    g.max_tokens = 100;
    g.priority = -2;
    g.ignore_stop = true;
    g.constraint = lr_str_z("{\"format\":\"plain\",\"answer\":\"object\"}");
    g.sampling.temperature = 0.7f;
    g.sampling.top_p = 0.95f;
    g.sampling.top_k = 40;
    g.sampling.seed = UINT64_MAX;
    g.sampling.logprobs = 1;
    g.sampling.top_logprobs = 5;
    g.sampling.logit_bias = bias;
    g.sampling.logit_bias_count = 1;
    return g;
}

static void check_equal(const struct wire_generate *a, const struct wire_generate *b)
{
    assert_true(lr_str_eq(a->weights, b->weights));
    assert_int_equal(a->segment_count, b->segment_count);
    for (size_t i = 0; i < a->segment_count; i++) {
        assert_true(lr_str_eq(lr_str(a->segments[i].text, a->segments[i].len),
                              lr_str(b->segments[i].text, b->segments[i].len)));
        assert_int_equal(a->segments[i].control, b->segments[i].control);
    }
    assert_int_equal(a->generated_count, b->generated_count);
    assert_memory_equal(a->generated, b->generated, a->generated_count * sizeof(uint32_t));
    assert_int_equal(a->stop_id_count, b->stop_id_count);
    assert_int_equal(a->stop_ids[0], b->stop_ids[0]);
    assert_true(lr_str_eq(a->cache_scope, b->cache_scope));
    assert_int_equal(a->max_tokens, b->max_tokens);
    assert_int_equal(a->priority, b->priority);
    assert_int_equal(a->ignore_stop, b->ignore_stop);
    assert_true(lr_str_eq(a->constraint, b->constraint));
    assert_memory_equal(&a->sampling.temperature, &b->sampling.temperature, sizeof(float));
    assert_memory_equal(&a->sampling.top_p, &b->sampling.top_p, sizeof(float));
    assert_int_equal(a->sampling.top_k, b->sampling.top_k);
    assert_true(a->sampling.seed == b->sampling.seed);
    assert_int_equal(a->sampling.logprobs, b->sampling.logprobs);
    assert_int_equal(a->sampling.top_logprobs, b->sampling.top_logprobs);
    assert_int_equal(a->sampling.logit_bias_count, b->sampling.logit_bias_count);
    assert_memory_equal(a->sampling.logit_bias, b->sampling.logit_bias, sizeof(bias));
}

static void json_says_what_the_struct_says(void **state)
{
    static const char json[] =
        "{\"protocol\":1,\"request_id\":\"req-1\",\"model\":\"openai/gpt-oss-20b\","
        "\"deadline_ms\":30000,\"cache_scope\":\"key-1\",\"segments\":[{\"text\":\"<|start|>\","
        "\"control\":true},{\"text\":\"caf\xc3\xa9 \\\"quoted\\\"\\n\",\"control\":false}],"
        "\"generated\":[1,2,200002],\"temperature\":0.7,\"top_p\":0.95,\"top_k\":40,"
        "\"seed\":18446744073709551615,\"logprobs\":true,\"top_logprobs\":5,"
        "\"logit_bias\":[[5,-1.5]],\"max_tokens\":100,\"stop_ids\":[200012],\"constraint\":"
        "\"{\\\"format\\\":\\\"plain\\\",\\\"answer\\\":\\\"object\\\"}\",\"priority\":-2,"
        "\"ignore_stop\":true,\"entry\":\"cohort\",\"cohort\":9,\"no_queue\":true}";
    struct wire_generate sent = sample(), got;
    struct lr_arena arena;
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    assert_int_equal(wire_generate_parse_json(&arena, lr_str_z(json), &got, NULL), LR_OK);
    check_equal(&sent, &got);
    assert_true(got.entry == WIRE_ENTRY_COHORT && got.cohort == 9 && got.no_queue);
    assert_true(lr_str_eq(sent.model, got.model));
    assert_true(lr_str_eq(sent.request_id, got.request_id));
    assert_int_equal(got.deadline_ms, 30000);
    lr_arena_free(&arena);
}

static void the_frame_says_what_the_struct_says(void **state)
{
    struct wire_generate sent = sample(), got;
    struct lr_buf buf;
    struct lr_arena arena;
    (void)state;
    lr_buf_init(&buf, 1 << 16);
    lr_arena_init(&arena, 1 << 20);
    wire_submit_encode(&buf, &sent);
    struct lr_str body = lr_str_sub(lr_buf_str(&buf), WIRE_HEADER_LEN, buf.len);
    assert_int_equal(wire_submit_decode(&arena, body, &got, NULL), LR_OK);
    check_equal(&sent, &got);
    assert_int_equal(got.id, 77);
    assert_true(lr_str_eq(sent.model, got.model));
    assert_true(lr_str_eq(sent.request_id, got.request_id));
    assert_int_equal(got.deadline_ms, 30000);
    assert_null(got.prompt_ids);
    for (size_t cut = 0; cut < body.len; cut++) {
        char *exact = malloc(cut + 1);
        memcpy(exact, body.ptr, cut);
        assert_int_equal(wire_submit_decode(&arena, lr_str(exact, cut), &got, NULL),
                         LR_INVALID_ARGUMENT);
        free(exact);
    }
    lr_arena_free(&arena);
    lr_buf_free(&buf);
}

static void a_node_reads_the_beginning_and_passes_the_rest_on(void **state)
{
    static const uint32_t more[] = {1, 2, 200002, 9};
    struct wire_generate sent = sample(), got;
    struct wire_submit head;
    struct lr_buf buf, out;
    struct lr_arena arena;
    (void)state;
    lr_buf_init(&buf, 1 << 16);
    lr_buf_init(&out, 1 << 16);
    lr_arena_init(&arena, 1 << 20);
    sent.leaves = lr_str_z("other");
    sent.trace = lr_str_z("00-1-2-03");
    sent.weights = lr_str_z("0123456789abcdef");
    sent.no_queue = true;
    sent.entry = WIRE_ENTRY_COHORT;
    sent.cohort = 4;
    wire_submit_encode(&buf, &sent);
    assert_int_equal(buf.data[WIRE_TYPE_AT], WIRE_SWAP);
    struct lr_str body = lr_str_sub(lr_buf_str(&buf), WIRE_HEADER_LEN, buf.len);
    assert_int_equal(wire_submit_head_decode(body, &head, NULL), LR_OK);
    assert_int_equal(head.request, 77);
    assert_true(lr_str_eq_z(head.request_id, "req-1"));
    assert_true(lr_str_eq(head.model, sent.model));
    assert_true(lr_str_eq(head.trace, sent.trace));
    assert_true(lr_str_eq_z(head.leaves, "other"));
    assert_true(lr_str_eq(head.weights, sent.weights));
    assert_int_equal(head.deadline_ms, 30000);
    assert_int_equal(head.generated_count, 3);
    assert_int_equal(head.entry, WIRE_ENTRY_COHORT);
    assert_int_equal(head.cohort, 4);
    assert_true(head.no_queue);
    wire_submit_address(buf.data, 1234);
    assert_int_equal(buf.data[WIRE_TYPE_AT], WIRE_SUBMIT);
    assert_int_equal(wire_submit_decode(&arena, body, &got, NULL), LR_OK);
    check_equal(&sent, &got);
    assert_int_equal(got.id, 1234);
    wire_submit_continue(&out, lr_buf_str(&buf), 3, more, 4);
    body = lr_str_sub(lr_buf_str(&out), WIRE_HEADER_LEN, out.len);
    assert_int_equal(wire_submit_decode(&arena, body, &got, NULL), LR_OK);
    sent.generated = more;
    sent.generated_count = 4;
    check_equal(&sent, &got);
    assert_int_equal(got.id, 1234);
    lr_arena_free(&arena);
    lr_buf_free(&buf);
    lr_buf_free(&out);
}

static void numbers_that_no_engine_may_see_are_refused(void **state)
{
    static const float bad[] = {NAN, INFINITY, -2e6f};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct wire_generate sent = sample(), got;
        struct lr_buf buf;
        struct lr_arena arena;
        lr_buf_init(&buf, 1 << 16);
        lr_arena_init(&arena, 1 << 20);
        if (i < 3)
            sent.sampling.temperature = bad[i];
        else
            sent.sampling.top_logprobs = 21;
        wire_submit_encode(&buf, &sent);
        struct lr_str body = lr_str_sub(lr_buf_str(&buf), WIRE_HEADER_LEN, buf.len);
        assert_int_equal(wire_submit_decode(&arena, body, &got, NULL), LR_INVALID_ARGUMENT);
        lr_arena_free(&arena);
        lr_buf_free(&buf);
    }
}

static void a_count_beyond_the_body_allocates_nothing(void **state)
{
    struct wire_generate sent, got;
    struct lr_buf buf;
    struct lr_arena arena;
    (void)state;
    wire_generate_defaults(&sent);
    lr_buf_init(&buf, 1 << 16);
    lr_arena_init(&arena, 4096);
    wire_submit_encode(&buf, &sent);
    /* The last eight bytes are the count of stop ids and the constraint's length. */
    memset(buf.data + buf.len - 8, 0xff, 4);
    struct lr_str body = lr_str_sub(lr_buf_str(&buf), WIRE_HEADER_LEN, buf.len);
    assert_int_equal(wire_submit_decode(&arena, body, &got, NULL), LR_INVALID_ARGUMENT);
    assert_true(arena.used < 1024);
    lr_arena_free(&arena);
    lr_buf_free(&buf);
}

static void a_bad_member_is_named(void **state)
{
    static const struct {
        const char *json;
        const char *named;
    } cases[] = {
        {"[]", "object"},
        {"{\"protocol\":2,\"segments\":[],\"seed\":1}", "protocol"},
        {"{\"segments\":[],\"seed\":1}", "protocol"},
        {"{\"protocol\":1,\"seed\":1}", "segments"},
        {"{\"protocol\":1,\"segments\":[]}", "seed"},
        {"{\"protocol\":1,\"segments\":[],\"seed\":-1}", "seed"},
        {"{\"protocol\":1,\"segments\":[],\"seed\":1,\"wishes\":3}", "wishes"},
        {"{\"protocol\":1,\"segments\":[{\"text\":1}],\"seed\":1}", "segments"},
        {"{\"protocol\":1,\"segments\":[],\"seed\":1,\"temperature\":\"hot\"}", "temperature"},
        {"{\"protocol\":1,\"segments\":[],\"seed\":1,\"top_logprobs\":21}", "top_logprobs"},
        {"{\"protocol\":1,\"prompt_ids\":[-1],\"seed\":1}", "prompt_ids"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lr_arena arena;
        struct wire_generate got;
        struct lr_error err;
        lr_arena_init(&arena, 1 << 20);
        assert_int_equal(wire_generate_parse_json(&arena, lr_str_z(cases[i].json), &got, &err),
                         LR_INVALID_ARGUMENT);
        if (strstr(err.text, cases[i].named) == NULL)
            fail_msg("%s: %s", cases[i].json, err.text);
        lr_arena_free(&arena);
    }
}

static void open_carries_limits_and_devices(void **state)
{
    const char *devices[] = {"GPU-1", "GPU-2"};
    struct wire_open sent = {.library = "/x/y.so",
                             .engine_id = "echo",
                             .engine_version = "1",
                             .abi_version = 1,
                             .model_dir = "/m",
                             .is_downloaded = true,
                             .blobs = "/b",
                             .options = {.devices = devices,
                                         .device_count = 2,
                                         .vram_limit = UINT64_MAX,
                                         .max_context = 9,
                                         .extra_json = "{\"a\":1}",
                                         .target_gap_ms = 25}};
    struct wire_open got;
    struct lr_buf buf;
    struct lr_arena arena;
    (void)state;
    lr_buf_init(&buf, 1 << 16);
    lr_arena_init(&arena, 1 << 20);
    wire_open_encode(&buf, WIRE_OPEN, &sent);
    struct lr_str body = lr_str_sub(lr_buf_str(&buf), WIRE_HEADER_LEN, buf.len);
    assert_int_equal(wire_open_decode(&arena, body, &got, NULL), LR_OK);
    assert_string_equal(got.library, "/x/y.so");
    assert_true(got.is_downloaded);
    assert_string_equal(got.blobs, "/b");
    assert_string_equal(got.options.devices[1], "GPU-2");
    assert_true(got.options.vram_limit == UINT64_MAX);
    assert_int_equal(got.options.max_context, 9);
    assert_int_equal(got.options.target_gap_ms, 25);
    assert_string_equal(got.options.extra_json, "{\"a\":1}");
    assert_null(got.options.artifact_path);
    lr_arena_free(&arena);
    lr_buf_free(&buf);
}

static void a_request_for_a_vector_keeps_its_kind_and_its_document(void **state)
{
    (void)state;
    struct wire_generate g = sample(), got;
    struct wire_submit head;
    struct lr_buf frame, plain;
    struct lr_arena arena;
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&frame, 1 << 20);
    lr_buf_init(&plain, 1 << 20);
    wire_submit_encode(&plain, &g);
    g.kind = LR_REQUEST_RERANK;
    g.dimensions = 12;
    g.document = segments;
    g.document_count = 2;
    wire_submit_encode(&frame, &g);
    struct lr_str body = lr_str_sub(lr_buf_str(&frame), WIRE_HEADER_LEN, frame.len);
    assert_int_equal(wire_submit_head_decode(body, &head, NULL), LR_OK);
    assert_int_equal(wire_submit_decode(&arena, body, &got, NULL), LR_OK);
    assert_int_equal(got.kind, LR_REQUEST_RERANK);
    assert_int_equal(got.dimensions, 12);
    assert_int_equal(got.document_count, 2);
    assert_memory_equal(got.document[1].text, segments[1].text, segments[1].len);
    assert_int_equal(got.generated_count, 3); /* still the frame's last */
    assert_int_equal(got.generated[2], 200002);
    body = lr_str_sub(lr_buf_str(&plain), WIRE_HEADER_LEN, plain.len);
    assert_int_equal(wire_submit_decode(&arena, body, &got, NULL), LR_OK);
    assert_int_equal(got.kind, LR_REQUEST_GENERATE);
    lr_buf_free(&frame);
    lr_buf_free(&plain);
    lr_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(json_says_what_the_struct_says),
        cmocka_unit_test(the_frame_says_what_the_struct_says),
        cmocka_unit_test(a_node_reads_the_beginning_and_passes_the_rest_on),
        cmocka_unit_test(numbers_that_no_engine_may_see_are_refused),
        cmocka_unit_test(a_count_beyond_the_body_allocates_nothing),
        cmocka_unit_test(a_bad_member_is_named),
        cmocka_unit_test(open_carries_limits_and_devices),
        cmocka_unit_test(a_request_for_a_vector_keeps_its_kind_and_its_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
