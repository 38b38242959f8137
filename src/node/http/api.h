/* node/http/api.h - the node's HTTP API: one table of routes, one handler each.
 * Thread: the node's loop.
 */
#ifndef NODE_HTTP_API_H
#define NODE_HTTP_API_H

#include "net/json.h"
#include "net/routes.h"
#include "node/http/state.h"

/* For net_server_config.handler.  The route and the caller are checked before a byte of the
 * body is read. */
void node_api_head(void *arg, struct net_request *req);
void node_api_request(void *arg, struct net_request *req);

/* NULL: NOT_FOUND names the model and says what there is. */
struct node_model *node_need_model(struct node *node, struct lr_str id, struct lr_error *err);

/* Answers 200 with all that is known of a model. */
LR_MUST_USE lr_code node_api_put_model(struct net_request *req, const struct node_model *model,
                                       struct lr_error *err);

/* link.c, once a second: a sign of life on each link of a router. */
void node_links_tick(struct node *node);
/* No generation runs any more: ends all links. */
void node_links_end(struct node *node);

/* A part of the path, its escapes decoded: of /v0/models/x the third, 2, is "x". */
static inline struct lr_str node_api_segment(const struct net_request *req, size_t index)
{
    return ((const struct net_match *)net_request_user(req))->path.segments[index];
}

/* A handler.  LR_OK: the request is answered, or will be.  Else *err is the answer.  The
 * request's user pointer is its struct net_match. */
typedef lr_code node_api_fn(struct node *node, struct net_request *req, struct lr_error *err);

node_api_fn node_api_generate;
node_api_fn node_api_generate_stop;
node_api_fn node_api_link;
node_api_fn node_api_complete;
node_api_fn node_api_v1_models;
node_api_fn node_api_models;
node_api_fn node_api_model_info;
node_api_fn node_api_model_count;
node_api_fn node_api_model_delete;
node_api_fn node_api_model_action;
node_api_fn node_api_inspect;
node_api_fn node_api_fit;
node_api_fn node_api_heartbeat;
node_api_fn node_api_engines;
node_api_fn node_api_engine_reload;
node_api_fn node_api_memory;
node_api_fn node_api_logs;
node_api_fn node_api_events;
node_api_fn node_api_health;
node_api_fn node_api_livez;
node_api_fn node_api_readyz;
node_api_fn node_api_metrics;

#endif
