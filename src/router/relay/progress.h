/* router/relay/progress.h - what a streamed request waits for, told to its client.
 *
 * A client that sends "X-LLM-Router-Progress: 1" gets a comment about once a second until the
 * first token.  Clients of server-sent events skip comments.
 *     : progress {"state":"queued","ahead":3,"wait_ms":1200}
 *     : progress {"state":"sent"}
 *     : progress {"state":"loading","done":10,"total":100}
 *     : progress {"state":"prefill","done":512,"total":4096}
 * Admins also get the id of the node.  Thread: the call's loop.
 */
#ifndef ROUTER_RELAY_PROGRESS_H
#define ROUTER_RELAY_PROGRESS_H

#include "router/relay/call.h"

bool router_progress_is_wanted(const struct net_request *req);

/* Once a second, while the caller holds the call. */
void router_call_tell_progress(struct router_call *call);

#endif
