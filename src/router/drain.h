/* router/drain.h - what the end of a router shares with its start (router.c).
 *
 * Thread: loop 0, or before and after the loops run.
 */
#ifndef ROUTER_DRAIN_H
#define ROUTER_DRAIN_H

#include "router/handover/known_nodes.h"
#include "router/router.h"

/* Accepts clients on r->listeners. */
LR_MUST_USE lr_code router_serve(struct router *router, struct lr_error *err);
struct router_known_nodes router_known_nodes_of(struct router *router);
/* Closes the sockets that were kept for a way back. */
void router_drop_kept(struct router *router);

#endif
