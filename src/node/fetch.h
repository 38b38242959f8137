/* node/fetch.h - models the routers know and this node lacks: manifests in, files out
 * (R-20).
 *
 * The node asks by itself: whenever a router's registry has changed it reads the list,
 * takes the manifests of models it can run and does not have, and downloads them into
 * the models folder.  An answer that fails or is refused changes nothing here, and
 * nothing is ever deleted.  A model in FETCHING carries its progress as its reason.
 * Thread: the node's loop (the downloads have threads of their own).
 */
#ifndef NODE_FETCH_H
#define NODE_FETCH_H

#include <stdint.h>

#include "base/fail.h"
#include "base/str.h"

struct node;
struct node_fetch;
struct node_model;
struct net_client;
struct lr_json_writer;
struct lr_arena;
struct wire_fleet_download;

/* client is borrowed and outlives it. */
LR_MUST_USE lr_code node_fetch_create(struct node *node, struct net_client *client,
                                      struct node_fetch **out, struct lr_error *err);
/* Ends the downloads, which takes a second at most; what was fetched stays. */
void node_fetch_destroy(struct node_fetch *fetch); /* NULL is fine */

/* The router at this URL answered so to a beat or a join.  NULL fetch is fine. */
void node_fetch_heard(struct node_fetch *fetch, const char *router, struct lr_str reply);

/* "download": {...} of a model that is being fetched; nothing for others. */
void node_fetch_put(struct lr_json_writer *w, const struct node_model *model);

/* Every download under way, file by file, for a beat; texts are copied to the arena.  NULL
 * fetch is fine.  How many were written, at most max. */
size_t node_fetch_report(const struct node_fetch *fetch, struct lr_arena *arena,
                         struct wire_fleet_download *out, size_t max);

#endif
