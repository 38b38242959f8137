/* net/conn.c - a TCP connection on libuv: reading, queued writing, deadlines, TLS.
 *
 * One libuv timer serves both the owner's deadline and the write timeout.  The timer is armed
 * lazily for the earlier of the two and moved only when it would fire too late, so a request on
 * a kept-alive connection costs no timer operation.
 */
#include "net/conn.h"

#include <errno.h>
#include <string.h>

#include "base/os/socket.h"
#include "net/burst.h"

enum { KEEPALIVE_S = 60 };

static void pump_tls(struct net_conn *conn);

/* ---- time ---- */

static void conn_on_timer(uv_timer_t *timer);

static void arm(struct net_conn *conn)
{
    uint64_t next = conn->deadline;
    if (conn->write_deadline != 0 && (next == 0 || conn->write_deadline < next))
        next = conn->write_deadline;
    if (next == 0 || conn->is_closing || (conn->timer_at != 0 && conn->timer_at <= next))
        return;
    uint64_t now = uv_now(&conn->loop->uv);
    conn->timer_at = next;
    (void)uv_timer_start(&conn->timer, conn_on_timer, next > now ? next - now : 0, 0);
}

void net_conn_set_deadline(struct net_conn *conn, uint64_t ms)
{
    conn->deadline = ms == 0 ? 0 : uv_now(&conn->loop->uv) + ms;
    arm(conn);
}

/* ---- the end ---- */

static void unwatch(struct net_conn *conn)
{
    if (!conn->is_watched)
        return;
    conn->is_watched = false;
    if (conn->peek_next != NULL)
        conn->peek_next->peek_prev = conn->peek_prev;
    if (conn->peek_prev != NULL)
        conn->peek_prev->peek_next = conn->peek_next;
    else
        conn->loop->unread = conn->peek_next;
}

static void conn_end(struct net_conn *conn, const struct lr_error *err)
{
    if (conn->is_ended || conn->is_closing)
        return;
    conn->is_ended = true;
    if (conn->is_reading) {
        conn->is_reading = false;
        (void)uv_read_stop((uv_stream_t *)&conn->tcp);
    }
    unwatch(conn);
    conn->events->on_end(conn->owner, err);
}

static void conn_break(struct net_conn *conn, int uv_code)
{
    struct lr_error err;
    if (uv_code == UV_ETIMEDOUT)
        (void)lr_fail(&err, LR_TIMEOUT, "the peer took no data for %u ms",
                      conn->write_timeout_ms);
    else
        (void)lr_fail(&err, LR_UPSTREAM, "%s", uv_strerror(uv_code));
    conn_end(conn, &err);
}

static uint64_t taken(struct net_conn *conn)
{
    return conn->queued_total - net_conn_queued(conn);
}

static void conn_on_timer(uv_timer_t *timer)
{
    struct net_conn *conn = timer->data;
    uint64_t now = uv_now(&conn->loop->uv);
    conn->timer_at = 0;
    if (conn->write_deadline != 0 && now >= conn->write_deadline) {
        if (taken(conn) == conn->taken_mark) {
            conn_break(conn, UV_ETIMEDOUT);
            return;
        }
        conn->taken_mark = taken(conn);
        conn->write_deadline = now + conn->write_timeout_ms;
    }
    if (conn->deadline != 0 && now >= conn->deadline) {
        conn->deadline = 0;
        conn->events->on_deadline(conn->owner);
    }
    arm(conn);
}

/* ---- reading ---- */

/* A socket that is not read does not report that its peer has closed, so its state is
 * polled. */
static void on_peek(uv_timer_t *timer)
{
    struct net_loop *loop = timer->data;
    struct net_conn *next;
    for (struct net_conn *conn = loop->unread; conn != NULL; conn = next) {
        next = conn->peek_next;
        uv_os_fd_t fd;
        if (uv_fileno((uv_handle_t *)&conn->tcp, &fd) == 0 &&
            lr_socket_is_over((int)(intptr_t)fd))
            conn_end(conn, NULL);
        /* on_end may have closed the next connection as well; then start over at the next
         * poll. */
        if (next != NULL && !next->is_watched)
            break;
    }
    if (loop->unread == NULL)
        (void)uv_timer_stop(&loop->peek);
}

static void conn_watch(struct net_conn *conn)
{
    if (conn->is_watched)
        return;
    struct net_loop *loop = conn->loop;
    conn->is_watched = true;
    conn->peek_prev = NULL;
    conn->peek_next = loop->unread;
    if (loop->unread != NULL)
        loop->unread->peek_prev = conn;
    loop->unread = conn;
    if (!uv_is_active((uv_handle_t *)&loop->peek))
        (void)uv_timer_start(&loop->peek, on_peek, NET_PEEK_MS, NET_PEEK_MS);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    struct net_conn *conn = handle->data;
    *buf = uv_buf_init(conn->loop->read_buffer, NET_READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t got, const uv_buf_t *buf)
{
    struct net_conn *conn = stream->data;
    if (got == 0)
        return;
    if (got == UV_EOF) {
        struct lr_error err;
        (void)lr_fail(&err, LR_UPSTREAM, "the connection ended without a TLS close");
        conn_end(conn, conn->tls != NULL ? &err : NULL);
    } else if (got < 0) {
        conn_break(conn, (int)got);
    } else if (conn->tls == NULL) {
        conn->events->on_data(conn->owner, lr_str(buf->base, (size_t)got));
    } else {
        struct lr_error err;
        if (net_tls_session_put(conn->tls, lr_str(buf->base, (size_t)got), &err) != LR_OK)
            conn_end(conn, &err);
        else
            pump_tls(conn);
    }
}

static void update_reading(struct net_conn *conn)
{
    if (!conn->is_open || conn->is_ended || conn->is_closing)
        return;
    bool wanted = conn->wants_read;
    if (conn->tls != NULL && !net_tls_session_is_up(conn->tls))
        wanted = true;
    if (wanted == conn->is_reading)
        return;
    conn->is_reading = wanted;
    if (wanted) {
        unwatch(conn);
        (void)uv_read_start((uv_stream_t *)&conn->tcp, on_alloc, on_read);
    } else {
        (void)uv_read_stop((uv_stream_t *)&conn->tcp);
        conn_watch(conn);
    }
}

void net_conn_read(struct net_conn *conn, bool wanted)
{
    if (conn->wants_read == wanted)
        return;
    conn->wants_read = wanted;
    update_reading(conn);
    if (wanted && conn->tls != NULL && conn->is_open)
        net_task_queue(conn->loop, &conn->later);
}

/* ---- writing ---- */

static void start_flight(struct net_conn *conn);

static void finish_shutdown(struct net_conn *conn)
{
    uv_os_fd_t fd;
    if (conn->is_open && uv_fileno((uv_handle_t *)&conn->tcp, &fd) == 0)
        lr_socket_end((int)(intptr_t)fd);
}

static void on_written(uv_write_t *write, int status)
{
    struct net_conn *conn = write->data;
    conn->is_writing = false;
    lr_buf_free(&conn->flying);
    if (conn->is_closing)
        return;
    if (status < 0) {
        conn_break(conn, status);
    } else if (conn->out.len != 0) {
        start_flight(conn);
    } else {
        conn->write_deadline = 0;
        if (conn->is_shutdown)
            finish_shutdown(conn);
        conn->events->on_drain(conn->owner);
    }
}

static void break_later(struct net_conn *conn, int uv_code)
{
    conn->broken = uv_code;
    net_task_queue(conn->loop, &conn->later);
}

void net_conn_fail(struct net_conn *conn)
{
    break_later(conn, UV_ENOMEM);
}

static void start_flight(struct net_conn *conn)
{
    struct lr_buf empty = conn->flying;
    conn->flying = conn->out;
    conn->out = empty;
    uv_buf_t buf = uv_buf_init(conn->flying.data, (unsigned)conn->flying.len);
    conn->write.data = conn;
    int rc = uv_write(&conn->write, (uv_stream_t *)&conn->tcp, &buf, 1, on_written);
    if (rc != 0)
        break_later(conn, rc);
    else
        conn->is_writing = true;
}

enum { MAX_PARTS = 4, JOINED_BYTES = 2048 };

/* Returns the bytes that the socket took at once, or a uv code.  Small parts are joined first:
 * one larger piece is cheaper for the system than several, by more than the copy costs
 * (bench/results/node-2026-11-15.md). */
static int try_write(struct net_conn *conn, const struct lr_str *parts, unsigned count)
{
    char joined[JOINED_BYTES];
    uv_buf_t bufs[MAX_PARTS];
    size_t len = 0;
    for (unsigned i = 0; i < count; i++)
        len += parts[i].len;
    bool is_small = count > 1 && len <= sizeof(joined);
    len = 0;
    for (unsigned i = 0; i < count; i++) {
        bufs[i] = (uv_buf_t){.base = (char *)(uintptr_t)parts[i].ptr, .len = parts[i].len};
        if (is_small)
            memcpy(joined + len, parts[i].ptr, parts[i].len);
        len += parts[i].len;
    }
    if (is_small)
        bufs[0] = (uv_buf_t){.base = joined, .len = len};
    return uv_try_write((uv_stream_t *)&conn->tcp, bufs, is_small ? 1 : count);
}

/* Handles the result of a tried write; bytes that the socket did not take are queued. */
static void after_try(struct net_conn *conn, const struct lr_str *parts, unsigned count,
                      ssize_t rc)
{
    if (rc < 0 && rc != UV_EAGAIN) {
        break_later(conn, (int)rc);
        return;
    }
    size_t sent = rc > 0 ? (size_t)rc : 0;
    conn->sent_total += sent;
    size_t before = conn->out.len;
    for (unsigned i = 0; i < count; i++) {
        size_t skip = sent < parts[i].len ? sent : parts[i].len;
        sent -= skip;
        lr_buf_add(&conn->out, parts[i].ptr + skip, parts[i].len - skip);
    }
    if (conn->out.failed) {
        break_later(conn, UV_ENOMEM);
        return;
    }
    conn->queued_total += conn->out.len - before;
    if (conn->out.len == 0)
        return;
    if (!conn->is_writing)
        start_flight(conn);
    if (conn->write_deadline == 0 && conn->write_timeout_ms != 0) {
        conn->taken_mark = taken(conn);
        conn->write_deadline = uv_now(&conn->loop->uv) + conn->write_timeout_ms;
        arm(conn);
    }
}

static void on_lent_back(void *arg, ssize_t sent, struct lr_str bytes)
{
    struct net_conn *conn = arg;
    conn->is_lent = false;
    after_try(conn, &bytes, 1, sent);
}

/* Called before using a socket that the sending thread may have. */
static void take_back(struct net_conn *conn)
{
    if (conn->is_lent)
        net_burst_settle(conn->loop->burst);
}

static bool lend(struct net_conn *conn, const struct lr_str *parts, unsigned count)
{
    uv_os_fd_t fd;
    if (conn->tls != NULL || uv_fileno((uv_handle_t *)&conn->tcp, &fd) != 0)
        return false;
    conn->is_lent =
        net_burst_send(conn->loop->burst, (int)(intptr_t)fd, parts, count, on_lent_back, conn);
    return conn->is_lent;
}

static void raw_write(struct net_conn *conn, const struct lr_str *parts, unsigned count)
{
    if (conn->is_writing || conn->out.len != 0)
        after_try(conn, parts, count, 0);
    else if (!net_burst_is_begun(conn->loop->burst) || !lend(conn, parts, count))
        after_try(conn, parts, count, try_write(conn, parts, count));
}

static void flush_tls(struct net_conn *conn)
{
    struct lr_str pending = net_tls_session_pending(conn->tls);
    if (pending.len != 0)
        raw_write(conn, &pending, 1);
    net_tls_session_taken(conn->tls);
}

void net_conn_write(struct net_conn *conn, const struct lr_str *parts, unsigned count)
{
    take_back(conn);
    if (conn->is_closing || conn->is_ended || conn->is_shutdown || conn->broken != 0)
        return;
    if (conn->tls == NULL) {
        raw_write(conn, parts, count);
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        if (parts[i].len != 0 && net_tls_session_write(conn->tls, parts[i], NULL) != LR_OK) {
            break_later(conn, UV_EPROTO);
            return;
        }
    }
    flush_tls(conn);
}

size_t net_conn_queued(struct net_conn *conn)
{
    take_back(conn);
    size_t flying =
        conn->is_writing ? uv_stream_get_write_queue_size((const uv_stream_t *)&conn->tcp) : 0;
    return conn->out.len + flying;
}

void net_conn_shutdown(struct net_conn *conn)
{
    if (conn->is_shutdown || conn->is_closing || conn->is_ended)
        return;
    if (conn->tls != NULL && net_tls_session_is_up(conn->tls)) {
        net_tls_session_close_notify(conn->tls);
        flush_tls(conn);
    }
    take_back(conn);
    conn->is_shutdown = true;
    if (!conn->is_writing && conn->out.len == 0)
        finish_shutdown(conn);
}

/* ---- TLS ---- */

static bool pump_handshake(struct net_conn *conn)
{
    struct lr_error err;
    enum net_tls_result result = net_tls_session_handshake(conn->tls, &err);
    flush_tls(conn);
    if (result == NET_TLS_FAILED || result == NET_TLS_CLOSED) {
        conn_end(conn, &err);
        return false;
    }
    if (result == NET_TLS_AGAIN)
        return false;
    conn->events->on_secure(conn->owner);
    update_reading(conn);
    return true;
}

static void pump_tls(struct net_conn *conn)
{
    if (!net_tls_session_is_up(conn->tls) && !pump_handshake(conn))
        return;
    while (conn->wants_read && !conn->is_ended && !conn->is_closing) {
        struct lr_error err;
        size_t got = 0;
        enum net_tls_result result =
            net_tls_session_read(conn->tls, conn->loop->decrypt_buffer,
                                 sizeof(conn->loop->decrypt_buffer), &got, &err);
        if (result == NET_TLS_READY)
            conn->events->on_data(conn->owner, lr_str(conn->loop->decrypt_buffer, got));
        else if (result == NET_TLS_AGAIN)
            break;
        else
            conn_end(conn, result == NET_TLS_CLOSED ? NULL : &err);
    }
    if (!conn->is_closing && !conn->is_ended && !conn->is_shutdown)
        flush_tls(conn);
}

static void on_later(void *arg)
{
    struct net_conn *conn = arg;
    if (conn->broken != 0)
        conn_break(conn, conn->broken);
    else if (conn->tls != NULL && !conn->is_ended)
        pump_tls(conn);
}

void net_conn_secure(struct net_conn *conn, struct net_tls_session *session)
{
    conn->tls = session;
}

/* ---- life ---- */

void net_conn_init(struct net_conn *conn, struct net_loop *loop,
                   const struct net_conn_events *events, void *owner, uint32_t write_timeout_ms)
{
    *conn = (struct net_conn){.loop = loop,
                              .events = events,
                              .owner = owner,
                              .write_timeout_ms = write_timeout_ms,
                              .handles_open = 2};
    (void)uv_tcp_init(&loop->uv, &conn->tcp);
    (void)uv_timer_init(&loop->uv, &conn->timer);
    conn->tcp.data = conn;
    conn->timer.data = conn;
    /* Owners limit their queues; this limit only keeps the length within libuv's 32 bits. */
    lr_buf_init(&conn->out, (size_t)1 << 30);
    lr_buf_init(&conn->flying, (size_t)1 << 30);
    net_task_init(&conn->later, on_later, conn);
}

int net_conn_open(struct net_conn *conn, int fd)
{
    int rc = uv_tcp_open(&conn->tcp, fd);
    if (rc != 0)
        lr_socket_close(fd);
    return rc;
}

void net_conn_established(struct net_conn *conn)
{
    conn->is_open = true;
    (void)uv_tcp_nodelay(&conn->tcp, 1);
    /* A peer that loses its network sends neither FIN nor reset. */
    (void)uv_tcp_keepalive(&conn->tcp, 1, KEEPALIVE_S);
    if (conn->tls != NULL)
        net_task_queue(conn->loop, &conn->later); /* the client speaks first */
    update_reading(conn);
}

static void on_handle_closed(uv_handle_t *handle)
{
    struct net_conn *conn = handle->data;
    if (--conn->handles_open != 0)
        return;
    net_tls_session_destroy(conn->tls);
    lr_buf_free(&conn->out);
    lr_buf_free(&conn->flying);
    conn->events->on_closed(conn->owner);
}

void net_conn_close(struct net_conn *conn)
{
    if (conn->is_closing)
        return;
    take_back(conn);
    unwatch(conn);
    conn->is_closing = true;
    conn->is_reading = false;
    net_task_cancel(conn->loop, &conn->later);
    uv_close((uv_handle_t *)&conn->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&conn->timer, on_handle_closed);
}
