/* router/http/api_nodes.c - nodes are listed, taken out of service and removed. */
#include <stdio.h>

#include "router/http/api.h"
#include "router/http/live.h"
#include "router/sched/dispatch.h"

enum { BODY_BYTES = 4 << 20 };

static void put_models(struct lr_json_writer *w, const struct router_node *node)
{
    struct lr_str key;
    void *value;
    lr_json_key(w, "models");
    lr_json_begin_array(w);
    for (size_t i = 0; lr_strmap_at(&node->replicas, i, &key, &value); i++) {
        const struct router_replica *replica = value;
        lr_json_begin_object(w);
        lr_json_member_z(w, "id", replica->id);
        lr_json_member_z(w, "state", replica->state);
        lr_json_member_z(w, "reason", replica->reason[0] != '\0' ? replica->reason : NULL);
        lr_json_member_bool(w, "can_run", replica->can_run);
        lr_json_member_u64(w, "slots", replica->slots);
        lr_json_member_u64(w, "inflight", replica->inflight);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
}

static void put_model_counts(struct lr_json_writer *w, const struct router_node *node)
{
    struct lr_str key;
    void *value;
    uint64_t runnable = 0, loaded = 0, inflight = 0;
    for (size_t i = 0; lr_strmap_at(&node->replicas, i, &key, &value); i++) {
        const struct router_replica *replica = value;
        runnable += replica->can_run;
        loaded += replica->is_loaded;
        inflight += replica->inflight;
    }
    lr_json_member_u64(w, "models_runnable", runnable);
    lr_json_member_u64(w, "models_loaded", loaded);
    lr_json_member_u64(w, "inflight", inflight);
}

static void put_node(struct lr_json_writer *w, const struct router_node *node, uint64_t now,
                     bool is_brief)
{
    lr_json_begin_object(w);
    lr_json_member_z(w, "id", node->id);
    lr_json_member_z(w, "name", node->name);
    lr_json_member_z(w, "url", node->url);
    lr_json_member_z(w, "device", node->device);
    lr_json_member_z(w, "version", node->version);
    lr_json_member_bool(w, "online", router_node_is_online(node));
    lr_json_member_bool(w, "drained", node->is_drained);
    lr_json_member_bool(w, "draining", node->is_draining);
    lr_json_member_i64(w, "joined", node->joined_ms / 1000);
    if (router_node_is_online(node))
        lr_json_member_u64(w, "silent_ms", now - node->heartbeat_ms);
    lr_json_member_u64(w, "requests", node->health.requests);
    lr_json_member_u64(w, "failures", node->health.failures);
    lr_json_key(w, "memory");
    lr_json_begin_array(w);
    for (uint32_t i = 0; i < node->pool_count; i++) {
        lr_json_begin_object(w);
        lr_json_member_z(w, "name", node->pools[i].name);
        lr_json_member_z(w, "title", node->pools[i].title);
        lr_json_member_u64(w, "total", node->pools[i].total);
        lr_json_member_u64(w, "used", node->pools[i].used);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
    if (is_brief)
        put_model_counts(w, node);
    else
        put_models(w, node);
    lr_json_end_object(w);
}

void router_api_nodes(struct router *r, struct net_request *req)
{
    struct lr_buf body;
    struct lr_json_writer w;
    bool is_brief = router_wants(req, "brief");
    w = router_json_begin(&body, BODY_BYTES);
    lr_json_key(&w, "nodes");
    lr_json_begin_array(&w);
    router_lock(r);
    for (size_t i = 0; i < r->nodes.count; i++)
        if (!router_node_is_removed(r->nodes.all[i]))
            put_node(&w, r->nodes.all[i], lr_clock_ms(NULL), is_brief);
    router_unlock(r);
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    router_respond_json(req, 200, &body);
}

/* ---- changes: written down together with their line in the audit log, and only then true ----
 */

enum change { DRAIN, UNDRAIN, REMOVE };

static const char *const change_names[] = {"node.drain", "node.undrain", "node.delete"};

/* In the request's arena. */
struct changing {
    struct router *router;
    struct net_request *req;
    enum change change;
    struct router_node to; /* as it shall be; without replicas */
};

static lr_code write_change(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct changing *m = arg;
    return router_node_write(sql, &m->to, err);
}

static void apply(struct router *r, struct router_node *node, enum change change)
{
    if (change == REMOVE) {
        router_node_remove(node);
        router_alerts_settle_node(r, node);
    } else {
        node->is_drained = change == DRAIN;
        router_pump_all(r);
    }
    router_live_node(r, node, change_names[change]);
}

static void written(void *arg, const struct lr_error *err)
{
    struct changing *m = arg;
    struct router *r = m->router;
    router_lock(r);
    struct router_node *node = router_nodes_find_any(&r->nodes, lr_str_z(m->to.id));
    router_node_end_write(node);
    if (err == NULL)
        apply(r, node, m->change);
    /* It has joined meanwhile, and was written down as it was before. */
    if (err == NULL && node->joined_ms != m->to.joined_ms)
        router_node_store(r, node);
    router_unlock(r);
    if (err != NULL)
        net_respond_error(m->req, err);
    else
        net_respond(m->req, 200, "application/json", LR_STR_LIT("{\"ok\":true}"));
}

static void change_node(struct router *r, struct net_request *req, enum change change)
{
    struct router_access *access = router_access(req);
    /* "*" of v0/nodes/(*)/drain: the segment itself, whatever follows. */
    struct lr_str id = access->match.path.segments[2];
    struct changing *m = lr_arena_zalloc(net_request_arena(req), sizeof(*m));
    router_lock(r);
    struct router_node *node = router_nodes_find(&r->nodes, id);
    if (node != NULL && m != NULL) {
        *m = (struct changing){.router = r, .req = req, .change = change, .to = *node};
        lr_strmap_init(&m->to.replicas);
        if (change == REMOVE)
            router_node_move(&m->to, ROUTER_NODE_REMOVED);
        m->to.is_drained = change == DRAIN;
        router_node_begin_write(node);
    }
    router_unlock(r);
    if (node == NULL || m == NULL) {
        router_refuse(req, node == NULL ? LR_NOT_FOUND : LR_OUT_OF_RAM,
                      "there is no node \"" LR_STR_FMT "\"", LR_STR_ARG(lr_str_sub(id, 0, 60)));
        return;
    }
    struct router_action action = {router_caller_name(&access->caller), change_names[change],
                                   m->to.id, ""};
    router_store_act(r->store, &action, write_change, net_request_loop(req), written, m);
}

void router_api_node_drain(struct router *r, struct net_request *req)
{
    change_node(r, req, DRAIN);
}

void router_api_node_undrain(struct router *r, struct net_request *req)
{
    change_node(r, req, UNDRAIN);
}

void router_api_node_delete(struct router *r, struct net_request *req)
{
    change_node(r, req, REMOVE);
}
