/* node/models/generation.h - one generation on this node, from admission to its last event.
 *
 * A request holds a lease on its model for as long as it exists: nothing evicts or
 * replaces what it runs on before it has ended.  Its owner (an HTTP handler) hears
 * events through a sink; the last one is WIRE_DONE or WIRE_ERROR, after which the
 * request is gone.
 *
 * Its worker may die.  An owner that holds the tokens itself (a router) hears WIRE_LOST, also a
 * last event, and submits the generation again wherever it likes.  For any other owner the node
 * keeps the tokens and submits the request again here.  Either way the request re-enters by the
 * rules of node/workers/blame.h.
 *
 *   new --> queued --> live --> (gone)
 *              ^         |
 *              +---------+  its worker died, and the node keeps its tokens
 *
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_GENERATION_H
#define NODE_MODELS_GENERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "node/workers/blame.h"
#include "wire/event.h"
#include "wire/generate.h"

struct node;
struct node_model;
struct node_worker;

struct node_sink {
    void *ctx;
    /* Borrowed for the call.  May call node_generation_cancel. */
    void (*on_event)(void *ctx, const struct wire_frame *frame);
    bool has_connection; /* of its own: each event is a write */
    bool takes_lost;     /* the owner holds the tokens: WIRE_LOST where the worker dies */
};

enum node_generation_place {
    NODE_GENERATION_NEW,    /* on no list */
    NODE_GENERATION_QUEUED, /* in its model's queue */
    NODE_GENERATION_LIVE,   /* in a worker */
};

/* What is true of a request in one worker, and of no other. */
struct node_attempt {
    uint64_t submitted_ms, first_token_ms; /* first_token_ms 0: none yet */
    uint32_t given;                        /* tokens it had when it was submitted */
    uint32_t tokens;                       /* that the worker made */
    uint32_t probation;                    /* tokens until it is no longer suspected */
    bool has_connection;                   /* as its sink when it was submitted */
    bool is_newcomer;                      /* has yet to survive its first step */
    bool is_entering;                      /* its first step is under way */
    bool has_entered;                      /* its first step is over */
};

struct node_generation {
    struct node_generation *next, **link; /* in the list of its place */
    uint64_t id;                          /* slot and generation: see node_generation_find */
    uint64_t seq;                         /* order of arrival on this node */
    enum node_generation_place place;
    struct node_model *model;
    struct node_worker *worker; /* LIVE only */
    struct wire_submit ask;     /* its texts are empty but for request_id, which is `name` */
    char name[WIRE_REQUEST_ID_MAX + 1];
    char *frame; /* owned: the WIRE_SUBMIT, prompt and all; NULL once an owner with takes_lost
                  * need not have it sent again */
    size_t frame_len;
    struct node_sink sink; /* on_event NULL: the owner has left */
    uint32_t *generated;   /* owned: every token the client has; not with takes_lost */
    size_t generated_count, generated_cap;
    struct node_attempt attempt; /* LIVE only */
    uint64_t arrived_ms, last_event_ms;
    uint64_t deadline_at_ms; /* who still waits then is dropped; 0: none */
    uint32_t strikes;        /* deaths that are blamed on it; not with takes_lost */
    uint32_t ahead;          /* frames of the running batch that are still to come */
    bool is_proof;           /* the node's own question to a new worker; on no list but LIVE */
    bool is_stopped;         /* its owner has enough: a worker is told to end it */
    bool is_leaving;         /* LIVE, and its worker was told */
};

/* Takes a generation in: `frame` is a whole WIRE_SUBMIT or WIRE_SWAP, which is copied, and
 * `ask` what wire_submit_head_decode says of it.  The sink may be called before this returns
 * (ACCEPTED).  The generation that ask->leaves names, where it runs, is stopped for this one:
 * its place is this one's, and the worker hears of both before its next step.
 *   RATE_LIMITED  no room in the queue
 *   UNAVAILABLE   the node is draining
 *   another code  the model cannot be loaded: why
 * With ask->no_queue a request beyond the free slots of a loaded model is refused, too:
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
void node_generation_cancel(struct node_generation *request);

/* The owner has all it wants (a stop string matched): the worker is told, and the
 * last event, with the usage, still comes; at once where no worker has it. */
void node_generation_stop(struct node_generation *request);

/* NULL when it has ended. */
struct node_generation *node_generation_find(struct node *node, uint64_t id);

/* ---- for the supervisor ---- */
void node_generation_submit(struct node_generation *request, struct node_worker *worker);
void node_generation_event(struct node_generation *request, const struct wire_frame *frame);
/* Ends it with WIRE_ERROR and frees it. */
void node_generation_fail(struct node_generation *request, const struct lr_error *err,
                          bool retryable);
/* Ends it with WIRE_ERROR for its owner; a worker that has it is told to stop. */
void node_generation_abandon(struct node_generation *request, const struct lr_error *err,
                             bool retryable);
/* Asks a worker for one token, to see that it can. */
LR_MUST_USE lr_code node_generation_prove(struct node_worker *worker, struct node_sink sink,
                                          struct lr_error *err);
/* Frees it after its WIRE_DONE. */
void node_generation_end(struct node_generation *request);
/* The worker it was in has died: back to its owner or into the queue, or failed for good. */
void node_generation_lost(struct node_generation *request, const struct node_victim *verdict,
                          const struct lr_error *how);
/* The worker made a token for it.  False: no memory to keep it. */
bool node_generation_keep_token(struct node_generation *request, uint32_t id);
/* Its first step is over. */
void node_generation_entered(struct node_generation *request);
/* Whether it may go into the worker now; `suspect_waits`: one before it may not. */
bool node_generation_may_enter(const struct node_generation *request,
                               const struct node_worker *worker, bool suspect_waits);
/* Once a second: ticks for silent requests, deadlines. */
void node_generations_tick(struct node *node, uint64_t now_ms);

void node_generation_push(struct node_generation **list, struct node_generation *request);
void node_generation_unlink(struct node_generation *request);

#endif
