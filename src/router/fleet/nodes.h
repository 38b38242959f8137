/* router/fleet/nodes.h - the fleet: which nodes there are, what each can run, how each fares.
 *
 * A node that has once joined stays in memory until the router ends, so that pointers to
 * it stay good; "removed" ones are skipped.  What a node said last is all the router
 * knows: live state is never in the database.
 *
 *   nodes.c        nodes and their replicas, as the nodes report them
 *   prompt_info.c  what renders the prompts of a model
 *   registry.c     the registered models
 *   reach.c        questions to nodes; nodes that are silent or out of reach
 *   alerts.c       events about nodes, and alerts; silences.c, webhook.c
 *   sync.c         the database: what is written there, and what other routers have changed
 *
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_FLEET_NODES_H
#define ROUTER_FLEET_NODES_H

#include "base/sha256.h"
#include "base/strmap.h"
#include "router/fleet/prompt_info.h"
#include "router/sched/replica.h"
#include "router/store/sql.h"
#include "wire/fleet.h"

struct router_probe;

enum {
    ROUTER_POOLS_MAX = 65,  /* as many as a node has: RAM and 64 GPUs */
    ROUTER_CLOCK_LOOKS = 3, /* heartbeats that a judgement of a node's clock needs */
};

/* A node as this router sees it.
 *
 * Moves of a node:
 *   offline -> online, removed
 *   online -> offline, unreachable, removed
 *   unreachable -> offline, online, removed
 *   removed -> offline, online
 *
 * A heartbeat brings a node online, silence takes it offline.  An unreachable node sends
 * heartbeats, but does not answer at its address: it gets no work.  A removed node comes back
 * when it joins again, or when another router has stored it again.  Three things are not
 * states: that the node says it is shutting down (is_draining) and that an operator took it out
 * of service (is_drained) are facts that hold in any state, and is_stored is the database's. */
enum router_node_state {
    ROUTER_NODE_OFFLINE,
    ROUTER_NODE_ONLINE,
    ROUTER_NODE_UNREACHABLE,
    ROUTER_NODE_REMOVED,
};

struct router_node {
    char id[48];
    char name[64];
    char url[288];
    char secret[96]; /* "" until the node has shown it to this process */
    char secret_hash[LR_SHA256_HEX_LEN + 1]; /* what the database keeps of it; "": none */
    char device[16];
    char version[32];
    uint32_t protocol; /* common with it, as its join said (wire/link.h) */
    enum router_node_state state;
    uint64_t reached_ms; /* monotonic; when it last answered us */
    struct router_probe
        *probe;            /* owned: the question that is on its way (reach.c); NULL: none */
    uint64_t epoch;        /* of its process that joined (wire_heartbeat); 0: not known */
    uint64_t twin_ms;      /* monotonic; when another process last came as this node */
    char ignored[32];      /* member of its last report that was left out; "": none */
    bool is_stored;        /* was seen in the database: gone from there, it was removed */
    bool is_unsaved;       /* the database could not take it: written again (sync.c) */
    bool must_join;        /* it is known from the router before, and shall join once more */
    unsigned writes;       /* on their way to the database: router_node_begin_write */
    bool is_drained;       /* an operator took it out of service */
    bool is_draining;      /* it is shutting down */
    int64_t joined_ms;     /* wall */
    uint64_t heartbeat_ms; /* monotonic; the last word of it */
    struct router_health health;
    struct lr_strmap replicas; /* folded model id -> struct router_replica, owned */
    uint32_t pool_count;
    struct {
        char name[96], title[96];
        uint64_t total, used;
        struct wire_gpu gpu;
    } pools[ROUTER_POOLS_MAX];
    int64_t clock_ahead_ms[ROUTER_CLOCK_LOOKS]; /* of its clock before ours, in the last
                                                 * heartbeats */
    uint32_t clock_looks;                       /* heartbeats with a clock */
    uint64_t events_epoch, events_seen;         /* which of its events have been told */
};

struct router_nodes {
    struct router_node **all; /* owned */
    size_t count, capacity;
    struct router_prompt_infos infos;
};

/* The only function that changes the state.  An illegal move takes the node offline: its next
 * heartbeat brings it back. */
void router_node_move(struct router_node *node, enum router_node_state state);
static inline bool router_node_is_online(const struct router_node *node)
{
    return node->state == ROUTER_NODE_ONLINE;
}
static inline bool router_node_is_removed(const struct router_node *node)
{
    return node->state == ROUTER_NODE_REMOVED;
}

void router_nodes_init(struct router_nodes *nodes);
void router_nodes_free(struct router_nodes *nodes);

/* Nodes had no chance to send heartbeats here: the time of their silence begins now, and each
 * is asked to join once more. */
void router_nodes_expect(struct router_nodes *nodes, uint64_t now_ms);

/* Known nodes, all offline until their first heartbeat. */
LR_MUST_USE lr_code router_nodes_load(struct router_nodes *nodes, struct router_sql *sql,
                                      struct lr_error *err);

/* The nodes that are not removed, one after the other; *at begins at 0.  NULL: no more. */
static inline struct router_node *router_nodes_next(const struct router_nodes *nodes,
                                                    size_t *at)
{
    while (*at < nodes->count && router_node_is_removed(nodes->all[*at]))
        (*at)++;
    return *at < nodes->count ? nodes->all[(*at)++] : NULL;
}
struct router_node *router_nodes_find(const struct router_nodes *nodes, struct lr_str id);
/* A removed one too. */
struct router_node *router_nodes_find_any(const struct router_nodes *nodes, struct lr_str id);
/* Whether this is its secret. */
bool router_node_has_secret(const struct router_node *node, struct lr_str secret);
/* The node that holds this secret, which is known from now on; NULL: nobody. */
struct router_node *router_nodes_by_secret(const struct router_nodes *nodes,
                                           struct lr_str secret);

/* A node that another router stored: known from now on, offline until its first heartbeat here.
 * NULL without memory, or where an operator has just removed it here. */
struct router_node *router_nodes_know(struct router_nodes *nodes,
                                      const struct router_node *node);

/* What the database keeps of the node is being written, and is older until then. */
static inline void router_node_begin_write(struct router_node *node)
{
    node->writes++;
}
static inline void router_node_end_write(struct router_node *node)
{
    node->writes--;
}

/* An operator wants it no more: its secret opens nothing from now on. */
void router_node_remove(struct router_node *node);

/* Every replica by a number from 0; NULL: there are no more. */
struct router_replica *router_node_replica_at(const struct router_node *node, size_t index);
/* The replica of a model, by folded id; NULL: the node has never heard of it. */
struct router_replica *router_node_replica(const struct router_node *node,
                                           struct lr_str folded);

/* The model has left the node: its entry stays, and says nothing of files any more. */
void router_replica_forget(struct router_replica *replica);
/* The entry of a model on the first online node that has its files, or an engine that needs
 * none.  A node also lists names without files (a download that was given up or has just begun,
 * a folder that is missing): those do not count.  NULL: none. */
const struct router_replica *router_nodes_listing(const struct router_nodes *nodes,
                                                  struct lr_str id);

/* Takes a whole report in.  url is where we reach it.  `now_ms` is monotonic. */
LR_MUST_USE lr_code router_nodes_join(struct router_nodes *nodes, const struct wire_join *join,
                                      const char *url, uint64_t now_ms, int64_t wall_ms,
                                      struct router_node **out, struct lr_error *err);

/* False: it speaks of a model it has never described, so it should join again.  All else that
 * it says counts. */
bool router_nodes_heartbeat(struct router_node *node, const struct wire_heartbeat *heartbeat,
                            uint64_t now_ms);

/* The node has answered this router.  True: it was unreachable, has been heard within
 * offline_ms, and is online again. */
bool router_node_reached(struct router_node *node, uint64_t now_ms, uint64_t offline_ms);

/* Whether the node may get work at all; else *why_not (NULL is fine) gets the reason. */
bool router_node_serves(const struct router_node *node, struct lr_error *why_not);

/* The template of the first online node that can run the model; NULL: none. */
struct router_prompt_info *router_nodes_info(const struct router_nodes *nodes,
                                             struct lr_str folded);

/* Kinds of requests that the nodes that can run the model take, together (wire/fleet.h); 0: not
 * known. */
uint32_t router_nodes_requests(const struct router_nodes *nodes, struct lr_str folded);

/* ASCII lower case, cut at ROUTER_ID_MAX: ids are compared without case. */
struct lr_str router_fold(struct lr_str id, char out[ROUTER_ID_MAX]);

LR_MUST_USE lr_code router_node_save(struct router_sql *sql, const struct router_node *node,
                                     struct lr_error *err);

#endif
