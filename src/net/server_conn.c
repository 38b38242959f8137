/* net/server_conn.c - one client's connection: heads, bodies, pipelining, refusals.
 *
 * A connection is always in one of these states:
 *
 *   idle       req NULL, no byte of a head; the idle timeout runs
 *   head       req NULL, head_begun; the header timeout runs, from the first byte
 *   body       req in REQUEST_BODY; the body timeout runs, longer for each received byte
 *   running    req in REQUEST_RUNNING; reading goes on, so that a leaving client shows;
 *              pipelined bytes are kept up to a limit
 *   upgraded   req in REQUEST_BODY and is_upgraded: bytes both ways, without a timeout
 *   lingering  the last answer was sent; input is dropped until the client closes
 *
 * Thread: the part's loop.
 */
#include <inttypes.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/os/socket.h"
#include "net/path.h"
#include "net/server_internal.h"

enum {
    /* Pipelined bytes kept before reading stops, beside one read. */
    MAX_PIPELINED = 32 * 1024,
    /* Unsent answer bytes above which the next pipelined request waits. */
    MAX_ANSWERS_QUEUED = 64 * 1024,
    /* Bytes a second at which a body must arrive once the body timeout has passed. */
    BODY_RATE = 64 * 1024,
};

/* ---- refusals ---- */

/* Refuses input that is wrong before a request exists. */
static void server_conn_refuse(struct server_conn *sc, int status, const struct lr_error *err)
{
    atomic_fetch_add_explicit(&sc->part->server->refused, 1, memory_order_relaxed);
    net_server_send_refusal(sc, status, err, (struct lr_str){0}, false);
    net_server_conn_answered(sc, false);
}

/* Refuses a request because of its body.  A handler that already has the request is told that
 * the client is gone and cannot answer any more. */
static void refuse_request(struct net_request *req, int status, const struct lr_error *err)
{
    struct server_conn *sc = req->conn;
    atomic_fetch_add_explicit(&sc->part->server->refused, 1, memory_order_relaxed);
    bool is_begun = req->response != RESPONSE_NONE;
    if (!is_begun) {
        net_server_send_refusal(sc, status, err, net_request_path(req), req->is_head_method);
        req->status = status;
    }
    net_server_conn_detach(sc);
    if (is_begun)
        net_server_conn_close(sc);
    else
        net_server_conn_answered(sc, false);
    if (req->is_owned)
        net_server_request_set_gone(req);
    else
        net_server_request_end(req);
}

/* ---- bodies ---- */

static void body_complete(struct net_request *req)
{
    req->state = REQUEST_RUNNING;
    net_conn_set_deadline(&req->conn->conn, 0);
    const struct net_server_handler *handler = &req->part->server->config.handler;
    if (req->is_streamed) {
        if (req->sink.on_end != NULL)
            req->sink.on_end(req->sink.arg);
    } else {
        req->is_owned = true;
        handler->on_request(handler->arg, req);
    }
}

/* The deadline of a body is the body timeout plus the time its bytes take at the lowest rate: a
 * client that trickles holds memory no longer than a silent one. */
static void set_body_deadline(struct server_conn *sc)
{
    const struct net_request *req = sc->req;
    if (req->is_upgraded)
        return;
    uint64_t now = net_loop_now_ms(sc->part->loop);
    uint64_t until = req->body_begun_ms + sc->part->server->config.body_timeout_ms +
                     req->body.total * 1000 / BODY_RATE;
    net_conn_set_deadline(&sc->conn, until > now ? until - now : 1);
}

static lr_code too_large(uint64_t limit, struct lr_error *err)
{
    return lr_fail_as(err, body_over, limit);
}

/* Processes input as body; false when no more of the input can be processed. */
static bool consume_body(struct server_conn *sc, struct lr_str *input)
{
    struct net_request *req = sc->req;
    struct lr_error err;
    struct lr_str data;
    switch (net_body_next(&req->body, input, &data, &err)) {
    case NET_BODY_MORE:
        return false;
    case NET_BODY_BAD:
        refuse_request(req, 400, &err);
        return true;
    case NET_BODY_END:
        body_complete(req);
        return true;
    case NET_BODY_DATA:
        break;
    }
    if (req->body.total > req->body_limit) {
        (void)too_large(req->body_limit, &err);
        refuse_request(req, 413, &err);
        return true;
    }
    set_body_deadline(sc);
    if (req->is_streamed) {
        req->sink.on_data(req->sink.arg, data);
        return true;
    }
    lr_buf_add_str(&req->collected, data);
    if (req->collected.failed) {
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for the body");
        refuse_request(req, 503, &err);
    }
    return true;
}

/* ---- heads ---- */

static void begin_body(struct server_conn *sc, struct net_request *req)
{
    struct lr_error err;
    if (req->head.body == NET_BODY_NONE) {
        body_complete(req);
        return;
    }
    if (req->head.body == NET_BODY_LENGTH && req->head.length > req->body_limit) {
        (void)lr_fail_as(&err, body_length_over, req->head.length, req->body_limit);
        refuse_request(req, 413, &err);
        return;
    }
    req->state = REQUEST_BODY;
    if (!req->is_streamed)
        lr_buf_init(&req->collected, (size_t)req->body_limit);
    if (req->head.expects_continue && req->response == RESPONSE_NONE) {
        struct lr_str go = LR_STR_LIT("HTTP/1.1 100 Continue\r\n\r\n");
        net_conn_write(&sc->conn, &go, 1);
    }
    req->body_begun_ms = net_loop_now_ms(sc->part->loop);
    set_body_deadline(sc);
}

static void begin_request(struct server_conn *sc, struct lr_str block)
{
    struct net_server *server = sc->part->server;
    struct net_request *req = net_server_request_create(sc);
    struct lr_error err;
    int status = 400;
    if (req == NULL) {
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for a request");
        server_conn_refuse(sc, 503, &err);
        return;
    }
    lr_code code = net_head_parse_request(&req->arena, block, sc->scan.line_count, &req->head,
                                          &status, &err);
    if (code == LR_OK)
        code = net_path_decode(&req->arena, req->head.path, &req->path, &err);
    if (code != LR_OK) {
        lr_arena_free(&req->arena);
        free(req);
        server_conn_refuse(sc, status, &err);
        return;
    }
    atomic_fetch_add_explicit(&server->requests, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&server->active, 1, memory_order_relaxed);
    sc->part->active++;
    sc->req = req;
    sc->has_served = true;
    req->conn = sc;
    (void)net_seat_set_idle(&server->seats, &sc->seat, false);
    req->is_head_method = lr_str_eq_z(req->head.method, "HEAD");
    req->keeps_alive = req->head.keep_alive;
    req->body_limit = server->config.max_body_bytes;
    net_body_init(&req->body, req->head.body, req->head.length);
    net_conn_set_deadline(&sc->conn, 0);
    if (server->config.handler.on_head != NULL) {
        server->config.handler.on_head(server->config.handler.arg, req);
        if (sc->req != req) /* on_head has ended the request */
            return;
    }
    begin_body(sc, req);
}

static bool consume_head(struct server_conn *sc, struct lr_str *input)
{
    const struct net_server_config *config = &sc->part->server->config;
    /* An empty line before a request is accepted (RFC 9112 2.2). */
    while (sc->scan.at == 0 && lr_str_starts(*input, "\r\n"))
        *input = lr_str_sub(*input, 2, input->len);
    if (input->len == 0)
        return false;
    struct lr_error err;
    enum net_head_result result = net_head_scan(&sc->scan, *input, &err);
    if (result != NET_HEAD_BAD && sc->scan.at > config->max_header_bytes) {
        (void)lr_fail_as(&err, head_over, config->max_header_bytes);
        server_conn_refuse(sc, 431, &err);
        return true;
    }
    if (result == NET_HEAD_BAD) {
        server_conn_refuse(sc, 400, &err);
        return true;
    }
    if (result == NET_HEAD_MORE) {
        if (!sc->head_begun)
            net_conn_set_deadline(&sc->conn, config->header_timeout_ms);
        sc->head_begun = true;
        return false;
    }
    struct lr_str block = lr_str_sub(*input, 0, sc->scan.at);
    *input = lr_str_sub(*input, sc->scan.at, input->len);
    sc->head_begun = false;
    begin_request(sc, block);
    sc->scan = (struct net_head_scan){0};
    return true;
}

/* ---- input ---- */

/* Processes as much input as possible and returns the rest.  Handlers run inside and may end
 * the request; then the loop continues with the next one. */
static struct lr_str process(struct server_conn *sc, struct lr_str input)
{
    sc->is_processing = true;
    bool goes_on = true;
    while (goes_on && !sc->is_lingering && !sc->conn.is_closing) {
        if (sc->req == NULL)
            goes_on =
                net_conn_queued(&sc->conn) <= MAX_ANSWERS_QUEUED && consume_head(sc, &input);
        else if (sc->req->state == REQUEST_BODY && !sc->req->is_paused)
            goes_on = consume_body(sc, &input);
        else
            goes_on = false;
    }
    sc->is_processing = false;
    return sc->is_lingering || sc->conn.is_closing ? lr_str("", 0) : input;
}

static void process_buffered(struct server_conn *sc)
{
    struct lr_str rest = process(sc, lr_buf_str(&sc->in));
    lr_buf_consume(&sc->in, sc->in.len - rest.len);
    if (sc->in.len == 0)
        lr_buf_free(&sc->in); /* an idle connection holds no buffer */
    net_server_conn_update_reading(sc);
}

void net_server_conn_update_reading(struct server_conn *sc)
{
    const struct net_request *req = sc->req;
    bool is_held = req != NULL && req->is_paused && req->state != REQUEST_RUNNING;
    bool is_full = sc->in.len >= MAX_PIPELINED && (req != NULL || sc->conn.is_writing);
    net_conn_read(&sc->conn, sc->is_lingering || (!is_held && !is_full));
}

static void server_conn_on_data(void *owner, struct lr_str bytes)
{
    struct server_conn *sc = owner;
    if (sc->is_lingering)
        return;
    if (sc->in.len != 0) {
        lr_buf_add_str(&sc->in, bytes);
        process_buffered(sc);
        return;
    }
    struct lr_str rest = process(sc, bytes);
    if (rest.len != 0)
        lr_buf_add_str(&sc->in, rest);
    net_server_conn_update_reading(sc);
}

static void on_go_on(void *arg)
{
    struct server_conn *sc = arg;
    process_buffered(sc);
}

/* ---- ends ---- */

void net_server_conn_detach(struct server_conn *sc)
{
    if (sc->req == NULL)
        return;
    sc->req->conn = NULL;
    sc->req = NULL;
}

void net_server_conn_close(struct server_conn *sc)
{
    net_task_cancel(sc->part->loop, &sc->go_on);
    net_conn_close(&sc->conn);
}

/* Our side is closed, but the client may still be sending: closing now would reset the
 * connection and could destroy our answer.  So input is read and dropped. */
static void linger(struct server_conn *sc)
{
    sc->is_lingering = true;
    sc->head_begun = false;
    (void)net_seat_set_idle(&sc->part->server->seats, &sc->seat, false);
    net_task_cancel(sc->part->loop, &sc->go_on);
    if (!sc->is_processing)
        lr_buf_free(&sc->in);
    net_conn_shutdown(&sc->conn);
    net_conn_set_deadline(
        &sc->conn, net_conn_queued(&sc->conn) == 0 ? sc->part->server->config.linger_ms : 0);
    net_server_conn_update_reading(sc);
}

void net_server_conn_answered(struct server_conn *sc, bool keep_alive)
{
    if (sc->conn.is_closing)
        return;
    if (!keep_alive || sc->part->is_stopping || sc->conn.is_ended ||
        !net_seat_set_idle(&sc->part->server->seats, &sc->seat, true)) {
        linger(sc);
        return;
    }
    net_conn_set_deadline(&sc->conn, sc->part->server->config.idle_timeout_ms);
    if (!sc->is_processing) {
        if (sc->in.len != 0)
            net_task_queue(sc->part->loop, &sc->go_on);
        net_server_conn_update_reading(sc);
    }
}

void net_server_conn_make_room(struct server_conn *sc)
{
    sc->is_told = true;
    if (sc->is_forgotten)
        free(sc);
    else if (sc->req == NULL && net_conn_queued(&sc->conn) == 0)
        net_server_conn_close(sc);
    else if (sc->req == NULL && !sc->is_lingering)
        net_server_conn_answered(sc, false);
    /* else the connection has got a request meanwhile and closes after its answer */
}

static void server_conn_on_end(void *owner, const struct lr_error *err)
{
    struct server_conn *sc = owner;
    struct net_request *req = sc->req;
    if (err != NULL)
        lr_log_debug(NULL, "net.broken remote=%s error=%s", sc->remote, err->text);
    if (req == NULL) {
        if (err != NULL && net_conn_queued(&sc->conn) != 0)
            lr_log_warn(LR_LOG_OF(err), "net.unread remote=%s bytes=%zu reason=%s", sc->remote,
                        net_conn_queued(&sc->conn), err->text);
        /* A client that half-closed after its request still gets the queued bytes. */
        if (err == NULL && !sc->is_lingering && net_conn_queued(&sc->conn) != 0)
            sc->close_when_drained = true;
        else
            net_server_conn_close(sc);
        return;
    }
    req->unread = net_conn_queued(&sc->conn);
    net_server_conn_detach(sc);
    net_server_conn_close(sc);
    if (req->is_owned)
        net_server_request_set_gone(req);
    else
        net_server_request_end(req);
}

static void server_conn_on_drain(void *owner)
{
    struct server_conn *sc = owner;
    if (sc->close_when_drained) {
        net_server_conn_close(sc);
    } else if (sc->is_lingering) {
        net_conn_set_deadline(&sc->conn, sc->part->server->config.linger_ms);
    } else if (sc->req != NULL) {
        if (sc->req->on_drain != NULL && sc->req->response == RESPONSE_BEGUN)
            sc->req->on_drain(sc->req->on_drain_arg);
    } else if (sc->in.len != 0) {
        process_buffered(sc);
    } else {
        net_server_conn_update_reading(sc);
    }
}

static void on_deadline(void *owner)
{
    struct server_conn *sc = owner;
    struct lr_error err;
    const struct net_server_config *config = &sc->part->server->config;
    if (sc->req != NULL) {
        if (sc->req->is_paused) { /* the handler is slow, not the client */
            sc->req->body_begun_ms = net_loop_now_ms(sc->part->loop);
            set_body_deadline(sc);
            return;
        }
        (void)lr_fail_as(&err, body_slow, config->body_timeout_ms, BODY_RATE);
        refuse_request(sc->req, 408, &err);
    } else if (sc->head_begun) {
        (void)lr_fail_as(&err, head_slow, config->header_timeout_ms);
        server_conn_refuse(sc, 408, &err);
    } else {
        net_server_conn_close(sc);
    }
}

static void on_secure(void *owner)
{
    struct server_conn *sc = owner;
    net_conn_set_deadline(&sc->conn, sc->part->server->config.idle_timeout_ms);
}

static void server_conn_on_closed(void *owner)
{
    struct server_conn *sc = owner;
    struct server_part *part = sc->part;
    if (sc->next != NULL)
        sc->next->prev = sc->prev;
    if (sc->prev != NULL)
        sc->prev->next = sc->next;
    else
        part->conns = sc->next;
    atomic_fetch_sub(&part->load, 1);
    lr_buf_free(&sc->in);
    sc->is_forgotten = true;
    if (net_seat_leave(&part->server->seats, &sc->seat) || sc->is_told)
        free(sc);
    /* After the seat: a connection that is not counted any more leaves its seat to another. */
    atomic_fetch_sub(&part->server->connections, 1);
    net_server_part_check_stopped(part);
}

static const struct net_conn_events events = {
    .on_data = server_conn_on_data,
    .on_end = server_conn_on_end,
    .on_drain = server_conn_on_drain,
    .on_secure = on_secure,
    .on_deadline = on_deadline,
    .on_closed = server_conn_on_closed,
};

bool net_server_conn_create(struct server_part *part, int fd, bool is_unix, const char *remote,
                            struct net_peer *peer)
{
    const struct net_server_config *config = &part->server->config;
    struct server_conn *sc = calloc(1, sizeof(*sc));
    if (sc == NULL)
        return false;
    sc->part = part;
    sc->seat.peer = peer;
    sc->is_unix = is_unix;
    (void)memcpy(sc->remote, remote, sizeof(sc->remote));
    lr_buf_init(&sc->in, (size_t)config->max_header_bytes + MAX_PIPELINED + 4 * NET_READ_BYTES);
    net_task_init(&sc->go_on, on_go_on, sc);
    sc->next = part->conns;
    if (sc->next != NULL)
        sc->next->prev = sc;
    part->conns = sc;
    net_conn_init(&sc->conn, part->loop, &events, sc, config->write_timeout_ms);
    (void)net_seat_set_idle(&part->server->seats, &sc->seat, true);
    if (net_conn_open(&sc->conn, fd) != 0) {
        net_conn_close(&sc->conn);
        return true;
    }
    uint32_t first_ms = config->idle_timeout_ms;
    if (part->server->tls != NULL && !is_unix) {
        struct net_tls_session *session;
        if (net_tls_session_create(part->server->tls, NULL, &session, NULL) != LR_OK) {
            net_conn_close(&sc->conn);
            return true;
        }
        net_conn_secure(&sc->conn, session);
        first_ms = config->header_timeout_ms;
    }
    net_conn_read(&sc->conn, true);
    net_conn_established(&sc->conn);
    net_conn_set_deadline(&sc->conn, first_ms);
    return true;
}
