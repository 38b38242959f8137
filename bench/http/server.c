/* bench/http/server.c - a small program on net/ that the benchmark measures and that
 * black-box tests use.
 *
 *   net_server [--host A] [--port N] [--loops N] [--cert FILE --key FILE] [--KEY N ...]
 *
 * KEY is a number of struct net_server_config (max-body-bytes, header-timeout-ms, ...).
 * It prints "listening PORT" and serves until SIGTERM, then drains.
 *   GET  /json             the small answer of the benchmark
 *   POST /echo             returns the body
 *   GET  /sse?events=N&gap_ms=G&size=S   N events, G ms apart (0: as fast as possible)
 *   GET  /idle             begins a stream and never writes; /left counts the clients that left
 *   GET  /flood?bytes=N    writes as fast as it may, and reports the largest queue at /queued
 *   GET  /later?ms=N       answers after N ms
 *   POST /count            reads the body as a stream, answers with its length
 *   GET  /left, /queued, /stats
 */
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/server.h"

static struct net_loops *loops;
static struct net_server *server;
static _Atomic uint64_t left_count;
static _Atomic uint64_t queued_max;

static uint64_t query_number(struct net_request *req, const char *name, uint64_t otherwise)
{
    struct lr_str text;
    uint64_t value;
    if (net_request_query_get(req, name, &text) && lr_str_u64(text, &value))
        return value;
    return otherwise;
}

/* ---- streams ---- */

struct stream {
    struct net_request *req;
    struct net_timer *timer;
    uint64_t left;
    size_t size;
    bool is_flood;
};

static char filler[65536];

static void stream_free(struct stream *s)
{
    net_timer_stop(s->timer);
    free(s);
}

static void on_stream_gone(void *arg)
{
    struct stream *s = arg;
    atomic_fetch_add(&left_count, 1);
    net_stream_abort(s->req);
    stream_free(s);
}

static void note_queued(const struct net_request *req)
{
    uint64_t now = net_stream_queued(req);
    if (now > atomic_load(&queued_max))
        atomic_store(&queued_max, now);
}

/* Writes until nothing is left or the client has had enough for now. */
static void pour(void *arg)
{
    struct stream *s = arg;
    while (s->left != 0) {
        lr_code code = s->is_flood ? net_stream_write(s->req, lr_str(filler, sizeof(filler)))
                                   : net_sse_event(s->req, lr_str(filler, s->size));
        note_queued(s->req);
        if (code != LR_OK) /* full: on_drain goes on; gone: on_gone cleans up */
            return;
        s->left--;
        if (s->timer != NULL && s->left != 0)
            return;
    }
    net_stream_end(s->req);
    stream_free(s);
}

static void start_stream(struct net_request *req, uint64_t count, uint64_t gap_ms, size_t size,
                         bool is_flood)
{
    struct stream *s = calloc(1, sizeof(*s));
    if (s == NULL)
        abort();
    s->req = req;
    s->left = count;
    s->size = size < sizeof(filler) ? size : sizeof(filler);
    s->is_flood = is_flood;
    net_request_on_gone(req, on_stream_gone, s);
    net_stream_on_drain(req, pour, s);
    if (is_flood)
        net_stream_begin(req, 200, "application/octet-stream");
    else
        net_sse_begin(req);
    net_stream_flush(req);
    if (gap_ms != 0)
        s->timer = net_timer_start(net_request_loop(req), gap_ms, gap_ms, pour, s);
    else if (count != UINT64_MAX)
        pour(s);
}

/* ---- later ---- */

struct later {
    struct net_request *req;
    struct net_timer *timer;
};

static void on_later(void *arg)
{
    struct later *l = arg;
    net_respond(l->req, 200, "text/plain", LR_STR_LIT("later\n"));
    net_timer_stop(l->timer);
    free(l);
}

static void on_later_gone(void *arg)
{
    (void)arg;
    atomic_fetch_add(&left_count, 1);
}

static void answer_later(struct net_request *req, uint64_t ms)
{
    struct later *l = calloc(1, sizeof(*l));
    if (l == NULL)
        abort();
    l->req = req;
    net_request_on_gone(req, on_later_gone, l);
    l->timer = net_timer_start(net_request_loop(req), ms, 0, on_later, l);
}

/* ---- a streamed request body ---- */

static void count_data(void *arg, struct lr_str bytes)
{
    struct net_request *req = arg;
    uint64_t *total = net_request_user(req);
    *total += bytes.len;
}

static void respond_number(struct net_request *req, uint64_t number)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%" PRIu64 "\n", number);
    net_respond(req, 200, "text/plain", lr_str(text, (size_t)len));
}

static void count_end(void *arg)
{
    struct net_request *req = arg;
    respond_number(req, *(uint64_t *)net_request_user(req));
}

static void count_gone(void *arg)
{
    atomic_fetch_add(&left_count, 1);
    net_stream_abort(arg);
}

static void on_head(void *arg, struct net_request *req)
{
    (void)arg;
    if (!lr_str_eq_z(net_request_path(req), "/count"))
        return;
    net_request_set_user(req, lr_arena_zalloc(net_request_arena(req), sizeof(uint64_t)));
    net_request_limit_body(req, UINT64_MAX);
    net_request_on_gone(req, count_gone, req);
    net_request_stream_body(
        req, &(struct net_body_sink){.arg = req, .on_data = count_data, .on_end = count_end});
}

/* ---- routes ---- */

static const char json_body[] = "{\"id\":\"bench\",\"object\":\"list\",\"data\":[{\"id\":"
                                "\"model\",\"object\":\"model\",\"ready\""
                                ":true}]}";

static void respond_stats(struct net_request *req)
{
    struct net_server_stats s;
    net_server_get_stats(server, &s);
    char text[256];
    int len =
        snprintf(text, sizeof(text),
                 "{\"accepted\":%" PRIu64 ",\"connections\":%" PRIu64 ",\"requests\":%" PRIu64
                 ",\"active\":%" PRIu64 ",\"refused\":%" PRIu64 ",\"gone\":%" PRIu64 "}",
                 s.accepted, s.connections, s.requests, s.active, s.refused, s.gone);
    net_respond(req, 200, "application/json", lr_str(text, (size_t)len));
}

static void on_request(void *arg, struct net_request *req)
{
    (void)arg;
    struct lr_str path = net_request_path(req);
    if (lr_str_eq_z(path, "/json"))
        net_respond(req, 200, "application/json", lr_str(json_body, sizeof(json_body) - 1));
    else if (lr_str_eq_z(path, "/echo"))
        net_respond(req, 200, "application/octet-stream", net_request_body(req));
    else if (lr_str_eq_z(path, "/sse"))
        start_stream(req, query_number(req, "events", 10), query_number(req, "gap_ms", 0),
                     query_number(req, "size", 100), false);
    else if (lr_str_eq_z(path, "/idle"))
        start_stream(req, UINT64_MAX, 0, 0, false);
    else if (lr_str_eq_z(path, "/flood"))
        start_stream(req, query_number(req, "bytes", 64 << 20) / sizeof(filler), 0, 0, true);
    else if (lr_str_eq_z(path, "/later"))
        answer_later(req, query_number(req, "ms", 100));
    else if (lr_str_eq_z(path, "/left"))
        respond_number(req, atomic_load(&left_count));
    else if (lr_str_eq_z(path, "/queued"))
        respond_number(req, atomic_load(&queued_max));
    else if (lr_str_eq_z(path, "/stats"))
        respond_stats(req);
    else
        net_respond_error(req, &(struct lr_error){LR_NOT_FOUND, "no such path"});
}

/* ---- life ---- */

static void on_stopped(void *arg)
{
    (void)arg;
    net_loops_stop(loops);
}

static void on_term(void *arg)
{
    struct net_signal **term = arg;
    net_signal_stop(*term);
    *term = NULL;
    net_server_stop(server, 5000, on_stopped, NULL);
}

static const struct {
    const char *flag;
    size_t offset;
    bool is_64;
} numbers[] = {
#define NUMBER(flag, field)                                                                    \
    {                                                                                          \
        flag, offsetof(struct net_server_config, field),                                       \
            sizeof(((struct net_server_config *)0)->field) == 8                                \
    }
    NUMBER("--max-connections", max_connections),
    NUMBER("--max-header-bytes", max_header_bytes),
    NUMBER("--max-body-bytes", max_body_bytes),
    NUMBER("--max-stream-bytes", max_stream_bytes),
    NUMBER("--header-timeout-ms", header_timeout_ms),
    NUMBER("--body-timeout-ms", body_timeout_ms),
    NUMBER("--idle-timeout-ms", idle_timeout_ms),
    NUMBER("--write-timeout-ms", write_timeout_ms),
    NUMBER("--linger-ms", linger_ms),
};

static bool set_number(struct net_server_config *config, const char *flag, uint64_t value)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(flag, numbers[i].flag) != 0)
            continue;
        char *field = (char *)config + numbers[i].offset;
        uint32_t small = (uint32_t)value;
        if (numbers[i].is_64)
            memcpy(field, &value, sizeof(value));
        else
            memcpy(field, &small, sizeof(small));
        return true;
    }
    return false;
}

static int fail(const struct lr_error *err)
{
    (void)fprintf(stderr, "net_server: %s\n", err->text);
    return 1;
}

int main(int argc, char **argv)
{
    struct net_server_config config = {
        .host = "127.0.0.1",
        .handler = {.on_head = on_head, .on_request = on_request},
    };
    const char *cert = NULL;
    const char *key = NULL;
    unsigned loop_count = 1;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t value = strtoull(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--host") == 0)
            config.host = argv[i + 1];
        else if (strcmp(argv[i], "--port") == 0)
            config.port = (uint16_t)value;
        else if (strcmp(argv[i], "--loops") == 0)
            loop_count = (unsigned)value;
        else if (strcmp(argv[i], "--cert") == 0)
            cert = argv[i + 1];
        else if (strcmp(argv[i], "--key") == 0)
            key = argv[i + 1];
        else if (!set_number(&config, argv[i], value))
            return fail(&(struct lr_error){LR_INVALID_ARGUMENT, "unknown flag"});
    }
    memset(filler, 'x', sizeof(filler));
    struct lr_error err;
    struct net_tls *tls = NULL;
    if (cert != NULL && net_tls_server_create(cert, key, &tls, &err) != LR_OK)
        return fail(&err);
    config.tls = tls;
    if (net_loops_create(loop_count, &loops, &err) != LR_OK)
        return fail(&err);
    if (net_server_start(loops, &config, &server, &err) != LR_OK)
        return fail(&err);
    struct net_signal *term;
    if (net_signal_start(net_loops_get(loops, 0), SIGTERM, on_term, &term, &term, &err) !=
        LR_OK)
        return fail(&err);
    printf("listening %u\n", net_server_port(server));
    (void)fflush(stdout);
    if (net_loops_run(loops, &err) != LR_OK)
        return fail(&err);
    net_server_destroy(server);
    net_tls_destroy(tls);
    net_loops_destroy(loops);
    return 0;
}
