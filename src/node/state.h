/* node/state.h - struct node: what the files of this folder share.
 * Thread: the node's loop.
 */
#ifndef NODE_STATE_H
#define NODE_STATE_H

#include "base/log.h"
#include "base/slots.h"
#include "net/bus.h"
#include "node/fleet/identity.h"
#include "node/http/batch.h"
#include "node/models/ledger.h"
#include "node/models/memory.h"
#include "node/models/model.h"
#include "node/node.h"

struct net_server;
struct node_fetch;
struct node_link;
struct node_router_link;

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
    uint64_t seconds;             /* that the loop has counted */
    uint64_t certificate_told_ms; /* that it ends soon; 0: it does not */
    struct net_server *server;
    struct node_router_link *link; /* owned by node_run; NULL before it is made */
    struct node_fetch *fetch;      /* owned */
    struct node_limits limits;
    struct node_engines engines;
    struct node_model *models;
    struct node_pools pools;
    struct net_bus events;
    char executable[LR_PATH_MAX];
    char data_dir[LR_PATH_MAX];
    char engines_dir[LR_PATH_MAX];
    char device[16];              /* "cpu", "cuda", "metal" */
    char secret[NODE_SECRET_MAX]; /* bearer token every caller must show; "": none is asked for
                                   */
    struct lr_file_lock lock;
    struct lr_engine_options options; /* template for every model */

    struct lr_slots generations; /* struct node_generation by its id */
    uint64_t next_seq;

    struct net_timer *second, *watch, *memory, *late;
    bool is_draining;
    uint64_t drain_began_ms;
    bool is_loopback; /* guard against web pages */
    net_loop_fn drained;
    void *drained_arg;
    struct node_batch batch;
    struct node_link *links; /* owned by their HTTP requests */
    struct lr_buf scratch;   /* one frame being encoded */

    struct {
        uint64_t requests, tokens, errors, cancelled, worker_starts, worker_deaths,
            watchdog_kills, evictions, reloads, alerts;
    } count; /* since the start */
    uint64_t started_ms;
};

struct node_model *node_find_model(const struct node *node, struct lr_str id);
static inline uint64_t node_now(const struct node *node)
{
    return node->clock == NULL ? net_loop_now_ms(node->loop) : lr_clock_ms(node->clock);
}

#endif
