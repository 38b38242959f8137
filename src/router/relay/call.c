/* router/relay/call.c - a call towards its client: tokens become bytes, silence becomes
 * comments, and every end, good or bad, closes everything once.
 */
#include "router/relay/call.h"

#include <stdlib.h>

#include "router/http/api.h"

void router_call_link(struct router_call *call)
{
    struct router_home *home = call->home;
    call->next = home->calls;
    call->link = &home->calls;
    if (call->next != NULL)
        call->next->link = &call->next;
    home->calls = call;
    atomic_fetch_add_explicit(&home->router->calls, 1, memory_order_relaxed);
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
    struct router *r = call->home->router;
    if (--call->holds != 0 || !call->is_over)
        return;
    router_call_book(call);
    unlink_call(call);
    for (uint32_t i = 0; i < call->leg_count; i++)
        router_leg_free(&call->legs[i]);
    router_lock(r);
    router_model_unref(call->model);
    router_prompt_info_unref(&r->nodes.infos, call->info);
    router_unlock(r);
    free(call->legs);
    free(call->marks);
    free(call);
}

/* Everything of the call but the HTTP request, which the caller has ended or ends. */
static void close_call(struct router_call *call, int status)
{
    call->is_over = true;
    call->holds++;
    atomic_fetch_sub_explicit(&call->home->router->calls, 1, memory_order_relaxed);
    router_call_note(call, status);
    for (uint32_t i = 0; i < call->leg_count; i++)
        router_leg_cancel(&call->legs[i]);
    for (uint32_t i = 0; i < call->prompt_count; i++)
        chat_prompt_free(&call->prompts[i]);
    call->prompt_count = 0;
    chat_response_destroy(call->response);
    call->response = NULL;
    lr_buf_free(&call->out);
    router_call_drop(call);
}

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

/* What fails on our side is told in the words of nodes and engines, which name folders, nodes
 * and addresses.  Those are for operators: others get the id under which the log has them. */
static struct lr_error for_caller(const struct router_access *access,
                                  const struct lr_error *err)
{
    struct lr_error out = *err;
    struct lr_log_ctx log = {.request_id = access->request_id};
    if (access->caller.role == ROUTER_ADMIN || lr_code_http(err->code) < 500)
        return out;
    lr_log_warn(&log, "request.failed reason=%s", err->text);
    (void)lr_fail(&out, err->code, "%s; operators find the reason in the log under %s",
                  err->code == LR_UNAVAILABLE
                      ? "the model cannot be served at the moment: try again later"
                  : err->code == LR_TIMEOUT ? "the model did not answer in time: try again"
                                            : "the model could not answer this request",
                  access->request_id);
    return out;
}

void router_respond_error(struct net_request *req, const struct chat_codec *codec,
                          const struct lr_error *err)
{
    struct lr_buf body;
    struct lr_error told = for_caller(router_access(req), err);
    lr_buf_init(&body, 16 << 10);
    chat_error_write(&body, codec, &(struct chat_error){.error = told});
    net_respond_error_body(req, &told, lr_buf_str(&body));
    lr_buf_free(&body);
}

void router_call_fail(struct router_call *call, const struct lr_error *err)
{
    struct net_request *req = call->req;
    struct lr_error copy = *err;
    if (call->is_over)
        return;
    if (!net_response_begun(req)) {
        const struct chat_codec *codec = call->chat->codec;
        close_call(call, lr_code_http(copy.code));
        router_respond_error(req, codec, &copy);
        return;
    }
    copy = for_caller(call->access, err);
    chat_response_on_error(call->response, &copy, &call->out);
    router_call_note(call, lr_code_http(copy.code)); /* before the end: the access log */
    lr_code ignored = net_stream_finish(req, lr_buf_str(&call->out));
    (void)ignored; /* the stream ends here whether the client takes it or not */
    close_call(call, lr_code_http(copy.code));
}

void router_call_gone(void *arg)
{
    struct router_call *call = arg;
    struct net_request *req = call->req;
    router_count(&call->home->router->metrics.cancelled, 1);
    close_call(call, lr_code_http(LR_CANCELLED));
    net_stream_abort(req);
}

/* Sends what is due; ends the call when the answer is complete. */
static void flush(struct router_call *call)
{
    struct net_request *req = call->req;
    bool complete = chat_response_is_complete(call->response);
    if (!call->chat->stream) {
        if (!complete)
            return;
        int status = lr_code_http(chat_response_status(call->response));
        router_call_note(call, status); /* before the answer: the access log tells the tokens */
        add_headers(call);
        net_respond(req, status, "application/json", lr_buf_str(&call->out));
        close_call(call, status);
        return;
    }
    lr_code code = LR_OK;
    if (!complete && (call->out.len == 0 || call->home->more_comes))
        return;
    begin_stream(call);
    if (complete) {
        router_call_note(call, 200);
        code = net_stream_finish(req, lr_buf_str(&call->out));
        close_call(call, 200);
        return;
    }
    code = net_stream_write(req, lr_buf_str(&call->out));
    lr_buf_clear(&call->out);
    call->wrote_ms = net_loop_now_ms(call->home->loop);
    if (code == LR_TOO_LARGE) {
        /* A client that does not read pays for itself, not for the others. */
        router_count(&call->home->router->metrics.cancelled, 1);
        close_call(call, lr_code_http(LR_CANCELLED));
        net_stream_abort(req);
    }
}

/* ---- what the legs bring ---- */

void router_call_token(struct router_leg *leg, const struct chat_token *token)
{
    struct router_call *call = leg->call;
    if (call->first_ns == 0) {
        call->first_ns = lr_clock_ns(NULL);
        router_observe(&call->home->router->metrics.first_token,
                       call->first_ns - call->begun_ns);
    }
    bool more = chat_response_on_token(call->response, leg->index, token, &call->out);
    if (!more) {
        struct chat_usage usage = {leg->prompt_tokens, (uint32_t)leg->generated_count,
                                   leg->cached_tokens};
        router_leg_cancel(leg);
        chat_response_on_done(call->response, leg->index, LR_FINISH_STOP, &usage, &call->out);
    }
    flush(call);
}

void router_call_done(struct router_leg *leg, enum lr_finish reason,
                      const struct chat_usage *usage)
{
    struct router_call *call = leg->call;
    chat_response_on_done(call->response, leg->index, reason, usage, &call->out);
    flush(call);
}

void router_calls_end(struct router_home *home)
{
    /* Every client has its answer by now; some node may still owe its last word. */
    while (home->calls != NULL) {
        home->calls->is_over = true;
        home->calls->holds = 1;
        router_call_drop(home->calls);
    }
}

static void keep_alive(struct router_call *call, uint64_t now)
{
    if (!call->chat->stream || now - call->wrote_ms < call->home->router->keep_alive_ms)
        return;
    begin_stream(call);
    call->wrote_ms = now;
    lr_code ignored = net_sse_comment(call->req, "working");
    (void)ignored; /* a client that has gone or stalled is told to us elsewhere */
}

static void end_if_revoked(struct router_call *call)
{
    struct router *r = call->home->router;
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

void router_calls_watch(struct router_home *home)
{
    uint64_t now = net_loop_now_ms(home->loop);
    for (struct router_call *call = home->calls, *next; call != NULL; call = next) {
        next = call->next;
        call->holds++; /* a leg that is given up may end it */
        for (uint32_t i = 0; i < call->leg_count; i++)
            router_leg_watch(&call->legs[i], now);
        if (!call->is_over)
            end_if_revoked(call);
        if (!call->is_over)
            keep_alive(call, now);
        router_call_drop(call);
    }
}
