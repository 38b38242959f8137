/* router/relay/keep.h - the keeper: stores responses, and reads stored ones for requests.
 *
 * An answer that is to be stored waits with its last bytes until the database has it, so that
 * a client can refer to it at once, on any router of the fleet.  The answers that wait are
 * written in one transaction.  An answer does not wait for long: the client then gets it with
 * `store: false`.
 *
 * A job:
 *
 *    WAITING ---> WRITING ---> posted to its loop and freed there
 *       ^                         |
 *       +---- a second later -----+   the end of a background request, which nobody waits for
 *
 * Thread: any for router_keep, unless a comment says otherwise.
 */
#ifndef ROUTER_RELAY_KEEP_H
#define ROUTER_RELAY_KEEP_H

#include <pthread.h>

#include "chat/turn.h"
#include "router/store/responses.h"
#include "router/store/running.h"
#include "router/store/store.h"

struct router_call;
struct router_keep_job;

struct router_keeper {
    /* Set once. */
    struct router_store *store; /* borrowed */
    uint64_t keep_ms;           /* that an unused response is stored; 0: nothing is stored */
    uint64_t max_bytes;         /* of all stored responses; 0: nothing is stored */

    uint64_t seconds;              /* Thread: loop 0 */
    bool has_more;                 /* the last sweep left rows.  Thread: the database's */
    struct router_running running; /* Thread: the database's */
    _Atomic bool is_sweeping, has_written /* since the last sweep */, is_stopping;

    pthread_mutex_t lock;                  /* guards what follows */
    struct router_keep_job *first, **last; /* jobs that wait; owned */
    struct router_keep_job *writing;       /* jobs of the transaction; owned */
    size_t bytes;                          /* of all jobs */
    bool is_busy;                          /* a transaction is under way */
};

/* Initializes the lock and the list; the caller has set the settings and the store. */
void router_keeper_init(struct router_keeper *keeper);
/* The store is closed: nothing waits any more. */
void router_keeper_free(struct router_keeper *keeper);

/* Whether an answer that begins now can be stored: the setting, and the database's health. */
bool router_keeper_can(struct router_keeper *keeper);

/* The rows that a caller may see now. */
struct router_responses_view router_keeper_view(const struct router_keeper *keeper,
                                                struct lr_str key);

/* Once a second: removes old responses, and the oldest where they are too many. Thread: loop
 * 0. */
void router_keeper_second(struct router_keeper *keeper);

/* ---- for a call.  Thread: the call's loop ---- */

/* For struct chat_sink. */
bool router_call_keep(void *call, struct chat_record *record);
/* Stores a new row of a background request; then done(call, is_kept, answer), where `answer` is
 * the record's.  False: it is not stored, and the record is freed. */
typedef void (*router_stored_fn)(struct router_call *call, bool is_kept, struct lr_str answer);
bool router_call_store(struct router_call *call, struct chat_record *record,
                       router_stored_fn done);
/* Once a second: an answer that has waited for too long is given to the client. */
void router_call_watch_keep(struct router_call *call, uint64_t now_ms);
/* The call is freed; its job goes on without it. */
void router_call_leave_keep(struct router_call *call);

/* Reads what the request's body refers to, then calls go_on(call), which may be at once.  The
 * call is held meanwhile. */
void router_call_load(struct router_call *call, void (*go_on)(struct router_call *call));
struct router_load;
void router_load_free(struct router_load *load); /* NULL is fine */

#endif
