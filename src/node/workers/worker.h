/* node/workers/worker.h - a worker process that holds, or will hold, a model.
 *
 * The usual way, and that of a candidate of a reload:
 *
 *   loading -------------> ready --> leaving --> closing --> gone
 *   loading --> proving --> ready
 *
 * Moves of a worker:
 *   loading -> proving, ready, closing, killed, gone
 *   proving -> ready, closing, killed, gone
 *   ready -> leaving, closing, killed, gone
 *   leaving -> closing, killed, gone
 *   closing -> gone
 *   killed -> gone
 *   gone -> nothing
 *
 * A candidate is proving: the candidate has opened the model and is asked for one
 * token before the candidate serves.  A worker that is leaving finishes its requests and takes
 * no others.  A worker is closing when the node wants it to end, killed when it did wrong (its
 * end counts as a death), and gone when its process has ended.
 * Thread: the node's loop.
 */
#ifndef NODE_WORKERS_WORKER_H
#define NODE_WORKERS_WORKER_H

#include "llm-router/engine.h"
#include "node/workers/engines.h"
#include "node/workers/proc.h"

struct node_model;
struct node_models;
struct node_replica;
struct node_generation;
struct wire_open;

enum node_worker_state {
    NODE_WORKER_LOADING,
    NODE_WORKER_PROVING,
    NODE_WORKER_READY,
    NODE_WORKER_LEAVING, /* finishes what it has */
    NODE_WORKER_CLOSING, /* this and the next: the process is about to end */
    NODE_WORKER_KILLED,  /* for what it did */
    NODE_WORKER_GONE,    /* its process has ended */
};

struct node_worker {
    struct node_worker *next, **link; /* in model->workers */
    struct node_models *models;
    struct node_model *model;
    struct node_replica *replica;
    struct node_library *library; /* reference */
    struct node_proc *proc;       /* NULL: GONE */
    enum node_worker_state state;
    struct node_generation *live; /* list */
    uint32_t live_count;
    uint32_t leaving_count;    /* of them, told to end */
    uint32_t connection_count; /* of them, with a connection of their own */
    uint32_t newcomer_count;   /* of them, have yet to survive their first step */
    uint32_t suspect_count;    /* of these, suspects of an earlier death */
    uint32_t entering_count; /* of the live, in the step that is under way for the first time */
    struct lr_engine_need need; /* from OPENED; total 0 before */
    struct lr_engine_stats stats;
    uint32_t pool;     /* the replica's when it was started */
    uint64_t base;     /* bytes that it was started with */
    uint64_t reserved; /* bytes in the ledger: with the KV limit instead of the stated KV */
    uint64_t kv_limit; /* KV memory that it may hold (node/models/kv_limit.h) */
    uint64_t kv_sent;  /* the limit that it was told last */
    bool awaits_kv;    /* it has not answered that yet */
    uint64_t measured; /* bytes the system says it uses */
    uint64_t started_ms;
    uint64_t opened_ms;   /* when it had opened the model; 0: not yet */
    uint64_t progress_ms; /* the last sign of progress */
    uint64_t close_by_ms; /* CLOSING: killed if it has not left by then */
    uint64_t load_done, load_total;
    char load_phase[32];
    struct lr_error failure; /* what FAILED said, or why the node killed it */
};

/* The only function that changes the state.  An illegal move kills the process: the end of the
 * process is legal in every state. */
void node_worker_move(struct node_worker *worker, enum node_worker_state state);

static inline bool node_worker_has_opened(const struct node_worker *worker)
{
    return worker->opened_ms != 0;
}

/* The worker was told to end, was killed, or has ended. */
static inline bool node_worker_is_ending(const struct node_worker *worker)
{
    return worker->state >= NODE_WORKER_CLOSING;
}

/* Starts a process that loads the model on the replica's device, and reserves `bytes` there.
 * Takes a reference to the library. */
LR_MUST_USE lr_code node_worker_start(struct node_replica *replica,
                                      struct node_library *library, uint64_t bytes,
                                      struct node_worker **out, struct lr_error *err);
/* What every process of an engine is started with. */
struct node_launcher {
    struct net_loop *loop;         /* borrowed */
    char executable[LR_PATH_MAX];  /* this program */
    char scratch_dir[LR_PATH_MAX]; /* each engine may write to its own folder in it, and nowhere
                                    * else; "": engines are not confined */
    uint64_t probe_ms;             /* a probe that runs longer is killed */
};
/* Starts a process that runs the library and is sent `open`: WIRE_OPEN for a worker, WIRE_COUNT
 * for a counter, WIRE_PROBE for a question that is answered before the process ends, within
 * probe_ms. */
LR_MUST_USE lr_code node_engine_run(const struct node_launcher *launcher,
                                    const struct node_library *library, const char *label,
                                    enum wire_type type, const struct wire_open *open,
                                    const struct node_proc_callbacks *callbacks,
                                    struct node_proc **out, struct lr_error *err);
/* Kills the process for what it did; its requests are lost when it has ended. */
void node_worker_kill(struct node_worker *worker, const struct lr_error *why);
/* Kills the process because nobody needs it any more. */
void node_worker_end(struct node_worker *worker);
/* The worker takes nothing new, and is told to leave once nothing is live in it: call again
 * then.  A worker that does not leave in time is killed. */
void node_worker_retire(struct node_worker *worker);
/* A candidate has answered: the candidate takes over, the old worker finishes and goes. */
void node_worker_promote(struct node_worker *candidate);
/* How many requests the worker has once it has read what it was sent: a request that was told
 * to end is gone before what was sent afterwards begins.  All slots may change hands in one
 * step, and no more. */
uint32_t node_worker_load(const struct node_worker *worker);

/* What a probe said.  The owner's struct begins with it and is the argument of the callbacks.
 */
struct node_answer {
    struct lr_engine_need need;
    bool has_need;
    struct lr_error error; /* code LR_OK: it gave no reason */
};
lr_code node_answer_on_frames(void *answer, struct wire_reader *frames, struct lr_error *err);

/* The node's handlers of a worker's frames (frames.c). */
lr_code node_worker_on_frames(void *worker, struct wire_reader *frames, struct lr_error *err);
void node_worker_on_line(void *worker, struct lr_str line);

#endif
