/* router/fleet/register.h - adding registrations, in memory and on disk.
 * Thread: any loop; the lock is taken inside.
 */
#ifndef ROUTER_FLEET_REGISTER_H
#define ROUTER_FLEET_REGISTER_H

#include "net/loop.h"
#include "router/fleet/registry.h"

struct router;

typedef void (*router_registered_fn)(void *arg, const struct lr_error *err);

/* Adds a model and stores it, then calls fn(arg) on `loop` (fn may be NULL).  The model
 * serves once fn was called without an error.  CONFLICT: the id is taken.  actor: who asked
 * for it, for the audit log; NULL: nobody did. */
void router_register(struct router *r, const struct router_new_model *model, const char *actor,
                     struct net_loop *loop, router_registered_fn fn, void *arg);

#endif
