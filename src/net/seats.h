/* net/seats.h - limits on the number of connections, in total and per address (internal).
 *
 * Each connection has a seat.  A connection without a request is idle: it has sent nothing,
 * sent part of a head, or waits for its client's next request.  When there is no free seat, the
 * oldest idle connection is closed: of the same address when the address has reached its limit,
 * else of all addresses.  So a client that opens connections and sends nothing closes its own.
 * Thread: any; has its own lock, held briefly.
 */
#ifndef NET_SEATS_H
#define NET_SEATS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/os/socket.h"
#include "base/strmap.h"

struct net_peer; /* a client address; for IPv6 a /64, which usually is one client */

enum net_seat_state {
    NET_SEAT_BUSY,
    NET_SEAT_IDLE,
    NET_SEAT_LOST, /* given to another connection: no longer counted, to be closed */
};

struct net_seat {
    struct net_peer *peer; /* counted there until the seat is lost or left */
    enum net_seat_state state;
    struct net_seat *prev, *next;           /* list of all idle seats, oldest first */
    struct net_seat *peer_prev, *peer_next; /* list of idle seats of the same address */
};

struct net_seat_list {
    struct net_seat *first, *last;
};

struct net_seats {
    pthread_mutex_t lock;
    struct lr_strmap peers;
    struct net_seat_list idle;
    uint32_t count;
    uint32_t max;          /* of all */
    uint32_t max_per_peer; /* of one address */
};

void net_seats_init(struct net_seats *seats, uint32_t max, uint32_t max_per_peer);
void net_seats_free(struct net_seats *seats);

enum net_seats_answer { NET_SEATS_TAKEN, NET_SEATS_FULL, NET_SEATS_PEER_FULL };

/* Counts a connection from this address; *peer belongs to its seat until net_seat_leave.  An
 * address that many clients share (a proxy's) has no limit of its own.  *lost is the seat that
 * made room, or NULL; its owner closes the connection. */
enum net_seats_answer net_seats_take(struct net_seats *seats,
                                     const struct sockaddr_storage *address, bool is_shared,
                                     struct net_peer **peer, struct net_seat **lost);
/* Takes the seat of the oldest idle connection; NULL: there is none. */
struct net_seat *net_seats_oldest(struct net_seats *seats);

/* Both return whether the connection still has its seat; a lost seat stays lost.  A connection
 * leaves when it is closed or could not be created (a seat with only its peer set). */
bool net_seat_set_idle(struct net_seats *seats, struct net_seat *seat, bool is_idle);
bool net_seat_leave(struct net_seats *seats, struct net_seat *seat);

#endif
