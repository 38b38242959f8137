/* router/router.h - the router process: one OpenAI-compatible endpoint over many nodes.
 *
 * `llm-router router` is router_create, router_start, loops, router_stop,
 * router_destroy; `up` does the same and looks after a node of its own beside it.
 */
#ifndef ROUTER_ROUTER_H
#define ROUTER_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "net/loop.h"

struct router;

/* Opens the database and reads what it holds.  Settings (rows of `router` and `up`) and
 * loops are borrowed and outlive the router.  takes_over: from the router that runs with the
 * same data folder, if one does (router/handover/handover.h).  Before the loops run. */
LR_MUST_USE lr_code router_create(struct net_loops *loops, const struct lr_settings *settings,
                                  const char *version, bool takes_over, struct router **out,
                                  struct lr_error *err);

/* Binds and serves as soon as the loops run.  On an address beyond this machine the
 * first start makes an admin key: *admin_key gets its text (to be shown once), else "". */
LR_MUST_USE lr_code router_start(struct router *router, char admin_key[64],
                                 struct lr_error *err);

/* From now on another router may take over.  It has everything, and the last answer of this
 * router is out: done(arg), on loop 0.  After router_start, before the loops run. */
void router_offer(struct router *router, net_loop_fn done, void *arg);
/* This process has started the router that may take over; 0: that one has ended.  Loop 0. */
void router_expect(struct router *router, long pid);

/* Whether the process got everything, now or before.  Loop 0. */
bool router_has_given_to(const struct router *router, int64_t pid);

/* Takes no new request (503 with Retry-After), lets those that run finish within
 * deadline_ms, then stops listening and calls done(arg).  Where a service manager has the
 * sockets, too, new connections wait there for the next router instead.  Called once more, it
 * cuts what runs.  Thread: loop 0. */
void router_stop(struct router *router, uint32_t deadline_ms, net_loop_fn done, void *arg);

/* After done, with the loops ended.  NULL is fine. */
void router_destroy(struct router *router);

/* "http://127.0.0.1:11680" */
void router_url(const struct router *router, char out[300]);

/* A key of role node that `up` gives to its own node.  Before router_start. */
LR_MUST_USE lr_code router_make_token(struct router *router, const char *name, char out[64],
                                      struct lr_error *err);

/* What `up --device cpu` implies for its own node.  Before the start. */
void router_allow_cpu_nodes(struct router *router);

/* Each time a node has joined, on any loop: `up` waits for its own.  Before the start. */
typedef void (*router_node_fn)(void *arg, const char *node_id);
void router_on_node(struct router *router, router_node_fn fn, void *arg);

/* Registers every model of a node that is not registered yet and that the node can run, or that
 * wants(arg, id) names: lists then show it with the reason why it cannot run. */
typedef bool (*router_wants_fn)(void *arg, const char *id);
void router_adopt_models(struct router *router, const char *node_id, router_wants_fn wants,
                         void *arg);

/* The model that a newcomer is told about, by its state: loaded, can run, cannot run; models
 * that can run come before a registered model that cannot.  False: the model is not registered,
 * or no node has one; *out says which and why it cannot run. */
struct router_best_model {
    char model[256];
    char state[16];
    char reason[384];
    bool can_run, is_loaded;
};
bool router_best_model(struct router *router, struct router_best_model *out);

/* For `llm-router config check`: whether the settings of `router` or `up` are allowed together.
 * Nothing is created or changed. */
LR_MUST_USE lr_code router_check_settings(const struct lr_settings *settings,
                                          struct lr_error *err);

/* `llm-router router`: runs until SIGTERM or SIGINT, or until the router that SIGUSR2 starts
 * has taken over.  args: the command line of this process, for that router. */
LR_MUST_USE lr_code router_run(const struct lr_settings *settings, const char *version,
                               const char *const *args, struct lr_error *err);

#endif
