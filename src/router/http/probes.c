/* router/http/probes.c - how the router fares: GET /health, /livez, /readyz. */
#include "net/probe.h"
#include "router/http/api.h"
#include "router/http/state.h"

static size_t count_online(const struct router *r)
{
    const struct router_node *node;
    size_t online = 0;
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;)
        online += router_node_is_online(node);
    return online;
}

lr_code router_api_health(struct router *r, struct net_request *req, struct lr_error *err)
{
    bool draining = atomic_load(&r->is_draining);
    (void)err;
    router_lock(r);
    size_t online = count_online(r);
    router_unlock(r);
    LR_JSON_MEMBERS(router_answer_begin(req), LR_TEXT("status", draining ? "draining" : "ok"),
                    LR_TEXT("version", r->version), LR_UINT("nodes_online", online),
                    LR_UINT("uptime_ms", lr_clock_ms(NULL) - r->started_ms));
    return router_answer(req, draining ? 503 : 200);
}

lr_code router_api_livez(struct router *r, struct net_request *req, struct lr_error *err)
{
    (void)r;
    return net_probe_livez(req, err);
}

/* A node that may get work can run a registered model. */
static bool has_servable_model(const struct router *r)
{
    const struct router_node *node;
    const struct router_replica *replica;
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;) {
        if (!router_node_serves(node, NULL))
            continue;
        for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++)
            if (replica->can_run &&
                router_registry_find(&r->registry, lr_str_z(replica->id)) != NULL)
                return true;
    }
    return false;
}

/* A router without a node or a database is ready: nodes join through the address that a load
 * balancer gives to ready routers, and requests are served while the database is away.  A
 * probe that needs nodes asks for them (?require=nodes). */
lr_code router_api_readyz(struct router *r, struct net_request *req, struct lr_error *err)
{
    char trouble[ROUTER_TROUBLE];
    bool has_database = !router_store_trouble(r->store, trouble);
    router_lock(r);
    bool has_node = count_online(r) != 0, has_model = has_servable_model(r);
    router_unlock(r);
    struct net_check checks[] = {
        {"accepting", true, !atomic_load(&r->is_draining), "the router is shutting down",
         "send requests to another router"},
        {"database", false, has_database,
         "the database does not answer or cannot be written: requests are served, changes are "
         "refused",
         "the alert database_failed (GET /v0/alerts) has the reason"},
        {"nodes", false, has_node, "no node is online",
         "start a node and let it join (llm-router nodes token); GET /v0/nodes lists the nodes "
         "that are known"},
        {"models", false, has_model, "no online node can run a registered model",
         "register a model, or start a node that can run one; GET /v0/models has the reasons"},
    };
    return net_probe_readyz(req, checks, sizeof(checks) / sizeof(checks[0]), err);
}
