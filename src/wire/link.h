/* wire/link.h - the link between one loop of a router and a node, and its version.
 *
 *   GET /v0/link      Upgrade: llm-router-link/N      (the node's secret as a bearer token)
 *   101               Upgrade: llm-router-link/M      M is the lower of the two numbers
 *   or                Upgrade: llm-router-link/M+sums    frames have checksums (wire/seal.h)
 *
 * A node that is reached without TLS answers with "+sums" from WIRE_SINCE_SUMS on.
 *
 * From then on both sides send frames (wire/frame.h):
 *
 *   router to node    SUBMIT, SWAP, CANCEL
 *   node to router    the events of every generation, PING each second
 *
 * Each SUBMIT or SWAP is answered by ACCEPTED or REFUSED, then by events, the last of which is
 * DONE, ERROR or LOST. A router gives each attempt its own number.  When a link ends the node
 * cancels the link's generations, and the router starts them elsewhere.
 *
 * Protocol N talks to N - 1 and N + 1.  The same number is used for joining (wire/fleet.h), so
 * that a mismatch is refused when a node joins and not when a client asks.
 *
 * Both sides of a link know the common protocol from the Upgrade, a router knows a node's from
 * its join, and a node a router's from the answer to that join.  A neighbour of the protocol
 * before is sent only what that protocol has: enum wire_since names what is newer.
 */
#ifndef WIRE_LINK_H
#define WIRE_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum {
    WIRE_PROTOCOL = 3,
    WIRE_PROTOCOL_FIRST = 2, /* the first that talks to its neighbours; 1 was 0.1.0's */
};

/* The first common protocol with which a neighbour is sent this. */
enum wire_since {
    WIRE_SINCE_CLOCK = 3,   /* the sender's wall clock in a heartbeat */
    WIRE_SINCE_WEIGHTS = 3, /* the fingerprint of a model's weights: in a heartbeat, in a SUBMIT
                               that continues an answer, and as WIRE_WEIGHTS */
    WIRE_SINCE_SUMS = 3,    /* checksums of the frames of a link without TLS */
    WIRE_SINCE_ERRORS = 3,  /* identities of errors: behind an error in a frame, and in the
                               models and pools of a heartbeat */
    WIRE_SINCE_DIALECTS = 3, /* constraints of dialects beside the first four */
};

enum { WIRE_LINK_NAME_MAX = 32 };

/* "llm-router-link/2", "llm-router-link/3+sums" */
void wire_link_name(uint32_t protocol, bool has_sums, char out[WIRE_LINK_NAME_MAX]);
/* Protocol and checksums of a link's name; false for another name.  has_sums may be NULL. */
bool wire_link_parse(struct lr_str name, uint32_t *protocol, bool *has_sums);

/* The protocol to use with a program that speaks `theirs`; 0: none in common. */
uint32_t wire_protocol_common(uint64_t theirs);

#endif
