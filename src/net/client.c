/* net/client.c - an HTTP client and its pool of idle connections.
 *
 * Idle connections are read as well, so that a connection closed by its server is dropped at
 * once and a call seldom gets a dead one.
 */
#include "net/client.h"

#include <stdio.h>
#include <string.h>

#include "net/client_internal.h"
#include "net/tls_internal.h"

lr_code net_client_create(struct net_loop *loop, const struct net_client_config *config,
                          struct net_client **out, struct lr_error *err)
{
    *out = NULL;
    (void)err;
    struct net_client *client = net_alloc(sizeof(*client));
    client->loop = loop;
    if (config != NULL)
        client->config = *config;
    client->tls = net_tls_ref(client->config.tls);
    client->config.tls = NULL;
    if (client->config.max_idle_per_origin == 0)
        client->config.max_idle_per_origin = 32;
    if (client->config.idle_timeout_ms == 0)
        client->config.idle_timeout_ms = 50 * 1000;
    *out = client;
    return LR_OK;
}

static void client_free(void *arg)
{
    free(arg);
}

void net_client_destroy(struct net_client *client)
{
    if (client == NULL)
        return;
    while (client->calls != NULL)
        net_call_cancel(client->calls);
    while (client->idle != NULL)
        net_client_conn_release(client->idle, false);
    net_tls_destroy(client->tls);
    client->tls = NULL;
    /* A callback of one of the client's calls may be on the stack. */
    net_loop_bury(client->loop, client_free, client);
}

void net_client_get_stats(const struct net_client *client, struct net_client_stats *out)
{
    *out = client->stats;
}

lr_code net_client_need_tls(struct net_client *client, struct lr_error *err)
{
    return client->tls != NULL ? LR_OK : net_tls_client_create(NULL, &client->tls, err);
}

/* ---- the pool ---- */

static void unlink_idle(struct client_conn *cc)
{
    struct net_client *client = cc->client;
    if (cc->next != NULL)
        cc->next->prev = cc->prev;
    if (cc->prev != NULL)
        cc->prev->next = cc->next;
    else
        client->idle = cc->next;
    cc->prev = cc->next = NULL;
    cc->is_idle = false;
    client->stats.idle--;
}

struct client_conn *net_client_take_idle(struct net_client *client, const char *origin)
{
    for (struct client_conn *cc = client->idle; cc != NULL; cc = cc->next) {
        if (strcmp(cc->origin, origin) != 0 || cc->conn.is_ended || cc->conn.broken != 0)
            continue;
        unlink_idle(cc);
        net_conn_set_deadline(&cc->conn, 0);
        cc->is_reused = true;
        client->stats.connections_reused++;
        return cc;
    }
    return NULL;
}

static uint32_t count_idle(const struct net_client *client, const char *origin)
{
    uint32_t count = 0;
    for (const struct client_conn *cc = client->idle; cc != NULL; cc = cc->next)
        count += strcmp(cc->origin, origin) == 0;
    return count;
}

void net_client_conn_release(struct client_conn *cc, bool keep)
{
    struct net_client *client = cc->client;
    if (cc->is_idle)
        unlink_idle(cc);
    if (cc->call != NULL)
        cc->call->conn = NULL;
    cc->call = NULL;
    if (!keep || cc->conn.is_ended || cc->conn.broken != 0 || cc->conn.is_closing ||
        count_idle(client, cc->origin) >= client->config.max_idle_per_origin) {
        cc->client = NULL;
        net_conn_close(&cc->conn);
        return;
    }
    cc->is_idle = true;
    cc->next = client->idle;
    if (cc->next != NULL)
        cc->next->prev = cc;
    client->idle = cc;
    client->stats.idle++;
    net_conn_read(&cc->conn, true);
    net_conn_set_deadline(&cc->conn, client->config.idle_timeout_ms);
}

/* ---- events ---- */

static void client_on_data(void *owner, struct lr_str bytes)
{
    struct client_conn *cc = owner;
    if (cc->call != NULL)
        net_call_on_data(cc->call, bytes);
    else /* data without a request */
        net_client_conn_release(cc, false);
}

static void client_on_end(void *owner, const struct lr_error *err)
{
    struct client_conn *cc = owner;
    if (cc->call != NULL)
        net_call_on_end(cc->call, err);
    else
        net_client_conn_release(cc, false);
}

static void client_on_drain(void *owner)
{
    struct client_conn *cc = owner;
    if (cc->call != NULL)
        net_call_on_drain(cc->call);
}

static void on_secure(void *owner)
{
    struct client_conn *cc = owner;
    if (cc->call != NULL)
        net_call_connected(cc->call);
}

static void on_deadline(void *owner)
{
    struct client_conn *cc = owner;
    if (cc->call != NULL)
        net_call_on_deadline(cc->call);
    else
        net_client_conn_release(cc, false);
}

static void client_on_closed(void *owner)
{
    free(owner);
}

static const struct net_conn_events events = {
    .on_data = client_on_data,
    .on_end = client_on_end,
    .on_drain = client_on_drain,
    .on_secure = on_secure,
    .on_deadline = on_deadline,
    .on_closed = client_on_closed,
};

struct client_conn *net_client_conn_create(struct net_call *call)
{
    struct client_conn *cc = calloc(1, sizeof(*cc));
    if (cc == NULL)
        return NULL;
    cc->client = call->client;
    cc->call = call;
    cc->connect.data = cc;
    (void)snprintf(cc->origin, sizeof(cc->origin), "%s", call->url.origin);
    net_conn_init(&cc->conn, call->client->loop, &events, cc, call->idle_timeout_ms);
    call->conn = cc;
    return cc;
}
