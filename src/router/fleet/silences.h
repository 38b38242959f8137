/* router/fleet/silences.h - alerts that an operator does not want to hear of for a time.
 *
 * A silence is in the database, and holds on every router that shares it.  A silenced alert is
 * still listed; it is neither delivered nor counted.
 * Thread: the router's lock is held, unless a comment says otherwise.
 */
#ifndef ROUTER_FLEET_SILENCES_H
#define ROUTER_FLEET_SILENCES_H

#include "router/store/sql.h"

enum { ROUTER_SILENCES_MAX = 256 }; /* the latest to end are kept */

struct router_silence {
    uint64_t alert;
    int64_t until_ms; /* wall */
    char comment[200];
};

struct router_silences {
    struct router_silence all[ROUTER_SILENCES_MAX];
    size_t count;
};

/* NULL: the alert is not silenced now. */
const struct router_silence *router_silence_of(const struct router_silences *silences,
                                               uint64_t alert, int64_t now_ms);
/* Replaces what there was for the alert; until_ms 0 ends it. */
void router_silences_set(struct router_silences *silences,
                         const struct router_silence *silence);

/* Thread: the database's, or before its start. */
LR_MUST_USE lr_code router_silences_load(struct router_silences *silences,
                                         struct router_sql *sql, int64_t now_ms,
                                         struct lr_error *err);
/* Also forgets silences that have ended.  Thread: the database's. */
LR_MUST_USE lr_code router_silence_save(struct router_sql *sql,
                                        const struct router_silence *silence, int64_t now_ms,
                                        struct lr_error *err);

#endif
