/* node/host/reload.h - hot reload of an engine (docs/promises.md: hot-reload).
 *
 * A changed engine's files are copied, checked in a process of their own, and then
 * each model that runs on it gets a candidate: a second worker with the new library.
 * Once the candidate has given one token it takes the traffic, and the old worker
 * finishes what it has.  Until then, and whenever anything fails, the old one serves.
 */
#ifndef NODE_HOST_RELOAD_H
#define NODE_HOST_RELOAD_H

#include "node/models/model.h"

typedef void (*node_reload_fn)(void *arg, const struct lr_error *err, bool changed);

/* Reads the engine's folder again.  fn is called once, later: when the new library was
 * found good and its candidates were started, or when it was refused.  `force` also
 * restarts workers of an unchanged library.  While a reload is under way, as after a look that
 * found new files, fn hears how that one ends. */
LR_MUST_USE lr_code node_reload(struct node_models *models, struct node_engine *engine,
                                bool force, node_reload_fn fn, void *arg, struct lr_error *err);

/* A candidate has opened its model: it is asked for one token. */
void node_reload_prove(struct node_worker *candidate);
/* A candidate has died, or was killed for its answer: the old worker stays. */
void node_reload_failed(struct node_model *model, struct node_worker *candidate,
                        const char *how);

/* The swap of a replica that drained first has failed: back to the kept copy.  False when
 * there is none. */
bool node_reload_revert(struct node_replica *replica, const struct lr_error *why);

/* An event for each engine that a scan refused. */
void node_reload_tell_refused(struct node_models *models);

/* Every few seconds: reloads engines whose folder has changed and is quiet again. */
void node_reload_watch(struct node_models *models);

#endif
