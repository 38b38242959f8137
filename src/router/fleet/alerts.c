#include "router/fleet/alerts.h"

#include <stdio.h>

#include "router/state.h"

static const struct {
    const char *name, *level, *advice;
    bool is_state;
} kinds[] = {
#define X(name, level, is_state, advice) {#name, level, advice, is_state},
    ROUTER_ALERT_MAP(X)
#undef X
};

/* "node_offline": what programs and translations know it by. */
static void put_kind(struct lr_json_writer *w, enum router_alert_kind kind)
{
    char text[32];
    size_t i = 0;
    for (const char *c = kinds[kind].name; *c != '\0' && i + 1 < sizeof(text); c++)
        text[i++] = *c == '_' ? '_' : (char)(*c | 0x20);
    text[i] = '\0';
    lr_json_member_z(w, "kind", text);
}

static void put_alert(struct lr_json_writer *w, const struct router_alert *a)
{
    lr_json_member_u64(w, "id", a->id);
    put_kind(w, a->kind);
    lr_json_member_z(w, "level", kinds[a->kind].level);
    lr_json_member_bool(w, "open", a->ended_ms == 0);
    lr_json_member_z(w, "node", a->node);
    lr_json_member_z(w, "node_name", a->node_name);
    lr_json_member_z(w, "subject", a->subject);
    lr_json_member_z(w, "message", a->message);
    lr_json_member_z(w, "advice", kinds[a->kind].advice);
    lr_json_member_u64(w, "count", a->count);
    lr_json_member_i64(w, "first", a->first_ms / 1000);
    lr_json_member_i64(w, "last", a->last_ms / 1000);
}

static void tell(struct router *r, const struct router_alert *a)
{
    put_alert(net_bus_begin(&r->events, "alert"), a);
    net_bus_send(&r->events);
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

void router_alert_raise(struct router *r, enum router_alert_kind kind,
                        const struct router_node *node, struct lr_str subject,
                        struct lr_str message)
{
    struct router_alert *a = find(&r->alerts, kind, id_of(node), subject);
    int64_t now = lr_clock_wall_ms(NULL);
    if (a == NULL) {
        a = make_room(&r->alerts);
        *a = (struct router_alert){.id = ++r->alerts.next_id, .kind = kind, .first_ms = now};
        (void)snprintf(a->node, sizeof(a->node), "%s", id_of(node));
        (void)snprintf(a->subject, sizeof(a->subject), LR_STR_FMT,
                       LR_STR_ARG(lr_str_sub(subject, 0, sizeof(a->subject) - 1)));
    }
    (void)snprintf(a->node_name, sizeof(a->node_name), "%s", node != NULL ? node->name : "");
    (void)snprintf(a->message, sizeof(a->message), LR_STR_FMT,
                   LR_STR_ARG(lr_str_sub(message, 0, sizeof(a->message) - 1)));
    a->count++;
    a->last_ms = now;
    a->ended_ms = kinds[kind].is_state ? 0 : now;
    tell(r, a);
}

static void settle(struct router *r, struct router_alert *a)
{
    if (a->ended_ms != 0)
        return;
    a->ended_ms = a->last_ms = lr_clock_wall_ms(NULL);
    tell(r, a);
}

void router_alert_settle(struct router *r, enum router_alert_kind kind,
                         const struct router_node *node, struct lr_str subject)
{
    struct router_alert *a = find(&r->alerts, kind, id_of(node), subject);
    if (a != NULL)
        settle(r, a);
}

void router_alerts_settle_node(struct router *r, const struct router_node *node)
{
    for (size_t i = 0; i < ROUTER_ALERTS_MAX; i++) {
        struct router_alert *a = &r->alerts.all[i];
        if (a->id != 0 && strcmp(a->node, node->id) == 0)
            settle(r, a);
    }
}

/* ---- what nodes tell ---- */

static struct lr_str text_of(const struct lr_json *event, const char *name)
{
    struct lr_str text = {0};
    (void)lr_json_str(lr_json_get(event, name), &text);
    return text;
}

/* What was wrong with a model's workers is over. */
static void settle_deaths(struct router *r, const struct router_node *node, struct lr_str model)
{
    router_alert_settle(r, ROUTER_ALERT_WORKER_DIED, node, model);
    router_alert_settle(r, ROUTER_ALERT_WATCHDOG_KILL, node, model);
}

static void hear_model(struct router *r, const struct router_node *node,
                       const struct lr_json *event)
{
    struct lr_str model = text_of(event, "model"), state = text_of(event, "state"),
                  from = text_of(event, "from"), reason = text_of(event, "reason");
    bool is_fetching = lr_str_eq_z(state, "fetching"), is_absent = lr_str_eq_z(state, "absent");
    if (lr_str_eq_z(state, "failed"))
        router_alert_raise(r, ROUTER_ALERT_MODEL_FAILED, node, model, reason);
    else
        router_alert_settle(r, ROUTER_ALERT_MODEL_FAILED, node, model);
    if (lr_str_eq_z(state, "waiting"))
        router_alert_raise(r, ROUTER_ALERT_MODEL_WAITING, node, model, reason);
    else if (!lr_str_eq_z(state, "starting") && !lr_str_eq_z(state, "loading"))
        router_alert_settle(r, ROUTER_ALERT_MODEL_WAITING, node,
                            model); /* a try is no success */
    if (is_absent)                  /* nobody will serve with it */
        settle_deaths(r, node, model);
    if (is_absent && reason.len != 0 &&
        (lr_str_eq_z(from, "fetching") || lr_str_eq_z(from, "absent")))
        router_alert_raise(r, ROUTER_ALERT_DOWNLOAD_FAILED, node, model, reason);
    else if (!is_fetching && !is_absent) /* trying again is not yet success */
        router_alert_settle(r, ROUTER_ALERT_DOWNLOAD_FAILED, node, model);
}

static void hear_memory(struct router *r, const struct router_node *node,
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
    router_alert_raise(r, ROUTER_ALERT_MEMORY_ALERT, node, pool, lr_str_z(text));
}

static void hear_kill(struct router *r, const struct router_node *node,
                      const struct lr_json *event)
{
    char text[160];
    uint64_t silent = 0;
    (void)lr_json_u64(lr_json_get(event, "silent_ms"), &silent);
    (void)snprintf(text, sizeof(text), "the engine made no progress for %llu ms and was killed",
                   (unsigned long long)silent);
    router_alert_raise(r, ROUTER_ALERT_WATCHDOG_KILL, node, text_of(event, "model"),
                       lr_str_z(text));
}

void router_alerts_hear(struct router *r, const struct router_node *node,
                        const struct lr_json *event)
{
    struct lr_str name = text_of(event, "event"), engine = text_of(event, "engine"),
                  reason = text_of(event, "reason");
    if (lr_str_eq_z(name, "model"))
        hear_model(r, node, event);
    else if (lr_str_eq_z(name, "model_served"))
        settle_deaths(r, node, text_of(event, "model"));
    else if (lr_str_eq_z(name, "memory_alert"))
        hear_memory(r, node, event);
    else if (lr_str_eq_z(name, "memory_relieved"))
        router_alert_settle(r, ROUTER_ALERT_MEMORY_ALERT, node, text_of(event, "pool"));
    else if (lr_str_eq_z(name, "watchdog_kill"))
        hear_kill(r, node, event);
    else if (lr_str_eq_z(name, "worker_died"))
        router_alert_raise(r, ROUTER_ALERT_WORKER_DIED, node, text_of(event, "model"),
                           text_of(event, "how"));
    else if (lr_str_eq_z(name, "engine_refused"))
        router_alert_raise(r, ROUTER_ALERT_ENGINE_REFUSED, node, engine, reason);
    else if (lr_str_eq_z(name, "reload_failed") || lr_str_eq_z(name, "reload_refused"))
        router_alert_raise(r, ROUTER_ALERT_RELOAD_FAILED, node, engine, reason);
    else if (lr_str_eq_z(name, "certificate_ends"))
        router_alert_raise(r, ROUTER_ALERT_CERTIFICATE_ENDS, node, lr_str_z(""), reason);
    else if (lr_str_eq_z(name, "certificate_renewed"))
        router_alert_settle(r, ROUTER_ALERT_CERTIFICATE_ENDS, node, lr_str_z(""));
    else if (lr_str_eq_z(name, "reloaded"))
        router_alert_settle(r, ROUTER_ALERT_ENGINE_REFUSED, node, engine);
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
    lr_json_key(w, "alerts");
    lr_json_begin_array(w);
    for (size_t i = 0; i < count; i++) {
        lr_json_begin_object(w);
        put_alert(w, sorted[i]);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
}
