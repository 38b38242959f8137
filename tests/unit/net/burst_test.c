/* A burst: each byte is sent once, in order, by one thread at a time, whatever the sockets do;
 * and the same for streams of a server whose loop has a sending thread. */
#include "net/burst.h"

#include "harness.h"

enum { SOCKETS = 64, ROUNDS = 200, STREAMS = 16, PIECES = 400 };

/* ---- the burst alone, on socket pairs ---- */

struct end {
    int ours, theirs;
    bool is_lent;
    unsigned sent;    /* messages */
    unsigned seen;    /* messages that have arrived */
    ssize_t last;     /* result of the last lent send */
    size_t bytes_due; /* bytes that the socket did not take */
};

static struct net_burst *burst;
static struct end ends[SOCKETS];

static int open_ends(void **state)
{
    (void)state;
    for (size_t i = 0; i < SOCKETS; i++) {
        int pair[2];
        if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
            return -1;
        ends[i] = (struct end){.ours = pair[0], .theirs = pair[1]};
    }
    return net_burst_create(&burst, NULL) == LR_OK ? 0 : -1;
}

static int close_ends(void **state)
{
    (void)state;
    net_burst_destroy(burst);
    for (size_t i = 0; i < SOCKETS; i++) {
        (void)close(ends[i].ours);
        if (ends[i].theirs >= 0)
            (void)close(ends[i].theirs);
    }
    return 0;
}

static void on_done(void *arg, ssize_t sent, struct lr_str bytes)
{
    struct end *end = arg;
    assert_true(end->is_lent);
    end->is_lent = false;
    end->last = sent;
    end->bytes_due += sent < 0 ? bytes.len : bytes.len - (size_t)sent;
}

/* Sends for example "17:4;" to socket 17 as its fourth message. */
static void say_next(struct end *end)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%d:%u;", (int)(end - ends), end->sent++);
    struct lr_str parts[2] = {lr_str(text, 1), lr_str(text + 1, (size_t)len - 1)};
    if (end->is_lent)
        net_burst_settle(burst);
    assert_false(end->is_lent);
    end->is_lent = net_burst_send(burst, end->ours, parts, 2, on_done, end);
    if (!end->is_lent)
        assert_int_equal(send(end->ours, text, (size_t)len, MSG_NOSIGNAL), len);
}

/* Checks that all messages since the last call have arrived, in order, and nothing else. */
static void expect_all(struct end *end)
{
    static char got[1 << 16];
    size_t len = 0;
    ssize_t n;
    while ((n = recv(end->theirs, got + len, sizeof(got) - len - 1, MSG_DONTWAIT)) > 0)
        len += (size_t)n;
    got[len] = '\0';
    const char *at = got;
    for (; end->seen < end->sent; end->seen++) {
        char text[32];
        int size = snprintf(text, sizeof(text), "%d:%u;", (int)(end - ends), end->seen);
        assert_memory_equal(at, text, (size_t)size);
        at += size;
    }
    assert_int_equal(*at, '\0');
}

static void every_socket_gets_its_bytes_once_and_in_order(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        net_burst_begin(burst, -1);
        for (size_t i = 0; i < SOCKETS; i++)
            say_next(&ends[i]);
        net_burst_end(burst);
        for (size_t i = 0; i < SOCKETS; i++) {
            assert_false(ends[i].is_lent);
            expect_all(&ends[i]);
        }
    }
}

static void a_socket_that_is_lent_is_had_back_before_it_is_used_again(void **state)
{
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        net_burst_begin(burst, -1);
        for (size_t i = 0; i < SOCKETS; i++)
            say_next(&ends[i % 3]);
        net_burst_end(burst);
        for (size_t i = 0; i < 3; i++)
            expect_all(&ends[i]);
    }
}

/* Until the thread wakes the loop sends; with one processor always. */
static void the_thread_takes_its_share_once_it_is_awake(void **state)
{
    (void)state;
    uint64_t until = now_ms() + HANG_MS;
    while (burst != NULL && net_burst_shared(burst) == 0) {
        net_burst_begin(burst, -1);
        for (size_t i = 0; i < SOCKETS; i++)
            say_next(&ends[i]);
        net_burst_end(burst);
        assert_true(now_ms() < until);
        for (size_t i = 0; i < SOCKETS; i++)
            expect_all(&ends[i]);
    }
}

static void the_source_of_bursts_is_watched_but_neither_read_nor_needed(void **state)
{
    (void)state;
    int source[2];
    char got[ROUNDS];
    assert_int_equal(pipe(source), 0);
    for (unsigned round = 0; round < ROUNDS; round++) {
        if (round <= ROUNDS / 2)
            assert_int_equal(write(source[1], "x", 1), 1);
        net_burst_begin(burst, source[0]);
        for (size_t i = 0; i < SOCKETS; i++)
            say_next(&ends[i]);
        net_burst_end(burst);
        if (round ==
            ROUNDS /
                2) { /* everything written has arrived; from here on the socket is closed */
            assert_int_equal(read(source[0], got, sizeof(got)), round + 1);
            (void)close(source[0]);
            source[0] = open("/dev/null", O_RDONLY);
        }
        for (size_t i = 0; i < SOCKETS; i++)
            expect_all(&ends[i]);
    }
    (void)close(source[0]);
    (void)close(source[1]);
}

static void nothing_is_taken_outside_of_a_burst_nor_what_is_too_long(void **state)
{
    (void)state;
    static char long_text[NET_BURST_BYTES + 1];
    struct lr_str parts[2] = {LR_STR_LIT("x"), lr_str(long_text, NET_BURST_BYTES)};
    assert_false(net_burst_send(burst, ends[0].ours, parts, 1, on_done, &ends[0]));
    net_burst_begin(burst, -1);
    assert_false(net_burst_send(burst, ends[0].ours, parts, 2, on_done, &ends[0]));
    net_burst_end(burst);
    assert_false(net_burst_send(burst, ends[0].ours, parts, 1, on_done, &ends[0]));
}

static ssize_t lend_one(struct end *end)
{
    struct lr_str text = LR_STR_LIT("some bytes");
    net_burst_begin(burst, -1);
    end->is_lent = net_burst_send(burst, end->ours, &text, 1, on_done, end);
    assert_true(end->is_lent);
    net_burst_end(burst);
    assert_false(end->is_lent);
    return end->last;
}

static void a_full_socket_and_a_closed_socket_are_reported_as_such(void **state)
{
    (void)state;
    static char block[4096];
    if (burst == NULL)
        return; /* one processor: sockets are never lent */
    while (send(ends[0].ours, block, sizeof(block), MSG_DONTWAIT) > 0)
        ;
    assert_int_equal(lend_one(&ends[0]), -EAGAIN);
    assert_int_equal(ends[0].bytes_due, strlen("some bytes"));
    (void)close(ends[1].theirs);
    ends[1].theirs = -1;
    assert_int_equal(lend_one(&ends[1]), -EPIPE);
    assert_int_equal(lend_one(&ends[2]), strlen("some bytes"));
}

/* ---- streams of a server ---- */

static struct net_request *streams[STREAMS];
static unsigned stream_count;

/* All pieces of all streams in bursts; several for one stream in the same burst. */
static void write_all(void)
{
    for (unsigned piece = 0; piece < PIECES; piece += 2) {
        net_loop_burst_begin(net_request_loop(streams[0]), -1);
        for (unsigned i = 0; i < 2 * STREAMS; i++) {
            char text[16];
            int len = snprintf(text, sizeof(text), "%04u;", piece + i / STREAMS);
            lr_code code = net_stream_write(streams[i % STREAMS], lr_str(text, (size_t)len));
            if (code != LR_OK && code != LR_CANCELLED)
                abort();
        }
        net_loop_burst_end(net_request_loop(streams[0]));
    }
    net_loop_burst_begin(net_request_loop(streams[0]), -1);
    for (unsigned i = 0; i < STREAMS; i++) {
        lr_code ignored = net_stream_finish(streams[i], LR_STR_LIT("end"));
        (void)ignored; /* a client has left */
    }
    net_loop_burst_end(net_request_loop(streams[0]));
}

static void on_stream(void *arg, struct net_request *req)
{
    (void)arg;
    net_stream_begin(req, 200, "text/plain");
    streams[stream_count++] = req;
    if (stream_count == STREAMS)
        write_all();
    note(&h.begun);
}

static int start_server(void **state)
{
    (void)state;
    stream_count = 0;
    harness_start((struct net_server_config){.handler = {.on_request = on_stream}}, 1);
    return 0;
}

static int stop_server(void **state)
{
    (void)state;
    harness_stop();
    return 0;
}

struct share {
    struct net_loop *loop;
    unsigned done;
};

static void share_sends(void *arg)
{
    struct share *share = arg;
    if (net_loop_share_sends(share->loop, NULL) != LR_OK)
        abort();
    note(&share->done);
}

/* HTTP/1.0: plain bytes until the connection ends. */
static void streams_keep_their_order_and_their_end_in_a_burst(void **state)
{
    (void)state;
    static char got[1 << 16];
    struct share share = {.loop = net_loops_get(h.loops, 0)};
    net_loop_post(share.loop, share_sends, &share);
    await(&share.done, 1);
    int fds[STREAMS];
    const char ask[] = "GET / HTTP/1.0\r\n\r\n";
    for (size_t i = 0; i < STREAMS; i++) {
        fds[i] = dial();
        assert_int_equal(send(fds[i], ask, strlen(ask), 0), strlen(ask));
    }
    for (size_t i = 0; i < STREAMS; i++) {
        size_t len = 0;
        ssize_t n;
        while ((n = recv(fds[i], got + len, sizeof(got) - len - 1, 0)) > 0)
            len += (size_t)n;
        got[len] = '\0';
        const char *at = strstr(got, "\r\n\r\n");
        assert_non_null(at);
        at += 4;
        for (unsigned piece = 0; piece < PIECES; piece++, at += 5)
            assert_int_equal(strtoul(at, NULL, 10), piece);
        assert_string_equal(at, "end");
        (void)close(fds[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_socket_gets_its_bytes_once_and_in_order,
                                        open_ends, close_ends),
        cmocka_unit_test_setup_teardown(
            a_socket_that_is_lent_is_had_back_before_it_is_used_again, open_ends, close_ends),
        cmocka_unit_test_setup_teardown(the_thread_takes_its_share_once_it_is_awake, open_ends,
                                        close_ends),
        cmocka_unit_test_setup_teardown(
            the_source_of_bursts_is_watched_but_neither_read_nor_needed, open_ends, close_ends),
        cmocka_unit_test_setup_teardown(
            nothing_is_taken_outside_of_a_burst_nor_what_is_too_long, open_ends, close_ends),
        cmocka_unit_test_setup_teardown(a_full_socket_and_a_closed_socket_are_reported_as_such,
                                        open_ends, close_ends),
        cmocka_unit_test_setup_teardown(streams_keep_their_order_and_their_end_in_a_burst,
                                        start_server, stop_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
