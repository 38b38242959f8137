/* router/http/state.h - struct router: the modules of the process.  Only router.c and the
 * handlers of http/ know the whole; a module has pointers to what it needs, which router.c
 * sets.
 *
 * Several loops serve clients; each request lives on one of them.  What they share
 * (keys, models, nodes, queues) is small and changes quickly, so one lock guards it all
 * and is held for microseconds, never across I/O, parsing or rendering.
 */
#ifndef ROUTER_HTTP_STATE_H
#define ROUTER_HTTP_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/file.h"
#include "base/log.h"
#include "base/settings.h"
#include "net/bus.h"
#include "net/cidr.h"
#include "net/client.h"
#include "net/loop.h"
#include "net/server.h"
#include "router/access/session.h"
#include "router/access/tries.h"
#include "router/fleet/dispatch.h"
#include "router/fleet/reach.h"
#include "router/fleet/sync.h"
#include "router/fleet/webhook.h"
#include "router/handover/handover.h"
#include "router/observe/history.h"
#include "router/observe/stats.h"
#include "router/oidc/oidc.h"
#include "router/relay/call.h"
#include "router/store/retention.h"

/* The end of a router.  Where another process accepts clients from now on, this router is
 * leaving: requests on its open connections are answered.  Otherwise new requests are refused.
 * What runs may finish.  Thread: loop 0. */
struct router_drain {
    struct net_timer *timer; /* NULL: not draining */
    uint64_t deadline_ms;    /* UINT64_MAX: none */
    bool is_leaving;
    bool is_cut; /* the server was told to stop at once */
    bool is_done;
    net_loop_fn done;
    void *arg;
};

/* A server whose sockets another router has got.  It ends when its last connection is closed,
 * also where this router has taken its place back and serves by another one. */
enum { ROUTER_LEFT_MAX = 16 };
struct router_left {
    struct net_server *server; /* owned */
    bool has_left;             /* no connection is open any more */
};

/* Loop state: what belongs to one loop.  Thread: that loop. */
struct router_loop {
    struct router *router;
    struct net_loop *net;
    struct net_client *client; /* one connection pool per node */
    struct net_timer *second;
    struct router_relay relay;
};

struct router {
    const struct lr_settings *settings;
    struct net_loops *loops;         /* borrowed */
    struct router_loop *loop_states; /* owned, loop_count of them */
    unsigned loop_count;
    struct net_server *_Atomic server; /* owned, unless it is among those that were left */
    struct router_left left[ROUTER_LEFT_MAX];
    size_t left_count;
    struct net_timer *watch; /* on loop 0 */
    uint64_t seconds;        /* that loop 0 has counted */
    struct router_drain drain;
    struct router_takeover takeover; /* from the router before this one */
    struct router_handover handover; /* to the next one */
    net_loop_fn on_left; /* the next one has everything, and the last answer is out */
    void *on_left_arg;
    struct router_store *store;
    struct lr_file_lock data_lock;     /* one process owns the data folder */
    struct lr_file_lock database_lock; /* and a SQLite file that lies elsewhere */
    char version[32];
    struct net_listeners listeners; /* until the server has them */
    struct net_listeners kept;      /* for a way back: of the server that was left last */
    struct net_listener address; /* that is told to others: a copy, the server has the socket */
    bool is_loopback;
    bool needs_key;
    _Atomic bool has_ignored_key;   /* a made-up key was sent and logged */
    struct net_cidrs proxies;       /* that are believed about the client of a request */
    struct net_cidrs node_networks; /* where nodes may be besides the address they join from */
    bool allows_cpu_nodes;
    uint64_t started_ms;
    _Atomic bool is_draining;
    struct router_metrics metrics; /* atomics: no lock */
    struct router_keeper keeper;
    struct router_retention retention;
    struct router_journal journal;                   /* has a lock of its own */
    struct router_oidc oidc;                         /* has a lock of its own */
    struct router_tracer tracer;                     /* the same */
    struct router_webhook webhook;                   /* on loop 0 */
    void (*on_node)(void *arg, const char *node_id); /* of `up`: a node has joined */
    void *on_node_arg;

    pthread_mutex_t lock; /* guards what follows */
    struct router_keys keys;
    struct router_sessions sessions;
    struct router_tries wrong_keys; /* by address */
    struct router_tries sign_ins;   /* with the OpenID provider, by address */
    struct router_registry registry;
    struct router_nodes nodes;
    struct router_dispatch dispatch;
    struct net_bus events;
    struct router_stats stats;
    struct router_key_usages key_usages;
    struct router_history history;
    struct router_alerts alerts;
    struct router_reach reach;
    struct router_sync sync;
};

static inline void router_lock(struct router *r)
{
    (void)pthread_mutex_lock(&r->lock);
}

static inline void router_unlock(struct router *r)
{
    (void)pthread_mutex_unlock(&r->lock);
}

struct router_loop *router_loop_of(struct router *r, const struct net_request *req);

#endif
