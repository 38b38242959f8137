/* router/store/records.h - the tables that only grow: usage records and the audit log.
 * Thread: the database's.
 */
#ifndef ROUTER_STORE_RECORDS_H
#define ROUTER_STORE_RECORDS_H

#include "router/store/store.h"

struct router_audit {
    int64_t time_ms;
    char actor[64], action[48], target[256], detail[512];
};

/* For a transaction; arg is a struct router_audit. */
LR_MUST_USE lr_code router_audit_insert(struct router_sql *sql, void *arg,
                                        struct lr_error *err);

/* Rows that are written together. */
struct router_batch {
    const struct router_usage *usage;
    size_t usage_count;
    struct router_audit *audits;
    size_t audit_count;
};

/* For a transaction; arg is a struct router_batch. */
LR_MUST_USE lr_code router_batch_insert(struct router_sql *sql, void *arg,
                                        struct lr_error *err);

/* Whether a batch is in the database although its COMMIT failed: the answer may have been
 * lost with the connection.  A batch is written whole or not at all, so one row tells. */
LR_MUST_USE lr_code router_batch_find(struct router_sql *sql, const struct router_batch *batch,
                                      bool *is_written, struct lr_error *err);

#endif
