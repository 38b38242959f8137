/* net/client_dial.c - from a host name to a connected, verified connection.
 *
 * Addresses are tried one after the other in the resolver's order.  The connect timeout covers
 * all of them, with name resolution and TLS.
 */
#include <stdio.h>
#include <string.h>

#include "net/client_internal.h"

/* Outlives a cancelled call: libuv's resolver thread cannot be stopped. */
struct client_resolve {
    uv_getaddrinfo_t req;
    struct net_call *call; /* NULL: the call was cancelled */
};

static void try_next(struct net_call *call);

static void note(struct net_call *call, const char *what, int uv_code)
{
    (void)lr_fail(&call->last_error, LR_UPSTREAM, "%s: %s", what, uv_strerror(uv_code));
}

static void on_connect(uv_connect_t *connect, int status)
{
    struct client_conn *cc = connect->data;
    struct net_call *call = cc->call;
    if (call == NULL || status == UV_ECANCELED)
        return;
    if (status != 0) {
        note(call, "cannot connect", status);
        net_client_conn_release(cc, false);
        try_next(call);
        return;
    }
    call->client->stats.connections_opened++;
    if (call->url.is_https) {
        struct lr_error err;
        struct net_tls_session *session;
        lr_code code =
            net_tls_session_create(call->client->tls, call->url.host, &session, &err);
        if (code != LR_OK) {
            net_call_fail(call, code, err.text);
            return;
        }
        net_conn_secure(&cc->conn, session);
    }
    net_conn_read(&cc->conn, true);
    net_conn_established(&cc->conn);
    if (!call->url.is_https)
        net_call_connected(call);
}

static bool may_connect(struct net_call *call, const struct sockaddr *address)
{
    char text[INET6_ADDRSTRLEN] = "";
    if (call->may_connect == NULL)
        return true;
    (void)uv_ip_name(address, text, sizeof(text));
    if (call->may_connect(call->may_connect_arg, text))
        return true;
    (void)lr_fail(&call->last_error, LR_UPSTREAM, "the address %s is not allowed", text);
    return false;
}

static void connect_to(struct net_call *call, const struct sockaddr *address)
{
    if (!may_connect(call, address)) {
        try_next(call);
        return;
    }
    struct client_conn *cc = net_client_conn_create(call);
    if (cc == NULL) {
        net_call_fail(call, LR_OUT_OF_RAM, "no memory for a connection");
        return;
    }
    int rc = uv_tcp_connect(&cc->connect, &cc->conn.tcp, address, on_connect);
    if (rc != 0) {
        note(call, "cannot connect", rc);
        net_client_conn_release(cc, false);
        try_next(call);
    }
}

static void try_next(struct net_call *call)
{
    const struct addrinfo *info = call->next_address;
    if (info == NULL) {
        net_call_fail(call, LR_UPSTREAM, call->last_error.text);
        return;
    }
    call->next_address = info->ai_next;
    connect_to(call, info->ai_addr);
}

static void on_resolved(uv_getaddrinfo_t *req, int status, struct addrinfo *list)
{
    struct client_resolve *resolve = req->data;
    struct net_call *call = resolve->call;
    free(resolve);
    if (call == NULL) {
        uv_freeaddrinfo(list);
        return;
    }
    call->resolve = NULL;
    if (status != 0) {
        char why[400];
        (void)snprintf(why, sizeof(why), "cannot resolve \"%s\": %s", call->url.host,
                       uv_strerror(status));
        net_call_fail(call, LR_UPSTREAM, why);
        return;
    }
    call->addresses = list;
    call->next_address = list;
    try_next(call);
}

static void on_timeout(void *arg)
{
    struct net_call *call = arg;
    char why[128];
    (void)snprintf(why, sizeof(why), "no connection within %u ms", call->connect_timeout_ms);
    net_call_fail(call, LR_TIMEOUT, why);
}

void net_client_dial(struct net_call *call)
{
    struct lr_error err;
    call->state = CALL_CONNECTING;
    if (call->url.is_https && net_client_need_tls(call->client, &err) != LR_OK) {
        net_call_fail(call, err.code, err.text);
        return;
    }
    net_timer_stop(call->timer);
    call->timer =
        net_timer_start(call->client->loop, call->connect_timeout_ms, 0, on_timeout, call);
    struct sockaddr_storage literal = {0};
    if (uv_ip4_addr(call->url.host, call->url.port, (struct sockaddr_in *)&literal) == 0 ||
        uv_ip6_addr(call->url.host, call->url.port, (struct sockaddr_in6 *)&literal) == 0) {
        call->next_address = NULL;
        connect_to(call, (struct sockaddr *)&literal);
        return;
    }
    struct client_resolve *resolve = calloc(1, sizeof(*resolve));
    if (resolve == NULL) {
        net_call_fail(call, LR_OUT_OF_RAM, "no memory to resolve a name");
        return;
    }
    resolve->call = call;
    resolve->req.data = resolve;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", call->url.port);
    int rc = uv_getaddrinfo(net_loop_uv(call->client->loop), &resolve->req, on_resolved,
                            call->url.host, port, &hints);
    if (rc != 0) {
        free(resolve);
        net_call_fail(call, LR_UPSTREAM, uv_strerror(rc));
        return;
    }
    call->resolve = resolve;
}

void net_client_dial_cancel(struct net_call *call)
{
    net_timer_stop(call->timer);
    call->timer = NULL;
    if (call->resolve != NULL) {
        call->resolve->call = NULL;
        (void)uv_cancel((uv_req_t *)&call->resolve->req);
        call->resolve = NULL;
    }
    if (call->addresses != NULL)
        uv_freeaddrinfo(call->addresses);
    call->addresses = NULL;
    call->next_address = NULL;
}
