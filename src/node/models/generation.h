/* node/models/generation.h - one generation on this node, from admission to its last event.
 *
 * A generation holds a lease on its model for as long as it exists: nothing evicts or replaces
 * what it runs on before it has ended.  Its owner (an HTTP handler) hears events through a
 * sink; the last one is WIRE_DONE, WIRE_ERROR or WIRE_LOST, after which the generation is gone.
 *
 *              its worker died
 *            +-----------------+
 *            v                 |
 *   new --> queued --------> running --> over
 *    |                         |  |
 *    |       its owner has     |  |  its owner has left (cancel)
 *    |       enough (stop)     v  +----------------+
 *    |       stopped <---> stopping --> leaving <--+
 *    |
 *    +----> proving          the node's own question to a new worker
 *
 *   every state --> over
 *
 * Moves of a generation:
 *   new -> queued, proving, over
 *   queued -> running, over
 *   running -> queued, stopping, leaving, over
 *   stopping -> stopped, leaving, over
 *   stopped -> stopping, over
 *   leaving -> over
 *   proving -> over
 *   over -> nothing
 *
 * When a worker dies, an owner that holds the tokens itself (a router) hears WIRE_LOST and
 * submits the generation again wherever it likes.  For any other owner the node keeps the
 * tokens, and the generation goes back into the queue.  Either way it re-enters by the rules of
 * node/workers/blame.h.
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_GENERATION_H
#define NODE_MODELS_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "node/workers/blame.h"
#include "wire/event.h"
#include "wire/generate.h"

struct prefix_hashes;
struct node_model;
struct node_worker;

struct node_sink {
    void *ctx;
    /* Borrowed for the call.  May call node_generation_cancel. */
    void (*on_event)(void *ctx, const struct wire_frame *frame);
    bool has_connection; /* of its own: each event is a write */
    bool takes_lost;     /* the owner holds the tokens: WIRE_LOST where the worker dies */
    bool takes_weights;  /* the owner is told which weights make its tokens: WIRE_WEIGHTS */
};

enum node_generation_state {
    NODE_GENERATION_NEW,      /* on no list */
    NODE_GENERATION_QUEUED,   /* in its model's queue */
    NODE_GENERATION_RUNNING,  /* in a worker */
    NODE_GENERATION_STOPPING, /* in a worker that was told to end it; the owner waits for the
                               * usage */
    NODE_GENERATION_STOPPED,  /* in the queue: the worker died before it told the usage, and the
                               * next one is asked for no more than that */
    NODE_GENERATION_LEAVING,  /* in a worker that was told to end it, without an owner */
    NODE_GENERATION_PROVING,  /* in a worker that has yet to show that it works */
    NODE_GENERATION_OVER,     /* about to be freed */
};

/* How far the worker is with a generation: whether a death may be its fault. */
enum node_progress {
    NODE_PROGRESS_NONE,     /* no step had it */
    NODE_PROGRESS_ENTERING, /* its first step is under way */
    NODE_PROGRESS_ENTERED,  /* its first step is over */
};

/* What is true of a generation in one worker, and of no other. */
struct node_attempt {
    struct node_worker *worker;            /* NULL: in none */
    uint64_t submitted_ms, first_token_ms; /* first_token_ms 0: none yet */
    uint32_t given;                        /* tokens it had when it was submitted */
    uint32_t tokens;                       /* that the worker made */
    uint32_t probation;                    /* tokens until it is no longer suspected */
    uint32_t ahead;                        /* frames of the running batch still to come */
    enum wire_entry entry;                 /* as it was submitted */
    enum node_progress progress;
    bool has_connection; /* as its sink when it was submitted */
};

struct node_generation {
    struct node_generation *next, **link; /* of its model's queue or its worker's list */
    uint64_t id;                          /* in models->generations */
    uint64_t seq;                         /* order of arrival on this node */
    enum node_generation_state state;
    struct node_model *model;
    struct wire_submit ask; /* its texts are empty but for request_id, which is `name` */
    char name[WIRE_REQUEST_ID_MAX + 1];
    char weights[WIRE_WEIGHTS_MAX + 1]; /* fingerprint of those that made its tokens; "": it has
                                         * none yet, or nobody knows */
    char *frame; /* owned: the WIRE_SUBMIT, prompt and all; NULL once an owner with takes_lost
                  * need not have it sent again */
    size_t frame_len;
    struct prefix_hashes *prefixes; /* owned; NULL: not made */
    struct node_sink sink;          /* on_event NULL: the owner has left */
    struct lr_buf generated; /* uint32_t: every token the client has; not with takes_lost */
    struct node_attempt attempt;
    uint64_t last_event_ms;
    uint64_t deadline_at_ms; /* a generation that is still queued then is dropped; 0: none */
    uint32_t strikes;        /* deaths that are blamed on it; not with takes_lost */
};

/* The only function that changes the state, and the lists and counts that follow from it.
 * attempt.worker is set before a move into a worker.  An illegal move ends the generation with
 * WIRE_ERROR: false, and the generation is freed. */
LR_MUST_USE bool node_generation_move(struct node_generation *generation,
                                      enum node_generation_state state);

/* In a worker that computes for the owner, who listens. */
static inline bool node_generation_is_served(const struct node_generation *generation)
{
    return generation->state == NODE_GENERATION_RUNNING ||
           generation->state == NODE_GENERATION_STOPPING;
}

/* The tokens that its client has. */
static inline uint32_t node_generation_given(const struct node_generation *generation)
{
    return generation->sink.takes_lost
               ? generation->ask.generated_count
               : (uint32_t)(generation->generated.len / sizeof(uint32_t));
}

/* A death in its first step would be blamed on it. */
static inline bool node_generation_is_newcomer(const struct node_generation *generation)
{
    return generation->attempt.progress != NODE_PROGRESS_ENTERED &&
           (generation->attempt.entry == WIRE_ENTRY_NEW ||
            generation->attempt.entry == WIRE_ENTRY_SUSPECT);
}

/* ---- for owners ---- */

/* Takes a generation in: `frame` is a whole WIRE_SUBMIT or WIRE_SWAP, which is copied, and
 * `ask` what wire_submit_head_decode says of it.  The sink may be called before this returns
 * (ACCEPTED).  The generation that ask->leaves names, where it runs, is stopped for this one:
 * its slot is this one's, and the worker hears of both before its next step.
 *   RATE_LIMITED  no room in the queue
 *   UNAVAILABLE   the node is draining
 *   another code  the model cannot be loaded: why
 * With ask->no_queue a generation beyond the free slots of a loaded model is refused, too:
 * a router has a queue of its own. */
LR_MUST_USE lr_code node_generation_take(struct node_model *model, struct lr_str frame,
                                         const struct wire_submit *ask, struct node_sink sink,
                                         struct node_generation **out, struct lr_error *err);
/* The same for an owner on this node. */
LR_MUST_USE lr_code node_generation_start(struct node_model *model,
                                          const struct wire_generate *ask,
                                          struct node_sink sink, struct node_generation **out,
                                          struct lr_error *err);
/* The owner leaves: no event after this.  The worker is told at once. */
void node_generation_cancel(struct node_generation *generation);
/* The owner has all it wants (a stop string matched): the worker is told, and the
 * last event, with the usage, still comes; at once where no worker has it. */
void node_generation_stop(struct node_generation *generation);

/* ---- for the model and its workers ---- */

/* Of those that wait, generations whose tokens other weights made end with CONFLICT: they go on
 * elsewhere or nowhere (docs/promises.md, same-weights). */
void node_generations_check(struct node_model *model);

/* Into the worker, which is sent the frame. */
void node_generation_submit(struct node_generation *generation, struct node_worker *worker);
/* Asks a worker for one token or one vector, to see that it can. */
LR_MUST_USE lr_code node_generation_prove(struct node_worker *worker, struct node_sink sink,
                                          struct lr_error *err);
/* Passes an event on to the owner. */
void node_generation_tell(struct node_generation *generation, const struct wire_frame *frame);
/* The worker made a token for it.  False: no memory to keep it. */
bool node_generation_keep_token(struct node_generation *generation, uint32_t id);
/* Its first step is under way; its first step is over. */
void node_generation_enter(struct node_generation *generation);
void node_generation_entered(struct node_generation *generation);
/* Frees it after its WIRE_DONE. */
void node_generation_end(struct node_generation *generation);
/* Ends it with WIRE_ERROR and frees it. */
void node_generation_fail(struct node_generation *generation, const struct lr_error *err,
                          bool retryable);
/* Ends it with WIRE_ERROR for its owner; a worker that has it is told to stop. */
void node_generation_abandon(struct node_generation *generation, const struct lr_error *err,
                             bool retryable);
/* The worker it was in has died: back to its owner or into the queue, or failed for good. */
void node_generation_lost(struct node_generation *generation, const struct node_victim *verdict,
                          const struct lr_error *how);

#endif
