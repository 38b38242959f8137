/* The frames of protocol 2 as this release sends them, recorded in tests/fixtures/wire.  A
 * later release must still read the record, because the program at the other end of a link may
 * be one release older.  When the protocol changes, the record of the new version is added, and
 * this_release_writes_the_record uses that (LR_RECORD=1 writes it). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/event.h"
#include "wire/generate.h"
#include "wire/link.h"
#include "wire/reader.h"

#define RECORD LR_SOURCE_DIR "/tests/fixtures/wire/link-2.bin"

static const struct lr_segment prompt[] = {
    {.text = "<|start|>", .len = 9, .control = 1},
    {.text = "gr\xc3\xbc\xc3\x9f dich", .len = 11, .control = 0},
};
static const uint32_t generated[] = {17, 200012};
static const uint32_t stops[] = {200002};
static const float vector[] = {0.25f, -1.5f, 3.0f};
static const struct lr_segment document[] = {{.text = "a passage", .len = 9, .control = 0}};
static const struct lr_logit_bias bias[] = {{.token = 5, .bias = -1.5f}};

static struct wire_generate generation(void)
{
    struct wire_generate g;
    wire_generate_defaults(&g);
    g.id = 0x100000001;
    g.request_id = lr_str_z("req-1.0");
    g.model = lr_str_z("openai/gpt-oss-20b");
    g.trace = lr_str_z("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    g.deadline_ms = 30000;
    g.cache_scope = lr_str_z("key-1");
    g.segments = prompt;
    g.segment_count = 2;
    g.generated = generated;
    g.generated_count = 2;
    g.stop_ids = stops;
    g.stop_id_count = 1;
    g.max_tokens = 100;
    g.constraint = lr_str_z("{\"format\":\"plain\"}");
    g.sampling.temperature = 0.5f;
    g.sampling.seed = 42;
    g.sampling.logprobs = 1;
    g.sampling.top_logprobs = 2;
    g.sampling.logit_bias = bias;
    g.sampling.logit_bias_count = 1;
    g.no_queue = true;
    g.entry = WIRE_ENTRY_COHORT;
    g.cohort = 3;
    return g;
}

/* Text in, a vector or a score out: nothing is sampled. */
static struct wire_generate question(uint32_t kind)
{
    struct wire_generate g;
    wire_generate_defaults(&g);
    g.id = 0x100000002;
    g.request_id = lr_str_z("req-2.0");
    g.model = lr_str_z("BAAI/bge-m3");
    g.segments = prompt;
    g.segment_count = 2;
    g.kind = kind;
    if (kind == LR_REQUEST_EMBED) {
        g.dimensions = 256;
    } else {
        g.document = document;
        g.document_count = 1;
    }
    return g;
}

/* An event as a node sends it over a link. */
static void relay(struct lr_buf *out, const struct lr_buf *event, uint32_t index)
{
    struct lr_str bytes = lr_buf_str(event);
    struct wire_frame frame;
    bool has;
    assert_int_equal(wire_frame_next(&bytes, &frame, &has, NULL), LR_OK);
    (void)wire_event_relay(out, &frame, 0x100000001, index);
}

static void write_events(struct lr_buf *out)
{
    struct lr_error oom = {.code = LR_OUT_OF_VRAM, .text = "too little"};
    struct wire_token token = {.id = 200012,
                               .special = true,
                               .has_logprob = true,
                               .logprob = -0.5f,
                               .bytes = LR_STR_LIT("<|end|>"),
                               .top_count = 1,
                               .top = {{7, -1.5f, LR_STR_LIT("a")}}};
    struct lr_buf e;
    uint32_t index = 0;
    lr_buf_init(&e, 4096);
#define EVENT(call)                                                                            \
    lr_buf_clear(&e);                                                                          \
    call;                                                                                      \
    relay(out, &e, index++)
    EVENT(wire_accepted_encode(
        &e, &(struct wire_accepted){LR_STR_LIT("req-1.0"), LR_STR_LIT("gptoss 0.1.0"), true}));
    EVENT(wire_loading_encode(&e, &(struct wire_loading){5, 10, LR_STR_LIT("weights")}));
    EVENT(wire_prefill_encode(&e, &(struct wire_prefill){.done = 3, .total = 12}));
    EVENT(wire_token_encode(&e, &token));
    EVENT(wire_tick_encode(&e, NULL));
    EVENT(wire_done_encode(&e, &(struct wire_done){.reason = LR_FINISH_LENGTH,
                                                   .prompt_tokens = 12,
                                                   .completion_tokens = 3,
                                                   .cached_tokens = 8}));
    EVENT(wire_error_encode(&e, WIRE_ERROR, &(struct wire_error){oom, true}));
    EVENT(wire_error_encode(&e, WIRE_REFUSED, &(struct wire_error){oom, false}));
    EVENT(wire_lost_encode(
        &e, &(struct wire_lost){true, WIRE_ENTRY_SUSPECT, 6, {LR_INTERNAL, "it died"}}));
    EVENT(wire_vector_encode(&e, 0, vector, 3));
#undef EVENT
    lr_buf_free(&e);
}

static void write_conversation(struct lr_buf *out)
{
    struct wire_generate g = generation();
    wire_submit_encode(out, &g);
    g.leaves = lr_str_z("req-0.0");
    wire_submit_encode(out, &g);
    wire_u64_encode(out, WIRE_CANCEL, 0x100000001);
    wire_empty_encode(out, WIRE_PING);
    write_events(out);
    g = question(LR_REQUEST_EMBED);
    wire_submit_encode(out, &g);
    g = question(LR_REQUEST_RERANK);
    wire_submit_encode(out, &g);
}

static void read_record(struct lr_buf *out)
{
    FILE *file = fopen(RECORD, "rb");
    lr_buf_init(out, 1 << 16);
    assert_non_null(file);
    char *room = lr_buf_reserve(out, 1 << 14);
    lr_buf_commit(out, fread(room, 1, 1 << 14, file));
    (void)fclose(file);
}

static void this_release_writes_the_record(void **state)
{
    struct lr_buf now, record;
    (void)state;
    lr_buf_init(&now, 1 << 16);
    write_conversation(&now);
    if (getenv("LR_RECORD") != NULL) {
        FILE *file = fopen(RECORD, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(now.data, 1, now.len, file), now.len);
        (void)fclose(file);
    }
    read_record(&record);
    assert_true(lr_str_eq(lr_buf_str(&now), lr_buf_str(&record)));
    lr_buf_free(&now);
    lr_buf_free(&record);
}

static void expect_segments(const struct lr_segment *got, const struct lr_segment *want,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(got[i].control != 0, want[i].control != 0);
        assert_true(
            lr_str_eq(lr_str(got[i].text, got[i].len), lr_str(want[i].text, want[i].len)));
    }
}

static void expect_submit(const struct wire_frame *frame, const char *leaves)
{
    struct wire_generate want = generation(), got;
    struct lr_arena arena;
    lr_arena_init(&arena, 1 << 20);
    assert_int_equal(wire_submit_decode(&arena, frame->body, &got, NULL), LR_OK);
    assert_true(got.id == want.id);
    assert_true(lr_str_eq(got.request_id, want.request_id));
    assert_true(lr_str_eq(got.model, want.model));
    assert_true(lr_str_eq(got.trace, want.trace));
    assert_true(lr_str_eq_z(got.leaves, leaves));
    assert_true(lr_str_eq(got.cache_scope, want.cache_scope));
    assert_true(lr_str_eq(got.constraint, want.constraint));
    assert_int_equal(got.deadline_ms, 30000);
    assert_int_equal(got.segment_count, 2);
    expect_segments(got.segments, prompt, 2);
    assert_int_equal(got.generated_count, 2);
    assert_memory_equal(got.generated, generated, sizeof(generated));
    assert_int_equal(got.stop_id_count, 1);
    assert_int_equal(got.stop_ids[0], stops[0]);
    assert_int_equal(got.max_tokens, 100);
    assert_true(got.no_queue && got.entry == WIRE_ENTRY_COHORT && got.cohort == 3);
    assert_int_equal(got.kind, LR_REQUEST_GENERATE);
    assert_true(got.sampling.temperature == 0.5f && got.sampling.logprobs != 0);
    assert_int_equal(got.sampling.seed, 42);
    assert_int_equal(got.sampling.top_logprobs, 2);
    assert_int_equal(got.sampling.logit_bias_count, 1);
    assert_int_equal(got.sampling.logit_bias[0].token, 5);
    assert_true(got.sampling.logit_bias[0].bias == -1.5f);
    lr_arena_free(&arena);
}

static void expect_question(const struct wire_frame *frame, uint32_t kind)
{
    struct wire_generate want = question(kind), got;
    struct lr_arena arena;
    lr_arena_init(&arena, 1 << 20);
    assert_int_equal(wire_submit_decode(&arena, frame->body, &got, NULL), LR_OK);
    assert_true(got.id == want.id && lr_str_eq(got.request_id, want.request_id));
    assert_true(lr_str_eq(got.model, want.model));
    assert_int_equal(got.kind, kind);
    assert_int_equal(got.dimensions, want.dimensions);
    assert_int_equal(got.segment_count, want.segment_count);
    expect_segments(got.segments, want.segments, want.segment_count);
    assert_int_equal(got.document_count, want.document_count);
    expect_segments(got.document, want.document, want.document_count);
    lr_arena_free(&arena);
}

static void expect_event(const struct wire_frame *frame, uint32_t index)
{
    struct wire_event_head head;
    struct wire_accepted accepted;
    struct wire_loading loading;
    struct wire_prefill prefill;
    struct wire_token token;
    struct wire_done done;
    struct wire_error error;
    struct wire_lost lost;
    struct wire_vector numbers;
    assert_true(wire_event_head_decode(frame->body, &head));
    assert_true(head.request == 0x100000001 && head.index == index && !head.has_more);
    switch (frame->type) {
    case WIRE_ACCEPTED:
        assert_int_equal(wire_accepted_decode(frame->body, &accepted, NULL), LR_OK);
        assert_true(accepted.has_swapped && lr_str_eq_z(accepted.engine, "gptoss 0.1.0"));
        break;
    case WIRE_LOADING:
        assert_int_equal(wire_loading_decode(frame->body, &loading, NULL), LR_OK);
        assert_true(loading.total == 10 && lr_str_eq_z(loading.phase, "weights"));
        break;
    case WIRE_PREFILL:
        assert_int_equal(wire_prefill_decode(frame->body, &prefill, NULL), LR_OK);
        assert_true(prefill.done == 3 && prefill.total == 12);
        break;
    case WIRE_TOKEN:
        assert_int_equal(wire_token_decode(frame->body, &token, NULL), LR_OK);
        assert_true(token.id == 200012 && token.special && token.top_count == 1);
        assert_true(lr_str_eq_z(token.bytes, "<|end|>"));
        break;
    case WIRE_DONE:
        assert_int_equal(wire_done_decode(frame->body, &done, NULL), LR_OK);
        assert_true(done.reason == LR_FINISH_LENGTH && done.completion_tokens == 3);
        break;
    case WIRE_ERROR:
    case WIRE_REFUSED:
        assert_int_equal(wire_error_decode(frame->body, &error, NULL), LR_OK);
        assert_int_equal(error.error.code, LR_OUT_OF_VRAM);
        assert_int_equal(error.retryable, frame->type == WIRE_ERROR);
        break;
    case WIRE_LOST:
        assert_int_equal(wire_lost_decode(frame->body, &lost, NULL), LR_OK);
        assert_true(lost.has_strike && lost.entry == WIRE_ENTRY_SUSPECT && lost.cohort == 6);
        break;
    case WIRE_VECTOR:
        assert_int_equal(wire_vector_decode(frame->body, &numbers, NULL), LR_OK);
        assert_int_equal(numbers.count, 3);
        for (uint32_t i = 0; i < 3; i++)
            assert_true(wire_vector_value(&numbers, i) == vector[i]);
        break;
    default:
        assert_int_equal(frame->type, WIRE_TICK);
    }
}

static void the_record_of_protocol_2_is_read_as_it_was_meant(void **state)
{
    static const enum wire_type order[] = {
        WIRE_SUBMIT,  WIRE_SWAP,   WIRE_CANCEL, WIRE_PING,  WIRE_ACCEPTED, WIRE_LOADING,
        WIRE_PREFILL, WIRE_TOKEN,  WIRE_TICK,   WIRE_DONE,  WIRE_ERROR,    WIRE_REFUSED,
        WIRE_LOST,    WIRE_VECTOR, WIRE_SUBMIT, WIRE_SUBMIT};
    enum { FIRST_EVENT = 4, EMBED = 14, RERANK };
    struct lr_buf record;
    struct wire_reader reader;
    struct wire_frame frame;
    uint64_t number;
    bool has;
    (void)state;
    read_record(&record);
    wire_reader_init(&reader, WIRE_BODY_MAX);
    wire_reader_give(&reader, lr_buf_str(&record));
    for (uint32_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        assert_int_equal(wire_reader_next(&reader, &frame, &has, NULL), LR_OK);
        assert_true(has);
        assert_int_equal(frame.type, order[i]);
        if (i < 2)
            expect_submit(&frame, i == 0 ? "" : "req-0.0");
        if (frame.type == WIRE_CANCEL) {
            assert_int_equal(wire_u64_decode(frame.body, &number, NULL), LR_OK);
            assert_true(number == 0x100000001);
        }
        if (i == EMBED || i == RERANK)
            expect_question(&frame, i == EMBED ? LR_REQUEST_EMBED : LR_REQUEST_RERANK);
        else if (i >= FIRST_EVENT)
            expect_event(&frame, i - FIRST_EVENT);
    }
    assert_int_equal(wire_reader_next(&reader, &frame, &has, NULL), LR_OK);
    assert_false(has);
    wire_reader_free(&reader);
    lr_buf_free(&record);
}

static void a_protocol_talks_to_its_neighbours_and_to_no_other(void **state)
{
    char name[WIRE_LINK_NAME_MAX];
    uint32_t number = 0;
    bool has_sums;
    (void)state;
    assert_int_equal(wire_protocol_common(WIRE_PROTOCOL), WIRE_PROTOCOL);
    assert_int_equal(wire_protocol_common(WIRE_PROTOCOL + 1), WIRE_PROTOCOL);
    assert_int_equal(wire_protocol_common(WIRE_PROTOCOL + 2), 0);
    assert_int_equal(wire_protocol_common(1), 0); /* llm-router 0.1.0 */
    assert_int_equal(wire_protocol_common(0), 0);
    assert_int_equal(wire_protocol_common(UINT64_MAX), 0);
    wire_link_name(7, false, name);
    assert_string_equal(name, "llm-router-link/7");
    assert_true(wire_link_parse(lr_str_z(" llm-router-link/7 "), &number, NULL));
    assert_int_equal(number, 7);
    wire_link_name(3, true, name);
    assert_string_equal(name, "llm-router-link/3+sums");
    assert_true(wire_link_parse(lr_str_z(name), &number, &has_sums));
    assert_true(number == 3 && has_sums);
    assert_true(wire_link_parse(LR_STR_LIT("llm-router-link/2"), &number, &has_sums));
    assert_true(number == 2 && !has_sums);
    assert_false(wire_link_parse(lr_str_z("websocket"), &number, NULL));
    assert_false(wire_link_parse(lr_str_z("llm-router-link/"), &number, NULL));
    assert_false(wire_link_parse(lr_str_z("llm-router-link/4294967296"), &number, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(this_release_writes_the_record),
        cmocka_unit_test(the_record_of_protocol_2_is_read_as_it_was_meant),
        cmocka_unit_test(a_protocol_talks_to_its_neighbours_and_to_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
