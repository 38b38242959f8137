#include "net/seats.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/socket.h"

struct net_peer {
    struct net_seat_list idle; /* oldest first */
    uint32_t count;
    size_t key_len;
    char key[16];
};

void net_seats_init(struct net_seats *seats, uint32_t max, uint32_t max_per_peer)
{
    *seats = (struct net_seats){.max = max, .max_per_peer = max_per_peer};
    (void)pthread_mutex_init(&seats->lock, NULL);
    lr_strmap_init(&seats->peers);
}

void net_seats_free(struct net_seats *seats)
{
    struct lr_str key;
    void *peer;
    for (size_t i = 0; lr_strmap_at(&seats->peers, i, &key, &peer); i++)
        free(peer);
    lr_strmap_free(&seats->peers);
    (void)pthread_mutex_destroy(&seats->lock);
}

/* ---- addresses ---- */

/* The bytes that identify a client: all of IPv4, also when written as IPv6, and the first half
 * of IPv6. */
static size_t key_of(const struct sockaddr_storage *address, char out[16])
{
    static const unsigned char mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (address->ss_family != AF_INET6) {
        memcpy(out, &((const struct sockaddr_in *)address)->sin_addr, 4);
        return 4;
    }
    const unsigned char *bytes = ((const struct sockaddr_in6 *)address)->sin6_addr.s6_addr;
    if (memcmp(bytes, mapped, sizeof(mapped)) == 0) {
        memcpy(out, bytes + 12, 4);
        return 4;
    }
    memcpy(out, bytes, 8);
    return 8;
}

static struct net_peer *peer_of(struct net_seats *seats, const struct sockaddr_storage *address)
{
    char key[16];
    size_t len = key_of(address, key);
    struct net_peer *peer = lr_strmap_get(&seats->peers, lr_str(key, len));
    if (peer != NULL)
        return peer;
    peer = calloc(1, sizeof(*peer));
    if (peer == NULL)
        return NULL;
    peer->key_len = len;
    memcpy(peer->key, key, len);
    if (lr_strmap_put(&seats->peers, lr_str(key, len), peer, NULL))
        return peer;
    free(peer);
    return NULL;
}

static void peer_drop(struct net_seats *seats, struct net_peer *peer)
{
    seats->count--;
    if (--peer->count != 0)
        return;
    (void)lr_strmap_remove(&seats->peers, lr_str(peer->key, peer->key_len));
    free(peer);
}

/* ---- lists of idle connections ---- */

static void link_idle(struct net_seats *seats, struct net_seat *seat)
{
    struct net_seat_list *all = &seats->idle, *own = &seat->peer->idle;
    seat->state = NET_SEAT_IDLE;
    seat->prev = all->last;
    seat->peer_prev = own->last;
    seat->next = seat->peer_next = NULL;
    *(all->last != NULL ? &all->last->next : &all->first) = seat;
    *(own->last != NULL ? &own->last->peer_next : &own->first) = seat;
    all->last = own->last = seat;
}

static void unlink_idle(struct net_seats *seats, struct net_seat *seat)
{
    struct net_seat_list *all = &seats->idle, *own = &seat->peer->idle;
    *(seat->prev != NULL ? &seat->prev->next : &all->first) = seat->next;
    *(seat->next != NULL ? &seat->next->prev : &all->last) = seat->prev;
    *(seat->peer_prev != NULL ? &seat->peer_prev->peer_next : &own->first) = seat->peer_next;
    *(seat->peer_next != NULL ? &seat->peer_next->peer_prev : &own->last) = seat->peer_prev;
    seat->state = NET_SEAT_BUSY;
}

static struct net_seat *seats_lose(struct net_seats *seats, struct net_seat *seat)
{
    if (seat == NULL)
        return NULL;
    unlink_idle(seats, seat);
    seat->state = NET_SEAT_LOST;
    peer_drop(seats, seat->peer);
    seat->peer = NULL;
    return seat;
}

/* ---- seats ---- */

static enum net_seats_answer seats_take(struct net_seats *seats, struct net_peer *peer,
                                        bool is_shared, struct net_seat **lost)
{
    peer->count++; /* first, because dropping the last connection of an address would free it */
    seats->count++;
    if (!is_shared && peer->count > seats->max_per_peer) {
        *lost = seats_lose(seats, peer->idle.first);
        return *lost != NULL ? NET_SEATS_TAKEN : NET_SEATS_PEER_FULL;
    }
    if (seats->count > seats->max) {
        *lost = seats_lose(seats, seats->idle.first);
        return *lost != NULL ? NET_SEATS_TAKEN : NET_SEATS_FULL;
    }
    return NET_SEATS_TAKEN;
}

enum net_seats_answer net_seats_take(struct net_seats *seats,
                                     const struct sockaddr_storage *address, bool is_shared,
                                     struct net_peer **peer, struct net_seat **lost)
{
    enum net_seats_answer answer = NET_SEATS_FULL;
    *lost = NULL;
    (void)pthread_mutex_lock(&seats->lock);
    *peer = peer_of(seats, address);
    if (*peer != NULL)
        answer = seats_take(seats, *peer, is_shared, lost);
    if (*peer != NULL && answer != NET_SEATS_TAKEN) {
        peer_drop(seats, *peer);
        *peer = NULL;
    }
    (void)pthread_mutex_unlock(&seats->lock);
    return answer;
}

struct net_seat *net_seats_oldest(struct net_seats *seats)
{
    (void)pthread_mutex_lock(&seats->lock);
    struct net_seat *seat = seats_lose(seats, seats->idle.first);
    (void)pthread_mutex_unlock(&seats->lock);
    return seat;
}

bool net_seat_set_idle(struct net_seats *seats, struct net_seat *seat, bool is_idle)
{
    (void)pthread_mutex_lock(&seats->lock);
    if (seat->state == NET_SEAT_IDLE)
        unlink_idle(seats, seat);
    if (is_idle && seat->state == NET_SEAT_BUSY)
        link_idle(seats, seat);
    bool has = seat->state != NET_SEAT_LOST;
    (void)pthread_mutex_unlock(&seats->lock);
    return has;
}

bool net_seat_leave(struct net_seats *seats, struct net_seat *seat)
{
    (void)pthread_mutex_lock(&seats->lock);
    if (seat->state == NET_SEAT_IDLE)
        unlink_idle(seats, seat);
    bool has = seat->state != NET_SEAT_LOST;
    if (has)
        peer_drop(seats, seat->peer);
    seat->peer = NULL;
    (void)pthread_mutex_unlock(&seats->lock);
    return has;
}
