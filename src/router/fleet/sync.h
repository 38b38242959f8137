/* router/fleet/sync.h - the fleet and its database: nodes are written behind the loops, and
 * what other routers on the same database have changed is read.
 */
#ifndef ROUTER_FLEET_SYNC_H
#define ROUTER_FLEET_SYNC_H

#include "router/fleet/nodes.h"

struct router;

/* Writes a node down as it is now, also that it was removed.  Lock held. */
void router_node_store(struct router *r, struct router_node *node);
/* Writes those down again that the database could not take; one at a time while it is in
 * trouble.  Lock held. */
void router_nodes_store_again(struct router *r);
/* One of them within a transaction. */
LR_MUST_USE lr_code router_node_write(struct router_sql *sql, const struct router_node *node,
                                      struct lr_error *err);

/* For router_store_on_change.  Everything is read into tables of its own first, and the lock is
 * taken only to merge them, so that a slow database never holds up a loop.  Thread: the
 * database's. */
void router_sync(void *arg, struct router_sql *sql);

#endif
