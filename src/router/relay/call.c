#include "router/relay/call.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/list.h"
#include "base/log.h"
#include "router/relay/admission.h"
#include "router/relay/progress.h"
#include "router/relay/traced.h"

/* Of an answer, beyond what the system holds for the connection: then the answer is paused, and
 * what its node makes until it stops has room below the limit of net/server.h, 1 MB. */
enum { UNREAD_BYTES = 256 << 10 };

/* ---- the call's life ---- */

static void free_call(struct router_call *call)
{
    router_tell(&(struct router_fact){.kind = ROUTER_FACT_FREED, .call = call});
    if (call->link != NULL)
        LR_LIST_REMOVE(call, next, link);
    for (uint32_t i = 0; i < call->generation_count; i++)
        router_generation_free(&call->generations[i]);
    if (call->model != NULL) {
        router_dispatch_lock(call->relay->dispatch);
        router_model_unref(call->model);
        router_prompt_info_unref(&call->relay->nodes->infos, call->info);
        router_dispatch_unlock(call->relay->dispatch);
    }
    router_call_leave_keep(call);
    router_load_free(call->load);
    router_background_free(call->background);
    router_kept_answer_free(call->answer);
    free(call->generations);
    free(call->prefixes);
    free(call);
}

void router_call_drop(struct router_call *call)
{
    if (--call->holds == 0)
        free_call(call);
}

void router_relay_free(struct router_relay *relay)
{
    router_links_free(&relay->links);
    /* Every client has its answer by now. */
    while (relay->calls != NULL)
        free_call(relay->calls);
}

static void end_if_revoked(struct router_call *call)
{
    const struct router_key *key = call->access->caller.key;
    struct lr_error err;
    if (key == NULL)
        return;
    router_dispatch_lock(call->relay->dispatch);
    bool is_revoked = key->revoked_ms != 0;
    router_dispatch_unlock(call->relay->dispatch);
    if (!is_revoked)
        return;
    (void)lr_fail_as(&err, key_revoked, key->id);
    chat_turn_fail(&call->turn, &err);
}

void router_relay_watch(struct router_relay *relay)
{
    uint64_t now_ms = net_loop_now_ms(relay->links.net);
    uint64_t now_ns = lr_clock_ns(relay->links.clock);
    router_observe_second(relay);
    for (struct router_call *call = relay->calls, *next; call != NULL; call = next) {
        next = call->next;
        router_call_hold(call); /* a generation that is given up may end it */
        for (uint32_t i = 0; i < call->generation_count; i++)
            router_generation_watch(&call->generations[i], now_ns);
        if (!chat_turn_is_over(&call->turn))
            end_if_revoked(call);
        router_call_watch_keep(call, now_ms);
        router_background_watch(call, now_ms);
        router_call_tell_progress(call);
        /* A client that has bytes to read needs no sign of life. */
        if (now_ms - call->wrote_ms >= relay->keep_alive_ms &&
            !router_call_waits_for_client(call))
            chat_turn_keep_alive(&call->turn);
        router_call_drop(call);
    }
    router_links_watch(&relay->links, now_ms);
}

/* ---- the answer ---- */

static void add_headers(struct router_call *call)
{
    if (call->why[0] == '\0')
        return; /* no node yet: it waits, and the client is kept from giving up */
    if (call->access->caller.role == ROUTER_ADMIN) /* others do not learn of nodes */
        net_response_header(call->req, "X-LLM-Router-Node", lr_str_z(call->access->node));
    net_response_header(call->req, "X-LLM-Router-Reason", lr_str_z(call->why));
}

/* The client has read what waited for it. */
static void on_drain(void *arg)
{
    struct router_call *call = arg;
    router_call_hold(call);
    for (uint32_t i = 0; i < call->generation_count; i++)
        router_generation_resume(&call->generations[i]);
    router_call_drop(call);
}

static void begin_stream(struct router_call *call)
{
    if (net_response_begun(call->req))
        return;
    add_headers(call);
    net_live_begin(call->req, chat_codec_stream_type(call->turn.codec));
    net_stream_on_drain(call->req, on_drain, call);
}

static lr_code write_piece(void *owner, struct lr_str bytes)
{
    struct router_call *call = owner;
    if (call->req == NULL)
        return LR_OK;
    begin_stream(call);
    call->wrote_ms = net_loop_now_ms(call->relay->links.net);
    lr_code code = net_stream_write_made(call->req, bytes);
    if (net_stream_queued(call->req) > UNREAD_BYTES)
        for (uint32_t i = 0; i < call->generation_count; i++)
            router_generation_pause(&call->generations[i]);
    return code;
}

/* What was made for the client and that it has not read; its answer ends. */
static void note_unread(struct router_call *call, const char *why)
{
    struct lr_log_ctx log = {.request_id = call->access->request_id};
    if (router_call_waits_for_client(call))
        lr_log_warn(&log, "request.unread bytes=%zu reason=%s", net_stream_queued(call->req),
                    why);
}

/* Before the client has the end of its answer.  The log's status of a stream is 200, whatever
 * the answer says. */
static void end_answer(struct router_call *call, int status, lr_code code,
                       const struct lr_error *why)
{
    if (call->link != NULL)
        atomic_fetch_sub_explicit(&call->relay->unanswered, 1, memory_order_relaxed);
    router_tell(&(struct router_fact){.kind = ROUTER_FACT_ENDED,
                                      .call = call,
                                      .at_ns = lr_clock_ns(call->relay->links.clock),
                                      .status = status,
                                      .code = code,
                                      .why = why});
}

static void finish(void *owner, lr_code code, struct lr_str bytes)
{
    struct router_call *call = owner;
    bool is_stream = call->req != NULL && call->turn.request->stream;
    end_answer(call, is_stream ? 200 : lr_code_http(code), code, NULL);
    if (is_stream) {
        begin_stream(call);
        (void)net_stream_finish(call->req, bytes);
    } else if (call->req != NULL) {
        add_headers(call);
        net_respond(call->req, lr_code_http(code), "application/json", bytes);
    }
    router_call_drop(call);
}

static void fail(void *owner, const struct lr_error *err, struct lr_str bytes)
{
    struct router_call *call = owner;
    lr_code code = err != NULL ? err->code : LR_CANCELLED;
    end_answer(call, lr_code_http(code), code, err);
    if (call->req == NULL) {
        /* a background request */
    } else if (err == NULL) {
        net_stream_abort(call->req);
    } else if (net_response_begun(call->req)) {
        if (code == LR_REQUEST_TIMEOUT)
            note_unread(call, err->text);
        /* The stream ends here whether the client takes it or not. */
        (void)net_stream_finish(call->req, bytes);
    } else {
        net_respond_error_body(call->req, err, bytes);
    }
    router_call_drop(call);
}

/* The text of an internal error names folders, nodes and addresses, which are for operators.
 * Other clients get the id under which the log has the error, but for what they can act on. */
static void tell(void *owner, struct lr_error *err)
{
    const struct router_access *access = ((struct router_call *)owner)->access;
    struct lr_log_ctx log = {.request_id = access->request_id};
    if (access->caller.role == ROUTER_ADMIN || lr_code_http(err->code) < 500)
        return;
    lr_log_warn(&(struct lr_log_ctx){log.request_id, err}, "request.failed reason=%s",
                err->text);
    if (lr_error_is(err, LR_ERROR_replaced))
        return;
    lr_code code = err->code;
    if (code == LR_UNAVAILABLE)
        (void)lr_fail_as(err, told_unavailable, access->request_id);
    else if (code == LR_TIMEOUT)
        (void)lr_fail_as(err, told_timeout, access->request_id);
    else
        (void)lr_fail_as(err, told_failed, access->request_id);
    err->code = code;
}

static void on_gone(void *arg)
{
    struct router_call *call = arg;
    struct net_request *req = call->req;
    if (call->background == NULL) {
        note_unread(call, "the client left, or took no byte for too long");
        chat_turn_gone(&call->turn);
        return;
    }
    call->req = NULL; /* the request goes on */
    net_stream_abort(req);
}

/* ---- the request: false: it was answered ---- */

/* The request is valid: from now on it is counted, watched and put into the usage records. */
static void begin(struct router_call *call)
{
    struct router_relay *relay = call->relay;
    call->begun_ns = lr_clock_ns(relay->links.clock);
    call->wrote_ms = net_loop_now_ms(relay->links.net);
    LR_LIST_PUSH(&relay->calls, call, next, link);
    atomic_fetch_add_explicit(&relay->unanswered, 1, memory_order_relaxed);
}

/* Hashes by which the scheduler finds the nodes that have computed a prefix of these prompts.
 * Without memory, or with short prompts, there are none. */
static void hash_prefixes(struct router_call *call)
{
    const struct chat_turn *turn = &call->turn;
    bool is_short = true;
    if (turn->codec->kind != LR_REQUEST_GENERATE)
        return; /* no engine keeps anything of a text that became a vector */
    for (uint32_t i = 0; i < turn->prompt_count; i++)
        is_short = is_short && !prefix_fits(&turn->prompts[i]);
    if (!is_short)
        call->prefixes = calloc(turn->prompt_count, sizeof(*call->prefixes));
    for (uint32_t i = 0; call->prefixes != NULL && i < turn->prompt_count; i++)
        prefix_hashes_make(&call->prefixes[i], lr_str_z(call->model->folded),
                           lr_str_z(router_caller_id(&call->access->caller)),
                           &turn->prompts[i]);
}

/* Bytes that a call holds until its answer ends: the body, the parsed request, the prompts. */
static size_t held_bytes(const struct router_call *call)
{
    const struct chat_turn *turn = &call->turn;
    size_t bytes = net_request_body(call->req).len + net_request_arena(call->req)->used;
    for (uint32_t i = 0; i < turn->prompt_count; i++)
        bytes += turn->prompts[i].bytes + turn->prompts[i].id_count * sizeof(uint32_t);
    return bytes;
}

static bool make_generations(struct router_call *call)
{
    const struct router_key *key = call->access->caller.key;
    uint32_t count = call->turn.generation_count, n = call->turn.request->n;
    const char *id = call->turn.id + strcspn(call->turn.id, "-_") + 1;
    struct lr_error err;
    call->generations = calloc(count, sizeof(*call->generations));
    if (call->generations == NULL) {
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for %u choices", count);
        chat_turn_fail(&call->turn, &err);
        return false;
    }
    call->generation_count = count;
    hash_prefixes(call);
    size_t bytes = held_bytes(call) / count;
    for (uint32_t i = 0; i < count; i++) {
        struct router_generation *g = &call->generations[i];
        const struct chat_prompt *prompt = chat_turn_prompt(&call->turn, i);
        g->call = call;
        g->index = i;
        lr_buf_init(&g->generated, (size_t)WIRE_IDS_MAX * sizeof(uint32_t));
        g->ticket.waiter.bytes = bytes;
        g->ticket.dispatch = call->relay->dispatch;
        g->ticket.model = call->model;
        g->ticket.loop = call->relay->links.net;
        /* A client may use one X-Request-Id twice, and a node is told by name what to stop. */
        (void)snprintf(g->ticket.name, sizeof(g->ticket.name), "%s.%.8s.%u",
                       call->access->request_id, id, i);
        g->ticket.key = key != NULL ? key->number : 0;
        g->ticket.kind = call->turn.codec->kind;
        g->ticket.prefixes = call->prefixes != NULL ? &call->prefixes[i / n] : NULL;
        /* About four bytes a token in the languages people write to models. */
        g->ticket.prompt_tokens =
            (uint32_t)(prompt->ids != NULL ? prompt->id_count : prompt->bytes / 4);
    }
    return true;
}

static void start(struct router_call *call)
{
    if (chat_turn_start(&call->turn) && call->req != NULL)
        net_request_on_gone(call->req, on_gone, call);
}

/* What the request refers to is read. */
static void go_on(struct router_call *call)
{
    if (!chat_turn_parse(&call->turn) ||
        (call->turn.request->background && !router_background_take(call)))
        return;
    begin(call);
    net_response_ignored(call->req, call->turn.request->ignored);
    call->turn.tells_text = call->keeps_texts;
    if (!chat_turn_prepare(&call->turn, &call->info->chat, lr_str_z(call->model->id)) ||
        !make_generations(call))
        return;
    net_response_ignored(call->req, chat_turn_lost(&call->turn));
    router_tell(&(struct router_fact){.kind = ROUTER_FACT_VALID, .call = call});
    if (call->background != NULL)
        router_background_begin(call, start);
    else
        start(call);
}

lr_code router_call_begin(struct router_relay *relay, struct net_request *req,
                          const struct chat_codec *codec, struct lr_error *err)
{
    static const struct chat_sink sink = {
        write_piece, finish, fail, tell, router_call_keep, router_trace_tool, router_log_text};
    static const struct chat_generator generator = {router_generation_start,
                                                    router_generation_stop};
    struct router_call *call = calloc(1, sizeof(*call));
    struct lr_str name;
    if (call == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    call->relay = relay;
    call->req = req;
    call->access = router_access(req);
    call->holds = 1; /* the answer's */
    chat_turn_init(&call->turn, codec, net_request_arena(req), &generator, &sink, call);
    router_tell(&(struct router_fact){.kind = ROUTER_FACT_ARRIVED, .call = call});
    call->turn.terms.is_strict = call->relay->strict_fields || net_request_is_strict(req);
    call->tells_progress = router_progress_is_wanted(req);
    router_call_hold(call);
    if (router_call_take_rate(call) &&
        chat_turn_read(&call->turn, net_request_body(req), &name) &&
        router_call_admit(call, name))
        router_call_load(call, go_on);
    router_call_drop(call);
    return LR_OK;
}
