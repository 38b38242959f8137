/* router/store/outbox.h - messages about alerts that a receiver has not taken yet.
 *
 *   alert_told    which alerts each router sees as open, as the messages say
 *   alert_outbox  the messages, in order; a message is removed once it was taken
 *
 * An alert and its messages are written in one transaction.  Routers that share the database
 * each have rows of their own: an alert opens with the first of them that sees it, and ends
 * with the last.
 * Thread: the database's, inside a transaction.
 */
#ifndef ROUTER_STORE_OUTBOX_H
#define ROUTER_STORE_OUTBOX_H

#include "router/store/sql.h"

enum { ROUTER_OUTBOX_MAX = 1000 }; /* messages; the oldest make room */

/* An alert that has opened or ended, as one router sees it. */
struct router_told {
    uint64_t alert;
    const char *kind, *subject;
    const char *body; /* of the message; JSON */
};

/* The alerts that this router has told as open. */
typedef void (*router_told_fn)(void *ctx, uint64_t alert, struct lr_str kind,
                               struct lr_str subject);
LR_MUST_USE lr_code router_told_read(struct router_sql *sql, const char *router,
                                     router_told_fn fn, void *ctx, struct lr_error *err);
LR_MUST_USE lr_code router_told_open(struct router_sql *sql, const char *router,
                                     const struct router_told *told, struct lr_error *err);
LR_MUST_USE lr_code router_told_end(struct router_sql *sql, const char *router,
                                    const struct router_told *told, struct lr_error *err);
/* Takes over the rows of routers that are not among `alive`: this router ends the alerts that
 * it does not see itself. */
LR_MUST_USE lr_code router_told_claim_orphans(struct router_sql *sql, const char *router,
                                              const char *const *alive, size_t count,
                                              struct lr_error *err);

/* The oldest message: its number and body.  *waiting: how many there are; 0: fn was not
 * called. */
typedef void (*router_outbox_fn)(void *ctx, int64_t id, struct lr_str body);
LR_MUST_USE lr_code router_outbox_first(struct router_sql *sql, router_outbox_fn fn, void *ctx,
                                        int64_t *waiting, struct lr_error *err);
LR_MUST_USE lr_code router_outbox_remove(struct router_sql *sql, int64_t id,
                                         struct lr_error *err);

#endif
