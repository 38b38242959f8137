#include "router/fleet/alerts.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/settings.h"
#include "base/sha256.h"
#include "router/fleet/reasons.h"
#include "router/fleet/registry.h"
#include "router/store/clock.h"
#include "wire/error.h"

enum { NODES_SHOWN = 100 };

static const struct {
    const char *name, *level, *advice;
    bool is_state;
} kinds[] = {
#define X(name, text, level, is_state, advice) {text, level, advice, is_state},
    ROUTER_ALERT_MAP(X)
#undef X
};

const char *router_alert_kind_name(enum router_alert_kind kind)
{
    return kinds[kind].name;
}

/* ---- one alert ---- */

/* At most 48 bits, so that the number is exact in every JSON reader. */
static uint64_t alerts_number_of(enum router_alert_kind kind, bool is_own,
                                 struct lr_str subject)
{
    unsigned char digest[LR_SHA256_LEN];
    struct lr_sha256 h;
    uint64_t number = 0;
    lr_sha256_init(&h);
    lr_sha256_add(&h, kinds[kind].name, strlen(kinds[kind].name) + 1);
    lr_sha256_add(&h, is_own ? "r" : "n", 1);
    lr_sha256_add(&h, subject.ptr, subject.len);
    lr_sha256_end(&h, digest);
    for (int i = 0; i < 6; i++)
        number = number << 8 | digest[i];
    return number != 0 ? number : 1;
}

static bool is_about_model(enum router_alert_kind kind)
{
    return kind == ROUTER_ALERT_WATCHDOG_KILL || kind == ROUTER_ALERT_WORKER_DIED ||
           kind == ROUTER_ALERT_DOWNLOAD_FAILED || kind == ROUTER_ALERT_NO_ENGINE ||
           kind == ROUTER_ALERT_MODEL_WAITING || kind == ROUTER_ALERT_MODEL_FAILED ||
           kind == ROUTER_ALERT_MODEL_DIFFERS;
}

/* The page of the dashboard that shows more: of the model, of the node, or of all nodes. */
static void put_link(struct lr_json_writer *w, const struct router_alert *a, const char *base)
{
    char page[ROUTER_ID_MAX * 3 + 400];
    const char *id = is_about_model(a->kind) ? a->subject : a->node_count > 1 ? "" : a->node;
    const char *list = is_about_model(a->kind) ? "models" : a->is_own ? "overview" : "nodes";
    size_t len = (size_t)snprintf(page, sizeof(page), "%.300s/#/%s%s", base, list,
                                  id[0] != '\0' ? "/" : "");
    for (; *id != '\0' && len + 4 < sizeof(page); id++) {
        bool is_plain = lr_str_is_plain(lr_str(id, 1), "-_.");
        len += (size_t)snprintf(page + len, sizeof(page) - len, is_plain ? "%c" : "%%%02X",
                                is_plain ? *id : (unsigned char)*id);
    }
    lr_json_member_z(w, "link", page);
}

void router_alert_put(const struct router_alerts *alerts, const struct router_alert *a,
                      const char *base, struct lr_json_writer *w)
{
    char message[ROUTER_REASON_MAX + 32];
    const struct router_silence *silence =
        router_silence_of(&alerts->silences, a->id, lr_clock_wall_ms(&router_clock));
    if (a->node_count > 1)
        (void)snprintf(message, sizeof(message), "on %zu nodes: %s", a->node_count, a->message);
    LR_JSON_MEMBERS(w, LR_UINT("id", a->id), LR_TEXT("kind", kinds[a->kind].name),
                    LR_TEXT("level", kinds[a->kind].level),
                    LR_FLAG("open", router_alert_is_open(a)), LR_TEXT("node", a->node),
                    LR_TEXT("node_name", a->node_name), LR_TEXT("subject", a->subject),
                    LR_TEXT("message", a->node_count > 1 ? message : a->message),
                    LR_TEXT("advice", kinds[a->kind].advice), LR_UINT("count", a->count),
                    LR_INT("first", a->first_ms / 1000), LR_INT("last", a->last_ms / 1000),
                    LR_INT("silenced_until", silence != NULL ? silence->until_ms / 1000 : 0),
                    LR_TEXT("silence_comment", silence != NULL ? silence->comment : ""));
    router_reason_put_text(w, "message", a->message, sizeof(a->message));
    put_link(w, a, base);
    lr_json_member_u64(w, "node_count", a->node_count);
    lr_json_member_array(w, "nodes");
    for (size_t i = a->node_count; i-- > 0 && a->node_count - i <= NODES_SHOWN;)
        LR_JSON_ITEM(w, LR_TEXT("id", a->nodes[i].id), LR_TEXT("name", a->nodes[i].name),
                     LR_TEXT("message", a->nodes[i].message),
                     LR_INT("since", a->nodes[i].since_ms / 1000));
    lr_json_end_array(w);
}

static void alerts_tell(struct router_alerts *alerts, const struct router_alert *a)
{
    router_alert_put(alerts, a, "", net_bus_begin(alerts->events, "alert"));
    net_bus_send(alerts->events);
}

static struct router_alert *alerts_find(struct router_alerts *alerts,
                                        enum router_alert_kind kind, bool is_own,
                                        struct lr_str subject)
{
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        struct router_alert *a = &alerts->all[i];
        if (a->id != 0 && a->kind == kind && a->is_own == is_own &&
            lr_str_eq_z(lr_str_sub(subject, 0, sizeof(a->subject) - 1), a->subject))
            return a;
    }
    return NULL;
}

const struct router_alert *router_alerts_find(const struct router_alerts *alerts, uint64_t id)
{
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++)
        if (alerts->all[i].id == id && id != 0)
            return &alerts->all[i];
    return NULL;
}

void router_alerts_changed(struct router_alerts *alerts, uint64_t id)
{
    const struct router_alert *a = router_alerts_find(alerts, id);
    if (a != NULL)
        alerts_tell(alerts, a);
}

static bool goes_before(const struct router_alert *a, const struct router_alert *b)
{
    bool a_open = router_alert_is_open(a), b_open = router_alert_is_open(b);
    return a_open != b_open ? !a_open : a->last_ms < b->last_ms;
}

/* What is over and oldest; where all are open, the oldest of them. */
static struct router_alert *alerts_make_room(struct router_alerts *alerts)
{
    struct router_alert *out = &alerts->all[0];
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        if (alerts->all[i].id == 0)
            return &alerts->all[i];
        if (goes_before(&alerts->all[i], out))
            out = &alerts->all[i];
    }
    free(out->nodes);
    return out;
}

void router_alerts_free(struct router_alerts *alerts)
{
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        free(alerts->all[i].nodes);
        alerts->all[i] = (struct router_alert){0};
    }
}

/* ---- the nodes of an alert ---- */

static struct router_alert_node *find_node(const struct router_alert *a, const char *id)
{
    for (size_t i = 0; i < a->node_count; i++)
        if (strcmp(a->nodes[i].id, id) == 0)
            return &a->nodes[i];
    return NULL;
}

/* The alert shows its newest node. */
static void show_newest(struct router_alert *a)
{
    const struct router_alert_node *newest = &a->nodes[a->node_count - 1];
    memcpy(a->node, newest->id, sizeof(a->node));
    memcpy(a->node_name, newest->name, sizeof(a->node_name));
    memcpy(a->message, newest->message, sizeof(a->message));
}

static void drop_node(struct router_alert *a, struct router_alert_node *node)
{
    size_t after = (size_t)(a->nodes + a->node_count - (node + 1));
    memmove(node, node + 1, after * sizeof(*node));
    a->node_count--;
}

/* The node becomes the newest.  False: there is no memory. */
static bool alerts_add_node(struct router_alert *a, const struct router_node *node,
                            const struct lr_error *why, int64_t now)
{
    struct router_alert_node *known = find_node(a, node->id);
    struct router_alert_node added = {.since_ms = known != NULL ? known->since_ms : now};
    if (known != NULL)
        drop_node(a, known);
    if (a->node_count == a->node_capacity) {
        size_t capacity = a->node_capacity != 0 ? 2 * a->node_capacity : 4;
        struct router_alert_node *grown = realloc(a->nodes, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        a->nodes = grown;
        a->node_capacity = capacity;
    }
    LR_COPY(added.id, lr_str_z(node->id));
    LR_COPY(added.name, lr_str_z(node->name));
    lr_error_copy_text(added.message, sizeof(added.message), why->text, sizeof(why->text));
    a->nodes[a->node_count++] = added;
    show_newest(a);
    return true;
}

void router_alert_raise(struct router_alerts *alerts, enum router_alert_kind kind,
                        const struct router_node *node, struct lr_str subject,
                        const struct lr_error *why)
{
    struct router_alert *a = alerts_find(alerts, kind, node == NULL, subject);
    int64_t now = lr_clock_wall_ms(&router_clock);
    if (a == NULL) {
        a = alerts_make_room(alerts);
        *a = (struct router_alert){.kind = kind, .is_own = node == NULL, .first_ms = now};
        LR_COPY(a->subject, subject);
        a->id = alerts_number_of(kind, a->is_own, lr_str_z(a->subject));
    }
    lr_error_copy_text(a->message, sizeof(a->message), why->text, sizeof(why->text));
    a->count++;
    a->last_ms = now;
    a->ended_ms = kinds[kind].is_state ? 0 : now;
    /* Without memory for its node the alert ends when it is settled the next time. */
    if (node != NULL && !alerts_add_node(a, node, why, now))
        lr_log_warn(NULL, "alert.node_lost kind=%s node=%s reason=no memory", kinds[kind].name,
                    node->id);
    if (!kinds[kind].is_state)
        a->node_count = 0;
    alerts_tell(alerts, a);
}

static void alerts_settle(struct router_alerts *alerts, struct router_alert *a)
{
    if (!router_alert_is_open(a))
        return;
    a->ended_ms = a->last_ms = lr_clock_wall_ms(&router_clock);
    alerts_tell(alerts, a);
}

static void settle_on(struct router_alerts *alerts, struct router_alert *a,
                      const struct router_node *node)
{
    struct router_alert_node *on = find_node(a, node->id);
    if (!router_alert_is_open(a) || (on == NULL && a->node_count != 0))
        return;
    if (on != NULL)
        drop_node(a, on);
    if (a->node_count == 0) {
        alerts_settle(alerts, a);
        return;
    }
    show_newest(a);
    alerts_tell(alerts, a);
}

void router_alerts_settle_gone(struct router_alerts *alerts, enum router_alert_kind kind)
{
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        struct router_alert *a = &alerts->all[i];
        if (a->id == 0 || a->kind != kind || alerts->registry == NULL ||
            router_registry_find(alerts->registry, lr_str_z(a->subject)) != NULL)
            continue;
        a->node_count = 0;
        alerts_settle(alerts, a);
    }
}

void router_alert_settle(struct router_alerts *alerts, enum router_alert_kind kind,
                         const struct router_node *node, struct lr_str subject)
{
    struct router_alert *a = alerts_find(alerts, kind, node == NULL, subject);
    if (a != NULL && node != NULL)
        settle_on(alerts, a, node);
    else if (a != NULL)
        alerts_settle(alerts, a);
}

/* Whether a new alert displaces none that is open. */
static bool alerts_has_room(const struct router_alerts *alerts)
{
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++)
        if (alerts->all[i].id == 0 || !router_alert_is_open(&alerts->all[i]))
            return true;
    return false;
}

bool router_alert_is_told(struct router_alerts *alerts, enum router_alert_kind kind,
                          const struct router_node *node, struct lr_str subject,
                          const struct lr_error *why)
{
    char shown[ROUTER_REASON_MAX];
    const struct router_alert *a = alerts_find(alerts, kind, node == NULL, subject);
    if (a == NULL)
        return !alerts_has_room(alerts);
    const struct router_alert_node *on = node != NULL ? find_node(a, node->id) : NULL;
    const char *told = node == NULL ? a->message : on != NULL ? on->message : "";
    if (why == NULL)
        return router_alert_is_open(a) && (node == NULL || on != NULL);
    LR_COPY(shown, lr_str_z(why->text));
    return router_alert_is_open(a) && strcmp(shown, told) == 0;
}

bool router_alert_watch(struct router_alerts *alerts, enum router_alert_kind kind,
                        bool is_wrong, const struct lr_error *why)
{
    struct router_alert *a = alerts_find(alerts, kind, true, lr_str_z(""));
    bool is_open = a != NULL && router_alert_is_open(a);
    if (is_wrong && !is_open)
        router_alert_raise(alerts, kind, NULL, lr_str_z(""), why);
    else if (!is_wrong && is_open)
        alerts_settle(alerts, a);
    return is_wrong && !is_open;
}

void router_alerts_settle_node(struct router_alerts *alerts, const struct router_node *node)
{
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        struct router_alert *a = &alerts->all[i];
        if (a->id != 0 && find_node(a, node->id) != NULL)
            settle_on(alerts, a, node);
    }
}

/* ---- what nodes tell ---- */

static struct lr_str alerts_text_of(const struct lr_json *event, const char *name)
{
    struct lr_str text = {0};
    (void)lr_json_str(lr_json_get(event, name), &text);
    return text;
}

/* The error that a member of an event says; its identity stands beside it. */
static struct lr_error told_by(const struct lr_json *event, const char *name)
{
    struct lr_error told;
    wire_error_heard(&told, LR_UNAVAILABLE, alerts_text_of(event, name),
                     alerts_text_of(event, WIRE_EVENT_ERROR_ID));
    return told;
}

/* A model that is to be fetched and is not.  Without an engine the node does not even begin: no
 * disk and no network would help. */
static void hear_absence(struct router_alerts *alerts, const struct router_node *node,
                         const struct lr_json *event)
{
    struct lr_str model = alerts_text_of(event, "model"),
                  state = alerts_text_of(event, "state"), from = alerts_text_of(event, "from");
    struct lr_error why = told_by(event, "reason");
    bool is_absent = lr_str_eq_z(state, "absent");
    bool is_trying = lr_str_eq_z(state, "fetching") || lr_str_eq_z(state, "verifying");
    bool is_wanted =
        alerts->registry == NULL || router_registry_find(alerts->registry, model) != NULL;
    bool is_trouble = is_absent && why.text[0] != '\0' && is_wanted;
    bool lacks_engine = lr_str_eq_z(alerts_text_of(event, "code"), "UNSUPPORTED");
    if (is_trouble && lacks_engine)
        router_alert_raise(alerts, ROUTER_ALERT_NO_ENGINE, node, model, &why);
    else
        router_alert_settle(alerts, ROUTER_ALERT_NO_ENGINE, node, model);
    if (is_trouble && !lacks_engine &&
        (lr_str_eq_z(from, "fetching") || lr_str_eq_z(from, "absent")))
        router_alert_raise(alerts, ROUTER_ALERT_DOWNLOAD_FAILED, node, model, &why);
    else if (!is_wanted || (!is_trying && !is_absent)) /* trying again is not yet success */
        router_alert_settle(alerts, ROUTER_ALERT_DOWNLOAD_FAILED, node, model);
}

static void hear_model(struct router_alerts *alerts, const struct router_node *node,
                       const struct lr_json *event)
{
    struct lr_str model = alerts_text_of(event, "model"),
                  state = alerts_text_of(event, "state");
    struct lr_error why = told_by(event, "reason");
    if (lr_str_eq_z(state, "failed"))
        router_alert_raise(alerts, ROUTER_ALERT_MODEL_FAILED, node, model, &why);
    else
        router_alert_settle(alerts, ROUTER_ALERT_MODEL_FAILED, node, model);
    if (lr_str_eq_z(state, "waiting"))
        router_alert_raise(alerts, ROUTER_ALERT_MODEL_WAITING, node, model, &why);
    else if (!lr_str_eq_z(state, "starting") && !lr_str_eq_z(state, "loading"))
        router_alert_settle(alerts, ROUTER_ALERT_MODEL_WAITING, node,
                            model);     /* a try is no success */
    if (lr_str_eq_z(state, "absent")) { /* nobody will serve with it */
        router_alert_settle(alerts, ROUTER_ALERT_WORKER_DIED, node, model);
        router_alert_settle(alerts, ROUTER_ALERT_WATCHDOG_KILL, node, model);
    }
    hear_absence(alerts, node, event);
}

static void hear_memory(struct router_alerts *alerts, const struct router_node *node,
                        const struct lr_json *event)
{
    struct lr_error why;
    char used_text[32], total_text[32];
    uint64_t used = 0, total = 0;
    struct lr_str pool = alerts_text_of(event, "pool");
    (void)lr_json_u64(lr_json_get(event, "used"), &used);
    (void)lr_json_u64(lr_json_get(event, "total"), &total);
    lr_format_size(used, used_text);
    lr_format_size(total, total_text);
    (void)lr_fail_as(&why, memory_full, used_text, total_text, node->name);
    router_alert_raise(alerts, ROUTER_ALERT_MEMORY_ALERT, node, pool, &why);
}

static void hear_kill(struct router_alerts *alerts, const struct router_node *node,
                      const struct lr_json *event)
{
    struct lr_error why;
    uint64_t silent = 0;
    (void)lr_json_u64(lr_json_get(event, "silent_ms"), &silent);
    (void)lr_fail_as(&why, no_progress, silent);
    router_alert_raise(alerts, ROUTER_ALERT_WATCHDOG_KILL, node, alerts_text_of(event, "model"),
                       &why);
}

/* The event and the heartbeat's figures both say it; once is enough. */
static void hear_fault(struct router_alerts *alerts, const struct router_node *node,
                       struct lr_str pool, const struct lr_error *why)
{
    const struct router_alert *a = alerts_find(alerts, ROUTER_ALERT_GPU_FAULTY, false, pool);
    if (a == NULL || !router_alert_is_open(a) || find_node(a, node->id) == NULL)
        router_alert_raise(alerts, ROUTER_ALERT_GPU_FAULTY, node, pool, why);
}

/* A disk that is full or broken is no fault of the engine's build.  A node of an older release
 * tells no code. */
static void hear_refused(struct router_alerts *alerts, const struct router_node *node,
                         const struct lr_json *event)
{
    struct lr_str engine = alerts_text_of(event, "engine");
    struct lr_error why = told_by(event, "reason");
    bool is_disk = lr_str_eq_z(alerts_text_of(event, "code"), lr_code_name(LR_IO));
    router_alert_settle(
        alerts, is_disk ? ROUTER_ALERT_ENGINE_REFUSED : ROUTER_ALERT_ENGINE_DISK, node, engine);
    router_alert_raise(alerts, is_disk ? ROUTER_ALERT_ENGINE_DISK : ROUTER_ALERT_ENGINE_REFUSED,
                       node, engine, &why);
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
    {"worker_died", ROUTER_ALERT_WORKER_DIED, "model", "how"},
    {"reloaded", ROUTER_ALERT_ENGINE_REFUSED, "engine", NULL},
    {"reloaded", ROUTER_ALERT_ENGINE_DISK, "engine", NULL},
    {"reload_failed", ROUTER_ALERT_RELOAD_FAILED, "engine", "reason"},
    {"reload_refused", ROUTER_ALERT_RELOAD_FAILED, "engine", "reason"},
    {"certificate_ends", ROUTER_ALERT_CERTIFICATE_ENDS, "", "reason"},
    {"certificate_renewed", ROUTER_ALERT_CERTIFICATE_ENDS, "", NULL},
};

/* What an event of a node means for alerts. */
static void alerts_hear(struct router_alerts *alerts, const struct router_node *node,
                        const struct lr_json *event)
{
    struct lr_str name = alerts_text_of(event, "event");
    struct lr_error why;
    if (lr_str_eq_z(name, "model"))
        hear_model(alerts, node, event);
    else if (lr_str_eq_z(name, "memory_alert"))
        hear_memory(alerts, node, event);
    else if (lr_str_eq_z(name, "watchdog_kill"))
        hear_kill(alerts, node, event);
    else if (lr_str_eq_z(name, "engine_refused"))
        hear_refused(alerts, node, event);
    else if (lr_str_eq_z(name, "gpu_faulty")) {
        why = told_by(event, "reason");
        hear_fault(alerts, node, alerts_text_of(event, "pool"), &why);
    }
    for (size_t i = 0; i < sizeof(meanings) / sizeof(meanings[0]); i++) {
        if (!lr_str_eq_z(name, meanings[i].event))
            continue;
        struct lr_str subject = alerts_text_of(event, meanings[i].subject);
        if (meanings[i].message == NULL) {
            router_alert_settle(alerts, meanings[i].kind, node, subject);
            continue;
        }
        why = told_by(event, meanings[i].message);
        router_alert_raise(alerts, meanings[i].kind, node, subject, &why);
    }
}

/* The members of an event about a node follow. */
static struct lr_json_writer *alerts_begin(struct router_alerts *alerts,
                                           const struct router_node *node, const char *event)
{
    struct lr_json_writer *w = net_bus_begin(alerts->events, event);
    LR_JSON_MEMBERS(w, LR_TEXT("node", node->id), LR_TEXT("name", node->name));
    return w;
}

void router_alerts_tell(struct router_alerts *alerts, const struct router_node *node,
                        const char *event)
{
    (void)alerts_begin(alerts, node, event);
    net_bus_send(alerts->events);
    if (router_node_is_online(node))
        router_alert_settle(alerts, ROUTER_ALERT_NODE_OFFLINE, node, lr_str_z(""));
}

void router_alerts_silent(struct router_alerts *alerts, const struct router_node *node,
                          uint64_t silent_ms)
{
    struct lr_error why;
    (void)lr_fail_as(&why, node_silent, node->name, silent_ms);
    /* A node that said it would leave is not missed, nor is what was wrong with it. */
    if (node->is_draining)
        router_alerts_settle_node(alerts, node);
    else
        router_alert_raise(alerts, ROUTER_ALERT_NODE_OFFLINE, node, lr_str_z(""), &why);
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
    struct lr_json_writer *w = alerts_begin(alerts, node, name);
    for (uint32_t i = 0; i < event->count; i++) {
        struct lr_str key = event->members[i].key;
        if (lr_str_eq_z(key, "event") || lr_str_eq_z(key, "time") || lr_str_eq_z(key, "node") ||
            lr_str_eq_z(key, "name") || lr_str_eq_z(key, WIRE_EVENT_ERROR_ID))
            continue;
        lr_json_key_str(w, key);
        lr_json_put_value(w, &event->members[i].value);
    }
    net_bus_send(alerts->events);
    alerts_hear(alerts, node, event);
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

/* A model without a request, whether its worker is ready again or was not needed any more:
 * nothing is wrong with it now, and no request may come that would show it. */
static void settle_idle(struct router_alerts *alerts, const struct router_node *node,
                        const struct wire_heartbeat *heartbeat)
{
    for (size_t i = 0; i < heartbeat->model_count; i++) {
        const struct wire_fleet_model *m = &heartbeat->models[i];
        bool rests = lr_str_eq_z(m->state, "ready") || lr_str_eq_z(m->state, "present");
        if (!rests || m->live != 0 || m->queued != 0)
            continue;
        router_alert_settle(alerts, ROUTER_ALERT_WORKER_DIED, node, m->id);
        router_alert_settle(alerts, ROUTER_ALERT_WATCHDOG_KILL, node, m->id);
    }
}

/* Whether an alert about a worker is open anywhere: most heartbeats need no further look. */
static bool has_open_worker_alert(const struct router_alerts *alerts)
{
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        const struct router_alert *a = &alerts->all[i];
        if (a->id != 0 && router_alert_is_open(a) &&
            (a->kind == ROUTER_ALERT_WORKER_DIED || a->kind == ROUTER_ALERT_WATCHDOG_KILL))
            return true;
    }
    return false;
}

static bool has_faulty(const struct wire_heartbeat *heartbeat, const struct router_alert *a)
{
    for (size_t i = 0; i < heartbeat->pool_count; i++) {
        struct lr_str name = lr_str_sub(heartbeat->pools[i].name, 0, sizeof(a->subject) - 1);
        if (heartbeat->pools[i].gpu.is_faulty && lr_str_eq_z(name, a->subject))
            return true;
    }
    return false;
}

/* A node tells the event of a faulty GPU once, and keeps few events: a router that was started
 * later may not get it.  Every heartbeat says which GPUs are faulty. */
static void follow_faults(struct router_alerts *alerts, const struct router_node *node,
                          const struct wire_heartbeat *heartbeat)
{
    char reason[ROUTER_REASON_MAX];
    struct lr_error told;
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        struct router_alert *a = &alerts->all[i];
        if (a->id != 0 && a->kind == ROUTER_ALERT_GPU_FAULTY &&
            find_node(a, node->id) != NULL && !has_faulty(heartbeat, a))
            settle_on(alerts, a, node);
    }
    for (size_t i = 0; i < heartbeat->pool_count; i++) {
        const struct wire_fleet_pool *pool = &heartbeat->pools[i];
        struct lr_str why =
            pool->fault.len != 0 ? pool->fault : lr_str_z("it had an error of the hardware");
        /* Where all alerts are open, GPUs would displace each other with every heartbeat. */
        if (!pool->gpu.is_faulty ||
            (!alerts_has_room(alerts) &&
             alerts_find(alerts, ROUTER_ALERT_GPU_FAULTY, false, pool->name) == NULL))
            continue;
        (void)snprintf(reason, sizeof(reason), LR_STR_FMT " (" LR_STR_FMT "): " LR_STR_FMT,
                       LR_STR_ARG(pool->title), LR_STR_ARG(pool->name), LR_STR_ARG(why));
        wire_error_heard(&told, LR_UNAVAILABLE, lr_str_z(reason), (struct lr_str){0});
        hear_fault(alerts, node, pool->name, &told);
    }
}

void router_alerts_heartbeat(struct router_alerts *alerts, struct router_node *node,
                             const struct wire_heartbeat *heartbeat)
{
    hear_events(alerts, node, heartbeat);
    follow_faults(alerts, node, heartbeat);
    if (has_open_worker_alert(alerts))
        settle_idle(alerts, node, heartbeat);
    for (size_t i = 0; alerts->events->subscriber_count != 0 && i < heartbeat->download_count;
         i++) {
        const struct wire_fleet_download *d = &heartbeat->downloads[i];
        struct lr_json_writer *w = alerts_begin(alerts, node, "download");
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
        router_alert_put(alerts, sorted[i], "", w);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
}

void router_alerts_metrics(const struct router_alerts *alerts, struct lr_buf *out)
{
    int64_t now = lr_clock_wall_ms(&router_clock);
    size_t open[sizeof(kinds) / sizeof(kinds[0])] = {0};
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        const struct router_alert *a = &alerts->all[i];
        open[a->kind] += a->id != 0 && router_alert_is_open(a) &&
                         router_silence_of(&alerts->silences, a->id, now) == NULL;
    }
    lr_metric_head(out, "llm_router_", "alerts", "gauge", "Open alerts that are not silenced");
    for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
        lr_buf_addf(out, "llm_router_alerts{kind=\"%s\",level=\"%s\"} %zu\n", kinds[k].name,
                    kinds[k].level, open[k]);
}
