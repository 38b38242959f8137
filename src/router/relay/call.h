/* router/relay/call.h - one client request to generate, and its generations (internal).
 *
 *   serve.c       takes a request in and makes a call of it
 *   call.c        between the call's turn (chat/turn.h), its client and the fleet
 *   call_usage.c  what the request took, for the usage records
 *   leg.c         one generation on a node, and on the next one when that is lost
 *   leg_events.c  what the node says
 *   leg_ask.c     what the node is told
 *
 * A call outlives its HTTP request for as long as a node's answer or a posted grant still
 * points to it; `holds` counts those, and the client's answer.
 * Thread: the request's loop.
 */
#ifndef ROUTER_RELAY_CALL_H
#define ROUTER_RELAY_CALL_H

#include "chat/turn.h"
#include "router/relay/link.h"
#include "router/sched/dispatch.h"
#include "wire/lost.h"

/* Without an event for so long a node is lost; it gives one at least once a second. */
enum { ROUTER_SILENCE_MS = 5000 };

/* One choice of the answer. */
struct router_leg {
    struct router_ticket job; /* first: a ticket is cast back to its leg */
    struct router_call *call;
    uint32_t index;
    uint32_t attempts;     /* that failed in a row, without a token between */
    uint32_t strikes;      /* deaths of engines that are blamed on it */
    enum wire_entry entry; /* how it goes into its next worker, and in which cohort */
    uint32_t cohort;
    struct router_stream stream; /* the attempt that is under way */
    bool is_taken;               /* its node has said ACCEPTED */
    uint32_t *generated;         /* owned: every token the client has */
    size_t generated_count, generated_cap;
    size_t sent_count; /* of them, when this attempt began */
    bool is_over;      /* DONE arrived, or the call gave it up */
    bool is_leaving;   /* given up: the node was told; its DONE, with the usage, is awaited */
    uint32_t prompt_tokens, cached_tokens; /* as far as known */
    uint32_t counted_tokens;               /* by the engine, at the end */
    uint32_t attempt_tokens;
    uint64_t heard_ms; /* the node's last event */
    /* of this attempt; loaded_ns: the last word about loading, 0 where nothing was loaded */
    uint64_t sent_ns, loaded_ns, first_ns, last_ns;
};

struct router_call {
    struct router_call *next,
        **link; /* of loop->calls; link NULL: the request is not valid yet */
    struct router_loop *loop;
    struct net_request *req; /* not to be touched once the turn has ended, as all it owns: */
    struct router_access *access; /* in the request's arena */
    struct chat_turn turn;
    struct router_model *model;         /* reference; NULL: not found yet */
    struct router_prompt_info *info;    /* reference */
    struct router_prefix_hashes *marks; /* owned, one per prompt; NULL: short prompts */
    struct router_leg *legs;
    uint32_t leg_count;
    unsigned holds; /* what still points here: the answer, attempts and grants */
    uint64_t begun_ns, granted_ns, first_ns;
    uint64_t wrote_ms;         /* the client heard from us */
    struct router_usage usage; /* what is known when the client's answer ends */
    uint64_t charged;          /* tokens its key's limit was told of */
    struct router_key *key;    /* who pays; NULL: nobody */
    char name[96];             /* what nodes know it by */
    char trace[64];            /* traceparent; "" where the client sent none */
    char why[96];              /* why this node: X-LLM-Router-Reason */
};

/* ---- call.c ---- */
/* With one hold, the answer's; NULL without memory. */
struct router_call *router_call_new(struct router *r, struct net_request *req);
/* The request is valid: from now on it is counted, watched and put into the usage records. */
void router_call_link(struct router_call *call);
/* A token or the end of one choice arrived. */
void router_call_token(struct router_leg *leg, const struct wire_token *token);
void router_call_done(struct router_leg *leg, enum lr_finish reason,
                      const struct chat_usage *usage);
/* The whole call fails. */
void router_call_fail(struct router_call *call, const struct lr_error *err);
/* Something points to the call, or no longer does. */
static inline void router_call_hold(struct router_call *call)
{
    call->holds++;
}
void router_call_drop(struct router_call *call);

/* ---- call_usage.c ---- */
/* The client's answer ends with this status: notes what is known. */
void router_call_note(struct router_call *call, int status);
/* The engines have said what it took: adds the usage record. */
void router_call_book(struct router_call *call);

/* ---- leg.c ---- */
/* Asks for a slot and begins.  A refusal fails the call. */
void router_leg_start(struct router_leg *leg);
/* The node is lost to this request: the next one.  The caller holds the call. */
void router_leg_move(struct router_leg *leg, enum router_outcome outcome,
                     const struct lr_error *why);
/* Engines died over it and nothing else can be blamed: it fails for good. */
void router_leg_poison(struct router_leg *leg, const struct lr_error *err);
/* Its key holds more than others: it waits for its turn and goes on.  As above. */
void router_leg_preempt(struct router_leg *leg);
/* Its answer is complete. */
void router_leg_done(struct router_leg *leg);
void router_leg_fail(struct router_leg *leg, const struct lr_error *err);
/* The client has all it wants of this choice, or is gone.  The caller holds the call. */
void router_leg_cancel(struct router_leg *leg);
/* Leaves at once, without waiting for the usage. */
void router_leg_give_up(struct router_leg *leg);
/* Now and then: a node that has said nothing for too long is left. */
void router_leg_watch(struct router_leg *leg, uint64_t now_ms);
void router_leg_free(struct router_leg *leg);

/* ---- leg_events.c ---- */
void router_leg_hear(struct router_leg *leg, const struct wire_frame *event);

/* ---- leg_ask.c ---- */
/* Sends the generation to job->node. */
LR_MUST_USE lr_code router_leg_send(struct router_leg *leg, struct lr_error *err);

#endif
