/* node/http/state.h - struct node: the modules of the process.  Each module gets what it needs
 * when the node is created; only node.c, run.c and http/ know them all. Thread: the node's
 * loop.
 */
#ifndef NODE_HTTP_STATE_H
#define NODE_HTTP_STATE_H

#include "base/file.h"
#include "base/settings.h"
#include "net/bus.h"
#include "node/fetch/storage.h"
#include "node/fleet/membership.h"
#include "node/models/models.h"
#include "node/workers/engines.h"

struct net_server;
struct node_link;

struct node {
    const struct lr_settings *settings; /* borrowed */
    struct lr_file_lock lock;           /* of the data folder */
    char secret[NODE_SECRET_MAX];       /* bearer token every caller must show; "": none */
    bool is_loopback;                   /* guard against web pages */
    bool strict_fields;                 /* every request is strict (chat/codec.h) */
    uint64_t started_ms;

    /* http/ */
    struct net_server *server;
    struct net_bus events;
    struct node_link *links; /* owned by their HTTP requests */
    /* models/, workers/, fetch/, fleet/ */
    struct node_models models;
    struct node_engines engines;
    struct node_launcher launcher;
    struct node_storage storage;
    struct node_membership *membership; /* owned */
};

/* node.c: reads settings, scans engines and models, starts nothing.  `loop` is borrowed and
 * outlives the node. */
LR_MUST_USE lr_code node_create(struct net_loop *loop, const struct lr_settings *settings,
                                struct node **out, struct lr_error *err);
/* No worker and no request is left.  NULL is fine. */
void node_destroy(struct node *node);

#endif
