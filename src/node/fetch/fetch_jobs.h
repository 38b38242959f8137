/* node/fetch/fetch_jobs.h - a manifest that is followed, from the first file to the last.
 *
 *   new --> running --> installing --> over
 *    |       |   ^ \        |
 *    v       v   |  \       v
 *   waiting <+   |   +--> stopping --> over    no router wants the model any more
 *    |           |           |
 *    +--> new    +-----------+                 a router wants the model again
 *
 * A download that fails waits for its circuit breaker and begins anew.  Another manifest for
 * the same model restarts it: restarting until the old download has ended, then new.  The files
 * of another revision are installing until nobody opens the old files.  new is over at once
 * where there is nothing to do.
 */
#ifndef NODE_FETCH_FETCH_JOBS_H
#define NODE_FETCH_FETCH_JOBS_H

#include "base/file.h"
#include "base/sha256.h"
#include "hub/manifest.h"
#include "node/fetch/fetch.h"
#include "node/models/breaker.h"

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
    char dir[LR_PATH_MAX]; /* where it is fetched to: home, or beside it (node/fetch/revision.h)
                            */
    struct hub_download *download; /* reference; RUNNING, RESTARTING and STOPPING have one */
    struct node_breaker breaker;   /* of downloads that failed */
};

struct node_fetch {
    struct node *node;
    struct net_timer *timer;
    struct hub_downloads *downloads; /* NULL before the first one */
    struct node_fetch_job *jobs;
};

/* The only function that changes the state.  An illegal move ends the job; a router that still
 * has the model gives its manifest again. */
void node_fetch_move(struct node_fetch_job *job, enum node_fetch_state state);

struct node_fetch_job *node_fetch_find(const struct node_fetch *fetch, struct lr_str id);

#endif
