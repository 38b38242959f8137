/* router/register.h - adding and removing registrations, in memory and on disk.
 * Thread: any loop; the lock is taken inside.
 */
#ifndef ROUTER_REGISTER_H
#define ROUTER_REGISTER_H

#include "router/state.h"

typedef void (*router_registered_fn)(void *arg, const struct lr_error *err);

/* Adds a model and stores it, then calls fn(arg) on `loop` (fn may be NULL).  The model
 * serves once fn was called without an error.  CONFLICT: the id is taken. */
void router_register(struct router *r, const struct router_new_model *model,
                     struct net_loop *loop, router_registered_fn fn, void *arg);

/* POST /v0/models/register with "repo": ends req. */
void router_register_repo(struct router *r, struct net_request *req,
                          const struct lr_json *body);

#endif
