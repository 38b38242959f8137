/* router/relay/generation.h - a generation: one choice of an answer, made by attempts on nodes.
 *
 *             no slot free            slot free
 *     IDLE ------------------> QUEUED ------------+
 *     ^  |                        |               v
 *     |  +------- slot free ------|------------> SENT ----- accepted ------> RUNNING
 *     |                           |               |                            |
 *     +------ the next attempt ---|---------------+----------------------------+
 *                                 |               |                            |
 *      the client has left, and   |               | the client has left,       |
 *      a grant is on its way      |               v or has all it wants        |
 *                                 +----------> STOPPED <-----------------------+
 *                                                 |
 *     IDLE, QUEUED, SENT, RUNNING and STOPPED ----+--> OVER
 *
 *     RUNNING -- the client does not read --> PAUSED -- the client has read --> IDLE
 *
 * Moves of a generation:
 *   idle -> queued, sent, over
 *   queued -> sent, stopped, over
 *   sent -> running, idle, stopped, over
 *   running -> idle, paused, stopped, over
 *   paused -> idle, over
 *   stopped -> over
 *   over -> nothing
 *
 * A generation is OVER when its answer is complete, has failed or was refused, and when the
 * client has left and nothing more is due.  In STOPPED the node's last event with the usage is
 * due, or the grant.  An answer that a stop string ended waits for that usage, which takes the
 * node about a step, and at most for the next look of router_generation_watch.
 *
 * The router keeps every token that the client has.  A node that dies, falls silent for five
 * seconds or says "retryable" is replaced: the next node gets the prompt and those tokens, and
 * goes on where the answer stopped.  A generation whose worker died goes on where it can begin
 * first, the same node included; a generation that is blamed for two deaths fails
 * (wire/lost.h).
 *
 * A client that reads more slowly than its answer is made has some of it waiting in the router.
 * Beyond a limit the generation is PAUSED: the node stops it and its slot is free for others;
 * when the client has read what waited, the generation goes on as after the loss of a node.  So
 * the client gets the whole answer, and the router holds little of it (docs/adr/0089).
 *
 * From QUEUED to STOPPED a posted grant or an attempt points to the generation, so in these
 * states the generation holds its call.  Thread: the call's loop.
 */
#ifndef ROUTER_RELAY_GENERATION_H
#define ROUTER_RELAY_GENERATION_H

#include "chat/turn.h"
#include "router/fleet/dispatch.h"
#include "router/relay/link.h"

struct router_call;

enum router_generation_state {
    ROUTER_GENERATION_IDLE,    /* not begun, or between two attempts */
    ROUTER_GENERATION_QUEUED,  /* waits for a slot */
    ROUTER_GENERATION_SENT,    /* a node has the request and has not accepted it */
    ROUTER_GENERATION_RUNNING, /* a node has accepted it */
    ROUTER_GENERATION_PAUSED,  /* stopped until the client has read; on no node */
    ROUTER_GENERATION_STOPPED, /* given up; a last event or a grant is due */
    ROUTER_GENERATION_OVER,
};

/* A generation on one node.  Begins all zero but for what it is sent with. */
struct router_attempt {
    struct router_stream stream;
    size_t tokens_before; /* that the client had when the attempt began */
    uint32_t tokens;
    uint64_t sent_ns, heard_ns; /* heard: the node's last event */
    uint64_t loaded_ns;         /* the node's last event about loading; 0: nothing was loaded */
    uint64_t first_ns, last_ns; /* tokens */
    bool has_left;              /* its end was told */
    bool is_pausing; /* the node was told to stop it, because the client does not read */
    uint64_t load_done, load_total;       /* as the engine counts; total 0: it does not load */
    uint32_t prefill_done, prefill_total; /* tokens of the prompt; total 0: not begun */
};

struct router_generation {
    struct router_ticket ticket; /* first: a ticket is cast back to its generation */
    struct router_call *call;
    uint32_t index; /* of the choice */
    enum router_generation_state state;
    struct router_attempt attempt; /* all zero between two attempts */
    uint64_t asked_ns;             /* for a slot, the last time */
    uint32_t failures;             /* attempts that failed in a row, without a token between */
    uint32_t strikes;              /* deaths of workers that are blamed on it */
    enum wire_entry entry;         /* how it goes into its next worker, and in which cohort */
    uint32_t cohort;
    struct lr_buf generated; /* owned: the ids (uint32_t) of the tokens that the client has */
    struct chat_usage usage; /* as the engines counted, as far as known */
    uint64_t stopped_ns;     /* in STOPPED: since when the answer waits for its usage; 0: not */
};

static inline size_t router_generation_tokens(const struct router_generation *g)
{
    return g->generated.len / sizeof(uint32_t);
}

/* For chat_generator; `call` is the struct router_call.  A refusal fails the call. */
lr_code router_generation_start(void *call, uint32_t index, struct lr_error *err);
bool router_generation_stop(void *call, uint32_t index, struct chat_usage *usage);

/* The client has more of its answer waiting than it should: what runs is paused. */
void router_generation_pause(struct router_generation *g);
/* The client has read what waited. */
void router_generation_resume(struct router_generation *g);

/* Once a second, while the caller holds the call: a node that has said nothing for too long is
 * left, and an answer waits no longer for its usage. */
void router_generation_watch(struct router_generation *g, uint64_t now_ns);

/* The only function that changes the state.  An illegal move ends the generation and fails its
 * call; then false.  The caller holds the call. */
bool router_generation_move(struct router_generation *g, enum router_generation_state to);

void router_generation_free(struct router_generation *g);

#endif
