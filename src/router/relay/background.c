#include "router/relay/background.h"

#include <stdlib.h>

#include "base/errors.h"
#include "router/relay/call.h"
#include "router/store/clock.h"

enum { HEARTBEAT_MS = ROUTER_RESPONSE_LOST_MS / 3 }; /* between two signs of life */

void router_background_free(struct router_background *background)
{
    if (background == NULL)
        return;
    lr_arena_free(&background->arena);
    free(background);
}

bool router_background_take(struct router_call *call)
{
    const struct chat_turn was = call->turn;
    struct lr_str name, body = net_request_body(call->req);
    struct lr_error err;
    struct router_background *b = call->background = calloc(1, sizeof(*b));
    if (b != NULL)
        lr_arena_init(&b->arena, net_request_arena(call->req)->limit);
    const char *copy = b != NULL ? lr_arena_copy(&b->arena, body) : NULL;
    if (copy == NULL) {
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for a request");
        chat_turn_fail(&call->turn, &err);
        return false;
    }
    b->access = *call->access;
    b->access.json = (struct net_json){0};
    call->access = &b->access;
    chat_turn_init(&call->turn, was.codec, &b->arena, was.generator, was.sink, call);
    call->turn.terms = was.terms;
    return chat_turn_read(&call->turn, lr_str(copy, body.len), &name) &&
           chat_turn_parse(&call->turn);
}

/* ---- the row ---- */

static void on_stored(struct router_call *call, bool is_kept, struct lr_str answer)
{
    struct net_request *req = call->req;
    struct lr_error err;
    if (!is_kept) {
        (void)lr_fail_plain(&err, background_database);
        chat_turn_fail(&call->turn, &err);
        return;
    }
    if (!call->turn.request->stream) {
        call->req = NULL;
        net_respond(req, 200, "application/json", answer);
    }
    call->background->go_on(call);
}

void router_background_begin(struct router_call *call, void (*go_on)(struct router_call *call))
{
    struct router_background *b = call->background;
    struct chat_record record;
    b->go_on = go_on;
    b->heartbeat_ms = net_loop_now_ms(call->relay->links.net);
    if (!chat_turn_queued(&call->turn, &record)) {
        on_stored(call, false, lr_str("", 0));
        return;
    }
    b->bytes = record.input.len + record.output.len + record.answer.len;
    if (!router_call_store(call, &record, on_stored))
        on_stored(call, false, lr_str("", 0));
}

/* ---- signs of life ---- */

struct asking {
    struct router_call *call; /* held */
    char id[ROUTER_RESPONSE_ID];
    const char *status; /* NULL: the row is only read */
    bool is_running;
};

static lr_code ask(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct asking *a = arg;
    return router_response_beat(sql, lr_str_z(a->id), a->status,
                                lr_clock_wall_ms(&router_clock), &a->is_running, err);
}

static void answered(void *arg, const struct lr_error *err)
{
    struct asking *a = arg;
    struct router_call *call = a->call;
    call->background->is_asking = false;
    /* A database that fails stops nothing. */
    if (err == NULL && !a->is_running && call->turn.state != CHAT_TURN_KEEPING)
        chat_turn_gone(&call->turn);
    free(a);
    router_call_drop(call);
}

void router_background_watch(struct router_call *call, uint64_t now_ms)
{
    struct router_background *b = call->background;
    bool is_running =
        call->turn.state == CHAT_TURN_RUNNING || call->turn.state == CHAT_TURN_STREAMING;
    if (b == NULL || b->is_asking || !is_running)
        return;
    struct asking *a = calloc(1, sizeof(*a));
    if (a == NULL)
        return;
    bool has_begun = call->granted_ns != 0;
    bool tells = now_ms - b->heartbeat_ms >= HEARTBEAT_MS || (has_begun && !b->is_told_running);
    *a = (struct asking){.call = call,
                         .status = !tells      ? NULL
                                   : has_begun ? "in_progress"
                                               : ""};
    LR_COPY(a->id, lr_str_z(call->turn.id));
    if (tells) {
        b->heartbeat_ms = now_ms;
        b->is_told_running = has_begun;
    }
    b->is_asking = true;
    router_call_hold(call);
    router_store_quietly(call->relay->store, ask, call->relay->links.net, answered, a);
}
