/* node/host/frames.c - what a worker says while it lives, and what follows from each word.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "node/host/reload.h"
#include "node/models/models.h"

/* The generation that a word of this worker is about; NULL: it has ended. */
static struct node_generation *generation_of(const struct node_worker *w, uint64_t id)
{
    struct node_generation *g = lr_slots_find(&w->models->generations, id);
    return g != NULL && g->attempt.worker == w ? g : NULL;
}

static void relay_loading(struct node_worker *w, const struct wire_frame *frame)
{
    struct node_model *model = w->model;
    struct wire_loading m;
    if (wire_loading_decode(frame->body, &m, NULL) != LR_OK)
        return;
    w->load_done = m.done;
    w->load_total = m.total;
    (void)snprintf(w->load_phase, sizeof(w->load_phase), LR_STR_FMT, LR_STR_ARG(m.phase));
    if (w != w->replica->worker || model->state == NODE_MODEL_READY)
        return; /* requests do not wait for an extra replica */
    uint64_t now = node_now(w->models);
    for (struct node_generation *g = model->queue, *next; g != NULL; g = next) {
        next = g->next;
        if (now - g->last_event_ms >= 100)
            node_generation_tell(g, frame);
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
    w->opened_ms = node_now(w->models);
    node_kv_limit_begin(w);
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
static void note_token(struct node_worker *w, struct node_generation *g)
{
    struct node_attempt *a = &g->attempt;
    a->tokens++;
    if (a->first_token_ms == 0)
        a->first_token_ms = node_now(w->models);
    if (a->progress != NODE_PROGRESS_ENTERED)
        node_generation_entered(g);
    /* The last of its cohort to come far enough lets the next cohort in. */
    if (a->probation != 0 && --a->probation == 0 && w == w->replica->worker)
        node_model_pump(w->model);
}

/* The step that was under way is over: the requests that entered with it have survived it. */
static void step_survived(struct node_worker *w)
{
    if (w->entering_count == 0)
        return;
    for (struct node_generation *g = w->live; g != NULL; g = g->next)
        if (g->attempt.progress == NODE_PROGRESS_ENTERING)
            node_generation_entered(g);
    if (w == w->replica->worker)
        node_model_pump(w->model);
}

static void frames_enter(struct node_worker *w, const struct wire_frame *frame)
{
    size_t count = wire_enter_count(frame->body);
    for (size_t i = 0; i < count; i++) {
        struct node_generation *g = generation_of(w, wire_enter_id(frame->body, i));
        if (g != NULL)
            node_generation_enter(g);
    }
}

static void token(struct node_worker *w, const struct wire_frame *frame)
{
    struct node_generation *g = generation_of(w, wire_event_request(frame->body));
    uint32_t id;
    if (g == NULL || !wire_token_id(frame->body, &id))
        return;
    if (!node_generation_keep_token(g, id)) {
        struct lr_error err;
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for the tokens of a request");
        node_generation_abandon(g, &err, true);
        return;
    }
    note_token(w, g);
    /* It works: a later crash is a new one, not the next of a row.  Each request takes at
     * most two workers with it, so this cannot become a loop. */
    if (w == w->replica->worker)
        node_replica_served(w->replica);
    w->models->count.tokens++;
    w->model->tokens_out++;
    node_generation_tell(g, frame);
}

/* The result of an embedding or a score; DONE follows. */
static void vector(struct node_worker *w, const struct wire_frame *frame)
{
    struct node_generation *g = generation_of(w, wire_event_request(frame->body));
    if (g == NULL)
        return;
    note_token(w, g);
    node_generation_tell(g, frame);
}

/* A new value counts a fifth. */
static void frames_average(uint64_t *value, uint64_t measured)
{
    *value = *value != 0 ? (4 * *value + measured) / 5 : measured;
}

/* What a finished request tells about this node: a prompt that was computed here, tokens
 * that came one after the other.  Of its last attempt only: an earlier worker's times say
 * nothing about this one's. */
static void frames_measure(struct node_model *model, const struct node_generation *g,
                           const struct wire_done *m)
{
    /* Fewer say little: the clock counts milliseconds, and what is left of a cached prompt
     * takes a step's time whatever it is. */
    enum { TOKENS_LEAST = 8, FRESH_LEAST = 64 };
    const struct node_attempt *a = &g->attempt;
    uint64_t fresh = lr_elapsed(m->cached_tokens, (uint64_t)m->prompt_tokens + a->given);
    if (a->first_token_ms == 0 || g->state == NODE_GENERATION_PROVING)
        return;
    if (fresh >= (m->cached_tokens != 0 ? FRESH_LEAST : TOKENS_LEAST))
        frames_average(&model->prefill_us,
                       lr_elapsed(a->submitted_ms, a->first_token_ms) * 1000 / fresh);
    if (a->tokens >= TOKENS_LEAST)
        frames_average(&model->step_us, lr_elapsed(a->first_token_ms, node_now(model->models)) *
                                            1000 / (a->tokens - 1));
}

static void done(struct node_worker *w, const struct wire_frame *frame)
{
    struct node_generation *g = generation_of(w, wire_event_request(frame->body));
    struct node_model *model = w->model;
    struct wire_done m;
    if (g == NULL || wire_done_decode(frame->body, &m, NULL) != LR_OK)
        return;
    if (w == w->replica->worker && m.reason != LR_FINISH_ERROR &&
        m.reason != LR_FINISH_CANCELLED)
        node_replica_served(w->replica);
    model->is_caching = model->is_caching || m.cached_tokens != 0;
    if (m.reason == LR_FINISH_ERROR) {
        if (m.error.code == LR_OK)
            (void)lr_fail_plain(&m.error, engine_gave_up);
        bool retryable = m.error.code == LR_OUT_OF_VRAM || m.error.code == LR_OUT_OF_RAM;
        node_generation_fail(g, &m.error, retryable);
    } else {
        frames_measure(model, g, &m);
        node_generation_tell(g, frame);
        node_generation_end(g);
    }
    if (w == w->replica->worker)
        node_model_pump(model);
    else if (w->live_count == 0 && w != w->replica->candidate)
        node_worker_retire(w);
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

static void frames_on_frame(struct node_worker *w, const struct wire_frame *frame)
{
    struct node_generation *g;
    struct wire_error failed;
    uint64_t limit;
    if (frame->type != WIRE_LOG)
        w->progress_ms = node_now(w->models);
    switch (frame->type) {
    case WIRE_TOKEN:
        token(w, frame);
        break;
    case WIRE_DONE:
        done(w, frame);
        break;
    case WIRE_VECTOR:
        vector(w, frame);
        break;
    case WIRE_PREFILL:
        if ((g = generation_of(w, wire_event_request(frame->body))) != NULL)
            node_generation_tell(g, frame);
        break;
    case WIRE_TICK:
        (void)!wire_tick_decode(frame->body, &w->stats, NULL);
        step_survived(w);
        node_kv_limit_settle(w, false);
        break;
    case WIRE_LIMITED:
        if (wire_u64_decode(frame->body, &limit, NULL) == LR_OK)
            node_kv_limit_settle(w, limit == w->kv_sent);
        break;
    case WIRE_ENTER:
        frames_enter(w, frame);
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

/* Counts what each generation will hear of this read: the last of it is what sends it off. */
static bool count_ahead(struct node_worker *w, const struct wire_reader *frames)
{
    struct wire_frame frame;
    size_t at = 0;
    unsigned connections = 0;
    /* The events for routers leave together at the end of the read. */
    while (w->connection_count != 0 && wire_reader_look(frames, &at, &frame)) {
        if (frame.type != WIRE_TOKEN && frame.type != WIRE_DONE && frame.type != WIRE_PREFILL &&
            frame.type != WIRE_VECTOR)
            continue;
        struct node_generation *g = generation_of(w, wire_event_request(frame.body));
        if (g != NULL && g->attempt.ahead++ == 0)
            connections += g->sink.has_connection;
    }
    return connections >= BURST_LEAST;
}

lr_code node_worker_on_frames(void *worker, struct wire_reader *frames, struct lr_error *err)
{
    struct node_worker *w = worker;
    struct node_models *models = w->models;
    struct wire_frame frame;
    bool has;
    lr_code code;
    bool is_burst = count_ahead(w, frames);
    if (is_burst)
        net_loop_burst_begin(models->loop, node_proc_source(w->proc));
    node_batch_begin(&models->batch);
    while ((code = wire_reader_next(frames, &frame, &has, err)) == LR_OK && has)
        frames_on_frame(w, &frame);
    node_batch_end(&models->batch);
    if (is_burst)
        net_loop_burst_end(models->loop);
    return code;
}

void node_worker_on_line(void *worker, struct lr_str line)
{
    struct node_worker *w = worker;
    lr_log_warn(NULL, "engine.output engine=%s model=%s pid=%d text=" LR_STR_FMT,
                w->library->engine_id, w->model->id, (int)node_proc_pid(w->proc),
                LR_STR_ARG(line));
}

lr_code node_answer_on_frames(void *answer, struct wire_reader *frames, struct lr_error *err)
{
    struct node_answer *a = answer;
    struct wire_frame frame;
    struct wire_error m;
    bool has;
    lr_code code;
    while ((code = wire_reader_next(frames, &frame, &has, err)) == LR_OK && has) {
        if (frame.type == WIRE_PROBED)
            a->has_need = wire_need_decode(frame.body, &a->need, NULL) == LR_OK;
        if (frame.type == WIRE_FAILED && wire_error_decode(frame.body, &m, NULL) == LR_OK)
            a->error = m.error;
    }
    return code;
}
