/* node/state.h - struct node: the modules of the process, and what all of them need to know.
 * A file includes the headers of the modules it uses beside this one.
 * Thread: the node's loop.
 */
#ifndef NODE_STATE_H
#define NODE_STATE_H

#include "base/clock.h"
#include "base/file.h"
#include "base/settings.h"
#include "base/slots.h"
#include "llm-router/engine.h"
#include "net/bus.h"
#include "net/loop.h"
#include "node/http/batch.h"
#include "node/models/memory.h"
#include "node/workers/engines.h"

struct net_server;
struct node_fetch;
struct node_link;
struct node_model;
struct node_router_link;

enum { NODE_SECRET_MAX = 96 };

struct node_limits {
    uint64_t step_ms;         /* watchdog: without progress while there is work */
    uint64_t load_ms;         /* watchdog: without progress while loading */
    uint64_t idle_unload_ms;  /* 0: never */
    uint64_t drain_ms;        /* 0: for ever */
    uint64_t close_ms;        /* for a worker that was told to leave */
    uint64_t min_resident_ms; /* before pressure may evict it */
    uint32_t queue;           /* requests that wait, per model */
    uint32_t alert_percent;
    uint32_t overuse_percent; /* over its allotment: restarted */
    uint32_t kills;           /* watchdog kills in a row before `failed` */
};

struct node {
    struct net_loop *loop;        /* borrowed */
    const struct lr_clock *clock; /* borrowed; NULL: the loop's.  A test moves its own */
    const struct lr_settings *settings;
    struct node_limits limits;
    struct lr_engine_options options; /* template for every model */
    char executable[LR_PATH_MAX];
    char data_dir[LR_PATH_MAX];
    char engines_dir[LR_PATH_MAX];
    struct lr_file_lock lock;     /* of the data folder */
    char device[16];              /* "cpu", "cuda", "metal" */
    char secret[NODE_SECRET_MAX]; /* bearer token every caller must show; "": none */
    bool is_loopback;             /* guard against web pages */
    bool is_draining;
    uint64_t started_ms;

    /* http/ */
    struct net_server *server;
    struct net_bus events;
    struct node_batch batch;
    struct node_link *links; /* owned by their HTTP requests */
    /* models/ and workers/ */
    struct node_model *models;
    struct node_pools pools;
    struct node_engines engines;
    struct lr_slots generations; /* struct node_generation by its id */
    uint64_t next_seq;
    struct lr_buf scratch; /* one frame being encoded */
    /* fetch/ and fleet/ */
    struct node_fetch *fetch;      /* owned */
    struct node_router_link *link; /* owned */

    struct {
        uint64_t requests, tokens, errors, cancelled, worker_starts, worker_deaths,
            watchdog_kills, evictions, reloads, alerts;
    } count; /* since the start */
};

/* node.c: reads settings, scans engines and models, starts nothing.  `loop` is borrowed and
 * outlives the node. */
LR_MUST_USE lr_code node_create(struct net_loop *loop, const struct lr_settings *settings,
                                struct node **out, struct lr_error *err);
/* No worker and no request is left.  NULL is fine. */
void node_destroy(struct node *node);

static inline uint64_t node_now(const struct node *node)
{
    return node->clock == NULL ? net_loop_now_ms(node->loop) : lr_clock_ms(node->clock);
}

#endif
