/* router/fleet/ask.h - a word to a node outside of generating: one question, one answer.
 *
 * Where to ask is copied out of the lock, so that the node may be removed meanwhile.
 * Thread: the client's loop, unless a comment says otherwise.
 */
#ifndef ROUTER_FLEET_ASK_H
#define ROUTER_FLEET_ASK_H

#include "net/client.h"
#include "router/fleet/nodes.h"

struct router_target {
    char id[48], name[64];
    char url[288], secret[96];
};

/* With the lock held. */
void router_target_set(struct router_target *out, const struct router_node *node);

/* With the lock held: every online node that has the model, or (folded "") every online
 * node at all.  In the arena; NULL without memory.  *offline counts the others. */
struct router_target *router_targets(const struct router_nodes *nodes, struct lr_str folded,
                                     struct lr_arena *arena, size_t *count, size_t *offline);

struct router_question {
    const char *method; /* "GET", "POST", "DELETE" */
    const char *path;   /* "/v0/models/..." with its query */
    struct lr_str body; /* of a POST; empty: {} */
    uint32_t wait_ms;   /* for the answer's head */
};

/* fn once, later, as net_fetch calls it; never where this fails. */
LR_MUST_USE lr_code router_ask(struct net_client *client, const struct router_target *to,
                               const struct router_question *question, net_fetch_fn fn,
                               void *arg, struct lr_error *err);

#endif
