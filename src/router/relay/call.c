/* router/relay/call.c - between a call's turn, its client and the fleet: the turn's sink is the
 * client's HTTP request, its generator the legs.  Silence becomes comments.
 */
#include "router/relay/call.h"

#include <stdlib.h>

#include "router/http/api.h"

void router_call_link(struct router_call *call)
{
    struct router_loop *loop = call->loop;
    call->next = loop->calls;
    call->link = &loop->calls;
    call->begun_ns = lr_clock_ns(NULL);
    call->wrote_ms = net_loop_now_ms(loop->net);
    if (call->next != NULL)
        call->next->link = &call->next;
    loop->calls = call;
    atomic_fetch_add_explicit(&loop->router->calls, 1, memory_order_relaxed);
}

static void unlink_call(struct router_call *call)
{
    if (call->link == NULL)
        return;
    *call->link = call->next;
    if (call->next != NULL)
        call->next->link = call->link;
    call->link = NULL;
}

void router_call_drop(struct router_call *call)
{
    struct router *r = call->loop->router;
    if (--call->holds != 0)
        return;
    if (call->link != NULL)
        router_call_book(call);
    unlink_call(call);
    for (uint32_t i = 0; i < call->leg_count; i++)
        router_leg_free(&call->legs[i]);
    if (call->model != NULL) {
        router_lock(r);
        router_model_unref(call->model);
        router_prompt_info_unref(&r->nodes.infos, call->info);
        router_unlock(r);
    }
    free(call->legs);
    free(call->marks);
    free(call);
}

/* ---- the client ---- */

static void add_headers(struct router_call *call)
{
    if (call->why[0] == '\0')
        return; /* no node yet: it waits, and the client is kept from giving up */
    if (call->access->caller.role == ROUTER_ADMIN) /* others do not learn of nodes */
        net_response_header(call->req, "X-LLM-Router-Node", lr_str_z(call->access->node));
    net_response_header(call->req, "X-LLM-Router-Reason", lr_str_z(call->why));
}

static void begin_stream(struct router_call *call)
{
    if (net_response_begun(call->req))
        return;
    add_headers(call);
    net_sse_begin(call->req);
}

static lr_code write_piece(void *owner, struct lr_str bytes)
{
    struct router_call *call = owner;
    begin_stream(call);
    call->wrote_ms = net_loop_now_ms(call->loop->net);
    return net_stream_write(call->req, bytes);
}

/* The client's answer is about to end; the access log tells the tokens. */
static void note_end(struct router_call *call, int status)
{
    if (call->link == NULL)
        return;
    atomic_fetch_sub_explicit(&call->loop->router->calls, 1, memory_order_relaxed);
    router_call_note(call, status);
}

static void finish(void *owner, lr_code status, struct lr_str bytes)
{
    struct router_call *call = owner;
    if (call->turn.request->stream) {
        note_end(call, 200);
        begin_stream(call);
        (void)net_stream_finish(call->req, bytes);
    } else {
        note_end(call, lr_code_http(status));
        add_headers(call);
        net_respond(call->req, lr_code_http(status), "application/json", bytes);
    }
    router_call_drop(call);
}

static void fail(void *owner, const struct lr_error *err, struct lr_str bytes)
{
    struct router_call *call = owner;
    note_end(call, lr_code_http(err != NULL ? err->code : LR_CANCELLED));
    if (err == NULL) {
        router_count(&call->loop->router->metrics.cancelled, 1);
        net_stream_abort(call->req);
    } else if (net_response_begun(call->req)) {
        /* The stream ends here whether the client takes it or not. */
        (void)net_stream_finish(call->req, bytes);
    } else {
        net_respond_error_body(call->req, err, bytes);
    }
    router_call_drop(call);
}

/* What fails on our side is told in the words of nodes and engines, which name folders, nodes
 * and addresses.  Those are for operators: others get the id under which the log has them. */
static void tell(void *owner, struct lr_error *err)
{
    const struct router_access *access = ((struct router_call *)owner)->access;
    struct lr_log_ctx log = {.request_id = access->request_id};
    if (access->caller.role == ROUTER_ADMIN || lr_code_http(err->code) < 500)
        return;
    lr_log_warn(&log, "request.failed reason=%s", err->text);
    (void)lr_fail(err, err->code, "%s; operators find the reason in the log under %s",
                  err->code == LR_UNAVAILABLE
                      ? "the model cannot be served at the moment: try again later"
                  : err->code == LR_TIMEOUT ? "the model did not answer in time: try again"
                                            : "the model could not answer this request",
                  access->request_id);
}

static const struct chat_sink sink = {
    .write = write_piece, .finish = finish, .fail = fail, .tell = tell};

/* ---- the fleet ---- */

/* A refusal fails the call. */
static lr_code start_leg(void *owner, uint32_t index, struct lr_error *err)
{
    struct router_call *call = owner;
    (void)err;
    router_leg_start(&call->legs[index]);
    return LR_OK;
}

static bool stop_leg(void *owner, uint32_t index, struct chat_usage *usage)
{
    struct router_call *call = owner;
    struct router_leg *leg = &call->legs[index];
    if (usage != NULL)
        *usage = (struct chat_usage){leg->prompt_tokens, (uint32_t)leg->generated_count,
                                     leg->cached_tokens};
    router_leg_cancel(leg);
    return true;
}

static const struct chat_generator generator = {.start = start_leg, .stop = stop_leg};

struct router_call *router_call_new(struct router *r, struct net_request *req)
{
    struct router_call *call = calloc(1, sizeof(*call));
    if (call == NULL)
        return NULL;
    call->loop = router_loop_of(r, req);
    call->req = req;
    call->access = router_access(req);
    call->holds = 1;
    chat_turn_init(&call->turn, chat_codec_of(net_request_path(req)), net_request_arena(req),
                   &generator, &sink, call);
    return call;
}

void router_call_fail(struct router_call *call, const struct lr_error *err)
{
    chat_turn_fail(&call->turn, err);
}

/* ---- what the legs bring ---- */

/* An answer that is complete does not wait for others of the same read. */
static void flush(struct router_call *call)
{
    if (!call->loop->more_comes || chat_turn_is_complete(&call->turn))
        chat_turn_flush(&call->turn);
}

void router_call_token(struct router_leg *leg, const struct wire_token *token)
{
    struct router_call *call = leg->call;
    if (call->first_ns == 0) {
        call->first_ns = lr_clock_ns(NULL);
        router_observe(&call->loop->router->metrics.first_token,
                       call->first_ns - call->begun_ns);
    }
    chat_turn_token(&call->turn, leg->index, token);
    flush(call);
}

void router_call_done(struct router_leg *leg, enum lr_finish reason,
                      const struct chat_usage *usage)
{
    chat_turn_done(&leg->call->turn, leg->index, reason, usage);
    flush(leg->call);
}

void router_calls_end(struct router_loop *loop)
{
    /* Every client has its answer by now; some node may still owe its last word. */
    while (loop->calls != NULL) {
        loop->calls->holds = 1;
        router_call_drop(loop->calls);
    }
}

static void end_if_revoked(struct router_call *call)
{
    struct router *r = call->loop->router;
    const struct router_key *key = call->access->caller.key;
    struct lr_error err;
    if (key == NULL)
        return;
    router_lock(r);
    bool is_revoked = key->revoked_ms != 0;
    router_unlock(r);
    if (!is_revoked)
        return;
    (void)lr_fail(&err, LR_UNAUTHENTICATED, "key %s was revoked", key->id);
    router_call_fail(call, &err);
}

void router_calls_watch(struct router_loop *loop)
{
    uint64_t now = net_loop_now_ms(loop->net);
    for (struct router_call *call = loop->calls, *next; call != NULL; call = next) {
        next = call->next;
        router_call_hold(call); /* a leg that is given up may end it */
        for (uint32_t i = 0; i < call->leg_count; i++)
            router_leg_watch(&call->legs[i], now);
        if (!chat_turn_is_over(&call->turn))
            end_if_revoked(call);
        if (now - call->wrote_ms >= loop->router->keep_alive_ms)
            chat_turn_keep_alive(&call->turn);
        router_call_drop(call);
    }
}
