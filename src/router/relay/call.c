#include "router/relay/call.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/list.h"
#include "base/log.h"
#include "router/observe/limits.h"
#include "router/relay/progress.h"

/* Of an answer, beyond what the system holds for the connection: then the answer is paused, and
 * what its node makes until it stops has room below the limit of net/server.h, 1 MB. */
enum { UNREAD_BYTES = 256 << 10 };

/* ---- usage: tokens as the engines counted them ---- */

static void add_tokens(const struct router_call *call, struct router_usage *row)
{
    row->prompt_tokens = row->completion_tokens = row->cached_tokens = 0;
    for (uint32_t i = 0; i < call->generation_count; i++) {
        const struct router_generation *g = &call->generations[i];
        /* n answers to one prompt: the prompt is computed for each. */
        row->prompt_tokens += g->usage.prompt_tokens;
        row->completion_tokens += g->usage.completion_tokens != 0 ? g->usage.completion_tokens
                                                                  : router_generation_tokens(g);
        row->cached_tokens += g->usage.cached_tokens;
    }
}

/* Counts the tokens against the key's limit before the answer ends, so that the client's next
 * request finds them counted, and once more those that the engine made after that. */
static void charge(struct router_call *call)
{
    uint64_t tokens = call->usage.prompt_tokens + call->usage.completion_tokens;
    if (call->key == NULL || tokens == call->charged)
        return;
    router_dispatch_lock(call->relay->dispatch);
    router_budget_count(&call->key->month, call->usage.time_ms,
                        (int64_t)(tokens - call->charged));
    if (tokens > call->charged)
        router_key_charge(call->key, lr_clock_ms(call->relay->links.clock),
                          tokens - call->charged, call->relay->keys->routers);
    router_dispatch_unlock(call->relay->dispatch);
    call->charged = tokens;
}

/* The call is no running request of its key any more. */
static void leave_key(struct router_call *call)
{
    if (call->entered == NULL)
        return;
    router_dispatch_lock(call->relay->dispatch);
    router_key_leave(call->entered);
    router_dispatch_unlock(call->relay->dispatch);
    call->entered = NULL;
}

static void record_usage(struct router_call *call);

/* No node will say more about the call's usage. */
static bool is_counted(const struct router_call *call)
{
    uint32_t i = 0;
    while (i < call->generation_count &&
           (call->generations[i].state == ROUTER_GENERATION_OVER ||
            call->generations[i].state == ROUTER_GENERATION_IDLE ||
            call->generations[i].state == ROUTER_GENERATION_PAUSED))
        i++;
    return i == call->generation_count;
}

/* The client's answer ends with this status: fills the usage record with what is known, and
 * gives the access log its tokens. */
static void note_end(struct router_call *call, int status)
{
    struct router_relay *relay = call->relay;
    struct router_access *access = call->access;
    struct router_usage *row = &call->usage;
    uint64_t now = lr_clock_ns(relay->links.clock);
    leave_key(call);
    if (call->link == NULL)
        return;
    atomic_fetch_sub_explicit(&relay->unanswered, 1, memory_order_relaxed);
    *row = (struct router_usage){
        .time_ms = lr_clock_wall_ms(relay->links.clock),
        .status = (uint32_t)status,
        .wait_ms = call->granted_ns != 0 ? (call->granted_ns - call->begun_ns) / 1000000 : 0,
        .total_ms = (now - call->begun_ns) / 1000000,
    };
    call->key = access->caller.key;
    LR_COPY(row->key_id, lr_str_z(call->key != NULL ? call->key->id : ""));
    LR_COPY(row->model, lr_str_z(call->model->id));
    LR_COPY(row->node, lr_str_z(access->node));
    LR_COPY(row->request_id, lr_str_z(access->request_id));
    add_tokens(call, row);
    access->prompt_tokens = row->prompt_tokens;
    access->completion_tokens = row->completion_tokens;
    if (status == 429 || status >= 500)
        router_count(&relay->metrics->failed, 1);
    router_observe(&relay->metrics->total, now - call->begun_ns);
    router_observe(&call->model->metrics.total, now - call->begun_ns);
    if (call->granted_ns != 0) {
        router_observe(&relay->metrics->wait, call->granted_ns - call->begun_ns);
        router_observe(&call->model->metrics.wait, call->granted_ns - call->begun_ns);
    }
    charge(call);
    /* Before the client has the end of its answer: what it has seen is counted, whatever
     * happens to this process next. */
    if (is_counted(call))
        record_usage(call);
}

/* Adds the call to the counts of the replica that served it last. */
static void add_to_tally(const struct router_call *call, struct router_tally *t)
{
    const struct router_usage *row = &call->usage;
    t->requests++;
    t->failed += row->status == 429 || row->status >= 500;
    t->cancelled += row->status == (uint32_t)lr_code_http(LR_CANCELLED);
    t->prompt_tokens += row->prompt_tokens;
    t->completion_tokens += row->completion_tokens;
    t->cached_tokens += row->cached_tokens;
    t->first_tokens += call->first_ns != 0;
    t->first_token_us += call->first_ns != 0 ? (call->first_ns - call->begun_ns) / 1000 : 0;
    for (uint32_t i = 0; i < call->generation_count; i++) {
        const struct router_attempt *a = &call->generations[i].attempt;
        if (a->tokens < 2)
            continue;
        t->inter_tokens += a->tokens - 1;
        t->inter_token_us += (a->last_ns - a->first_ns) / 1000;
    }
}

/* Adds what the call has counted since the last time to the history of figures.  Lock held. */
static void add_to_history(struct router_call *call)
{
    router_history_add(call->relay->history, call->model->id, call->access->node,
                       call->figures);
    memset(call->figures, 0, sizeof(call->figures));
}

/* The call's last figures.  Its tokens flowed already, as far as the router has seen them. Lock
 * held. */
static void end_history(struct router_call *call)
{
    const struct router_usage *row = &call->usage;
    int64_t *figures = call->figures;
    figures[ROUTER_FIGURE_REQUESTS] = 1;
    figures[ROUTER_FIGURE_ERRORS] = row->status == 429 || row->status >= 500;
    figures[ROUTER_FIGURE_CANCELLED] = row->status == (uint32_t)lr_code_http(LR_CANCELLED);
    figures[ROUTER_FIGURE_PROMPT] = (int64_t)row->prompt_tokens;
    figures[ROUTER_FIGURE_COMPLETION] += (int64_t)(row->completion_tokens - call->flowed);
    figures[ROUTER_FIGURE_CACHED] = (int64_t)row->cached_tokens;
    if (call->granted_ns != 0)
        figures[ROUTER_FIGURE_WAIT + router_bucket_of(call->granted_ns - call->begun_ns)]++;
    router_history_add(call->relay->history, row->model, row->node, figures);
}

/* Stores the usage record, with the tokens that the engines counted. */
static void record_usage(struct router_call *call)
{
    const struct router_relay *relay = call->relay;
    struct router_usage *row = &call->usage;
    if (call->is_recorded)
        return;
    call->is_recorded = true;
    add_tokens(call, row);
    router_store_usage(relay->store, row);
    router_log_usage(call);
    router_count(&relay->metrics->prompt_tokens, row->prompt_tokens);
    router_count(&relay->metrics->completion_tokens, row->completion_tokens);
    router_count(&relay->metrics->cached_tokens, row->cached_tokens);
    for (uint32_t i = 0; i < CHAT_REPAIR_COUNT; i++)
        router_count(&relay->metrics->repaired[call->turn.format][i], call->turn.repairs[i]);
    router_count(&call->model->metrics.succeeded, row->status < 400);
    router_count(&call->model->metrics.prompt_tokens, row->prompt_tokens);
    router_count(&call->model->metrics.completion_tokens, row->completion_tokens);
    router_count(&call->model->metrics.cached_tokens, row->cached_tokens);
    router_dispatch_lock(call->relay->dispatch);
    router_key_usages_add(relay->key_usages, call->key, row);
    end_history(call);
    const struct router_node *node = router_nodes_find_any(relay->nodes, lr_str_z(row->node));
    struct router_replica *replica =
        node != NULL ? router_node_replica(node, lr_str_z(call->model->folded)) : NULL;
    if (replica != NULL)
        add_to_tally(call, &replica->tally);
    router_dispatch_unlock(call->relay->dispatch);
    charge(call);
}

/* ---- its trace ---- */

static const char *operation_of(const struct chat_codec *codec, struct lr_str path)
{
    if (codec->kind != LR_REQUEST_GENERATE)
        return lr_str_ends(path, "rerank") ? "rerank" : "embeddings";
    return lr_str_eq_z(path, "/v1/completions") || lr_str_eq_z(path, "/api/generate")
               ? "text_completion"
               : "chat";
}

/* Without a tracer the client's own context goes on to the nodes. */
static void begin_trace(struct router_call *call)
{
    struct router_tracer *tracer = call->relay->tracer;
    struct lr_str parent = {0}, state = {0}, path = net_request_path(call->req);
    unsigned char id[16];
    uint64_t span;
    bool is_sampled;
    (void)net_request_header(call->req, "traceparent", &parent);
    (void)net_request_header(call->req, "tracestate", &state);
    if (tracer == NULL || !tracer->is_on) {
        if (router_trace_parent_read(parent, id, &span, &is_sampled))
            LR_COPY(call->trace, parent);
        return;
    }
    call->spans = router_trace_begin(tracer, parent, state, call->trace);
    net_response_header(call->req, "traceparent", lr_str_z(call->trace));
    if (parent.len != 0 && state.len != 0 && state.len < ROUTER_TRACE_STATE)
        net_response_header(call->req, "tracestate", state);
    if (call->spans == NULL)
        return;
    uint64_t read_ns = net_request_elapsed_ms(call->req) * 1000000;
    call->spans->begun_ns -= read_ns; /* the request's first byte */
    call->spans->operation = operation_of(call->turn.codec, path);
    LR_COPY(call->spans->path, path);
    LR_COPY(call->spans->request_id, lr_str_z(call->access->request_id));
    LR_COPY(call->spans->key, lr_str_z(router_caller_id(&call->access->caller)));
}

/* The client's answer ends. */
static void note_trace(struct router_call *call, int status, lr_code error)
{
    struct router_trace *t = call->spans;
    if (t == NULL)
        return;
    t->ended_ns = lr_clock_ns(call->relay->links.clock);
    t->first_ns = call->first_ns;
    t->status = status;
    t->error = error;
    t->choices = call->generation_count;
    t->is_stream = call->turn.request != NULL && call->turn.request->stream;
    LR_COPY(t->asked_model, lr_str_z(call->access->model));
    if (call->model != NULL)
        LR_COPY(t->model, lr_str_z(call->model->id));
}

static bool is_tool(const struct chat_request *request, struct lr_str name)
{
    const struct lr_json *tools = request->tools;
    struct lr_str known;
    for (uint32_t i = 0; lr_json_is(tools, LR_JSON_ARRAY) && i < tools->count; i++)
        if (lr_json_str(lr_json_get(lr_json_get(&tools->items[i], "function"), "name"),
                        &known) &&
            lr_str_eq(known, name))
            return true;
    return false;
}

/* A name that the model made up is text of the answer, and no trace has that. */
static void on_tool_call(void *owner, struct lr_str name)
{
    struct router_call *call = owner;
    struct router_trace *t = call->spans;
    if (t == NULL || t->call_count == ROUTER_TRACE_CALLS)
        return;
    router_trace_call(t, is_tool(call->turn.request, name) ? name : LR_STR_LIT("_other"),
                      lr_clock_ns(call->relay->links.clock));
}

static void on_text(void *owner, uint32_t choice, const struct chat_delta *delta)
{
    router_log_text(owner, choice, delta);
}

/* The nodes have told the usage. */
static void end_trace(struct router_call *call)
{
    struct router_trace *t = call->spans;
    if (t == NULL)
        return;
    t->prompt_tokens = call->usage.prompt_tokens;
    t->completion_tokens = call->usage.completion_tokens;
    t->cached_tokens = call->usage.cached_tokens;
    router_trace_end(call->relay->tracer, t);
}

/* ---- the call's life ---- */

static void free_call(struct router_call *call)
{
    leave_key(call);
    if (call->link != NULL) {
        record_usage(call);
        LR_LIST_REMOVE(call, next, link);
    }
    end_trace(call);
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
    (void)lr_fail(&err, LR_UNAUTHENTICATED, "key %s was revoked", key->id);
    chat_turn_fail(&call->turn, &err);
}

/* Tokens are counted in the second in which they came, not at the end of a long answer. */
static void tell_history(struct router_relay *relay)
{
    router_dispatch_lock(relay->dispatch);
    for (struct router_call *call = relay->calls; call != NULL; call = call->next)
        if (call->figures[ROUTER_FIGURE_COMPLETION] != 0 && !chat_turn_is_over(&call->turn))
            add_to_history(call);
    router_dispatch_unlock(relay->dispatch);
}

void router_relay_watch(struct router_relay *relay)
{
    uint64_t now_ms = net_loop_now_ms(relay->links.net);
    uint64_t now_ns = lr_clock_ns(relay->links.clock);
    tell_history(relay);
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

static void end_answer(struct router_call *call, int status, const struct lr_error *err)
{
    note_end(call, status);
    router_log_end(call, status, err);
}

static void finish(void *owner, lr_code status, struct lr_str bytes)
{
    struct router_call *call = owner;
    note_trace(call, lr_code_http(status), status);
    if (call->req == NULL) {
        end_answer(call, lr_code_http(status), NULL);
    } else if (call->turn.request->stream) {
        end_answer(call, 200, NULL);
        begin_stream(call);
        (void)net_stream_finish(call->req, bytes);
    } else {
        end_answer(call, lr_code_http(status), NULL);
        add_headers(call);
        net_respond(call->req, lr_code_http(status), "application/json", bytes);
    }
    router_call_drop(call);
}

static void fail(void *owner, const struct lr_error *err, struct lr_str bytes)
{
    struct router_call *call = owner;
    lr_code code = err != NULL ? err->code : LR_CANCELLED;
    note_trace(call, lr_code_http(code), code);
    end_answer(call, lr_code_http(code), err);
    if (err == NULL)
        router_count(&call->relay->metrics->cancelled, 1);
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
 * Other clients get the id under which the log has the error. */
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

/* ---- the request.  The cheapest check comes first: a request that its key does not allow is
 * refused before its schemas are compiled.  False: the request was answered. ---- */

/* Counts the request against the key's rate.  A refused request counts, too, unless no node
 * could serve it.  Nothing is parsed before this, so that a key over its rate costs nothing. */
static bool take_rate(struct router_call *call)
{
    const struct router_relay *relay = call->relay;
    struct router_key *key = call->access->caller.key;
    struct lr_error err;
    uint32_t retry_s = 0;
    if (key == NULL)
        return true;
    uint64_t now_ms = lr_clock_ms(relay->links.clock);
    struct router_rate requests, tokens;
    router_dispatch_lock(call->relay->dispatch);
    call->keeps_texts = key->keep_texts != 0 && call->record != 0;
    lr_code code = router_key_admit(key, now_ms, lr_clock_wall_ms(relay->links.clock),
                                    relay->keys->routers, &retry_s, &err);
    router_key_rates(key, now_ms, relay->keys->routers, &requests, &tokens);
    router_dispatch_unlock(call->relay->dispatch);
    router_limit_headers(call->req, &requests, &tokens);
    call->entered = code == LR_OK ? key : NULL;
    if (code == LR_OK)
        return true;
    router_count(&relay->metrics->rate_limited, retry_s != 0);
    net_response_retry_after(call->req, retry_s);
    chat_turn_fail(&call->turn, &err);
    return false;
}

/* Finds the model and its template, if the key may use the model.  Takes references to both. */
static lr_code find_model(struct router_call *call, struct lr_str name, struct lr_error *err)
{
    const struct router_relay *relay = call->relay;
    struct router_model *model = router_registry_resolve(relay->dispatch->registry, name);
    if (model == NULL)
        return router_fail_no_model(name, err);
    lr_code code = router_key_check_model(call->access->caller.key, lr_str_z(model->id), err);
    if (code != LR_OK)
        return code;
    struct router_prompt_info *info = router_model_info(
        model, &relay->nodes->infos, router_nodes_info(relay->nodes, lr_str_z(model->folded)));
    if (info == NULL)
        return router_refuse_nobody(relay->dispatch, model, err);
    code = wire_abilities_check(router_nodes_requests(relay->nodes, lr_str_z(model->folded)),
                                call->turn.codec->kind, model->id, err);
    if (code != LR_OK)
        return code;
    call->model = router_model_ref(model);
    call->info = router_prompt_info_ref(info);
    return LR_OK;
}

static bool admit(struct router_call *call, struct lr_str name)
{
    struct router_access *access = call->access;
    struct lr_error err;
    (void)snprintf(access->model, sizeof(access->model), LR_STR_FMT,
                   LR_STR_ARG(lr_str_sub(name, 0, 95)));
    if (name.len == 0) /* the check of the fields says so */
        return true;
    router_dispatch_lock(call->relay->dispatch);
    lr_code code = find_model(call, name, &err);
    if (code == LR_UNAVAILABLE && access->caller.key != NULL)
        router_key_give_back(access->caller.key);
    router_log_model(call, name);
    router_dispatch_unlock(call->relay->dispatch);
    if (code != LR_OK)
        chat_turn_fail(&call->turn, &err);
    return code == LR_OK;
}

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
        is_short = is_short && !chat_has_prefixes(&turn->prompts[i]);
    if (!is_short)
        call->prefixes = calloc(turn->prompt_count, sizeof(*call->prefixes));
    for (uint32_t i = 0; call->prefixes != NULL && i < turn->prompt_count; i++)
        chat_prefix_hashes_make(&call->prefixes[i], lr_str_z(call->model->folded),
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
    router_log_valid(call);
    if (call->background != NULL)
        router_background_begin(call, start);
    else
        start(call);
}

lr_code router_call_begin(struct router_relay *relay, struct net_request *req,
                          const struct chat_codec *codec, struct lr_error *err)
{
    static const struct chat_sink sink = {write_piece,      finish,       fail,   tell,
                                          router_call_keep, on_tool_call, on_text};
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
    begin_trace(call);
    call->turn.terms.is_strict = call->relay->strict_fields || net_request_is_strict(req);
    call->tells_progress = router_progress_is_wanted(req);
    router_call_hold(call);
    router_log_arrival(call);
    if (take_rate(call) && chat_turn_read(&call->turn, net_request_body(req), &name) &&
        admit(call, name))
        router_call_load(call, go_on);
    router_call_drop(call);
    return LR_OK;
}
