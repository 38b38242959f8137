/* node/workers/frames.c - what a worker says while it lives, and what follows from each word.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "node/state.h"
#include "node/workers/reload.h"

static void relay_loading(struct node_worker *w, const struct wire_frame *frame)
{
    struct node_model *model = w->model;
    struct wire_loading m;
    if (wire_loading_decode(frame->body, &m, NULL) != LR_OK)
        return;
    w->load_done = m.done;
    w->load_total = m.total;
    (void)snprintf(w->load_phase, sizeof(w->load_phase), LR_STR_FMT, LR_STR_ARG(m.phase));
    if (w != w->replica->worker)
        return;
    uint64_t now = node_now(w->node);
    for (struct node_generation *r = model->queue, *next; r != NULL; r = next) {
        next = r->next;
        if (now - r->last_event_ms >= 100)
            node_generation_event(r, frame);
    }
}

static void opened(struct node_worker *w, const struct wire_frame *frame)
{
    struct node_model *model = w->model;
    if (w->state != NODE_WORKER_LOADING ||
        wire_need_decode(frame->body, &w->need, NULL) != LR_OK)
        return; /* it ends already: nobody wants it any more */
    bool is_candidate = w == w->replica->candidate;
    node_worker_move(w, is_candidate ? NODE_WORKER_PROVING : NODE_WORKER_READY);
    w->opened_ms = node_now(w->node);
    model->load_ms = w->opened_ms - w->started_ms;
    lr_log_info(NULL,
                "worker.ready model=%s pid=%d engine=%s version=%s ms=%" PRIu64
                " bytes=%" PRIu64 " slots=%u",
                model->id, (int)node_proc_pid(w->proc), w->library->engine_id,
                w->library->version, model->load_ms, w->need.total, w->need.max_sequences);
    if (is_candidate)
        node_reload_prove(w);
    else
        node_replica_opened(w->replica);
}

/* What a token says about the attempt it belongs to. */
static void note_token(struct node_worker *w, struct node_generation *r)
{
    struct node_attempt *a = &r->attempt;
    a->tokens++;
    if (a->first_token_ms == 0)
        a->first_token_ms = node_now(w->node);
    if (!a->has_entered)
        node_generation_entered(r);
    /* The last of its cohort to come far enough lets the next cohort in. */
    if (a->probation != 0 && --a->probation == 0 && w == w->replica->worker)
        node_model_pump(w->model);
}

/* The step that was under way is over: the requests that entered with it have survived it. */
static void step_survived(struct node_worker *w)
{
    if (w->entering_count == 0)
        return;
    for (struct node_generation *r = w->live; r != NULL; r = r->next)
        if (r->attempt.is_entering)
            node_generation_entered(r);
    if (w == w->replica->worker)
        node_model_pump(w->model);
}

static void enter(struct node_worker *w, const struct wire_frame *frame)
{
    size_t count = wire_enter_count(frame->body);
    for (size_t i = 0; i < count; i++) {
        struct node_generation *r =
            node_generation_find(w->node, wire_enter_id(frame->body, i));
        if (r == NULL || r->worker != w || r->attempt.is_entering || r->attempt.has_entered)
            continue;
        r->attempt.is_entering = true;
        w->entering_count++;
    }
}

static void token(struct node_worker *w, const struct wire_frame *frame)
{
    struct node_generation *r = node_generation_find(w->node, wire_event_request(frame->body));
    uint32_t id;
    if (r == NULL || r->worker != w || !wire_token_id(frame->body, &id))
        return;
    if (!node_generation_keep_token(r, id)) {
        struct lr_error err;
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for the tokens of a request");
        node_generation_abandon(r, &err, true);
        return;
    }
    note_token(w, r);
    /* It works: a later crash is a new one, not the next of a row.  Each request takes at
     * most two workers with it, so this cannot become a loop. */
    if (w == w->replica->worker)
        node_model_served(w->model);
    w->node->count.tokens++;
    w->model->tokens_out++;
    node_generation_event(r, frame);
}

/* A new value counts a fifth. */
static void average(uint64_t *value, uint64_t measured)
{
    *value = *value != 0 ? (4 * *value + measured) / 5 : measured;
}

/* What a finished request tells about this node: a prompt that was computed here, tokens
 * that came one after the other.  Of its last attempt only: an earlier worker's times say
 * nothing about this one's. */
static void measure(struct node_model *model, const struct node_generation *r,
                    const struct wire_done *m)
{
    /* Fewer say little: the clock counts milliseconds, and what is left of a cached prompt
     * takes a step's time whatever it is. */
    enum { TOKENS_LEAST = 8, FRESH_LEAST = 64 };
    const struct node_attempt *a = &r->attempt;
    uint64_t fresh = lr_elapsed(m->cached_tokens, (uint64_t)m->prompt_tokens + a->given);
    if (a->first_token_ms == 0 || r->is_proof)
        return;
    if (fresh >= (m->cached_tokens != 0 ? FRESH_LEAST : TOKENS_LEAST))
        average(&model->prefill_us,
                lr_elapsed(a->submitted_ms, a->first_token_ms) * 1000 / fresh);
    if (a->tokens >= TOKENS_LEAST)
        average(&model->step_us,
                lr_elapsed(a->first_token_ms, node_now(model->node)) * 1000 / (a->tokens - 1));
}

static void done(struct node_worker *w, const struct wire_frame *frame)
{
    struct node_generation *r = node_generation_find(w->node, wire_event_request(frame->body));
    struct node_model *model = w->model;
    struct wire_done m;
    if (r == NULL || r->worker != w || wire_done_decode(frame->body, &m, NULL) != LR_OK)
        return;
    if (w == w->replica->worker && m.reason != LR_FINISH_ERROR &&
        m.reason != LR_FINISH_CANCELLED)
        node_model_served(model);
    if (m.reason == LR_FINISH_ERROR) {
        if (m.error.code == LR_OK)
            (void)lr_fail(&m.error, LR_INTERNAL, "the engine gave up without a reason");
        bool retryable = m.error.code == LR_OUT_OF_VRAM || m.error.code == LR_OUT_OF_RAM;
        node_generation_fail(r, &m.error, retryable);
    } else {
        measure(model, r, &m);
        node_generation_event(r, frame);
        node_generation_end(r);
    }
    if (w == w->replica->worker)
        node_model_pump(model);
    else if (w->live_count == 0 && w != w->replica->candidate)
        node_worker_retire(w);
}

static void prefill(struct node_worker *w, const struct wire_frame *frame)
{
    struct node_generation *r = node_generation_find(w->node, wire_event_request(frame->body));
    if (r != NULL && r->worker == w)
        node_generation_event(r, frame);
}

static void engine_log(struct node_worker *w, const struct wire_frame *frame)
{
    static const enum lr_log_level levels[] = {LR_LOG_DEBUG, LR_LOG_INFO, LR_LOG_WARN,
                                               LR_LOG_ERROR};
    struct wire_log m;
    if (wire_log_decode(frame->body, &m, NULL) != LR_OK)
        return;
    enum lr_log_level level = levels[m.level >= 0 && m.level <= 3 ? m.level : 1];
    lr_log(level, NULL, "engine.log engine=%s model=%s event=" LR_STR_FMT " text=" LR_STR_FMT,
           w->library->engine_id, w->model->id, LR_STR_ARG(m.event), LR_STR_ARG(m.text));
}

static void on_frame(void *arg, const struct wire_frame *frame)
{
    struct node_worker *w = arg;
    struct wire_error failed;
    if (frame->type != WIRE_LOG)
        w->progress_ms = node_now(w->node);
    switch (frame->type) {
    case WIRE_TOKEN:
        token(w, frame);
        break;
    case WIRE_DONE:
        done(w, frame);
        break;
    case WIRE_PREFILL:
        prefill(w, frame);
        break;
    case WIRE_TICK:
        (void)!wire_tick_decode(frame->body, &w->stats, NULL);
        step_survived(w);
        break;
    case WIRE_ENTER:
        enter(w, frame);
        break;
    case WIRE_LOADING:
        relay_loading(w, frame);
        break;
    case WIRE_OPENED:
        opened(w, frame);
        break;
    case WIRE_FAILED:
        if (wire_error_decode(frame->body, &failed, NULL) == LR_OK)
            w->failure = failed.error;
        break;
    case WIRE_LOG:
        engine_log(w, frame);
        break;
    default:
        break; /* HELLO, and what a later version may say */
    }
}

/* Connections a batch will write to, for which waking the sending thread is worth its price:
 * they take as long as it takes to wake (bench/results/node-2026-11-15.md). */
enum { BURST_LEAST = 8 };

/* Counts what each request will hear in this batch: the last of it is what sends it off. */
static void on_batch(void *arg, const struct wire_reader *frames)
{
    struct node_worker *w = arg;
    struct wire_frame frame;
    size_t at = 0;
    unsigned connections = 0;
    node_batch_begin(&w->node->batch);
    /* The events for routers leave together at the batch's end. */
    while (w->connection_count != 0 && wire_reader_look(frames, &at, &frame)) {
        if (frame.type != WIRE_TOKEN && frame.type != WIRE_DONE && frame.type != WIRE_PREFILL)
            continue;
        struct node_generation *r =
            node_generation_find(w->node, wire_event_request(frame.body));
        if (r == NULL)
            continue;
        if (r->ahead++ == 0 && r->sink.has_connection && ++connections == BURST_LEAST)
            net_loop_burst_begin(w->node->loop, node_proc_source(w->proc));
    }
}

static void on_batch_end(void *arg)
{
    struct node_worker *w = arg;
    node_batch_end(&w->node->batch);
    net_loop_burst_end(w->node->loop);
}

static void on_line(void *arg, struct lr_str line)
{
    struct node_worker *w = arg;
    lr_log_warn(NULL, "engine.output engine=%s model=%s pid=%d text=" LR_STR_FMT,
                w->library->engine_id, w->model->id, (int)node_proc_pid(w->proc),
                LR_STR_ARG(line));
}

struct node_proc_callbacks node_worker_callbacks(struct node_worker *worker)
{
    return (struct node_proc_callbacks){
        .arg = worker,
        .on_frame = on_frame,
        .on_batch = on_batch,
        .on_batch_end = on_batch_end,
        .on_line = on_line,
    };
}
