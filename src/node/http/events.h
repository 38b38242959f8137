/* node/http/events.h - what happened on this node, for whoever watches (GET /v0/events).
 *
 * Events are JSON objects with "event" and "time".  A subscriber gets the last few and
 * then each new one; one that does not read is dropped, nobody waits for it.
 * Thread: the node's loop.
 */
#ifndef NODE_HTTP_EVENTS_H
#define NODE_HTTP_EVENTS_H

#include <stdint.h>

#include "base/json.h"

enum { NODE_EVENTS_KEPT = 64 };

struct net_request;
struct node_subscriber;

struct node_events {
    struct node_subscriber *subscribers;
    char *kept[NODE_EVENTS_KEPT]; /* owned; a ring */
    uint64_t count;               /* since the start */
    struct lr_buf text;
    struct lr_json_writer writer;
};

void node_events_init(struct node_events *events);
void node_events_free(struct node_events *events); /* ends every subscription */

/* begin, then members through the writer, then send. */
struct lr_json_writer *node_event_begin(struct node_events *events, const char *name);
void node_event_send(struct node_events *events);

/* Turns the request into a stream of events. */
void node_events_subscribe(struct node_events *events, struct net_request *req);
/* Comments that keep silent streams open. */
void node_events_keep_alive(struct node_events *events);

#endif
