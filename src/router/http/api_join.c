/* router/http/api_join.c - nodes join and send heartbeats.
 *
 * A node that joins has shown a token or its own secret.  What the node says of itself is
 * checked first; then the router asks at the address the node names, so that a node joins only
 * where the router reaches it.  Until both are done nothing that is known of the node changes:
 * a join that is refused takes nothing away.
 */
#include <stdio.h>

#include "base/errors.h"
#include "net/settings.h"
#include "net/url.h"
#include "router/http/api.h"
#include "router/http/state.h"
#include "router/store/clock.h"
#include "wire/reply.h"

enum { BODY_BYTES = 4 << 20, HEARTBEAT_MS = 1000, SECRET_LEAST = 32 };

/* ---- join ---- */

/* A GPU has memory that the node's driver told it of. */
static bool has_gpu_memory(const struct wire_heartbeat *state)
{
    for (size_t i = 0; i < state->pool_count; i++)
        if (!lr_str_eq_z(state->pools[i].name, "ram") && state->pools[i].total != 0)
            return true;
    return false;
}

/* A node without a GPU is for development, and joins only where the operator said so
 * (docs/promises.md: cpu-by-word). */
static lr_code check_device(const struct router *r, const struct wire_join *join,
                            struct lr_error *err)
{
    struct lr_str name = lr_str_sub(join->name.len != 0 ? join->name : join->node_id, 0, 60);
    bool is_cpu = lr_str_eq_z(join->device, "cpu"), is_cuda = lr_str_eq_z(join->device, "cuda");
    bool is_vulkan = lr_str_eq_z(join->device, "vulkan");
    if (!is_cpu && !is_cuda && !is_vulkan && !lr_str_eq_z(join->device, "metal"))
        return lr_fail_as(err, join_device, join->device);
    if (is_cpu && !r->allows_cpu_nodes)
        return lr_fail_as(err, join_no_gpu, name);
    if ((is_cuda || is_vulkan) && !has_gpu_memory(&join->state))
        return lr_fail_as(err, join_gpus_missing, name, join->device);
    return LR_OK;
}

static lr_code choose_url(const struct router *r, struct net_request *req,
                          const struct wire_join *join, char *out, size_t size,
                          struct lr_error *err)
{
    struct net_url url;
    if (join->url.len != 0)
        (void)snprintf(out, size, LR_STR_FMT, LR_STR_ARG(lr_str_sub(join->url, 0, size - 1)));
    else
        net_url_format(out, size, join->has_tls, router_access(req)->from, join->port);
    while (out[0] != '\0' && out[strlen(out) - 1] == '/')
        out[strlen(out) - 1] = '\0';
    lr_code code = net_url_parse(out, &url, err);
    if (code == LR_OK && (url.target.len > 1 || url.port == 0))
        code = lr_fail_as(err, join_url_path, out);
    if (code == LR_OK)
        return net_settings_check_url(r->settings, "the node", out, err);
    return lr_fail_prefix(err, "the node's url");
}

static lr_code check_join(const struct router *r, const struct wire_join *join,
                          struct lr_error *err)
{
    struct lr_str id = join->node_id; /* becomes part of URLs */
    if (id.len < 8 || id.len > 40 || !lr_str_is_plain(id, "-_"))
        return lr_fail_plain(err, join_node_id);
    for (size_t i = 0; i < join->name.len; i++)
        if ((unsigned char)join->name.ptr[i] < 0x20 || join->name.ptr[i] == 0x7f)
            return lr_fail_plain(err, join_name);
    if (join->secret.len < SECRET_LEAST || join->secret.len > 90)
        return lr_fail_as(err, join_secret_short, SECRET_LEAST);
    return check_device(r, join, err);
}

/* Several nodes may share a secret (setting node-secret): the id says which node it is. */
static bool holds_secret(const struct router_caller *caller, const struct router_node *node)
{
    return caller->node != NULL &&
           lr_str_eq_secret(lr_str_z(caller->node->secret_hash), lr_str_z(node->secret_hash));
}

/* A token lets new nodes in; a node that is known comes back by its secret alone, so that
 * nobody takes its place and its requests.  Lock held. */
static lr_code check_identity(const struct router *r, const struct router_caller *caller,
                              const struct wire_join *join, struct lr_error *err)
{
    const struct router_node *known = router_nodes_find(&r->nodes, join->node_id);
    if (known == NULL)
        return caller->node == NULL ? LR_OK
                                    : lr_fail_as(err, join_secret_other, caller->node->id);
    if (caller->key != NULL && caller->key->is_own)
        return LR_OK;
    bool has_shown = caller->node != NULL ? holds_secret(caller, known)
                                          : router_node_has_secret(known, join->secret);
    return has_shown ? LR_OK : lr_fail_as(err, join_secret_missing, known->id, known->id);
}

/* To a join (`joined` is the node) or to a heartbeat, lock held.  Every router of the fleet is
 * named: a node sends heartbeats to each. */
static void write_reply(struct net_request *req, const struct router_node *joined,
                        bool must_join)
{
    struct router_access *access = router_access(req);
    const struct router *r = access->router;
    struct wire_fleet_reply reply = {
        .node_id = lr_str_z(joined != NULL ? joined->id : ""),
        .protocol = WIRE_PROTOCOL,
        .version = lr_str_z(r->version),
        .heartbeat_ms = HEARTBEAT_MS,
        .has_registry = true,
        .registry_version = r->registry.version,
        .must_join = must_join,
        .names_routers = true,
    };
    for (size_t i = 0; i < r->sync.url_count && i < WIRE_REPLY_ROUTERS_MAX; i++)
        reply.routers[reply.router_count++] = lr_str_z(r->sync.urls[i]);
    lr_buf_init(&access->json.body, BODY_BYTES);
    wire_fleet_reply_write(&access->json.body, &reply);
}

/* In the request's arena. */
struct joining {
    struct router *router;
    struct net_request *req;
    struct wire_join join;
    char url[288];
    struct router_dial here, there;   /* where it says it is; where it was before */
    uint64_t old_epoch;               /* of the process that joined before */
    unsigned waits;                   /* answers that are still to come */
    bool has_twin;                    /* that process still answers */
    char address[NET_ADDRESS_TEXT];   /* that the URL's host has; "": a connection was there */
    char elsewhere[NET_ADDRESS_TEXT]; /* an address where it may not be */
    bool is_audited;
    struct lr_error refusal; /* code LR_OK: none */
};

static void log_refusal(const struct net_request *req, const struct lr_error *err)
{
    const struct router_access *access = net_request_user(req);
    lr_log_warn(LR_LOG_OF(err), "node.refused from=%s reason=%s", access->from, err->text);
}

static void refuse_join(struct joining *a)
{
    log_refusal(a->req, &a->refusal);
    net_respond_error(a->req, &a->refusal);
}

/* A node must not send the router to just any address.  Allowed are the address from which the
 * node connects, an address that the operator named, and any address with a certificate of the
 * operator's CA, which TLS checks after this. */
static bool may_be_at(void *arg, const char *address)
{
    struct joining *a = arg;
    const struct router *r = a->router;
    bool has_ca = lr_settings_str(r->settings, "tls-ca") != NULL;
    bool may = (has_ca && strncmp(a->url, "https://", 8) == 0) ||
               net_same_address(address, router_access(a->req)->from) ||
               net_cidrs_have(&r->node_networks, address);
    (void)snprintf(may ? a->address : a->elsewhere, NET_ADDRESS_TEXT, "%s", address);
    return may;
}

/* A name may have another address tomorrow.  With TLS only a host with that name's certificate
 * is talked to; without TLS the node stays at the address that was checked. */
static void pin_address(struct joining *a)
{
    struct net_url url;
    if (a->address[0] != '\0' && net_url_parse(a->url, &url, NULL) == LR_OK && !url.is_https)
        net_url_format(a->url, sizeof(a->url), false, a->address, url.port);
}

/* For the audit log. */
static void api_join_describe(const struct joining *a, char out[512])
{
    const struct wire_join *join = &a->join;
    (void)snprintf(out, 512, "url=%s name=\"" LR_STR_FMT "\" device=" LR_STR_FMT " from=%s",
                   a->url, LR_STR_ARG(lr_str_sub(join->name, 0, 60)),
                   LR_STR_ARG(lr_str_sub(join->device, 0, 10)), router_access(a->req)->from);
}

/* The node as it was (NULL: it is new) and as it joins. */
static struct router_change api_join_compare(const struct joining *a,
                                             const struct router_node *node)
{
    struct router_change values = {0};
    char name[64], device[16];
    LR_COPY(name, a->join.name);
    LR_COPY(device, a->join.device);
    router_change_text(&values, "name", node != NULL ? node->name : NULL, name);
    router_change_text(&values, "url", node != NULL ? node->url : NULL, a->url);
    router_change_text(&values, "device", node != NULL ? node->device : NULL, device);
    return values;
}

/* A new node, a node at another address, or another process as that node: a router that was
 * restarted hears of nodes that it knows, which is no news. */
static bool is_news(const struct joining *a, const struct router_node *node)
{
    return node == NULL || strcmp(node->url, a->url) != 0 ||
           (node->epoch != 0 && node->epoch != a->join.state.epoch);
}

/* Lock held. */
static lr_code take_join(struct joining *a, char id[48])
{
    struct router *r = a->router;
    struct router_node *node = router_nodes_find(&r->nodes, a->join.node_id);
    struct lr_error *err = &a->refusal;
    if (a->has_twin && node != NULL && node->epoch == a->old_epoch) {
        router_reach_twin(&r->reach, node, a->url, router_access(a->req)->from);
        return lr_fail_as(err, join_taken, node->id);
    }
    const struct router_caller *caller = &router_access(a->req)->caller;
    bool tells = !a->is_audited && is_news(a, node);
    struct router_change values = api_join_compare(a, node);
    lr_code code = check_identity(r, caller, &a->join, err);
    if (code == LR_OK)
        code = router_nodes_join(&r->nodes, &a->join, a->url, lr_clock_ms(NULL),
                                 lr_clock_wall_ms(&router_clock), &node, err);
    if (code != LR_OK)
        return code;
    router_node_store(&r->sync, node);
    if (tells) {
        char detail[512];
        api_join_describe(a, detail);
        router_store_audit(r->store, &(struct router_action){"node.join", node->id, detail,
                                                             &values, router_actor(a->req)});
    }
    write_reply(a->req, node, false);
    (void)snprintf(id, 48, "%s", node->id);
    router_alert_settle(&r->alerts, ROUTER_ALERT_NODE_UNREACHABLE, node, lr_str_z(""));
    router_alerts_tell(&r->alerts, node, "node.joined");
    lr_log_info(NULL, "node.joined node=%s id=%s url=%s device=%s models=%zu", node->name,
                node->id, node->url, node->device, a->join.state.model_count);
    router_pump_all(&r->dispatch);
    return LR_OK;
}

static void finish_join(struct joining *a)
{
    struct router *r = a->router;
    char id[48];
    router_lock(r);
    lr_code code = take_join(a, id);
    router_unlock(r);
    if (code != LR_OK) {
        refuse_join(a);
        return;
    }
    (void)router_answer_text(a->req, lr_buf_str(&router_access(a->req)->json.body));
    if (r->on_node != NULL)
        r->on_node(r->on_node_arg, id);
}

static lr_code count_use(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct joining *a = arg;
    return router_key_join(sql, router_access(a->req)->caller.key, err);
}

static void counted(void *arg, const struct lr_error *err)
{
    struct joining *a = arg;
    if (err != NULL) {
        a->refusal = *err;
        refuse_join(a);
        return;
    }
    router_lock(a->router);
    router_access(a->req)->caller.key->joins++;
    router_unlock(a->router);
    a->is_audited = true;
    finish_join(a);
}

/* A token that is for some nodes only lets a new node in once the database has counted it: of
 * several routers each could let another node in. */
static bool uses_token(struct joining *a)
{
    const struct router_key *key = router_access(a->req)->caller.key;
    if (key == NULL || key->uses == 0)
        return false;
    router_lock(a->router);
    bool is_new = router_nodes_find(&a->router->nodes, a->join.node_id) == NULL;
    router_unlock(a->router);
    return is_new;
}

static void end_join(struct joining *a)
{
    char id[48], detail[512];
    if (a->refusal.code != LR_OK) {
        refuse_join(a);
        return;
    }
    pin_address(a);
    if (!uses_token(a)) {
        finish_join(a);
        return;
    }
    (void)snprintf(id, sizeof(id), LR_STR_FMT, LR_STR_ARG(a->join.node_id));
    api_join_describe(a, detail);
    struct router_change values = api_join_compare(a, NULL);
    struct router_action action = {"node.join", id, detail, &values, router_actor(a->req)};
    router_store_act(a->router->store, &action, count_use, net_request_loop(a->req), counted,
                     a);
}

static void answered(struct joining *a)
{
    if (--a->waits == 0)
        end_join(a);
}

static void on_here(void *arg, const struct lr_error *err, uint64_t epoch)
{
    struct joining *a = arg;
    uint64_t own = a->join.state.epoch;
    const char *why = err != NULL                ? err->text
                      : own == 0 || epoch == own ? NULL
                      : epoch == 0
                          ? "what answers there is no node: its /health names no process"
                          : "another process with its identity answers there";
    if (why != NULL && a->elsewhere[0] != '\0' && a->address[0] == '\0')
        (void)lr_fail_as(&a->refusal, join_from_elsewhere, router_access(a->req)->from, a->url,
                         a->elsewhere);
    else if (why != NULL)
        (void)lr_fail_as(&a->refusal, join_not_reached, a->url, why);
    answered(a);
}

static void on_there(void *arg, const struct lr_error *err, uint64_t epoch)
{
    struct joining *a = arg;
    a->has_twin = err == NULL && epoch != 0 && epoch == a->old_epoch;
    answered(a);
}

/* Asks at the node's address, and at the address of the process that joined before as this
 * node where that may still run. */
static void dial_back(struct joining *a, const struct router_target *old)
{
    struct net_client *client = router_loop_of(a->router, a->req)->client;
    struct router_target to = {0};
    struct lr_error err;
    a->here = (struct router_dial){on_here, a, may_be_at};
    a->there = (struct router_dial){on_there, a, NULL};
    LR_COPY(to.url, lr_str_z(a->url));
    LR_COPY(to.secret, a->join.secret);
    a->waits = old->url[0] != '\0' ? 2 : 1;
    if (a->waits == 2 && router_dial(client, old, &a->there, &err) != LR_OK)
        a->waits--; /* this address cannot be asked: nobody is there */
    if (router_dial(client, &to, &a->here, &err) != LR_OK)
        on_here(a, &err, 0);
}

/* What the node says of itself.  *is_known: this very process is reached already.  *old: where
 * another process that joined as this node may still run. */
static lr_code api_join_check(struct joining *a, bool *is_known, struct router_target *old,
                              struct lr_error *err)
{
    struct router *r = a->router;
    const struct router_caller *caller = &router_access(a->req)->caller;
    struct wire_join *join = &a->join;
    lr_code code =
        wire_join_parse(net_request_arena(a->req), net_request_body(a->req), join, err);
    if (code == LR_UNSUPPORTED) /* another protocol: both versions are named */
        code = lr_fail_prefix(err, "this router is llm-router %s", r->version);
    if (code == LR_OK)
        code = check_join(r, join, err);
    if (code == LR_OK)
        code = choose_url(r, a->req, join, a->url, sizeof(a->url), err);
    if (code != LR_OK)
        return code;
    router_lock(r);
    const struct router_node *node = router_nodes_find(&r->nodes, join->node_id);
    code = check_identity(r, caller, join, err);
    if (code == LR_OK && node == NULL && caller->key != NULL &&
        router_key_is_spent(caller->key))
        code = router_key_fail_spent(caller->key, err);
    bool is_online = code == LR_OK && node != NULL && router_node_is_online(node);
    bool is_here = is_online && strcmp(node->url, a->url) == 0;
    *is_known = is_here && node->epoch == join->state.epoch && node->epoch != 0;
    if (is_online && !is_here && node->epoch != join->state.epoch) {
        a->old_epoch = node->epoch;
        router_target_set(old, node);
    }
    router_unlock(r);
    return code;
}

lr_code router_api_join(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_target old = {0};
    bool is_known = false;
    struct joining *a = router_memory(req, sizeof(*a), err);
    if (a == NULL)
        return LR_OUT_OF_RAM;
    a->router = r;
    a->req = req;
    lr_code code = api_join_check(a, &is_known, &old, err);
    if (code != LR_OK)
        log_refusal(req, err);
    else if (is_known)
        end_join(a); /* it is reached as it is: it has other models now */
    else
        dial_back(a, &old);
    return code;
}

/* ---- heartbeat ---- */

/* A process that joined before and was replaced speaks for nobody. */
static lr_code check_heartbeat(const struct router_caller *caller,
                               const struct router_node *node,
                               const struct wire_heartbeat *heartbeat, struct lr_error *err)
{
    if (node == NULL || (!holds_secret(caller, node) && caller->role != ROUTER_ADMIN))
        return lr_fail_plain(err, join_again);
    if (node->version[0] == '\0')
        return lr_fail_plain(err, join_again_restarted);
    if (node->epoch != 0 && heartbeat->epoch != 0 && heartbeat->epoch != node->epoch)
        return lr_fail_as(err, join_again_replaced, node->id);
    return LR_OK;
}

lr_code router_api_heartbeat(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_access *access = router_access(req);
    struct wire_heartbeat heartbeat;
    lr_code code =
        wire_heartbeat_parse(net_request_arena(req), net_request_body(req), &heartbeat, err);
    if (code != LR_OK)
        return code;
    router_lock(r);
    struct router_node *node = router_nodes_find(&r->nodes, access->match.tail);
    code = check_heartbeat(&access->caller, node, &heartbeat, err);
    if (code == LR_OK) {
        bool was_online = router_node_is_online(node);
        bool knows_all = router_nodes_heartbeat(node, &heartbeat, lr_clock_ms(NULL));
        if (router_node_is_online(node) && !was_online) {
            lr_log_info(NULL, "node.back node=%s", node->name);
            router_alerts_tell(&r->alerts, node, "node.online");
        }
        router_alerts_heartbeat(&r->alerts, node, &heartbeat);
        router_pump_all(&r->dispatch);
        write_reply(req, NULL, !knows_all || node->must_join);
    }
    router_unlock(r);
    return code == LR_OK ? router_answer_text(req, lr_buf_str(&access->json.body)) : code;
}
