/* node/fleet/peer.h - one router as the node sees it: what the router knows of the node decides
 * what the node says next.
 *
 *   stranger <--> token      The router does not know the node: the next word is a join, with
 *       |           |        the node's secret, or with the token once the secret was refused.
 *       v           |
 *     joined <------+        The router knows the node: heartbeats, and a join when the node's
 *      ^ |                   models have changed.
 *      | +--> outdated       The router asks for a new description: a join.
 *      | +--> refused        The join was refused: a heartbeat comes first.
 *      +-+--> silent         The last word got no answer.
 *
 * Moves of a router:
 *   stranger -> token, joined
 *   token -> stranger, joined
 *   joined -> outdated, refused, silent, stranger
 *   outdated -> joined, refused, silent
 *   refused -> joined, silent, stranger
 *   silent -> joined, refused, stranger
 *
 * Where a heartbeat is refused the router is a stranger again.
 * Thread: the node's loop.
 */
#ifndef NODE_FLEET_PEER_H
#define NODE_FLEET_PEER_H

#include <stdbool.h>

#include "node/fleet/registry.h"

enum node_peer_state {
    NODE_PEER_STRANGER,
    NODE_PEER_TOKEN,
    NODE_PEER_JOINED, /* this and the next three: the router knows the node */
    NODE_PEER_OUTDATED,
    NODE_PEER_REFUSED,
    NODE_PEER_SILENT,
};

enum node_peer_word { NODE_PEER_JOIN, NODE_PEER_HEARTBEAT };

struct node_peer {
    struct node_membership *membership;
    char router[300];          /* URL; "": this place is free */
    struct node_source source; /* what it has registered */
    enum node_peer_state state;
    uint32_t protocol;        /* common with it, as its answer to the join said */
    struct net_call *call;    /* one at a time */
    enum node_peer_word word; /* of that call, or of the last one */
    char trouble[200];        /* what was said last about it; "": none */
    uint64_t next_ms;         /* the next word is due */
    uint64_t spoke_ms;        /* the last word was sent; 0: none was */
    uint64_t told_signature;  /* of the models and states that were told */
    uint64_t told_models;     /* of the models alone */
    uint64_t telling_models;  /* the same once the join under way is answered */
    uint64_t told_events;     /* how many of the node's it knows */
    uint64_t telling_events;  /* the same once the call under way is answered */
};

/* The only function that changes the state.  A peer that is in the state already stays there;
 * an illegal move makes the router a stranger, so that the node joins anew. */
void node_peer_move(struct node_peer *peer, enum node_peer_state state);

static inline bool node_peer_is_joined(const struct node_peer *peer)
{
    return peer->state >= NODE_PEER_JOINED;
}

/* The node's next message to this router.  has_news: the node's models have changed since the
 * router was told about them. */
enum node_peer_word node_peer_next(const struct node_peer *peer, bool has_news);

#endif
