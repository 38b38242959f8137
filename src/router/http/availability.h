/* router/http/availability.h - what a client may expect of a model, over all nodes
 * (api_models.c).
 */
#ifndef ROUTER_HTTP_AVAILABILITY_H
#define ROUTER_HTTP_AVAILABILITY_H

#include "router/fleet/registry.h"
#include "router/http/api.h"

enum { ROUTER_MODEL_STATES = 10 };

/* Borrowed from the router while its lock is held. */
struct router_availability {
    bool can_run;  /* at least one online node can run it */
    bool is_ready; /* files verified and engine resolved on one */
    bool is_loaded;
    const char *state;
    struct lr_error reason; /* why it is not ready; its text "": it is */
    const struct router_replica *best;
    uint64_t counts[ROUTER_MODEL_STATES]; /* nodes that serve, by its state there */
    uint64_t inflight, weight_bytes;
    uint64_t gpu_bytes; /* of the weights, in the memory of a GPU */
    uint64_t context;   /* tokens that every node takes; 0: not known */
    uint32_t requests;  /* kinds that some node takes; 0: not known */
};

/* Lock held. */
struct router_availability router_model_availability(const struct router *r,
                                                     const struct router_model *model);

/* Lock held.  NOT_FOUND: unknown, or not for this caller, which err does not tell apart. */
lr_code router_find_for_caller(struct router *r, struct net_request *req, struct lr_str id,
                               struct router_model **out, struct lr_error *err);

/* Takes the lock, and calls fn for each name, alias or id, of the models that this caller may
 * use; with ?all=true also for those that no node can run. */
typedef void router_name_fn(void *ctx, const struct router_model *model, struct lr_str name,
                            const struct router_availability *availability);
void router_each_name(struct router *r, struct net_request *req, router_name_fn *fn, void *ctx);

#endif
