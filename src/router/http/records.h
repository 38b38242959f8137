/* router/http/records.h - usage and audit records as JSON, CSV or lines of JSON, streamed.
 *
 * The database's thread writes a page of rows into a buffer, the request's loop sends it, and
 * the next page is asked for when the client has taken this one: memory is bounded, and other
 * work of the database comes between two pages.
 */
#ifndef ROUTER_HTTP_RECORDS_H
#define ROUTER_HTTP_RECORDS_H

#include "router/http/api.h"
#include "router/observe/prices.h"

enum router_format { ROUTER_JSON, ROUTER_CSV, ROUTER_JSONL };

enum { ROUTER_PAGE_ROWS = 200 }; /* of one transaction, and less than a stream may queue */

/* A row that is being written: its columns in the order of the first row. */
struct router_line {
    struct router_export *to;
    struct lr_json_writer w;
    size_t columns;
};

struct router_export {
    struct net_request *req;
    enum router_format format;
    const char *name; /* of the file, and of the array in JSON */
    /* Writes the next page with router_export_row; true in *is_last after the last one.
     * Thread: the database's. */
    lr_code (*page)(struct router_export *e, struct router_sql *sql, bool *is_last,
                    struct lr_error *err);
    void *arg;
    /* Members of the JSON object before and after the array; begins all zero. */
    struct lr_buf head;
    struct lr_buf out; /* the page; owned */
    bool has_begun, is_last, has_rows;
    bool is_waiting; /* for the client to take what it was sent */
    struct router_line record;
};

/* "format" of the query.  INVALID_ARGUMENT: it is not known. */
LR_MUST_USE lr_code router_export_format(struct net_request *req, enum router_format *out,
                                         struct lr_error *err);
/* Sends everything.  e is in the request's memory; owns e->head from now on. */
lr_code router_export_start(struct router_export *e, struct lr_error *err);

/* api_records.c: GET /v0/usage with "by" or "format", and GET /v0/audit as a file. */
lr_code router_export_usage(struct net_request *req, struct lr_error *err);
lr_code router_export_audit(struct net_request *req, struct lr_error *err);

/* Of a line of the audit log, for a query on it: $1 is an actor's id or name, $2 an action
 * ("key.create") or its beginning ("key"); "": any. */
#define ROUTER_AUDIT_NAME                                                                      \
    "COALESCE(NULLIF(actor_name, ''), (SELECT name FROM keys WHERE id = actor), '')"
#define ROUTER_AUDIT_FILTER                                                                    \
    "($1 = '' OR actor = $1 OR " ROUTER_AUDIT_NAME " = $1) AND ($2 = '' OR action = $2 OR "    \
    "substr(action, 1, length($2) + 1) = $2 || '.')"

/* ---- for `page` ---- */

struct router_line *router_export_row(struct router_export *e, const char *const *columns);
void router_line_text(struct router_line *r, const char *column, struct lr_str value);
/* JSON that is written already; "": null in JSON, empty in CSV. */
void router_line_json(struct router_line *r, const char *column, struct lr_str value);
void router_line_int(struct router_line *r, const char *column, int64_t value);
/* cost NULL: null in JSON, empty in CSV. */
void router_line_cost(struct router_line *r, const double *cost);
void router_line_end(struct router_line *r);

#endif
