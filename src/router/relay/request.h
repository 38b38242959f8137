/* router/relay/request.h - one HTTP request to the router: its caller, its route, and what its
 * line in the log says.
 *
 * Thread: the request's loop.
 */
#ifndef ROUTER_RELAY_REQUEST_H
#define ROUTER_RELAY_REQUEST_H

#include "net/cidr.h"
#include "net/json.h"
#include "net/routes.h"
#include "router/store/keys.h"
#include "router/store/store.h"

struct router;
struct router_node;
struct router_route;

/* The caller of a request.  Copied out of the lock; key stays good for the router's life. */
struct router_caller {
    struct router_key *key;   /* NULL: nobody in particular, on loopback */
    struct router_node *node; /* a node, by its secret */
    enum router_role role;
    uint64_t session;       /* signed in to the dashboard; 0: came with a key, or without */
    uint64_t request_bytes; /* largest body that the key may send; 0: no limit of its own */
    char name[64];          /* of the key, the person or the node at this time; "": none */
};
/* The id of the key, the person or the node; "local": nobody in particular. */
const char *router_caller_id(const struct router_caller *caller);
/* The same for the audit log: a person has a name there. */
const char *router_caller_name(const struct router_caller *caller);

/* What is known about one HTTP request; the user pointer of net_request, in its arena. */
struct router_access {
    struct router *router;
    const struct router_route *route; /* of `match` */
    struct router_caller caller;
    struct net_match match;
    char from[NET_ADDRESS_TEXT]; /* the client's address, also behind a trusted proxy */
    char request_id[72];
    char model[96];
    char node[48];
    uint64_t prompt_tokens, completion_tokens;
    bool reads_session;   /* the caller is known once the database was asked for the session */
    struct net_json json; /* of router_answer_begin */
};
static inline struct router_access *router_access(struct net_request *req)
{
    return net_request_user(req);
}
/* The caller for the audit log; borrows from the request. */
struct router_actor router_actor(struct net_request *req);

#endif
