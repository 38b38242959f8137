/* router/store/records.h - usage records and the audit log: tables that only grow.
 *
 * Rows wait in memory, first come first written, bounded, and are written in batches.
 * Thread: the owner's lock is held, unless a comment says otherwise.
 */
#ifndef ROUTER_STORE_RECORDS_H
#define ROUTER_STORE_RECORDS_H

#include "router/store/store.h"

enum { ROUTER_BATCH_ROWS = 256 }; /* in one transaction: a change waits for no more than this */

enum router_record { ROUTER_USAGE, ROUTER_AUDIT, ROUTER_RECORDS };

struct router_audit {
    int64_t time_ms;
    char actor[96], action[48], target[256], detail[512];
    char name[64], from[64];                                  /* of the actor */
    char before[ROUTER_CHANGE_MAX], after[ROUTER_CHANGE_MAX]; /* JSON objects; "": none */
};

struct router_records {
    struct router_backlog {
        unsigned char *rows; /* owned */
        size_t first, end;   /* rows first to end - 1 wait */
        size_t cap;
        size_t doubtful; /* the first ones: their batch failed, and maybe only its answer */
    } of[ROUTER_RECORDS];
};

/* A struct router_usage or a struct router_audit.  False: very many rows wait already, or there
 * is no memory. */
bool router_records_add(struct router_records *records, enum router_record kind,
                        const void *row);
size_t router_records_waiting(const struct router_records *records, enum router_record kind);
void router_records_free(struct router_records *records);

/* Rows that are written together; owned copies, since rows are added meanwhile. */
struct router_batch {
    unsigned char *rows[ROUTER_RECORDS];
    size_t count[ROUTER_RECORDS];
    bool is_doubtful; /* the same rows as in the batch before */
};

/* The next rows.  Those of a batch that failed are taken again, as they were.  False: there is
 * no memory. */
bool router_batch_take(const struct router_records *records, struct router_batch *out);
/* The rows are written, or stay.  Frees the batch. */
void router_batch_end(struct router_records *records, struct router_batch *batch,
                      bool is_written);

/* For a transaction; arg is a struct router_batch.  Thread: the database's. */
LR_MUST_USE lr_code router_batch_insert(struct router_sql *sql, void *arg,
                                        struct lr_error *err);
/* Whether a batch is in the database although its COMMIT failed: the answer may have been
 * lost with the connection.  A batch is written whole or not at all, so one row tells.  Thread:
 * the database's. */
LR_MUST_USE lr_code router_batch_find(struct router_sql *sql, const struct router_batch *batch,
                                      bool *is_written, struct lr_error *err);
/* One line of the audit log within a transaction.  Thread: the database's. */
LR_MUST_USE lr_code router_audit_insert(struct router_sql *sql, const void *row,
                                        struct lr_error *err);

#endif
