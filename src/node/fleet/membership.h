/* node/fleet/membership.h - the node is a member of its routers' fleets: it joins each router
 * with the list of its models, then sends a heartbeat each second.
 *
 * Identity (an id and a secret, used in both directions) is made at the first start and
 * kept in the data folder, so a node comes back as itself.  It joins with that secret; a token
 * is for a router that does not know the secret.  A router that does not know the node, or
 * lacks one of its models, says so, and the node joins again.  So a restart of the node or of
 * the router needs no human.  A join that is refused is tried again every second and takes
 * nothing away.
 *
 * Thread: the node's loop.
 */
#ifndef NODE_FLEET_MEMBERSHIP_H
#define NODE_FLEET_MEMBERSHIP_H

#include <stdbool.h>

#include "base/settings.h"
#include "net/loop.h"

struct node_membership;
struct node_storage;
struct lr_json_writer;

/* The secret of a node, terminated. */
enum { NODE_SECRET_MAX = 96 };

/* `secret` is the node's, which outlives the membership, as the storage and the settings do. An
 * empty one is set to the identity's where a router is named.  *out is made whatever the code,
 * for node_membership_destroy. */
LR_MUST_USE lr_code node_membership_create(struct node_storage *storage,
                                           const struct lr_settings *settings,
                                           char secret[NODE_SECRET_MAX],
                                           struct node_membership **out, struct lr_error *err);

/* Begins to join; `port` is the node's own.  Nothing happens without a router. */
void node_membership_start(struct node_membership *membership, uint16_t port);

/* A router has news (a registration came or went) and waits for a heartbeat. */
void node_membership_hurry(struct node_membership *membership);

/* Every router it has joined knows its newest state: a node that leaves says so first, or it
 * would count as lost. */
bool node_membership_has_told(const struct node_membership *membership);

/* A router that it has joined answers; also true where no router was named. */
bool node_membership_is_joined(const struct node_membership *membership);

/* Members that tell this process from another one with its identity; nothing without a
 * router. */
void node_membership_put(const struct node_membership *membership, struct lr_json_writer *w);

/* NULL is fine. */
void node_membership_destroy(struct node_membership *membership);

#endif
