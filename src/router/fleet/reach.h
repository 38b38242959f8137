/* router/fleet/reach.h - what the router asks its nodes outside of generating, and whether it
 * reaches them.
 *
 * Where to ask is copied out of the lock, so that the node may be removed meanwhile.
 *
 * A heartbeat shows that a node reaches the router, not that the router reaches the node: a
 * firewall, a wrong --advertise or another process at the address do not stop heartbeats.  So
 * the router asks for GET /health where a node says it is: before it lets the node join, and
 * again every other second while heartbeats come.  The answer names the process (its epoch).
 */
#ifndef ROUTER_FLEET_REACH_H
#define ROUTER_FLEET_REACH_H

#include <pthread.h>

#include "net/client.h"
#include "router/fleet/alerts.h"

struct router_dispatch;

struct router_target {
    char id[48], name[64];
    char url[288], secret[96];
    uint32_t protocol; /* common with it, as its join said */
};

/* With the lock held. */
void router_target_set(struct router_target *out, const struct router_node *node);

/* With the lock held: every online node that has the model, or (folded "") every online
 * node at all.  In the arena; NULL without memory.  *offline counts the others. */
struct router_target *router_targets(const struct router_nodes *nodes, struct lr_str folded,
                                     struct lr_arena *arena, size_t *count, size_t *offline);

struct router_question {
    const char *method; /* "GET", "POST", "DELETE" */
    const char *path;   /* "/v0/models/..." with its query */
    struct lr_str body; /* of a POST; empty: {} */
    uint32_t wait_ms;   /* for the answer's head */
};

/* fn once, later, as net_fetch calls it; never where this fails.  NULL: nobody needs the
 * answer. Thread: the client's loop. */
LR_MUST_USE lr_code router_ask(struct net_client *client, const struct router_target *to,
                               const struct router_question *question, net_fetch_fn fn,
                               void *arg, struct lr_error *err);

/* err NULL: the process `epoch` (0: it does not say) of a node with that secret answered. */
typedef void (*router_dial_fn)(void *arg, const struct lr_error *err, uint64_t epoch);

/* Borrowed by the call: the caller keeps it until fn was called or the loop's client ended. */
struct router_dial {
    router_dial_fn fn;
    void *arg;
    bool (*may_connect)(void *arg, const char *address); /* NULL: everywhere */
};

/* fn once, later; never where this fails.  Thread: the client's loop. */
LR_MUST_USE lr_code router_dial(struct net_client *client, const struct router_target *to,
                                struct router_dial *dial, struct lr_error *err);

/* ---- nodes that have joined ---- */

struct router_reach {
    /* Borrowed; set once. */
    pthread_mutex_t *lock; /* the router's */
    struct net_loop *net;  /* loop 0, and its client */
    struct net_client *client;
    struct router_nodes *nodes;
    struct router_alerts *alerts;
    struct router_dispatch *dispatch; /* a node that is back may have a slot */
    uint64_t offline_ms;              /* without a heartbeat for so long a node is offline */
};

/* Every quarter of a second, lock not held: takes nodes that fell silent offline. */
void router_reach_watch(struct router_reach *reach, uint64_t now_ms);
/* Once a second on loop 0, lock not held: asks the nodes that are due, and ends alerts that are
 * over. */
void router_reach_second(struct router_reach *reach);

/* Another process wants to be this node while the one that joined still answers.  Lock held. */
void router_reach_twin(struct router_reach *reach, struct router_node *node, const char *url,
                       const char *from);

/* The registry has changed: every online node is told to look now, not with its next
 * heartbeat.  A node that does not hear it finds out by itself.  Any thread, lock not held. */
void router_reach_tell(struct router_reach *reach);

#endif
