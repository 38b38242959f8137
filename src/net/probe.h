/* net/probe.h - GET /livez and GET /readyz: whether a process lives, and whether it should get
 * requests.
 *
 * /livez is 200 as long as the event loop answers.  /readyz lists checks, each with its reason
 * and what to do; it is 503 if a required check fails.  ?require=a,b adds checks to those that
 * are required anyway.  The answers need no key, so that they name neither nodes nor models nor
 * addresses.
 */
#ifndef NET_PROBE_H
#define NET_PROBE_H

#include "net/request.h"

struct net_check {
    const char *name;
    bool is_required, is_ok;
    const char *reason, *advice; /* of a check that fails */
};

LR_MUST_USE lr_code net_probe_livez(struct net_request *req, struct lr_error *err);
/* Changes is_required of the checks that the query names.  INVALID_ARGUMENT: it names a check
 * that does not exist. */
LR_MUST_USE lr_code net_probe_readyz(struct net_request *req, struct net_check *checks,
                                     size_t count, struct lr_error *err);

#endif
