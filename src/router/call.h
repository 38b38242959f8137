/* router/call.h - one client request to generate, and its generations (internal).
 *
 * serve.c takes the request in and answers the client; leg.c runs one generation on a
 * node, and on the next one when that is lost.  A call outlives its HTTP request for as
 * long as a node's answer or a posted grant still points to it.
 * Thread: the request's loop.
 */
#ifndef ROUTER_CALL_H
#define ROUTER_CALL_H

#include "chat/openai_request.h"
#include "chat/openai_response.h"
#include "router/dispatch.h"

/* One choice of the answer. */
struct router_leg {
    struct router_job job; /* first: a job is cast back to its leg */
    struct router_call *call;
    uint32_t index;
    uint32_t attempts;
    struct net_call *upstream; /* NULL: none is under way */
    int status;                /* of the node's answer; 0: no head yet */
    struct lr_buf in;          /* a frame that has not arrived whole, or an error body */
    uint32_t *generated;       /* owned: every token the client has */
    size_t generated_count, generated_cap;
    size_t sent_count; /* of them, when this attempt began */
    bool is_over;      /* DONE arrived, or the call gave it up */
    bool is_leaving;   /* given up: the node was told; its DONE, with the usage, is awaited */
    uint32_t prompt_tokens, cached_tokens; /* as far as known */
    uint32_t counted_tokens;               /* by the engine, at the end */
    uint64_t sent_ns, first_ns, last_ns;   /* of this attempt: sent, first and last token */
    uint32_t attempt_tokens;
};

struct router_call {
    struct router_call *next, **link; /* of home->calls */
    struct router_home *home;
    struct net_request *req; /* NULL once it was ended */
    struct router_access *access;
    const struct chat_request *chat; /* in the request's arena */
    struct router_model *model;      /* reference */
    struct router_prompt_info *info; /* reference */
    struct chat_response *response;
    struct lr_buf out;
    struct chat_prompt *prompts; /* in the request's arena */
    uint32_t prompt_count;
    struct router_leg *legs;
    uint32_t leg_count;
    unsigned holds; /* upstreams and grants that still point here */
    uint64_t seed;
    uint64_t begun_ns, granted_ns, first_ns;
    uint64_t wrote_ms;         /* the client heard from us */
    bool is_over;              /* the client's answer has ended */
    struct router_usage usage; /* what is known when the client's answer ends */
    struct router_key *key;    /* who pays; NULL: nobody */
    char request_id[72];       /* as in access, which goes with the request */
    char trace[64];            /* traceparent; "" where the client sent none */
};

/* ---- serve.c ---- */
/* A token or the end of one choice arrived. */
void router_call_token(struct router_leg *leg, const struct chat_token *token);
void router_call_done(struct router_leg *leg, enum lr_finish reason,
                      const struct chat_usage *usage);
/* The whole call fails. */
void router_call_fail(struct router_call *call, const struct lr_error *err);
/* Something no longer points to the call. */
void router_call_drop(struct router_call *call);

/* ---- leg.c ---- */
/* Asks for a slot and begins.  A refusal fails the call. */
void router_leg_start(struct router_leg *leg);
/* The client has all it wants of this choice, or is gone.  The caller holds the call. */
void router_leg_cancel(struct router_leg *leg);
void router_leg_free(struct router_leg *leg);

#endif
