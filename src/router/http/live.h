/* router/http/live.h - what the event stream tells beside changes of the registry: figures
 * each second, what nodes report with their heartbeats, downloads as they grow.
 * Thread: the router's lock is held, unless a comment says otherwise.
 */
#ifndef ROUTER_HTTP_LIVE_H
#define ROUTER_HTTP_LIVE_H

#include "router/state.h"

/* Once a second: takes the figures and tells them while somebody listens.  Lock not held. */
void router_live_second(struct router *r);

/* An event about a node; the return of one settles its silence. */
void router_live_node(struct router *r, const struct router_node *node, const char *event);
void router_live_offline(struct router *r, const struct router_node *node, uint64_t silent_ms);

/* What a heartbeat brought beside load and memory. */
void router_live_heartbeat(struct router *r, struct router_node *node,
                           const struct wire_heartbeat *heartbeat);

#endif
