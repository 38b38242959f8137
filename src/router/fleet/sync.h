/* router/fleet/sync.h - the fleet and its database: nodes and registrations are written behind
 * the loops, and what other routers on the same database have changed is read.
 */
#ifndef ROUTER_FLEET_SYNC_H
#define ROUTER_FLEET_SYNC_H

#include "router/fleet/dispatch.h"
#include "router/fleet/peers.h"
#include "router/fleet/reach.h"
#include "router/store/keys.h"
#include "router/store/store.h"

struct router_sync {
    /* Borrowed; set once. */
    pthread_mutex_t *lock; /* the router's: it guards the members below, too */
    struct router_store *store;
    struct router_keys *keys;
    struct router_registry *registry;
    struct router_nodes *nodes;
    struct router_alerts *alerts;
    struct router_dispatch *dispatch; /* tickets may wait for a node or a model that changes */
    struct router_reach *reach;       /* nodes are told of registrations */
    struct router_sessions *sessions;

    const char *version; /* of this program; the router's */
    char own_url[ROUTER_URL_MAX];
    char urls[ROUTER_FLEET_MAX][ROUTER_URL_MAX]; /* of all routers, this one too */
    size_t url_count;
    struct router_load load; /* of this router, as it is now */
    struct router_peers
        peers;         /* as they were at peers_ms; none where the database is not shared */
    uint64_t peers_ms; /* monotonic */
};

/* Writes a node down as it is now, also that it was removed.  Lock held. */
void router_node_store(struct router_sync *sync, struct router_node *node);
/* Once a second: writes nodes again that the database could not take, one at a time while it is
 * in trouble, and has the budgets read when the clock has come to a month that is not known.
 * Lock not held. */
void router_sync_second(struct router_sync *sync);
/* What an operator changes of a node: written together with its line in the audit log, and only
 * then true.  fn(arg) is called on `loop` afterwards; never where this fails.  NOT_FOUND: there
 * is no such node.  Lock not held. */
enum router_node_change { ROUTER_DRAIN_NODE, ROUTER_UNDRAIN_NODE, ROUTER_REMOVE_NODE };
LR_MUST_USE lr_code router_node_change(struct router_sync *sync, struct lr_str id,
                                       enum router_node_change change,
                                       const struct router_actor *by, struct net_loop *loop,
                                       router_store_done fn, void *arg, struct lr_error *err);

/* Adds a model and stores it, then calls fn(arg) on `loop` (fn may be NULL).  The model serves
 * once fn was called without an error.  CONFLICT: the id is taken.  by: the caller, for the
 * audit log; NULL: the router itself.  Any loop, lock not held. */
void router_register(struct router_sync *sync, const struct router_new_model *model,
                     const struct router_actor *by, struct net_loop *loop, router_store_done fn,
                     void *arg);
/* A registration that is added or removed, for the audit log.  Lock held. */
void router_describe_model(const struct router_model *model, bool is_added,
                           struct router_change *out);

/* The model is deleted in the database: tickets that wait for it are refused.  Lock held. */
void router_unregister(struct router_sync *sync, struct lr_str id);

/* For router_store_on_change; arg is the struct router_sync.  Everything is read into tables of
 * its own first, and the lock is taken only to merge them, so that a slow database never holds
 * up a loop.  Thread: the database's. */
void router_sync(void *arg, struct router_sql *sql);
/* For router_store_on_usage: these tokens are in the database now.  Thread: the database's. */
void router_sync_usage(void *arg, const struct router_usage *rows, size_t count);

#endif
