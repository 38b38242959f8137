/* node/models/models.h - the models of this machine, and what they share: its memory, the
 * generations that wait or run, limits.  model.h is about one model.
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_MODELS_H
#define NODE_MODELS_MODELS_H

#include "base/clock.h"
#include "base/slots.h"
#include "net/bus.h"
#include "net/loop.h"
#include "node/models/batch.h"
#include "node/models/changes.h"
#include "node/models/counts.h"
#include "node/models/device_refresh.h"
#include "node/models/devices.h"
#include "node/models/kv_limit.h"
#include "node/models/model.h"
#include "node/models/pools.h"
#include "prefix/index.h"

struct node_storage;

struct node_limits {
    uint64_t step_ms;         /* watchdog: without progress while there is work */
    uint64_t load_ms;         /* watchdog: without progress while loading */
    uint64_t idle_unload_ms;  /* 0: never */
    uint64_t close_ms;        /* for a worker that was told to leave */
    uint64_t min_resident_ms; /* before pressure may evict it */
    uint32_t queue;           /* requests that wait, per model */
    uint32_t overuse_percent; /* over its allotment: restarted */
    uint32_t kills;           /* watchdog kills in a row before `failed` */
};

struct node_models {
    /* Borrowed from the node. */
    struct net_loop *loop;
    const struct lr_clock *clock; /* NULL: the loop's.  A test moves its own */
    struct net_bus *events;       /* what happens to models is told here */
    struct node_storage *storage; /* looks at the files of a model again */
    struct node_engines *engines;
    const struct node_launcher *launcher;

    struct node_limits limits;
    struct lr_engine_options options; /* template for every model */
    const char *artifact;             /* setting; NULL: the one of the device */
    bool uses_artifacts;              /* setting artifacts */
    bool uses_sampling;               /* setting model-sampling */
    uint32_t replicas;                /* setting replicas; NODE_REPLICAS_AUTO */
    struct node_counts counts;        /* of replicas, that operators asked for */
    bool is_draining;                 /* nothing new is taken in or loaded */
    struct node_devices devices;

    struct node_model *first; /* owned by the storage */
    struct node_pools pools;
    struct node_device_refresh refresh; /* of the devices that Vulkan lists */
    struct lr_slots generations;        /* struct node_generation by its id */
    uint64_t next_seq;                  /* of generations, in order of arrival */
    struct node_changes changes;        /* watched by modules that wait for one */
    struct node_batch batch;            /* answers that wait for the end of a read */
    struct lr_buf scratch;              /* one frame being encoded */
    struct prefix_index prefixes;       /* of workers; made when first needed */
    struct {
        uint64_t requests, tokens, errors, cancelled, worker_starts, worker_deaths,
            watchdog_kills, evictions, reloads, alerts;
    } count; /* since the start */
};

static inline uint64_t node_now(const struct node_models *models)
{
    return models->clock == NULL ? net_loop_now_ms(models->loop) : lr_clock_ms(models->clock);
}

/* A model by its name, without regard to case; NULL: there is none. */
struct node_model *node_find_model(const struct node_models *models, struct lr_str id);

/* ---- memory (admission.c) ---- */

/* The pool for a model's first replica, which needs `need` bytes.  Of the best kind of device
 * (node_device_rank) that could hold the replica: a pool where the memory is free, else the
 * pool where the fewest other models must be unloaded.  NODE_POOL_NONE: every GPU is faulty. */
enum { NODE_POOL_NONE = NODE_POOLS_MAX };
uint32_t node_pool_for(const struct node_model *model, bool on_device, uint64_t need);
/* The pool for one more replica: where memory is free for it, or is once others have given KV
 * memory back, and no model waits for that memory.  NODE_POOL_NONE: there is none. */
uint32_t node_pool_for_extra(const struct node_model *model);
/* The GPU is sound, and the model's engine has not refused it. */
bool node_pool_takes(const struct node_model *model, uint32_t pool);
/* The engine failed with `why` on that GPU.  True: it cannot use this GPU and there is another
 * one, where the model can be tried at once. */
bool node_pool_refused(struct node_model *model, uint32_t pool, struct node_library *library,
                       const struct lr_error *why);
void node_pools_unrefuse(struct node_model *model);
/* Whether the model runs on a GPU, as far as is known, and every GPU of the node is faulty:
 * UNAVAILABLE names the first of them. */
LR_MUST_USE lr_code node_gpus_check(const struct node_model *model, struct lr_error *err);
/* A plan to place one more model in a pool: the memory that is claimed there, and what must be
 * freed. */
struct node_room {
    enum node_plan plan;
    uint64_t available; /* for the newcomer, at most */
    size_t count;
    struct node_claim claims[1024];
};
/* The claims alone: need 0. */
void node_plan_room(const struct node_models *models, uint32_t pool, uint64_t need,
                    struct node_room *out);

/* ---- time ---- */

/* Once a second: ticks for silent generations, deadlines (generation.c). */
void node_generations_tick(struct node_models *models, uint64_t now_ms);
/* Tries whatever is due.  Often (recovery.c). */
void node_recovery_watch(struct node_models *models);
/* Memory was freed: the models that wait for memory are tried again, in order of arrival. */
void node_admit_waiting(struct node_models *models);
/* workers/watchdog.c */
void node_workers_watch(struct node_models *models, uint64_t now_ms);
void node_measure(struct node_models *models); /* pools and workers */
void node_memory_watch(struct node_models *models, uint64_t now_ms);
void node_idle_watch(struct node_models *models, uint64_t now_ms);

#endif
