#include "router/http/live.h"

#include <stdio.h>

#include "net/settings.h"
#include "router/http/api.h"

enum { STATS_BYTES = 1 << 20, ALERTS_BYTES = 1 << 20, STEP_DEFAULT = 5, STEP_MAX = 60 };

/* Raised when it begins, not every second anew. */
static void watch_database(struct router *r)
{
    char trouble[ROUTER_TROUBLE];
    bool fails = router_store_trouble(r->store, trouble);
    if (fails == r->database_fails)
        return;
    r->database_fails = fails;
    if (fails)
        router_alert_raise(r, ROUTER_ALERT_DATABASE_FAILED, NULL, lr_str_z(""),
                           lr_str_z(trouble));
    else
        router_alert_settle(r, ROUTER_ALERT_DATABASE_FAILED, NULL, lr_str_z(""));
}

static void watch_certificate(struct router *r)
{
    char text[NET_CERTIFICATE_TEXT];
    bool ends = net_settings_certificate_ends(r->settings, r->server, text);
    if (ends == r->certificate_ends)
        return;
    r->certificate_ends = ends;
    if (!ends) {
        router_alert_settle(r, ROUTER_ALERT_CERTIFICATE_ENDS, NULL, lr_str_z(""));
        return;
    }
    lr_log_warn(NULL, "tls.ends reason=%s", text);
    router_alert_raise(r, ROUTER_ALERT_CERTIFICATE_ENDS, NULL, lr_str_z(""), lr_str_z(text));
}

void router_live_second(struct router *r)
{
    router_lock(r);
    watch_database(r);
    watch_certificate(r);
    router_stats_tick(&r->stats, &r->metrics, (uint32_t)r->sched.waiting,
                      (uint32_t)r->sched.held, lr_clock_ms(NULL), lr_clock_wall_ms(NULL));
    if (r->events.subscriber_count != 0) {
        router_stats_put_newest(&r->stats, net_bus_begin(&r->events, "stats"));
        net_bus_send_live(&r->events);
    }
    router_unlock(r);
}

/* ---- nodes ---- */

void router_live_node(struct router *r, const struct router_node *node, const char *event)
{
    struct lr_json_writer *w = net_bus_begin(&r->events, event);
    lr_json_member_z(w, "node", node->id);
    lr_json_member_z(w, "name", node->name);
    net_bus_send(&r->events);
    if (router_node_is_online(node))
        router_alert_settle(r, ROUTER_ALERT_NODE_OFFLINE, node, lr_str_z(""));
}

void router_live_offline(struct router *r, const struct router_node *node, uint64_t silent_ms)
{
    char text[160];
    (void)snprintf(text, sizeof(text), "node %.60s has been silent for %llu ms", node->name,
                   (unsigned long long)silent_ms);
    /* One that said it would leave is not missed, nor is what was wrong with it. */
    if (node->is_draining)
        router_alerts_settle_node(r, node);
    else
        router_alert_raise(r, ROUTER_ALERT_NODE_OFFLINE, node, lr_str_z(""), lr_str_z(text));
}

/* "model" of a node becomes "node.model" of ours, with the node named. */
static void pass_on(struct router *r, const struct router_node *node,
                    const struct lr_json *event)
{
    char name[64];
    struct lr_str text;
    if (!lr_json_is(event, LR_JSON_OBJECT) || !lr_json_str(lr_json_get(event, "event"), &text))
        return;
    (void)snprintf(name, sizeof(name), "node." LR_STR_FMT, LR_STR_ARG(lr_str_sub(text, 0, 48)));
    struct lr_json_writer *w = net_bus_begin(&r->events, name);
    lr_json_member_z(w, "node", node->id);
    lr_json_member_z(w, "name", node->name);
    for (uint32_t i = 0; i < event->count; i++) {
        struct lr_str key = event->members[i].key;
        if (lr_str_eq_z(key, "event") || lr_str_eq_z(key, "time") || lr_str_eq_z(key, "node") ||
            lr_str_eq_z(key, "name"))
            continue;
        lr_json_key_str(w, key);
        lr_json_put_value(w, &event->members[i].value);
    }
    net_bus_send(&r->events);
    router_alerts_hear(r, node, event);
}

static void hear_events(struct router *r, struct router_node *node,
                        const struct wire_heartbeat *heartbeat)
{
    if (heartbeat->epoch == 0)
        return; /* of the release before */
    if (node->events_epoch != heartbeat->epoch) {
        if (node->events_epoch != 0)
            router_alerts_settle_node(r, node); /* its process is a new one */
        node->events_epoch = heartbeat->epoch;
        node->events_seen = 0;
    }
    uint64_t at = heartbeat->event_end - heartbeat->event_count;
    for (size_t i = 0; i < heartbeat->event_count; i++, at++)
        if (at >= node->events_seen)
            pass_on(r, node, heartbeat->events[i]);
    if (heartbeat->event_end > node->events_seen)
        node->events_seen = heartbeat->event_end;
}

static void tell_download(struct router *r, const struct router_node *node,
                          const struct wire_fleet_download *d)
{
    struct lr_json_writer *w = net_bus_begin(&r->events, "download");
    lr_json_member_z(w, "node", node->id);
    lr_json_member_z(w, "name", node->name);
    lr_json_member_str(w, "model", d->id);
    wire_fleet_download_put(w, d);
    net_bus_send_live(&r->events);
}

void router_live_heartbeat(struct router *r, struct router_node *node,
                           const struct wire_heartbeat *heartbeat)
{
    hear_events(r, node, heartbeat);
    for (size_t i = 0; r->events.subscriber_count != 0 && i < heartbeat->download_count; i++)
        tell_download(r, node, &heartbeat->downloads[i]);
}

/* ---- for a page that opens ---- */

void router_api_stats(struct router *r, struct net_request *req)
{
    struct lr_buf body;
    struct lr_json_writer w;
    struct lr_str text;
    uint64_t step = STEP_DEFAULT;
    if (net_request_query_get(req, "step", &text) &&
        (!lr_str_u64(text, &step) || step < 1 || step > STEP_MAX)) {
        router_refuse(req, LR_INVALID_ARGUMENT, "\"step\" is seconds, from 1 to %d", STEP_MAX);
        return;
    }
    /* Copied, since writing thousands of numbers takes longer than the lock is held. */
    struct router_stats *stats = lr_arena_alloc(net_request_arena(req), sizeof(*stats));
    if (stats == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for %zu bytes of figures", sizeof(*stats));
        return;
    }
    router_lock(r);
    *stats = r->stats;
    router_unlock(r);
    lr_buf_init(&body, STATS_BYTES);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    router_stats_put_all(stats, (uint32_t)step, &w);
    lr_json_end_object(&w);
    router_respond_json(req, 200, &body);
}

void router_api_alerts(struct router *r, struct net_request *req)
{
    struct lr_buf body;
    struct lr_json_writer w;
    lr_buf_init(&body, ALERTS_BYTES);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    router_lock(r);
    router_alerts_write(&r->alerts, &w);
    router_unlock(r);
    lr_json_end_object(&w);
    router_respond_json(req, 200, &body);
}
