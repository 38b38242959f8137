/* router/sched/dispatch.h - giving each generation a slot on a node: at once, after a wait in
 * the model's queue, or not at all.
 *
 * A job is one generation.  It is idle, waiting in a queue, posted (its answer is on its
 * way to its loop) or held (it has a slot on job->place until router_release).
 * Thread: every function takes the router's lock itself and is called on the job's loop.
 */
#ifndef ROUTER_SCHED_DISPATCH_H
#define ROUTER_SCHED_DISPATCH_H

#include "router/sched/picker.h"
#include "router/state.h"

/* Nodes looked at for one request: more than any fleet of one router. */
enum { ROUTER_CANDIDATES_MAX = 256, ROUTER_FAILED_MAX = 8, ROUTER_JOB_NAME_MAX = 112 };

enum router_job_state {
    ROUTER_JOB_IDLE,
    ROUTER_JOB_WAITING,
    ROUTER_JOB_POSTED,
    ROUTER_JOB_HELD
};

struct router_job {
    struct router_waiter waiter; /* first: a waiter is cast back to its job */
    struct router *router;
    struct router_model *model; /* the owner's reference */
    struct net_loop *loop;
    uint64_t lane;
    char name[ROUTER_JOB_NAME_MAX];   /* what nodes know it by */
    uint32_t prompt_tokens;           /* estimated */
    const struct router_marks *marks; /* the owner's; NULL: none */
    /* Always follows ROUTER_WAITING, on the loop, unless router_withdraw said otherwise.
     * err NULL: held. */
    void (*on_ready)(struct router_job *job, const struct lr_error *err);
    /* It holds a slot and is asked to step aside: to leave its node and ask again, for a key
     * that holds less.  On the loop; may be NULL. */
    void (*on_yield)(struct router_job *job);

    /* guarded by the lock */
    enum router_job_state state;
    struct router_node *node; /* held or posted with a slot; else NULL */
    struct router_place *place;
    struct router_job *next_held, **held_link; /* of place->held */
    struct router_yield *yield;                /* on its way to ask for its place */
    _Atomic bool has_begun;                    /* it gave a token; set without the lock */
    char instead_of[ROUTER_JOB_NAME_MAX];      /* who leaves its node when it comes there; "":
                                                * nobody, or that is settled */
    bool is_yielding;                          /* is to leave, and still has its place */
    bool is_replaced; /* by the one that comes instead: its place counts no more */
    bool has_yielded; /* was told to leave once: not again */
    const struct router_node
        *bound; /* where it goes as long as that node can run it: there it is
                 * under suspicion, and other nodes are spared.  NULL: none */
    const struct router_node *failed[ROUTER_FAILED_MAX]; /* nodes that failed this job */
    uint32_t failed_count;
    bool is_again; /* it was sent to a node before: its client may have tokens */
    uint64_t waiting_since_ms;
    uint64_t nobody_since_ms; /* no node could serve it since; 0: one can */
    struct lr_error refusal;
    uint32_t retry_s; /* of a refusal: when to come again; 0: nobody knows */
    char why[96];     /* why this node: X-LLM-Router-Reason */
};

enum router_admission { ROUTER_GRANTED, ROUTER_WAITING, ROUTER_REFUSED };

/* A slot now (job->node is set), a place in the queue, or a refusal:
 *   UNAVAILABLE   no node that could serve it, with the reason per node
 *   RATE_LIMITED  the queue is full, or more come than are served; job->retry_s says when
 *                 to come again
 * A full queue still takes a newcomer whose key has less than another one, waiting and on
 * nodes: the last to come of the key with the most makes room, and is refused.
 * `again`: it was served before and goes to the front; and where no node is left it
 * waits a few seconds for one to come back. */
enum router_admission router_admit(struct router_job *job, bool again, struct lr_error *err);

/* What a generation taught us about its node. */
struct router_measure {
    /* 0: nothing */
    double load_ms;
    double prefill_ms;     /* per prompt token */
    double prefill_tokens; /* that it was measured on */
    double step_ms;        /* per token */
    bool found_cached;     /* a part of its prompt was not computed again */
};

enum router_outcome {
    ROUTER_ENDED,   /* the node did its work (or the client left) */
    ROUTER_BUSY,    /* it answered 429: full for the moment */
    ROUTER_YIELDED, /* nothing: another key needed the slot more */
    ROUTER_LOST,    /* its engine died and is being started again; the node is well */
    ROUTER_FAILED,  /* it is ill, or lost: avoid it for a while, longer each time in a row */
};

/* Gives the slot back and lets the next one in. */
void router_release(struct router_job *job, enum router_outcome outcome,
                    const struct router_measure *measure);

/* The job's node gave a token: it is well. */
void router_trust(struct router_job *job);

/* The owner leaves, wherever the job is.  True: it waited, and on_ready will not come.
 * False otherwise; a posted job's on_ready still comes. */
bool router_withdraw(struct router_job *job);

/* With the lock held: whoever waits for this model and can be served now. */
void router_pump(struct router_model *model);
void router_pump_all(struct router *r);
/* With the lock held, after each change of a queue: the job came to wait, or waits no more.
 * Timers find a job by these two and not by the registry, which a deleted model has left. */
void router_waits(struct router_job *job);
void router_waits_no_more(struct router_job *job);
/* Out of the queue; its owner hears job->refusal. */
void router_drop_waiter(struct router_job *job);

/* SHARE: full for this key, perhaps not for one that holds less. */
enum router_grant {
    ROUTER_GRANT_OK,
    ROUTER_GRANT_FULL,
    ROUTER_GRANT_SHARE,
    ROUTER_GRANT_NOBODY
};
/* With the lock held: a slot now, or why not. */
enum router_grant router_try_grant(struct router_job *job, uint64_t now_ms);

/* ---- admit.c ---- */

/* With the lock held.  Under overload more wait than may: the last to come of the key with the
 * most are refused.  Who has waited for some seconds stays, and so does the only one of a key
 * that holds nothing. */
void router_shed(struct router_model *model, uint64_t now_ms);

/* ---- yield.c; with the lock held ---- */

/* `job` has gone beyond the slots of this place, or waits because it is full: as many as are
 * too many there step aside, of keys that had more than their share of the model's `slots`
 * places.  Nobody where the job's own key has its share.  One that has a place there names the
 * first of them to the node itself (job->instead_of); the others are asked. */
void router_make_way(struct router_job *job, struct router_place *place, uint64_t slots,
                     uint64_t now_ms);
/* Lock not held.  The node said whether the one that `job` came instead of leaves.  One that it
 * did not find, or a node that did not understand: that one is asked. */
void router_came_instead(struct router_job *job, bool is_confirmed);
/* Lock not held.  Whether it was told to leave: a node that cancels it does what we want. */
bool router_was_asked(struct router_job *job);
/* Lock not held.  It was asked and stays: its node knows nothing of it. */
void router_stays(struct router_job *job);
/* The job gives its place back before that was settled. */
void router_insist(struct router_job *job);
/* The job gives its place back: it need not be asked any more. */
void router_unask(struct router_job *job);

/* The job is about to be freed; lock not held, on its loop. */
void router_job_forget(struct router_job *job);

/* ---- dispatch_watch.c ---- */

/* With the lock held.  The model is deleted: requests that have not begun are told so.  A
 * request that was served before goes on where a node still has the model. */
void router_refuse_waiting(struct router_model *model);
lr_code router_refuse_deleted(const struct router_model *model, struct lr_error *err);
/* Lock not held.  Every quarter of a second: nodes that fell silent, waits that were too long.
 */
void router_dispatch_watch(struct router *r, uint64_t now_ms);

/* ---- candidates.c; with the lock held ---- */

/* The candidates for a model, at most `capacity`.  `job`, which may be NULL, is who asks:
 * some nodes may have failed it. */
size_t router_candidates(struct router *r, const struct router_model *model,
                         const struct router_job *job, uint64_t now_ms,
                         struct router_candidate *out, size_t capacity);
bool router_has_failed(const struct router_job *job, const struct router_node *node);
/* Whether a node could serve the job that has not failed it, beside the one that has it.  The
 * job holds a place. */
bool router_has_another(struct router_job *job);

/* UNAVAILABLE, and why of each node. */
lr_code router_refuse_nobody(const struct router *r, const struct router_model *model,
                             struct lr_error *err);

#endif
