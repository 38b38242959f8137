/* router/store/sql.h - the little SQL that SQLite and PostgreSQL share.
 *
 * Statements are static texts with $1, $2, ... in order of first appearance; values are
 * whole numbers, texts or NULL.  A connection is used by one thread at a time.
 */
#ifndef ROUTER_STORE_SQL_H
#define ROUTER_STORE_SQL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/str.h"

struct router_sql;
struct router_row;

enum router_sql_type { ROUTER_SQL_NULL, ROUTER_SQL_INT, ROUTER_SQL_TEXT };

struct router_sql_value {
    enum router_sql_type type;
    int64_t number;
    struct lr_str text;
};

#define ROUTER_INT(v)                                                                          \
    ((struct router_sql_value){.type = ROUTER_SQL_INT, .number = (int64_t)(v)})
#define ROUTER_TEXT(v) ((struct router_sql_value){.type = ROUTER_SQL_TEXT, .text = (v)})
#define ROUTER_Z(v)    ROUTER_TEXT(lr_str_z(v))

/* Borrowed for the call.  A non-OK answer ends the statement with that code. */
typedef lr_code (*router_row_fn)(void *ctx, const struct router_row *row, struct lr_error *err);

int64_t router_row_int(const struct router_row *row, int column); /* 0 for NULL */
struct lr_str router_row_text(const struct router_row *row, int column);
/* A router_row_fn for a row of one number: ctx is an int64_t. */
lr_code router_row_number(void *ctx, const struct router_row *row, struct lr_error *err);

/* Runs one statement.  fn may be NULL.  CONFLICT for a key that exists already, UNAVAILABLE for
 * everything else the database refuses: it is full, gone, or did not answer within the timeout;
 * the text names it. */
LR_MUST_USE lr_code router_sql_run(struct router_sql *sql, const char *text,
                                   const struct router_sql_value *values, size_t count,
                                   router_row_fn fn, void *ctx, struct lr_error *err);

#define ROUTER_SQL(sql, text, fn, ctx, err, ...)                                               \
    router_sql_run(sql, text, (const struct router_sql_value[]){__VA_ARGS__},                  \
                   sizeof((const struct router_sql_value[]){__VA_ARGS__}) /                    \
                       sizeof(struct router_sql_value),                                        \
                   fn, ctx, err)

static inline lr_code router_sql_plain(struct router_sql *sql, const char *text,
                                       struct lr_error *err)
{
    return router_sql_run(sql, text, NULL, 0, NULL, NULL, err);
}

void router_sql_close(struct router_sql *sql); /* NULL is fine */

/* ---- for the two backends ---- */

struct router_sql_backend {
    const char *name;    /* "SQLite", "PostgreSQL" */
    const char *begin;   /* the statement that begins a transaction */
    const char *columns; /* the statement that lists the columns of the table $1 */
    lr_code (*run)(struct router_sql *sql, const char *text,
                   const struct router_sql_value *values, size_t count, router_row_fn fn,
                   void *ctx, struct lr_error *err);
    int64_t (*row_int)(const struct router_row *row, int column);
    struct lr_str (*row_text)(const struct router_row *row, int column);
    void (*close)(struct router_sql *sql);
    /* Whether another router has said that something changed (or the connection was lost
     * and is back, so that anything may have).  NULL: this database has one user. */
    bool (*changed)(struct router_sql *sql);
    /* Inside a transaction: tells the other routers once it is committed. */
    lr_code (*announce)(struct router_sql *sql, struct lr_error *err);
};

struct router_sql {
    const struct router_sql_backend *backend;
    /* Of each call, connecting included.  Any thread may change it, also under a call. */
    _Atomic uint32_t timeout_ms;
    uint64_t gave_up_ms;      /* when a call last ended for its timeout; 0: never */
    _Atomic uint64_t answers; /* calls that have ended: a sign of progress */
};

struct router_row {
    const struct router_sql *sql;
};

LR_MUST_USE lr_code router_sqlite_open(const char *path, uint32_t timeout_ms,
                                       struct router_sql **out, struct lr_error *err);

/* libpq is loaded at first use; UNSUPPORTED says which package brings it. */
LR_MUST_USE lr_code router_postgres_open(const char *url, uint32_t timeout_ms,
                                         struct router_sql **out, struct lr_error *err);

/* ---- schema.c ---- */

/* Brings the database to the newest form; refuses one that a newer program has changed in a way
 * that this program cannot use. */
LR_MUST_USE lr_code router_schema_migrate(struct router_sql *sql, struct lr_error *err);

struct router_schema_step {
    const char *const *statements;                               /* up to NULL */
    lr_code (*fn)(struct router_sql *sql, struct lr_error *err); /* after them; may be NULL */
    bool is_additive; /* programs that do not know the step can use the database */
};
/* The same with other steps, for tests of the rule. */
LR_MUST_USE lr_code router_schema_apply(struct router_sql *sql,
                                        const struct router_schema_step *steps, size_t count,
                                        struct lr_error *err);

#endif
