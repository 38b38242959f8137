#include "router/http/live.h"

#include <stdio.h>

#include "net/settings.h"
#include "router/state.h"

void router_live_second(struct router *r)
{
    char trouble[ROUTER_TROUBLE], certificate[NET_CERTIFICATE_TEXT];
    bool fails = router_store_trouble(r->store, trouble);
    bool ends = net_settings_certificate_ends(r->settings, r->server, certificate);
    router_lock(r);
    (void)router_alert_watch(&r->alerts, ROUTER_ALERT_DATABASE_FAILED, fails, trouble);
    if (router_alert_watch(&r->alerts, ROUTER_ALERT_CERTIFICATE_ENDS, ends, certificate))
        lr_log_warn(NULL, "tls.ends reason=%s", certificate);
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
    LR_JSON_MEMBERS(w, LR_TEXT("node", node->id), LR_TEXT("name", node->name));
    net_bus_send(&r->events);
    if (router_node_is_online(node))
        router_alert_settle(&r->alerts, ROUTER_ALERT_NODE_OFFLINE, node, lr_str_z(""));
}

void router_live_offline(struct router *r, const struct router_node *node, uint64_t silent_ms)
{
    char text[160];
    (void)snprintf(text, sizeof(text), "node %.60s has been silent for %llu ms", node->name,
                   (unsigned long long)silent_ms);
    /* One that said it would leave is not missed, nor is what was wrong with it. */
    if (node->is_draining)
        router_alerts_settle_node(&r->alerts, node);
    else
        router_alert_raise(&r->alerts, ROUTER_ALERT_NODE_OFFLINE, node, lr_str_z(""),
                           lr_str_z(text));
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
    LR_JSON_MEMBERS(w, LR_TEXT("node", node->id), LR_TEXT("name", node->name));
    for (uint32_t i = 0; i < event->count; i++) {
        struct lr_str key = event->members[i].key;
        if (lr_str_eq_z(key, "event") || lr_str_eq_z(key, "time") || lr_str_eq_z(key, "node") ||
            lr_str_eq_z(key, "name"))
            continue;
        lr_json_key_str(w, key);
        lr_json_put_value(w, &event->members[i].value);
    }
    net_bus_send(&r->events);
    router_alerts_hear(&r->alerts, node, event);
}

static void hear_events(struct router *r, struct router_node *node,
                        const struct wire_heartbeat *heartbeat)
{
    if (heartbeat->epoch == 0)
        return; /* of the release before */
    if (node->events_epoch != heartbeat->epoch) {
        if (node->events_epoch != 0)
            router_alerts_settle_node(&r->alerts, node); /* its process is a new one */
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
    LR_JSON_MEMBERS(w, LR_TEXT("node", node->id), LR_TEXT("name", node->name),
                    LR_STR("model", d->id));
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
