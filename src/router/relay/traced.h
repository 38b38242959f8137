/* router/relay/traced.h - what a trace has of a call.  Observers of facts (fact.h); nothing
 * happens where the request is not sampled. */
#ifndef ROUTER_RELAY_TRACED_H
#define ROUTER_RELAY_TRACED_H

#include "router/relay/fact.h"

void router_trace_arrived(const struct router_fact *fact);
void router_trace_sent(const struct router_fact *fact);
void router_trace_left(const struct router_fact *fact);
void router_trace_ended(const struct router_fact *fact);
void router_trace_freed(const struct router_fact *fact);

/* A tool call begins in the answer; for the turn's sink: owner is the call. */
void router_trace_tool(void *owner, struct lr_str name);

#endif
