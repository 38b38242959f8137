/* node/fleet/registry.h - what the routers have registered, asked for by the node itself.
 *
 * Whenever a router's registry has changed the node reads its list, takes the manifests of
 * models it can run and does not have, gives up downloads of what is no longer there, and
 * runs what it has in the registered format.  Where two routers differ in a model, the
 * newer registration counts: each has a generation number.  An answer that fails or is refused
 * changes nothing here.  Thread: the node's loop.
 */
#ifndef NODE_FLEET_REGISTRY_H
#define NODE_FLEET_REGISTRY_H

#include "base/fail.h"
#include "base/strmap.h"

struct node_registry;
struct node_storage;
struct net_client;
struct wire_fleet_reply;

/* A router, and how much of its registry is known here.  Zeroed, with a url: not heard yet. */
struct node_source {
    struct node_source *next;
    const char *url;              /* borrowed */
    uint64_t heard;               /* version of its registry, as it says */
    uint64_t seen;                /* wholly looked at; 0: none */
    uint64_t ask_ms;              /* not before */
    uint64_t heard_ms;            /* 0: never */
    struct lr_strmap generations; /* folded id -> generation: its list as it was read last */
};

/* All are borrowed and outlive it; the secret is the node's. */
struct node_registry *node_registry_create(struct node_storage *storage,
                                           struct net_client *client, const char *secret);
void node_registry_destroy(struct node_registry *registry); /* NULL is fine */

/* The router answered so to a heartbeat or a join.  The source is the caller's until it is
 * forgotten. */
void node_registry_heard(struct node_registry *registry, struct node_source *source,
                         const struct wire_fleet_reply *reply);

/* The router has left the fleet. */
void node_registry_forget(struct node_registry *registry, struct node_source *source);

#endif
