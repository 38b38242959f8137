/* router/observe/history.h - what this process adds to the history of figures
 * (store/history.h).
 *
 * Figures of the running slots are in memory.  Every ten seconds the rows that changed are
 * copied and written behind the loops; the rows of the longer slots are written each time, as
 * they are by then.  So a process that is killed loses up to ten seconds of history, and a
 * process that ends loses nothing.  The tables are bounded: what does not fit counts under the
 * subject "other".
 * Thread: the router's lock is held, unless a comment says otherwise.
 */
#ifndef ROUTER_OBSERVE_HISTORY_H
#define ROUTER_OBSERVE_HISTORY_H

#include "base/strmap.h"
#include "router/store/history.h"
#include "router/store/store.h"

enum { ROUTER_HISTORY_SERIES = 128 }; /* of each kind */

struct router_history {
    char part[12];
    int64_t slot_s[ROUTER_LEVELS];                 /* the slots that run; 0: none yet */
    struct lr_strmap series[ROUTER_HISTORY_KINDS]; /* "subject\nplace" -> series, owned */
    uint64_t at_ms;                                /* monotonic: the last sample */
};

void router_history_init(struct router_history *history);
void router_history_free(struct router_history *history);

/* Adds these figures, or one of them, to the slots that run. */
void router_history_add(struct router_history *history, const char *model, const char *node,
                        const int64_t figures[ROUTER_FIGURES]);
void router_history_bump(struct router_history *history, enum router_history_kind kind,
                         const char *subject, const char *place, size_t figure, int64_t by);

/* Once a second: what runs and waits, and the figures of the nodes' devices.  now_ms is
 * monotonic. */
struct router_nodes;
struct router_registry;
void router_history_sample(struct router_history *history, const struct router_nodes *nodes,
                           const struct router_registry *registry, uint64_t now_ms);

/* Rows to be written; owned by the caller, to be freed with free().  NULL: none. */
struct router_history_rows {
    size_t count;
    int64_t now_s;
    struct router_history_row rows[];
};
/* The time is now_s: where a slot of ten seconds has ended, its rows and those of the longer
 * slots.  is_last: the process ends, and the running slots are written, too. */
struct router_history_rows *router_history_turn(struct router_history *history, int64_t now_s,
                                                bool is_last);
/* Hands the rows to the store, which frees them.  NULL is fine.  Thread: any. */
void router_history_store(struct router_store *store, struct router_history_rows *rows);

#endif
