/* router/relay/upstream.h - a generation on its way to a node and back: over the node's trunk
 * where it has one, else over a connection of its own.
 *
 * Each loop keeps one trunk to each node (POST /v0/trunk): an answer without end on which the
 * node sends the events of all generations of this loop.  The request itself travels as ever;
 * with a trunk its answer is 202 and the pooled connection is free again at once.  The owner
 * notices no difference: on_headers with 200 (or the status of a refusal), on_body with whole
 * events (or the refusal's body), on_done once.  A trunk that breaks ends all its generations
 * with an error, as their own connections would have.
 * Thread: the home's loop.
 */
#ifndef ROUTER_RELAY_UPSTREAM_H
#define ROUTER_RELAY_UPSTREAM_H

#include "router/state.h"

struct router_upstream;

/* Where a node is; borrowed for the call. */
struct router_peer {
    const struct router_node *node; /* who it is: stays good for the router's life */
    const char *url;                /* http://host:port */
    const char *bearer;             /* "Bearer ..." */
};

/* Like net_call_start with config, whose headers are at most ROUTER_UPSTREAM_HEADERS. */
enum { ROUTER_UPSTREAM_HEADERS = 7 };
LR_MUST_USE lr_code router_upstream_start(struct router_home *home,
                                          const struct router_peer *peer,
                                          const struct net_call_config *config,
                                          struct router_upstream **out, struct lr_error *err);

/* The owner leaves: no callback after this, and the node is told. */
void router_upstream_cancel(struct router_upstream *upstream);

/* The home's client is gone, and with it every call. */
void router_upstreams_free(struct router_home *home);

#endif
