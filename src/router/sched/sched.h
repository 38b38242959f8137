/* router/sched/sched.h - the scheduler: which ticket gets which slot.
 *
 * A pure state machine.  Events come in as calls that carry the time: a ticket arrives, gives
 * its slot back, leaves; a node gave a token, confirmed a swap; time passed.  Decisions go out
 * as the return value (of an arrival) or through struct router_sched_host (of tickets that
 * wait or run).  There are no locks, clocks, sockets and log lines inside; dispatch.c has
 * those, and a test brings its own host and its own time (tests/unit/router/sched_sim_test.c).
 *
 *   sched.c      events, the queue, the choice of a replica
 *   admission.c  may a ticket wait, and which one is refused where too many do
 *   preempt.c    which ticket leaves its slot for another
 *   recall.c     which ticket leaves a slot where it waits for a free one
 *   ticket.c     the states of a ticket and what each holds
 *   shares.c, queue.c, pressure.c, picker.c, replica.c: one rule each
 *
 * docs/scheduling.md explains the rules.  Thread: one at a time.
 */
#ifndef ROUTER_SCHED_SCHED_H
#define ROUTER_SCHED_SCHED_H

#include "router/sched/picker.h"
#include "router/sched/pressure.h"
#include "router/sched/shares.h"
#include "router/sched/ticket.h"

/* The scheduler's part of a model. */
struct router_schedule {
    struct router_queue queues[ROUTER_QUEUES];
    struct router_pressure pressure;                /* of live tickets */
    struct router_shares shares;                    /* of live tickets */
    uint64_t held;                                  /* tickets with a slot */
    struct router_schedule *next_busy, **busy_link; /* of sched->busy; NULL: it has no ticket */
};

/* The queue in which the ticket waits. */
static inline struct router_queue *router_ticket_queue(const struct router_ticket *t)
{
    return &t->schedule->queues[t->is_moved ? ROUTER_MOVED : t->priority];
}

void router_schedule_free(struct router_schedule *schedule);
size_t router_schedule_waiting(const struct router_schedule *schedule);
/* How long a live ticket that comes now would wait; 0: not known. */
uint64_t router_schedule_wait_ms(const struct router_schedule *schedule);

enum router_admission { ROUTER_GRANTED, ROUTER_WAITING, ROUTER_REFUSED };

enum router_refusal {
    ROUTER_REFUSE_QUEUE,    /* as many wait as `queue_limit` allows */
    ROUTER_REFUSE_WAIT,     /* the wait would be longer than `queue_wait_ms` */
    ROUTER_REFUSE_OVERLOAD, /* more come than the model can serve */
    ROUTER_REFUSE_BYTES,    /* the tickets that wait hold `queue_bytes` */
    ROUTER_REFUSE_TIMEOUT,  /* it waited for `queue_timeout_ms` */
    ROUTER_REFUSE_NOBODY,   /* no node can serve it */
    ROUTER_REFUSE_DELETED,  /* its model was deleted */
    ROUTER_REFUSE_MEMORY,   /* the router has none */
    ROUTER_REFUSE_DEFECT,   /* a move that a ticket cannot make */
};

/* What the scheduler asks and tells.  None of these may call the scheduler. */
struct router_sched_host {
    /* The replicas that could serve the ticket, at most `capacity`: node and replica of each.
     * `ticket` NULL: any ticket of this model. */
    size_t (*replicas)(void *ctx, const struct router_schedule *schedule,
                       const struct router_ticket *ticket, struct router_candidate *out,
                       size_t capacity);
    /* A ticket that waited has a slot (GRANTED), or is refused (REFUSED); the host calls
     * router_sched_acknowledge when the owner knows. */
    void (*send)(void *ctx, struct router_ticket *ticket);
    void (*refuse)(void *ctx, struct router_ticket *ticket, enum router_refusal why);
    /* The owner of the ticket is to stop its generation, give the slot back and come again:
     * another ticket needs the slot, or (ticket->is_recalled) another slot is free. */
    void (*preempt)(void *ctx, struct router_ticket *ticket);
    /* No replica can serve the ticket, and none that is away can when it is back.  NULL: one
     * may. */
    bool (*is_hopeless)(void *ctx, const struct router_ticket *ticket);
};

struct router_sched {
    /* settings; set once */
    const struct router_sched_host *host;
    void *ctx;
    bool preempts;
    size_t queue_limit, queue_bytes;
    uint64_t queue_wait_ms;    /* 0: no bound */
    uint64_t queue_timeout_ms; /* of live tickets; 0: no bound */
    uint64_t promised_ms;      /* a client that waited for so long was told that it waits */

    uint64_t now;                 /* of the event under way */
    uint64_t waiting, held;       /* tickets */
    uint64_t illegal_moves;       /* defects */
    struct router_schedule *busy; /* the models that have tickets */
    struct prefix_index prefixes;
};

/* ---- events ---- */

/* A ticket comes; ticket->schedule is set.  GRANTED: it is RUNNING, on ticket->node.  WAITING:
 * it is QUEUED, and the host hears what becomes of it.  REFUSED: *why, and ticket->retry_s.
 * `again`: it had a slot before.  Then no bound holds for it, and where no node is left it
 * waits some seconds for one to come back.  If its client has tokens and it was not preempted,
 * it goes on before others begin, but on a free slot only; else it goes to the front of its
 * key's queue.
 */
enum router_admission router_sched_arrive(struct router_sched *s, struct router_ticket *ticket,
                                          bool again, uint64_t now_ms,
                                          enum router_refusal *why);

/* The owner knows that its ticket was granted (then true: it is RUNNING) or refused. */
bool router_sched_acknowledge(struct router_sched *s, struct router_ticket *ticket);

enum router_outcome {
    ROUTER_ENDED,     /* the node did its work, or the client left */
    ROUTER_BUSY,      /* the node answered 429: full for the moment */
    ROUTER_PREEMPTED, /* another ticket needed the slot more */
    ROUTER_RECALLED,  /* it waited there, and another slot is free */
    ROUTER_PAUSED,    /* its client does not read: it comes again when the client has */
    ROUTER_LOST,      /* its engine died and is being started again; the node is well */
    ROUTER_FAILED,    /* the node is ill, or lost: it is avoided for a while */
};
/* A slot is free again.  Nothing happens where the ticket has none.  `measure` may be NULL. */
void router_sched_release(struct router_sched *s, struct router_ticket *ticket,
                          enum router_outcome outcome, const struct router_measure *measure,
                          uint64_t now_ms);

/* The owner leaves the queue.  False: it is not there. */
bool router_sched_withdraw(struct router_sched *s, struct router_ticket *ticket);

/* The node computes the prompt of a ticket that has a slot, gave a token for it.  Any thread,
 * at any time. */
void router_sched_prefill(struct router_ticket *ticket);
void router_sched_token(struct router_ticket *ticket);

/* The node of `ticket` said whether the ticket that it swaps out leaves.  Where the node did
 * not say so, that ticket is told to leave. */
void router_sched_swap_confirmed(struct router_sched *s, struct router_ticket *ticket,
                                 bool is_confirmed);

/* The fleet has changed: tickets that wait may have a slot now. */
void router_sched_pump_all(struct router_sched *s, uint64_t now_ms);
/* Time has passed: some may have waited too long. */
void router_sched_tick(struct router_sched *s, uint64_t now_ms);

/* The model is deleted: tickets that have not begun are refused.  A ticket that had a slot
 * before goes on where a node still has the model. */
void router_sched_delete(struct router_sched *s, struct router_schedule *schedule);

/* ---- questions ---- */

/* The replicas that could serve the ticket, complete but for the cost. */
size_t router_sched_candidates(struct router_sched *s, const struct router_schedule *schedule,
                               const struct router_ticket *ticket, uint64_t now_ms,
                               struct router_candidate *out, size_t capacity);
bool router_ticket_has_failed(const struct router_ticket *ticket,
                              const struct router_node *node);

/* ---- between the files of the scheduler ---- */

/* Out of the queue, and the host hears why. */
void router_sched_drop(struct router_sched *s, struct router_ticket *ticket,
                       enum router_refusal why);

/* admission.c: whether the ticket may wait; it is in the queue then. */
bool router_sched_enqueue(struct router_sched *s, struct router_ticket *ticket,
                          enum router_refusal *why);
/* admission.c: under overload more wait than may.  The newest of the key with the most are
 * refused, but for those that have waited for some seconds. */
void router_sched_shed(struct router_sched *s, struct router_schedule *schedule);

/* preempt.c: `ticket` has gone beyond the slots of this replica, or waits because it is full:
 * as many as are too many there are preempted.  The first of them is swapped where the ticket
 * has a slot there, the others are told to leave. */
void router_sched_make_way(struct router_sched *s, struct router_ticket *ticket,
                           struct router_replica *replica, uint64_t slots);
/* preempt.c: whether a ticket would leave this replica for `ticket`. */
bool router_sched_makes_way(const struct router_sched *s, const struct router_ticket *ticket,
                            const struct router_replica *replica, uint64_t slots);
/* recall.c: tickets that wait on their nodes are recalled to free slots of other nodes.
 * `begun`: only those whose client has tokens. */
void router_sched_recall(struct router_sched *s, struct router_schedule *schedule, bool begun);
/* preempt.c: the ticket gives its slot back, or its node did not confirm: what it swaps out is
 * told to leave. */
void router_sched_settle_swap(struct router_sched *s, struct router_ticket *ticket);

#endif
