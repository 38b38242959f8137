/* net/seats.h - how many connections there are, of whom, and which may go (internal).
 *
 * A connection without a request is idle: it has sent nothing, part of a head, or waits for
 * its client's next request.  Where there is no room, the oldest idle one makes it: of the
 * same address where that has its share, else of all.  So a client that opens connections and
 * says nothing closes its own.
 * Thread: any; a lock of its own, held for a few pointers.
 */
#ifndef NET_SEATS_H
#define NET_SEATS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/strmap.h"

struct net_peer; /* an address; of IPv6 its /64, which one client has whole */

enum net_seat_state {
    NET_SEAT_BUSY,
    NET_SEAT_IDLE,
    NET_SEAT_LOST, /* given to another: it counts no more and is to be closed */
};

struct net_seat {
    struct net_peer *peer; /* counted there until it is lost or left */
    enum net_seat_state state;
    struct net_seat *prev, *next;           /* of all idle ones, oldest first */
    struct net_seat *peer_prev, *peer_next; /* of the same address */
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

/* A connection from this address: counted, and *peer is its seat's from here to
 * net_seat_leave.  An address that many clients share (a proxy's) has no bound of its own.
 * *lost (may be set to NULL): the seat that made room; its owner closes it. */
enum net_seats_answer net_seats_take(struct net_seats *seats,
                                     const struct sockaddr_storage *address, bool is_shared,
                                     struct net_peer **peer, struct net_seat **lost);
/* The oldest idle one loses its seat, for want of something else; NULL: there is none. */
struct net_seat *net_seats_oldest(struct net_seats *seats);

/* Both: whether it still has its seat; a lost one stays lost.  A connection leaves when it is
 * closed, or was never made (a seat with only its peer set). */
bool net_seat_set_idle(struct net_seats *seats, struct net_seat *seat, bool is_idle);
bool net_seat_leave(struct net_seats *seats, struct net_seat *seat);

#endif
