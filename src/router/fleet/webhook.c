#include "router/fleet/webhook.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/base64.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/machine.h"
#include "base/sha256.h"
#include "net/url.h"
#include "router/fleet/alerts.h"
#include "router/store/clock.h"
#include "router/store/outbox.h"

enum {
    BODY_BYTES = 256 << 10,
    CONNECT_MS = 5000,
    ANSWER_MS = 10000,
    FIRST_PAUSE_MS = 1000,
    LONGEST_PAUSE_MS = 5 * 60 * 1000,
    POLL_MS = 2000,   /* for messages that other routers have written */
    GRACE_FACTOR = 4, /* of node-timeout: a node that lives has come back by then */
    BAD_FAILURES = 3, /* in a row: an alert says so */
};

#define TO(name) LR_STATE(ROUTER_WEBHOOK_##name)
static const struct lr_machine machine = {
    "webhook",
    {
        [ROUTER_WEBHOOK_IDLE] = {"idle", TO(ASKING) | TO(SENDING)},
        [ROUTER_WEBHOOK_ASKING] = {"asking", TO(IDLE)},
        [ROUTER_WEBHOOK_SENDING] = {"sending", TO(IDLE)},
    },
};

static void webhook_move(struct router_webhook *w, enum router_webhook_state state)
{
    w->state =
        lr_machine_allows(&machine, "webhook", w->state, state) ? state : ROUTER_WEBHOOK_IDLE;
}

/* ---- settings, start, end ---- */

lr_code router_webhook_init(struct router_webhook *w, const struct lr_settings *settings,
                            struct lr_error *err)
{
    struct net_url url;
    w->url = lr_settings_str(settings, "alert-webhook");
    w->grace_ms = GRACE_FACTOR * lr_settings_ms(settings, "node-timeout");
    w->started_ms = lr_clock_ms(NULL);
    lr_code code =
        lr_settings_secret(settings, "alert-webhook-secret", w->secret, sizeof(w->secret), err);
    if (code != LR_OK || w->url == NULL)
        return code;
    if (net_url_parse(w->url, &url, err) != LR_OK)
        return lr_fail_prefix(err, "setting alert-webhook");
    /* Receivers have certificates of public CAs, whatever the fleet's own CA is. */
    return net_client_create(w->net, &(struct net_client_config){0}, &w->client, err);
}

void router_webhook_stop(struct router_webhook *w)
{
    net_client_destroy(w->client);
    w->client = NULL;
}

static void free_changes(struct router_webhook *w)
{
    for (size_t i = 0; i < w->change_count; i++)
        free(w->changes[i].body);
    w->change_count = 0;
}

void router_webhook_free(struct router_webhook *w)
{
    free_changes(w);
    free(w->changes);
    free(w->told);
    free(w->message);
}

/* ---- messages ---- */

/* A message about an alert; NULL: no memory.  `alert` NULL: this router has forgotten it. */
static char *make_body(const struct router_webhook *w, const struct router_webhook_change *c,
                       const struct router_alert *alert)
{
    char time[LR_TIME_TEXT_LEN + 1];
    struct lr_json_writer json;
    struct lr_buf out;
    lr_time_format(lr_clock_wall_ms(&router_clock), time);
    lr_buf_init(&out, BODY_BYTES);
    lr_json_writer_init(&json, &out);
    lr_json_begin_object(&json);
    LR_JSON_MEMBERS(&json, LR_TEXT("type", c->opens ? "alert.opened" : "alert.resolved"),
                    LR_TEXT("timestamp", time), LR_TEXT("router", w->sync->own_url));
    lr_json_member_object(&json, "data");
    if (alert != NULL)
        router_alert_put(w->alerts, alert, w->sync->own_url, &json);
    else
        LR_JSON_MEMBERS(&json, LR_UINT("id", c->alert), LR_TEXT("kind", c->kind),
                        LR_TEXT("subject", c->subject), LR_FLAG("open", false));
    lr_json_end_object(&json);
    lr_json_end_object(&json);
    char *body = out.failed ? NULL : strdup(lr_buf_z(&out));
    lr_buf_free(&out);
    return body;
}

static bool is_told(const struct router_webhook *w, uint64_t alert)
{
    for (size_t i = 0; i < w->told_count; i++)
        if (w->told[i].alert == alert)
            return true;
    return false;
}

static void add_change(struct router_webhook *w, uint64_t id, bool opens, const char *kind,
                       const char *subject, const struct router_alert *alert)
{
    struct router_webhook_change *c = &w->changes[w->change_count];
    *c = (struct router_webhook_change){.alert = id, .opens = opens};
    LR_COPY(c->kind, lr_str_z(kind));
    LR_COPY(c->subject, lr_str_z(subject));
    c->body = make_body(w, c, alert);
    w->change_count += c->body != NULL; /* without memory: the next second */
}

/* The database cannot keep the news that it fails: send_own tells them.  News about the webhook
 * would come when they are over. */
static bool is_kept(const struct router_alert *a)
{
    return a->id != 0 && a->kind != ROUTER_ALERT_DATABASE_FAILED &&
           a->kind != ROUTER_ALERT_WEBHOOK_FAILED;
}

/* An alert that was told before this process began is over once the nodes had time to tell it
 * again; that a node is silent is told by nobody. */
static bool is_forgotten(const struct router_webhook *w, const struct router_webhook_told *told,
                         bool knows_all)
{
    const struct router_node *node;
    if (strcmp(told->kind, router_alert_kind_name(ROUTER_ALERT_NODE_OFFLINE)) != 0)
        return knows_all;
    for (size_t at = 0; (node = router_nodes_next(w->sync->nodes, &at)) != NULL;)
        if (!router_node_is_online(node))
            return false;
    return knows_all;
}

/* Lock held. */
static void find_changes(struct router_webhook *w, uint64_t now)
{
    int64_t wall = lr_clock_wall_ms(&router_clock);
    bool knows_all = lr_elapsed(w->started_ms, now) >= w->grace_ms;
    size_t most = ROUTER_ALERTS_MAX + w->told_count;
    free(w->changes);
    w->changes = calloc(most, sizeof(*w->changes));
    for (size_t i = 0; w->changes != NULL && i < ROUTER_ALERTS_MAX; i++) {
        const struct router_alert *a = &w->alerts->all[i];
        if (is_kept(a) && router_alert_is_open(a) && !is_told(w, a->id) &&
            router_silence_of(&w->alerts->silences, a->id, wall) == NULL)
            add_change(w, a->id, true, router_alert_kind_name(a->kind), a->subject, a);
    }
    for (size_t i = 0; w->changes != NULL && i < w->told_count; i++) {
        const struct router_webhook_told *told = &w->told[i];
        const struct router_alert *a = router_alerts_find(w->alerts, told->alert);
        if (a != NULL ? !router_alert_is_open(a) : is_forgotten(w, told, knows_all))
            add_change(w, told->alert, false, told->kind, told->subject, a);
    }
}

/* ---- asking: on the database's thread, which has the members until it is done ---- */

static void take_told(void *ctx, uint64_t alert, struct lr_str kind, struct lr_str subject)
{
    struct router_webhook *w = ctx;
    if (w->told_count == w->told_capacity) {
        size_t capacity = w->told_capacity != 0 ? 2 * w->told_capacity : 16;
        struct router_webhook_told *grown = realloc(w->told, capacity * sizeof(*grown));
        if (grown == NULL)
            return; /* told once more, then */
        w->told = grown;
        w->told_capacity = capacity;
    }
    struct router_webhook_told *told = &w->told[w->told_count++];
    *told = (struct router_webhook_told){.alert = alert};
    LR_COPY(told->kind, kind);
    LR_COPY(told->subject, subject);
}

static void take_message(void *ctx, int64_t id, struct lr_str body)
{
    struct router_webhook *w = ctx;
    if (!w->sends)
        return;
    w->message = strndup(body.ptr, body.len);
    w->message_id = w->message != NULL ? id : 0;
}

/* Of a database of its own the router need not tell its rows from those of others, and finds
 * them also where it has another address after a restart. */
static const char *own_name(const struct router_webhook *w)
{
    return router_store_is_shared(w->store) ? w->sync->own_url : "";
}

static lr_code webhook_ask(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct router_webhook *w = arg;
    const char *alive[ROUTER_FLEET_MAX], *own = own_name(w);
    int64_t waiting = 0;
    lr_code code = LR_OK;
    for (size_t i = 0; i < w->router_count; i++)
        alive[i] = w->routers[i];
    if (w->taken_id != 0)
        code = router_outbox_remove(sql, w->taken_id, err);
    for (size_t i = 0; code == LR_OK && i < w->change_count; i++) {
        const struct router_webhook_change *c = &w->changes[i];
        struct router_told told = {c->alert, c->kind, c->subject, c->body};
        code = c->opens ? router_told_open(sql, own, &told, err)
                        : router_told_end(sql, own, &told, err);
    }
    if (code == LR_OK && w->sends && w->router_count != 0)
        code = router_told_claim_orphans(sql, own, alive, w->router_count, err);
    w->told_count = 0;
    if (code == LR_OK)
        code = router_told_read(sql, own, take_told, w, err);
    if (code == LR_OK)
        code = router_outbox_first(sql, take_message, w, &waiting, err);
    atomic_store(&w->waiting, (uint64_t)waiting);
    return code;
}

/* ---- sending ---- */

void router_webhook_sign(struct lr_str secret, const char *id, int64_t time_s,
                         struct lr_str body, struct lr_buf *out)
{
    unsigned char digest[LR_SHA256_LEN];
    char time[32];
    (void)snprintf(time, sizeof(time), ".%lld.", (long long)time_s);
    const struct lr_str parts[] = {lr_str_z(id), lr_str_z(time), body};
    lr_hmac_sha256(secret, parts, 3, digest);
    lr_buf_add_z(out, "v1,");
    lr_base64_add(out, digest, sizeof(digest));
}

static void step(struct router_webhook *w);

static void webhook_fail(struct router_webhook *w, const char *why)
{
    uint64_t pause = FIRST_PAUSE_MS;
    for (unsigned i = 0; i < w->failures && pause < LONGEST_PAUSE_MS; i++)
        pause *= 2;
    atomic_fetch_add(&w->failed, 1);
    w->failures++;
    w->due_ms = lr_clock_ms(NULL) + (pause < LONGEST_PAUSE_MS ? pause : LONGEST_PAUSE_MS);
    (void)snprintf(w->trouble, sizeof(w->trouble), "%s", why);
    if (w->failures == 1 || w->failures % 10 == 0)
        lr_log_warn(NULL, "webhook.failed failures=%u reason=%s", w->failures, why);
}

static void webhook_on_reply(void *arg, const struct lr_error *err,
                             const struct net_reply *reply)
{
    struct router_webhook *w = arg;
    char why[80];
    webhook_move(w, ROUTER_WEBHOOK_IDLE);
    if (err == NULL && reply->status >= 200 && reply->status < 300) {
        if (w->failures != 0)
            lr_log_info(NULL, "webhook.works failures=%u", w->failures);
        atomic_fetch_add(&w->delivered, 1);
        w->failures = 0;
        w->due_ms = 0;
        if (w->message_id != 0)
            w->taken_id = w->message_id;
        else
            w->has_told_database = !w->has_told_database;
    } else {
        (void)snprintf(why, sizeof(why), "the receiver answered %d",
                       err == NULL ? reply->status : 0);
        webhook_fail(w, err != NULL ? err->text : why);
    }
    free(w->message);
    w->message = NULL;
    w->message_id = 0;
    if (w->failures == 0)
        step(w); /* the next message */
}

/* Sends w->message.  id: the same at every try, so that a receiver knows a repeated message. */
static void post(struct router_webhook *w, const char *id)
{
    int64_t now_s = lr_clock_wall_ms(&router_clock) / 1000;
    struct lr_str body = lr_str_z(w->message);
    struct lr_buf signature;
    struct lr_error err;
    char time[24];
    lr_buf_init(&signature, 128);
    (void)snprintf(time, sizeof(time), "%lld", (long long)now_s);
    if (w->secret[0] != '\0')
        router_webhook_sign(lr_str_z(w->secret), id, now_s, body, &signature);
    const struct net_header headers[] = {
        {LR_STR_LIT("webhook-id"), lr_str_z(id)},
        {LR_STR_LIT("webhook-timestamp"), lr_str_z(time)},
        {LR_STR_LIT("webhook-signature"), lr_buf_str(&signature)}};
    struct net_call_config config = {
        .method = "POST",
        .url = w->url,
        .headers = headers,
        .header_count = w->secret[0] != '\0' ? 3 : 2,
        .content_type = "application/json",
        .body = body,
        .max_response_bytes = 64 << 10,
        .connect_timeout_ms = CONNECT_MS,
        .response_timeout_ms = ANSWER_MS,
        .idle_timeout_ms = ANSWER_MS,
    };
    webhook_move(w, ROUTER_WEBHOOK_SENDING);
    if (net_fetch(w->client, &config, webhook_on_reply, w, NULL, &err) != LR_OK)
        webhook_on_reply(w, &err, NULL);
    lr_buf_free(&signature);
}

static void send_message(struct router_webhook *w)
{
    char id[48];
    (void)snprintf(id, sizeof(id), "alert-message-%lld", (long long)w->message_id);
    post(w, id);
}

/* The news that the database fails, or works again, cannot wait in the database.  True: they
 * are on their way. */
static bool send_own(struct router_webhook *w)
{
    const struct router_alert *a = NULL;
    struct router_webhook_change c = {.opens = !w->has_told_database};
    char id[64];
    (void)pthread_mutex_lock(w->lock);
    for (size_t i = 0; i < ROUTER_ALERTS_MAX && a == NULL; i++)
        if (w->alerts->all[i].id != 0 && w->alerts->all[i].kind == ROUTER_ALERT_DATABASE_FAILED)
            a = &w->alerts->all[i];
    bool is_news = a != NULL && router_alert_is_open(a) != w->has_told_database;
    if (is_news)
        w->message = make_body(w, &c, a);
    (void)snprintf(id, sizeof(id), "alert-database-%lld-%s",
                   a != NULL ? (long long)a->last_ms : 0, c.opens ? "opened" : "resolved");
    (void)pthread_mutex_unlock(w->lock);
    if (w->message == NULL)
        return false;
    post(w, id);
    return true;
}

/* ---- step by step ---- */

static void asked(void *arg, const struct lr_error *err)
{
    struct router_webhook *w = arg;
    webhook_move(w, ROUTER_WEBHOOK_IDLE);
    free_changes(w);
    w->is_loaded = err == NULL;
    if (err == NULL)
        w->taken_id = 0;
    if (w->message == NULL)
        return;
    if (err == NULL && w->client != NULL) {
        send_message(w);
        return;
    }
    free(w->message);
    w->message = NULL;
    w->message_id = 0;
}

static void step(struct router_webhook *w)
{
    uint64_t now = lr_clock_ms(NULL);
    bool is_due = now >= w->due_ms, is_shared = router_store_is_shared(w->store);
    if (is_due && send_own(w))
        return;
    (void)pthread_mutex_lock(w->lock);
    if (w->is_loaded)
        find_changes(w, now);
    bool is_first = strcmp(w->sync->urls[0], w->sync->own_url) == 0;
    w->router_count = is_shared ? w->sync->url_count : 0;
    memcpy(w->routers, w->sync->urls, sizeof(w->routers));
    (void)pthread_mutex_unlock(w->lock);
    /* A router that has just started knows the others after its first look at the database. */
    w->sends =
        is_due && is_first && (!is_shared || lr_elapsed(w->started_ms, now) >= 2 * POLL_MS);
    bool may_wait =
        atomic_load(&w->waiting) != 0 || (is_shared && lr_elapsed(w->asked_ms, now) >= POLL_MS);
    if (w->is_loaded && w->change_count == 0 && w->taken_id == 0 && !(w->sends && may_wait))
        return;
    w->asked_ms = now;
    webhook_move(w, ROUTER_WEBHOOK_ASKING);
    router_store_quietly(w->store, webhook_ask, w->net, asked, w);
}

void router_webhook_second(struct router_webhook *w)
{
    if (w->client == NULL)
        return;
    (void)pthread_mutex_lock(w->lock);
    struct lr_error why;
    (void)lr_fail(&why, LR_UPSTREAM, "%s", w->trouble);
    (void)router_alert_watch(w->alerts, ROUTER_ALERT_WEBHOOK_FAILED,
                             w->failures >= BAD_FAILURES, &why);
    (void)pthread_mutex_unlock(w->lock);
    if (w->state == ROUTER_WEBHOOK_IDLE)
        step(w);
}
