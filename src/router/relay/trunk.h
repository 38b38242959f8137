/* router/relay/trunk.h - one loop's trunk to one node (internal to upstream.c and trunk.c).
 *
 * A trunk is closed, opening (its call runs, no number has come) or open (`id` is set).  It is
 * opened by the first request that would have used it; that one goes its own way.
 * Thread: the home's loop.
 */
#ifndef ROUTER_RELAY_TRUNK_H
#define ROUTER_RELAY_TRUNK_H

#include "router/relay/upstream.h"

struct router_upstream {
    struct router_upstream *next, **link; /* of home->upstreams */
    struct router_trunk *trunk;           /* NULL: it has a connection of its own */
    struct router_home *home;
    struct net_call *call; /* the request; NULL once it was answered */
    struct net_call_callbacks owner;
    uint64_t trunk_id, stream;
    uint32_t ahead;   /* events of it in the present read that are still to come */
    int status;       /* of the answer to the request */
    bool has_head;    /* the owner was told a status */
    bool has_left;    /* the owner hears no more */
    bool has_ended;   /* the node's last event has come */
    bool is_attached; /* has its number on the trunk */
};

struct router_trunk_slot {
    struct router_upstream *upstream; /* NULL: free */
    uint32_t generation;              /* so that a late event finds nobody */
    uint32_t next_free;               /* index + 1; 0: none */
};

struct router_trunk {
    struct router_trunk *next; /* of home->trunks */
    struct router_home *home;
    const struct router_node *node;
    char url[300];
    char bearer[128];
    struct net_call *call; /* NULL: closed */
    uint64_t id;           /* 0: not open */
    int status;
    uint64_t retry_ms; /* not opened again before */
    struct lr_buf in;  /* a frame that has not arrived whole */
    struct router_trunk_slot *slots;
    uint32_t slot_count, free_slot; /* free_slot: index + 1; 0: none */
};

/* The open trunk to this node; NULL where there is none (yet). */
struct router_trunk *router_trunk_of(struct router_home *home, const struct router_peer *peer);

/* Gives the upstream its number.  False: no memory. */
bool router_trunk_attach(struct router_trunk *trunk, struct router_upstream *upstream);
void router_trunk_detach(struct router_upstream *upstream);

/* Tells the node that nobody listens to this one any more. */
void router_trunk_leave(const struct router_upstream *upstream);

void router_trunks_free(struct router_home *home);

/* ---- upstream.c, for the trunk ---- */
/* An event of the node; `is_last` is its DONE or ERROR. */
void router_upstream_event(struct router_upstream *upstream, struct lr_str event, bool is_last);
/* The trunk is gone. */
void router_upstream_lost(struct router_upstream *upstream, const struct lr_error *err);

#endif
