/* node/fetch/fetch.h - following manifests: files in, verified, models out.
 *
 * A manifest comes from a router's registry (node/fleet/registry.h) or, at the start, from the
 * folder it was fetched into.  Its files are downloaded into the models root, or verified
 * where they lie there already; another revision of what is here goes through
 * node/fetch/revision.h. A model in FETCHING or VERIFYING carries its progress as its reason.
 * Nothing is ever deleted here: a download that is given up keeps its partial files.  Thread:
 * the node's loop (the downloads have threads of their own).
 */
#ifndef NODE_FETCH_FETCH_H
#define NODE_FETCH_FETCH_H

#include <stdbool.h>

#include "base/fail.h"
#include "base/str.h"

struct hub_manifest;
struct node;
struct node_fetch;
struct node_model;
struct lr_json_writer;
struct lr_arena;
struct wire_fleet_download;

LR_MUST_USE lr_code node_fetch_create(struct node *node, struct node_fetch **out,
                                      struct lr_error *err);
/* Ends the downloads, which takes a second at most; what was fetched stays. */
void node_fetch_destroy(struct node_fetch *fetch); /* NULL is fine */

/* Follows a manifest (taken over).  `router` says who gave it; NULL: the disk. */
void node_fetch_take(struct node_fetch *fetch, struct hub_manifest *manifest,
                     const char *router);
/* That manifest of that model is being followed; digest "": any. */
bool node_fetch_has(const struct node_fetch *fetch, struct lr_str id, struct lr_str digest);

/* Gives up what `router` gave and no longer has.  has(arg, id) answers for its registry. */
void node_fetch_review(struct node_fetch *fetch, const char *router,
                       bool (*has)(void *arg, struct lr_str id), void *arg);
/* Gives it up.  True when nothing of it runs any more: call again until then. */
bool node_fetch_stop(struct node_fetch *fetch, const char *id);

/* "download": {...} of a model that is being fetched; nothing for others. */
void node_fetch_put(struct lr_json_writer *w, const struct node_model *model);

/* Every download under way, file by file, for a heartbeat; texts are copied to the
 * arena.  How many were written, at most max. */
size_t node_fetch_report(const struct node_fetch *fetch, struct lr_arena *arena,
                         struct wire_fleet_download *out, size_t max);

#endif
