/* router/handover/known_nodes.h - what a router knows and its database does not: the nodes as
 * they said they are.
 *
 * The text is lines of JSON: an object (empty; releases before kept sessions there), then two
 * lines for each node, its address and its join (wire/fleet.h).  The text holds secrets and is
 * never in a file with a name.  Thread: the router's lock is held.
 */
#ifndef ROUTER_HANDOVER_KNOWN_NODES_H
#define ROUTER_HANDOVER_KNOWN_NODES_H

#include "router/fleet/nodes.h"

/* Borrowed. */
struct router_known_nodes {
    struct router_nodes *nodes;
};

/* out->failed: no memory. */
void router_known_nodes_write(const struct router_known_nodes *memory, struct lr_buf *out);

/* A node that cannot be read is left out, and joins again. */
void router_known_nodes_read(const struct router_known_nodes *memory, struct lr_str text,
                             uint64_t now_ms);

#endif
