/* net/bus.h - what happens in this process, for clients that watch (server-sent events).
 *
 * An event is a JSON object with "event" and "time".  A subscriber gets the last few events and
 * then each new one; a subscriber that does not read is cut off, and so is a subscriber to
 * which 2 MB are on their way.  Subscribers live on their loops; texts travel there by post.
 * Thread: any.  Begin, the members and send belong together: callers on several threads hold a
 * lock of their own around them.
 */
#ifndef NET_BUS_H
#define NET_BUS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/json.h"
#include "net/request.h"

enum { NET_BUS_KEPT = 64, NET_BUS_SUBSCRIBERS_MAX = 256 };

struct net_subscriber;

struct net_bus {
    struct lr_buf text; /* the event that is being written */
    struct lr_json_writer writer;
    uint64_t count; /* events since the start */
    _Atomic size_t subscriber_count;
    pthread_mutex_t lock;     /* guards what follows; nothing else is locked within it */
    char *kept[NET_BUS_KEPT]; /* owned; a ring */
    struct net_subscriber *subscribers;
    /* Asked once a second for each subscriber, on its loop.  NULL: everybody may. */
    bool (*may_listen)(void *arg, struct net_request *req);
    void *arg;
    /* Called after each event that is kept, by its sender.  NULL: nobody. */
    void (*on_send)(void *arg);
    void *on_send_arg;
};

void net_bus_init(struct net_bus *bus);
/* No subscriber is left. */
void net_bus_free(struct net_bus *bus);

/* begin, then members through the writer, then send. */
struct lr_json_writer *net_bus_begin(struct net_bus *bus, const char *name);
void net_bus_send(struct net_bus *bus);
/* The same for what is stale a second later: a later subscriber does not get it. */
void net_bus_send_live(struct net_bus *bus);
/* The text of an event by its number, from 0; NULL: it is no longer kept, or never was.  With
 * the callers' lock held, until the next send. */
const char *net_bus_kept(const struct net_bus *bus, uint64_t number);

/* Turns the request into a stream of events.  Thread: the request's loop. */
void net_bus_subscribe(struct net_bus *bus, struct net_request *req);
/* Once a second: comments that keep silent streams open; ends those of subscribers that may
 * not listen any more. */
void net_bus_keep_alive(struct net_bus *bus);
/* Ends every stream, so that a server that stops need not wait for them. */
void net_bus_end_all(struct net_bus *bus);

#endif
