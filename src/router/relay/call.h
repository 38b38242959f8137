/* router/relay/call.h - a call: one client request to generate, and its generations.
 *
 *   call.c        the client's request becomes a call; its answer
 *   admission.c   whether the key may send it, and whether a node can serve it
 *   generation.c  one choice of the answer, by attempts on nodes
 *   link.c        the connection between a loop and a node
 *   fact.h        what happens to a call, for all that measures: observers.c, usage.c, traced.c
 *   journal.c     the request log; logged.c fills it, texts.c has prompts and answers for it
 *   keep.c        stored responses
 *   background.c  background requests
 *
 * The answer's shape is the turn's (chat/turn.h); the turn's sink is the client's HTTP request,
 * its generator the generations.
 *
 * A call outlives its HTTP request for as long as a generation holds it: until its nodes
 * have reported the usage and posted grants have arrived.  Thread: the request's loop.
 */
#ifndef ROUTER_RELAY_CALL_H
#define ROUTER_RELAY_CALL_H

#include "router/figures/metrics.h"
#include "router/observe/history.h"
#include "router/observe/key_usage.h"
#include "router/relay/background.h"
#include "router/relay/generation.h"
#include "router/relay/keep.h"
#include "router/relay/logged.h"
#include "router/relay/request.h"
#include "router/trace/tracer.h"

/* The calls of one loop.  Thread: that loop. */
struct router_relay {
    /* Borrowed; set once. */
    struct router_dispatch *dispatch;
    struct router_nodes *nodes;
    struct router_keys *keys;
    struct router_store *store;
    struct router_metrics *metrics;
    struct router_key_usages *key_usages; /* under the router's lock */
    struct router_history *history;       /* likewise */
    struct router_keeper *keeper;         /* NULL: nothing is stored */
    struct router_journal *journal;       /* NULL: no request is logged */
    struct router_tracer *tracer;
    uint32_t keep_alive_ms;
    bool strict_fields; /* every request is strict (chat/codec.h) */

    struct router_links links;
    struct router_call *calls;   /* valid ones */
    _Atomic uint64_t unanswered; /* of these; any thread reads it */
};

struct router_call {
    struct router_call *next,
        **link; /* of relay->calls; link NULL: the request is not valid yet */
    struct router_relay *relay;
    /* Not to be touched once the turn has ended, as all it owns.  NULL: a background request
     * whose client was answered or has left. */
    struct net_request *req;
    struct router_access *access; /* in the request's arena, or background->access */
    struct chat_turn turn;
    struct router_model *model;            /* reference; NULL: not found yet */
    struct router_prompt_info *info;       /* reference */
    struct prefix_hashes *prefixes;        /* owned, one per prompt; NULL: short prompts */
    struct router_generation *generations; /* owned */
    uint32_t generation_count;
    unsigned holds; /* references: the answer's and those of the generations */
    uint64_t begun_ns, granted_ns, first_ns;
    uint64_t wrote_ms;                    /* the last write to the client */
    struct router_usage usage;            /* what is known when the client's answer ends */
    int64_t figures[ROUTER_FIGURES];      /* that the history does not have yet */
    uint64_t flowed;                      /* tokens that were counted in figures */
    uint64_t record;                      /* in the request log; 0: none */
    struct router_kept_answer *answer;    /* owned, for the log; NULL: texts are not kept */
    uint64_t charged;                     /* tokens that were counted against the key's limit */
    struct router_key *key;               /* that pays; NULL: none */
    struct router_key *entered;           /* whose running requests it counts to; or NULL */
    bool is_over_rate;                    /* the key's rate refused it */
    bool is_recorded;                     /* its usage is stored */
    bool keeps_texts;                     /* in the request log, as its key says */
    struct router_background *background; /* owned; NULL: the client waits */
    struct router_load *load;    /* owned: stored responses that the request refers to */
    struct router_keep_job *job; /* under way: stores the answer; NULL: none */
    bool tells_progress;         /* the client asked what its request waits for (progress.h) */
    char trace[64];              /* traceparent for nodes; "": none */
    struct router_trace *spans;  /* owned; NULL: the request is not sampled */
    char why[96];                /* why this node: X-LLM-Router-Reason */
};

/* A client's request to generate, in the API of this codec: it is answered, or will be.  Else
 * *err is the answer. */
lr_code router_call_begin(struct router_relay *relay, struct net_request *req,
                          const struct chat_codec *codec, struct lr_error *err);

/* Something points to the call, or no longer does. */
static inline void router_call_hold(struct router_call *call)
{
    call->holds++;
}
void router_call_drop(struct router_call *call);

/* The client has not read all that was sent to it.  The request of a turn that has ended may be
 * freed, although the call waits for its nodes or the database. */
static inline bool router_call_waits_for_client(const struct router_call *call)
{
    return !chat_turn_is_over(&call->turn) && call->req != NULL &&
           net_stream_queued(call->req) != 0;
}

/* Once a second: silent nodes are left, silent clients get a comment. */
void router_relay_watch(struct router_relay *relay);
/* The loop's client has ended: frees the links, and the calls that still wait for a node's last
 * word. */
void router_relay_free(struct router_relay *relay);

#endif
