/* router/http/api_forward.c - an operator's question or order that a node answers itself.
 *
 *   GET  /v0/nodes/{id}/{models,engines,memory,logs}   the query goes along
 *   POST /v0/nodes/{id}/engines/{engine}/reload
 *   POST /v0/models/{id}/{load,unload,pin,unpin}   ?node=ID, else the best replica
 *   POST /v0/models/{id}/replicas?count=auto|N     the same
 */
#include <stdio.h>

#include "base/errors.h"
#include "hub/url.h"
#include "router/http/api.h"
#include "router/http/state.h"

enum { FORWARD_MS = 120000, PATH_BYTES = 1200 };

static void api_forward_on_reply(void *arg, const struct lr_error *err,
                                 const struct net_reply *reply)
{
    struct net_request *req = arg;
    struct lr_str id;
    if (err != NULL) {
        net_respond_error(req, err);
        return;
    }
    if (net_headers_get(reply->headers, NET_ERROR_HEADER, &id))
        net_response_header(req, NET_ERROR_HEADER, id);
    net_respond(req, reply->status, "application/json", reply->body);
}

static void add_segment(struct lr_buf *path, struct lr_str text)
{
    lr_buf_add_char(path, '/');
    hub_url_escape(path, text, false);
}

/* Frees path. */
static lr_code forward(struct router *r, struct net_request *req,
                       const struct router_target *to, struct lr_buf *path,
                       struct lr_error *err)
{
    struct router_question question = {
        .method = lr_str_eq_z(net_request_method(req), "POST") ? "POST" : "GET",
        .path = lr_buf_z(path),
        .wait_ms = FORWARD_MS,
    };
    lr_code code = path->failed ? lr_fail_as(err, address_over, PATH_BYTES)
                                : router_ask(router_loop_of(r, req)->client, to, &question,
                                             api_forward_on_reply, req, err);
    lr_buf_free(path);
    return code;
}

lr_code router_api_node_forward(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct net_path *path = &router_access(req)->match.path;
    struct lr_str query = net_request_query(req), id = path->segments[2];
    struct router_target to;
    struct lr_buf target;
    router_lock(r);
    const struct router_node *node = router_nodes_find(&r->nodes, id);
    bool is_online = node != NULL && router_node_is_online(node);
    if (is_online)
        router_target_set(&to, node);
    router_unlock(r);
    if (node == NULL)
        return lr_fail_as(err, no_node, id);
    if (!is_online)
        return lr_fail_as(err, node_offline, id);
    if (lr_str_eq_z(net_request_method(req), "POST"))
        router_store_audit(r->store, &(struct router_action){"engine.reload", to.name, "",
                                                             .by = router_actor(req)});
    lr_buf_init(&target, PATH_BYTES);
    lr_buf_add_z(&target, "/v0");
    for (size_t i = 3; i < path->count; i++)
        add_segment(&target, path->segments[i]);
    if (query.len != 0)
        lr_buf_addf(&target, "?" LR_STR_FMT, LR_STR_ARG(query));
    return forward(r, req, &to, &target, err);
}

static bool api_forward_is_named(const struct router_node *node, struct lr_str wanted)
{
    return wanted.len == 0 || lr_str_eq_z(wanted, node->id) || lr_str_eq_z(wanted, node->name);
}

struct choice {
    const struct router_node *node;
    const struct router_replica *replica;
};

/* A replica that cannot run the model now may after a load: it is tried there.  One whose files
 * are there comes before one without. */
static struct choice choose_ill(const struct router *r, const struct router_model *model,
                                struct lr_str wanted)
{
    const struct router_node *node;
    struct choice best = {0};
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;) {
        const struct router_replica *replica =
            router_node_replica(node, lr_str_z(model->folded));
        if (replica == NULL || !router_node_serves(node, NULL) ||
            !api_forward_is_named(node, wanted))
            continue;
        if (best.node == NULL || strcmp(best.replica->state, "absent") == 0)
            best = (struct choice){node, replica};
    }
    return best;
}

/* The replica that ?node= names, else the best one. */
static struct choice api_forward_choose(struct router *r, const struct router_model *model,
                                        struct lr_str wanted)
{
    struct router_candidate all[ROUTER_CANDIDATES_MAX];
    struct router_demand demand = {.prompt_tokens = 100};
    if (wanted.len != 0)
        return choose_ill(r, model, wanted);
    size_t count = router_sched_candidates(&r->dispatch.sched, &model->schedule, NULL,
                                           lr_clock_ms(NULL), all, ROUTER_CANDIDATES_MAX);
    size_t best = router_pick(all, count, &demand);
    return best != ROUTER_NOBODY ? (struct choice){all[best].node, all[best].replica}
                                 : choose_ill(r, model, wanted);
}

/* What the node is asked to make of its replica, for the audit log.  Lock held. */
static void api_forward_describe(const struct router_replica *replica, struct lr_str action,
                                 struct lr_str count, struct router_change *out)
{
    char before[24], after[24];
    if (lr_str_eq_z(action, "load") || lr_str_eq_z(action, "unload"))
        router_change_flag(out, "loaded", replica->is_loaded, lr_str_eq_z(action, "load"));
    else if (lr_str_eq_z(action, "pin") || lr_str_eq_z(action, "unpin"))
        router_change_flag(out, "pinned", replica->is_pinned, lr_str_eq_z(action, "pin"));
    else if (lr_str_eq_z(action, "replicas")) {
        (void)snprintf(before, sizeof(before), "%llu", (unsigned long long)replica->workers);
        LR_COPY(after, count);
        router_change_text(out, "replicas", before, after);
    }
}

lr_code router_api_model_action(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct router_access *access = router_access(req);
    struct lr_str wanted = {0}, count = {0},
                  action = access->match.path.segments[access->match.path.count - 1];
    struct choice best = {0};
    struct router_target to;
    struct router_change values = {0};
    struct lr_buf target;
    char id[ROUTER_ID_MAX], audited[32];
    (void)net_request_query_get(req, "node", &wanted);
    lr_buf_init(&target, PATH_BYTES);
    router_lock(r);
    struct router_model *model = router_registry_resolve(&r->registry, access->match.tail);
    if (model != NULL)
        best = api_forward_choose(r, model, wanted);
    if (best.node != NULL) {
        memcpy(id, model->id, sizeof(id));
        router_target_set(&to, best.node);
        lr_buf_add_z(&target, "/v0/models");
        add_segment(&target, lr_str_z(best.replica->id));
        add_segment(&target, action);
        if (net_request_query_get(req, "count", &count)) {
            lr_buf_add_z(&target, "?count=");
            hub_url_escape(&target, count, false);
        }
        api_forward_describe(best.replica, action, count, &values);
    }
    router_unlock(r);
    if (model == NULL)
        return lr_fail_as(err, absent_model, access->match.tail);
    if (best.node == NULL)
        return lr_fail_as(err, no_node_runs, access->match.tail);
    (void)snprintf(audited, sizeof(audited), "model." LR_STR_FMT,
                   LR_STR_ARG(lr_str_sub(action, 0, 20)));
    router_store_audit(
        r->store, &(struct router_action){audited, id, to.name, &values, router_actor(req)});
    return forward(r, req, &to, &target, err);
}
