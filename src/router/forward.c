/* router/forward.c - an operator's question or order that a node answers itself.
 *
 *   GET  /v0/nodes/{id}/{models,engines,memory}
 *   POST /v0/nodes/{id}/engines/{engine}/reload
 *   POST /v0/models/{id}/{load,unload,pin,unpin}   ?node=ID, else the best place
 */
#include <stdio.h>

#include "router/api.h"
#include "router/dispatch.h"

enum { FORWARD_MS = 120000 };

struct forward {
    struct net_request *req;
    struct net_call *call;
    bool is_gone;
};

static void on_reply(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct forward *f = arg;
    if (err != NULL)
        net_respond_error(f->req, err);
    else
        net_respond(f->req, reply->status, "application/json", reply->body);
}

static void forward(struct router *r, struct net_request *req, const char *url,
                    const char *secret)
{
    struct router_home *home = router_home_of(r, req);
    struct lr_error err;
    char bearer[128];
    struct forward *f = lr_arena_zalloc(net_request_arena(req), sizeof(*f));
    (void)snprintf(bearer, sizeof(bearer), "Bearer %s", secret);
    struct net_header header = {LR_STR_LIT("Authorization"), lr_str_z(bearer)};
    bool is_post = lr_str_eq_z(net_request_method(req), "POST");
    struct net_call_config config = {
        .method = is_post ? "POST" : "GET",
        .url = url,
        .headers = &header,
        .header_count = 1,
        .content_type = is_post ? "application/json" : NULL,
        .body = is_post ? LR_STR_LIT("{}") : lr_str(NULL, 0),
        .response_timeout_ms = FORWARD_MS,
        .connect_timeout_ms = 3000,
    };
    lr_code code = LR_OUT_OF_RAM;
    if (f != NULL) {
        f->req = req;
        code = net_fetch(home->client, &config, on_reply, f, &f->call, &err);
    } else {
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for a request");
    }
    if (code != LR_OK)
        net_respond_error(req, &err);
}

void router_api_node_forward(struct router *r, struct net_request *req)
{
    const struct net_path *path = router_access(req)->path;
    char url[700] = "", secret[96] = "";
    router_lock(r);
    const struct router_node *node = router_nodes_find(&r->nodes, path->segments[2]);
    if (node != NULL && node->is_online) {
        int n = snprintf(url, sizeof(url), "%s/v0", node->url);
        for (size_t i = 3; i < path->count && n > 0 && (size_t)n < sizeof(url); i++)
            n += snprintf(url + n, sizeof(url) - (size_t)n, "/" LR_STR_FMT,
                          LR_STR_ARG(lr_str_sub(path->segments[i], 0, 80)));
        (void)snprintf(secret, sizeof(secret), "%s", node->secret);
    }
    router_unlock(r);
    if (url[0] == '\0')
        router_refuse(req, node == NULL ? LR_NOT_FOUND : LR_UNAVAILABLE,
                      node == NULL ? "there is no such node" : "the node is offline");
    else
        forward(r, req, url, secret);
}

/* Escapes a model's id for one segment of a path. */
static void add_escaped(char *out, size_t size, const char *id)
{
    size_t at = strlen(out);
    for (; *id != '\0' && at + 4 < size; id++) {
        if (*id == '/')
            at += (size_t)snprintf(out + at, size - at, "%%2F");
        else
            out[at++] = *id;
    }
    out[at] = '\0';
}

void router_api_model_action(struct router *r, struct net_request *req)
{
    struct router_access *access = router_access(req);
    struct lr_str wanted = {0}, action = access->path->segments[access->path->count - 1];
    struct router_candidate candidates[ROUTER_CANDIDATES_MAX];
    struct router_node *nodes[ROUTER_CANDIDATES_MAX];
    struct router_place *places[ROUTER_CANDIDATES_MAX];
    struct router_demand demand = {.prompt_tokens = 100};
    char url[1200] = "", secret[96] = "";
    (void)net_request_query_get(req, "node", &wanted);
    router_lock(r);
    struct router_model *model = router_registry_find(&r->registry, access->tail);
    if (model != NULL) {
        size_t count = router_candidates(r, model, NULL, lr_clock_ms(NULL), candidates, nodes,
                                         places, ROUTER_CANDIDATES_MAX);
        size_t best = router_pick(candidates, count, &demand);
        for (size_t i = 0; i < count; i++)
            if (lr_str_eq_z(wanted, nodes[i]->id) || lr_str_eq_z(wanted, nodes[i]->name))
                best = i;
            else if (wanted.len != 0 && best == i)
                best = ROUTER_NOBODY;
        if (best != ROUTER_NOBODY) {
            (void)snprintf(url, sizeof(url), "%s/v0/models/", nodes[best]->url);
            add_escaped(url, sizeof(url), places[best]->id);
            size_t at = strlen(url);
            (void)snprintf(url + at, sizeof(url) - at, "/" LR_STR_FMT, LR_STR_ARG(action));
            (void)snprintf(secret, sizeof(secret), "%s", nodes[best]->secret);
        }
    }
    router_unlock(r);
    if (url[0] == '\0') {
        router_refuse(req, model == NULL ? LR_NOT_FOUND : LR_UNAVAILABLE,
                      model == NULL ? "there is no such model"
                                    : "no node that serves can run it (see /v0/explain)");
        return;
    }
    router_store_audit(r->store, router_caller_name(&access->caller), "model.action", url + 0,
                       "");
    forward(r, req, url, secret);
}
