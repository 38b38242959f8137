/* router/sched/ticket.h - a ticket: the claim of one generation on a slot.
 *
 *                  no slot free              slot free
 *          +------------------------ IDLE ------------------> RUNNING
 *          v                        ^ ^ ^                      | ^ |
 *        QUEUED ---- leaves --------+ | +----- gives back -----+ | |
 *        |    |                       |                          | |
 *        |    +-- refused --> REFUSED +  (its owner has heard)    | |
 *        |                                                       | |
 *        +------- slot free --> GRANTED -- its owner has heard --+ |
 *                                                                  |
 *        another ticket takes the slot over (swap)                 |
 *   SWAPPED <------------------------------------------------------+
 *     |  the node did not confirm the swap                         |
 *     v                                                            |
 *   PREEMPTED <------- told to leave ------------------------------+
 *   SWAPPED, PREEMPTED: ---- gives back --> IDLE
 *
 * Moves of a ticket:
 *   idle -> queued, running
 *   queued -> idle, granted, refused
 *   granted -> running
 *   refused -> idle
 *   running -> idle, swapped, preempted
 *   swapped -> idle, preempted
 *   preempted -> idle
 *
 * The state says what a ticket holds: router_ticket_move, and nothing else, keeps the counts of
 * queue, replica and shares in step with it.
 */
#ifndef ROUTER_SCHED_TICKET_H
#define ROUTER_SCHED_TICKET_H

#include "base/fail.h"
#include "prefix/index.h"
#include "router/sched/queue.h"
#include "router/sched/replica.h"

struct net_loop;
struct router_dispatch;
struct router_model;
struct router_node;
struct router_preempt_note;
struct router_sched;
struct router_schedule;

enum { ROUTER_FAILED_MAX = 8, ROUTER_TICKET_NAME_MAX = 112 };

/* Why a node was chosen: what was known of its replica at that time. */
struct router_chosen {
    double cost_ms, cached; /* cached: share of the prompt, 0 to 1 */
    uint32_t active;        /* sequences on it */
    uint32_t nodes;         /* that could serve the ticket */
    bool is_loaded;
};

/* A live ticket has a client that waits.  A batch ticket takes what live tickets leave. */
enum router_priority { ROUTER_LIVE, ROUTER_BATCH, ROUTER_PRIORITIES };

/* The queues of a model: one per priority, and one of answers that lost their worker or node in
 * the middle, which go on before others begin. */
enum { ROUTER_MOVED = ROUTER_PRIORITIES, ROUTER_QUEUES };

enum router_ticket_state {
    ROUTER_TICKET_IDLE,      /* holds nothing and waits for nothing */
    ROUTER_TICKET_QUEUED,    /* waits for a slot */
    ROUTER_TICKET_GRANTED,   /* has a slot; its owner has not heard so */
    ROUTER_TICKET_REFUSED,   /* waited in vain; its owner has not heard so */
    ROUTER_TICKET_RUNNING,   /* has a slot that its owner uses */
    ROUTER_TICKET_SWAPPED,   /* has a slot that another ticket takes over on the node */
    ROUTER_TICKET_PREEMPTED, /* has a slot and is told to leave it */
    ROUTER_TICKET_STATES
};

struct router_ticket {
    struct router_waiter waiter; /* first: a waiter is cast back to its ticket */

    /* Set by the owner before the ticket arrives. */
    uint64_t key; /* the number of its key */
    enum router_priority priority;
    char name[ROUTER_TICKET_NAME_MAX];    /* that nodes know the generation by */
    uint32_t prompt_tokens;               /* estimated */
    uint32_t kind;                        /* LR_REQUEST_... */
    char weights[72];                     /* fingerprint of those that made its tokens:
                                           * it goes on with no others; "": any will do */
    const struct prefix_hashes *prefixes; /* the owner's; NULL: none */
    const struct router_node *bound; /* the only node it may use as long as that node can run
                                      * it: there the request is under suspicion, and other
                                      * nodes are spared.  NULL: any */

    /* The scheduler's. */
    enum router_ticket_state state;
    struct router_schedule *schedule; /* of its model */
    bool is_again;                    /* it had a slot before: its client may have tokens */
    bool is_moved;   /* its client has tokens, and it lost its slot by no fault: ROUTER_MOVED */
    bool was_paused; /* its client let it wait: others that wait come first */
    _Atomic bool was_preempted; /* a live ticket is preempted once; any thread reads it */
    _Atomic bool has_begun;     /* its client has a token; any thread */
    _Atomic bool is_computing;  /* its node has begun with it, in this slot; any thread */
    _Atomic bool is_recalled;   /* it leaves this slot for a free one; any thread */
    const struct router_node *failed[ROUTER_FAILED_MAX]; /* nodes that failed it */
    uint32_t failed_count;
    uint64_t waiting_since_ms;
    uint64_t nobody_since_ms; /* no node could serve it since; 0: a node can */
    uint32_t retry_s;         /* of a refusal: when to come again; 0: not known */

    /* Of the attempt on one node; NULL and empty without a slot. */
    struct router_node *node;
    struct router_replica *replica;
    struct router_ticket *next_held, **held_link; /* of replica->held */
    struct router_replica
        *recalled_to;                  /* where a slot is reserved for it; NULL: not recalled */
    char swap[ROUTER_TICKET_NAME_MAX]; /* the ticket that leaves the node when this one comes
                                        * there; "": none, or that is settled */
    struct router_chosen chosen;       /* why this node */
    char why[96];                      /* the same in words: X-LLM-Router-Reason */

    /* For dispatch.c: the scheduler does not look at these. */
    struct router_dispatch *dispatch;
    struct router_model *model; /* the owner's reference */
    struct net_loop *loop;
    /* Follows ROUTER_WAITING, on the loop, unless router_withdraw said otherwise.  err NULL:
     * the ticket has a slot. */
    void (*on_ready)(struct router_ticket *ticket, const struct lr_error *err);
    /* The ticket is to leave its node and to arrive again.  On the loop.  NULL: it is never
     * preempted. */
    void (*on_preempt)(struct router_ticket *ticket);
    struct router_preempt_note *note; /* on its way to on_preempt */
    struct lr_error refusal;
};

/* The only way to change ticket->state.  A move that is not in the list is a defect: a
 * debug build ends there; a release build counts it (sched->illegal_moves), takes from the
 * ticket all that its state held, and says false. */
bool router_ticket_move(struct router_sched *sched, struct router_ticket *ticket,
                        enum router_ticket_state to);

/* Whether a ticket in this state has a slot. */
bool router_ticket_holds(enum router_ticket_state state);

#endif
