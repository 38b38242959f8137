/* net/response.c - answers: at once, as a stream, as an error.
 *
 * Every head is built here.  A stream's head waits for the first write, so that both leave in
 * one segment; after that each write leaves at once.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/errors.h"
#include "base/json.h"
#include "net/server_internal.h"

enum { LENGTH_NONE = -1, LENGTH_CHUNKED = -2 };

static bool has_no_body(int status)
{
    return (status < 200 && status != 101) || status == 204 || status == 304;
}

/* False: no memory, and nothing may be sent, because a client would read a body without a head
 * as an answer. */
static bool put_head(struct lr_buf *out, struct net_loop *loop, int status,
                     const char *content_type, int64_t length, const char *connection,
                     const struct lr_buf *extra)
{
    char line[96];
    int len = snprintf(line, sizeof(line), "HTTP/1.1 %d %s\r\nDate: ", status,
                       net_status_text(status));
    lr_buf_add(out, line, (size_t)len);
    lr_buf_add_z(out, net_loop_date(loop));
    if (content_type != NULL) {
        lr_buf_add_z(out, "\r\nContent-Type: ");
        lr_buf_add_z(out, content_type);
    }
    if (length >= 0) {
        len = snprintf(line, sizeof(line), "\r\nContent-Length: %" PRId64, length);
        lr_buf_add(out, line, (size_t)len);
    } else if (length == LENGTH_CHUNKED) {
        lr_buf_add_z(out, "\r\nTransfer-Encoding: chunked");
    }
    if (connection != NULL) {
        lr_buf_add_z(out, "\r\nConnection: ");
        lr_buf_add_z(out, connection);
    }
    lr_buf_add_z(out, "\r\n");
    if (extra != NULL)
        lr_buf_add_str(out, lr_buf_str(extra));
    lr_buf_add_z(out, "\r\n");
    /* An answer without a header that belongs to it may mean something else. */
    return !out->failed && (extra == NULL || !extra->failed);
}

/* Decides, when the head is built, whether the connection is kept: the head announces it. */
static const char *settle_connection(struct net_request *req)
{
    if (req->state == REQUEST_BODY || req->part->is_stopping ||
        (req->state == REQUEST_HEAD && req->head.body != NET_BODY_NONE))
        req->keeps_alive = false;
    if (!req->keeps_alive)
        return "close";
    return req->head.minor == 0 ? "keep-alive" : NULL;
}

/* The handler has ended the request: continues or closes the connection. */
static void response_finish(struct net_request *req, bool is_cut)
{
    struct server_conn *sc = req->conn;
    bool keeps_alive = req->keeps_alive;
    if (sc != NULL) {
        net_server_conn_detach(sc);
        if (is_cut)
            net_server_conn_close(sc);
        else
            net_server_conn_answered(sc, keeps_alive);
    }
    net_server_request_end(req);
}

/* ---- headers of the answer ---- */

static bool response_is_ours(struct lr_str name)
{
    static const char *const names[] = {"content-length", "transfer-encoding", "connection",
                                        "date", "content-type"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (lr_str_eq_nocase(name, lr_str_z(names[i])))
            return true;
    }
    return false;
}

void net_response_header(struct net_request *req, const char *name, struct lr_str value)
{
    struct lr_str field = lr_str_z(name);
    if (req->response != RESPONSE_NONE || !net_header_name_ok(field) || response_is_ours(field))
        return;
    lr_buf_add_str(&req->extra, field);
    lr_buf_add_z(&req->extra, ": ");
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.ptr[i];
        lr_buf_add_char(&req->extra, (c < 0x20 && c != '\t') || c == 0x7f ? '?' : (char)c);
    }
    lr_buf_add_z(&req->extra, "\r\n");
}

void net_response_ignored(struct net_request *req, const char *names)
{
    if (names[0] != '\0')
        net_response_header(req, "X-LLM-Router-Ignored", lr_str_z(names));
}

void net_response_retry_after(struct net_request *req, uint32_t seconds)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%u", seconds);
    if (seconds != 0)
        net_response_header(req, "Retry-After", lr_str_z(text));
}

static bool has_extra(const struct net_request *req, const char *name)
{
    struct lr_str rest = lr_buf_str(&req->extra);
    struct lr_str line;
    while (lr_str_split(&rest, '\n', &line)) {
        size_t colon = lr_str_find_char(line, ':');
        if (colon != LR_STR_NONE &&
            lr_str_eq_nocase(lr_str_sub(line, 0, colon), lr_str_z(name)))
            return true;
    }
    return false;
}

/* ---- at once ---- */

static void respond(struct net_request *req, int status, const char *content_type,
                    struct lr_str body)
{
    req->status = status;
    if (req->conn != NULL) {
        struct net_loop *loop = req->part->loop;
        bool bare = has_no_body(status);
        lr_buf_clear(&loop->scratch);
        if (!put_head(&loop->scratch, loop, status, content_type,
                      bare ? LENGTH_NONE : (int64_t)body.len, settle_connection(req),
                      &req->extra)) {
            response_finish(req, true);
            return;
        }
        struct lr_str parts[2] = {lr_buf_str(&loop->scratch), body};
        bool sends_body = body.len != 0 && !bare && !req->is_head_method;
        net_conn_write(&req->conn->conn, parts, sends_body ? 2 : 1);
        req->bytes_sent = sends_body ? body.len : 0;
    }
    response_finish(req, false);
}

void net_respond(struct net_request *req, int status, const char *content_type,
                 struct lr_str body)
{
    if (req->response == RESPONSE_NONE)
        respond(req, status, content_type, body);
    else if (req->response == RESPONSE_BEGUN)
        net_stream_abort(req); /* two answers to one request: cut the connection, so that the
                                  client does not trust it */
}

/* path: of the request; only errors of /v0 have an id in their body. */
static void put_error_body(struct lr_buf *out, struct lr_str path, const struct lr_error *err)
{
    char word[LR_CODE_WORD], id[LR_ERROR_WORD];
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_object(&w, "error");
    lr_json_member_z(&w, "message", err->text);
    lr_json_member_z(&w, "type", lr_code_type(err->code));
    lr_json_member_null(&w, "param");
    lr_json_member_z(&w, "code", lr_code_word(err->code, word));
    if (lr_str_starts(path, "/v0/"))
        lr_json_member_z(&w, "id", lr_error_word(err, id));
    lr_json_end_object(&w);
    lr_json_end_object(&w);
}

void net_respond_error_body(struct net_request *req, const struct lr_error *err,
                            struct lr_str body)
{
    char id[LR_ERROR_WORD];
    int status = lr_code_http(err->code);
    net_response_header(req, NET_ERROR_HEADER, lr_str_z(lr_error_word(err, id)));
    if ((status == 429 || status == 503) && !has_extra(req, "retry-after"))
        net_response_header(req, "Retry-After", LR_STR_LIT("1"));
    net_respond(req, status, "application/json", body);
}

void net_respond_error(struct net_request *req, const struct lr_error *err)
{
    struct lr_buf body;
    lr_buf_init(&body, 8192);
    put_error_body(&body, net_request_path(req), err);
    net_respond_error_body(req, err, lr_buf_str(&body));
    lr_buf_free(&body);
}

void net_refuse(struct net_request *req, lr_code code, const char *fmt, ...)
{
    struct lr_error err = {.code = code};
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(err.text, sizeof(err.text), fmt, args);
    va_end(args);
    net_respond_error(req, &err);
}

void net_server_send_refusal(struct server_conn *sc, int status, const struct lr_error *err,
                             struct lr_str path, bool is_head_method)
{
    char id[LR_ERROR_WORD];
    struct lr_buf body, extra;
    lr_buf_init(&body, 8192);
    lr_buf_init(&extra, 256);
    put_error_body(&body, path, err);
    lr_buf_addf(&extra, NET_ERROR_HEADER ": %s\r\n", lr_error_word(err, id));
    struct net_loop *loop = sc->part->loop;
    lr_buf_clear(&loop->scratch);
    struct lr_str parts[2] = {{0}, lr_buf_str(&body)};
    if (put_head(&loop->scratch, loop, status, "application/json", (int64_t)body.len, "close",
                 &extra)) {
        parts[0] = lr_buf_str(&loop->scratch);
        net_conn_write(&sc->conn, parts, is_head_method || body.len == 0 ? 1 : 2);
    }
    lr_buf_free(&body);
    lr_buf_free(&extra);
}

/* ---- as a stream ---- */

void net_stream_begin(struct net_request *req, int status, const char *content_type)
{
    if (req->response != RESPONSE_NONE)
        return;
    req->response = RESPONSE_BEGUN;
    req->status = status;
    if (req->conn == NULL)
        return;
    /* HTTP/1.0 has no chunks: closing the connection ends the answer. */
    req->is_chunked = req->head.minor >= 1 && !has_no_body(status);
    if (!req->is_chunked && !has_no_body(status))
        req->keeps_alive = false;
    struct net_loop *loop = req->part->loop;
    lr_buf_clear(&loop->scratch);
    if (!put_head(&loop->scratch, loop, status, content_type,
                  req->is_chunked ? LENGTH_CHUNKED : LENGTH_NONE, settle_connection(req),
                  &req->extra)) {
        net_conn_fail(&req->conn->conn);
        return;
    }
    const char *copy = lr_arena_copy(&req->arena, lr_buf_str(&loop->scratch));
    if (copy != NULL)
        req->pending_head = lr_str(copy, loop->scratch.len);
    else
        net_conn_write(&req->conn->conn,
                       &(struct lr_str){loop->scratch.data, loop->scratch.len}, 1);
}

void net_request_upgrade(struct net_request *req, const char *protocol,
                         const struct net_body_sink *sink)
{
    struct net_loop *loop = req->part->loop;
    if (req->response != RESPONSE_NONE || req->state != REQUEST_RUNNING)
        return;
    net_response_header(req, "Upgrade", lr_str_z(protocol));
    req->response = RESPONSE_BEGUN;
    req->status = 101;
    req->keeps_alive = false;
    req->is_upgraded = true;
    req->is_streamed = true;
    req->sink = *sink;
    req->body_limit = UINT64_MAX;
    req->state = REQUEST_BODY;
    net_body_init(&req->body, NET_BODY_UNTIL_CLOSE, 0);
    if (req->conn == NULL)
        return;
    lr_buf_clear(&loop->scratch);
    if (put_head(&loop->scratch, loop, 101, NULL, LENGTH_NONE, "Upgrade", &req->extra))
        net_conn_write(&req->conn->conn,
                       &(struct lr_str){loop->scratch.data, loop->scratch.len}, 1);
    else
        net_conn_fail(&req->conn->conn);
    net_task_queue(loop, &req->conn->go_on); /* processes bytes that came behind the head */
}

void net_stream_flush(struct net_request *req)
{
    if (req->conn == NULL || req->pending_head.len == 0)
        return;
    net_conn_write(&req->conn->conn, &req->pending_head, 1);
    req->pending_head = lr_str("", 0);
}

/* "1f\r\n" */
static struct lr_str put_chunk_size(char out[20], size_t size)
{
    char *at = out + 20;
    *--at = '\n';
    *--at = '\r';
    do
        *--at = "0123456789abcdef"[size & 15];
    while ((size >>= 4) != 0);
    return lr_str(at, (size_t)(out + 20 - at));
}

/* Writes one chunk, or plain bytes for HTTP/1.0; `after` follows a chunk.  `room`: bytes that
 * the queue may have before. */
static lr_code response_write_piece(struct net_request *req, struct lr_str bytes,
                                    struct lr_str after, uint64_t room)
{
    /* A failed write is reported by on_gone in the next turn; a handler that writes in a loop
     * must learn of it at once. */
    if (req->conn == NULL || req->response != RESPONSE_BEGUN || req->conn->conn.broken != 0)
        return LR_CANCELLED;
    if (bytes.len == 0)
        return LR_OK;
    if (req->is_head_method || has_no_body(req->status)) {
        net_stream_flush(req);
        return LR_OK;
    }
    if (net_conn_queued(&req->conn->conn) > room)
        return LR_TOO_LARGE;
    struct lr_str parts[4];
    unsigned count = 0;
    if (req->pending_head.len != 0)
        parts[count++] = req->pending_head;
    char size[20];
    if (req->is_chunked)
        parts[count++] = put_chunk_size(size, bytes.len);
    parts[count++] = bytes;
    if (req->is_chunked)
        parts[count++] = after;
    net_conn_write(&req->conn->conn, parts, count);
    req->pending_head = lr_str("", 0);
    req->bytes_sent += bytes.len;
    return LR_OK;
}

lr_code net_stream_write(struct net_request *req, struct lr_str bytes)
{
    uint64_t most = req->part->server->config.max_stream_bytes;
    return bytes.len > most
               ? LR_TOO_LARGE
               : response_write_piece(req, bytes, LR_STR_LIT("\r\n"), most - bytes.len);
}

lr_code net_stream_write_made(struct net_request *req, struct lr_str bytes)
{
    return response_write_piece(req, bytes, LR_STR_LIT("\r\n"),
                                req->part->server->config.max_stream_bytes);
}

lr_code net_stream_finish(struct net_request *req, struct lr_str bytes)
{
    bool in_one = req->is_chunked && !req->is_head_method && bytes.len != 0;
    lr_code code = response_write_piece(
        req, bytes, in_one ? LR_STR_LIT("\r\n0\r\n\r\n") : LR_STR_LIT("\r\n"), UINT64_MAX);
    if (code == LR_OK && in_one)
        response_finish(req, false);
    else
        net_stream_end(req);
    return code;
}

size_t net_stream_queued(const struct net_request *req)
{
    return req->conn != NULL ? net_conn_queued(&req->conn->conn) : req->unread;
}

void net_stream_on_drain(struct net_request *req, void (*fn)(void *arg), void *arg)
{
    req->on_drain = fn;
    req->on_drain_arg = arg;
}

void net_stream_end(struct net_request *req)
{
    if (req->response == RESPONSE_ENDED)
        return;
    if (req->response == RESPONSE_NONE) { /* no answer was begun: send an empty one */
        respond(req, 204, NULL, lr_str("", 0));
        return;
    }
    if (req->conn != NULL) {
        struct lr_str parts[2];
        unsigned count = 0;
        if (req->pending_head.len != 0)
            parts[count++] = req->pending_head;
        if (req->is_chunked && !req->is_head_method)
            parts[count++] = LR_STR_LIT("0\r\n\r\n");
        if (count != 0)
            net_conn_write(&req->conn->conn, parts, count);
    }
    response_finish(req, false);
}

void net_stream_abort(struct net_request *req)
{
    if (req->response != RESPONSE_ENDED)
        response_finish(req, true);
}

bool net_response_begun(const struct net_request *req)
{
    return req->response != RESPONSE_NONE;
}
