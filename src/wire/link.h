/* wire/link.h - the link between one loop of a router and a node, and its version.
 *
 *   GET /v0/link      Upgrade: llm-router-link/N      (the node's secret as a bearer token)
 *   101               Upgrade: llm-router-link/M      M is the lower of the two numbers
 *
 * From then on both sides send frames (wire/frame.h):
 *
 *   router to node    SUBMIT, SWAP, CANCEL
 *   node to router    the events of every generation, PING each second
 *
 * Each SUBMIT or SWAP is answered by ACCEPTED or REFUSED, then by events, the last of which is
 * DONE, ERROR or LOST.  A router gives each attempt a number of its own.  A link that ends
 * takes its generations with it: the node cancels them, the router begins them elsewhere.
 *
 * Protocol N talks to N - 1 and N + 1.  The number is the same one as that of joining
 * (wire/fleet.h): a fleet refuses when a node joins, not when a client asks.
 */
#ifndef WIRE_LINK_H
#define WIRE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
    WIRE_PROTOCOL = 2,
    WIRE_PROTOCOL_FIRST = 2, /* the first that its neighbours understand; 1 was 0.1.0's */
};

enum { WIRE_LINK_NAME_MAX = 32 };

/* "llm-router-link/2" */
void wire_link_name(uint32_t protocol, char out[WIRE_LINK_NAME_MAX]);
/* The number in such a name; false for another name. */
bool wire_link_parse(struct lr_str name, uint32_t *protocol);

/* The protocol that this program and one that speaks `theirs` use together; 0: none. */
uint32_t wire_protocol_common(uint64_t theirs);

#endif
