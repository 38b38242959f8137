/* node/fleet/report.h - what a node tells its routers: all of itself when it joins, what
 * changed and what goes on with every heartbeat.  Thread: the node's loop.
 */
#ifndef NODE_FLEET_REPORT_H
#define NODE_FLEET_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct node_models;

/* Which models there are, and (with states) how they are: a change is told at once. */
uint64_t node_report_signature(const struct node_models *models, bool with_states);

/* Who joins. */
struct node_joiner {
    const char *id, *name, *secret;
    const char *url; /* that the routers reach it at; NULL: the address that they see */
    uint16_t port;
    bool has_tls;
    uint64_t epoch; /* of this process; see wire_heartbeat */
};
/* False without memory, as for the next one. */
bool node_report_join(const struct node_models *models, const struct node_joiner *who,
                      struct lr_buf *out);

/* A heartbeat; `epoch` names this process.  *events is how many of the node's events the router
 * knows, and gets how many it knows once this heartbeat was answered. */
bool node_report_heartbeat(const struct node_models *models, uint64_t epoch, uint64_t *events,
                           struct lr_buf *out);

#endif
