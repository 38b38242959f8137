/* The server's answers, byte for byte: framing, limits, timeouts, pipelining. */
#include "tests/unit/net/harness.h"

static int start(void **state)
{
    (void)state;
    harness_start((struct net_server_config){.max_header_bytes = 4096,
                                             .max_body_bytes = 1 << 20,
                                             .header_timeout_ms = 300,
                                             .body_timeout_ms = 200,
                                             .linger_ms = 3000},
                  2);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    harness_stop();
    return 0;
}

/* Sends, then reads to the end: the server must close the connection after an error. */
static int ask_once(const char *text, char *answer, size_t size)
{
    int fd = dial();
    say_z(fd, text);
    size_t len = hear_all(fd, answer, size);
    (void)close(fd);
    return len == 0 ? 0 : status_of(answer);
}

struct refusal {
    const char *what;
    const char *bytes;
    int status;
    const char *message; /* part of it */
};

#define HOST "Host: a\r\n"

static const struct refusal refusals[] = {
    {"bare LF", "GET /json HTTP/1.1\nHost: a\n\n", 400, "LF without CR"},
    {"bare LF in a header", "GET /json HTTP/1.1\r\nHost: a\nX: 1\r\n\r\n", 400,
     "LF without CR"},
    {"bare CR", "GET /json HTTP/1.1\r\nHost: a\r\nX:\rxTransfer-Encoding: chunked\r\n\r\n", 400,
     "CR without LF"},
    {"obs-fold", "GET /json HTTP/1.1\r\n" HOST "X: 1\r\n 2\r\n\r\n", 400, "folded"},
    {"obs-fold with a tab", "GET /json HTTP/1.1\r\n" HOST "X: 1\r\n\t2\r\n\r\n", 400, "folded"},
    {"folded length", "POST /echo HTTP/1.1\r\n" HOST "Content-Length:\r\n 5\r\n\r\nhello", 400,
     "folded"},
    {"control byte", "GET /json HTTP/1.1\r\n" HOST "X: a\001b\r\n\r\n", 400, "control byte"},
    {"DEL", "GET /json HTTP/1.1\r\n" HOST "X: a\177b\r\n\r\n", 400, "control byte"},
    {"space before colon", "GET /json HTTP/1.1\r\nHost : a\r\n\r\n", 400, "malformed"},
    {"no colon", "GET /json HTTP/1.1\r\n" HOST "nocolon\r\n\r\n", 400, "malformed"},
    {"empty name", "GET /json HTTP/1.1\r\n" HOST ": x\r\n\r\n", 400, "malformed"},
    {"both lengths",
     "POST /echo HTTP/1.1\r\n" HOST
     "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400, ""},
    {"both lengths, other order",
     "POST /echo HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
     400, ""},
    {"two lengths",
     "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", 400,
     ""},
    {"the same length twice",
     "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400,
     ""},
    {"length list", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\nhello", 400,
     ""},
    {"plus", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\nhello", 400, ""},
    {"minus", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\nhello", 400, ""},
    {"hex length", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\nhello", 400, ""},
    {"empty length", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: \r\n\r\n", 400, ""},
    {"huge length",
     "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", 400, ""},
    {"gzip coding", "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n",
     501, "only chunked"},
    {"chunked twice",
     "POST /echo HTTP/1.1\r\n" HOST
     "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400, ""},
    {"xchunked", "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
     501, "only chunked"},
    {"quoted chunked",
     "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: \"chunked\"\r\n\r\n0\r\n\r\n", 501,
     "only chunked"},
    {"chunked in 1.0", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400, ""},
    {"no Host", "GET /json HTTP/1.1\r\n\r\n", 400, "Host header is missing"},
    {"two Hosts", "GET /json HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, "given twice"},
    {"bad Host", "GET /json HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, "Host"},
    {"Host with a user", "GET /json HTTP/1.1\r\nHost: u@a\r\n\r\n", 400, "Host"},
    {"user in an absolute target", "GET http://u@a/json HTTP/1.1\r\n" HOST "\r\n", 400, "Host"},
    {"two spaces", "GET  /json HTTP/1.1\r\n" HOST "\r\n", 400, ""},
    {"trailing space", "GET /json HTTP/1.1 \r\n" HOST "\r\n", 400, ""},
    {"tab in the line", "GET\t/json\tHTTP/1.1\r\n" HOST "\r\n", 400, ""},
    {"byte over 127 in the target", "GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n", 400, ""},
    {"no version", "GET /json\r\n" HOST "\r\n", 400, ""},
    {"relative target", "GET json HTTP/1.1\r\n" HOST "\r\n", 400, ""},
    {"asterisk", "GET * HTTP/1.1\r\n" HOST "\r\n", 400, ""},
    {"fragment", "GET /json#x HTTP/1.1\r\n" HOST "\r\n", 400, ""},
    {"broken escape", "GET /%zz HTTP/1.1\r\n" HOST "\r\n", 400, "escape"},
    {"escaped NUL", "GET /a%00b HTTP/1.1\r\n" HOST "\r\n", 400, "control byte"},
    {"dot dot", "GET /a/../b HTTP/1.1\r\n" HOST "\r\n", 400, "segment"},
    {"escaped dot dot", "GET /a/%2e%2e/b HTTP/1.1\r\n" HOST "\r\n", 400, "segment"},
    {"HTTP/2.0", "GET /json HTTP/2.0\r\n" HOST "\r\n", 505, "only 1.1"},
    {"HTTP/0.9", "GET /json HTTP/0.9\r\n" HOST "\r\n", 505, "only 1.1"},
    {"HTTP/1.2", "GET /json HTTP/1.2\r\n" HOST "\r\n", 505, "only 1.1"},
    {"TLS to a plain port", "\x16\x03\x01\x02", 400, "control byte"},
    {"unknown method", "BREW /json HTTP/1.1\r\n" HOST "\r\n", 400, ""},
    {"CONNECT", "CONNECT a:1 HTTP/1.1\r\n" HOST "\r\n", 501, "no proxy"},
    {"strange Expect", "POST /echo HTTP/1.1\r\n" HOST "Expect: x\r\nContent-Length: 1\r\n\r\n",
     417, "Expect"},
};

static void a_malformed_head_is_refused_and_the_connection_closed(void **state)
{
    (void)state;
    char answer[4096];
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        const struct refusal *r = &refusals[i];
        int status = ask_once(r->bytes, answer, sizeof(answer));
        if (status != r->status || strstr(answer, r->message) == NULL)
            fail_msg("%s: expected %d \"%s\", got: %s", r->what, r->status, r->message, answer);
        assert_non_null(strstr(answer, "Connection: close\r\n"));
        assert_non_null(strstr(answer, "{\"error\":{\"message\":"));
    }
    assert_int_equal(peek_counter(&h.begun), 0); /* no handler was called */
}

#define CHUNKED "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"

static const struct refusal bad_chunks[] = {
    {"no digits", CHUNKED "\r\n", 400, "hex digits"},
    {"not hex", CHUNKED "g\r\n", 400, "hex digits"},
    {"0x", CHUNKED "0x5\r\nhello\r\n0\r\n\r\n", 400, "hex digits"},
    {"plus", CHUNKED "+5\r\nhello\r\n0\r\n\r\n", 400, "hex digits"},
    {"minus", CHUNKED "-1\r\n", 400, "hex digits"},
    {"blank before", CHUNKED " 5\r\nhello\r\n0\r\n\r\n", 400, "hex digits"},
    {"blank after", CHUNKED "5 \r\nhello\r\n0\r\n\r\n", 400, "hex digits"},
    {"too large", CHUNKED "fffffffffffffffff\r\n", 400, "too large"},
    {"overflow", CHUNKED "ffffffffffffffff\r\n", 400, "too large"},
    {"bare LF after the size", CHUNKED "5\nhello\r\n0\r\n\r\n", 400, "hex digits"},
    {"CR without LF", CHUNKED "5\rxhello\r\n0\r\n\r\n", 400, "CR LF"},
    {"bare LF after the data", CHUNKED "5\r\nhello\n0\r\n\r\n", 400, "longer than its size"},
    {"longer than its size", CHUNKED "5\r\nhelloo\r\n0\r\n\r\n", 400, "longer than its size"},
    {"trailer", CHUNKED "5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n", 400, "trailers"},
    {"LF in an extension", CHUNKED "5;a\nb\r\nhello\r\n0\r\n\r\n", 400, "control byte"},
};

static void a_malformed_chunk_is_refused_and_the_connection_closed(void **state)
{
    (void)state;
    char answer[4096];
    for (size_t i = 0; i < sizeof(bad_chunks) / sizeof(bad_chunks[0]); i++) {
        const struct refusal *r = &bad_chunks[i];
        int status = ask_once(r->bytes, answer, sizeof(answer));
        if (status != r->status || strstr(answer, r->message) == NULL)
            fail_msg("%s: expected %d \"%s\", got: %s", r->what, r->status, r->message, answer);
        assert_non_null(strstr(answer, "Connection: close\r\n"));
    }
    assert_int_equal(peek_counter(&h.begun), 0);
}

struct exchange {
    const char *what;
    const char *bytes;
    const char *wanted; /* part of the answer */
};

static const struct exchange fine[] = {
    {"plain", "GET /json HTTP/1.1\r\n" HOST "\r\n", "{\"ok\":true}"},
    {"empty line before", "\r\n\r\nGET /json HTTP/1.1\r\n" HOST "\r\n", "{\"ok\":true}"},
    {"absolute target", "GET http://b:1/json?x=1 HTTP/1.1\r\n" HOST "\r\n", "{\"ok\":true}"},
    {"escaped path", "GET /%6ason HTTP/1.1\r\n" HOST "\r\n", "{\"ok\":true}"},
    {"length body", "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello",
     "\r\n\r\nhello"},
    {"chunks", CHUNKED "2\r\nhe\r\n003\r\nllo\r\n0\r\n\r\n", "\r\n\r\nhello"},
    {"chunk extension", CHUNKED "5;name=value\r\nhello\r\n0\r\n\r\n", "\r\n\r\nhello"},
    {"upper-case chunk size", CHUNKED "A\r\n0123456789\r\n0\r\n\r\n", "\r\n\r\n0123456789"},
    {"another thread", "GET /thread HTTP/1.1\r\n" HOST "\r\n", "\r\n\r\nthread"},
    {"unknown path", "GET /nothing HTTP/1.1\r\n" HOST "\r\n",
     "{\"error\":{\"message\":\"no such "
     "path\",\"type\":\"invalid_request_error\",\"param\":null,"
     "\"code\":\"not_found\"}}"},
    {"OPTIONS *", "OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "404 Not Found"},
    {"Upgrade is ignored",
     "GET /json HTTP/1.1\r\n" HOST "Connection: upgrade\r\nUpgrade: websocket\r\n\r\n",
     "{\"ok\":true}"},
    {"204 has no length", "GET /empty HTTP/1.1\r\n" HOST "\r\n", "204 No Content\r\n"},
};

static void well_formed_requests_are_answered_on_one_connection(void **state)
{
    (void)state;
    char answer[4096];
    int fd = dial();
    for (size_t i = 0; i < sizeof(fine) / sizeof(fine[0]); i++) {
        say_z(fd, fine[i].bytes);
        hear_until(fd, answer, sizeof(answer), fine[i].wanted);
        assert_null(strstr(answer, "Connection: close"));
        if (strstr(fine[i].wanted, "No Content") != NULL) {
            if (strstr(answer, "\r\n\r\n") == NULL)
                hear_until(fd, answer, sizeof(answer), "\r\n\r\n");
            assert_null(strstr(answer, "Content-Length"));
        }
    }
    (void)close(fd);
}

static void a_head_that_arrives_byte_by_byte_is_read(void **state)
{
    (void)state;
    char answer[4096];
    const char *text = "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                       "5\r\nhello\r\n0\r\n\r\nGET /json HTTP/1.1\r\n" HOST "\r\n";
    int fd = dial();
    for (const char *c = text; *c != '\0'; c++)
        say(fd, c, 1);
    hear_until(fd, answer, sizeof(answer), "{\"ok\":true}");
    assert_non_null(strstr(answer, "\r\n\r\nhello"));
    (void)close(fd);
}

static void http_1_0_is_answered_and_closed(void **state)
{
    (void)state;
    char answer[4096];
    assert_int_equal(ask_once("GET /json HTTP/1.0\r\n\r\n", answer, sizeof(answer)), 200);
    assert_non_null(strstr(answer, "Connection: close\r\n"));
    assert_int_equal(ask_once("GET /sse HTTP/1.0\r\n\r\n", answer, sizeof(answer)), 200);
    assert_null(strstr(answer, "chunked"));
    assert_non_null(strstr(answer,
                           "\r\n\r\n: hello\n\ndata: one\n\nevent: pair\ndata: two\ndata: "
                           "three\n\n"));
}

static void connection_close_is_honoured(void **state)
{
    (void)state;
    char answer[4096];
    assert_int_equal(ask_once("GET /json HTTP/1.1\r\n" HOST "Connection: Close\r\n\r\n", answer,
                              sizeof(answer)),
                     200);
    assert_non_null(strstr(answer, "Connection: close\r\n"));
}

static void head_gets_the_length_and_no_body(void **state)
{
    (void)state;
    char answer[4096];
    int fd = dial();
    say_z(fd, "HEAD /json HTTP/1.1\r\n" HOST "\r\nHEAD /sse HTTP/1.1\r\n" HOST
              "\r\nGET /echo HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    (void)hear_all(fd, answer, sizeof(answer));
    assert_non_null(strstr(answer, "Content-Length: 11\r\n"));
    assert_null(strstr(answer, "{\"ok\""));
    assert_null(strstr(answer, "data:"));
    assert_non_null(strstr(answer, "Content-Length: 0\r\n"));
    (void)close(fd);
}

static void a_stream_is_chunked_and_the_connection_lives_on(void **state)
{
    (void)state;
    char answer[4096];
    int fd = dial();
    say_z(fd, "GET /sse HTTP/1.1\r\n" HOST "\r\nGET /json HTTP/1.1\r\n" HOST "\r\n");
    hear_until(fd, answer, sizeof(answer), "{\"ok\":true}");
    assert_non_null(strstr(answer, "Transfer-Encoding: chunked\r\n"));
    assert_non_null(strstr(answer, "b\r\ndata: one\n\n\r\n"));
    assert_non_null(strstr(answer, "0\r\n\r\nHTTP/1.1 200 OK\r\n"));
    (void)close(fd);
}

static void a_header_value_cannot_split_the_answer(void **state)
{
    (void)state;
    char answer[4096];
    int fd = dial();
    say_z(fd, "GET /inject HTTP/1.1\r\n" HOST "\r\n");
    hear_until(fd, answer, sizeof(answer), "\r\n\r\nx");
    assert_non_null(strstr(answer, "X-Value: a??X-Evil: 1\r\n"));
    assert_null(strstr(answer, "999"));
    (void)close(fd);
}

static void pipelined_requests_are_answered_in_order(void **state)
{
    (void)state;
    char answer[8192];
    int fd = dial();
    say_z(fd, "GET /later?ms=60 HTTP/1.1\r\n" HOST "\r\n"
              "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nfirst"
              "GET /thread HTTP/1.1\r\n" HOST "\r\n"
              "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
              "6\r\nsecond\r\n0\r\n\r\n"
              "GET /json HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"
              "GET /nothing HTTP/1.1\r\n" HOST "\r\n");
    (void)hear_all(fd, answer, sizeof(answer));
    (void)close(fd);
    static const char *const order[] = {"later", "first", "thread", "second", "{\"ok\":true}"};
    const char *at = answer;
    for (size_t i = 0; i < 5; i++) {
        at = strstr(at, order[i]);
        assert_non_null(at);
    }
    assert_null(strstr(answer, "404")); /* nothing is answered after Connection: close */
}

static void expect_100_continue_is_answered_before_the_body(void **state)
{
    (void)state;
    char answer[4096];
    int fd = dial();
    say_z(fd,
          "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    hear_until(fd, answer, sizeof(answer), "HTTP/1.1 100 Continue\r\n\r\n");
    say_z(fd, "hello");
    hear_until(fd, answer, sizeof(answer), "\r\n\r\nhello");
    (void)close(fd);
    fd = dial();
    say_z(fd,
          "POST /head HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    (void)hear_all(fd, answer, sizeof(answer));
    assert_int_equal(status_of(answer), 403); /* and no 100 */
    (void)close(fd);
}

static void a_head_over_the_limit_gets_431(void **state)
{
    (void)state;
    char answer[4096];
    char text[6000];
    int len =
        snprintf(text, sizeof(text), "GET /json HTTP/1.1\r\n" HOST "X: %05000d\r\n\r\n", 1);
    assert_true(len > 4096);
    assert_int_equal(ask_once(text, answer, sizeof(answer)), 431);
    assert_non_null(strstr(answer, "4096 bytes"));
    /* Also if its end never comes. */
    text[5000] = '\0';
    assert_int_equal(ask_once(text, answer, sizeof(answer)), 431);
}

static void a_head_with_too_many_lines_gets_431(void **state)
{
    (void)state;
    char answer[4096];
    char text[4096] = "GET /json HTTP/1.1\r\n" HOST;
    for (int i = 0; i < 201; i++)
        (void)strcat(text, "a:b\r\n");
    (void)strcat(text, "\r\n");
    assert_int_equal(ask_once(text, answer, sizeof(answer)), 431);
}

static void a_body_of_100_mb_gets_413_unread(void **state)
{
    (void)state;
    char answer[4096];
    /* No byte of the body is sent, and the answer comes all the same. */
    assert_int_equal(ask_once("POST /echo HTTP/1.1\r\n" HOST
                              "Content-Length: 104857600\r\n\r\n",
                              answer, sizeof(answer)),
                     413);
    assert_non_null(strstr(answer, "104857600 bytes; the limit is 1048576"));
    /* A client that keeps sending still gets to read the answer. */
    static char block[65536];
    int fd = dial();
    say_z(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 104857600\r\n\r\n");
    for (int i = 0; i < 400; i++) /* more than the kernel's buffers */
        say(fd, block, sizeof(block));
    (void)hear_all(fd, answer, sizeof(answer));
    assert_int_equal(status_of(answer), 413);
    (void)close(fd);
    assert_int_equal(peek_counter(&h.begun), 0);
}

static void a_chunked_body_over_the_limit_gets_413(void **state)
{
    (void)state;
    char answer[4096];
    static char block[65536 + 2];
    memcpy(block + 65536, "\r\n", 2);
    int fd = dial();
    say_z(fd, CHUNKED);
    for (int i = 0; i < 20; i++) {
        say_z(fd, "10000\r\n");
        say(fd, block, sizeof(block));
    }
    (void)hear_all(fd, answer, sizeof(answer));
    assert_int_equal(status_of(answer), 413);
    (void)close(fd);
}

static void a_refusal_in_on_head_does_not_wait_for_the_body(void **state)
{
    (void)state;
    char answer[4096];
    assert_int_equal(ask_once("POST /head HTTP/1.1\r\n" HOST "Content-Length: 1000\r\n\r\n",
                              answer, sizeof(answer)),
                     403);
    assert_non_null(strstr(answer, "Connection: close\r\n"));
}

static void the_time_of_a_request_counts_what_keeps_its_loop(void **state)
{
    (void)state;
    char answer[4096];
    assert_int_equal(ask_once("GET /busy HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", answer,
                              sizeof(answer)),
                     200);
    assert_true(strtoul(strstr(answer, "\r\n\r\n") + 4, NULL, 10) >= 30);
}

static void a_slow_head_gets_408_however_it_trickles(void **state)
{
    (void)state;
    char answer[4096] = "";
    int fd = dial();
    const char *text = "GET /json HTTP/1.1\r\nHost: a\r\nX: ";
    say_z(fd, text);
    uint64_t begun = now_ms();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, 30) == 0) {
        assert_true(now_ms() - begun < HANG_MS);
        (void)send(fd, "x", 1, MSG_NOSIGNAL);
    }
    uint64_t took = now_ms() - begun;
    (void)hear_all(fd, answer, sizeof(answer));
    assert_int_equal(status_of(answer), 408);
    assert_non_null(strstr(answer, "within 300 ms"));
    assert_in_range(took, 250, HANG_MS);
    (void)close(fd);
}

static void a_body_that_stops_gets_408(void **state)
{
    (void)state;
    char answer[4096];
    uint64_t begun = now_ms();
    assert_int_equal(ask_once("POST /echo HTTP/1.1\r\n" HOST "Content-Length: 10\r\n\r\nhello",
                              answer, sizeof(answer)),
                     408);
    assert_in_range(now_ms() - begun, 150, HANG_MS);
    assert_int_equal(ask_once(CHUNKED "5\r\nhel", answer, sizeof(answer)), 408);
    assert_int_equal(peek_counter(&h.begun), 0);
}

static void a_body_gets_408_however_it_trickles(void **state)
{
    (void)state;
    char answer[4096] = "";
    int fd = dial();
    say_z(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 100000\r\n\r\n");
    uint64_t begun = now_ms();
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (poll(&p, 1, 30) == 0) {
        assert_true(now_ms() - begun < HANG_MS);
        (void)send(fd, "x", 1, MSG_NOSIGNAL);
    }
    assert_in_range(now_ms() - begun, 150, HANG_MS);
    (void)hear_all(fd, answer, sizeof(answer));
    assert_int_equal(status_of(answer), 408);
    assert_non_null(strstr(answer, "body-timeout"));
    (void)close(fd);
}

static void a_large_body_has_the_time_of_its_bytes(void **state)
{
    enum { PIECE = 16 << 10, PIECES = 10 };
    (void)state;
    static char piece[PIECE];
    char answer[4096];
    int fd = dial();
    memset(piece, 'x', sizeof(piece));
    say_z(fd, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 163840\r\n\r\n");
    struct pollfd p = {.fd = fd, .events = POLLIN};
    for (int i = 0; i < PIECES; i++) { /* 400 ms in all, at 400 KB/s; the limit is 200 */
        assert_int_equal(poll(&p, 1, 40), 0);
        say(fd, piece, sizeof(piece));
    }
    hear_until(fd, answer, sizeof(answer), "HTTP/1.1 200");
    (void)close(fd);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(a_malformed_head_is_refused_and_the_connection_closed),
        CASE(a_malformed_chunk_is_refused_and_the_connection_closed),
        CASE(well_formed_requests_are_answered_on_one_connection),
        CASE(a_head_that_arrives_byte_by_byte_is_read),
        CASE(http_1_0_is_answered_and_closed),
        CASE(connection_close_is_honoured),
        CASE(head_gets_the_length_and_no_body),
        CASE(a_stream_is_chunked_and_the_connection_lives_on),
        CASE(a_header_value_cannot_split_the_answer),
        CASE(pipelined_requests_are_answered_in_order),
        CASE(expect_100_continue_is_answered_before_the_body),
        CASE(a_head_over_the_limit_gets_431),
        CASE(a_head_with_too_many_lines_gets_431),
        CASE(a_body_of_100_mb_gets_413_unread),
        CASE(a_chunked_body_over_the_limit_gets_413),
        CASE(a_refusal_in_on_head_does_not_wait_for_the_body),
        CASE(the_time_of_a_request_counts_what_keeps_its_loop),
        CASE(a_slow_head_gets_408_however_it_trickles),
        CASE(a_body_that_stops_gets_408),
        CASE(a_body_gets_408_however_it_trickles),
        CASE(a_large_body_has_the_time_of_its_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
