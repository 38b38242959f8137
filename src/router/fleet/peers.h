/* router/fleet/peers.h - routers that share the database.
 *
 * Each router keeps one row with its address, its version and its load.  Every two seconds it
 * writes its row and reads the rows of all, so that the dashboard of any router shows the whole
 * fleet.  Times are the database's: clocks of two routers may differ by any time.
 */
#ifndef ROUTER_FLEET_PEERS_H
#define ROUTER_FLEET_PEERS_H

#include "router/store/sql.h"

enum {
    ROUTER_FLEET_MAX = 8,
    ROUTER_URL_MAX = 300,
    ROUTER_ALIVE_MS = 10000,               /* a row this old is of a router that has ended */
    ROUTER_PEER_SHOWN_MS = 15 * 60 * 1000, /* and is shown so long as a router that is gone */
    ROUTER_PEER_KEPT_MS = 24 * 3600 * 1000,
    ROUTER_PEERS_MAX = 2 * ROUTER_FLEET_MAX,
};

struct router_load {
    uint64_t requests_per_minute; /* that ended */
    uint64_t running, queued;
};

struct router_peer {
    char url[ROUTER_URL_MAX];
    char version[32];
    int64_t silent_ms; /* the age of its row when it was read */
    struct router_load load;
    bool has_clock;
    int64_t clock_ahead_ms; /* of its clock before the database's, as it says */
};

struct router_peers {
    bool has_clock;
    int64_t clock_ahead_ms;                   /* of our clock before the database's */
    struct router_peer all[ROUTER_PEERS_MAX]; /* those that are alive first, by their urls */
    size_t count;
};

static inline bool router_peer_is_alive(const struct router_peer *peer)
{
    return peer->silent_ms <= ROUTER_ALIVE_MS;
}

/* Writes the row of this router, deletes the rows of routers that ended a day ago, and reads
 * the other rows into *out.  Thread: the database's. */
LR_MUST_USE lr_code router_peers_exchange(struct router_sql *sql, const char *own_url,
                                          const char *version, const struct router_load *own,
                                          struct router_peers *out, struct lr_error *err);

#endif
