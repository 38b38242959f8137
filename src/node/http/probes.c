/* node/http/probes.c - how the node fares: GET /health for routers, /livez and /readyz for
 * supervisors and load balancers. */
#include "net/probe.h"
#include "node/fleet/membership.h"
#include "node/http/api.h"

enum { BODY_BYTES = 64 << 10 };

/* A model whose worker makes no progress for half the watchdog's time: no longer well, not yet
 * killed.  NULL: none. */
static const struct node_model *find_stalled(const struct node *node)
{
    const struct node_model *stalled = NULL;
    for (const struct node_model *m = node->models.first; m != NULL; m = m->next)
        for (const struct node_worker *k = m->workers; k != NULL; k = k->next)
            if (k == k->replica->worker && node_worker_has_opened(k) && k->live_count != 0 &&
                node_now(&node->models) - k->progress_ms > node->models.limits.step_ms / 2)
                stalled = m;
    return stalled;
}

lr_code node_api_health(struct node *node, struct net_request *req, struct lr_error *err)
{
    const struct node_model *stalled = find_stalled(node);
    uint32_t ready = 0;
    for (const struct node_model *m = node->models.first; m != NULL; m = m->next)
        ready += m->state == NODE_MODEL_READY;
    bool well = stalled == NULL && !node->models.is_draining;
    struct net_json json;
    struct lr_json_writer *w = net_json_begin(&json, BODY_BYTES);
    lr_json_member_z(w, "status",
                     node->models.is_draining ? "draining"
                     : well                   ? "ok"
                                              : "stalled");
    if (stalled != NULL)
        lr_json_member_z(w, "model", stalled->id);
    lr_json_member_z(w, "device", node->models.devices.kind);
    node_membership_put(node->membership, w);
    LR_JSON_MEMBERS(w, LR_UINT("models_ready", ready),
                    LR_UINT("requests", node->models.generations.used),
                    LR_UINT("uptime_ms", node_now(&node->models) - node->started_ms));
    return net_json_send(&json, req, well ? 200 : 503, err);
}

lr_code node_api_livez(struct node *node, struct net_request *req, struct lr_error *err)
{
    (void)node;
    return net_probe_livez(req, err);
}

/* Somebody wants the model loaded (--model, a pin, a load), and it is not. */
static bool is_missing(const struct node_model *m)
{
    return (m->is_wanted || m->is_pinned) && m->state != NODE_MODEL_READY;
}

lr_code node_api_readyz(struct node *node, struct net_request *req, struct lr_error *err)
{
    bool is_missing_model = false;
    for (const struct node_model *m = node->models.first; m != NULL; m = m->next)
        is_missing_model = is_missing_model || is_missing(m);
    struct net_check checks[] = {
        {"accepting", true, !node->models.is_draining, "the node is shutting down",
         "none: its requests go to other nodes"},
        {"router", true, node_membership_is_joined(node->membership),
         "no router that the node has joined answers",
         "look for router. lines in the node's log; check --router, the join token and the "
         "network"},
        {"workers", false, find_stalled(node) == NULL,
         "a worker has made no progress for half of step-timeout",
         "none: the node kills it after step-timeout and starts another worker"},
        {"models", false, !is_missing_model,
         "a model that is to be loaded is not loaded yet, or cannot be loaded",
         "wait; if it lasts, GET /v0/models of the node has the reason"},
    };
    return net_probe_readyz(req, checks, sizeof(checks) / sizeof(checks[0]), err);
}
