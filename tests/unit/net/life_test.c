/* Clients that leave, stall, idle or come in numbers; servers that stop. */
#include "tests/unit/net/harness.h"

#include <sys/resource.h>

#define HOST    "Host: a\r\n"
#define GONE_MS 50 /* the documented limit */

enum { STREAM_LIMIT = 256 * 1024 };

static int start(void **state)
{
    (void)state;
    harness_start((struct net_server_config){.max_stream_bytes = STREAM_LIMIT,
                                             .write_timeout_ms = 400,
                                             .body_timeout_ms = 400,
                                             .idle_timeout_ms = 60000,
                                             .linger_ms = 200},
                  2);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    harness_stop();
    return 0;
}

static int begin_from(uint32_t last, const char *path)
{
    char text[256];
    char answer[1024];
    int fd = dial_from(last);
    (void)snprintf(text, sizeof(text), "GET %s HTTP/1.1\r\n" HOST "\r\n", path);
    say_z(fd, text);
    hear_until(fd, answer, sizeof(answer), "\r\n\r\n");
    return fd;
}

static int begin(const char *path)
{
    return begin_from(1, path);
}

/* ---- leaving ---- */

/* Connects and leaves until the handler was told three times within the documented limit.  Each
 * time it must be told; slow trials are those of a busy machine. */
static void expect_gone(int (*arrive)(void), void (*leave)(int fd))
{
    enum { QUICK = 3, TRIALS = 60 };
    unsigned trials = 0, quick = 0;
    while (quick < QUICK && trials < TRIALS) {
        int fd = arrive();
        uint64_t left = now_ms();
        leave(fd);
        await(&h.gone, ++trials);
        pthread_mutex_lock(&h.mutex);
        quick += h.gone_at_ms - left <= GONE_MS;
        pthread_mutex_unlock(&h.mutex);
    }
    assert_int_equal(quick, QUICK);
    await(&h.ended, trials);
    assert_int_equal(peek_counter(&h.gone), trials); /* once each */
}

static void leave_by_close(int fd)
{
    (void)close(fd);
}

static int half_closed = -1;

static void leave_by_half_close(int fd)
{
    if (half_closed >= 0)
        (void)close(half_closed);
    half_closed = fd;
    (void)shutdown(fd, SHUT_WR);
}

static int arrive_idle(void)
{
    return begin("/idle");
}

static int arrive_later(void)
{
    unsigned before = peek_counter(&h.begun);
    int fd = dial();
    say_z(fd, "GET /later?ms=10000 HTTP/1.1\r\n" HOST "\r\n");
    await(&h.begun, before + 1);
    return fd;
}

/* Pipelines so much that the server stops reading.  With a closed window a FIN would wait
 * behind the data; a reset does not. */
static int arrive_overfull(void)
{
    static char many[1 << 20];
    int fd = begin("/idle");
    memset(many, 'x', sizeof(many));
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    size_t sent = 0;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    while (sent < 8 * sizeof(many) && poll(&p, 1, 50) > 0) {
        ssize_t n = send(fd, many, sizeof(many), MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
    }
    assert_true(sent < 8 * sizeof(many));
    return fd;
}

static int arrive_paused_upload(void)
{
    static char block[65536];
    int fd = dial();
    pthread_mutex_lock(&h.mutex);
    h.received = 0;
    pthread_mutex_unlock(&h.mutex);
    say_z(fd, "POST /slow HTTP/1.1\r\n" HOST "Content-Length: 10000000\r\n\r\n");
    say(fd, block, sizeof(block));
    uint64_t until = now_ms() + HANG_MS;
    size_t received = 0;
    while (received == 0 && now_ms() < until) {
        pthread_mutex_lock(&h.mutex);
        received = h.received;
        pthread_mutex_unlock(&h.mutex);
    }
    assert_true(received > 0);
    return fd;
}

static void a_closing_client_of_a_silent_stream_is_noticed(void **state)
{
    (void)state;
    expect_gone(arrive_idle, leave_by_close);
}

static void a_half_close_during_an_answer_counts_as_gone(void **state)
{
    (void)state;
    expect_gone(arrive_idle, leave_by_half_close);
    assert_true(is_closed(half_closed));
    (void)close(half_closed);
}

static void a_reset_of_a_silent_stream_is_noticed(void **state)
{
    (void)state;
    expect_gone(arrive_idle, reset);
}

static void a_client_that_leaves_before_the_answer_is_noticed(void **state)
{
    (void)state;
    expect_gone(arrive_later, leave_by_close);
}

static void a_client_that_leaves_behind_unread_requests_is_noticed(void **state)
{
    (void)state;
    expect_gone(arrive_overfull, reset);
}

static void a_client_that_leaves_a_paused_upload_is_noticed(void **state)
{
    (void)state;
    expect_gone(arrive_paused_upload, leave_by_close);
}

static void gone_is_not_told_after_the_answer(void **state)
{
    (void)state;
    char answer[1024];
    int fd = dial();
    say_z(fd, "GET /later?ms=1 HTTP/1.1\r\n" HOST "\r\n");
    hear_until(fd, answer, sizeof(answer), "later");
    (void)close(fd);
    await(&h.ended, 1);
    /* The round trip of a second connection gives a late callback time to run. */
    (void)close(begin("/json"));
    assert_int_equal(peek_counter(&h.gone), 0);
}

static void a_half_closed_client_still_gets_a_prompt_answer(void **state)
{
    (void)state;
    char answer[1024];
    int fd = dial();
    say_z(fd, "GET /json HTTP/1.1\r\n" HOST "\r\n");
    (void)shutdown(fd, SHUT_WR);
    (void)hear_all(fd, answer, sizeof(answer));
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "{\"ok\":true}"));
    (void)close(fd);
}

static void resets_at_every_stage_leave_nothing_behind(void **state)
{
    (void)state;
    static const char *const stages[] = {
        "",
        "GET /js",
        "GET /json HTTP/1.1\r\nHost",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nhalf",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhe",
        "POST /count HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nhalf",
        "GET /json HTTP/1.1\r\n" HOST "\r\n",
        "GET /later?ms=20 HTTP/1.1\r\n" HOST "\r\n",
        "GET /flood HTTP/1.1\r\n" HOST "\r\n",
        "GET /thread HTTP/1.1\r\n" HOST "\r\n",
        "GET /json\n",
    };
    for (int round = 0; round < 5; round++) {
        for (size_t i = 0; i < sizeof(stages) / sizeof(stages[0]); i++) {
            int fd = dial();
            say_z(fd, stages[i]);
            reset(fd);
        }
    }
    /* The server still answers, and only this connection is left. */
    struct net_server_stats stats;
    uint64_t until = now_ms() + HANG_MS;
    int fd = begin("/json");
    do {
        net_server_get_stats(h.server, &stats);
        assert_true(now_ms() < until);
    } while (stats.connections != 1 || stats.active != 0);
    (void)close(fd);
}

static void a_slow_reader_is_buffered_up_to_the_limit(void **state)
{
    (void)state;
    int fd = begin("/flood");
    await(&h.refused, 1);
    pthread_mutex_lock(&h.mutex);
    size_t queued = h.queued_max;
    pthread_mutex_unlock(&h.mutex);
    assert_in_range(queued, STREAM_LIMIT / 2, STREAM_LIMIT);
    (void)close(fd);
    await(&h.gone, 1);
}

static void a_late_reader_gets_what_was_made_before_the_limit_and_the_end(void **state)
{
    (void)state;
    static char block[1 << 20];
    size_t total = 0;
    int fd = begin("/made");
    await(&h.refused, 1);
    for (;;) {
        ssize_t n = read(fd, block, sizeof(block));
        assert_true(n > 0);
        total += (size_t)n;
        if (n >= 5 && memcmp(block + n - 5, "0\r\n\r\n", 5) == 0)
            break;
    }
    assert_in_range(total, 2 * sizeof(made) - 2000, 2 * sizeof(made) + 100);
    (void)close(fd);
}

static void a_reader_that_takes_nothing_is_given_up(void **state)
{
    (void)state;
    int fd = begin("/flood");
    uint64_t begun = now_ms();
    await(&h.gone, 1);
    assert_in_range(now_ms() - begun, 350, HANG_MS);
    (void)close(fd);
}

static void resume(void *arg)
{
    net_request_resume(arg);
}

static void an_upload_is_held_back_while_the_handler_pauses(void **state)
{
    (void)state;
    static char block[65536];
    const size_t total = 64u << 20;
    int fd = dial();
    char text[256];
    char answer[1024];
    (void)snprintf(text, sizeof(text),
                   "POST /slow HTTP/1.1\r\n" HOST "Content-Length: %zu\r\n\r\n", total);
    say_z(fd, text);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    size_t sent = 0;
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    while (sent < total && poll(&p, 1, 300) > 0) {
        ssize_t n = send(fd, block, sizeof(block), MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
    }
    assert_true(sent < total); /* the kernel's buffers are full, ours are not */
    pthread_mutex_lock(&h.mutex);
    struct net_request *req = h.held;
    assert_true(h.received <= 128 * 1024);
    h.held = NULL;
    pthread_mutex_unlock(&h.mutex);
    net_loop_post(net_request_loop(req), resume, req);
    (void)fcntl(fd, F_SETFL, 0);
    while (sent < total) {
        size_t len = total - sent < sizeof(block) ? total - sent : sizeof(block);
        say(fd, block, len);
        sent += len;
    }
    hear_until(fd, answer, sizeof(answer), "\r\n\r\nread");
    assert_int_equal(h.received, total);
    (void)close(fd);
}

static void pipelined_answers_nobody_reads_do_not_pile_up(void **state)
{
    (void)state;
    /* 3,000 answers of 16 KB would be 48 MB; the client reads none of them. */
    static char request[20000];
    int len =
        snprintf(request, sizeof(request),
                 "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 16384\r\n\r\n%016384d", 1);
    int fd = dial();
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    size_t sent = 0;
    size_t at = 0;
    while (sent < 3000 * (size_t)len && poll(&p, 1, 100) > 0) {
        ssize_t n = send(fd, request + at, (size_t)len - at, MSG_NOSIGNAL);
        if (n <= 0)
            break;
        sent += (size_t)n;
        at = (at + (size_t)n) % (size_t)len;
    }
    assert_true(sent < 3000 * (size_t)len);
    (void)close(fd);
}

static void a_thousand_idle_connections_are_held_and_answered(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    struct rlimit files = {4096, 4096};
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    if (old.rlim_cur < 4096 && old.rlim_max >= 4096) {
        files.rlim_max = old.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    }
    static int fds[COUNT];
    char answer[1024];
    for (int i = 0; i < COUNT; i++)
        fds[i] = dial();
    for (int i = 0; i < COUNT; i++) {
        say_z(fds[i], "GET /json HTTP/1.1\r\n" HOST "\r\n");
        hear_until(fds[i], answer, sizeof(answer), "{\"ok\":true}");
    }
    struct net_server_stats stats;
    net_server_get_stats(h.server, &stats);
    assert_int_equal(stats.connections, COUNT);
    for (int i = COUNT; i-- > 0;) {
        say_z(fds[i], "GET /json HTTP/1.1\r\n" HOST "\r\n");
        hear_until(fds[i], answer, sizeof(answer), "{\"ok\":true}");
    }
    for (int i = 0; i < COUNT; i++)
        (void)close(fds[i]);
}

static void expect_no_connections(void)
{
    struct net_server_stats stats = {.connections = 1};
    for (int i = 0; i < HANG_MS && stats.connections != 0; i++) {
        struct timespec pause = {.tv_nsec = 1000000};
        (void)nanosleep(&pause, NULL);
        net_server_get_stats(h.server, &stats);
    }
    assert_int_equal(stats.connections, 0);
}

static void connections_are_spread_evenly_over_the_loops(void **state)
{
    (void)state;
    enum { COUNT = 40 };
    int fds[COUNT];
    char answer[1024];
    int on_first = 0;
    expect_no_connections(); /* of the previous test; they would be counted */
    for (int i = 0; i < COUNT; i++) {
        fds[i] = dial();
        say_z(fds[i], "GET /loop HTTP/1.1\r\n" HOST "\r\n");
    }
    for (int i = 0; i < COUNT; i++) {
        hear_until(fds[i], answer, sizeof(answer), "!");
        on_first += strstr(answer, "loop 0!") != NULL;
    }
    for (int i = 0; i < COUNT; i++) /* not before the last was accepted: it makes room */
        (void)close(fds[i]);
    assert_in_range(on_first, COUNT / 2 - 2, COUNT / 2 + 2);
}

/* ---- stopping ---- */

static void a_stop_lets_running_requests_finish(void **state)
{
    (void)state;
    harness_start((struct net_server_config){0}, 2);
    char answer[1024];
    int idle = begin("/json");
    int running = dial();
    say_z(running, "GET /later?ms=1500 HTTP/1.1\r\n" HOST "\r\n");
    await(&h.begun, 2);
    net_server_stop(h.server, HANG_MS, harness_stopped, NULL);
    assert_true(is_closed_within(idle, 1400)); /* before the running one ends */
    assert_int_equal(peek_counter(&h.stopped), 0);
    hear_until(running, answer, sizeof(answer), "\r\n\r\nlater");
    assert_non_null(strstr(answer, "Connection: close\r\n"));
    assert_true(is_closed(running));
    (void)close(idle);
    (void)close(running);
    harness_destroy();
    assert_int_equal(h.gone, 0);
}

/* Connections that wait to be accepted, and idle connections. */
static void a_stop_resets_no_connection_that_was_accepted(void **state)
{
    enum { COUNT = 20 };
    char answer[1024];
    int late[COUNT];
    (void)state;
    harness_start((struct net_server_config){0}, 1);
    int idle = begin("/json"), busy = dial();
    say_z(busy, "GET /busy HTTP/1.1\r\n" HOST "\r\n"); /* keeps the only loop for a while */
    for (size_t i = 0; i < COUNT; i++) {
        late[i] = dial();
        if (i % 2 == 0)
            say_z(late[i], "GET /json HTTP/1.1\r\n" HOST "\r\n");
    }
    net_server_stop(h.server, 5000, harness_stopped, NULL);
    /* All at once: the server waits only half a second for them. */
    for (size_t i = 1; i < COUNT; i += 2)
        say_z(late[i], "GET /json HTTP/1.1\r\n" HOST "\r\n");
    for (size_t i = 0; i < COUNT; i++) {
        hear_until(late[i], answer, sizeof(answer), "{\"ok\":true}");
        assert_true(is_closed(late[i]));
        (void)close(late[i]);
    }
    assert_true(is_closed(idle));
    /* A request that arrives after the end is not answered, but its connection is not reset
     * either. */
    say_z(idle, "GET /json HTTP/1.1\r\n" HOST "\r\n");
    struct timespec moment = {.tv_nsec = 20 * 1000 * 1000};
    (void)nanosleep(&moment, NULL);
    assert_int_equal(read(idle, answer, sizeof(answer)), 0);
    (void)close(idle);
    (void)close(busy);
    harness_destroy();
}

static void a_stop_refuses_new_connections(void **state)
{
    (void)state;
    harness_start((struct net_server_config){0}, 2);
    int running = dial();
    say_z(running, "GET /later?ms=60000 HTTP/1.1\r\n" HOST "\r\n");
    await(&h.begun, 1);
    net_server_stop(h.server, HANG_MS, harness_stopped, NULL);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(net_server_port(h.server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint64_t until = now_ms() + HANG_MS / 2;
    int rc = 0;
    while (rc == 0 && now_ms() < until) { /* cuts what the kernel had taken before */
        int fd = lr_socket(AF_INET, SOCK_STREAM, 0);
        rc = connect(fd, (struct sockaddr *)&address, sizeof(address));
        (void)close(fd);
    }
    assert_int_equal(rc, -1);
    (void)close(running);
    harness_destroy();
}

static _Atomic bool storm_is_over;

static void *storm(void *arg)
{
    (void)arg;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(net_server_port(h.server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const char text[] = "GET /json HTTP/1.1\r\n" HOST "\r\n";
    while (!atomic_load(&storm_is_over)) {
        int fd = lr_socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0)
            (void)send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL);
        (void)close(fd);
    }
    return NULL;
}

static void a_stop_while_many_connections_arrive_is_clean(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        harness_start((struct net_server_config){0}, 3);
        pthread_t threads[2];
        atomic_store(&storm_is_over, false);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, storm, NULL), 0);
        await(&h.begun, 20);
        net_server_stop(h.server, 1000, harness_stopped, NULL);
        await(&h.stopped, 1);
        atomic_store(&storm_is_over, true);
        for (int i = 0; i < 2; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        harness_destroy();
        assert_int_equal(h.stopped, 1); /* its threads have ended */
    }
}

static void a_stop_closes_connections_after_its_deadline(void **state)
{
    (void)state;
    harness_start((struct net_server_config){0}, 2);
    int fd = begin("/idle");
    uint64_t begun = now_ms();
    net_server_stop(h.server, 150, harness_stopped, NULL);
    await(&h.gone, 1);
    assert_in_range(now_ms() - begun, 100, HANG_MS);
    assert_true(is_closed(fd));
    (void)close(fd);
    harness_destroy();
}

/* True when only an end can be read. */
static bool is_open(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) != 0;
}

static void ask_again(int fd)
{
    char answer[1024];
    say_z(fd, "GET /json HTTP/1.1\r\n" HOST "\r\n");
    hear_until(fd, answer, sizeof(answer), "\r\n\r\n");
}

static void await_connections(uint64_t count)
{
    struct net_server_stats stats;
    uint64_t until = now_ms() + HANG_MS;
    do
        net_server_get_stats(h.server, &stats);
    while (stats.connections != count && now_ms() < until);
    assert_int_equal(stats.connections, count);
}

static void connections_over_the_limit_are_closed_where_none_is_idle(void **state)
{
    (void)state;
    harness_start((struct net_server_config){.max_connections = 2}, 2);
    int first = begin("/idle");
    int second = begin("/idle");
    int third = dial();
    assert_true(is_closed(third));
    assert_true(is_open(first) && is_open(second));
    (void)close(third);
    (void)close(first);
    (void)close(second);
    await(&h.gone, 2);
    harness_stop();
}

static void the_oldest_idle_connection_is_closed_for_a_new_one(void **state)
{
    enum { LIMIT = 8, MORE = 20 };
    int fds[LIMIT + MORE];
    (void)state;
    harness_start((struct net_server_config){.max_connections = LIMIT}, 1);
    int running = begin("/idle"); /* the oldest of all, but busy */
    fds[0] = begin("/json");
    fds[1] = dial(); /* sends nothing or part of a head: idle too */
    fds[2] = dial();
    say_z(fds[2], "GET /js");
    for (int i = 3; i < LIMIT - 1; i++)
        fds[i] = begin("/json");
    ask_again(fds[0]); /* makes it the youngest */
    fds[LIMIT - 1] = begin("/json");
    assert_true(is_closed(fds[1]));
    fds[LIMIT] = begin("/json");
    assert_true(is_closed(fds[2]));
    ask_again(fds[0]);
    for (int i = LIMIT + 1; i < LIMIT + MORE; i++)
        fds[i] = begin("/json");
    assert_true(is_open(running));
    await_connections(LIMIT);
    for (int i = 0; i < LIMIT + MORE; i++)
        (void)close(fds[i]);
    (void)close(running);
    harness_stop();
}

static void one_address_has_its_share_of_the_connections(void **state)
{
    (void)state;
    harness_start((struct net_server_config){.max_connections = 100, .max_per_address = 3}, 2);
    int running[3] = {begin("/idle"), begin("/idle"), begin("/idle")};
    int more = dial();
    assert_true(is_closed(more));
    int other = begin_from(2, "/json");
    (void)close(running[0]);
    await_connections(3);
    int idle = begin("/json"); /* the address has room again */
    int next = begin("/json"); /* replaces its own idle connection, not another address's */
    assert_true(is_closed(idle) || !is_open(idle));
    ask_again(other);
    assert_true(is_open(running[1]) && is_open(running[2]));
    (void)close(more);
    (void)close(other);
    (void)close(idle);
    (void)close(next);
    (void)close(running[1]);
    (void)close(running[2]);
    await(&h.gone, 3);
    harness_stop();
}

/* Seats are lost while their connections get requests, answers and ends. */
/* So many connections at the same time, and each is answered. */
static bool are_served_together(int count)
{
    enum { MOST = 8 };
    int fds[MOST], answered = 0;
    for (int i = 0; i < count; i++) {
        fds[i] = dial();
        (void)send(fds[i], "GET /json HTTP/1.1\r\nHost: a\r\n\r\n", 32, MSG_NOSIGNAL);
    }
    for (int i = 0; i < count; i++) {
        struct pollfd p = {.fd = fds[i], .events = POLLIN};
        char byte;
        answered += poll(&p, 1, 5000) > 0 && recv(fds[i], &byte, 1, 0) == 1;
    }
    for (int i = 0; i < count; i++)
        (void)close(fds[i]);
    return answered == count;
}

static void many_connections_over_the_limit_leave_nothing_behind(void **state)
{
    enum { ROUNDS = 40, AT_ONCE = 16 };
    (void)state;
    harness_start((struct net_server_config){.max_connections = 4}, 3);
    for (int round = 0; round < ROUNDS; round++) {
        int fds[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            fds[i] = dial();
            if (i % 3 != 0)
                (void)send(fds[i], "GET /json HTTP/1.1\r\nHost: a\r\n\r\n", 32, MSG_NOSIGNAL);
        }
        for (int i = 0; i < AT_ONCE; i++)
            (void)close(fds[i]);
    }
    /* Connections of the flood may still wait to be accepted and closed. */
    uint64_t until = now_ms() + HANG_MS;
    bool is_whole = false;
    while (!is_whole && now_ms() < until) {
        await_connections(0);
        is_whole = are_served_together(4);
    }
    assert_true(is_whole); /* each has a seat: the count is right */
    harness_stop();
}

static void an_idle_connection_is_closed_after_the_idle_time(void **state)
{
    (void)state;
    harness_start((struct net_server_config){.idle_timeout_ms = 150}, 1);
    int fd = begin("/json");
    uint64_t begun = now_ms();
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    (void)recv(fd, &byte, 0, 0);
    char rest[64];
    ssize_t got;
    do { /* the rest of the answer, then the end */
        assert_true(poll(&p, 1, HANG_MS) > 0);
        got = recv(fd, rest, sizeof(rest), 0);
    } while (got > 0);
    assert_in_range(now_ms() - begun, 100, HANG_MS);
    (void)close(fd);
    harness_stop();
}

static void a_port_in_use_is_named(void **state)
{
    (void)state;
    harness_start((struct net_server_config){0}, 1);
    struct lr_error err;
    struct net_server *second;
    struct net_server_config config = {.host = "127.0.0.1", .port = net_server_port(h.server)};
    assert_int_equal(net_server_start(h.loops, &config, &second, &err), LR_IO);
    assert_non_null(strstr(err.text, "127.0.0.1:"));
    assert_non_null(strstr(err.text, "in use"));
    config.host = "not a host";
    assert_int_equal(net_server_start(h.loops, &config, &second, &err), LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "not a host"));
    harness_stop();
}

static void a_server_whose_loops_never_ran_is_freed_without_a_trace(void **state)
{
    (void)state;
    struct lr_error err;
    struct net_loops *loops;
    struct net_server *server;
    struct net_server_config config = {.host = "127.0.0.1"};
    assert_int_equal(net_loops_create(2, &loops, &err), LR_OK);
    assert_int_equal(net_server_start(loops, &config, &server, &err), LR_OK);
    config.port = net_server_port(server);
    net_server_destroy(server); /* the program could not start */
    assert_int_equal(net_server_start(loops, &config, &server, &err),
                     LR_OK); /* the port is free */
    net_server_destroy(server);
    net_loops_destroy(loops);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(a_closing_client_of_a_silent_stream_is_noticed),
        CASE(a_half_close_during_an_answer_counts_as_gone),
        CASE(a_reset_of_a_silent_stream_is_noticed),
        CASE(a_client_that_leaves_before_the_answer_is_noticed),
        CASE(a_client_that_leaves_behind_unread_requests_is_noticed),
        CASE(a_client_that_leaves_a_paused_upload_is_noticed),
        CASE(gone_is_not_told_after_the_answer),
        CASE(a_half_closed_client_still_gets_a_prompt_answer),
        CASE(resets_at_every_stage_leave_nothing_behind),
        CASE(a_slow_reader_is_buffered_up_to_the_limit),
        CASE(a_late_reader_gets_what_was_made_before_the_limit_and_the_end),
        CASE(a_reader_that_takes_nothing_is_given_up),
        CASE(an_upload_is_held_back_while_the_handler_pauses),
        CASE(pipelined_answers_nobody_reads_do_not_pile_up),
        CASE(connections_are_spread_evenly_over_the_loops),
        CASE(a_thousand_idle_connections_are_held_and_answered),
        cmocka_unit_test(a_stop_lets_running_requests_finish),
        cmocka_unit_test(a_stop_resets_no_connection_that_was_accepted),
        cmocka_unit_test(a_stop_refuses_new_connections),
        cmocka_unit_test(a_stop_while_many_connections_arrive_is_clean),
        cmocka_unit_test(a_stop_closes_connections_after_its_deadline),
        cmocka_unit_test(connections_over_the_limit_are_closed_where_none_is_idle),
        cmocka_unit_test(the_oldest_idle_connection_is_closed_for_a_new_one),
        cmocka_unit_test(one_address_has_its_share_of_the_connections),
        cmocka_unit_test(many_connections_over_the_limit_leave_nothing_behind),
        cmocka_unit_test(an_idle_connection_is_closed_after_the_idle_time),
        cmocka_unit_test(a_port_in_use_is_named),
        cmocka_unit_test(a_server_whose_loops_never_ran_is_freed_without_a_trace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
