/* router/store/running.h - finds the background responses whose router has ended.
 *
 * The router of a running response raises a counter in its row with each sign of life.  Every
 * router looks at all counters.  A counter that stood still for ROUTER_RESPONSE_LOST_MS of the
 * looking router's own monotonic time has no router any more, and the response fails:
 *
 *    running, counter moves ---> running, counter stands still ---> failed
 *              ^                                |
 *              +--- the counter was raised -----+
 *
 * So no clock of one router is compared with the clock of another one, and no jump of a clock
 * counts.  The time between two looks counts for at most ROUTER_LOOK_MS: while the database
 * does not answer, nobody can raise a counter.  Thread: the database's.
 */
#ifndef ROUTER_STORE_RUNNING_H
#define ROUTER_STORE_RUNNING_H

#include "base/strmap.h"
#include "router/store/sql.h"

enum { ROUTER_RESPONSE_LOST_MS = 60000, ROUTER_LOOK_MS = 5000 };

struct router_running {
    struct lr_strmap rows; /* from a response's id to what is known of its counter; owned */
    uint64_t looked_ms;    /* monotonic: the last look; 0: none */
    uint64_t looks;
};

void router_running_init(struct router_running *running);
void router_running_free(struct router_running *running);

/* One look.  wall_ms: for rows of a release without the counter, which say when the last sign
 * of life was.  *more: others are lost, too. */
LR_MUST_USE lr_code router_running_look(struct router_running *running, struct router_sql *sql,
                                        uint64_t now_ms, int64_t wall_ms, bool *more,
                                        struct lr_error *err);

#endif
