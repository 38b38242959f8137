/* node/fetch/fetch.h - following manifests: files in, verified, models out.
 *
 * A manifest comes from a router's registry (node/fleet/registry.h) or, at the start, from the
 * folder it was fetched into.  Its files are downloaded into the models root, or verified
 * where they lie there already; another revision of what is here is put together beside it
 * (hub/installed.h) while the old files are served.  A model in FETCHING or VERIFYING carries
 * its progress as its reason.  Nothing is ever deleted here: a download that is given up keeps
 * its partial files.
 *
 * Moves of a download:
 *   new -> running, waiting, over
 *   running -> new, waiting, installing, stopping, restarting, over
 *   restarting -> new, stopping
 *   stopping -> running, restarting, over
 *   waiting -> new, over
 *   installing -> new, waiting, over
 *   over -> new
 *
 * The usual way is new, running, over; another revision is installing before over, until
 * nobody opens the old files.  new is over at once where there is nothing to do.  A download
 * that fails is waiting for its circuit breaker, then new.  Another manifest for the same model
 * makes it new; where a download runs, it is restarting until that has ended.  A download that
 * no router wants any more is over; where it runs, it is stopping until it has ended.  If a
 * router wants the model again meanwhile, stopping becomes running, and the cancelled download
 * begins anew.
 * Thread: the node's loop (the downloads have threads of their own).
 */
#ifndef NODE_FETCH_FETCH_H
#define NODE_FETCH_FETCH_H

#include "base/file.h"
#include "hub/manifest.h"
#include "node/models/breaker.h"

struct node_model;
struct node_storage;
struct lr_json_writer;
struct lr_arena;
struct wire_fleet_download;

enum node_fetch_state {
    NODE_FETCH_NEW,
    NODE_FETCH_RUNNING,
    NODE_FETCH_RESTARTING,
    NODE_FETCH_STOPPING,
    NODE_FETCH_WAITING,
    NODE_FETCH_INSTALLING,
    NODE_FETCH_OVER, /* forgotten at the next look, unless it is followed again */
};

struct node_fetch_job {
    struct node_fetch_job *next;
    enum node_fetch_state state;
    struct hub_manifest *manifest; /* owned */
    char digest[LR_SHA256_HEX_LEN + 1];
    char router[300];       /* who gave it; "": the disk */
    char home[LR_PATH_MAX]; /* where the model lies */
    char dir[LR_PATH_MAX];  /* where it is fetched to: home, or beside it (hub/installed.h)
                             */
    struct hub_download *download; /* reference; RUNNING, RESTARTING and STOPPING have one */
    struct node_breaker breaker;   /* of downloads that failed */
};

/* The only function that changes the state.  An illegal move ends the job; a router that still
 * has the model gives its manifest again. */
void node_fetch_move(struct node_fetch_job *job, enum node_fetch_state state);

struct node_fetch *node_fetch_create(struct node_storage *storage);
/* Ends the downloads, which takes a second at most; what was fetched stays. */
void node_fetch_destroy(struct node_fetch *fetch); /* NULL is fine */

/* Follows a manifest (taken over).  `router` says who gave it; "": the disk. */
void node_fetch_take(struct node_fetch *fetch, struct hub_manifest *manifest,
                     const char *router);
/* That manifest of that model is being followed; digest "": any. */
bool node_fetch_has(const struct node_fetch *fetch, struct lr_str id, struct lr_str digest);

/* Gives up what `router` gave and no longer has.  has(arg, id) answers for its registry. */
void node_fetch_review(struct node_fetch *fetch, const char *router,
                       bool (*has)(void *arg, struct lr_str id), void *arg);
/* Gives it up.  True when nothing of it runs any more: call again until then. */
bool node_fetch_stop(struct node_fetch *fetch, const char *id);

/* Once a second: how far each download is becomes the reason of its model's state. */
void node_fetch_tell(struct node_fetch *fetch);
/* "download": {...} of a model that is being fetched; nothing for others. */
void node_fetch_put(struct lr_json_writer *w, const struct node_model *model);

/* Every download under way, file by file, for a heartbeat; texts are copied to the
 * arena.  How many were written, at most max. */
size_t node_fetch_report(const struct node_fetch *fetch, struct lr_arena *arena,
                         struct wire_fleet_download *out, size_t max);

#endif
