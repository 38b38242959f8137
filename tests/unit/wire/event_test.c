/* Messages between our processes arrive as they were sent, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/error.h"
#include "wire/event.h"
#include "wire/lost.h"

static struct wire_frame only_frame(const struct lr_buf *buf)
{
    struct lr_str bytes = lr_buf_str(buf);
    struct wire_frame frame = {0};
    bool has = false;
    assert_int_equal(wire_frame_next(&bytes, &frame, &has, NULL), LR_OK);
    assert_true(has);
    assert_int_equal(bytes.len, 0);
    return frame;
}

static void a_token_arrives_with_its_alternatives(void **state)
{
    struct lr_buf buf;
    struct wire_token sent = {
        .request = 0x1122334455667788u,
        .id = 200012,
        .special = true,
        .has_logprob = true,
        .logprob = -0.5f,
        .bytes = LR_STR_LIT("<|end|>"),
        .top_count = 2,
        .top = {{7, -0.5f, LR_STR_LIT("a")}, {8, -1.5f, {"\xff\x00", 2}}}};
    struct wire_token got;
    (void)state;
    lr_buf_init(&buf, 4096);
    wire_token_encode(&buf, &sent);
    struct wire_frame frame = only_frame(&buf);
    assert_int_equal(frame.type, WIRE_TOKEN);
    assert_int_equal(wire_event_request(frame.body), sent.request);
    assert_int_equal(wire_token_decode(frame.body, &got, NULL), LR_OK);
    assert_int_equal(got.id, 200012);
    assert_true(got.special && got.has_logprob);
    assert_true(lr_str_eq(got.bytes, sent.bytes));
    assert_int_equal(got.top_count, 2);
    assert_true(lr_str_eq(got.top[1].bytes, sent.top[1].bytes));
    assert_true(got.top[1].logprob < -1.4f && got.top[1].logprob > -1.6f);
    lr_buf_free(&buf);
}

static void a_body_cut_anywhere_is_refused(void **state)
{
    struct lr_buf buf;
    struct wire_done sent = {.request = 9,
                             .reason = LR_FINISH_ERROR,
                             .prompt_tokens = 3,
                             .completion_tokens = 4,
                             .error = {.code = LR_OUT_OF_VRAM, .text = "too little"}};
    struct wire_done got;
    (void)state;
    lr_buf_init(&buf, 4096);
    wire_done_encode(&buf, &sent);
    struct wire_frame frame = only_frame(&buf);
    assert_int_equal(wire_done_decode(frame.body, &got, NULL), LR_OK);
    assert_int_equal(got.error.code, LR_OUT_OF_VRAM);
    assert_string_equal(got.error.text, "too little");
    for (size_t cut = 0; cut < frame.body.len; cut++) {
        /* An exact copy, so that a sanitizer sees a read past the end. */
        char *exact = malloc(cut + 1);
        memcpy(exact, frame.body.ptr, cut);
        assert_int_equal(wire_done_decode(lr_str(exact, cut), &got, NULL), LR_INVALID_ARGUMENT);
        free(exact);
    }
    lr_buf_free(&buf);
}

static void a_frame_waits_for_its_last_byte(void **state)
{
    struct lr_buf buf;
    (void)state;
    lr_buf_init(&buf, 4096);
    wire_u64_encode(&buf, WIRE_CANCEL, 42);
    wire_empty_encode(&buf, WIRE_CLOSE);
    for (size_t n = 0; n < 16; n++) {
        struct lr_str bytes = lr_str(buf.data, n);
        struct wire_frame frame;
        bool has = true;
        assert_int_equal(wire_frame_next(&bytes, &frame, &has, NULL), LR_OK);
        assert_false(has);
    }
    struct lr_str bytes = lr_buf_str(&buf);
    struct wire_frame frame;
    bool has;
    uint64_t id;
    assert_int_equal(wire_frame_next(&bytes, &frame, &has, NULL), LR_OK);
    assert_int_equal(wire_u64_decode(frame.body, &id, NULL), LR_OK);
    assert_int_equal(id, 42);
    assert_int_equal(wire_frame_next(&bytes, &frame, &has, NULL), LR_OK);
    assert_true(has && frame.type == WIRE_CLOSE && frame.body.len == 0);
    lr_buf_free(&buf);
}

static void another_version_and_a_giant_frame_end_the_stream(void **state)
{
    struct lr_error err;
    struct wire_frame frame;
    bool has;
    (void)state;
    struct lr_str later = lr_str("\0\0\0\0\x03\x42\0\0", 8);
    assert_int_equal(wire_frame_next(&later, &frame, &has, &err), LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "version 3"));
    struct lr_str giant = lr_str("\xff\xff\xff\xff\x02\x42\0\0", 8);
    assert_int_equal(wire_frame_next(&giant, &frame, &has, &err), LR_INVALID_ARGUMENT);
}

static void an_event_reads_as_a_line_of_json(void **state)
{
    struct lr_buf buf, line;
    (void)state;
    lr_buf_init(&buf, 4096);
    lr_buf_init(&line, 4096);
    wire_token_encode(&buf, &(struct wire_token){.id = 5, .bytes = LR_STR_LIT("\xe3\x81")});
    struct wire_frame frame = only_frame(&buf);
    assert_true(wire_event_json(&line, &frame));
    assert_string_equal(lr_buf_z(&line),
                        "{\"event\":\"token\",\"id\":5,\"text\":\"\xef\xbf\xbd\","
                        "\"bytes\":[227,129]}\n");
    lr_buf_free(&buf);
    lr_buf_free(&line);
}

static void needs_and_ticks_keep_every_number(void **state)
{
    struct lr_buf buf;
    struct lr_engine_need need = {.size = sizeof(need),
                                  .on_device = 1,
                                  .weights = 1,
                                  .kv = 6,
                                  .kv_per_token = 2,
                                  .kv_per_sequence = 3,
                                  .workspace = 4,
                                  .fixed = 5,
                                  .total = UINT64_MAX,
                                  .max_context = 7,
                                  .max_sequences = 8,
                                  .vocab_size = 9,
                                  .kv_most = 12};
    struct lr_engine_stats stats = {.size = sizeof(stats),
                                    .sequences = 1,
                                    .weights_bytes = 2,
                                    .kv_bytes = 3,
                                    .kv_bytes_in_use = 4,
                                    .workspace_bytes = 5,
                                    .fixed_bytes = 6,
                                    .pages_total = 7,
                                    .pages_in_use = 8,
                                    .steps = 9,
                                    .prompt_tokens = 10,
                                    .generated_tokens = 11,
                                    .kv_bytes_reclaimable = 12,
                                    .kv_bytes_cached = 13};
    struct lr_engine_need need2;
    struct lr_engine_stats stats2;
    (void)state;
    lr_buf_init(&buf, 4096);
    wire_need_encode(&buf, WIRE_OPENED, &need);
    assert_int_equal(wire_need_decode(only_frame(&buf).body, &need2, NULL), LR_OK);
    assert_memory_equal(&need, &need2, sizeof(need));
    lr_buf_clear(&buf);
    wire_tick_encode(&buf, &stats);
    assert_int_equal(wire_tick_decode(only_frame(&buf).body, &stats2, NULL), LR_OK);
    assert_memory_equal(&stats, &stats2, sizeof(stats));
    lr_buf_free(&buf);
}

static void a_relayed_event_keeps_its_body_under_another_head(void **state)
{
    struct lr_buf buf, out;
    struct wire_event_head head;
    struct wire_token got;
    uint32_t id;
    (void)state;
    lr_buf_init(&buf, 4096);
    lr_buf_init(&out, 4096);
    wire_token_encode(&buf,
                      &(struct wire_token){.request = 5, .id = 77, .bytes = LR_STR_LIT("x")});
    struct wire_frame frame = only_frame(&buf);
    assert_true(wire_token_id(frame.body, &id));
    assert_int_equal(id, 77);
    wire_empty_encode(&out, WIRE_PING);
    size_t start = wire_event_relay(&out, &frame, 0x1122334455667788u, 9);
    struct lr_str bytes = lr_str_sub(lr_buf_str(&out), start, out.len);
    bool has;
    assert_int_equal(wire_frame_next(&bytes, &frame, &has, NULL), LR_OK);
    assert_int_equal(frame.type, WIRE_TOKEN);
    assert_true(wire_event_head_decode(frame.body, &head));
    assert_int_equal(head.request, 0x1122334455667788u);
    assert_int_equal(head.index, 9);
    assert_false(head.has_more);
    wire_event_has_more(&out, start);
    assert_true(wire_event_head_decode(frame.body, &head));
    assert_true(head.has_more);
    assert_int_equal(wire_token_decode(frame.body, &got, NULL), LR_OK);
    assert_int_equal(got.request, 0x1122334455667788u);
    assert_int_equal(got.id, 77);
    for (size_t len = 0; len < WIRE_EVENT_HEAD_LEN; len++)
        assert_false(wire_event_head_decode(lr_str_sub(frame.body, 0, len), &head));
    lr_buf_free(&buf);
    lr_buf_free(&out);
}

static void a_vector_arrives_whole_or_not_at_all(void **state)
{
    (void)state;
    const float values[] = {0.5f, -2.0f, 1e-20f};
    struct wire_vector got;
    struct lr_buf buf;
    lr_buf_init(&buf, 4096);
    wire_vector_encode(&buf, 9, values, 3);
    struct wire_frame frame = only_frame(&buf);
    assert_int_equal(frame.type, WIRE_VECTOR);
    assert_true(wire_is_event(frame.type) && !wire_event_is_last(frame.type));
    assert_int_equal(wire_vector_decode(frame.body, &got, NULL), LR_OK);
    assert_true(got.request == 9 && got.count == 3);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(wire_vector_value(&got, i) == values[i]);
    for (size_t len = 0; len < frame.body.len; len++)
        assert_int_equal(wire_vector_decode(lr_str_sub(frame.body, 0, len), &got, NULL),
                         LR_INVALID_ARGUMENT);
    lr_buf_clear(&buf);
    wire_vector_encode(&buf, 9, values, 0);
    assert_int_equal(wire_vector_decode(only_frame(&buf).body, &got, NULL),
                     LR_INVALID_ARGUMENT);
    lr_buf_free(&buf);
}

static void
an_error_arrives_with_its_identity_which_a_neighbour_of_old_is_not_sent(void **state)
{
    (void)state;
    struct lr_buf buf, now;
    struct wire_done done = {.reason = LR_FINISH_ERROR}, got;
    struct wire_error error = {0}, read;
    struct wire_lost lost = {0}, left;
    struct lr_error err;
    struct lr_str limit;
    lr_buf_init(&buf, 1 << 16);
    lr_buf_init(&now, 1 << 16);
    (void)lr_fail_as(&done.error, prompt_too_long, 70, "tokens", 50);
    wire_done_encode(&buf, &done);
    assert_int_equal(wire_done_decode(only_frame(&buf).body, &got, &err), LR_OK);
    assert_true(lr_error_hole(&got.error, "limit", &limit));
    assert_memory_equal(limit.ptr, "50", 2);
    /* As a release without identities wrote it, and would read it. */
    lr_fail_forget(done.error.text, sizeof(done.error.text));
    wire_done_encode(&now, &done);
    wire_error_cut(&buf, 0);
    assert_int_equal(buf.len, now.len);
    assert_memory_equal(buf.data, now.data, now.len);
    assert_int_equal(wire_done_decode(only_frame(&buf).body, &got, &err), LR_OK);
    assert_true(lr_error_is(&got.error, LR_ERROR_prompt_too_long)); /* by its sentence */
    for (int i = 0; i < 2; i++) {
        lr_buf_clear(&buf);
        (void)lr_fail_plain(&error.error, node_stops);
        (void)lr_fail_plain(&lost.error, node_stops);
        if (i == 0)
            wire_error_encode(&buf, WIRE_ERROR, &error);
        else
            wire_lost_encode(&buf, &lost);
        size_t whole = buf.len;
        wire_error_cut(&buf, 0);
        assert_int_equal(whole - buf.len, sizeof(uint32_t) + strlen("node_stops"));
        if (i == 0)
            assert_int_equal(wire_error_decode(only_frame(&buf).body, &read, &err), LR_OK);
        else
            assert_int_equal(wire_lost_decode(only_frame(&buf).body, &left, &err), LR_OK);
    }
    lr_buf_clear(&buf);
    wire_u64_encode(&buf, WIRE_CANCEL, 1);
    size_t whole = buf.len;
    wire_error_cut(&buf, 0); /* has no error */
    assert_int_equal(buf.len, whole);
    lr_buf_free(&buf);
    lr_buf_free(&now);
}

static void a_frame_without_room_leaves_no_half_of_itself(void **state)
{
    (void)state;
    char text[64] = {0};
    struct lr_buf buf;
    lr_buf_init(&buf, 40); /* room for one frame and a half */
    wire_u64_encode(&buf, WIRE_CANCEL, 1);
    size_t whole = buf.len;
    size_t start = wire_frame_begin(&buf, WIRE_CANCEL);
    lr_buf_add(&buf, text, sizeof(text));
    wire_frame_end(&buf, start);
    assert_true(buf.failed);
    assert_int_equal(buf.len, whole);
    assert_int_equal(only_frame(&buf).type, WIRE_CANCEL);
    lr_buf_free(&buf);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_arrives_with_its_alternatives),
        cmocka_unit_test(a_vector_arrives_whole_or_not_at_all),
        cmocka_unit_test(a_body_cut_anywhere_is_refused),
        cmocka_unit_test(a_frame_waits_for_its_last_byte),
        cmocka_unit_test(another_version_and_a_giant_frame_end_the_stream),
        cmocka_unit_test(an_event_reads_as_a_line_of_json),
        cmocka_unit_test(needs_and_ticks_keep_every_number),
        cmocka_unit_test(a_relayed_event_keeps_its_body_under_another_head),
        cmocka_unit_test(
            an_error_arrives_with_its_identity_which_a_neighbour_of_old_is_not_sent),
        cmocka_unit_test(a_frame_without_room_leaves_no_half_of_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
