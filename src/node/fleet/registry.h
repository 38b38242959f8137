/* node/fleet/registry.h - what the routers have registered, asked for by the node itself.
 *
 * Whenever a router's registry has changed the node reads its list, takes the manifests of
 * models it can run and does not have, gives up downloads of what is no longer there, and
 * runs what it has in the registered format.  Where two routers differ in a model, the
 * newer registration counts: each has a generation number.  An answer that fails or is refused
 * changes nothing here.  Thread: the node's loop.
 */
#ifndef NODE_FLEET_REGISTRY_H
#define NODE_FLEET_REGISTRY_H

#include "base/fail.h"
#include "base/str.h"

struct node;
struct node_registry;
struct net_client;
struct wire_fleet_reply;

/* client is borrowed and outlives it. */
LR_MUST_USE lr_code node_registry_create(struct node *node, struct net_client *client,
                                         struct node_registry **out, struct lr_error *err);
void node_registry_destroy(struct node_registry *registry); /* NULL is fine */

/* The router at this URL answered so to a heartbeat or a join. */
void node_registry_heard(struct node_registry *registry, const char *router,
                         const struct wire_fleet_reply *reply);

/* That router has left the fleet. */
void node_registry_forget(struct node_registry *registry, const char *router);

#endif
