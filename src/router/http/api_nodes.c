/* router/http/api_nodes.c - nodes are listed, taken out of service and removed; routers are
 * listed. */
#include "router/fleet/reasons.h"
#include "router/http/api.h"
#include "router/http/state.h"

/* Sequences of all routers: this router knows its own before the node tells of them. */
static uint64_t running(const struct router_replica *replica)
{
    return replica->live > replica->inflight ? replica->live : replica->inflight;
}

static void put_models(struct lr_json_writer *w, const struct router_node *node)
{
    const struct router_replica *replica;
    lr_json_member_array(w, "models");
    for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++) {
        lr_json_begin_object(w);
        LR_JSON_MEMBERS(
            w, LR_TEXT("id", replica->id), LR_TEXT("state", replica->state),
            LR_TEXT("reason", replica->reason.text[0] != '\0' ? replica->reason.text : NULL),
            LR_FLAG("can_run", replica->can_run), LR_UINT("slots", replica->slots),
            LR_UINT("replicas", replica->workers), LR_UINT("inflight", replica->inflight),
            LR_UINT("running", running(replica)));
        router_reason_put(w, "reason", &replica->reason);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
}

static void put_model_counts(struct lr_json_writer *w, const struct router_node *node)
{
    const struct router_replica *replica;
    uint64_t runnable = 0, loaded = 0, inflight = 0, live = 0;
    for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++) {
        runnable += replica->can_run;
        loaded += replica->is_loaded;
        inflight += replica->inflight;
        live += running(replica);
    }
    LR_JSON_MEMBERS(w, LR_UINT("models_runnable", runnable), LR_UINT("models_loaded", loaded),
                    LR_UINT("inflight", inflight), LR_UINT("running", live));
}

static void put_node(struct lr_json_writer *w, const struct router_node *node, uint64_t now,
                     bool is_brief)
{
    lr_json_begin_object(w);
    LR_JSON_MEMBERS(
        w, LR_TEXT("id", node->id), LR_TEXT("name", node->name), LR_TEXT("url", node->url),
        LR_TEXT("device", node->device), LR_TEXT("version", node->version),
        LR_UINT("protocol", node->protocol), LR_FLAG("online", router_node_is_online(node)),
        LR_FLAG("drained", node->is_drained), LR_FLAG("draining", node->is_draining),
        LR_INT("joined", node->joined_ms / 1000));
    if (router_node_is_online(node))
        lr_json_member_u64(w, "silent_ms", now - node->heartbeat_ms);
    LR_JSON_MEMBERS(w, LR_UINT("requests", node->health.requests),
                    LR_UINT("failures", node->health.failures));
    lr_json_member_array(w, "memory");
    for (uint32_t i = 0; i < node->pool_count; i++) {
        const struct wire_gpu *gpu = &node->pools[i].gpu;
        lr_json_begin_object(w);
        LR_JSON_MEMBERS(
            w, LR_TEXT("name", node->pools[i].name), LR_TEXT("title", node->pools[i].title),
            LR_UINT("total", node->pools[i].total), LR_UINT("used", node->pools[i].used));
        if (gpu->reported != 0 || gpu->is_faulty) {
            lr_json_member_object(w, "gpu");
            wire_gpu_write(w, gpu);
            lr_json_end_object(w);
        }
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
    if (is_brief)
        put_model_counts(w, node);
    else
        put_models(w, node);
    lr_json_end_object(w);
}

lr_code router_api_nodes(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_json_writer *w = router_answer_begin(req);
    const struct router_node *node;
    bool is_brief = router_wants(req, "brief");
    (void)err;
    lr_json_member_array(w, "nodes");
    router_lock(r);
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;)
        put_node(w, node, lr_clock_ms(NULL), is_brief);
    router_unlock(r);
    lr_json_end_array(w);
    return router_answer(req, 200);
}

static void put_router(struct lr_json_writer *w, const struct router_peer *peer, bool is_own)
{
    LR_JSON_ITEM(w, LR_TEXT("url", peer->url), LR_FLAG("own", is_own),
                 LR_FLAG("online", router_peer_is_alive(peer)),
                 LR_TEXT("version", peer->version), LR_INT("silent_ms", peer->silent_ms),
                 LR_UINT("requests_per_minute", peer->load.requests_per_minute),
                 LR_UINT("running", peer->load.running), LR_UINT("queued", peer->load.queued));
}

lr_code router_api_routers(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_json_writer *w = router_answer_begin(req);
    const struct router_sync *sync = &r->sync;
    (void)err;
    lr_json_member_array(w, "routers");
    router_lock(r);
    struct router_peer own = {.load = sync->load};
    LR_COPY(own.version, lr_str_z(sync->version));
    LR_COPY(own.url, lr_str_z(sync->own_url));
    put_router(w, &own, true);
    for (size_t i = 0; i < sync->peers.count; i++) {
        struct router_peer peer = sync->peers.all[i];
        peer.silent_ms += (int64_t)(lr_clock_ms(NULL) - sync->peers_ms);
        if (strcmp(peer.url, sync->own_url) != 0)
            put_router(w, &peer, false);
    }
    router_unlock(r);
    lr_json_end_array(w);
    return router_answer(req, 200);
}

static void api_nodes_changed(void *arg, const struct lr_error *err)
{
    if (err != NULL)
        net_respond_error(arg, err);
    else
        (void)router_answer_text(arg, LR_STR_LIT("{\"ok\":true}"));
}

/* POST /v0/nodes/{node}/drain and /undrain, DELETE /v0/nodes/{node} */
lr_code router_api_node_change(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct net_path *path = &router_access(req)->match.path;
    enum router_node_change change = path->count == 3 ? ROUTER_REMOVE_NODE
                                     : lr_str_eq_z(path->segments[3], "drain")
                                         ? ROUTER_DRAIN_NODE
                                         : ROUTER_UNDRAIN_NODE;
    struct router_actor by = router_actor(req);
    return router_node_change(&r->sync, path->segments[2], change, &by, net_request_loop(req),
                              api_nodes_changed, req, err);
}
