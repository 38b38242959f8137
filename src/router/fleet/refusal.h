/* router/fleet/refusal.h - what a client is told whose model no node can serve.
 *
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_FLEET_REFUSAL_H
#define ROUTER_FLEET_REFUSAL_H

#include "router/fleet/registry.h"

/* UNAVAILABLE, with the reason of each node: the client may come again.  NOT_FOUND where the
 * last word of every registered node, online or not, was that it will never run the model: it
 * has no engine for it, or has judged the verified files (state "failed").  A node that has not
 * spoken of the model since the router's start may still get it. */
lr_code router_refusal_nobody(const struct router_nodes *nodes,
                              const struct router_model *model, struct lr_error *err);

/* The pause that a node named before its next try to load the model, in seconds; 0: none. */
uint32_t router_refusal_pause(const struct lr_error *err);

#endif
