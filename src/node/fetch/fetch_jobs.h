/* node/fetch/fetch_jobs.h - what fetch.c and fetch_report.c share. */
#ifndef NODE_FETCH_FETCH_JOBS_H
#define NODE_FETCH_FETCH_JOBS_H

#include "base/file.h"
#include "base/sha256.h"
#include "hub/manifest.h"
#include "node/fetch/fetch.h"
#include "node/models/breaker.h"

/* A manifest that is followed. */
struct node_fetch_job {
    struct node_fetch_job *next;
    struct hub_manifest *manifest; /* owned */
    char digest[LR_SHA256_HEX_LEN + 1];
    char router[300];       /* who gave it; "": the disk */
    char home[LR_PATH_MAX]; /* where the model lies */
    char dir[LR_PATH_MAX]; /* where it is fetched to: home, or beside it (node/fetch/revision.h)
                            */
    struct hub_download *download; /* reference; NULL: waits for the breaker, or is over */
    struct node_breaker breaker;   /* of downloads that failed */
    bool is_given_up;              /* ends as soon as its download has */
    bool is_replaced; /* by another manifest: starts anew when its download ended */
    bool is_decided;  /* a new revision that waits to be put in place */
};

struct node_fetch {
    struct node *node;
    struct net_timer *timer;
    struct hub_downloads *downloads; /* NULL before the first one */
    struct node_fetch_job *jobs;
};

struct node_fetch_job *node_fetch_find(const struct node_fetch *fetch, struct lr_str id);

#endif
