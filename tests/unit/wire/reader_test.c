/* Frames out of a stream: the same ones however the stream is cut, within bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/event.h"
#include "wire/reader.h"
#include "wire/seal.h"

static void put_frame(struct lr_buf *out, enum wire_type type, size_t len)
{
    size_t start = wire_frame_begin(out, type);
    for (size_t i = 0; i < len; i++)
        lr_buf_add_char(out, (char)(len + i));
    wire_frame_end(out, start);
}

/* Reads all frames of one piece; gives their bytes, one behind the other. */
static void take_all(struct wire_reader *reader, struct lr_str piece, struct lr_buf *out)
{
    struct wire_frame frame, seen;
    bool has = true;
    size_t at = 0;
    wire_reader_give(reader, piece);
    struct lr_buf looked;
    lr_buf_init(&looked, 1 << 20);
    while (wire_reader_look(reader, &at, &seen))
        lr_buf_add_str(&looked, seen.bytes);
    size_t before = out->len;
    while (has) {
        assert_int_equal(wire_reader_next(reader, &frame, &has, NULL), LR_OK);
        if (has)
            lr_buf_add_str(out, frame.bytes);
    }
    assert_true(lr_str_eq(lr_buf_str(&looked), lr_str_sub(lr_buf_str(out), before, out->len)));
    lr_buf_free(&looked);
}

static void put_frames(struct lr_buf *out)
{
    static const size_t lengths[] = {0, 1, 7, 40, 0, 300, 9};
    lr_buf_init(out, 1 << 20);
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        put_frame(out, WIRE_TOKEN, lengths[i]);
}

static void expect_frames_wherever_cut(struct lr_str frames, struct lr_str all, bool is_sealed)
{
    struct lr_buf got;
    lr_buf_init(&got, 1 << 20);
    for (size_t a = 0; a <= all.len; a++)
        for (size_t b = a; b <= all.len; b += 1 + (all.len - a) / 16) {
            struct wire_reader reader;
            wire_reader_init(&reader, 300);
            if (is_sealed)
                wire_reader_expect_seals(&reader);
            lr_buf_clear(&got);
            take_all(&reader, lr_str_sub(all, 0, a), &got);
            take_all(&reader, lr_str_sub(all, a, b), &got);
            take_all(&reader, lr_str_sub(all, b, all.len), &got);
            assert_true(lr_str_eq(frames, lr_buf_str(&got)));
            wire_reader_free(&reader);
        }
    lr_buf_free(&got);
}

static void the_same_frames_come_out_wherever_the_stream_is_cut(void **state)
{
    struct lr_buf frames, sealed;
    (void)state;
    put_frames(&frames);
    lr_buf_init(&sealed, 1 << 20);
    wire_seal(&sealed, lr_buf_str(&frames));
    expect_frames_wherever_cut(lr_buf_str(&frames), lr_buf_str(&frames), false);
    expect_frames_wherever_cut(lr_buf_str(&frames), lr_buf_str(&sealed), true);
    lr_buf_free(&frames);
    lr_buf_free(&sealed);
}

/* The frames before the changed bit come out as they were; then the stream ends. */
static void every_bit_that_changes_on_the_way_is_noticed(void **state)
{
    struct lr_buf frames, sent;
    (void)state;
    put_frames(&frames);
    lr_buf_init(&sent, 1 << 20);
    wire_seal(&sent, lr_buf_str(&frames));
    for (size_t bit = 0; bit < 8 * sent.len; bit++) {
        struct wire_reader reader;
        struct wire_frame frame;
        struct lr_error err;
        size_t read = 0;
        bool has = true;
        lr_code code = LR_OK;
        sent.data[bit / 8] = (char)(sent.data[bit / 8] ^ (1 << bit % 8));
        wire_reader_init(&reader, 300);
        wire_reader_expect_seals(&reader);
        wire_reader_give(&reader, lr_buf_str(&sent));
        while (code == LR_OK && has) {
            code = wire_reader_next(&reader, &frame, &has, &err);
            if (code == LR_OK && has) {
                assert_true(lr_str_eq(frame.bytes, lr_str_sub(lr_buf_str(&frames), read,
                                                              read + frame.bytes.len)));
                read += frame.bytes.len;
            }
        }
        assert_int_equal(code, LR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, "checksum"));
        wire_reader_free(&reader);
        sent.data[bit / 8] = (char)(sent.data[bit / 8] ^ (1 << bit % 8));
    }
    lr_buf_free(&frames);
    lr_buf_free(&sent);
}

static void a_large_frame_byte_by_byte_is_copied_once_and_its_memory_goes(void **state)
{
    enum { BYTES = 2 << 20 };
    struct lr_buf sent;
    struct wire_reader reader;
    struct wire_frame frame;
    bool has = false;
    (void)state;
    lr_buf_init(&sent, 2 * BYTES);
    put_frame(&sent, WIRE_SUBMIT, BYTES);
    wire_reader_init(&reader, BYTES);
    for (size_t i = 0; i < sent.len; i++) {
        assert_false(has);
        wire_reader_give(&reader, lr_str(sent.data + i, 1));
        assert_int_equal(wire_reader_next(&reader, &frame, &has, NULL), LR_OK);
    }
    assert_true(has);
    assert_true(lr_str_eq(frame.bytes, lr_buf_str(&sent)));
    assert_int_equal(wire_reader_next(&reader, &frame, &has, NULL), LR_OK);
    assert_false(has);
    assert_int_equal(reader.kept.capacity, 0);
    wire_reader_free(&reader);
    lr_buf_free(&sent);
}

static void a_promised_length_takes_no_memory_before_its_bytes_come(void **state)
{
    struct wire_reader reader;
    struct wire_frame frame;
    bool has;
    struct lr_buf sent;
    (void)state;
    lr_buf_init(&sent, 64 << 10);
    put_frame(&sent, WIRE_SUBMIT, 100);
    memcpy(sent.data, "\x00\x00\x00\x03", 4); /* 48 MB */
    wire_reader_init(&reader, WIRE_BODY_MAX);
    wire_reader_give(&reader, lr_buf_str(&sent));
    assert_int_equal(wire_reader_next(&reader, &frame, &has, NULL), LR_OK);
    assert_false(has);
    assert_true(reader.kept.capacity < 4096);
    wire_reader_free(&reader);
    lr_buf_free(&sent);
}

/* A stream that begins with a bad header, in one piece and cut. */
static void expect_refused(const char *header, const char *word)
{
    for (size_t cut = 0; cut < WIRE_HEADER_LEN; cut++) {
        struct wire_reader reader;
        struct wire_frame frame;
        struct lr_error err;
        bool has;
        wire_reader_init(&reader, 1000);
        wire_reader_give(&reader, lr_str(header, cut));
        assert_int_equal(wire_reader_next(&reader, &frame, &has, &err), LR_OK);
        wire_reader_give(&reader, lr_str(header + cut, WIRE_HEADER_LEN - cut));
        assert_int_equal(wire_reader_next(&reader, &frame, &has, &err), LR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, word));
        wire_reader_free(&reader);
    }
}

static void another_version_and_a_body_over_the_limit_are_refused_at_the_header(void **state)
{
    (void)state;
    struct lr_buf sent;
    lr_buf_init(&sent, 4096);
    put_frame(&sent, WIRE_TOKEN, 1001);
    expect_refused(sent.data, "limit of 1000");
    sent.data[4] = 77;
    sent.data[0] = 9;
    sent.data[1] = 0;
    expect_refused(sent.data, "version 77");
    lr_buf_free(&sent);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_frames_come_out_wherever_the_stream_is_cut),
        cmocka_unit_test(every_bit_that_changes_on_the_way_is_noticed),
        cmocka_unit_test(a_large_frame_byte_by_byte_is_copied_once_and_its_memory_goes),
        cmocka_unit_test(a_promised_length_takes_no_memory_before_its_bytes_come),
        cmocka_unit_test(another_version_and_a_body_over_the_limit_are_refused_at_the_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
