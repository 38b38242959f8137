/* router/relay/observers.c - each kind of fact with those who measure it. */
#include "router/relay/fact.h"

#include "router/relay/call.h"
#include "router/relay/traced.h"
#include "router/relay/usage.h"

/* Requests that failed by the fleet's fault, not by the client's. */
static bool is_failure(uint32_t status)
{
    return status == 429 || status >= 500;
}

/* ---- counters and histograms ---- */

/* note_<member>(call, n) counts for GET /metrics and, where figures.def has a column for it, in
 * the history: it gets the call's figures with its usage. */
typedef void note_fn(struct router_call *call, uint64_t n);
#define ROUTER_COUNTER(member, name, help)                                                     \
    __attribute__((unused)) static void note_##member(struct router_call *call, uint64_t n)    \
    {                                                                                          \
        router_count(&call->relay->metrics->member, n);                                        \
    }
#define ROUTER_KEPT_COUNTER(member, name, help, column, series, title, ja)                     \
    __attribute__((unused)) static void note_##member(struct router_call *call, uint64_t n)    \
    {                                                                                          \
        router_count(&call->relay->metrics->member, n);                                        \
        call->figures[ROUTER_FIGURE_##member] += (int64_t)n;                                   \
    }
#include "router/figures/figures.def"

static void count_first_token(const struct router_fact *f)
{
    if (f->call->first_ns != 0)
        return; /* an answer that goes on elsewhere */
    router_observe_in(&f->call->relay->metrics->first_token, f->bucket, f->took_ns);
    router_observe_in(&f->call->model->metrics.first_token, f->bucket, f->took_ns);
}

static void count_token(const struct router_fact *f)
{
    router_observe_in(&f->call->relay->metrics->inter_token, f->bucket, f->took_ns);
    router_observe_in(&f->call->model->metrics.inter_token, f->bucket, f->took_ns);
}

static void count_sent(const struct router_fact *f)
{
    note_generations(f->call, 1);
}

static void count_left(const struct router_fact *f)
{
    const struct router_generation *g = f->generation;
    bool was_refused =
        f->why != NULL && f->why->code == LR_RATE_LIMITED && g->attempt.sent_ns == 0;
    /* A worker's death is not counted here: strikes count those that are blamed on it. */
    note_fn *moved = router_generation_tokens(g) != 0 ? note_continuations : note_retries;
    note_fn *notes[] = {
        [ROUTER_ENDED] = was_refused ? note_queue_full : NULL,
        [ROUTER_BUSY] = note_busy,
        [ROUTER_PREEMPTED] = note_preempted,
        [ROUTER_RECALLED] = note_recalled,
        [ROUTER_PAUSED] = note_paused,
        [ROUTER_LOST] = moved,
        [ROUTER_FAILED] = moved,
    };
    if (notes[f->outcome] != NULL)
        notes[f->outcome](f->call, 1);
}

static void observe_both(struct router_histogram *all, struct router_histogram *model,
                         uint64_t ns)
{
    size_t bucket = router_bucket_of(ns);
    router_observe_in(all, bucket, ns);
    router_observe_in(model, bucket, ns);
}

static void count_ended(const struct router_fact *f)
{
    struct router_call *call = f->call;
    struct router_metrics *m = call->relay->metrics;
    note_rate_limited(call, call->is_over_rate);
    router_count(&m->cancelled, f->code == LR_CANCELLED && f->why == NULL);
    if (call->link == NULL)
        return; /* it was no valid request */
    router_count(&m->failed, is_failure((uint32_t)f->status));
    observe_both(&m->total, &call->model->metrics.total, f->at_ns - call->begun_ns);
    if (call->granted_ns != 0)
        observe_both(&m->wait, &call->model->metrics.wait, call->granted_ns - call->begun_ns);
}

static void count_usage(const struct router_fact *f)
{
    const struct router_usage *row = &f->call->usage;
    struct router_metrics *all = f->call->relay->metrics;
    struct router_model_metrics *model = &f->call->model->metrics;
    router_count(&all->prompt_tokens, row->prompt_tokens);
    router_count(&all->completion_tokens, row->completion_tokens);
    router_count(&all->cached_tokens, row->cached_tokens);
    for (uint32_t i = 0; i < CHAT_REPAIR_COUNT; i++)
        router_count(&all->repaired[f->call->turn.format][i], f->call->turn.repairs[i]);
    router_count(&model->succeeded, row->status < 400);
    router_count(&model->prompt_tokens, row->prompt_tokens);
    router_count(&model->completion_tokens, row->completion_tokens);
    router_count(&model->cached_tokens, row->cached_tokens);
}

/* ---- the history of figures ---- */

static void chart_first_token(const struct router_fact *f)
{
    struct router_call *call = f->call;
    call->figures[ROUTER_FIGURE_completion_tokens] += f->tokens;
    call->flowed += f->tokens;
    if (call->first_ns == 0)
        call->figures[ROUTER_FIGURE_first_token + f->bucket]++;
}

static void chart_token(const struct router_fact *f)
{
    struct router_call *call = f->call;
    call->figures[ROUTER_FIGURE_completion_tokens] += f->tokens;
    call->flowed += f->tokens;
    call->figures[ROUTER_FIGURE_inter_token + f->bucket]++;
}

void router_observe_second(struct router_relay *relay)
{
    router_dispatch_lock(relay->dispatch);
    for (struct router_call *call = relay->calls; call != NULL; call = call->next) {
        if (call->figures[ROUTER_FIGURE_completion_tokens] == 0 ||
            chat_turn_is_over(&call->turn))
            continue;
        router_history_add(relay->history, call->model->id, call->access->node, call->figures);
        memset(call->figures, 0, sizeof(call->figures));
    }
    router_dispatch_unlock(relay->dispatch);
}

/* The call's last figures.  Its tokens flowed already, as far as the router has seen them. */
static void chart_usage(const struct router_fact *f)
{
    struct router_call *call = f->call;
    const struct router_usage *row = &call->usage;
    int64_t *figures = call->figures;
    figures[ROUTER_FIGURE_requests] = 1;
    figures[ROUTER_FIGURE_failed] = is_failure(row->status);
    figures[ROUTER_FIGURE_cancelled] = row->status == (uint32_t)lr_code_http(LR_CANCELLED);
    figures[ROUTER_FIGURE_prompt_tokens] = (int64_t)row->prompt_tokens;
    figures[ROUTER_FIGURE_completion_tokens] +=
        (int64_t)(row->completion_tokens - call->flowed);
    figures[ROUTER_FIGURE_cached_tokens] = (int64_t)row->cached_tokens;
    if (call->granted_ns != 0)
        figures[ROUTER_FIGURE_wait + router_bucket_of(call->granted_ns - call->begun_ns)]++;
    router_dispatch_lock(call->relay->dispatch);
    router_history_add(call->relay->history, row->model, row->node, figures);
    router_dispatch_unlock(call->relay->dispatch);
}

/* ---- who takes what ---- */

enum { OBSERVERS = 4 }; /* of one fact, and an end */
typedef void (*observer_fn)(const struct router_fact *fact);

/* The usage record is filled before others read it.  It is written to the store before the
 * client has the end of its answer: what the client has seen is counted, whatever happens to
 * this process next. */
static const observer_fn observers[ROUTER_FACTS][OBSERVERS + 1] = {
    [ROUTER_FACT_ARRIVED] = {router_trace_arrived, router_log_arrived},
    [ROUTER_FACT_NAMED] = {router_log_named},
    [ROUTER_FACT_VALID] = {router_log_valid},
    [ROUTER_FACT_QUEUED] = {router_log_queued},
    [ROUTER_FACT_SENT] = {count_sent, router_trace_sent, router_log_sent},
    [ROUTER_FACT_HEARD] = {router_log_heard},
    [ROUTER_FACT_FIRST_TOKEN] = {count_first_token, chart_first_token, router_log_first_token},
    [ROUTER_FACT_TOKEN] = {count_token, chart_token},
    [ROUTER_FACT_LEFT] = {count_left, router_log_left, router_trace_left},
    [ROUTER_FACT_ENDED] = {router_trace_ended, count_ended, router_usage_ended,
                           router_log_ended},
    [ROUTER_FACT_COUNTED] = {count_usage, chart_usage, router_log_counted},
    [ROUTER_FACT_FREED] = {router_usage_freed, router_trace_freed},
};

void router_tell(const struct router_fact *fact)
{
    for (const observer_fn *take = observers[fact->kind]; *take != NULL; take++)
        (*take)(fact);
}
