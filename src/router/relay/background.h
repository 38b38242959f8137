/* router/relay/background.h - background requests: the client gets an answer at once, and the
 * call goes on without it.
 *
 *    the request is parsed and rendered
 *      -> its row is stored, as `queued`
 *      -> the client gets the same (or a stream, which may break)
 *      -> the generation runs; once a second the router looks whether the row is still running
 *      -> the row gets the answer, or the failure
 *
 * Another router cancels the request by its row.  What the call needs of its HTTP request is
 * copied, since the call outlives it.  Thread: the call's loop.
 */
#ifndef ROUTER_RELAY_BACKGROUND_H
#define ROUTER_RELAY_BACKGROUND_H

#include "router/relay/request.h"

struct router_call;

struct router_background {
    struct lr_arena arena;
    struct router_access access;
    size_t bytes;                            /* of the row */
    uint64_t heartbeat_ms;                   /* the last sign of life that was written */
    bool is_told_running;                    /* the row has the status in_progress */
    bool is_asking;                          /* the database is being asked */
    void (*go_on)(struct router_call *call); /* when the row is stored */
};

/* Parses the request again, in memory that outlives the HTTP request.  False: it has failed. */
bool router_background_take(struct router_call *call);
/* Stores the row, answers the client unless it wants a stream, and calls go_on(call). */
void router_background_begin(struct router_call *call, void (*go_on)(struct router_call *call));
/* Once a second. */
void router_background_watch(struct router_call *call, uint64_t now_ms);
void router_background_free(struct router_background *background); /* NULL is fine */

#endif
