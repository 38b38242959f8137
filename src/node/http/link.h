/* node/http/link.h - the links of routers: all generations of one loop of a router over one
 * connection (wire/link.h).
 *
 *   (GET /v0/link) --101--> open --the router leaves, does not read or sends no frames-->
 * closed
 *
 * The events of one read from a worker leave in one write.  A link that closes takes its
 * generations with it: nobody is left to hear them.
 * Thread: the node's loop.
 */
#ifndef NODE_HTTP_LINK_H
#define NODE_HTTP_LINK_H

#include "node/state.h"

/* Once a second: a sign of life on each link. */
void node_links_tick(struct node *node);
/* No generation runs any more: ends them all. */
void node_links_end(struct node *node);

#endif
