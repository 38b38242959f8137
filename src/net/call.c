/* net/call.c - one call: sending the request, reading the answer, ending.
 *
 * The caller's callbacks may cancel their own call.  So a call stays in memory until the end of
 * the turn, and the code here checks the call's state again after each callback.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "net/client_internal.h"

enum { MAX_HEAD = 32 * 1024 };

/* ---- the end ---- */

static void call_bury(void *arg)
{
    struct net_call *call = arg;
    if (call->free_owned != NULL)
        call->free_owned(call->owned);
    lr_buf_free(&call->request);
    lr_buf_free(&call->in);
    lr_arena_free(&call->arena);
    free(call);
}

static void call_leave(struct net_call *call, bool keep_connection)
{
    struct net_client *client = call->client;
    call->state = CALL_OVER;
    net_client_dial_cancel(call);
    net_task_cancel(client->loop, &call->go_on);
    if (call->conn != NULL)
        net_client_conn_release(call->conn, keep_connection);
    if (call->next != NULL)
        call->next->prev = call->prev;
    if (call->prev != NULL)
        call->prev->next = call->next;
    else
        client->calls = call->next;
    client->stats.calls--;
    net_loop_bury(client->loop, call_bury, call);
}

void net_call_cancel(struct net_call *call)
{
    if (call->state != CALL_OVER)
        call_leave(call, false);
}

void net_call_fail(struct net_call *call, lr_code code, const char *why)
{
    if (call->state == CALL_OVER)
        return;
    struct lr_error err;
    (void)lr_fail(&err, code, "%s: %s", call->url.origin, why);
    call_leave(call, false);
    call->callbacks.on_done(call->callbacks.arg, &err);
}

static void succeed(struct net_call *call)
{
    /* After a request that was not sent completely the connection cannot be reused. */
    bool keep =
        call->head.keep_alive && call->body_ended && net_conn_queued(&call->conn->conn) == 0;
    call_leave(call, keep);
    call->callbacks.on_done(call->callbacks.arg, NULL);
}

/* ---- sending ---- */

static void wait_for_answer(struct net_call *call)
{
    if (call->state == CALL_HEAD && call->body_ended && net_conn_queued(&call->conn->conn) == 0)
        net_conn_set_deadline(&call->conn->conn, call->response_timeout_ms);
}

void net_call_connected(struct net_call *call)
{
    struct net_conn *conn = &call->conn->conn;
    net_client_dial_cancel(call);
    call->state = CALL_HEAD;
    call->sent_mark = conn->sent_total + conn->queued_total;
    struct lr_str request = lr_buf_str(&call->request);
    net_conn_write(conn, &request, 1);
    if (call->stream_body)
        lr_buf_free(&call->request); /* it cannot be sent again */
    wait_for_answer(call);
}

static bool is_idempotent(const char *method)
{
    static const char *const safe[] = {"GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE"};
    for (size_t i = 0; i < sizeof(safe) / sizeof(safe[0]); i++) {
        if (strcmp(method, safe[i]) == 0)
            return true;
    }
    return false;
}

/* A pooled connection may die between two calls.  The request is sent a second time if the
 * server cannot have acted on it or if acting twice does no harm. */
static bool retry(struct net_call *call)
{
    struct client_conn *cc = call->conn;
    if (call->state != CALL_HEAD || !cc->is_reused || call->was_retried || call->got_bytes ||
        call->stream_body)
        return false;
    bool was_sent = cc->conn.sent_total + cc->conn.queued_total != call->sent_mark;
    if (was_sent && !is_idempotent(call->method))
        return false;
    call->was_retried = true;
    net_client_conn_release(cc, false);
    net_client_dial(call);
    return true;
}

static bool is_upgraded(const struct net_call *call)
{
    return call->state == CALL_BODY && call->head.status == 101;
}

size_t net_call_queued(const struct net_call *call)
{
    return call->conn != NULL ? net_conn_queued(&call->conn->conn) : 0;
}

static lr_code write_raw(struct net_call *call, struct lr_str bytes)
{
    if (call->conn->conn.broken != 0)
        return LR_CANCELLED;
    if (net_call_queued(call) + bytes.len > call->max_send_bytes)
        return LR_TOO_LARGE;
    net_conn_write(&call->conn->conn, &bytes, 1);
    return LR_OK;
}

lr_code net_call_write(struct net_call *call, struct lr_str bytes)
{
    if (is_upgraded(call))
        return bytes.len != 0 ? write_raw(call, bytes) : LR_OK;
    if (call->state == CALL_OVER || call->body_ended)
        return LR_CANCELLED;
    if (bytes.len == 0)
        return LR_OK;
    bool is_connected = call->state == CALL_HEAD || call->state == CALL_BODY;
    size_t queued = is_connected ? net_conn_queued(&call->conn->conn) : call->request.len;
    if (is_connected && call->conn->conn.broken != 0)
        return LR_CANCELLED;
    if (queued + bytes.len > call->max_send_bytes)
        return LR_TOO_LARGE;
    char size[24];
    int len = snprintf(size, sizeof(size), "%zx\r\n", bytes.len);
    struct lr_str parts[3] = {{size, (size_t)len}, bytes, LR_STR_LIT("\r\n")};
    if (is_connected) {
        net_conn_write(&call->conn->conn, parts, 3);
        return LR_OK;
    }
    for (size_t i = 0; i < 3; i++)
        lr_buf_add_str(&call->request, parts[i]);
    return LR_OK;
}

void net_call_end_body(struct net_call *call)
{
    if (call->state == CALL_OVER || call->body_ended)
        return;
    call->body_ended = true;
    struct lr_str last = LR_STR_LIT("0\r\n\r\n");
    if (call->state != CALL_HEAD && call->state != CALL_BODY) {
        lr_buf_add_str(&call->request, last);
        return;
    }
    net_conn_write(&call->conn->conn, &last, 1);
    wait_for_answer(call);
}

void net_call_on_drain(struct net_call *call)
{
    wait_for_answer(call);
    if (call->state != CALL_CONNECTING && (!call->body_ended || is_upgraded(call)) &&
        call->callbacks.on_drain != NULL)
        call->callbacks.on_drain(call->callbacks.arg);
}

/* ---- reading ---- */

static void watch_idle(struct net_call *call)
{
    net_conn_set_deadline(&call->conn->conn, call->is_paused ? 0 : call->idle_timeout_ms);
}

static void begin_answer(struct net_call *call, struct lr_str block)
{
    struct lr_error err;
    lr_code code = net_head_parse_response(&call->arena, block, call->scan.line_count,
                                           call->method, &call->head, &err);
    call->scan = (struct net_head_scan){0};
    if (code != LR_OK) {
        net_call_fail(call, code, err.text);
        return;
    }
    if (call->head.status == 101 && call->wants_upgrade) {
        call->head.body = NET_BODY_UNTIL_CLOSE;
        call->head.keep_alive = false;
    } else if (call->head.status == 101) {
        net_call_fail(call, LR_UPSTREAM, "the server changed to another protocol unasked");
        return;
    }
    if (call->head.status < 200 &&
        call->head.status !=
            101) { /* 100 Continue and hints: the final answer is still to come */
        lr_arena_free(&call->arena);
        return;
    }
    if (call->head.body == NET_BODY_LENGTH && call->head.length > call->max_response_bytes) {
        char why[128];
        (void)snprintf(why, sizeof(why),
                       "the answer has %" PRIu64 " bytes; the limit is %" PRIu64,
                       call->head.length, call->max_response_bytes);
        net_call_fail(call, LR_TOO_LARGE, why);
        return;
    }
    call->state = CALL_BODY;
    lr_buf_free(&call->request);
    net_body_init(&call->body, call->head.body, call->head.length);
    watch_idle(call);
    if (call->callbacks.on_headers != NULL)
        call->callbacks.on_headers(call->callbacks.arg, call->head.status, call->head.headers);
}

static bool consume_head(struct net_call *call, struct lr_str *input)
{
    struct lr_error err;
    enum net_head_result result = net_head_scan(&call->scan, *input, &err);
    if (result == NET_HEAD_BAD) {
        net_call_fail(call, LR_UPSTREAM, err.text);
        return false;
    }
    if (call->scan.at > MAX_HEAD) {
        net_call_fail(call, LR_TOO_LARGE, "the answer's head is larger than 32 KB");
        return false;
    }
    if (result == NET_HEAD_MORE)
        return false;
    struct lr_str block = lr_str_sub(*input, 0, call->scan.at);
    *input = lr_str_sub(*input, call->scan.at, input->len);
    begin_answer(call, block);
    return true;
}

static bool consume_body(struct net_call *call, struct lr_str *input)
{
    struct lr_error err;
    struct lr_str data;
    switch (net_body_next(&call->body, input, &data, &err)) {
    case NET_BODY_MORE:
        return false;
    case NET_BODY_BAD:
        net_call_fail(call, LR_UPSTREAM, err.text);
        return false;
    case NET_BODY_END:
        if (input->len != 0) /* the server sent more than it announced */
            call->head.keep_alive = false;
        succeed(call);
        return false;
    case NET_BODY_DATA:
        break;
    }
    if (call->body.total > call->max_response_bytes) {
        char why[128];
        (void)snprintf(why, sizeof(why),
                       "the answer is larger than the limit of %" PRIu64 " bytes",
                       call->max_response_bytes);
        net_call_fail(call, LR_TOO_LARGE, why);
        return false;
    }
    watch_idle(call);
    if (call->callbacks.on_body != NULL)
        call->callbacks.on_body(call->callbacks.arg, data);
    return true;
}

static struct lr_str process(struct net_call *call, struct lr_str input)
{
    bool goes_on = true;
    while (goes_on) {
        if (call->state == CALL_HEAD)
            goes_on = input.len != 0 && consume_head(call, &input);
        else if (call->state == CALL_BODY && !call->is_paused)
            goes_on = consume_body(call, &input);
        else
            goes_on = false;
    }
    return input;
}

/* Processes bytes that follow the kept ones, and keeps what cannot be used yet.  The kept bytes
 * are moved out first, because callbacks may change the buffer. */
static void use(struct net_call *call, struct lr_str bytes)
{
    struct lr_buf kept = call->in;
    lr_buf_init(&call->in, kept.limit);
    if (kept.len != 0) {
        lr_buf_add_str(&kept, bytes);
        bytes = lr_buf_str(&kept);
    }
    struct lr_str rest = process(call, bytes);
    if (call->state != CALL_OVER) {
        lr_buf_add_str(&call->in, rest);
        net_conn_read(&call->conn->conn, !call->is_paused || call->state != CALL_BODY);
    }
    lr_buf_free(&kept);
}

void net_call_on_data(struct net_call *call, struct lr_str bytes)
{
    call->got_bytes = true;
    use(call, bytes);
}

void net_call_on_end(struct net_call *call, const struct lr_error *err)
{
    if (retry(call))
        return;
    if (call->state == CALL_BODY && call->head.body == NET_BODY_UNTIL_CLOSE && err == NULL &&
        call->in.len == 0) {
        succeed(call);
        return;
    }
    if (err != NULL)
        net_call_fail(call, err->code, err->text);
    else if (call->state == CALL_BODY)
        net_call_fail(call, LR_UPSTREAM, "the connection ended in the middle of the answer");
    else
        net_call_fail(call, LR_UPSTREAM, "the connection was closed before an answer came");
}

void net_call_on_deadline(struct net_call *call)
{
    char why[128];
    if (call->state == CALL_HEAD)
        (void)snprintf(why, sizeof(why), "no answer within %u ms", call->response_timeout_ms);
    else
        (void)snprintf(why, sizeof(why), "no byte of the answer for %u ms",
                       call->idle_timeout_ms);
    net_call_fail(call, LR_TIMEOUT, why);
}

/* ---- back-pressure ---- */

void net_call_pause(struct net_call *call)
{
    if (call->state == CALL_OVER || call->is_paused)
        return;
    call->is_paused = true;
    if (call->state == CALL_BODY) {
        net_conn_read(&call->conn->conn, false);
        watch_idle(call);
    }
}

void net_call_resume(struct net_call *call)
{
    if (call->state == CALL_OVER || !call->is_paused)
        return;
    call->is_paused = false;
    if (call->state != CALL_BODY)
        return;
    watch_idle(call);
    net_task_queue(call->client->loop, &call->go_on);
}

/* ---- starting ---- */

static void use_connection(struct net_call *call, struct client_conn *cc)
{
    cc->call = call;
    call->conn = cc;
    net_call_connected(call);
}

static void on_go_on(void *arg)
{
    struct net_call *call = arg;
    if (call->state == CALL_STARTING) {
        struct client_conn *cc = net_client_take_idle(call->client, call->url.origin);
        if (cc == NULL) {
            net_client_dial(call);
            return;
        }
        use_connection(call, cc);
    } else if (call->state == CALL_BODY && !call->is_paused) {
        use(call, lr_str("", 0));
    }
}

static bool call_is_ours(struct lr_str name)
{
    static const char *const names[] = {"host",       "content-length", "transfer-encoding",
                                        "connection", "content-type",   "upgrade"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (lr_str_eq_nocase(name, lr_str_z(names[i])))
            return true;
    }
    return false;
}

static lr_code put_head(struct net_call *call, const struct net_call_config *config,
                        struct lr_error *err)
{
    struct lr_buf *out = &call->request;
    lr_buf_add_z(out, call->method);
    lr_buf_add_char(out, ' ');
    lr_buf_add_str(out, call->url.target);
    lr_buf_add_z(out, " HTTP/1.1\r\nHost: ");
    lr_buf_add_z(out, call->url.authority);
    for (size_t i = 0; i < config->header_count; i++) {
        struct net_header header = config->headers[i];
        if (!net_header_name_ok(header.name) || call_is_ours(header.name) ||
            !net_header_value_ok(header.value))
            return lr_fail(err, LR_INVALID_ARGUMENT, "header \"" LR_STR_FMT "\" cannot be sent",
                           LR_STR_ARG(lr_str_sub(header.name, 0, 64)));
        lr_buf_add_z(out, "\r\n");
        lr_buf_add_str(out, header.name);
        lr_buf_add_z(out, ": ");
        lr_buf_add_str(out, header.value);
    }
    if (config->bearer != NULL) {
        if (!net_header_value_ok(lr_str_z(config->bearer)))
            return lr_fail(err, LR_INVALID_ARGUMENT, "the bearer token cannot be sent");
        lr_buf_addf(out, "\r\nAuthorization: Bearer %s", config->bearer);
    }
    if (config->content_type != NULL) {
        if (!net_header_value_ok(lr_str_z(config->content_type)))
            return lr_fail(err, LR_INVALID_ARGUMENT, "the content type cannot be sent");
        lr_buf_add_z(out, "\r\nContent-Type: ");
        lr_buf_add_z(out, config->content_type);
    }
    if (config->upgrade != NULL) {
        if (!net_header_value_ok(lr_str_z(config->upgrade)))
            return lr_fail(err, LR_INVALID_ARGUMENT, "the protocol's name cannot be sent");
        lr_buf_add_z(out, "\r\nConnection: Upgrade\r\nUpgrade: ");
        lr_buf_add_z(out, config->upgrade);
    }
    if (config->stream_body)
        lr_buf_add_z(out, "\r\nTransfer-Encoding: chunked");
    else if (config->body.len != 0 || strcmp(call->method, "POST") == 0 ||
             strcmp(call->method, "PUT") == 0)
        lr_buf_addf(out, "\r\nContent-Length: %zu", config->body.len);
    lr_buf_add_z(out, "\r\n\r\n");
    lr_buf_add_str(out, config->body);
    if (out->failed)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request of %zu bytes",
                       config->body.len);
    return LR_OK;
}

static lr_code call_prepare(struct net_call *call, const struct net_call_config *config,
                            struct lr_error *err)
{
    const char *method = config->method;
    if (method == NULL)
        method = config->body.len != 0 || config->stream_body ? "POST" : "GET";
    if (!net_header_name_ok(lr_str_z(method)) || strlen(method) >= sizeof(call->method) ||
        strcmp(method, "CONNECT") == 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "method \"%s\" cannot be sent", method);
    (void)snprintf(call->method, sizeof(call->method), "%s", method);
    lr_code code = net_url_parse(config->url, &call->url, err);
    if (code == LR_OK)
        code = put_head(call, config, err);
    return code;
}

lr_code net_call_start(struct net_client *client, const struct net_call_config *config,
                       struct net_call **out, struct lr_error *err)
{
    *out = NULL;
    struct net_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a call");
    lr_buf_init(&call->request, SIZE_MAX / 2);
    lr_buf_init(&call->in, MAX_HEAD + 4 * NET_READ_BYTES);
    lr_arena_init(&call->arena, 4 * MAX_HEAD);
    lr_code code = call_prepare(call, config, err);
    if (code != LR_OK) {
        call_bury(call);
        return code;
    }
    call->client = client;
    call->callbacks = config->callbacks;
    call->may_connect = config->may_connect;
    call->may_connect_arg = config->may_connect_arg;
    call->stream_body = config->stream_body;
    call->wants_upgrade = config->upgrade != NULL;
    call->body_ended = !config->stream_body;
    call->max_response_bytes =
        config->max_response_bytes != 0 ? config->max_response_bytes : UINT64_MAX;
    call->max_send_bytes = config->max_send_bytes != 0 ? config->max_send_bytes : 1 << 20;
    call->connect_timeout_ms =
        config->connect_timeout_ms != 0 ? config->connect_timeout_ms : 10000;
    call->response_timeout_ms =
        config->response_timeout_ms != 0 ? config->response_timeout_ms : 60000;
    call->idle_timeout_ms = config->idle_timeout_ms != 0 ? config->idle_timeout_ms : 60000;
    net_task_init(&call->go_on, on_go_on, call);
    call->next = client->calls;
    if (call->next != NULL)
        call->next->prev = call;
    client->calls = call;
    client->stats.calls++;
    /* Sending runs no callback, so it can happen at once; connecting may run callbacks. */
    struct client_conn *cc = net_client_take_idle(client, call->url.origin);
    if (cc != NULL)
        use_connection(call, cc);
    else
        net_task_queue(client->loop, &call->go_on);
    *out = call;
    return LR_OK;
}
