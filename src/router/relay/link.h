/* router/relay/link.h - one loop's link to one node: all generations of the loop on that node
 * over one connection (wire/link.h).
 *
 * Moves of a link:
 *   opening -> open, closed: 101; no connection, another answer, no answer in time
 *   open -> closed: the node's end, five seconds of silence, no frames
 *   closed -> nothing
 *
 * The first generation for a node opens the link and waits with those that follow until it is
 * open.  A link that closes tells each of its streams and is gone; the next generation opens
 * another one.  Thread: the loop of the links.
 */
#ifndef ROUTER_RELAY_LINK_H
#define ROUTER_RELAY_LINK_H

#include <pthread.h>

#include "base/clock.h"
#include "net/client.h"
#include "router/fleet/nodes.h"
#include "wire/event.h"
#include "wire/generate.h"

/* Without an event for so long a node is lost; it gives one at least once a second. */
enum { ROUTER_SILENCE_MS = 5000 };

struct router_link;

/* The links of one loop. */
struct router_links {
    /* Borrowed; set once. */
    pthread_mutex_t *lock; /* the router's: it guards nodes */
    const struct lr_clock *clock;
    struct net_loop *net;
    struct net_client *client;

    struct router_link *first; /* owned */
    struct lr_buf frame;       /* that is being written */
    struct lr_buf sealed;      /* the same with its checksums, where the link has them */
};

/* One attempt of one generation; embedded in its owner. */
struct router_stream {
    struct router_link *link; /* NULL: none is under way */
    uint64_t number;
    uint32_t next_index; /* of its events */
    uint64_t sent_ns;    /* 0: waits for the link to open, which has its own limit */
    void *arg;           /* of the two */
    /* The event is whole and in its order; `has_more`: the same batch has another one for this
     * stream.  Behind the last one no other comes: the stream has ended when it is told. */
    void (*on_event)(void *arg, const struct wire_frame *event, bool has_more);
    /* Nothing more comes: the link closed, or an event was missing or came twice. */
    void (*on_lost)(void *arg, const struct lr_error *err);
};

/* Sends a SUBMIT, or a SWAP.  No callback runs inside.
 *   TOO_LARGE    the request is larger than a frame
 *   UNAVAILABLE  the node has not read for long
 *   another one  no memory, or no such address */
LR_MUST_USE lr_code router_link_submit(struct router_links *links,
                                       const struct router_node *node,
                                       struct wire_generate *ask, struct router_stream *stream,
                                       struct lr_error *err);

/* The owner has enough; the stream's last event, with the usage, still comes. */
void router_link_cancel(struct router_stream *stream);
/* The same, and no callback comes after this. */
void router_link_leave(struct router_stream *stream);

/* Once a second: closes links that have said nothing for too long. */
void router_links_watch(struct router_links *links, uint64_t now_ms);

/* What is borrowed is set. */
void router_links_init(struct router_links *links);
/* The loop's client is gone, and with it every connection. */
void router_links_free(struct router_links *links);

#endif
