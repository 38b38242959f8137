/* node/http/trunk.h - the events of many generations over one HTTP answer.
 *
 * A token on a connection of its own costs a system call at each end, and a segment with its
 * acknowledgement between them: more than everything else that is done with it.  A router
 * therefore opens one answer without end (POST /v0/trunk) for each of its loops and has the
 * events of all its generations sent there, those of one read from a worker in one write.
 * The generations themselves are asked for as ever; their answer is 202.
 * A trunk that breaks takes its generations with it: nobody is left to hear them.
 * Thread: the node's loop.
 */
#ifndef NODE_HTTP_TRUNK_H
#define NODE_HTTP_TRUNK_H

#include "net/request.h"
#include "node/state.h"

/* POST /v0/generate with WIRE_TRUNK_HEADER: starts it and ends req. */
void node_trunk_generate(struct node *node, struct net_request *req, struct lr_str header);

/* Once a second: a sign of life on each trunk. */
void node_trunks_tick(struct node *node);
/* No generation runs any more: ends them all. */
void node_trunks_end(struct node *node);

#endif
