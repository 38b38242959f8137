/* router/store/clock.h - the time of day that the routers of one database share.
 *
 * A row says when something happened, or until when it holds, and any router judges it.  So the
 * time of rows is that of the database's clock, never that of a router's machine: it is read
 * when the database is opened and with each exchange between routers, and goes on in between
 * with this process's monotonic clock.  SQLite has no clock of its own: there it is the
 * system's, and the only router is on the same machine.  A process has one database.
 *
 * What is old is removed by this time.  Nothing brings it back where the time was wrong, so a
 * jump stops that for a while: no record may go because a clock was a month ahead for a minute.
 * Thread: any.
 */
#ifndef ROUTER_STORE_CLOCK_H
#define ROUTER_STORE_CLOCK_H

#include "base/clock.h"
#include "router/store/sql.h"

enum {
    ROUTER_CLOCK_JUMP_MS = 5000,
    ROUTER_CLOCK_DOUBT_MS = 3600 * 1000, /* after a jump: an operator has seen the alert */
};

/* For lr_clock_wall_ms: the time of rows. */
extern const struct lr_clock router_clock;

/* Only PostgreSQL is shared, so this is its own language. */
#define ROUTER_DATABASE_MS "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"

/* Reads the clock of a shared database.  *ahead_ms: the clock of this machine before it;
 * *is_sure false: the answer was long on its way, and says nothing. */
LR_MUST_USE lr_code router_clock_read(struct router_sql *sql, int64_t *ahead_ms, bool *is_sure,
                                      struct lr_error *err);

/* ---- jumps ---- */

struct router_clock_watch {
    bool has_looked, has_jumped;
    int64_t wall_ms;
    uint64_t ms, jumped_ms; /* monotonic */
};

/* Whether both times have passed evenly since the look before, and long enough since a jump.
 * Thread: one at a time. */
bool router_clock_watch_look(struct router_clock_watch *watch, int64_t wall_ms, uint64_t ms);

/* The same for router_clock in this process: whether what is old may be removed now. */
bool router_clock_is_steady(void);

#endif
