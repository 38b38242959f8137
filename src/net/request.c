/* net/request.c - a request: its accessors, its lifetime, and the report that its client has
 * gone. */
#include "base/clock.h"
#include "net/path.h"
#include "net/server_internal.h"

static void tell_gone(void *arg)
{
    struct net_request *req = arg;
    if (req->on_gone != NULL) {
        void (*fn)(void *) = req->on_gone;
        req->on_gone = NULL; /* once */
        fn(req->on_gone_arg);
    }
}

struct net_request *net_server_request_create(struct server_conn *sc)
{
    struct net_request *req = calloc(1, sizeof(*req));
    if (req == NULL)
        return NULL;
    struct server_part *part = sc->part;
    req->part = part;
    req->is_tls = part->server->tls != NULL && !sc->is_unix;
    req->started_ms = lr_clock_ms(NULL);
    (void)memcpy(req->remote, sc->remote, sizeof(req->remote));
    lr_arena_init(&req->arena, (size_t)part->server->config.max_request_bytes);
    lr_buf_init(&req->extra, 64 * 1024);
    lr_buf_init(&req->collected, 0);
    net_task_init(&req->gone_task, tell_gone, req);
    return req;
}

void net_server_request_set_gone(struct net_request *req)
{
    if (req->is_gone)
        return;
    req->is_gone = true;
    atomic_fetch_add_explicit(&req->part->server->gone, 1, memory_order_relaxed);
    /* In a turn of its own, because refusals also come from inside the handler's calls. */
    net_task_queue(req->part->loop, &req->gone_task);
}

static void request_bury(void *arg)
{
    struct net_request *req = arg;
    lr_buf_free(&req->collected);
    lr_buf_free(&req->extra);
    lr_arena_free(&req->arena);
    free(req);
}

void net_server_request_end(struct net_request *req)
{
    struct server_part *part = req->part;
    const struct net_server_handler *handler = &part->server->config.handler;
    net_task_cancel(part->loop, &req->gone_task);
    req->state = REQUEST_ENDED;
    req->response = RESPONSE_ENDED;
    if (handler->on_end != NULL)
        handler->on_end(handler->arg, req);
    atomic_fetch_sub_explicit(&part->server->active, 1, memory_order_relaxed);
    part->active--;
    net_loop_bury(part->loop, request_bury, req);
    net_server_part_check_stopped(part);
}

/* ---- accessors ---- */

struct lr_str net_request_method(const struct net_request *req)
{
    return req->head.method;
}

struct lr_str net_request_raw_path(const struct net_request *req)
{
    return req->head.path;
}

struct lr_str net_request_path(const struct net_request *req)
{
    return req->path;
}

struct lr_str net_request_query(const struct net_request *req)
{
    return req->head.query;
}

bool net_request_query_get(struct net_request *req, const char *name, struct lr_str *out)
{
    return net_query_get(&req->arena, req->head.query, name, out);
}

struct net_headers net_request_headers(const struct net_request *req)
{
    return req->head.headers;
}

bool net_request_header(const struct net_request *req, const char *name, struct lr_str *out)
{
    return net_headers_get(req->head.headers, name, out);
}

struct lr_str net_request_host(const struct net_request *req)
{
    return req->head.authority;
}

bool net_request_is_http_1_0(const struct net_request *req)
{
    return req->head.minor == 0;
}

const char *net_request_remote(const struct net_request *req)
{
    return req->remote;
}

bool net_request_is_tls(const struct net_request *req)
{
    return req->is_tls;
}

struct lr_str net_request_body(const struct net_request *req)
{
    return lr_buf_str(&req->collected);
}

uint64_t net_request_body_length(const struct net_request *req)
{
    return req->head.body == NET_BODY_CHUNKED ? UINT64_MAX : req->head.length;
}

struct lr_arena *net_request_arena(struct net_request *req)
{
    return &req->arena;
}

struct net_loop *net_request_loop(const struct net_request *req)
{
    return req->part->loop;
}

void net_request_set_user(struct net_request *req, void *user)
{
    req->user = user;
}

void *net_request_user(const struct net_request *req)
{
    return req->user;
}

int net_request_status(const struct net_request *req)
{
    return req->status;
}

uint64_t net_request_bytes_sent(const struct net_request *req)
{
    return req->bytes_sent;
}

uint64_t net_request_elapsed_ms(const struct net_request *req)
{
    return lr_clock_ms(NULL) - req->started_ms;
}

bool net_request_is_strict(const struct net_request *req)
{
    return net_headers_has_token(req->head.headers, "Prefer", "handling=strict");
}

/* ---- while it runs ---- */

void net_request_on_gone(struct net_request *req, void (*fn)(void *arg), void *arg)
{
    req->on_gone = fn;
    req->on_gone_arg = arg;
    if (req->is_gone)
        net_task_queue(req->part->loop, &req->gone_task);
}

void net_request_stream_body(struct net_request *req, const struct net_body_sink *sink)
{
    if (req->state != REQUEST_HEAD)
        return;
    req->sink = *sink;
    req->is_streamed = true;
    req->is_owned = true;
}

bool net_request_wants_upgrade(const struct net_request *req, struct lr_str *protocol)
{
    struct lr_str list;
    return req->head.minor >= 1 && net_request_header(req, "Upgrade", &list) &&
           net_headers_has_token(req->head.headers, "Connection", "upgrade") &&
           lr_str_split(&list, ',', protocol);
}

void net_request_pause(struct net_request *req)
{
    req->is_paused = true;
    if (req->conn != NULL && !req->conn->is_processing)
        net_server_conn_update_reading(req->conn);
}

void net_request_resume(struct net_request *req)
{
    if (!req->is_paused)
        return;
    req->is_paused = false;
    if (req->conn == NULL)
        return;
    net_task_queue(req->part->loop, &req->conn->go_on);
    if (!req->conn->is_processing)
        net_server_conn_update_reading(req->conn);
}

void net_request_limit_body(struct net_request *req, uint64_t max_bytes)
{
    req->body_limit = max_bytes;
}
