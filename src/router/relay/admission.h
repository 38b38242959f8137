/* router/relay/admission.h - may this request be served for this key?
 *
 * The cheapest check comes first: a request that its key does not allow is refused before its
 * schemas are compiled.  False: the request was answered.  Thread: the call's loop.
 */
#ifndef ROUTER_RELAY_ADMISSION_H
#define ROUTER_RELAY_ADMISSION_H

#include "base/str.h"

struct router_call;

/* Counts the request against the key's rate.  A refused request counts, too, unless no node
 * could serve it.  Nothing is parsed before this, so that a key over its rate costs nothing. */
bool router_call_take_rate(struct router_call *call);
/* Finds the model, whether the key may use it, and whether a node can serve the request. */
bool router_call_admit(struct router_call *call, struct lr_str name);

#endif
