/* router/relay/usage.h - what a call used: its usage record, the budget, the rate and the sums
 * of its key, the tally of the replica.  Observers of facts (fact.h). */
#ifndef ROUTER_RELAY_USAGE_H
#define ROUTER_RELAY_USAGE_H

#include "router/relay/fact.h"

void router_usage_ended(const struct router_fact *fact);
void router_usage_freed(const struct router_fact *fact);

#endif
