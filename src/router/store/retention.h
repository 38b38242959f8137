/* router/store/retention.h - removes usage records and lines of the audit log that are older
 * than the operator keeps them, some hundred rows in a transaction.
 */
#ifndef ROUTER_STORE_RETENTION_H
#define ROUTER_STORE_RETENTION_H

#include "router/store/store.h"

struct router_retention {
    struct router_store *store;            /* borrowed */
    uint64_t keep_usage_ms, keep_audit_ms; /* 0: for ever */
    uint64_t seconds;
    bool has_more; /* the database's thread's, while is_sweeping */
    _Atomic bool is_sweeping, is_stopping;
};

/* Once a second.  Thread: one loop. */
void router_retention_second(struct router_retention *retention);

#endif
