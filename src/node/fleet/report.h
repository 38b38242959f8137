/* node/fleet/report.h - what a node tells its routers: all of itself when it joins, what
 * changed and what goes on with every heartbeat.  Thread: the node's loop.
 */
#ifndef NODE_FLEET_REPORT_H
#define NODE_FLEET_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct node_models;
struct wire_join;

/* Which models there are, and (with states) how they are: a change is told at once. */
uint64_t node_report_signature(const struct node_models *models, bool with_states);

/* A join.  The caller has set who the node is, where it is reached and its epoch; the rest is
 * set here.  False without memory, as for the next one. */
bool node_report_join(const struct node_models *models, struct wire_join *join,
                      struct lr_buf *out);

/* A heartbeat; `epoch` names this process, `protocol` is common with the router.  *events is
 * how many of the node's events the router knows, and gets how many it knows once this
 * heartbeat was answered. */
bool node_report_heartbeat(const struct node_models *models, uint64_t epoch, uint32_t protocol,
                           uint64_t *events, struct lr_buf *out);

#endif
