/* A worker's pipes: whole frames in and out, however the bytes are split; invalid bytes or the
 * node's end finish the process. */
#include "tests/unit/worker/support.h"
#include "worker/pipes.h"

/* Sends every frame back until the stream ends. */
static int mirror(void *arg)
{
    struct worker_pipes pipes;
    struct wire_frame frame;
    struct lr_buf out;
    (void)arg;
    worker_pipes_init(&pipes);
    lr_buf_init(&out, 16 << 20);
    while (worker_pipes_fill(&pipes, true))
        while (worker_pipes_next(&pipes, &frame)) {
            lr_buf_add_str(&out, frame.bytes);
            worker_pipes_send(&pipes, &out);
        }
    worker_pipes_free(&pipes);
    lr_buf_free(&out);
    return 7;
}

static void frames_arrive_whole_however_they_are_cut(void **state)
{
    struct place p = place_start(mirror, NULL);
    struct lr_buf sent;
    uint64_t value;
    (void)state;
    lr_buf_init(&sent, 1 << 20);
    for (uint64_t i = 0; i < 50; i++)
        wire_u64_encode(&sent, WIRE_CANCEL, i);
    /* The first half byte by byte, the rest in one piece. */
    struct lr_str bytes = lr_buf_str(&sent);
    for (size_t i = 0; i < bytes.len / 2; i++)
        place_send(&p, lr_str_sub(bytes, i, i + 1));
    place_send(&p, lr_str_sub(bytes, bytes.len / 2, bytes.len));
    for (uint64_t i = 0; i < 50; i++) {
        struct wire_frame frame = place_expect(&p, WIRE_CANCEL);
        assert_int_equal(wire_u64_decode(frame.body, &value, NULL), LR_OK);
        assert_int_equal(value, i);
    }
    lr_buf_free(&sent);
    assert_int_equal(place_end(&p), 7); /* the end of the stream is no crash */
}

static void a_frame_larger_than_a_pipe_passes_both_ways(void **state)
{
    enum { BYTES = 3 << 20 };
    struct place p = place_start(mirror, NULL);
    struct lr_buf sent;
    (void)state;
    lr_buf_init(&sent, 2 * BYTES);
    size_t start = wire_frame_begin(&sent, WIRE_SUBMIT);
    for (int i = 0; i < BYTES; i++)
        lr_buf_add_char(&sent, (char)i);
    wire_frame_end(&sent, start);
    place_send(&p, lr_buf_str(&sent));
    struct wire_frame frame = place_expect(&p, WIRE_SUBMIT);
    assert_true(lr_str_eq(frame.bytes, lr_buf_str(&sent)));
    lr_buf_free(&sent);
    assert_int_equal(place_end(&p), 7);
}

static void a_stream_that_is_not_frames_ends_the_process(void **state)
{
    const struct lr_str streams[] = {
        LR_STR_LIT("GET / HTTP/1.1\r\n\r\n"),    /* another protocol */
        {"\x00\x00\x00\x00\x63\x05\x00\x00", 8}, /* another version */
        {"\xff\xff\xff\xff\x01\x05\x00\x00", 8}, /* a body of four gigabytes */
    };
    (void)state;
    for (size_t i = 0; i < sizeof(streams) / sizeof(streams[0]); i++) {
        struct place p = place_start(mirror, NULL);
        struct wire_frame frame;
        place_send(&p, streams[i]);
        assert_false(place_next(&p, &frame));
        assert_int_equal(place_end(&p), 2);
    }
}

static int talk_for_ever(void *arg)
{
    struct worker_pipes pipes;
    struct lr_buf out;
    (void)arg;
    worker_pipes_init(&pipes);
    lr_buf_init(&out, 4096);
    for (;;) {
        wire_empty_encode(&out, WIRE_TICK);
        worker_pipes_send(&pipes, &out);
    }
    return 0;
}

static void a_node_that_has_gone_ends_the_process(void **state)
{
    struct place p = place_start(talk_for_ever, NULL);
    (void)state;
    (void)place_expect(&p, WIRE_TICK);
    assert_int_equal(place_end(&p), 1);
}

static int run_out_of_room(void *arg)
{
    struct worker_pipes pipes;
    struct lr_buf out;
    (void)arg;
    worker_pipes_init(&pipes);
    lr_buf_init(&out, 4);
    wire_empty_encode(&out, WIRE_TICK);
    worker_pipes_send(&pipes, &out);
    return 0;
}

static void a_message_that_could_not_be_built_is_a_death_not_a_gap(void **state)
{
    struct place p = place_start(run_out_of_room, NULL);
    struct wire_frame frame;
    (void)state;
    assert_false(place_next(&p, &frame));
    assert_int_equal(place_end(&p), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_arrive_whole_however_they_are_cut),
        cmocka_unit_test(a_frame_larger_than_a_pipe_passes_both_ways),
        cmocka_unit_test(a_stream_that_is_not_frames_ends_the_process),
        cmocka_unit_test(a_node_that_has_gone_ends_the_process),
        cmocka_unit_test(a_message_that_could_not_be_built_is_a_death_not_a_gap),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
