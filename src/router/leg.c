/* router/leg.c - one generation on a node, and on the next one when that node is lost.
 *
 * The router keeps every token id the client has.  A node that dies, falls silent for
 * five seconds or says "retryable" is replaced: the next one gets the prompt and those
 * ids, and goes on where the answer stopped.  A request that a node calls poisonous
 * (not retryable) is tried nowhere else.
 */
#include <stdio.h>
#include <stdlib.h>

#include "router/call.h"
#include "wire/event.h"
#include "wire/generate.h"

enum {
    ATTEMPTS_MAX = 5,
    SILENCE_MS = 5000, /* a node gives a sign of life at least once a second */
    CONNECT_MS = 2000,
    ERROR_BODY_MAX = 64 << 10,
    FRAME_MAX = 1 << 20, /* a token with twenty alternatives is far below */
};

static void run(struct router_leg *leg);

void router_leg_free(struct router_leg *leg)
{
    lr_buf_free(&leg->in);
    free(leg->generated);
}

static void give_slot_back(struct router_leg *leg, enum router_outcome outcome)
{
    struct router_measure measure = {0};
    if (outcome == ROUTER_ENDED && leg->first_ns != 0) {
        if (leg->prompt_tokens > leg->cached_tokens)
            measure.prefill_ms = (double)(leg->first_ns - leg->sent_ns) / 1e6 /
                                 (leg->prompt_tokens - leg->cached_tokens);
        if (leg->attempt_tokens > 1)
            measure.step_ms =
                (double)(leg->last_ns - leg->first_ns) / 1e6 / (leg->attempt_tokens - 1);
    }
    router_release(&leg->job, outcome, &measure);
}

/* The answer of this attempt's node is of no more use.  The caller holds the call. */
static void leave_node(struct router_leg *leg)
{
    struct net_call *upstream = leg->upstream;
    leg->upstream = NULL;
    if (upstream != NULL) {
        net_call_cancel(upstream);
        router_call_drop(leg->call);
    }
}

static void fail(struct router_leg *leg, const struct lr_error *err)
{
    leg->is_over = true;
    leave_node(leg);
    give_slot_back(leg, ROUTER_ENDED);
    router_call_fail(leg->call, err);
}

/* Leaves at once, without waiting for the usage. */
static void give_up(struct router_leg *leg)
{
    leg->is_leaving = false;
    leave_node(leg);
    give_slot_back(leg, ROUTER_ENDED);
}

/* The node is lost to this request: the next one.  The caller holds the call. */
static void try_again(struct router_leg *leg, enum router_outcome outcome,
                      const struct lr_error *why)
{
    struct router_call *call = leg->call;
    struct router_metrics *metrics = &call->home->router->metrics;
    struct lr_log_ctx log = {.request_id = call->access->request_id};
    struct lr_error err;
    if (leg->is_over)
        return;
    if (outcome == ROUTER_BUSY) {
        router_count(&metrics->busy, 1);
    } else {
        router_count(leg->generated_count != 0 ? &metrics->continuations : &metrics->retries,
                     1);
        leg->attempts++;
        lr_log_warn(&log, "request.moved node=%s tokens=%zu attempt=%u reason=%s",
                    leg->job.node != NULL ? leg->job.node->name : "", leg->generated_count,
                    leg->attempts, why->text);
    }
    leave_node(leg);
    give_slot_back(leg, outcome);
    if (leg->attempts >= ATTEMPTS_MAX) {
        (void)lr_fail(&err, LR_UPSTREAM, "%d nodes in a row failed this request; the last: %s",
                      ATTEMPTS_MAX, why->text);
        fail(leg, &err);
        return;
    }
    enum router_admission admission = router_admit(&leg->job, true, &err);
    if (admission == ROUTER_REFUSED)
        fail(leg, &err);
    else if (admission == ROUTER_GRANTED)
        run(leg);
    else
        call->holds++;
}

/* ---- events ---- */

static bool keep_id(struct router_leg *leg, uint32_t id)
{
    if (leg->generated_count == leg->generated_cap) {
        size_t cap = leg->generated_cap != 0 ? 2 * leg->generated_cap : 32;
        uint32_t *grown = realloc(leg->generated, cap * sizeof(*grown));
        if (grown == NULL)
            return false;
        leg->generated = grown;
        leg->generated_cap = cap;
    }
    leg->generated[leg->generated_count++] = id;
    return true;
}

static void note_times(struct router_leg *leg)
{
    struct router_metrics *metrics = &leg->call->home->router->metrics;
    uint64_t now = lr_clock_ns(NULL);
    if (leg->first_ns == 0)
        leg->first_ns = now;
    else
        router_observe(&metrics->inter_token, now - leg->last_ns);
    leg->last_ns = now;
    leg->attempt_tokens++;
}

static void on_token(struct router_leg *leg, struct lr_str body)
{
    struct wire_token t;
    struct lr_error err;
    struct chat_logprob top[WIRE_TOP_MAX];
    lr_code code = wire_token_decode(body, &t, &err);
    if (code == LR_OK && !keep_id(leg, t.id))
        code = lr_fail(&err, LR_OUT_OF_RAM, "no memory for a token");
    if (code != LR_OK) {
        fail(leg, &err);
        return;
    }
    note_times(leg);
    for (uint32_t i = 0; i < t.top_count; i++)
        top[i] = (struct chat_logprob){t.top[i].id, t.top[i].logprob, t.top[i].bytes};
    struct chat_token token = {
        .id = t.id,
        .special = t.special,
        .has_logprob = t.has_logprob,
        .logprob = t.logprob,
        .bytes = t.bytes,
        .top = top,
        .top_count = t.top_count,
    };
    router_call_token(leg, &token);
}

static void on_done_frame(struct router_leg *leg, struct lr_str body)
{
    struct wire_done m;
    struct lr_error err;
    if (wire_done_decode(body, &m, &err) != LR_OK) {
        fail(leg, &err);
        return;
    }
    if (m.reason == LR_FINISH_ERROR) {
        fail(leg, &m.error);
        return;
    }
    if (m.reason == LR_FINISH_CANCELLED) {
        /* Not by us: we close the connection then. */
        (void)lr_fail(&err, LR_UPSTREAM, "the node cancelled the request");
        try_again(leg, ROUTER_FAILED, &err);
        return;
    }
    struct chat_usage usage = {m.prompt_tokens, m.completion_tokens, m.cached_tokens};
    leg->prompt_tokens = m.prompt_tokens;
    leg->cached_tokens = m.cached_tokens;
    leg->counted_tokens = m.completion_tokens;
    leg->is_over = true;
    give_slot_back(leg, ROUTER_ENDED);
    router_call_done(leg, m.reason, &usage);
}

static void on_error_frame(struct router_leg *leg, struct lr_str body)
{
    struct wire_error m;
    struct lr_error err;
    if (wire_error_decode(body, &m, &err) != LR_OK)
        fail(leg, &err);
    else if (m.retryable)
        try_again(leg, ROUTER_FAILED, &m.error);
    else
        fail(leg, &m.error);
}

/* The client has left, or has all it wants: only the usage is of interest. */
static void on_last_frame(struct router_leg *leg, const struct wire_frame *frame)
{
    struct wire_done m;
    if (frame->type != WIRE_DONE && frame->type != WIRE_ERROR)
        return;
    if (frame->type == WIRE_DONE && wire_done_decode(frame->body, &m, NULL) == LR_OK) {
        leg->prompt_tokens = m.prompt_tokens;
        leg->cached_tokens = m.cached_tokens;
        leg->counted_tokens = m.completion_tokens;
    }
    leg->is_leaving = false;
    give_slot_back(leg, ROUTER_ENDED);
}

static void on_frame(struct router_leg *leg, const struct wire_frame *frame)
{
    struct wire_prefill prefill;
    if (leg->is_leaving) {
        on_last_frame(leg, frame);
        return;
    }
    switch (frame->type) {
    case WIRE_TOKEN:
        on_token(leg, frame->body);
        break;
    case WIRE_DONE:
        on_done_frame(leg, frame->body);
        break;
    case WIRE_ERROR:
        on_error_frame(leg, frame->body);
        break;
    case WIRE_PREFILL:
        if (wire_prefill_decode(frame->body, &prefill, NULL) == LR_OK)
            leg->prompt_tokens =
                prefill.total -
                (uint32_t)(prefill.total > leg->sent_count ? leg->sent_count : 0);
        break;
    default:
        break; /* signs of life */
    }
}

/* True when this node's answer is of no more interest. */
static bool is_settled(const struct router_leg *leg, const struct net_call *upstream)
{
    return (leg->is_over && !leg->is_leaving) || leg->upstream != upstream;
}

static void on_frames(struct router_leg *leg, struct lr_str bytes)
{
    const struct net_call *upstream = leg->upstream;
    struct lr_str rest = bytes;
    struct lr_error err;
    bool buffered = leg->in.len != 0, has = true;
    lr_code code = LR_OK;
    if (buffered) {
        lr_buf_add_str(&leg->in, bytes);
        rest = lr_buf_str(&leg->in);
    }
    if (leg->in.failed)
        code = lr_fail(&err, LR_UPSTREAM, "the node sent a frame over %d bytes", FRAME_MAX);
    while (code == LR_OK && has && !is_settled(leg, upstream)) {
        struct wire_frame frame;
        code = wire_frame_next(&rest, &frame, &has, &err);
        if (code == LR_OK && has)
            on_frame(leg, &frame);
    }
    if (is_settled(leg, upstream))
        return;
    if (code != LR_OK && leg->is_leaving)
        give_up(leg);
    else if (code != LR_OK)
        try_again(leg, ROUTER_FAILED, &err);
    else if (buffered)
        lr_buf_consume(&leg->in, leg->in.len - rest.len);
    else
        lr_buf_add_str(&leg->in, rest);
}

/* ---- the node's answer ---- */

static void on_headers(void *arg, int status, struct net_headers headers)
{
    struct router_leg *leg = arg;
    (void)headers;
    leg->status = status;
}

static void on_body(void *arg, struct lr_str bytes)
{
    struct router_leg *leg = arg;
    struct router_call *call = leg->call;
    if (leg->is_over && !leg->is_leaving)
        return;
    call->holds++;
    if (leg->status == 200)
        on_frames(leg, bytes);
    else if (leg->in.len < ERROR_BODY_MAX)
        lr_buf_add_str(&leg->in, bytes);
    router_call_drop(call);
}

static lr_code code_of_status(int status)
{
    switch (status) {
    case 400:
        return LR_INVALID_ARGUMENT;
    case 413:
        return LR_TOO_LARGE;
    case 429:
        return LR_RATE_LIMITED;
    case 503:
        return LR_UNAVAILABLE;
    case 504:
        return LR_TIMEOUT;
    default:
        return LR_UPSTREAM;
    }
}

/* The message of the node's error body, or its status. */
static void read_refusal(struct router_leg *leg, struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json *body;
    struct lr_str message = {0};
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, lr_buf_str(&leg->in), NULL, &body, NULL) == LR_OK)
        (void)lr_json_str(lr_json_get(lr_json_get(body, "error"), "message"), &message);
    if (message.len != 0)
        (void)lr_fail(err, code_of_status(leg->status), LR_STR_FMT, LR_STR_ARG(message));
    else
        (void)lr_fail(err, code_of_status(leg->status), "node %s answered with status %d",
                      leg->job.node != NULL ? leg->job.node->name : "", leg->status);
    lr_arena_free(&arena);
}

static void on_refused(struct router_leg *leg)
{
    struct lr_error err;
    read_refusal(leg, &err);
    if (leg->status == 429)
        try_again(leg, ROUTER_BUSY, &err);
    else if (leg->status == 400 || leg->status == 413)
        fail(leg, &err);
    else
        try_again(leg, ROUTER_FAILED, &err);
}

static void on_done(void *arg, const struct lr_error *err)
{
    struct router_leg *leg = arg;
    struct router_call *call = leg->call;
    struct lr_error cut;
    leg->upstream = NULL;
    if (leg->is_leaving)
        give_up(leg);
    if (!leg->is_over) {
        if (err == NULL && leg->status != 200) {
            on_refused(leg);
        } else {
            if (err == NULL)
                (void)lr_fail(&cut, LR_UPSTREAM, "the node ended its answer in the middle");
            try_again(leg, ROUTER_FAILED, err != NULL ? err : &cut);
        }
    }
    router_call_drop(call);
}

/* ---- asking ---- */

/* What the node knows this generation by: each choice has its own. */
static void name_of(const struct router_leg *leg, char out[96])
{
    if (leg->index == 0)
        (void)snprintf(out, 96, "%s", leg->call->request_id);
    else
        (void)snprintf(out, 96, "%s.%u", leg->call->request_id, leg->index);
}

static void write_ask(const struct router_leg *leg, struct lr_buf *out)
{
    const struct router_call *call = leg->call;
    const struct chat_request *chat = call->chat;
    const struct chat_prompt *prompt = &call->prompts[leg->index / chat->n];
    struct wire_generate ask;
    char name[96];
    name_of(leg, name);
    wire_generate_defaults(&ask);
    ask.request_id = lr_str_z(name);
    ask.model = lr_str_z(leg->job.place->id);
    ask.cache_scope = lr_str_z(router_caller_name(&call->access->caller));
    ask.segments = prompt->segments;
    ask.segment_count = prompt->segment_count;
    ask.prompt_ids = prompt->ids;
    ask.prompt_id_count = prompt->id_count;
    ask.generated = leg->generated;
    ask.generated_count = leg->generated_count;
    ask.sampling = chat->sampling;
    ask.sampling.seed = chat_request_seed(call->seed, leg->index);
    ask.max_tokens = chat->max_tokens;
    ask.ignore_stop = chat->ignore_stop;
    ask.no_queue = true;
    lr_buf_clear(out);
    wire_generate_write_json(out, &ask);
}

static void run(struct router_leg *leg)
{
    struct router_call *call = leg->call;
    struct router_home *home = call->home;
    struct lr_error err;
    char url[320], secret[128];
    struct net_header headers[3];
    size_t count = 0;
    router_lock(home->router); /* a node may join again from elsewhere meanwhile */
    (void)snprintf(url, sizeof(url), "%s/v0/generate", leg->job.node->url);
    (void)snprintf(secret, sizeof(secret), "Bearer %s", leg->job.node->secret);
    router_unlock(home->router);
    write_ask(leg, &home->scratch);
    headers[count++] = (struct net_header){LR_STR_LIT("Accept"), LR_STR_LIT(WIRE_EVENTS_TYPE)};
    headers[count++] = (struct net_header){LR_STR_LIT("Authorization"), lr_str_z(secret)};
    if (call->trace[0] != '\0')
        headers[count++] =
            (struct net_header){LR_STR_LIT("traceparent"), lr_str_z(call->trace)};
    struct net_call_config config = {
        .url = url,
        .headers = headers,
        .header_count = count,
        .content_type = "application/json",
        .body = lr_buf_str(&home->scratch),
        .connect_timeout_ms = CONNECT_MS,
        .response_timeout_ms = SILENCE_MS,
        .idle_timeout_ms = SILENCE_MS,
        .callbacks = {.arg = leg,
                      .on_headers = on_headers,
                      .on_body = on_body,
                      .on_done = on_done},
    };
    lr_buf_clear(&leg->in);
    leg->status = 0;
    leg->sent_ns = lr_clock_ns(NULL);
    leg->first_ns = leg->last_ns = 0;
    leg->attempt_tokens = 0;
    leg->sent_count = leg->generated_count;
    if (call->granted_ns == 0) {
        call->granted_ns = leg->sent_ns;
        (void)snprintf(call->access->node, sizeof(call->access->node), "%s", leg->job.node->id);
    }
    router_count(&home->router->metrics.generations, 1);
    lr_code code = net_call_start(home->client, &config, &leg->upstream, &err);
    if (code != LR_OK)
        fail(leg, &err);
    else
        call->holds++;
}

static void on_ready(struct router_job *job, const struct lr_error *err)
{
    struct router_leg *leg = (struct router_leg *)(void *)job;
    struct router_call *call = leg->call;
    if (leg->is_over || call->is_over) {
        leg->is_over = true;
        router_release(job, ROUTER_ENDED, NULL);
    } else if (err != NULL) {
        fail(leg, err);
    } else {
        run(leg);
    }
    router_call_drop(call);
}

void router_leg_start(struct router_leg *leg)
{
    struct router_call *call = leg->call;
    struct lr_error err;
    lr_buf_init(&leg->in, FRAME_MAX);
    leg->job.on_ready = on_ready;
    enum router_admission admission = router_admit(&leg->job, false, &err);
    if (admission == ROUTER_REFUSED) {
        if (err.code == LR_RATE_LIMITED)
            router_count(&call->home->router->metrics.queue_full, 1);
        fail(leg, &err);
    } else if (admission == ROUTER_GRANTED) {
        run(leg);
    } else {
        call->holds++;
    }
}

/* ---- leaving ---- */

static void on_stopped(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct router_leg *leg = arg;
    struct router_call *call = leg->call;
    /* It did not understand, or is gone: the connection says it. */
    if (leg->is_leaving && (err != NULL || reply->status != 200))
        give_up(leg);
    router_call_drop(call);
}

/* False: it could not be told. */
static bool tell_stop(struct router_leg *leg)
{
    struct router_home *home = leg->call->home;
    char url[420], secret[128], name[96];
    name_of(leg, name);
    router_lock(home->router);
    (void)snprintf(url, sizeof(url), "%s/v0/generate/%s", leg->job.node->url, name);
    (void)snprintf(secret, sizeof(secret), "Bearer %s", leg->job.node->secret);
    router_unlock(home->router);
    struct net_header header = {LR_STR_LIT("Authorization"), lr_str_z(secret)};
    struct net_call_config config = {
        .method = "DELETE",
        .url = url,
        .headers = &header,
        .header_count = 1,
        .connect_timeout_ms = CONNECT_MS,
        .response_timeout_ms = CONNECT_MS,
    };
    return net_fetch(home->client, &config, on_stopped, leg, NULL, NULL) == LR_OK;
}

void router_leg_cancel(struct router_leg *leg)
{
    if (leg->is_over)
        return; /* its answer is complete: the connection stays good for the next one */
    leg->is_over = true;
    if (leg->upstream != NULL && leg->status == 200 && tell_stop(leg)) {
        leg->is_leaving = true;
        leg->call->holds++;
        return;
    }
    if (router_withdraw(&leg->job))
        router_call_drop(leg->call); /* on_ready will not come */
    leave_node(leg);
}
