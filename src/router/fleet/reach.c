#include "router/fleet/reach.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/log.h"
#include "router/fleet/dispatch.h"
#include "wire/reply.h"

enum {
    ASK_CONNECT_MS = 3000,
    CONNECT_MS = 2000, /* as for a generation */
    ANSWER_MS = 5000,  /* a slow network is not a lost one: the silence of a generation */
    BODY_BYTES = 64 << 10,
    PROBE_MS = 2000,
    LEAST_MS = 2 * PROBE_MS, /* one question that fails is no verdict */
    TWIN_MS = 5000,          /* no second process came for so long: it was stopped */
    TELL_MS = 3000,
};

/* ---- one question ---- */

void router_target_set(struct router_target *out, const struct router_node *node)
{
    memcpy(out->id, node->id, sizeof(out->id));
    memcpy(out->name, node->name, sizeof(out->name));
    memcpy(out->url, node->url, sizeof(out->url));
    memcpy(out->secret, node->secret, sizeof(out->secret));
    out->protocol = node->protocol;
}

struct router_target *router_targets(const struct router_nodes *nodes, struct lr_str folded,
                                     struct lr_arena *arena, size_t *count, size_t *offline)
{
    struct router_target *list = lr_arena_array(arena, nodes->count + 1, sizeof(*list));
    const struct router_node *node;
    *count = *offline = 0;
    for (size_t at = 0; list != NULL && (node = router_nodes_next(nodes, &at)) != NULL;) {
        if (folded.len != 0 && router_node_replica(node, folded) == NULL)
            continue;
        if (router_node_is_online(node))
            router_target_set(&list[(*count)++], node);
        else
            (*offline)++;
    }
    return list;
}

lr_code router_ask(struct net_client *client, const struct router_target *to,
                   const struct router_question *question, net_fetch_fn fn, void *arg,
                   struct lr_error *err)
{
    char url[1600];
    bool is_post = strcmp(question->method, "POST") == 0;
    int n = snprintf(url, sizeof(url), "%s%s", to->url, question->path);
    if (n < 0 || (size_t)n >= sizeof(url))
        return lr_fail(err, LR_INVALID_ARGUMENT, "the question to node %s is too long",
                       to->name);
    struct net_call_config config = {
        .method = question->method,
        .url = url,
        .bearer = to->secret,
        .content_type = is_post ? "application/json" : NULL,
        .body = !is_post                  ? lr_str(NULL, 0)
                : question->body.len != 0 ? question->body
                                          : LR_STR_LIT("{}"),
        .response_timeout_ms = question->wait_ms,
        .connect_timeout_ms = ASK_CONNECT_MS,
    };
    return net_fetch(client, &config, fn, arg, NULL, err);
}

static void reach_on_reply(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    const struct router_dial *dial = arg;
    struct lr_arena arena;
    struct lr_error refused;
    if (err != NULL) {
        dial->fn(dial->arg, err, 0);
        return;
    }
    if (reply->status == 401 || reply->status == 403) {
        (void)lr_fail_plain(&refused, wrong_program);
        dial->fn(dial->arg, &refused, 0);
        return;
    }
    lr_arena_init(&arena, 1 << 20);
    uint64_t epoch = wire_health_epoch(&arena, reply->body);
    lr_arena_free(&arena);
    dial->fn(dial->arg, NULL, epoch);
}

lr_code router_dial(struct net_client *client, const struct router_target *to,
                    struct router_dial *dial, struct lr_error *err)
{
    char target[320];
    (void)snprintf(target, sizeof(target), "%s/health", to->url);
    struct net_call_config config = {
        .url = target,
        .bearer = to->secret,
        .max_response_bytes = BODY_BYTES,
        .may_connect = dial->may_connect,
        .may_connect_arg = dial->arg,
        .connect_timeout_ms = CONNECT_MS,
        .response_timeout_ms = ANSWER_MS,
        .idle_timeout_ms = ANSWER_MS,
    };
    return net_fetch(client, &config, reach_on_reply, dial, NULL, err);
}

/* ---- looking after nodes that have joined ---- */

struct router_probe {
    struct router_reach *reach;
    struct router_node *node;
    struct router_dial dial;
    uint64_t epoch; /* of the node when it was asked */
    struct router_target to;
};

static void reach_lose(struct router_reach *reach, struct router_node *node, const char *why,
                       uint64_t now)
{
    struct lr_error told;
    uint64_t limit = reach->offline_ms > LEAST_MS ? reach->offline_ms : LEAST_MS;
    /* Silent as well: the node is gone, or this process stood still. */
    if (lr_elapsed(node->heartbeat_ms, now) >= reach->offline_ms)
        return;
    if (!router_node_is_online(node) || lr_elapsed(node->reached_ms, now) < limit)
        return;
    router_node_move(node, ROUTER_NODE_UNREACHABLE);
    (void)lr_fail_as(&told, node_unreachable, node->name, node->url, why);
    lr_log_warn(NULL, "node.unreachable node=%s url=%s reason=%s", node->name, node->url, why);
    router_alerts_tell(reach->alerts, node, "node.offline");
    router_alert_raise(reach->alerts, ROUTER_ALERT_NODE_UNREACHABLE, node, lr_str_z(""), &told);
}

static void reach_find(struct router_reach *reach, struct router_node *node, uint64_t now)
{
    bool was_lost = node->state == ROUTER_NODE_UNREACHABLE;
    bool is_back = router_node_reached(node, now, reach->offline_ms);
    if (was_lost)
        router_alert_settle(reach->alerts, ROUTER_ALERT_NODE_UNREACHABLE, node, lr_str_z(""));
    if (!is_back)
        return;
    lr_log_info(NULL, "node.back node=%s", node->name);
    router_alerts_tell(reach->alerts, node, "node.online");
    router_pump_all(reach->dispatch);
}

static void reach_on_answer(void *arg, const struct lr_error *err, uint64_t epoch)
{
    struct router_probe *probe = arg;
    struct router_reach *reach = probe->reach;
    struct router_node *node = probe->node;
    uint64_t now = lr_clock_ms(NULL);
    bool is_other = err == NULL && epoch != 0 && probe->epoch != 0 && epoch != probe->epoch;
    (void)pthread_mutex_lock(reach->lock);
    node->probe = NULL;
    /* It may have joined anew meanwhile, perhaps from elsewhere. */
    if (!router_node_is_removed(node) && node->epoch == probe->epoch &&
        strcmp(node->url, probe->to.url) == 0) {
        if (err != NULL)
            reach_lose(reach, node, err->text, now);
        else if (is_other)
            reach_lose(reach, node, "another process with its identity answers there", now);
        else
            reach_find(reach, node, now);
    }
    (void)pthread_mutex_unlock(reach->lock);
    free(probe);
}

static struct router_probe *reach_prepare(struct router_reach *reach, struct router_node *node)
{
    struct router_probe *probe = calloc(1, sizeof(*probe));
    if (probe == NULL)
        return NULL; /* the next second tries again */
    *probe = (struct router_probe){.reach = reach,
                                   .node = node,
                                   .dial = {.fn = reach_on_answer, .arg = probe},
                                   .epoch = node->epoch};
    router_target_set(&probe->to, node);
    return node->probe = probe;
}

static void reach_start(struct router_probe *probe)
{
    struct lr_error err;
    if (router_dial(probe->reach->client, &probe->to, &probe->dial, &err) != LR_OK)
        reach_on_answer(probe, &err, 0);
}

void router_reach_watch(struct router_reach *reach, uint64_t now)
{
    struct router_node *node;
    (void)pthread_mutex_lock(reach->lock);
    for (size_t at = 0; (node = router_nodes_next(reach->nodes, &at)) != NULL;) {
        uint64_t silent_ms = lr_elapsed(node->heartbeat_ms, now);
        bool was_online = router_node_is_online(node);
        if ((!was_online && node->state != ROUTER_NODE_UNREACHABLE) ||
            silent_ms < reach->offline_ms)
            continue;
        router_node_move(node, ROUTER_NODE_OFFLINE);
        if (was_online) {
            lr_log_warn(NULL, "node.offline node=%s silent_ms=%llu", node->name,
                        (unsigned long long)silent_ms);
            router_alerts_tell(reach->alerts, node, "node.offline");
        } else { /* its heartbeats have ended, too: it is silent rather than out of reach */
            router_alert_settle(reach->alerts, ROUTER_ALERT_NODE_UNREACHABLE, node,
                                lr_str_z(""));
        }
        router_alerts_silent(reach->alerts, node, silent_ms);
    }
    (void)pthread_mutex_unlock(reach->lock);
}

static void look_at_twin(struct router_reach *reach, struct router_node *node, uint64_t now)
{
    if (node->twin_ms == 0 || lr_elapsed(node->twin_ms, now) < TWIN_MS)
        return;
    node->twin_ms = 0;
    router_alert_settle(reach->alerts, ROUTER_ALERT_NODE_CLONED, node, lr_str_z(""));
}

void router_reach_second(struct router_reach *reach)
{
    struct router_node *node;
    struct router_probe *due[32]; /* the others' turn comes a second later */
    size_t count = 0;
    uint64_t now = lr_clock_ms(NULL);
    (void)pthread_mutex_lock(reach->lock);
    for (size_t at = 0; (node = router_nodes_next(reach->nodes, &at)) != NULL;) {
        if (node->version[0] == '\0')
            continue;
        look_at_twin(reach, node, now);
        if (lr_elapsed(node->heartbeat_ms, now) >= reach->offline_ms)
            continue;
        bool is_due = node->state == ROUTER_NODE_UNREACHABLE ||
                      lr_elapsed(node->reached_ms, now) >= PROBE_MS;
        if (is_due && node->probe == NULL && count < sizeof(due) / sizeof(due[0]) &&
            (due[count] = reach_prepare(reach, node)) != NULL)
            count++;
    }
    (void)pthread_mutex_unlock(reach->lock);
    for (size_t i = 0; i < count; i++)
        reach_start(due[i]);
}

void router_reach_twin(struct router_reach *reach, struct router_node *node, const char *url,
                       const char *from)
{
    struct lr_error told;
    bool is_new = node->twin_ms == 0;
    node->twin_ms = lr_clock_ms(NULL);
    if (!is_new)
        return;
    (void)lr_fail_as(&told, node_cloned, node->name, node->url, url, from);
    lr_log_warn(NULL, "node.cloned node=%s url=%s refused=%s from=%s", node->name, node->url,
                url, from);
    router_alert_raise(reach->alerts, ROUTER_ALERT_NODE_CLONED, node, lr_str_z(""), &told);
}

/* ---- the registry has changed ---- */

/* On loop 0. */
static void reach_tell(void *arg)
{
    struct router_reach *reach = arg;
    struct lr_arena arena;
    size_t count, offline;
    lr_arena_init(&arena, 4 << 20);
    (void)pthread_mutex_lock(reach->lock);
    const struct router_target *list =
        router_targets(reach->nodes, lr_str(NULL, 0), &arena, &count, &offline);
    (void)pthread_mutex_unlock(reach->lock);
    struct router_question question = {
        .method = "POST", .path = "/v0/heartbeat", .wait_ms = TELL_MS};
    for (size_t i = 0; i < count; i++) {
        struct lr_error err;
        /* A node that does not hear it sees the new version with its next heartbeat. */
        if (router_ask(reach->client, &list[i], &question, NULL, NULL, &err) != LR_OK)
            lr_log_debug(NULL, "node.not_told node=%s reason=%s", list[i].name, err.text);
    }
    lr_arena_free(&arena);
}

void router_reach_tell(struct router_reach *reach)
{
    net_loop_post(reach->net, reach_tell, reach);
}
