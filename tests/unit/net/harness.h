/* tests/unit/net/harness.h - a server on its own threads, and blocking sockets to talk to it
 * byte by byte.
 *
 * Routes: /json, /echo, /later?ms=, /idle (a stream that never writes), /flood (writes as fast
 * as possible), /thread (answered from another thread), /head (refused in on_head), /count (a
 * streamed body), /slow (a streamed body, paused until the test resumes it), /busy (blocks its
 * loop for 30 ms), /loop (which loop it is on), /inject (a header value with CR LF), /empty
 * (204), /sse, /upgrade (echoes), /made (pieces larger than the queue).
 */
#ifndef TEST_NET_HARNESS_H
#define TEST_NET_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/socket.h"
#include "net/server.h"

struct harness {
    struct net_loops *loops;
    struct net_server *server;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    /* Under the mutex. */
    unsigned gone;            /* on_gone calls */
    uint64_t gone_at_ms;      /* of the last one */
    unsigned ended;           /* on_end calls */
    unsigned begun;           /* requests handed over */
    unsigned stopped;         /* on_stopped calls */
    unsigned refused;         /* writes that found the queue full */
    size_t queued_max;        /* longest queue seen */
    size_t received;          /* bytes of streamed bodies */
    struct net_request *held; /* of /slow */
};

/* Ends a test that hangs.  No promise of the server is as long as this. */
enum { HANG_MS = 60000 };

static struct harness h;

static inline uint64_t now_ms(void)
{
    return lr_clock_ms(NULL);
}

static inline void note(unsigned *counter)
{
    pthread_mutex_lock(&h.mutex);
    (*counter)++;
    if (counter == &h.gone)
        h.gone_at_ms = now_ms();
    pthread_cond_broadcast(&h.changed);
    pthread_mutex_unlock(&h.mutex);
}

/* Waits until *counter is at least `value`. */
static inline void await(const unsigned *counter, unsigned value)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += HANG_MS / 1000;
    pthread_mutex_lock(&h.mutex);
    int rc = 0;
    while (*counter < value && rc == 0)
        rc = pthread_cond_timedwait(&h.changed, &h.mutex, &until);
    unsigned seen = *counter;
    pthread_mutex_unlock(&h.mutex);
    assert_true(seen >= value);
}

static inline unsigned peek_counter(const unsigned *counter)
{
    pthread_mutex_lock(&h.mutex);
    unsigned value = *counter;
    pthread_mutex_unlock(&h.mutex);
    return value;
}

/* ---- the handler ---- */

static inline uint64_t query_number(struct net_request *req, const char *name, uint64_t other)
{
    struct lr_str text;
    uint64_t value;
    return net_request_query_get(req, name, &text) && lr_str_u64(text, &value) ? value : other;
}

static inline void gone_and_end(void *arg)
{
    note(&h.gone);
    net_stream_abort(arg);
}

struct later {
    struct net_request *req;
    struct net_timer *timer;
};

static inline void later_fire(void *arg)
{
    struct later *l = arg;
    net_respond(l->req, 200, "text/plain", LR_STR_LIT("later"));
    net_timer_stop(l->timer);
    free(l);
}

static inline void later_gone(void *arg)
{
    struct later *l = arg;
    note(&h.gone);
    net_stream_abort(l->req);
    net_timer_stop(l->timer);
    free(l);
}

static inline void later_start(struct net_request *req)
{
    struct later *l = calloc(1, sizeof(*l));
    if (l == NULL)
        abort(); /* cmocka's assertions work only on the test's own thread */
    l->req = req;
    net_request_on_gone(req, later_gone, l);
    l->timer =
        net_timer_start(net_request_loop(req), query_number(req, "ms", 50), 0, later_fire, l);
}

static inline void flood(void *arg)
{
    static char block[16384];
    struct net_request *req = arg;
    lr_code code;
    do {
        code = net_stream_write(req, lr_str(block, sizeof(block)));
        pthread_mutex_lock(&h.mutex);
        if (net_stream_queued(req) > h.queued_max)
            h.queued_max = net_stream_queued(req);
        pthread_mutex_unlock(&h.mutex);
    } while (code == LR_OK);
    if (code == LR_TOO_LARGE)
        note(&h.refused);
}

/* Pieces that are made already, each larger than any queue: the first is taken, the second is
 * not, and the last is. */
static char made[8 << 20];

static inline void write_made(struct net_request *req)
{
    struct lr_str piece = lr_str(made, sizeof(made));
    net_stream_begin(req, 200, "text/plain");
    if (net_stream_write_made(req, piece) == LR_OK &&
        net_stream_write_made(req, piece) == LR_TOO_LARGE)
        note(&h.refused);
    (void)net_stream_finish(req, piece);
}

static inline void answer_here(void *arg)
{
    net_respond(arg, 200, "text/plain", LR_STR_LIT("thread"));
}

static inline void *answer_elsewhere(void *arg)
{
    net_loop_post(net_request_loop(arg), answer_here, arg);
    return NULL;
}

static inline void from_thread(struct net_request *req)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, answer_elsewhere, req) != 0)
        abort();
    (void)pthread_detach(thread);
}

static inline void body_data(void *arg, struct lr_str bytes)
{
    struct net_request *req = arg;
    pthread_mutex_lock(&h.mutex);
    h.received += bytes.len;
    bool is_held = h.held == req;
    pthread_mutex_unlock(&h.mutex);
    if (is_held)
        net_request_pause(req);
}

static inline void body_end(void *arg)
{
    net_respond(arg, 200, "text/plain", LR_STR_LIT("read"));
}

/* Back-pressure: while the client does not read, nothing is read from the client. */
struct echo {
    struct net_request *req;
    struct lr_buf back;
};

static inline void echo_flush(void *arg)
{
    struct echo *e = arg;
    struct lr_str piece = lr_str_sub(lr_buf_str(&e->back), 0, 128 << 10);
    while (piece.len != 0 && net_stream_write(e->req, piece) == LR_OK) {
        lr_buf_consume(&e->back, piece.len);
        piece = lr_str_sub(lr_buf_str(&e->back), 0, 128 << 10);
    }
    if (e->back.len == 0)
        net_request_resume(e->req);
    else
        net_request_pause(e->req);
}

static inline void echo_data(void *arg, struct lr_str bytes)
{
    struct echo *e = arg;
    lr_buf_add_str(&e->back, bytes);
    pthread_mutex_lock(&h.mutex);
    if (e->back.len > h.queued_max)
        h.queued_max = e->back.len;
    pthread_mutex_unlock(&h.mutex);
    echo_flush(e);
}

static inline void echo_gone(void *arg)
{
    struct echo *e = arg;
    note(&h.gone);
    net_stream_abort(e->req);
    lr_buf_free(&e->back);
    free(e);
}

static inline void echo_start(struct net_request *req)
{
    struct lr_str protocol;
    struct echo *e = calloc(1, sizeof(*e));
    if (e == NULL)
        abort();
    if (!net_request_wants_upgrade(req, &protocol) || !lr_str_eq_z(protocol, "echo/1")) {
        free(e);
        net_respond_error(req, &(struct lr_error){LR_INVALID_ARGUMENT, "not that protocol"});
        return;
    }
    e->req = req;
    lr_buf_init(&e->back, 64 << 20);
    net_request_on_gone(req, echo_gone, e);
    net_stream_on_drain(req, echo_flush, e);
    net_request_upgrade(req, "echo/1", &(struct net_body_sink){.arg = e, .on_data = echo_data});
}

static inline void on_head(void *arg, struct net_request *req)
{
    (void)arg;
    struct lr_str path = net_request_path(req);
    if (lr_str_eq_z(path, "/head")) {
        net_respond_error(req, &(struct lr_error){LR_PERMISSION_DENIED, "no"});
        return;
    }
    bool is_slow = lr_str_eq_z(path, "/slow");
    if (!is_slow && !lr_str_eq_z(path, "/count"))
        return;
    pthread_mutex_lock(&h.mutex);
    h.received = 0;
    h.held = is_slow ? req : NULL;
    pthread_mutex_unlock(&h.mutex);
    net_request_limit_body(req, UINT64_MAX);
    net_request_on_gone(req, gone_and_end, req);
    net_request_stream_body(
        req, &(struct net_body_sink){.arg = req, .on_data = body_data, .on_end = body_end});
}

static inline void on_request(void *arg, struct net_request *req)
{
    (void)arg;
    struct lr_str path = net_request_path(req);
    if (lr_str_eq_z(path, "/json")) {
        net_respond(req, 200, "application/json", LR_STR_LIT("{\"ok\":true}"));
    } else if (lr_str_eq_z(path, "/echo")) {
        net_respond(req, 200, "text/plain", net_request_body(req));
    } else if (lr_str_eq_z(path, "/later")) {
        later_start(req);
    } else if (lr_str_eq_z(path, "/idle") || lr_str_eq_z(path, "/flood")) {
        net_request_on_gone(req, gone_and_end, req);
        net_sse_begin(req);
        net_stream_flush(req);
        if (lr_str_eq_z(path, "/flood"))
            flood(req);
    } else if (lr_str_eq_z(path, "/made")) {
        write_made(req);
    } else if (lr_str_eq_z(path, "/upgrade")) {
        echo_start(req);
    } else if (lr_str_eq_z(path, "/thread")) {
        from_thread(req);
    } else if (lr_str_eq_z(path, "/loop")) {
        bool is_first = net_request_loop(req) == net_loops_get(h.loops, 0);
        net_respond(req, 200, "text/plain",
                    is_first ? LR_STR_LIT("loop 0!") : LR_STR_LIT("loop 1!"));
    } else if (lr_str_eq_z(path, "/busy")) {
        char text[32];
        uint64_t end = now_ms() + 30;
        while (now_ms() < end)
            ;
        (void)snprintf(text, sizeof(text), "%" PRIu64 " ms", net_request_elapsed_ms(req));
        net_respond(req, 200, "text/plain", lr_str_z(text));
    } else if (lr_str_eq_z(path, "/inject")) {
        net_response_header(req, "X-Value", LR_STR_LIT("a\r\nX-Evil: 1"));
        net_response_header(req, "Content-Length", LR_STR_LIT("999"));
        net_respond(req, 200, "text/plain", LR_STR_LIT("x"));
    } else if (lr_str_eq_z(path, "/empty")) {
        net_respond(req, 204, NULL, lr_str("", 0));
    } else if (lr_str_eq_z(path, "/sse")) {
        net_sse_begin(req);
        net_stream_flush(req);
        lr_code code = net_sse_comment(req, "hello");
        if (code == LR_OK)
            code = net_sse_event(req, LR_STR_LIT("one"));
        if (code == LR_OK)
            code = net_sse_named_event(req, "pair", LR_STR_LIT("two\nthree"));
        if (code == LR_OK)
            net_stream_end(req);
        else /* the client has left */
            net_stream_abort(req);
    } else {
        net_respond_error(req, &(struct lr_error){LR_NOT_FOUND, "no such path"});
    }
    note(&h.begun);
}

static inline void on_end(void *arg, const struct net_request *req)
{
    (void)arg;
    (void)req;
    note(&h.ended);
}

/* ---- life ---- */

static inline void *harness_main(void *arg)
{
    (void)arg;
    struct lr_error err;
    if (net_loops_run(h.loops, &err) != LR_OK)
        abort();
    return NULL;
}

static inline void harness_start(struct net_server_config config, unsigned loop_count)
{
    struct lr_error err = {0};
    memset(&h, 0, sizeof(h));
    pthread_mutex_init(&h.mutex, NULL);
    pthread_cond_init(&h.changed, NULL);
    if (config.host == NULL)
        config.host = "127.0.0.1";
    if (config.handler.on_request == NULL)
        config.handler = (struct net_server_handler){
            .on_head = on_head, .on_request = on_request, .on_end = on_end};
    assert_int_equal(net_loops_create(loop_count, &h.loops, &err), LR_OK);
    assert_int_equal(net_server_start(h.loops, &config, &h.server, &err), LR_OK);
    assert_int_equal(pthread_create(&h.thread, NULL, harness_main, NULL), 0);
}

static inline void harness_stopped(void *arg)
{
    (void)arg;
    note(&h.stopped);
}

static inline void harness_destroy(void)
{
    await(&h.stopped, 1);
    net_loops_stop(h.loops);
    assert_int_equal(pthread_join(h.thread, NULL), 0);
    net_server_destroy(h.server);
    net_loops_destroy(h.loops);
    pthread_mutex_destroy(&h.mutex);
    pthread_cond_destroy(&h.changed);
}

static inline void harness_stop(void)
{
    net_server_stop(h.server, 100, harness_stopped, NULL);
    harness_destroy();
}

/* ---- blocking sockets ---- */

/* last: last byte of the source address 127.0.0.X. */
static inline int dial_from(uint32_t last)
{
    int fd = lr_socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    struct sockaddr_in own = {.sin_family = AF_INET,
                              .sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffu) | last)};
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(net_server_port(h.server)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    int on = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static inline int dial(void)
{
    return dial_from(1);
}

static inline void say(int fd, const char *text, size_t len)
{
    while (len != 0) {
        ssize_t sent = send(fd, text, len, MSG_NOSIGNAL);
        assert_true(sent > 0);
        text += sent;
        len -= (size_t)sent;
    }
}

static inline void say_z(int fd, const char *text)
{
    say(fd, text, strlen(text));
}

/* Reads until the server closes (or resets); terminated. */
static inline size_t hear_all(int fd, char *out, size_t size)
{
    size_t len = 0;
    uint64_t until = now_ms() + HANG_MS;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = now_ms();
        assert_true(now < until);
        if (poll(&p, 1, (int)(until - now)) <= 0)
            continue;
        ssize_t got = recv(fd, out + len, size - 1 - len, 0);
        if (got <= 0)
            break;
        len += (size_t)got;
        assert_true(len < size - 1);
    }
    out[len] = '\0';
    return len;
}

/* Reads until `wanted` appears; terminated. */
static inline void hear_until(int fd, char *out, size_t size, const char *wanted)
{
    size_t len = 0;
    uint64_t until = now_ms() + HANG_MS;
    out[0] = '\0';
    while (strstr(out, wanted) == NULL) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        uint64_t now = now_ms();
        assert_true(now < until);
        assert_true(len < size - 1);
        if (poll(&p, 1, (int)(until - now)) <= 0)
            continue;
        ssize_t got = recv(fd, out + len, size - 1 - len, 0);
        if (got <= 0)
            fail_msg("closed before \"%s\"; so far: %s", wanted, out);
        len += (size_t)got;
        out[len] = '\0';
    }
}

static inline bool is_closed_within(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char byte;
    return poll(&p, 1, ms) > 0 && recv(fd, &byte, 1, 0) <= 0;
}

static inline bool is_closed(int fd)
{
    return is_closed_within(fd, HANG_MS);
}

static inline int status_of(const char *answer)
{
    int status = 0;
    if (sscanf(answer, "HTTP/1.1 %d ", &status) != 1)
        return 0;
    return status;
}

/* Resets the connection instead of closing it. */
static inline void reset(int fd)
{
    struct linger hard = {.l_onoff = 1, .l_linger = 0};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard)), 0);
    (void)close(fd);
}

#endif
