#include "router/relay/upstream.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "router/relay/trunk.h"
#include "wire/frame.h"

static void unlink_upstream(struct router_upstream *u)
{
    *u->link = u->next;
    if (u->next != NULL)
        u->next->link = u->link;
}

static void bury(struct router_upstream *u)
{
    router_trunk_detach(u);
    unlink_upstream(u);
    net_loop_bury(u->home->loop, free, u);
}

/* The owner's last word. */
static void finish(struct router_upstream *u, const struct lr_error *err)
{
    struct net_call_callbacks owner = u->owner;
    bool has_left = u->has_left;
    u->has_left = true;
    router_trunk_detach(u);
    if (u->call == NULL)
        bury(u);
    if (!has_left)
        owner.on_done(owner.arg, err);
}

static void tell_head(struct router_upstream *u, int status, struct net_headers headers)
{
    if (u->has_head || u->has_left)
        return;
    u->has_head = true;
    u->owner.on_headers(u->owner.arg, status, headers);
}

/* ---- the request's own answer ---- */

static bool is_on_trunk(const struct router_upstream *u)
{
    return u->trunk != NULL && u->status == 202;
}

static void on_headers(void *arg, int status, struct net_headers headers)
{
    struct router_upstream *u = arg;
    u->status = status;
    tell_head(u, is_on_trunk(u) ? 200 : status, headers);
}

static void on_body(void *arg, struct lr_str bytes)
{
    struct router_upstream *u = arg;
    if (!u->has_left && !is_on_trunk(u))
        u->owner.on_body(u->owner.arg, bytes);
}

static void on_done(void *arg, const struct lr_error *err)
{
    struct router_upstream *u = arg;
    bool is_taken = err == NULL && is_on_trunk(u);
    u->call = NULL;
    if (is_taken && !u->has_left && !u->has_ended)
        return; /* the events come over the trunk */
    /* Whoever left before the node had answered could not be told of until now; and a
     * request whose answer was lost may run all the same. */
    if (u->trunk != NULL && (is_taken || err != NULL) && !u->has_ended)
        router_trunk_leave(u);
    if (u->has_left)
        bury(u);
    else
        finish(u, err);
}

/* ---- what the trunk brings ---- */

void router_upstream_event(struct router_upstream *u, struct lr_str event, bool is_last)
{
    u->has_ended = is_last;
    tell_head(u, 200, (struct net_headers){0});
    if (!u->has_left)
        u->owner.on_body(u->owner.arg, event);
    /* The owner may have left inside; then it was buried, and is still there to be looked at.
     */
    if (is_last && !u->has_left)
        finish(u, NULL);
}

void router_upstream_lost(struct router_upstream *u, const struct lr_error *err)
{
    if (u->call != NULL)
        net_call_cancel(u->call);
    u->call = NULL;
    finish(u, err);
}

/* ---- life ---- */

lr_code router_upstream_start(struct router_home *home, const struct router_peer *peer,
                              const struct net_call_config *config,
                              struct router_upstream **out, struct lr_error *err)
{
    struct net_call_config mine = *config;
    struct net_header headers[ROUTER_UPSTREAM_HEADERS + 1];
    char number[48];
    *out = NULL;
    struct router_upstream *u = calloc(1, sizeof(*u));
    if (u == NULL || config->header_count > ROUTER_UPSTREAM_HEADERS) {
        free(u);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    }
    u->home = home;
    u->owner = config->callbacks;
    u->next = home->upstreams;
    u->link = &home->upstreams;
    if (u->next != NULL)
        u->next->link = &u->next;
    home->upstreams = u;
    mine.callbacks = (struct net_call_callbacks){
        .arg = u, .on_headers = on_headers, .on_body = on_body, .on_done = on_done};
    struct router_trunk *trunk = router_trunk_of(home, peer);
    if (trunk != NULL && router_trunk_attach(trunk, u)) {
        (void)snprintf(number, sizeof(number), "%" PRIu64 " %" PRIu64, u->trunk_id, u->stream);
        for (size_t i = 0; i < config->header_count; i++)
            headers[i] = config->headers[i];
        headers[mine.header_count++] =
            (struct net_header){LR_STR_LIT(WIRE_TRUNK_HEADER), lr_str_z(number)};
        mine.headers = headers;
    }
    lr_code code = net_call_start(home->client, &mine, &u->call, err);
    if (code != LR_OK) {
        bury(u);
        return code;
    }
    *out = u;
    return LR_OK;
}

void router_upstream_cancel(struct router_upstream *u)
{
    if (u->has_left)
        return;
    u->has_left = true;
    router_trunk_detach(u);
    if (u->trunk == NULL) {
        net_call_cancel(u->call);
        bury(u);
    } else if (u->call == NULL) {
        if (!u->has_ended)
            router_trunk_leave(u);
        bury(u);
    }
    /* Else the node has yet to say whether it took it: on_done goes on. */
}

void router_upstreams_free(struct router_home *home)
{
    while (home->upstreams != NULL) {
        struct router_upstream *u = home->upstreams;
        unlink_upstream(u);
        free(u);
    }
    router_trunks_free(home);
}
