/* router/http/api.h - the router's HTTP API: one table of routes, a role each, a handler each.
 * Thread: the request's loop.
 */
#ifndef ROUTER_HTTP_API_H
#define ROUTER_HTTP_API_H

#include "router/state.h"

typedef void (*router_api_fn)(struct router *r, struct net_request *req);

struct router_route {
    struct net_route at;
    enum router_role role;
    router_api_fn fn;
};

extern const struct net_routes router_routes; /* rows: struct router_route */

/* cors.c: pages of other origins.  check is for the start; the others are for on_head. */
LR_MUST_USE lr_code router_cors_check(const struct router *r, struct lr_error *err);
bool router_cors_trusts(const struct router *r, const struct net_request *req,
                        const struct router_route *route);
void router_cors_answer(const struct router *r, struct net_request *req,
                        const struct router_route *route);
void router_cors_preflight(const struct router *r, struct net_request *req,
                           const struct router_route *route, struct lr_str methods);

/* For net_server_config.handler. */
void router_api_head(void *arg, struct net_request *req);
void router_api_request(void *arg, struct net_request *req);
void router_api_end(void *arg, const struct net_request *req);

/* Who asks, and whether he may (auth.c).  UNAUTHENTICATED or PERMISSION_DENIED. */
LR_MUST_USE lr_code router_authenticate(struct router *r, const struct net_request *req,
                                        const struct router_route *route,
                                        struct router_caller *out, struct lr_error *err);
/* Who asks, whatever he asks for; role PUBLIC: nobody we know, and a key is needed.
 * UNAUTHENTICATED only for a key that was sent and is no good. */
LR_MUST_USE lr_code router_identify(struct router *r, const struct net_request *req,
                                    enum router_role wants, struct router_caller *out,
                                    struct lr_error *err);
bool router_may(enum router_role has, enum router_role wants);
/* For net_bus: a stream of events outlives the check at its beginning, not the right to it. */
bool router_may_listen(void *arg, struct net_request *req);

/* The name of the session's cookie: with the port, since browsers keep cookies by host
 * alone and two routers on one host must not sign each other out. */
struct lr_str router_cookie_name(const struct router *r, char out[32]);

/* Once a second: silent nodes are left, silent clients get a comment (call.c). */
void router_calls_watch(struct router_loop *loop);
/* What still waits for a node's last word when the router ends. */
void router_calls_end(struct router_loop *loop);

static inline struct router_access *router_access(struct net_request *req)
{
    return net_request_user(req);
}

/* Handlers. */
void router_api_complete(struct router *r, struct net_request *req);
void router_api_v1_models(struct router *r, struct net_request *req);
void router_api_v1_model(struct router *r, struct net_request *req);
void router_api_models(struct router *r, struct net_request *req);
void router_api_register(struct router *r, struct net_request *req);
void router_api_registry(struct router *r, struct net_request *req);
void router_api_manifest(struct router *r, struct net_request *req);
void router_api_delete_model(struct router *r, struct net_request *req);
void router_api_model_action(struct router *r, struct net_request *req);
void router_api_explain(struct router *r, struct net_request *req);
void router_api_join(struct router *r, struct net_request *req);
void router_api_heartbeat(struct router *r, struct net_request *req);
void router_api_nodes(struct router *r, struct net_request *req);
void router_api_node_drain(struct router *r, struct net_request *req);
void router_api_node_undrain(struct router *r, struct net_request *req);
void router_api_node_delete(struct router *r, struct net_request *req);
void router_api_node_token(struct router *r, struct net_request *req);
void router_api_node_forward(struct router *r, struct net_request *req);
void router_api_keys(struct router *r, struct net_request *req);
void router_api_key_create(struct router *r, struct net_request *req);
void router_api_key_change(struct router *r, struct net_request *req);
void router_api_key_revoke(struct router *r, struct net_request *req);
void router_api_usage(struct router *r, struct net_request *req);
void router_api_audit(struct router *r, struct net_request *req);
void router_api_events(struct router *r, struct net_request *req);
void router_api_whoami(struct router *r, struct net_request *req);
void router_api_sign_in(struct router *r, struct net_request *req);
void router_api_sign_out(struct router *r, struct net_request *req);
void router_api_stats(struct router *r, struct net_request *req);
void router_api_alerts(struct router *r, struct net_request *req);
void router_api_health(struct router *r, struct net_request *req);
void router_api_metrics(struct router *r, struct net_request *req);
void router_api_dashboard(struct router *r, struct net_request *req);
void router_api_asset(struct router *r, struct net_request *req);

#endif
