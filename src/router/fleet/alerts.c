#include "router/fleet/alerts.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/settings.h"

static const struct {
    const char *name, *level, *advice;
    bool is_state;
} kinds[] = {
#define X(name, text, level, is_state, advice) {text, level, advice, is_state},
    ROUTER_ALERT_MAP(X)
#undef X
};

static void put_alert(struct lr_json_writer *w, const struct router_alert *a)
{
    LR_JSON_MEMBERS(w, LR_UINT("id", a->id), LR_TEXT("kind", kinds[a->kind].name),
                    LR_TEXT("level", kinds[a->kind].level), LR_FLAG("open", a->ended_ms == 0),
                    LR_TEXT("node", a->node), LR_TEXT("node_name", a->node_name),
                    LR_TEXT("subject", a->subject), LR_TEXT("message", a->message),
                    LR_TEXT("advice", kinds[a->kind].advice), LR_UINT("count", a->count),
                    LR_INT("first", a->first_ms / 1000), LR_INT("last", a->last_ms / 1000));
}

static void tell(struct router_alerts *alerts, const struct router_alert *a)
{
    put_alert(net_bus_begin(alerts->events, "alert"), a);
    net_bus_send(alerts->events);
}

static struct router_alert *find(struct router_alerts *alerts, enum router_alert_kind kind,
                                 const char *node, struct lr_str subject)
{
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        struct router_alert *a = &alerts->all[i];
        if (a->id != 0 && a->kind == kind && strcmp(a->node, node) == 0 &&
            lr_str_eq_z(lr_str_sub(subject, 0, sizeof(a->subject) - 1), a->subject))
            return a;
    }
    return NULL;
}

static bool goes_before(const struct router_alert *a, const struct router_alert *b)
{
    bool a_open = a->ended_ms == 0, b_open = b->ended_ms == 0;
    return a_open != b_open ? !a_open : a->last_ms < b->last_ms;
}

/* What is over and oldest; where all are open, the oldest of them. */
static struct router_alert *make_room(struct router_alerts *alerts)
{
    struct router_alert *out = &alerts->all[0];
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        if (alerts->all[i].id == 0)
            return &alerts->all[i];
        if (goes_before(&alerts->all[i], out))
            out = &alerts->all[i];
    }
    return out;
}

static const char *id_of(const struct router_node *node)
{
    return node != NULL ? node->id : "";
}

void router_alert_raise(struct router_alerts *alerts, enum router_alert_kind kind,
                        const struct router_node *node, struct lr_str subject,
                        struct lr_str message)
{
    struct router_alert *a = find(alerts, kind, id_of(node), subject);
    int64_t now = lr_clock_wall_ms(NULL);
    if (a == NULL) {
        a = make_room(alerts);
        *a = (struct router_alert){.id = ++alerts->next_id, .kind = kind, .first_ms = now};
        LR_COPY(a->node, lr_str_z(id_of(node)));
        LR_COPY(a->subject, subject);
    }
    LR_COPY(a->node_name, lr_str_z(node != NULL ? node->name : ""));
    LR_COPY(a->message, message);
    a->count++;
    a->last_ms = now;
    a->ended_ms = kinds[kind].is_state ? 0 : now;
    tell(alerts, a);
}

static void settle(struct router_alerts *alerts, struct router_alert *a)
{
    if (a->ended_ms != 0)
        return;
    a->ended_ms = a->last_ms = lr_clock_wall_ms(NULL);
    tell(alerts, a);
}

void router_alert_settle(struct router_alerts *alerts, enum router_alert_kind kind,
                         const struct router_node *node, struct lr_str subject)
{
    struct router_alert *a = find(alerts, kind, id_of(node), subject);
    if (a != NULL)
        settle(alerts, a);
}

bool router_alert_watch(struct router_alerts *alerts, enum router_alert_kind kind,
                        bool is_wrong, const char *message)
{
    struct router_alert *a = find(alerts, kind, "", lr_str_z(""));
    bool is_open = a != NULL && a->ended_ms == 0;
    if (is_wrong && !is_open)
        router_alert_raise(alerts, kind, NULL, lr_str_z(""), lr_str_z(message));
    else if (!is_wrong && is_open)
        settle(alerts, a);
    return is_wrong && !is_open;
}

void router_alerts_settle_node(struct router_alerts *alerts, const struct router_node *node)
{
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        struct router_alert *a = &alerts->all[i];
        if (a->id != 0 && strcmp(a->node, node->id) == 0)
            settle(alerts, a);
    }
}

/* ---- what nodes tell ---- */

static struct lr_str text_of(const struct lr_json *event, const char *name)
{
    struct lr_str text = {0};
    (void)lr_json_str(lr_json_get(event, name), &text);
    return text;
}

static void hear_model(struct router_alerts *alerts, const struct router_node *node,
                       const struct lr_json *event)
{
    struct lr_str model = text_of(event, "model"), state = text_of(event, "state"),
                  from = text_of(event, "from"), reason = text_of(event, "reason");
    bool is_absent = lr_str_eq_z(state, "absent");
    bool is_trying = lr_str_eq_z(state, "fetching") || lr_str_eq_z(state, "verifying");
    if (lr_str_eq_z(state, "failed"))
        router_alert_raise(alerts, ROUTER_ALERT_MODEL_FAILED, node, model, reason);
    else
        router_alert_settle(alerts, ROUTER_ALERT_MODEL_FAILED, node, model);
    if (lr_str_eq_z(state, "waiting"))
        router_alert_raise(alerts, ROUTER_ALERT_MODEL_WAITING, node, model, reason);
    else if (!lr_str_eq_z(state, "starting") && !lr_str_eq_z(state, "loading"))
        router_alert_settle(alerts, ROUTER_ALERT_MODEL_WAITING, node,
                            model); /* a try is no success */
    if (is_absent) {                /* nobody will serve with it */
        router_alert_settle(alerts, ROUTER_ALERT_WORKER_DIED, node, model);
        router_alert_settle(alerts, ROUTER_ALERT_WATCHDOG_KILL, node, model);
    }
    if (is_absent && reason.len != 0 &&
        (lr_str_eq_z(from, "fetching") || lr_str_eq_z(from, "absent")))
        router_alert_raise(alerts, ROUTER_ALERT_DOWNLOAD_FAILED, node, model, reason);
    else if (!is_trying && !is_absent) /* trying again is not yet success */
        router_alert_settle(alerts, ROUTER_ALERT_DOWNLOAD_FAILED, node, model);
}

static void hear_memory(struct router_alerts *alerts, const struct router_node *node,
                        const struct lr_json *event)
{
    char text[160], used_text[32], total_text[32];
    uint64_t used = 0, total = 0;
    struct lr_str pool = text_of(event, "pool");
    (void)lr_json_u64(lr_json_get(event, "used"), &used);
    (void)lr_json_u64(lr_json_get(event, "total"), &total);
    lr_format_size(used, used_text);
    lr_format_size(total, total_text);
    (void)snprintf(text, sizeof(text), "%s of %s in use on %.60s", used_text, total_text,
                   node->name);
    router_alert_raise(alerts, ROUTER_ALERT_MEMORY_ALERT, node, pool, lr_str_z(text));
}

static void hear_kill(struct router_alerts *alerts, const struct router_node *node,
                      const struct lr_json *event)
{
    char text[160];
    uint64_t silent = 0;
    (void)lr_json_u64(lr_json_get(event, "silent_ms"), &silent);
    (void)snprintf(text, sizeof(text), "the engine made no progress for %llu ms and was killed",
                   (unsigned long long)silent);
    router_alert_raise(alerts, ROUTER_ALERT_WATCHDOG_KILL, node, text_of(event, "model"),
                       lr_str_z(text));
}

/* Events with one meaning, and which of their members hold the alert's subject and message. */
static const struct {
    const char *event;
    enum router_alert_kind kind;
    const char *subject, *message; /* message NULL: the alert is over */
} meanings[] = {
    {"model_served", ROUTER_ALERT_WORKER_DIED, "model", NULL},
    {"model_served", ROUTER_ALERT_WATCHDOG_KILL, "model", NULL},
    {"memory_relieved", ROUTER_ALERT_MEMORY_ALERT, "pool", NULL},
    {"gpu_faulty", ROUTER_ALERT_GPU_FAULTY, "pool", "reason"},
    {"worker_died", ROUTER_ALERT_WORKER_DIED, "model", "how"},
    {"engine_refused", ROUTER_ALERT_ENGINE_REFUSED, "engine", "reason"},
    {"reloaded", ROUTER_ALERT_ENGINE_REFUSED, "engine", NULL},
    {"reload_failed", ROUTER_ALERT_RELOAD_FAILED, "engine", "reason"},
    {"reload_refused", ROUTER_ALERT_RELOAD_FAILED, "engine", "reason"},
    {"certificate_ends", ROUTER_ALERT_CERTIFICATE_ENDS, "", "reason"},
    {"certificate_renewed", ROUTER_ALERT_CERTIFICATE_ENDS, "", NULL},
};

/* What an event of a node means for alerts. */
static void hear(struct router_alerts *alerts, const struct router_node *node,
                 const struct lr_json *event)
{
    struct lr_str name = text_of(event, "event");
    if (lr_str_eq_z(name, "model"))
        hear_model(alerts, node, event);
    else if (lr_str_eq_z(name, "memory_alert"))
        hear_memory(alerts, node, event);
    else if (lr_str_eq_z(name, "watchdog_kill"))
        hear_kill(alerts, node, event);
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (!lr_str_eq_z(name, meanings[i].event))
            continue;
        struct lr_str subject = text_of(event, meanings[i].subject);
        if (meanings[i].message != NULL)
            router_alert_raise(alerts, meanings[i].kind, node, subject,
                               text_of(event, meanings[i].message));
        else
            router_alert_settle(alerts, meanings[i].kind, node, subject);
    }
}

/* The members of an event about a node follow. */
static struct lr_json_writer *begin(struct router_alerts *alerts,
                                    const struct router_node *node, const char *event)
{
    struct lr_json_writer *w = net_bus_begin(alerts->events, event);
    LR_JSON_MEMBERS(w, LR_TEXT("node", node->id), LR_TEXT("name", node->name));
    return w;
}

void router_alerts_tell(struct router_alerts *alerts, const struct router_node *node,
                        const char *event)
{
    (void)begin(alerts, node, event);
    net_bus_send(alerts->events);
    if (router_node_is_online(node))
        router_alert_settle(alerts, ROUTER_ALERT_NODE_OFFLINE, node, lr_str_z(""));
}

void router_alerts_silent(struct router_alerts *alerts, const struct router_node *node,
                          uint64_t silent_ms)
{
    char text[160];
    (void)snprintf(text, sizeof(text), "node %.60s has been silent for %llu ms", node->name,
                   (unsigned long long)silent_ms);
    /* A node that said it would leave is not missed, nor is what was wrong with it. */
    if (node->is_draining)
        router_alerts_settle_node(alerts, node);
    else
        router_alert_raise(alerts, ROUTER_ALERT_NODE_OFFLINE, node, lr_str_z(""),
                           lr_str_z(text));
}

/* "model" of a node becomes "node.model" of ours, with the node named. */
static void pass_on(struct router_alerts *alerts, const struct router_node *node,
                    const struct lr_json *event)
{
    char name[64];
    struct lr_str text;
    if (!lr_json_is(event, LR_JSON_OBJECT) || !lr_json_str(lr_json_get(event, "event"), &text))
        return;
    (void)snprintf(name, sizeof(name), "node." LR_STR_FMT, LR_STR_ARG(lr_str_sub(text, 0, 48)));
    struct lr_json_writer *w = begin(alerts, node, name);
    for (uint32_t i = 0; i < event->count; i++) {
        struct lr_str key = event->members[i].key;
        if (lr_str_eq_z(key, "event") || lr_str_eq_z(key, "time") || lr_str_eq_z(key, "node") ||
            lr_str_eq_z(key, "name"))
            continue;
        lr_json_key_str(w, key);
        lr_json_put_value(w, &event->members[i].value);
    }
    net_bus_send(alerts->events);
    hear(alerts, node, event);
}

static void hear_events(struct router_alerts *alerts, struct router_node *node,
                        const struct wire_heartbeat *heartbeat)
{
    if (heartbeat->epoch == 0)
        return; /* of the release before */
    if (node->events_epoch != heartbeat->epoch) {
        if (node->events_epoch != 0)
            router_alerts_settle_node(alerts, node); /* its process is a new one */
        node->events_epoch = heartbeat->epoch;
        node->events_seen = 0;
    }
    uint64_t at = heartbeat->event_end - heartbeat->event_count;
    for (size_t i = 0; i < heartbeat->event_count; i++, at++)
        if (at >= node->events_seen)
            pass_on(alerts, node, heartbeat->events[i]);
    if (heartbeat->event_end > node->events_seen)
        node->events_seen = heartbeat->event_end;
}

void router_alerts_heartbeat(struct router_alerts *alerts, struct router_node *node,
                             const struct wire_heartbeat *heartbeat)
{
    hear_events(alerts, node, heartbeat);
    for (size_t i = 0; alerts->events->subscriber_count != 0 && i < heartbeat->download_count;
         i++) {
        const struct wire_fleet_download *d = &heartbeat->downloads[i];
        struct lr_json_writer *w = begin(alerts, node, "download");
        lr_json_member_str(w, "model", d->id);
        wire_fleet_download_put(w, d);
        net_bus_send_live(alerts->events);
    }
}

/* ---- the list ---- */

void router_alerts_write(const struct router_alerts *alerts, struct lr_json_writer *w)
{
    const struct router_alert *sorted[ROUTER_ALERTS_MAX];
    size_t count = 0;
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        const struct router_alert *a = &alerts->all[i];
        size_t at = count;
        if (a->id == 0)
            continue;
        for (; at > 0 && goes_before(sorted[at - 1], a); at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = a;
        count++;
    }
    lr_json_member_array(w, "alerts");
    for (size_t i = 0; i < count; i++) {
        lr_json_begin_object(w);
        put_alert(w, sorted[i]);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
}
