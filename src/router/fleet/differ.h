/* router/fleet/differ.h - what should be equal on all machines of the fleet and is not: alerts.
 *
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_FLEET_DIFFER_H
#define ROUTER_FLEET_DIFFER_H

#include "router/fleet/alerts.h"
#include "router/fleet/peers.h"
#include "router/fleet/registry.h"

/* One name, two models: nodes whose files of a registered model are not those of most nodes
 * (model/fingerprint.h).  Once a second. */
void router_watch_weights(const struct router_nodes *nodes,
                          const struct router_registry *registry, struct router_alerts *alerts);

/* Clocks of nodes, of other routers and of the database that are more than 5 seconds before or
 * behind the router's.  Once a second. */
void router_watch_clocks(const struct router_nodes *nodes, const struct router_peers *peers,
                         const char *own_url, struct router_alerts *alerts);

#endif
