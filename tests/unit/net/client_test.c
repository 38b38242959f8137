/* The client: pooled connections, framings, limits, timeouts, cancelling. */
#include "net/client.h"

#include "base/buf.h"

#include "tests/unit/net/harness.h"
#include "tests/unit/net/upgrade.h"

static struct net_loop *loop;
static struct net_client *client;

struct outcome {
    bool is_done;
    bool has_error;
    struct lr_error err;
    int status;
    char header[64]; /* Content-Type */
    struct lr_buf body;
    unsigned pieces;
    unsigned drains;
    struct net_call *call;
    bool cancel_on_body;
    bool pause_on_body;
};

static int start(void **state)
{
    (void)state;
    struct lr_error err;
    harness_start((struct net_server_config){.linger_ms = 200}, 1);
    assert_int_equal(net_loop_create(&loop, &err), LR_OK);
    assert_int_equal(net_client_create(loop, NULL, &client, &err), LR_OK);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    net_client_destroy(client);
    net_loop_destroy(loop);
    harness_stop();
    return 0;
}

static void stop_loop(void *arg)
{
    net_loop_stop(arg);
}

static void on_headers(void *arg, int status, struct net_headers headers)
{
    struct outcome *o = arg;
    struct lr_str type;
    o->status = status;
    if (net_headers_get(headers, "content-type", &type))
        (void)snprintf(o->header, sizeof(o->header), LR_STR_FMT, LR_STR_ARG(type));
}

static void on_body(void *arg, struct lr_str bytes)
{
    struct outcome *o = arg;
    lr_buf_add_str(&o->body, bytes);
    o->pieces++;
    if (o->pause_on_body)
        net_call_pause(o->call);
    if (o->cancel_on_body) {
        net_call_cancel(o->call);
        net_loop_stop(loop);
    }
}

static void on_drain(void *arg)
{
    struct outcome *o = arg;
    o->drains++;
}

static void on_done(void *arg, const struct lr_error *err)
{
    struct outcome *o = arg;
    assert_false(o->is_done);
    o->is_done = true;
    o->has_error = err != NULL;
    if (err != NULL)
        o->err = *err;
    net_loop_stop(loop);
}

static void begin(struct net_call_config config, struct outcome *o)
{
    struct lr_error err;
    lr_buf_free(&o->body);
    bool cancel = o->cancel_on_body;
    bool pause = o->pause_on_body;
    *o = (struct outcome){.cancel_on_body = cancel, .pause_on_body = pause};
    lr_buf_init(&o->body, (size_t)1 << 30);
    config.callbacks = (struct net_call_callbacks){.arg = o,
                                                   .on_headers = on_headers,
                                                   .on_body = on_body,
                                                   .on_drain = on_drain,
                                                   .on_done = on_done};
    if (net_call_start(client, &config, &o->call, &err) != LR_OK)
        fail_msg("%s", err.text);
    assert_false(o->is_done); /* never inside the call */
}

static void perform(struct net_call_config config, struct outcome *o)
{
    begin(config, o);
    net_loop_run(loop);
    assert_true(o->is_done || o->cancel_on_body);
}

static const char *url_of(uint16_t port, const char *target)
{
    static char url[256];
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%u%s", port, target);
    return url;
}

static const char *url(const char *target)
{
    return url_of(net_server_port(h.server), target);
}

static void expect_body(const struct outcome *o, int status, const char *body)
{
    if (o->has_error)
        fail_msg("%s", o->err.text);
    assert_int_equal(o->status, status);
    assert_int_equal(o->body.len, strlen(body));
    assert_memory_equal(o->body.data, body, o->body.len);
}

/* ---- against our server ---- */

static void calls_reuse_one_connection(void **state)
{
    (void)state;
    struct outcome o = {0};
    for (int i = 0; i < 5; i++) {
        perform((struct net_call_config){.url = url("/json")}, &o);
        expect_body(&o, 200, "{\"ok\":true}");
        assert_string_equal(o.header, "application/json");
        perform((struct net_call_config){.url = url("/echo"), .body = LR_STR_LIT("hello")}, &o);
        expect_body(&o, 200, "hello");
        perform((struct net_call_config){.url = url("/sse")}, &o);
        expect_body(&o, 200, ": hello\n\ndata: one\n\nevent: pair\ndata: two\ndata: three\n\n");
        perform((struct net_call_config){.url = url("/empty")}, &o);
        expect_body(&o, 204, "");
        perform((struct net_call_config){.url = url("/json"), .method = "HEAD"}, &o);
        expect_body(&o, 200, "");
    }
    struct net_client_stats stats;
    net_client_get_stats(client, &stats);
    assert_int_equal(stats.connections_opened, 1);
    assert_int_equal(stats.connections_reused, 24);
    assert_int_equal(stats.idle, 1);
    assert_int_equal(stats.calls, 0);
    lr_buf_free(&o.body);
}

static void a_request_body_can_be_streamed(void **state)
{
    (void)state;
    struct outcome o = {0};
    begin((struct net_call_config){.url = url("/echo"), .stream_body = true}, &o);
    assert_int_equal(net_call_write(o.call, LR_STR_LIT("one ")), LR_OK);
    assert_int_equal(net_call_write(o.call, LR_STR_LIT("two")), LR_OK);
    net_call_end_body(o.call);
    assert_int_equal(net_call_write(o.call, LR_STR_LIT("late")), LR_CANCELLED);
    net_loop_run(loop);
    expect_body(&o, 200, "one two");
    lr_buf_free(&o.body);
}

static void an_unsent_body_is_bounded(void **state)
{
    (void)state;
    static char block[65536];
    struct outcome o = {0};
    begin((struct net_call_config){.url = url("/slow"),
                                   .stream_body = true,
                                   .max_send_bytes = 200000},
          &o);
    assert_int_equal(net_call_write(o.call, lr_str(block, sizeof(block))), LR_OK);
    assert_int_equal(net_call_write(o.call, lr_str(block, sizeof(block))), LR_OK);
    assert_int_equal(net_call_write(o.call, lr_str(block, sizeof(block))), LR_OK);
    assert_int_equal(net_call_write(o.call, lr_str(block, sizeof(block))), LR_TOO_LARGE);
    net_call_cancel(o.call);
    lr_buf_free(&o.body);
}

static void a_large_body_goes_both_ways(void **state)
{
    (void)state;
    size_t size = 10u << 20;
    char *big = malloc(size);
    assert_non_null(big);
    for (size_t i = 0; i < size; i++)
        big[i] = (char)(i * 7 + i / 4096);
    struct outcome o = {0};
    perform((struct net_call_config){.url = url("/echo"), .body = lr_str(big, size)}, &o);
    assert_false(o.has_error);
    assert_int_equal(o.body.len, size);
    assert_memory_equal(o.body.data, big, size);
    free(big);
    lr_buf_free(&o.body);
}

static void a_cancelled_call_says_no_more_and_the_server_hears_of_it(void **state)
{
    (void)state;
    struct outcome o = {.cancel_on_body = true};
    perform((struct net_call_config){.url = url("/flood")}, &o);
    assert_int_equal(o.pieces, 1);
    assert_false(o.is_done);
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop); /* the connection is closed in this turn */
    await(&h.gone, 1);
    lr_buf_free(&o.body);
}

static void a_call_cancelled_before_its_first_turn_does_nothing(void **state)
{
    (void)state;
    struct outcome o = {0};
    begin((struct net_call_config){.url = url("/json")}, &o);
    net_call_cancel(o.call);
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop);
    assert_false(o.is_done);
    assert_int_equal(peek_counter(&h.begun), 0);
    lr_buf_free(&o.body);
}

static void resume_later(void *arg)
{
    struct outcome *o = arg;
    o->pause_on_body = false;
    net_call_resume(o->call);
}

static void a_paused_call_holds_the_sender_back(void **state)
{
    (void)state;
    struct outcome o = {.pause_on_body = true};
    begin((struct net_call_config){.url = url("/flood"), .max_response_bytes = 16 << 20}, &o);
    /* A call that is paused in its first piece gets no second one, and the server's queue
     * fills. */
    struct net_timer *timer = net_timer_start(loop, 200, 0, stop_loop, loop);
    net_loop_run(loop);
    net_timer_stop(timer);
    assert_int_equal(o.pieces, 1);
    await(&h.refused, 1);
    net_loop_post(loop, resume_later, &o);
    timer = net_timer_start(loop, 100, 0, stop_loop, loop);
    net_loop_run(loop);
    net_timer_stop(timer);
    assert_true(o.pieces > 1);
    assert_false(o.is_done);
    net_call_cancel(o.call);
    lr_buf_free(&o.body);
}

struct fetched {
    bool is_done;
    char text[64];
};

static void on_fetched(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct fetched *f = arg;
    f->is_done = true;
    if (err == NULL)
        (void)snprintf(f->text, sizeof(f->text), "%d " LR_STR_FMT, reply->status,
                       LR_STR_ARG(reply->body));
    net_loop_stop(loop);
}

static void a_fetch_hands_over_the_whole_answer(void **state)
{
    (void)state;
    struct lr_error err;
    struct fetched f = {0};
    struct net_call_config config = {.url = url("/json")};
    assert_int_equal(net_fetch(client, &config, on_fetched, &f, NULL, &err), LR_OK);
    net_loop_run(loop);
    assert_string_equal(f.text, "200 {\"ok\":true}");
    struct net_call *call;
    f.is_done = false;
    assert_int_equal(net_fetch(client, &config, on_fetched, &f, &call, &err), LR_OK);
    net_call_cancel(call);
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop);
    assert_false(f.is_done);
}

static void what_cannot_be_sent_is_refused_at_once(void **state)
{
    (void)state;
    static const char *const urls[] = {"ftp://a/",        "http://",      "http://a:0/",
                                       "http://a:99999/", "http://u@a/",  "http://a/ b",
                                       "http://a/x#y",    "http://[::1/", "http://a b/",
                                       "http://a:80x/",   "/relative",    "http://a?x=1"};
    struct lr_error err;
    struct net_call *call;
    struct net_call_config config = {.callbacks = {.on_done = on_done}};
    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        config.url = urls[i];
        assert_int_equal(net_call_start(client, &config, &call, &err), LR_INVALID_ARGUMENT);
        assert_null(call);
    }
    config.url = "http://a/";
    struct net_header bad = {LR_STR_LIT("X"), LR_STR_LIT("a\r\nY: b")};
    config.headers = &bad;
    config.header_count = 1;
    assert_int_equal(net_call_start(client, &config, &call, &err), LR_INVALID_ARGUMENT);
    bad = (struct net_header){LR_STR_LIT("Content-Length"), LR_STR_LIT("1")};
    assert_int_equal(net_call_start(client, &config, &call, &err), LR_INVALID_ARGUMENT);
}

static void a_refused_connection_is_named(void **state)
{
    (void)state;
    int fd = lr_socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    struct outcome o = {0};
    perform((struct net_call_config){.url = url_of(ntohs(address.sin_port), "/")}, &o);
    assert_int_equal(o.err.code, LR_UPSTREAM);
    assert_non_null(strstr(o.err.text, "http://127.0.0.1:"));
    assert_non_null(strstr(o.err.text, "refused"));
    (void)close(fd);
    lr_buf_free(&o.body);
}

static void a_name_is_resolved_and_every_address_tried(void **state)
{
    (void)state;
    /* localhost may resolve to ::1 first, where no server listens. */
    char text[128];
    (void)snprintf(text, sizeof(text), "http://localhost:%u/json", net_server_port(h.server));
    struct outcome o = {0};
    perform((struct net_call_config){.url = text}, &o);
    expect_body(&o, 200, "{\"ok\":true}");
    perform((struct net_call_config){.url = "http://no-such-name.invalid/"}, &o);
    assert_int_equal(o.err.code, LR_UPSTREAM);
    assert_non_null(strstr(o.err.text, "no-such-name.invalid"));
    lr_buf_free(&o.body);
}

/* ---- against canned bytes ---- */

struct canned {
    int listener;
    uint16_t port;
    pthread_t thread;
    const char *answer;
    unsigned connections; /* to serve */
    bool keeps_open;      /* after the answer, until the client closes */
    bool cuts_second;     /* resets the connection when a second request comes */
};

static void *canned_main(void *arg)
{
    struct canned *c = arg;
    for (unsigned i = 0; i < c->connections; i++) {
        int fd = accept(c->listener, NULL, NULL);
        char request[4096];
        size_t len = 0;
        request[0] = '\0';
        while (strstr(request, "\r\n\r\n") == NULL) {
            ssize_t got = recv(fd, request + len, sizeof(request) - 1 - len, 0);
            if (got <= 0)
                break;
            len += (size_t)got;
            request[len] = '\0';
        }
        (void)send(fd, c->answer, strlen(c->answer), MSG_NOSIGNAL);
        if (c->cuts_second) {
            (void)recv(fd, request, sizeof(request), 0);
            reset(fd);
            continue;
        }
        if (c->keeps_open)
            while (recv(fd, request, sizeof(request), 0) > 0)
                ;
        (void)close(fd);
    }
    return NULL;
}

static void canned_start(struct canned *c)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    c->listener = lr_socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(c->listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(c->listener, 8), 0);
    assert_int_equal(getsockname(c->listener, (struct sockaddr *)&address, &len), 0);
    c->port = ntohs(address.sin_port);
    if (c->connections == 0)
        c->connections = 1;
    assert_int_equal(pthread_create(&c->thread, NULL, canned_main, c), 0);
}

static void canned_stop(struct canned *c)
{
    assert_int_equal(pthread_join(c->thread, NULL), 0);
    (void)close(c->listener);
}

struct answer {
    const char *what;
    const char *bytes;
    int status;       /* 0: an error is expected */
    const char *text; /* the body, or part of the error */
};

static const struct answer answers[] = {
    {"length", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", 200, "hello"},
    {"chunked",
     "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n",
     200, "hello"},
    {"until close", "HTTP/1.1 200 OK\r\n\r\nhello", 200, "hello"},
    {"1.0", "HTTP/1.0 200 OK\r\n\r\nhello", 200, "hello"},
    {"hints first",
     "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 404 Not "
     "Found\r\nContent-Length: 2\r\n\r\nno",
     404, "no"},
    {"304 has no body", "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, ""},
    {"no reason phrase", "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", 200, ""},
    {"short body", "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", 0,
     "middle of the answer"},
    {"cut chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello", 0,
     "middle of the answer"},
    {"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", 0,
     "middle of the answer"},
    {"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 0,
     "hex digits"},
    {"nothing", "", 0, "before an answer came"},
    {"half a head", "HTTP/1.1 200 OK\r\nConte", 0, "before an answer came"},
    {"bare LF", "HTTP/1.1 200 OK\nContent-Length: 0\n\n", 0, "LF without CR"},
    {"folded", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\n\r\n", 0, "folded"},
    {"both lengths",
     "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello", 0,
     "the server's answer"},
    {"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
     0, "the server's answer"},
    {"not HTTP", "SSH-2.0-OpenSSH\r\n\r\n", 0, "malformed"},
    {"HTTP/2", "HTTP/2.0 200 OK\r\n\r\n", 0, "the server's answer"},
    {"101", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", 0,
     "another protocol"},
};

static void every_framing_is_read_and_every_malformed_answer_named(void **state)
{
    (void)state;
    struct outcome o = {0};
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        const struct answer *a = &answers[i];
        struct canned c = {.answer = a->bytes};
        canned_start(&c);
        perform((struct net_call_config){.url = url_of(c.port, "/")}, &o);
        canned_stop(&c);
        if (a->status != 0) {
            if (o.has_error)
                fail_msg("%s: %s", a->what, o.err.text);
            expect_body(&o, a->status, a->text);
        } else if (!o.has_error || o.err.code != LR_UPSTREAM ||
                   strstr(o.err.text, a->text) == NULL) {
            fail_msg("%s: expected \"%s\", got \"%s\"", a->what, a->text, o.err.text);
        }
    }
    lr_buf_free(&o.body);
}

static void a_connection_that_said_too_much_is_not_reused(void **state)
{
    (void)state;
    struct outcome o = {0};
    struct canned c = {.answer =
                           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n"
                           "Content-Length: 4\r\n\r\nevil",
                       .connections = 2,
                       .keeps_open = true};
    canned_start(&c);
    for (int i = 0; i < 2; i++) {
        perform((struct net_call_config){.url = url_of(c.port, "/")}, &o);
        expect_body(&o, 200, "ok");
    }
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop);
    canned_stop(&c);
    lr_buf_free(&o.body);
}

static void time_limits_are_kept_and_named(void **state)
{
    (void)state;
    struct outcome o = {0};
    struct canned silent = {.answer = "", .keeps_open = true};
    canned_start(&silent);
    uint64_t begun = now_ms();
    perform(
        (struct net_call_config){.url = url_of(silent.port, "/"), .response_timeout_ms = 150},
        &o);
    assert_int_equal(o.err.code, LR_TIMEOUT);
    assert_non_null(strstr(o.err.text, "no answer within 150 ms"));
    assert_in_range(now_ms() - begun, 120, HANG_MS);
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop);
    canned_stop(&silent);

    struct canned stalls = {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
                            .keeps_open = true};
    canned_start(&stalls);
    perform((struct net_call_config){.url = url_of(stalls.port, "/"), .idle_timeout_ms = 150},
            &o);
    assert_int_equal(o.err.code, LR_TIMEOUT);
    assert_non_null(strstr(o.err.text, "no byte of the answer for 150 ms"));
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop);
    canned_stop(&stalls);
    lr_buf_free(&o.body);
}

static void a_connection_that_is_never_accepted_times_out(void **state)
{
    (void)state;
    /* A listener whose backlog is full answers no SYN. */
    int listener = lr_socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, len), 0);
    assert_int_equal(listen(listener, 0), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &len), 0);
    int fillers[8];
    for (int i = 0; i < 8; i++) {
        fillers[i] = lr_socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(fcntl(fillers[i], F_SETFL, O_NONBLOCK), 0);
        (void)connect(fillers[i], (struct sockaddr *)&address, sizeof(address));
    }
    struct outcome o = {0};
    perform((struct net_call_config){.url = url_of(ntohs(address.sin_port), "/"),
                                     .connect_timeout_ms = 150},
            &o);
    assert_int_equal(o.err.code, LR_TIMEOUT);
    assert_non_null(strstr(o.err.text, "no connection within 150 ms"));
    for (int i = 0; i < 8; i++)
        (void)close(fillers[i]);
    (void)close(listener);
    lr_buf_free(&o.body);
}

static void answers_over_the_limit_are_refused(void **state)
{
    (void)state;
    struct outcome o = {0};
    perform((struct net_call_config){.url = url("/echo"),
                                     .body = LR_STR_LIT("hello"),
                                     .max_response_bytes = 4},
            &o);
    assert_int_equal(o.err.code, LR_TOO_LARGE);
    assert_non_null(strstr(o.err.text, "5 bytes; the limit is 4"));
    perform((struct net_call_config){.url = url("/flood"), .max_response_bytes = 100000}, &o);
    assert_int_equal(o.err.code, LR_TOO_LARGE);
    assert_true(o.body.len <= 100000);
    lr_buf_free(&o.body);
}

static void a_pooled_connection_that_dies_is_replaced_for_a_get(void **state)
{
    (void)state;
    struct outcome o = {0};
    struct canned c = {.answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
                       .connections = 2,
                       .cuts_second = true};
    canned_start(&c);
    for (int i = 0; i < 2; i++) {
        perform((struct net_call_config){.url = url_of(c.port, "/")}, &o);
        expect_body(&o, 200, "ok");
    }
    struct net_client_stats stats;
    net_client_get_stats(client, &stats);
    assert_int_equal(stats.connections_opened, 2);
    assert_int_equal(stats.connections_reused, 1);
    /* The server may have acted on a POST: it is not sent again. */
    perform((struct net_call_config){.url = url_of(c.port, "/"), .body = LR_STR_LIT("x")}, &o);
    assert_int_equal(o.err.code, LR_UPSTREAM);
    canned_stop(&c);
    lr_buf_free(&o.body);
}

/* ---- many at once ---- */

enum { CROWD = 100, CROWD_TOTAL = 3000 };

struct walker {
    struct outcome outcome; /* first: the callbacks' argument */
    struct net_timer *timer;
};

static struct walker crowd[CROWD];
static unsigned crowd_started;
static unsigned crowd_over;
static uint32_t crowd_seed;

static uint32_t crowd_random(uint32_t below)
{
    crowd_seed = crowd_seed * 1664525u + 1013904223u;
    return (crowd_seed >> 8) % below;
}

static void crowd_next(void *arg);

static void crowd_end(struct walker *w)
{
    net_timer_stop(w->timer);
    w->timer = NULL;
    if (++crowd_over == CROWD_TOTAL) {
        net_loop_stop(loop);
    } else if (crowd_started < CROWD_TOTAL) {
        crowd_started++;
        net_loop_post(loop, crowd_next, w);
    }
}

static void crowd_done(void *arg, const struct lr_error *err)
{
    struct walker *w = arg;
    if (err != NULL)
        assert_int_not_equal(err->code, LR_INTERNAL);
    else
        assert_int_equal(w->outcome.status, 200);
    crowd_end(w);
}

static void crowd_body(void *arg, struct lr_str bytes)
{
    struct walker *w = arg;
    (void)bytes;
    if (crowd_random(4) == 0)
        net_call_pause(w->outcome.call);
    if (crowd_random(10) == 0) {
        net_call_cancel(w->outcome.call);
        crowd_end(w);
    }
}

/* Resumes paused calls and cancels those that would never end. */
static void crowd_tick(void *arg)
{
    struct walker *w = arg;
    net_call_resume(w->outcome.call);
    if (crowd_random(8) == 0) {
        net_call_cancel(w->outcome.call);
        crowd_end(w);
    }
}

static void crowd_next(void *arg)
{
    static const char *const targets[] = {"/json", "/sse",   "/thread", "/later?ms=3",
                                          "/idle", "/flood", "/echo",   "/json"};
    struct walker *w = arg;
    struct lr_error err;
    struct net_call_config config = {
        .url = url(targets[crowd_random(8)]),
        .callbacks = {.arg = w,
                      .on_headers = on_headers,
                      .on_body = crowd_body,
                      .on_done = crowd_done},
        .stream_body = crowd_random(5) == 0,
        .max_response_bytes = crowd_random(6) == 0 ? 5 : 0,
    };
    assert_int_equal(net_call_start(client, &config, &w->outcome.call, &err), LR_OK);
    if (config.stream_body && crowd_random(2) == 0) {
        assert_int_equal(net_call_write(w->outcome.call, LR_STR_LIT("body")), LR_OK);
        net_call_end_body(w->outcome.call);
    }
    w->timer = net_timer_start(loop, 1 + crowd_random(10), 5, crowd_tick, w);
}

static void a_crowd_that_pauses_and_cancels_leaves_nothing_behind(void **state)
{
    (void)state;
    crowd_started = CROWD;
    crowd_over = 0;
    crowd_seed = 7;
    memset(crowd, 0, sizeof(crowd));
    for (int i = 0; i < CROWD; i++)
        crowd_next(&crowd[i]);
    net_loop_run(loop);
    assert_int_equal(crowd_over, CROWD_TOTAL);
    struct net_client_stats stats;
    net_client_get_stats(client, &stats);
    assert_int_equal(stats.calls, 0);
    /* The server, too, has ended every request once its clients are gone. */
    net_client_destroy(client);
    client = NULL;
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop);
    struct net_server_stats server;
    uint64_t until = now_ms() + HANG_MS;
    do {
        net_server_get_stats(h.server, &server);
        assert_true(now_ms() < until);
    } while (server.active != 0 || server.connections != 0);
}

static void an_upgraded_connection_is_a_stream_with_back_pressure_both_ways(void **state)
{
    (void)state;
    expect_stream(client, loop, url("/upgrade"));
    assert_true(h.queued_max < 4u << 20);
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop);
    await(&h.gone, 1); /* the server notices the end */
}

static void a_refused_upgrade_is_an_ordinary_answer_and_an_unasked_one_an_error(void **state)
{
    (void)state;
    struct stream_test t = {.loop = loop};
    stream_run(client, url("/upgrade"), "other/1", &t);
    assert_int_equal(t.status, 400);
    assert_true(t.is_done);
    assert_int_equal(t.err.code, LR_OK);
    struct outcome o = {0};
    perform((struct net_call_config){.url = url("/upgrade")}, &o);
    assert_int_equal(o.status, 400);
    lr_buf_free(&o.body);
}

/* Bytes that come in one segment with the head belong to the stream. */
static void what_follows_the_head_at_once_belongs_to_the_stream(void **state)
{
    (void)state;
    static const char ask[] = "GET /upgrade HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, "
                              "Upgrade\r\nUpgrade: echo/1\r\n\r\nhello";
    char got[600] = "";
    size_t len = 0;
    int fd = dial();
    assert_int_equal(write(fd, ask, sizeof(ask) - 1), sizeof(ask) - 1);
    while (strstr(got, "\r\n\r\nhello") == NULL) {
        ssize_t n = read(fd, got + len, sizeof(got) - 1 - len);
        assert_true(n > 0);
        len += (size_t)n;
    }
    assert_non_null(strstr(got, "HTTP/1.1 101 Switching Protocols\r\n"));
    assert_non_null(strstr(got, "\r\nUpgrade: echo/1\r\n"));
    (void)close(fd);
    await(&h.gone, 1);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(calls_reuse_one_connection),
        CASE(a_request_body_can_be_streamed),
        CASE(an_unsent_body_is_bounded),
        CASE(a_large_body_goes_both_ways),
        CASE(a_cancelled_call_says_no_more_and_the_server_hears_of_it),
        CASE(a_call_cancelled_before_its_first_turn_does_nothing),
        CASE(a_paused_call_holds_the_sender_back),
        CASE(an_upgraded_connection_is_a_stream_with_back_pressure_both_ways),
        CASE(a_refused_upgrade_is_an_ordinary_answer_and_an_unasked_one_an_error),
        CASE(what_follows_the_head_at_once_belongs_to_the_stream),
        CASE(a_fetch_hands_over_the_whole_answer),
        CASE(what_cannot_be_sent_is_refused_at_once),
        CASE(a_refused_connection_is_named),
        CASE(a_name_is_resolved_and_every_address_tried),
        CASE(every_framing_is_read_and_every_malformed_answer_named),
        CASE(a_connection_that_said_too_much_is_not_reused),
        CASE(time_limits_are_kept_and_named),
        CASE(a_connection_that_is_never_accepted_times_out),
        CASE(answers_over_the_limit_are_refused),
        CASE(a_pooled_connection_that_dies_is_replaced_for_a_get),
        CASE(a_crowd_that_pauses_and_cancels_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
