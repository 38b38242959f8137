/* router/relay/leg_events.c - what a node says about one generation. */
#include <stdlib.h>

#include "router/relay/call.h"
#include "wire/event.h"

/* ---- tokens ---- */

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
    struct router_metrics *metrics = &leg->call->loop->router->metrics;
    uint64_t now = lr_clock_ns(NULL);
    if (leg->first_ns == 0) {
        leg->first_ns = now;
        leg->attempts = 0;
        router_trust(&leg->job);
    } else {
        router_observe(&metrics->inter_token, now - leg->last_ns);
    }
    leg->last_ns = now;
    leg->attempt_tokens++;
    /* Wherever it goes next, for another reason, it goes unsuspected. */
    if (leg->entry != WIRE_ENTRY_COHORT || leg->attempt_tokens >= WIRE_PROBATION_TOKENS) {
        leg->entry = WIRE_ENTRY_RESUMED;
        leg->job.bound = NULL;
    }
}

static void on_token(struct router_leg *leg, struct lr_str body)
{
    struct wire_token t;
    struct lr_error err;
    if (wire_token_decode(body, &t, &err) != LR_OK) {
        router_leg_move(leg, ROUTER_FAILED, &err);
        return;
    }
    if (!keep_id(leg, t.id)) {
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for a token");
        router_leg_fail(leg, &err);
        return;
    }
    note_times(leg);
    router_call_token(leg, &t);
}

/* ---- the end ---- */

static void take_usage(struct router_leg *leg, const struct wire_done *m)
{
    leg->prompt_tokens = m->prompt_tokens;
    leg->cached_tokens = m->cached_tokens;
    leg->counted_tokens = m->completion_tokens;
}

static void on_done(struct router_leg *leg, struct lr_str body)
{
    struct wire_done m;
    struct lr_error err;
    if (wire_done_decode(body, &m, &err) != LR_OK) {
        router_leg_move(leg, ROUTER_FAILED, &err);
        return;
    }
    if (m.reason == LR_FINISH_CANCELLED && router_was_preempted(&leg->job)) {
        router_leg_preempt(leg);
        return;
    }
    if (m.reason == LR_FINISH_CANCELLED) {
        /* Not by us: is_leaving is set then. */
        (void)lr_fail(&err, LR_UPSTREAM, "the node cancelled the request");
        router_leg_move(leg, ROUTER_FAILED, &err);
        return;
    }
    take_usage(leg, &m);
    if (m.reason == LR_FINISH_ERROR) {
        router_leg_fail(leg, &m.error);
        return;
    }
    struct chat_usage usage = {m.prompt_tokens, m.completion_tokens, m.cached_tokens};
    router_leg_done(leg);
    router_call_done(leg, m.reason, &usage);
}

/* The node cannot load the model now, which is known at once, and no other node is left to
 * ask: nobody who has nothing yet waits to hear it. */
static bool is_hopeless(struct router_leg *leg, const struct lr_error *why)
{
    bool cannot_load = why->code == LR_UNAVAILABLE || why->code == LR_OUT_OF_VRAM ||
                       why->code == LR_OUT_OF_RAM || why->code == LR_MODEL_CORRUPT ||
                       why->code == LR_UNSUPPORTED;
    return cannot_load && leg->generated_count == 0 && !router_has_another(&leg->job);
}

static void on_error(struct router_leg *leg, struct lr_str body)
{
    struct wire_error m;
    struct lr_error err;
    if (wire_error_decode(body, &m, &err) != LR_OK)
        router_leg_move(leg, ROUTER_FAILED, &err);
    else if (m.retryable && is_hopeless(leg, &m.error))
        router_leg_fail(leg, &m.error);
    else if (m.retryable)
        router_leg_move(leg, ROUTER_FAILED, &m.error);
    else
        router_leg_fail(leg, &m.error);
}

/* The engine died with this generation in it.  The node is well, and says how the generation
 * goes in again. */
static void on_lost(struct router_leg *leg, struct lr_str body)
{
    struct wire_lost m;
    struct lr_error err;
    if (wire_lost_decode(body, &m, &err) != LR_OK) {
        router_leg_move(leg, ROUTER_FAILED, &err);
        return;
    }
    leg->entry = m.entry;
    leg->cohort = m.cohort;
    leg->strikes += m.has_strike;
    leg->job.bound =
        m.entry == WIRE_ENTRY_COHORT && m.cohort != WIRE_COHORT_TOGETHER ? leg->job.node : NULL;
    if (leg->strikes < WIRE_STRIKES_MAX) {
        router_leg_move(leg, ROUTER_LOST, &m.error);
        return;
    }
    (void)wire_lost_fail(&err, &m.error);
    router_leg_poison(leg, &err);
}

/* The client has left, or has all it wants: only the usage is of interest. */
static void on_last_event(struct router_leg *leg, const struct wire_frame *frame)
{
    struct wire_done m;
    if (!wire_event_is_last(frame->type))
        return;
    if (frame->type == WIRE_DONE && wire_done_decode(frame->body, &m, NULL) == LR_OK)
        take_usage(leg, &m);
    router_leg_done(leg);
}

/* ---- a refusal ---- */

/* What a client may hear of a node's refusal. */
static lr_code code_for_client(lr_code code)
{
    switch (lr_code_http(code)) {
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

static void on_refused(struct router_leg *leg, struct lr_str body)
{
    struct wire_error m;
    struct lr_error err;
    if (wire_error_decode(body, &m, &err) != LR_OK) {
        router_leg_move(leg, ROUTER_FAILED, &err);
        return;
    }
    m.error.code = code_for_client(m.error.code);
    if (m.error.code == LR_RATE_LIMITED)
        router_leg_move(leg, ROUTER_BUSY, &m.error);
    else if (m.error.code == LR_INVALID_ARGUMENT || m.error.code == LR_TOO_LARGE)
        router_leg_fail(leg, &m.error);
    else
        router_leg_move(leg, ROUTER_FAILED, &m.error);
}

/* ---- events ---- */

/* Without this event the swap is settled when the slot is given back. */
static void on_accepted(struct router_leg *leg, struct lr_str body)
{
    struct wire_accepted m;
    leg->is_taken = true;
    if (leg->job.swap[0] != '\0' && wire_accepted_decode(body, &m, NULL) == LR_OK)
        router_swap_confirmed(&leg->job, m.has_swapped);
}

static void on_prefill(struct router_leg *leg, struct lr_str body)
{
    struct wire_prefill m;
    /* A continuation computes more than the prompt, whose size was told before. */
    if (leg->prompt_tokens == 0 && wire_prefill_decode(body, &m, NULL) == LR_OK)
        leg->prompt_tokens = m.total;
}

void router_leg_hear(struct router_leg *leg, const struct wire_frame *frame)
{
    leg->heard_ms = net_loop_now_ms(leg->call->loop->net);
    if (leg->is_leaving) {
        on_last_event(leg, frame);
        return;
    }
    if (leg->is_over)
        return;
    switch (frame->type) {
    case WIRE_TOKEN:
        on_token(leg, frame->body);
        break;
    case WIRE_DONE:
        on_done(leg, frame->body);
        break;
    case WIRE_ERROR:
        on_error(leg, frame->body);
        break;
    case WIRE_LOST:
        on_lost(leg, frame->body);
        break;
    case WIRE_ACCEPTED:
        on_accepted(leg, frame->body);
        break;
    case WIRE_REFUSED:
        on_refused(leg, frame->body);
        break;
    case WIRE_PREFILL:
        on_prefill(leg, frame->body);
        break;
    case WIRE_LOADING:
        leg->loaded_ns = lr_clock_ns(NULL);
        break;
    default:
        break; /* signs of life */
    }
}
