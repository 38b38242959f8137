/* router/http/events.h - what happens in the fleet, for whoever watches (GET /v0/events).
 *
 * Events are JSON objects with "event" and "time".  A subscriber gets the last few and
 * then each new one; one that does not read is dropped.  Subscribers live on their
 * loops; texts travel there by post.
 * Thread: the router's lock is held, unless a comment says otherwise.
 */
#ifndef ROUTER_HTTP_EVENTS_H
#define ROUTER_HTTP_EVENTS_H

#include "base/json.h"

enum {
    ROUTER_EVENTS_KEPT = 64,
    ROUTER_SUBSCRIBERS_MAX = 256,
};

struct net_request;
struct router;
struct router_subscriber;

struct router_events {
    struct router_subscriber *subscribers;
    size_t subscriber_count;
    char *kept[ROUTER_EVENTS_KEPT]; /* owned; a ring */
    uint64_t count;                 /* since the start */
    struct lr_buf text;
    struct lr_json_writer writer;
};

void router_events_init(struct router_events *events);
void router_events_free(struct router_events *events);

/* begin, then members through the writer, then send. */
struct lr_json_writer *router_event_begin(struct router_events *events, const char *name);
void router_event_send(struct router_events *events);
/* The same for what is stale a second later: whoever comes afterwards does not get it. */
void router_event_send_live(struct router_events *events);

/* Turns the request into a stream of events.  Thread: the request's loop, lock not held. */
void router_events_subscribe(struct router *r, struct net_request *req);
/* Ends every stream, so that a stopping server need not wait for them.  Lock not held. */
void router_events_end_all(struct router *r);
/* Comments that keep silent streams open; ends those of callers whose key or session is
 * over.  Lock not held; any loop. */
void router_events_keep_alive(struct router *r);

#endif
