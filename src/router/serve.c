/* router/serve.c - /v1/chat/completions and /v1/completions: from the client's bytes to
 * generations on nodes, and from their tokens back to the client's bytes.
 */
#include "router/call.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "router/api.h"

enum { OUT_BYTES = 96 << 20 };

/* ---- the end of a call ---- */

static void unlink_call(struct router_call *call)
{
    if (call->link == NULL)
        return;
    *call->link = call->next;
    if (call->next != NULL)
        call->next->link = call->link;
    call->link = NULL;
}

static void add_tokens(const struct router_call *call, struct router_usage *row)
{
    row->prompt_tokens = row->completion_tokens = row->cached_tokens = 0;
    for (uint32_t i = 0; i < call->leg_count; i++) {
        const struct router_leg *leg = &call->legs[i];
        /* n answers to one prompt: the prompt is computed for each. */
        row->prompt_tokens += leg->prompt_tokens;
        row->completion_tokens +=
            leg->counted_tokens != 0 ? leg->counted_tokens : leg->generated_count;
        row->cached_tokens += leg->cached_tokens;
    }
}

/* The client's answer is over: what it was like. */
static void note_usage(struct router_call *call, int status)
{
    struct router_metrics *metrics = &call->home->router->metrics;
    struct router_access *access = call->access;
    struct router_usage *row = &call->usage;
    uint64_t now = lr_clock_ns(NULL);
    if (row->time_ms != 0)
        return;
    *row = (struct router_usage){
        .time_ms = lr_clock_wall_ms(NULL),
        .status = (uint32_t)status,
        .wait_ms = call->granted_ns != 0 ? (call->granted_ns - call->begun_ns) / 1000000 : 0,
        .total_ms = (now - call->begun_ns) / 1000000,
    };
    call->key = access->caller.key;
    (void)snprintf(row->key_id, sizeof(row->key_id), "%s",
                   call->key != NULL ? call->key->id : "");
    (void)snprintf(row->model, sizeof(row->model), "%.159s", call->model->id);
    (void)snprintf(row->node, sizeof(row->node), "%s", access->node);
    (void)snprintf(row->request_id, sizeof(row->request_id), "%s", access->request_id);
    add_tokens(call, row);
    access->prompt_tokens = row->prompt_tokens;
    access->completion_tokens = row->completion_tokens;
    router_observe(&metrics->total, now - call->begun_ns);
    if (call->granted_ns != 0)
        router_observe(&metrics->wait, call->granted_ns - call->begun_ns);
}

/* Usage is booked however the request ended, when the engines have said what it took. */
static void book(struct router_call *call)
{
    struct router *r = call->home->router;
    struct router_usage *row = &call->usage;
    add_tokens(call, row);
    router_store_usage(r->store, row);
    router_count(&r->metrics.prompt_tokens, row->prompt_tokens);
    router_count(&r->metrics.completion_tokens, row->completion_tokens);
    router_count(&r->metrics.cached_tokens, row->cached_tokens);
    if (call->key != NULL && call->key->tokens_per_minute != 0) {
        router_lock(r);
        router_key_charge(call->key, lr_clock_ms(NULL),
                          row->prompt_tokens + row->completion_tokens,
                          atomic_load(&r->routers));
        router_unlock(r);
    }
}

void router_call_drop(struct router_call *call)
{
    struct router *r = call->home->router;
    if (--call->holds != 0 || !call->is_over)
        return;
    book(call);
    unlink_call(call);
    for (uint32_t i = 0; i < call->leg_count; i++)
        router_leg_free(&call->legs[i]);
    router_lock(r);
    router_model_unref(call->model);
    router_prompt_info_unref(&r->nodes.infos, call->info);
    router_unlock(r);
    free(call->legs);
    free(call);
}

/* Everything of the call but the HTTP request, which the caller has ended or ends. */
static void close_call(struct router_call *call, int status)
{
    call->is_over = true;
    call->holds++;
    note_usage(call, status);
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
    if (call->granted_ns == 0)
        return;
    net_response_header(call->req, "X-LLM-Router-Node", lr_str_z(call->access->node));
    net_response_header(call->req, "X-LLM-Router-Reason", lr_str_z(call->legs[0].job.why));
}

static void begin_stream(struct router_call *call)
{
    if (net_response_begun(call->req))
        return;
    add_headers(call);
    net_response_header(call->req, "X-Accel-Buffering", LR_STR_LIT("no"));
    net_sse_begin(call->req);
}

void router_call_fail(struct router_call *call, const struct lr_error *err)
{
    struct net_request *req = call->req;
    struct lr_error copy = *err;
    if (call->is_over)
        return;
    if (!net_response_begun(req)) {
        close_call(call, lr_code_http(copy.code));
        net_respond_error(req, &copy);
        return;
    }
    chat_response_on_error(call->response, &copy, &call->out);
    lr_code ignored = net_stream_write(req, lr_buf_str(&call->out));
    (void)ignored; /* the stream ends here whether the client takes it or not */
    close_call(call, lr_code_http(copy.code));
    net_stream_end(req);
}

static void on_gone(void *arg)
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
        note_usage(call, status); /* before the answer: the access log tells the tokens */
        add_headers(call);
        net_respond(req, status, "application/json", lr_buf_str(&call->out));
        close_call(call, status);
        return;
    }
    lr_code code = LR_OK;
    if (call->out.len != 0) {
        begin_stream(call);
        code = net_stream_write(req, lr_buf_str(&call->out));
        lr_buf_clear(&call->out);
        call->wrote_ms = net_loop_now_ms(call->home->loop);
    }
    if (code == LR_TOO_LARGE) {
        /* A client that does not read pays for itself, not for the others. */
        router_count(&call->home->router->metrics.cancelled, 1);
        close_call(call, lr_code_http(LR_CANCELLED));
        net_stream_abort(req);
    } else if (complete) {
        close_call(call, 200);
        net_stream_end(req);
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
    while (home->calls != NULL) {
        home->calls->holds = 1;
        router_call_drop(home->calls);
    }
}

void router_calls_keep_alive(struct router_home *home)
{
    uint64_t now = net_loop_now_ms(home->loop);
    for (struct router_call *call = home->calls, *next; call != NULL; call = next) {
        next = call->next;
        if (call->is_over || !call->chat->stream ||
            now - call->wrote_ms < home->router->keep_alive_ms)
            continue;
        begin_stream(call);
        call->wrote_ms = now;
        lr_code ignored = net_sse_comment(call->req, "working");
        (void)ignored; /* a client that has gone or stalled is told to us elsewhere */
    }
}

/* ---- the beginning of a call ---- */

static void answer_bad_request(struct net_request *req, const struct chat_error *e)
{
    struct lr_buf body;
    lr_buf_init(&body, 16 << 10);
    chat_error_write(&body, e);
    net_respond(req, lr_code_http(e->error.code), "application/json", lr_buf_str(&body));
    lr_buf_free(&body);
}

static void refuse_with_wait(struct net_request *req, const struct lr_error *err,
                             uint32_t retry_s)
{
    char text[16];
    (void)snprintf(text, sizeof(text), "%u", retry_s);
    net_response_header(req, "Retry-After", lr_str_z(text));
    net_respond_error(req, err);
}

/* Finds the model and what its prompts need; takes the key's toll.  With references. */
static lr_code admit_call(struct router *r, struct router_access *access, struct lr_str name,
                          struct router_model **model, struct router_prompt_info **info,
                          uint32_t *retry_s, struct lr_error *err)
{
    lr_code code = LR_OK;
    *info = NULL;
    *retry_s = 0;
    router_lock(r);
    *model = router_registry_find(&r->registry, name);
    if (*model == NULL)
        code = lr_fail(err, LR_NOT_FOUND,
                       "there is no model \"" LR_STR_FMT "\"; GET /v1/models lists them",
                       LR_STR_ARG(lr_str_sub(name, 0, 100)));
    if (code == LR_OK && access->caller.key != NULL)
        code = router_key_take(access->caller.key, lr_clock_ms(NULL), atomic_load(&r->routers),
                               retry_s, err);
    if (code == LR_OK)
        *info = router_model_info(*model, &r->nodes.infos,
                                  router_nodes_info(&r->nodes, lr_str_z((*model)->folded)));
    if (code == LR_OK && *info == NULL) {
        struct lr_buf why;
        lr_buf_init(&why, 400);
        router_explain_nobody(r, *model, &why);
        code = lr_fail(err, LR_UNAVAILABLE, "no node can serve model \"%.100s\": %.*s",
                       (*model)->id, (int)why.len, why.data != NULL ? why.data : "");
        lr_buf_free(&why);
    }
    if (code == LR_OK) {
        (void)router_model_ref(*model);
        (void)router_prompt_info_ref(*info);
    }
    router_unlock(r);
    return code;
}

static void take_trace(struct router_call *call)
{
    struct lr_str trace;
    if (net_request_header(call->req, "traceparent", &trace) && trace.len == 55)
        (void)snprintf(call->trace, sizeof(call->trace), LR_STR_FMT, LR_STR_ARG(trace));
}

static lr_code render(struct router_call *call, struct lr_error *err)
{
    const struct chat_request *chat = call->chat;
    int64_t now = lr_clock_wall_ms(NULL) / 1000;
    call->prompts = lr_arena_zalloc(net_request_arena(call->req),
                                    chat->prompt_count * sizeof(*call->prompts));
    if (call->prompts == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the prompt");
    lr_code code = LR_OK;
    for (uint32_t i = 0; code == LR_OK && i < chat->prompt_count; i++)
        code = chat_prompt_render(chat, &call->info->chat, i, now,
                                  &call->prompts[call->prompt_count++], err);
    return code;
}

static lr_code make_response(struct router_call *call, struct lr_error *err)
{
    char id[40];
    bool is_chat = call->chat->api == CHAT_API_CHAT;
    (void)snprintf(id, sizeof(id), "%s", is_chat ? "chatcmpl-" : "cmpl-");
    lr_random_base62(id + strlen(id), 24);
    struct chat_response_options options = {
        .request = call->chat,
        .id = lr_str_z(id),
        .model = lr_str_z(call->model->id),
        .created = lr_clock_wall_ms(NULL) / 1000,
        .is_harmony = call->info->chat.is_gptoss,
    };
    return chat_response_create(&options, &call->response, err);
}

static lr_code make_legs(struct router_call *call, struct lr_error *err)
{
    uint32_t count = chat_request_choices(call->chat);
    call->legs = calloc(count, sizeof(*call->legs));
    if (call->legs == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u choices", count);
    call->leg_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct router_leg *leg = &call->legs[i];
        const struct chat_prompt *prompt = &call->prompts[i / call->chat->n];
        leg->call = call;
        leg->index = i;
        leg->job.router = call->home->router;
        leg->job.model = call->model;
        leg->job.loop = call->home->loop;
        leg->job.lane = call->access->caller.key != NULL ? call->access->caller.key->lane : 0;
        /* About four bytes a token in the languages people write to models. */
        leg->job.prompt_tokens =
            (uint32_t)(prompt->ids != NULL ? prompt->id_count : prompt->bytes / 4);
    }
    return LR_OK;
}

static void link_call(struct router_call *call)
{
    struct router_home *home = call->home;
    call->next = home->calls;
    call->link = &home->calls;
    if (call->next != NULL)
        call->next->link = &call->next;
    home->calls = call;
}

static void start_legs(struct router_call *call)
{
    call->holds++; /* a refusal ends the call, not this loop's footing */
    for (uint32_t i = 0; i < call->leg_count && !call->is_over; i++)
        router_leg_start(&call->legs[i]);
    if (!call->is_over)
        net_request_on_gone(call->req, on_gone, call);
    router_call_drop(call);
}

static void complete(struct router *r, struct net_request *req, enum chat_api api)
{
    struct router_access *access = net_request_user(req);
    const struct chat_request *chat;
    struct chat_error bad = {0};
    struct lr_error err;
    struct router_model *model;
    struct router_prompt_info *info;
    uint32_t retry_s;

    if (chat_openai_parse(net_request_arena(req), api, net_request_body(req), &chat, &bad) !=
        LR_OK) {
        answer_bad_request(req, &bad);
        return;
    }
    (void)snprintf(access->model, sizeof(access->model), LR_STR_FMT,
                   LR_STR_ARG(lr_str_sub(chat->model, 0, 95)));
    if (admit_call(r, access, chat->model, &model, &info, &retry_s, &err) != LR_OK) {
        if (retry_s != 0)
            router_count(&r->metrics.rate_limited, 1);
        if (retry_s != 0)
            refuse_with_wait(req, &err, retry_s);
        else
            net_respond_error(req, &err);
        return;
    }
    struct router_call *call = calloc(1, sizeof(*call));
    if (call == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for a request");
        router_lock(r);
        router_model_unref(model);
        router_prompt_info_unref(&r->nodes.infos, info);
        router_unlock(r);
        return;
    }
    *call = (struct router_call){
        .home = router_home_of(r, req),
        .req = req,
        .access = access,
        .chat = chat,
        .model = model,
        .info = info,
        .seed = chat->has_seed ? chat->sampling.seed : lr_random_u64(),
        .begun_ns = lr_clock_ns(NULL),
    };
    call->wrote_ms = net_loop_now_ms(call->home->loop);
    (void)snprintf(call->request_id, sizeof(call->request_id), "%s", access->request_id);
    take_trace(call);
    lr_buf_init(&call->out, OUT_BYTES);
    link_call(call);
    lr_code code = render(call, &err);
    if (code == LR_OK)
        code = make_response(call, &err);
    if (code == LR_OK)
        code = make_legs(call, &err);
    if (code != LR_OK)
        router_call_fail(call, &err);
    else
        start_legs(call);
}

void router_api_chat(struct router *r, struct net_request *req)
{
    complete(r, req, CHAT_API_CHAT);
}

void router_api_completions(struct router *r, struct net_request *req)
{
    complete(r, req, CHAT_API_COMPLETIONS);
}
