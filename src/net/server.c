/* net/server.c - accepting on every loop, stopping.
 *
 * All loops poll the same listening sockets.  The loop that accepts a connection gives it to
 * the loop with the fewest connections, so that a burst accepted by one loop is spread over all
 * cores. Stopping resets no connection: the last part to stop polling accepts the waiting
 * connections and closes the listening socket; only then are idle connections closed, with a
 * FIN and read to their end.  Each part with connections or requests and each connection on its
 * way to another loop holds the server; releasing the last hold reports the end.
 *
 * A server whose sockets another process takes over leaves the waiting connections to that
 * process.  Closing an idle connection may cross its client's next request, which would be
 * lost.  So a leaving server answers the next request of an idle connection with Connection:
 * close, and closes only connections that have been idle for a while.
 */
#include "net/server.h"

#include <errno.h>
#include <stddef.h>

#include "base/log.h"
#include "base/os/socket.h"
#include "net/server_internal.h"
#include "net/tls_internal.h"

enum {
    ACCEPTS_PER_TURN = 16,
    PAUSE_MS = 100,
    LAST_ACCEPTS = 4096, /* waiting connections that a stopping server takes */
    WARN_EVERY_MS = 1000,
    FIRST_BYTE_MS = 500, /* how long a stop waits for a first request on a new connection */
    QUIET_MS = 2000,     /* a leaving server closes a connection that was idle for so long */
};

/* ---- accepting ---- */

struct arrival {
    struct server_part *part;
    struct net_peer *peer;
    int fd;
    bool is_unix;
    char remote[46];
};

static void server_release(struct net_server *server);

static void server_settle(void *arg)
{
    struct arrival *arrival = arg;
    struct server_part *part = arrival->part;
    if (part->is_cut || !net_server_conn_create(part, arrival->fd, arrival->is_unix,
                                                arrival->remote, arrival->peer)) {
        struct net_seat seat = {.peer = arrival->peer};
        lr_socket_close(arrival->fd);
        (void)net_seat_leave(&part->server->seats, &seat);
        atomic_fetch_sub(&part->load, 1);
        atomic_fetch_sub(&part->server->connections, 1);
        net_server_part_check_stopped(part);
    }
    free(arrival);
}

static void settle_elsewhere(void *arg)
{
    struct net_server *server = ((struct arrival *)arg)->part->server;
    server_settle(arg);
    server_release(server);
}

static struct server_part *least_loaded(struct server_part *here)
{
    struct server_part *best = here;
    for (unsigned i = 0; i < here->server->part_count; i++) {
        struct server_part *part = &here->server->parts[i];
        if (atomic_load(&part->load) < atomic_load(&best->load))
            best = part;
    }
    return best;
}

static void remote_text(const struct sockaddr_storage *address, char out[46])
{
    const void *bytes = address->ss_family == AF_INET6
                            ? (const void *)&((const struct sockaddr_in6 *)address)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)address)->sin_addr;
    out[0] = '\0';
    (void)inet_ntop(address->ss_family, bytes, out, 46);
    /* A dual-stack socket writes 127.0.0.1 as ::ffff:127.0.0.1. */
    if (strncmp(out, "::ffff:", 7) == 0 && strchr(out, '.') != NULL)
        (void)memmove(out, out + 7, strlen(out + 7) + 1);
}

static void server_make_room(void *arg)
{
    struct server_conn *sc = arg;
    struct net_server *server = sc->part->server;
    net_server_conn_make_room(sc);
    server_release(server);
}

/* Tells a connection, on its own loop, that its seat is lost.  Until then neither the
 * connection nor the server is freed. */
static void call_away(struct net_server *server, struct net_seat *seat)
{
    if (seat == NULL)
        return;
    struct server_conn *sc =
        (struct server_conn *)(void *)((char *)seat - offsetof(struct server_conn, seat));
    atomic_fetch_add(&server->holds, 1);
    net_loop_post(sc->part->loop, server_make_room, sc);
}

/* Limited in rate, so that a flood of connections does not fill the log. */
static void warn_full(struct server_part *here, const char *setting, uint32_t limit,
                      const char *remote)
{
    uint64_t now = net_loop_now_ms(here->loop);
    if (now - here->warned_ms >= WARN_EVERY_MS)
        lr_log_warn(NULL, "net.refuse reason=%s limit=%u from=%s", setting, limit, remote);
    here->warned_ms = now;
}

/* A client of a Unix socket counts as 127.0.0.1, in limits, logs and --trusted-proxy. */
static bool replace_unix(struct sockaddr_storage *address)
{
    if (!lr_socket_is_local(address))
        return false;
    *(struct sockaddr_in *)address =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return true;
}

static void welcome(struct server_part *here, int fd, struct sockaddr_storage *address)
{
    struct net_server *server = here->server;
    bool is_unix = replace_unix(address);
    struct net_seat *lost;
    struct net_peer *peer;
    char remote[46];
    remote_text(address, remote);
    bool is_proxy =
        server->config.proxies != NULL && net_cidrs_have(server->config.proxies, remote);
    enum net_seats_answer answer =
        net_seats_take(&server->seats, address, is_proxy, &peer, &lost);
    call_away(server, lost);
    if (answer != NET_SEATS_TAKEN) {
        lr_socket_close(fd);
        if (answer == NET_SEATS_FULL)
            warn_full(here, "max-connections", server->config.max_connections, remote);
        else
            warn_full(here, "connections-per-address", server->config.max_per_address, remote);
        return;
    }
    struct arrival *arrival = calloc(1, sizeof(*arrival));
    if (arrival == NULL) {
        struct net_seat seat = {.peer = peer};
        (void)net_seat_leave(&server->seats, &seat);
        lr_socket_close(fd);
        lr_log_warn(NULL, "net.refuse reason=%s", "no memory for a connection");
        return;
    }
    atomic_fetch_add(&server->connections, 1);
    atomic_fetch_add_explicit(&server->accepted, 1, memory_order_relaxed);
    arrival->part = least_loaded(here);
    arrival->fd = fd;
    arrival->is_unix = is_unix;
    arrival->peer = peer;
    (void)memcpy(arrival->remote, remote, sizeof(remote));
    atomic_fetch_add(&arrival->part->load, 1);
    if (arrival->part == here) {
        server_settle(arrival);
        return;
    }
    /* The other part may stop before the connection reaches it: hold the server until then. */
    atomic_fetch_add(&server->holds, 1);
    net_loop_post(arrival->part->loop, settle_elsewhere, arrival);
}

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void resume_accept(void *arg)
{
    struct server_part *part = arg;
    net_timer_stop(part->pause);
    part->pause = NULL;
    for (unsigned i = 0; i < part->polling; i++)
        (void)uv_poll_start(&part->polls[i], UV_READABLE, on_acceptable);
}

static void pause_accept(struct server_part *part)
{
    for (unsigned i = 0; i < part->polling; i++)
        (void)uv_poll_stop(&part->polls[i]);
    if (part->pause == NULL)
        part->pause = net_timer_start(part->loop, PAUSE_MS, 0, resume_accept, part);
}

static void on_acceptable(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct server_part *part = poll->data;
    const struct net_listener *listener = &part->server->listeners.all[poll - part->polls];
    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct sockaddr_storage address = {0};
        int fd = lr_socket_accept(listener->fd, &address);
        if (fd >= 0) {
            welcome(part, fd, &address);
            continue;
        }
        if (errno == EINTR || errno == ECONNABORTED)
            continue;
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
            /* Typically out of descriptors: close the oldest idle connection.  The waiting
             * connection would wake the loop again at once, so pause until others have
             * closed. */
            call_away(part->server, net_seats_oldest(&part->server->seats));
            lr_log_warn(NULL, "net.accept_failed error=%s pause_ms=%d", strerror(errno),
                        PAUSE_MS);
            pause_accept(part);
        }
        return;
    }
}

static void part_start(void *arg)
{
    struct server_part *part = arg;
    struct net_server *server = part->server;
    while (!part->is_stopping && part->polling < server->listeners.count) {
        uv_poll_t *poll = &part->polls[part->polling];
        int fd = server->listeners.all[part->polling].fd;
        if (uv_poll_init_socket(net_loop_uv(part->loop), poll, (uv_os_sock_t)fd) != 0) {
            lr_log_error(NULL, "net.accept_failed error=%s",
                         "cannot poll the listening socket");
            return;
        }
        poll->data = part;
        part->polling++;
        (void)uv_poll_start(poll, UV_READABLE, on_acceptable);
    }
}

/* ---- starting ---- */

static void fill_defaults(struct net_server_config *c)
{
#define DEFAULT(field, value)                                                                  \
    if (c->field == 0)                                                                         \
    c->field = (value)
    DEFAULT(max_connections, 10000);
    DEFAULT(max_per_address, 2048);
    DEFAULT(max_header_bytes, 16 * 1024);
    DEFAULT(max_body_bytes, 16 << 20);
    DEFAULT(max_request_bytes, 64 << 20);
    DEFAULT(max_stream_bytes, 1 << 20);
    DEFAULT(header_timeout_ms, 10 * 1000);
    DEFAULT(body_timeout_ms, 30 * 1000);
    DEFAULT(idle_timeout_ms, 75 * 1000);
    DEFAULT(write_timeout_ms, 60 * 1000);
    DEFAULT(linger_ms, 2 * 1000);
#undef DEFAULT
    c->host = NULL;
    c->listeners = NULL;
    c->tls = NULL;
}

/* Raises the limit of descriptors as far as the system allows, and lowers the number of
 * connections to it.  The rest of the descriptors is for files, nodes and workers. */
static void take_descriptors(struct net_server_config *c)
{
    enum { OTHERS = 256, MOST = 1 << 20 };
    uint64_t limit = lr_descriptors_raise(MOST);
    uint64_t room = limit > 2 * OTHERS ? limit - OTHERS : limit / 2;
    if (room >= c->max_connections)
        return;
    lr_log_warn(
        NULL,
        "net.few_descriptors limit=%llu connections=%llu max-connections=%u hint=\"raise "
        "the hard limit: ulimit -Hn, LimitNOFILE of systemd, --ulimit nofile of a "
        "container\"",
        (unsigned long long)limit, (unsigned long long)room, c->max_connections);
    c->max_connections = (uint32_t)room;
}

/* The sockets that the caller has, or one for host and port. */
static lr_code take_listeners(const struct net_server_config *config, struct net_listeners *out,
                              struct lr_error *err)
{
    *out = (struct net_listeners){.count = 1};
    if (config->listeners != NULL) {
        *out = *config->listeners;
        config->listeners->count = 0;
    } else {
        out->all[0] = (struct net_listener){.port = config->port, .fd = -1};
        LR_COPY(out->all[0].host, lr_str_z(config->host));
    }
    lr_code code = net_listeners_bind(out, err);
    if (code != LR_OK)
        net_listeners_close(out);
    return code;
}

lr_code net_server_start(struct net_loops *loops, const struct net_server_config *config,
                         struct net_server **out, struct lr_error *err)
{
    *out = NULL;
    struct net_listeners listeners;
    lr_code code = take_listeners(config, &listeners, err);
    if (code != LR_OK)
        return code;
    struct net_server *server = net_alloc(sizeof(*server));
    server->config = *config;
    fill_defaults(&server->config);
    take_descriptors(&server->config);
    net_seats_init(&server->seats, server->config.max_connections,
                   server->config.max_per_address);
    server->tls = net_tls_ref(config->tls);
    server->loops = loops;
    server->listeners = listeners;
    server->part_count = net_loops_count(loops);
    server->parts = net_alloc(server->part_count * sizeof(*server->parts));
    atomic_store(&server->parts_polling, server->part_count);
    atomic_store(&server->holds, server->part_count);
    for (unsigned i = 0; i < server->part_count; i++) {
        server->parts[i].server = server;
        server->parts[i].loop = net_loops_get(loops, i);
    }
    for (unsigned i = 0; i < server->part_count; i++)
        net_loop_post(server->parts[i].loop, part_start, &server->parts[i]);
    *out = server;
    return LR_OK;
}

uint16_t net_server_port(const struct net_server *server)
{
    return net_listeners_main(&server->listeners)->port;
}

const struct net_listeners *net_server_listeners(const struct net_server *server)
{
    return &server->listeners;
}

void net_server_own_sockets(struct net_server *server)
{
    for (size_t i = 0; i < server->listeners.count; i++)
        server->listeners.all[i].is_shared = false;
}

/* ---- stopping ---- */

/* Runs on loop 0, where the caller of net_server_stop expects it. */
static void report_stopped(void *arg)
{
    struct net_server *server = arg;
    if (server->on_stopped != NULL)
        server->on_stopped(server->on_stopped_arg);
}

/* The call that drops the last hold reports the stop; the server must not be used after it. */
static void server_release(struct net_server *server)
{
    struct net_loop *first = net_loops_get(server->loops, 0);
    if (atomic_fetch_sub(&server->holds, 1) == 1)
        net_loop_post(first, report_stopped, server);
}

void net_server_part_check_stopped(struct server_part *part)
{
    if (!part->is_deaf || part->is_stopped || part->conns != NULL || part->active != 0 ||
        atomic_load(&part->load) != 0)
        return;
    part->is_stopped = true;
    net_timer_stop(part->cut);
    part->cut = NULL;
    server_release(part->server);
}

/* How long a leaving server waits for another request on an idle connection. */
static uint64_t patience_ms(const struct server_conn *sc)
{
    uint64_t now = net_loop_now_ms(sc->part->loop);
    uint64_t left = sc->conn.deadline > now ? sc->conn.deadline - now : 0;
    uint64_t idle_ms = sc->part->server->config.idle_timeout_ms;
    uint64_t was_idle = idle_ms > left ? idle_ms - left : 0;
    return was_idle < QUIET_MS ? QUIET_MS - was_idle : 1;
}

/* No new connection can come: closes idle connections.  A connection that was just accepted
 * gets a moment to send its request. */
static void let_go(void *arg)
{
    struct server_part *part = arg;
    part->is_deaf = true;
    for (struct server_conn *sc = part->conns; sc != NULL; sc = sc->next) {
        if (sc->req != NULL || sc->is_lingering || sc->head_begun)
            continue;
        if (sc->has_served && part->server->is_leaving)
            net_conn_set_deadline(&sc->conn, patience_ms(sc));
        else if (sc->has_served)
            net_server_conn_answered(sc, false);
        else
            net_conn_set_deadline(&sc->conn,
                                  part->server->is_leaving ? QUIET_MS : FIRST_BYTE_MS);
    }
    net_server_part_check_stopped(part);
}

/* Closing the socket would reset connections that wait to be accepted: accepts them first. */
static void accept_last(struct server_part *part, int listener)
{
    for (int i = 0; i < LAST_ACCEPTS; i++) {
        struct sockaddr_storage address = {0};
        int fd = lr_socket_accept(listener, &address);
        if (fd < 0)
            return;
        welcome(part, fd, &address);
    }
}

static void stopped_polling(struct server_part *part)
{
    struct net_server *server = part->server;
    if (atomic_fetch_sub(&server->parts_polling, 1) != 1)
        return;
    for (size_t i = 0; i < server->listeners.count; i++) {
        struct net_listener *listener = &server->listeners.all[i];
        if (!server->is_leaving)
            accept_last(part, listener->fd);
        listener->is_shared = listener->is_shared || server->is_leaving;
        net_listener_close(listener);
    }
    for (unsigned i = 0; i < server->part_count; i++)
        net_loop_post(server->parts[i].loop, let_go, &server->parts[i]);
}

static void on_poll_closed(uv_handle_t *handle)
{
    struct server_part *part = handle->data;
    if (--part->polling == 0)
        stopped_polling(part);
}

/* The deadline of a stop has passed: cuts all remaining connections. */
static void cut_all(void *arg)
{
    struct server_part *part = arg;
    part->is_cut = true;
    for (struct server_conn *sc = part->conns; sc != NULL; sc = sc->next) {
        struct net_request *req = sc->req;
        net_server_conn_detach(sc);
        net_server_conn_close(sc);
        if (req == NULL)
            continue;
        if (req->is_owned)
            net_server_request_set_gone(req);
        else
            net_server_request_end(req);
    }
}

static void part_stop(void *arg)
{
    struct server_part *part = arg;
    if (part->is_stopped)
        return;
    net_timer_stop(part->cut);
    part->cut = NULL;
    if (part->server->stop_deadline_ms != NET_SERVER_NO_DEADLINE)
        part->cut =
            net_timer_start(part->loop, part->server->stop_deadline_ms, 0, cut_all, part);
    if (part->is_stopping) /* stopped again, with another deadline */
        return;
    part->is_stopping = true;
    net_timer_stop(part->pause);
    part->pause = NULL;
    for (unsigned i = part->polling; i > 0; i--)
        uv_close((uv_handle_t *)&part->polls[i - 1], on_poll_closed);
    if (part->polling == 0)
        stopped_polling(part);
}

void net_server_stop(struct net_server *server, uint32_t deadline_ms, net_loop_fn on_stopped,
                     void *arg)
{
    server->on_stopped = on_stopped;
    server->on_stopped_arg = arg;
    server->stop_deadline_ms = deadline_ms;
    for (unsigned i = 0; i < server->part_count; i++)
        net_loop_post(server->parts[i].loop, part_stop, &server->parts[i]);
}

void net_server_leave(struct net_server *server, uint32_t deadline_ms, net_loop_fn on_stopped,
                      void *arg)
{
    server->is_leaving = true;
    net_server_stop(server, deadline_ms, on_stopped, arg);
}

static void note_stopped(void *arg)
{
    *(bool *)arg = true;
}

/* When a program's start fails after the server's start, no thread runs the loops, and the
 * parts wait there to be started.  So this function runs the turns that stopping needs. */
static void stop_here(struct net_server *server)
{
    bool is_stopped = false;
    net_server_stop(server, 0, note_stopped, &is_stopped);
    while (!is_stopped)
        for (unsigned i = 0; i < server->part_count; i++)
            (void)uv_run(net_loop_uv(server->parts[i].loop), UV_RUN_NOWAIT);
}

void net_server_destroy(struct net_server *server)
{
    if (server == NULL)
        return;
    if (atomic_load(&server->holds) != 0)
        stop_here(server);
    net_tls_destroy(server->tls);
    net_seats_free(&server->seats);
    free(server->parts);
    free(server);
}

bool net_server_get_validity(const struct net_server *server, struct net_tls_validity *out)
{
    return net_tls_get_validity(server->tls, out);
}

void net_server_get_stats(const struct net_server *server, struct net_server_stats *out)
{
    *out = (struct net_server_stats){
        .accepted = atomic_load_explicit(&server->accepted, memory_order_relaxed),
        .connections = atomic_load_explicit(&server->connections, memory_order_relaxed),
        .requests = atomic_load_explicit(&server->requests, memory_order_relaxed),
        .active = atomic_load_explicit(&server->active, memory_order_relaxed),
        .refused = atomic_load_explicit(&server->refused, memory_order_relaxed),
        .gone = atomic_load_explicit(&server->gone, memory_order_relaxed),
    };
}
