#include "router/relay/generation.h"

#include <stdio.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/machine.h"
#include "router/fleet/refusal.h"
#include "router/relay/call.h"

enum {
    MEASURED_TOKENS = 64, /* of a prompt that is partly cached: fewer say nothing of the rate */
    FAILURES_MAX = 5,
    USAGE_WAIT_NS = 500 * 1000 * 1000, /* many steps of a node that is well */
};

static uint64_t now_ns(const struct router_generation *g)
{
    return lr_clock_ns(g->call->relay->links.clock);
}

static struct lr_log_ctx log_of(const struct router_generation *g)
{
    return (struct lr_log_ctx){.request_id = g->call->access->request_id};
}

void router_generation_free(struct router_generation *g)
{
    router_ticket_forget(&g->ticket);
    lr_buf_free(&g->generated);
}

/* ---- states ---- */

#define TO(name) LR_STATE(ROUTER_GENERATION_##name)
static const struct lr_machine machine = {
    "generation",
    {
        [ROUTER_GENERATION_IDLE] = {"idle", TO(QUEUED) | TO(SENT) | TO(OVER)},
        [ROUTER_GENERATION_QUEUED] = {"queued", TO(SENT) | TO(STOPPED) | TO(OVER)},
        [ROUTER_GENERATION_SENT] = {"sent", TO(RUNNING) | TO(IDLE) | TO(STOPPED) | TO(OVER)},
        [ROUTER_GENERATION_RUNNING] = {"running",
                                       TO(IDLE) | TO(PAUSED) | TO(STOPPED) | TO(OVER)},
        [ROUTER_GENERATION_PAUSED] = {"paused", TO(IDLE) | TO(OVER)},
        [ROUTER_GENERATION_STOPPED] = {"stopped", TO(OVER)},
        [ROUTER_GENERATION_OVER] = {"over", 0},
    },
};

static bool holds_call(enum router_generation_state state)
{
    return state != ROUTER_GENERATION_IDLE && state != ROUTER_GENERATION_PAUSED &&
           state != ROUTER_GENERATION_OVER;
}

static enum router_generation_state abandon(struct router_generation *g);

bool router_generation_move(struct router_generation *g, enum router_generation_state to)
{
    bool held = holds_call(g->state);
    bool is_legal = lr_machine_allows(&machine, g->ticket.name, g->state, to);
    struct lr_error err;
    g->state = is_legal ? to : abandon(g);
    if (!is_legal) {
        (void)lr_fail(&err, LR_INTERNAL, "a generation made a move that it cannot make");
        chat_turn_fail(&g->call->turn, &err);
    }
    if (holds_call(g->state) && !held)
        router_call_hold(g->call);
    else if (held && !holds_call(g->state))
        router_call_drop(g->call);
    return is_legal;
}

/* ---- the end of an attempt ---- */

/* The speed of the replica, as the attempt measured it. */
static struct router_measure measure(const struct router_generation *g)
{
    const struct router_attempt *a = &g->attempt;
    struct router_measure m = {.found_cached = g->usage.cached_tokens != 0};
    uint64_t tokens = g->usage.prompt_tokens + a->tokens_before;
    uint64_t begun_ns = a->loaded_ns != 0 ? a->loaded_ns : a->sent_ns;
    if (a->first_ns == 0)
        return (struct router_measure){0};
    if (a->loaded_ns != 0)
        m.load_ms = (double)(a->loaded_ns - a->sent_ns) / 1e6;
    uint64_t computed = lr_elapsed(g->usage.cached_tokens, tokens);
    if (computed >= (m.found_cached ? MEASURED_TOKENS : 1)) {
        m.prefill_tokens = (double)computed;
        m.prefill_ms = (double)(a->first_ns - begun_ns) / 1e6 / m.prefill_tokens;
    }
    if (a->tokens > 1)
        m.step_ms = (double)(a->last_ns - a->first_ns) / 1e6 / (a->tokens - 1);
    return m;
}

/* The attempt is over, or the wait for one.  why NULL: the choice is complete. */
static void leave_node(struct router_generation *g, enum router_outcome outcome,
                       const struct lr_error *why)
{
    struct router_measure m = {0};
    router_tell(&(struct router_fact){.kind = ROUTER_FACT_LEFT,
                                      .call = g->call,
                                      .generation = g,
                                      .at_ns = now_ns(g),
                                      .outcome = outcome,
                                      .why = why});
    g->attempt.has_left = true;
    if (outcome == ROUTER_ENDED)
        m = measure(g);
    router_link_leave(&g->attempt.stream);
    router_release(&g->ticket, outcome, &m);
}

/* The client has left, or has all it wants. */
static const struct lr_error not_wanted = {.code = LR_CANCELLED,
                                           .text = "the client wants no more of it"};

/* Gives back what the state holds, whatever it is, and says which state comes next: a grant
 * that is on its way is awaited. */
static enum router_generation_state abandon(struct router_generation *g)
{
    bool is_awaited =
        g->state == ROUTER_GENERATION_QUEUED
            ? !router_withdraw(&g->ticket)
            : g->state == ROUTER_GENERATION_STOPPED && g->attempt.stream.link == NULL;
    leave_node(g, ROUTER_ENDED, &not_wanted);
    return is_awaited ? ROUTER_GENERATION_STOPPED : ROUTER_GENERATION_OVER;
}

/* The usage for an answer that a stop string ended: an engine may have made more tokens. */
static struct chat_usage usage_of_stopped(const struct router_generation *g)
{
    return (struct chat_usage){g->usage.prompt_tokens, (uint32_t)router_generation_tokens(g),
                               g->usage.cached_tokens};
}

/* If the answer waits for its usage, it ends. */
static void tell_usage(struct router_generation *g)
{
    struct chat_usage usage = usage_of_stopped(g);
    if (g->stopped_ns == 0)
        return;
    g->stopped_ns = 0;
    chat_turn_done(&g->call->turn, g->index, LR_FINISH_STOP, &usage);
    chat_turn_flush(&g->call->turn);
}

static void end(struct router_generation *g, const struct lr_error *why)
{
    leave_node(g, ROUTER_ENDED, why);
    (void)router_generation_move(g, ROUTER_GENERATION_OVER);
    tell_usage(g);
}

static void fail(struct router_generation *g, const struct lr_error *err)
{
    struct net_request *req = g->call->req;
    if (req != NULL && !net_response_begun(req))
        net_response_retry_after(req, router_refusal_pause(err));
    end(g, err);
    chat_turn_fail_at(&g->call->turn, g->index, err);
}

/* ---- the next attempt ---- */

static void ask_for_slot(struct router_generation *g, bool again);

/* A failure of the node, as against an attempt that makes room for another. */
static void note_failure(struct router_generation *g, bool is_workers,
                         const struct lr_error *why)
{
    struct lr_log_ctx log = log_of(g);
    g->failures += !is_workers; /* deaths of workers are counted in strikes */
    lr_log_warn(&(struct lr_log_ctx){log.request_id, why},
                "request.moved node=%s tokens=%zu attempt=%u reason=%s", g->ticket.node->name,
                router_generation_tokens(g), g->failures, why->text);
}

/* The attempt is over, and the generation is not. */
static void try_again(struct router_generation *g, enum router_outcome outcome,
                      const struct lr_error *why)
{
    struct lr_error err;
    if (outcome == ROUTER_LOST || outcome == ROUTER_FAILED)
        note_failure(g, outcome == ROUTER_LOST, why);
    leave_node(g, outcome, why);
    g->attempt = (struct router_attempt){0};
    if (g->failures < FAILURES_MAX) {
        if (router_generation_move(g, ROUTER_GENERATION_IDLE))
            ask_for_slot(g, true);
        return;
    }
    (void)lr_fail_as(&err, attempts_failed, FAILURES_MAX, why);
    fail(g, &err);
}

/* Another key holds less of the model: the generation waits for its turn and goes on.  Or it
 * waited on the node, and there is a free slot on another one. */
static void give_way(struct router_generation *g)
{
    struct lr_error why;
    if (g->ticket.is_recalled) {
        (void)lr_fail_plain(&why, free_slot_elsewhere);
        try_again(g, ROUTER_RECALLED, &why);
        return;
    }
    (void)lr_fail_plain(&why, gives_way);
    try_again(g, ROUTER_PREEMPTED, &why);
}

void router_generation_watch(struct router_generation *g, uint64_t now)
{
    const struct router_attempt *a = &g->attempt;
    uint64_t since = a->heard_ns > a->stream.sent_ns ? a->heard_ns : a->stream.sent_ns;
    struct lr_error err;
    if (lr_elapsed(g->stopped_ns, now) >= USAGE_WAIT_NS)
        tell_usage(g);
    if (a->stream.link == NULL || a->stream.sent_ns == 0 ||
        lr_elapsed(since, now) < (uint64_t)ROUTER_SILENCE_MS * 1000000)
        return;
    if (g->state == ROUTER_GENERATION_STOPPED) {
        end(g, &not_wanted);
        return;
    }
    /* Bytes may still trickle in: the transport sees no silence. */
    (void)lr_fail_as(&err, node_quiet, ROUTER_SILENCE_MS);
    try_again(g, ROUTER_FAILED, &err);
}

/* ---- a client that does not read ---- */

void router_generation_pause(struct router_generation *g)
{
    if (g->state != ROUTER_GENERATION_RUNNING || g->attempt.is_pausing)
        return;
    g->attempt.is_pausing = true;
    router_link_cancel(&g->attempt.stream);
}

void router_generation_resume(struct router_generation *g)
{
    if (g->state == ROUTER_GENERATION_PAUSED && !chat_turn_is_over(&g->call->turn) &&
        router_generation_move(g, ROUTER_GENERATION_IDLE))
        ask_for_slot(g, true);
}

/* The node has stopped it. */
static void on_stopped_for_client(struct router_generation *g)
{
    struct lr_error why;
    (void)lr_fail_plain(&why, client_slow);
    leave_node(g, ROUTER_PAUSED, &why);
    g->attempt = (struct router_attempt){0};
    if (router_generation_move(g, ROUTER_GENERATION_PAUSED) &&
        !router_call_waits_for_client(g->call))
        router_generation_resume(g);
}

/* ---- events: tokens ---- */

static void note_token(struct router_generation *g, uint32_t tokens)
{
    struct router_call *call = g->call;
    struct router_attempt *a = &g->attempt;
    bool is_first = a->first_ns == 0;
    uint64_t now = a->heard_ns;
    uint64_t took_ns = now - (is_first ? call->begun_ns : a->last_ns);
    router_tell(
        &(struct router_fact){.kind = is_first ? ROUTER_FACT_FIRST_TOKEN : ROUTER_FACT_TOKEN,
                              .call = call,
                              .generation = g,
                              .at_ns = now,
                              .took_ns = took_ns,
                              .bucket = router_bucket_of(took_ns),
                              .tokens = tokens});
    if (call->first_ns == 0)
        call->first_ns = now;
    if (is_first) {
        a->first_ns = now;
        g->failures = 0;
        router_sched_token(&g->ticket);
    }
    a->last_ns = now;
    a->tokens++;
    /* The generation is not suspected any more, wherever its next attempt runs. */
    if (g->entry != WIRE_ENTRY_COHORT || a->tokens >= WIRE_PROBATION_TOKENS) {
        g->entry = WIRE_ENTRY_RESUMED;
        g->ticket.bound = NULL;
    }
}

static void on_token(struct router_generation *g, const struct wire_token *token)
{
    struct lr_error err;
    /* Megabytes may be on their way.  The next attempt makes these tokens again, the same. */
    if (g->attempt.is_pausing)
        return;
    lr_buf_add(&g->generated, &token->id, sizeof(token->id));
    if (g->generated.failed) {
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for a token");
        fail(g, &err);
        return;
    }
    note_token(g, 1);
    chat_turn_token(&g->call->turn, g->index, token);
}

/* After this only the usage comes.  A node that dies before it told the usage makes the vector
 * a second time. */
static void on_vector(struct router_generation *g, const struct wire_vector *v)
{
    note_token(g, 0);
    chat_turn_vector(&g->call->turn, g->index, v);
}

/* ---- events: the end ---- */

static void take_usage(struct router_generation *g, const struct wire_done *m)
{
    g->usage = (struct chat_usage){m->prompt_tokens, m->completion_tokens, m->cached_tokens};
}

static void on_done(struct router_generation *g, const struct wire_done *m)
{
    struct lr_error err;
    /* However it ended: tokens before this were left out. */
    if (m->reason != LR_FINISH_ERROR && g->attempt.is_pausing) {
        on_stopped_for_client(g);
        return;
    }
    if (m->reason == LR_FINISH_CANCELLED &&
        (g->ticket.was_preempted || g->ticket.is_recalled)) {
        give_way(g);
        return;
    }
    if (m->reason == LR_FINISH_CANCELLED) {
        (void)lr_fail_plain(&err, node_cancelled);
        try_again(g, ROUTER_FAILED, &err);
        return;
    }
    take_usage(g, m);
    if (m->reason == LR_FINISH_ERROR) {
        fail(g, &m->error);
        return;
    }
    end(g, NULL);
    chat_turn_done(&g->call->turn, g->index, m->reason, &g->usage);
}

/* The node cannot load the model now, which is known at once, and no other node is left to
 * ask: a client that has no token yet is told so at once. */
static bool is_hopeless(struct router_generation *g, lr_code why)
{
    bool cannot_load = why == LR_UNAVAILABLE || why == LR_OUT_OF_VRAM || why == LR_OUT_OF_RAM ||
                       why == LR_MODEL_CORRUPT || why == LR_UNSUPPORTED;
    return cannot_load && router_generation_tokens(g) == 0 && !router_has_another(&g->ticket);
}

/* The node has other weights than those that made the tokens: no trouble of the node, which is
 * asked again when it reports the right ones. */
static bool has_other_weights(const struct router_generation *g, lr_code why)
{
    return why == LR_CONFLICT && g->ticket.weights[0] != '\0';
}

static void on_error(struct router_generation *g, const struct wire_error *m)
{
    if (m->retryable && has_other_weights(g, m->error.code))
        try_again(g, ROUTER_BUSY, &m->error);
    else if (m->retryable && !is_hopeless(g, m->error.code))
        try_again(g, ROUTER_FAILED, &m->error);
    else
        fail(g, &m->error);
}

/* A request that is wrong or too large is wrong or too large on every node. */
static void on_refused(struct router_generation *g, struct lr_error *why)
{
    int status = lr_code_http(why->code);
    if (status == 400 || status == 413) {
        why->code = status == 400 ? LR_INVALID_ARGUMENT : LR_TOO_LARGE;
        fail(g, why);
    } else {
        bool is_well = status == 429 || has_other_weights(g, why->code);
        try_again(g, is_well ? ROUTER_BUSY : ROUTER_FAILED, why);
    }
}

/* The worker died with this generation in it.  The node is well, and says how the generation
 * enters its next worker. */
static void on_worker_lost(struct router_generation *g, const struct wire_lost *m)
{
    struct lr_log_ctx log = log_of(g);
    struct lr_error err;
    bool is_bound = m->entry == WIRE_ENTRY_COHORT && m->cohort != WIRE_COHORT_TOGETHER;
    g->entry = m->entry;
    g->cohort = m->cohort;
    g->strikes += m->has_strike;
    g->ticket.bound = is_bound ? g->ticket.node : NULL;
    if (g->strikes < WIRE_STRIKES_MAX) {
        try_again(g, ROUTER_LOST, &m->error);
        return;
    }
    (void)wire_lost_fail(&err, &m->error);
    lr_log_error(&(struct lr_log_ctx){log.request_id, &err},
                 "request.poison node=%s model=%s strikes=%u reason=%s", g->ticket.node->name,
                 g->call->model->id, g->strikes, err.text);
    fail(g, &err);
}

/* The client has left, or has all it wants: only the usage counts. */
static void on_event_stopped(struct router_generation *g, const struct wire_frame *event)
{
    struct wire_done m;
    if (!wire_event_is_last(event->type))
        return;
    /* A node that had not begun tells no usage; an earlier attempt may have told some. */
    if (event->type == WIRE_DONE && wire_done_decode(event->body, &m, NULL) == LR_OK &&
        m.prompt_tokens != 0)
        take_usage(g, &m);
    end(g, &not_wanted);
}

/* ---- events ---- */

/* Without this event the swap is settled when the slot is given back. */
static void on_accepted(struct router_generation *g, struct lr_str body)
{
    struct wire_accepted m;
    if (g->state == ROUTER_GENERATION_SENT)
        (void)router_generation_move(g, ROUTER_GENERATION_RUNNING);
    if (g->ticket.swap[0] != '\0' && wire_accepted_decode(body, &m, NULL) == LR_OK)
        router_swap_confirmed(&g->ticket, m.has_swapped);
}

/* Which weights make the tokens that follow.  A node of this protocol goes on with no others
 * than those it was told of. */
static void on_weights(struct router_generation *g, const struct wire_weights *m)
{
    if (router_generation_tokens(g) == 0)
        LR_COPY(g->ticket.weights, m->fingerprint);
}

/* LR_OK, or why the event cannot be read. */
static lr_code take_event(struct router_generation *g, const struct wire_frame *event,
                          struct lr_error *err)
{
    union {
        struct wire_token token;
        struct wire_vector vector;
        struct wire_done done;
        struct wire_error error;
        struct wire_lost lost;
        struct wire_prefill prefill;
        struct wire_loading loading;
        struct wire_weights weights;
    } m;
    lr_code code = LR_OK;
    if (event->type != WIRE_TOKEN && event->type != WIRE_VECTOR)
        router_tell(&(struct router_fact){.kind = ROUTER_FACT_HEARD,
                                          .call = g->call,
                                          .generation = g,
                                          .at_ns = g->attempt.heard_ns,
                                          .event = event});
    switch (event->type) {
    case WIRE_TOKEN:
        if ((code = wire_token_decode(event->body, &m.token, err)) == LR_OK)
            on_token(g, &m.token);
        break;
    case WIRE_VECTOR:
        if ((code = wire_vector_decode(event->body, &m.vector, err)) == LR_OK)
            on_vector(g, &m.vector);
        break;
    case WIRE_DONE:
        if ((code = wire_done_decode(event->body, &m.done, err)) == LR_OK)
            on_done(g, &m.done);
        break;
    case WIRE_ERROR:
        if ((code = wire_error_decode(event->body, &m.error, err)) == LR_OK)
            on_error(g, &m.error);
        break;
    case WIRE_REFUSED:
        if ((code = wire_error_decode(event->body, &m.error, err)) == LR_OK)
            on_refused(g, &m.error.error);
        break;
    case WIRE_LOST:
        if ((code = wire_lost_decode(event->body, &m.lost, err)) == LR_OK)
            on_worker_lost(g, &m.lost);
        break;
    case WIRE_ACCEPTED:
        on_accepted(g, event->body);
        break;
    case WIRE_WEIGHTS:
        if ((code = wire_weights_decode(event->body, &m.weights, err)) == LR_OK)
            on_weights(g, &m.weights);
        break;
    case WIRE_PREFILL:
        if (wire_prefill_decode(event->body, &m.prefill, NULL) != LR_OK)
            break;
        router_sched_prefill(&g->ticket);
        g->attempt.prefill_done = m.prefill.done;
        g->attempt.prefill_total = m.prefill.total;
        /* A continuation computes more than the prompt, whose size was told before. */
        if (g->usage.prompt_tokens == 0) {
            g->usage.prompt_tokens = m.prefill.total;
            chat_turn_prompt_tokens(&g->call->turn, g->index, m.prefill.total);
        }
        break;
    case WIRE_LOADING:
        g->attempt.loaded_ns = g->attempt.heard_ns;
        if (wire_loading_decode(event->body, &m.loading, NULL) == LR_OK) {
            g->attempt.load_done = m.loading.done;
            g->attempt.load_total = m.loading.total;
        }
        break;
    default:
        break; /* signs of life */
    }
    return code;
}

static void on_event(void *arg, const struct wire_frame *event, bool has_more)
{
    struct router_generation *g = arg;
    struct router_call *call = g->call;
    struct lr_error err;
    router_call_hold(call);
    g->attempt.heard_ns = now_ns(g);
    if (g->state == ROUTER_GENERATION_STOPPED)
        on_event_stopped(g, event);
    else if (take_event(g, event, &err) != LR_OK)
        try_again(g, ROUTER_FAILED, &err);
    /* A complete answer does not wait for the rest of the batch. */
    if (!has_more || chat_turn_is_complete(&call->turn))
        chat_turn_flush(&call->turn);
    router_call_drop(call);
}

static void on_lost(void *arg, const struct lr_error *err)
{
    struct router_generation *g = arg;
    struct router_call *call = g->call;
    struct lr_log_ctx log = log_of(g);
    struct lr_error cut;
    router_call_hold(call);
    if (g->state == ROUTER_GENERATION_STOPPED) {
        end(g, &not_wanted);
    } else {
        /* The transport's words name the node's address: for the log, not for the client. */
        lr_log_warn(&(struct lr_log_ctx){log.request_id, err}, "request.cut node=%s reason=%s",
                    g->ticket.node->name, err->text);
        (void)lr_fail_plain(&cut, link_failed);
        cut.code = err->code;
        try_again(g, ROUTER_FAILED, &cut);
    }
    router_call_drop(call);
}

/* ---- an attempt begins ---- */

/* The rest of the time within which the answer must begin (setting queue-timeout): a node that
 * loads the model for longer drops the request.  0: no limit. */
static uint64_t time_to_begin(const struct router_generation *g)
{
    uint64_t limit = g->ticket.dispatch->sched.queue_timeout_ms;
    uint64_t waited = (g->attempt.sent_ns - g->call->begun_ns) / 1000000;
    if (limit == 0)
        return 0;
    /* A continuation may have begun long ago. */
    return g->call->first_ns != 0 ? limit : waited < limit ? limit - waited : 1;
}

static struct wire_generate describe(const struct router_generation *g)
{
    const struct router_call *call = g->call;
    struct wire_generate ask;
    chat_turn_ask(&call->turn, g->index, &ask);
    /* An old node would refuse what it does not know: its answer is free instead. */
    if (g->ticket.node->protocol < call->turn.since)
        ask.constraint = (struct lr_str){0};
    ask.request_id = lr_str_z(g->ticket.name);
    ask.model = lr_str_z(g->ticket.replica->id);
    ask.trace = lr_str_z(call->trace);
    ask.leaves = lr_str_z(g->ticket.swap);
    ask.cache_scope = lr_str_z(router_caller_id(&call->access->caller));
    ask.generated = (const uint32_t *)(const void *)g->generated.data;
    ask.generated_count = router_generation_tokens(g);
    ask.weights = lr_str_z(g->ticket.weights);
    ask.no_queue = true;
    ask.entry = g->entry;
    ask.cohort = g->cohort;
    ask.deadline_ms = time_to_begin(g);
    return ask;
}

/* Notes the node, for the client's headers and the usage records. */
static void note_node(struct router_generation *g)
{
    struct router_call *call = g->call;
    if (call->granted_ns == 0)
        call->granted_ns = g->attempt.sent_ns;
    if (g->index != 0)
        return;
    (void)snprintf(call->access->node, sizeof(call->access->node), "%s", g->ticket.node->id);
    (void)snprintf(call->why, sizeof(call->why), "%s", g->ticket.why);
}

/* The ticket holds a slot on ticket.node. */
static void begin_attempt(struct router_generation *g)
{
    struct lr_error err;
    uint64_t now = now_ns(g);
    g->attempt = (struct router_attempt){
        .stream = {.arg = g, .on_event = on_event, .on_lost = on_lost},
        .tokens_before = router_generation_tokens(g),
        .sent_ns = now,
        .heard_ns = now,
    };
    if (!router_generation_move(g, ROUTER_GENERATION_SENT))
        return;
    note_node(g);
    router_tell(&(struct router_fact){
        .kind = ROUTER_FACT_SENT, .call = g->call, .generation = g, .at_ns = now});
    struct wire_generate ask = describe(g);
    lr_code code = router_link_submit(&g->call->relay->links, g->ticket.node, &ask,
                                      &g->attempt.stream, &err);
    if (code == LR_TOO_LARGE)
        fail(g, &err);
    else if (code != LR_OK)
        try_again(g, ROUTER_FAILED, &err);
}

/* ---- a slot ---- */

static void refuse(struct router_generation *g, const struct lr_error *err)
{
    if (g->call->req != NULL) /* before the answer begins */
        net_response_retry_after(g->call->req, g->ticket.retry_s);
    fail(g, err);
}

static void ask_for_slot(struct router_generation *g, bool again)
{
    struct lr_error err;
    if (router_generation_tokens(g) == 0)
        g->ticket.weights[0] = '\0'; /* it begins anew, with whichever */
    g->asked_ns = now_ns(g);
    switch (router_admit(&g->ticket, again, &err)) {
    case ROUTER_GRANTED:
        begin_attempt(g);
        break;
    case ROUTER_WAITING:
        router_tell(&(struct router_fact){.kind = ROUTER_FACT_QUEUED,
                                          .call = g->call,
                                          .generation = g,
                                          .at_ns = g->asked_ns});
        (void)router_generation_move(g, ROUTER_GENERATION_QUEUED);
        break;
    case ROUTER_REFUSED:
        refuse(g, &err);
        break;
    }
}

static void on_ready(struct router_ticket *ticket, const struct lr_error *err)
{
    struct router_generation *g = (struct router_generation *)(void *)ticket;
    struct router_call *call = g->call;
    router_call_hold(call);
    if (g->state == ROUTER_GENERATION_STOPPED)
        end(g, &not_wanted);
    else if (err != NULL)
        refuse(g, err);
    else
        begin_attempt(g);
    router_call_drop(call);
}

/* The slot is given back when the node has confirmed, so that the node is never sent more than
 * it takes; what the node makes until then is not lost. */
static void on_preempt(struct router_ticket *ticket)
{
    struct router_generation *g = (struct router_generation *)(void *)ticket;
    struct router_call *call = g->call;
    if (g->state == ROUTER_GENERATION_RUNNING)
        router_link_cancel(&g->attempt.stream); /* its last event goes on */
    if (g->state != ROUTER_GENERATION_SENT)
        return;
    router_call_hold(call);
    give_way(g);
    router_call_drop(call);
}

/* ---- for the turn ---- */

lr_code router_generation_start(void *call, uint32_t index, struct lr_error *err)
{
    struct router_generation *g = &((struct router_call *)call)->generations[index];
    (void)err;
    g->ticket.on_ready = on_ready;
    g->ticket.on_preempt = on_preempt;
    ask_for_slot(g, false);
    return LR_OK;
}

bool router_generation_stop(void *call, uint32_t index, struct chat_usage *usage)
{
    struct router_generation *g = &((struct router_call *)call)->generations[index];
    if (usage != NULL)
        *usage = usage_of_stopped(g);
    else
        g->stopped_ns = 0;
    bool is_on_node = g->state == ROUTER_GENERATION_RUNNING ||
                      (g->state == ROUTER_GENERATION_SENT && g->attempt.stream.sent_ns != 0);
    if (is_on_node) {
        router_link_cancel(&g->attempt.stream);
        /* Only the node's last event tells how much of the prompt was cached. */
        if (router_generation_move(g, ROUTER_GENERATION_STOPPED) && usage != NULL)
            g->stopped_ns = now_ns(g);
    } else if (g->state == ROUTER_GENERATION_QUEUED || g->state == ROUTER_GENERATION_SENT) {
        (void)router_generation_move(g, abandon(g));
    }
    return g->stopped_ns == 0;
}
