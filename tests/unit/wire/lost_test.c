/* A lost generation's owner learns how to submit it again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "wire/generate.h"
#include "wire/lost.h"

static struct wire_frame only_frame(const struct lr_buf *buf)
{
    struct lr_str bytes = lr_buf_str(buf);
    struct wire_frame frame = {0};
    bool has = false;
    assert_int_equal(wire_frame_next(&bytes, &frame, &has, NULL), LR_OK);
    assert_true(has);
    return frame;
}

static void a_loss_arrives_whole_and_a_cut_one_is_refused(void **state)
{
    struct lr_buf buf;
    struct wire_lost got, sent = {.has_strike = true,
                                  .entry = WIRE_ENTRY_COHORT,
                                  .cohort = 12,
                                  .error = {.code = LR_INTERNAL, .text = "killed"}};
    (void)state;
    lr_buf_init(&buf, 4096);
    wire_lost_encode(&buf, &sent);
    struct lr_str body = only_frame(&buf).body;
    assert_int_equal(wire_lost_decode(body, &got, NULL), LR_OK);
    assert_true(got.has_strike && got.entry == WIRE_ENTRY_COHORT && got.cohort == 12);
    assert_string_equal(got.error.text, "killed");
    for (size_t len = 0; len < body.len; len++)
        assert_int_equal(wire_lost_decode(lr_str_sub(body, 0, len), &got, NULL),
                         LR_INVALID_ARGUMENT);
    lr_buf_free(&buf);
}

static void the_requests_of_a_step_arrive_in_order(void **state)
{
    struct lr_buf buf;
    const uint64_t ids[] = {UINT64_MAX, 0, 7};
    (void)state;
    lr_buf_init(&buf, 4096);
    wire_enter_encode(&buf, ids, 3);
    struct lr_str body = only_frame(&buf).body;
    assert_int_equal(wire_enter_count(body), 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(wire_enter_id(body, i) == ids[i]);
    assert_int_equal(wire_enter_count(lr_str_sub(body, 0, 20)), 0);
    lr_buf_free(&buf);
}

static void an_entry_travels_with_the_generation(void **state)
{
    struct lr_segment hello = {.text = "hi", .len = 2};
    struct wire_generate sent, got;
    struct lr_arena arena;
    struct lr_buf buf;
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    lr_buf_init(&buf, 4096);
    wire_generate_defaults(&sent);
    sent.segments = &hello;
    sent.segment_count = 1;
    sent.entry = WIRE_ENTRY_COHORT;
    sent.cohort = 9;
    wire_submit_encode(&buf, &sent);
    struct lr_str body = lr_str_sub(lr_buf_str(&buf), WIRE_HEADER_LEN, buf.len);
    assert_int_equal(wire_submit_decode(&arena, body, &got, NULL), LR_OK);
    assert_true(got.entry == WIRE_ENTRY_COHORT && got.cohort == 9);
    lr_buf_free(&buf);
    lr_arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_arrives_whole_and_a_cut_one_is_refused),
        cmocka_unit_test(the_requests_of_a_step_arrive_in_order),
        cmocka_unit_test(an_entry_travels_with_the_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
