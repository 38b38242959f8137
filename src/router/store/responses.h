/* router/store/responses.h - stored responses: answers of the Responses API with the items of
 * their requests, per key and for a time.
 *
 *   responses       one small row for each; `used_ms` is its last use
 *   response_texts  its texts
 *   response_sums   the bytes of each key
 *
 * A response is gone once it was unused for the time that the operator has set: readers do not
 * see it any more, and router_responses_sweep removes it.  A response that is used to continue
 * its conversation is kept together with the conversation before it.
 *
 * Thread: the database's, inside a transaction.
 */
#ifndef ROUTER_STORE_RESPONSES_H
#define ROUTER_STORE_RESPONSES_H

#include "base/buf.h"
#include "router/store/sql.h"

enum {
    ROUTER_RESPONSE_ID = 40,     /* bytes of an id, terminated */
    ROUTER_KEPT_BYTES = 8 << 20, /* of one response; its writer has the same limit */
    ROUTER_LOAD_BYTES = 32 << 20 /* of what one request may refer to */
};

/* A response to be stored, or as it was read.  Texts are borrowed for the call. */
struct router_response {
    struct lr_str id, key, previous; /* previous: "" where it begins a conversation */
    struct lr_str input;             /* JSON array: the items of its request */
    struct lr_str output;            /* its items, with commas between them */
    struct lr_str answer;            /* the response without its items, */
    size_t output_at;                /* which belong here */
    struct lr_str status; /* the response's, where `answer` has an older one; else "" */
    bool is_running;      /* a background request that has not ended */
};

/* A reader's view: the rows of one key that were used after `since_ms`. */
struct router_responses_view {
    struct lr_str key;
    int64_t now_ms, since_ms;
};

LR_MUST_USE lr_code router_response_insert(struct router_sql *sql,
                                           const struct router_response *row, int64_t now_ms,
                                           struct lr_error *err);

/* NOT_FOUND: fn was not called. */
typedef void (*router_response_fn)(void *ctx, const struct router_response *row);
LR_MUST_USE lr_code router_response_read(struct router_sql *sql,
                                         const struct router_responses_view *view,
                                         struct lr_str id, router_response_fn fn, void *ctx,
                                         struct lr_error *err);
LR_MUST_USE lr_code router_response_delete(struct router_sql *sql,
                                           const struct router_responses_view *view,
                                           struct lr_str id, struct lr_error *err);

/* Appends the items of the conversation that ends with `id`, oldest first, and notes the use.
 * missing: the id of a response of it that is not stored, or "". */
LR_MUST_USE lr_code router_responses_chain(struct router_sql *sql,
                                           const struct router_responses_view *view,
                                           struct lr_str id, struct lr_buf *items,
                                           char missing[ROUTER_RESPONSE_ID],
                                           struct lr_error *err);
/* Appends the items of these responses, and notes the use.  Absent ones are left out. */
LR_MUST_USE lr_code router_responses_items(struct router_sql *sql,
                                           const struct router_responses_view *view,
                                           const struct lr_str *ids, size_t count,
                                           struct lr_buf *items, struct lr_error *err);

/* ---- background requests: rows with is_running, which a router keeps alive (running.h) ----
 */

/* *is_running: whether the request goes on; false: it was cancelled or removed.  status: NULL,
 * or the status to be noted with a sign of life, which raises the row's counter. */
LR_MUST_USE lr_code router_response_beat(struct router_sql *sql, struct lr_str id,
                                         const char *status, int64_t now_ms, bool *is_running,
                                         struct lr_error *err);
/* The request has ended: replaces the row's texts, which had old_bytes.  A row that is not
 * running any more stays as it is. */
LR_MUST_USE lr_code router_response_end(struct router_sql *sql,
                                        const struct router_response *row, size_t old_bytes,
                                        int64_t now_ms, struct lr_error *err);
/* Stops a running one; nothing else happens to others. */
LR_MUST_USE lr_code router_response_cancel(struct router_sql *sql,
                                           const struct router_responses_view *view,
                                           struct lr_str id, struct lr_error *err);

/* A key was revoked: its responses are not read any more, and the sweep removes them. */
LR_MUST_USE lr_code router_responses_expire(struct router_sql *sql, const char *key,
                                            struct lr_error *err);

/* Removes responses that were not used after since_ms, then the oldest ones of the key with the
 * most bytes while there are more than max_bytes; a limited number in one call. *more: there
 * may be others. */
LR_MUST_USE lr_code router_responses_sweep(struct router_sql *sql, int64_t since_ms,
                                           uint64_t max_bytes, bool *more,
                                           struct lr_error *err);

#endif
