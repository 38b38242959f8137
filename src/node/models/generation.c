#include "node/models/generation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/list.h"
#include "base/log.h"
#include "base/machine.h"
#include "node/models/models.h"
#include "wire/bytes.h"

enum { TICK_MS = 900, SLOTS_BEYOND = 2, EVENT_BYTES = 4096 };

/* ---- states ---- */

#define TO(name) LR_STATE(NODE_GENERATION_##name)
static const struct lr_machine machine = {
    "generation",
    {
        [NODE_GENERATION_NEW] = {"new", TO(QUEUED) | TO(PROVING) | TO(OVER)},
        [NODE_GENERATION_QUEUED] = {"queued", TO(RUNNING) | TO(OVER)},
        [NODE_GENERATION_RUNNING] = {"running",
                                     TO(QUEUED) | TO(STOPPING) | TO(LEAVING) | TO(OVER)},
        [NODE_GENERATION_STOPPING] = {"stopping", TO(STOPPED) | TO(LEAVING) | TO(OVER)},
        [NODE_GENERATION_STOPPED] = {"stopped", TO(STOPPING) | TO(OVER)},
        [NODE_GENERATION_LEAVING] = {"leaving", TO(OVER)},
        [NODE_GENERATION_PROVING] = {"proving", TO(OVER)},
        [NODE_GENERATION_OVER] = {"over", 0},
    },
};

static bool is_queued(enum node_generation_state state)
{
    return state == NODE_GENERATION_QUEUED || state == NODE_GENERATION_STOPPED;
}

static bool is_told_to_end(enum node_generation_state state)
{
    return state == NODE_GENERATION_STOPPING || state == NODE_GENERATION_LEAVING;
}

static bool is_live(enum node_generation_state state)
{
    return state == NODE_GENERATION_RUNNING || is_told_to_end(state) ||
           state == NODE_GENERATION_PROVING;
}

/* A generation that a worker has already computed, here or elsewhere, is queued before all new
 * generations. */
static void join_queue(struct node_generation *g)
{
    struct node_model *model = g->model;
    struct node_generation **at = &model->queue;
    if (g->ask.entry == WIRE_ENTRY_NEW && model->queue != NULL)
        at = model->queue_end;
    while (*at != NULL && (*at)->ask.entry != WIRE_ENTRY_NEW)
        at = &(*at)->next;
    LR_LIST_PUSH(at, g, next, link);
    if (g->next == NULL)
        model->queue_end = &g->next;
    model->queue_count++;
}

static void leave_queue(struct node_generation *g)
{
    if (g->next == NULL)
        g->model->queue_end = g->link;
    LR_LIST_REMOVE(g, next, link);
    g->model->queue_count--;
}

static void join_worker(struct node_generation *g)
{
    struct node_worker *w = g->attempt.worker;
    bool is_newcomer = node_generation_is_newcomer(g);
    LR_LIST_PUSH(&w->live, g, next, link);
    w->newcomer_count += is_newcomer;
    w->suspect_count += is_newcomer && g->attempt.entry == WIRE_ENTRY_SUSPECT;
    w->connection_count += g->attempt.has_connection;
    if (w->live_count++ == 0)
        w->progress_ms = node_now(w->models);
}

void node_generation_enter(struct node_generation *g)
{
    if (g->attempt.progress != NODE_PROGRESS_NONE)
        return;
    g->attempt.progress = NODE_PROGRESS_ENTERING;
    g->attempt.worker->entering_count++;
}

void node_generation_entered(struct node_generation *g)
{
    struct node_worker *w = g->attempt.worker;
    bool is_newcomer = node_generation_is_newcomer(g);
    w->entering_count -= g->attempt.progress == NODE_PROGRESS_ENTERING;
    w->newcomer_count -= is_newcomer;
    w->suspect_count -= is_newcomer && g->attempt.entry == WIRE_ENTRY_SUSPECT;
    g->attempt.progress = NODE_PROGRESS_ENTERED;
}

/* What belongs to the attempt goes with it. */
static void leave_worker(struct node_generation *g)
{
    struct node_worker *w = g->attempt.worker;
    LR_LIST_REMOVE(g, next, link);
    node_generation_entered(g);
    w->connection_count -= g->attempt.has_connection;
    w->live_count--;
    g->attempt = (struct node_attempt){0};
}

static void send_cancel(struct node_generation *g)
{
    struct node_models *models = g->model->models;
    lr_buf_clear(&models->scratch);
    wire_u64_encode(&models->scratch, WIRE_CANCEL, g->id);
    if (g->attempt.worker->proc != NULL)
        (void)node_proc_send(g->attempt.worker->proc, lr_buf_str(&models->scratch));
}

static void refuse_move(struct node_generation *g, enum node_generation_state state)
{
    struct lr_error err;
    if (g->state == NODE_GENERATION_OVER)
        return;
    if (is_live(g->state))
        send_cancel(g);
    (void)lr_fail(&err, LR_INTERNAL,
                  "the node wanted to move the generation from %s to %s: a bug",
                  machine.states[g->state].name, machine.states[state].name);
    node_generation_fail(g, &err, true);
}

bool node_generation_move(struct node_generation *g, enum node_generation_state state)
{
    enum node_generation_state was = g->state;
    struct node_worker *w = g->attempt.worker;
    if (!lr_machine_allows(&machine, g->name, was, state)) {
        refuse_move(g, state);
        return false;
    }
    g->state = state;
    if (w != NULL) {
        w->leaving_count += is_told_to_end(state);
        w->leaving_count -= is_told_to_end(was);
    }
    if (is_queued(was))
        leave_queue(g);
    if (is_live(was) && !is_live(state))
        leave_worker(g);
    if (is_queued(state))
        join_queue(g);
    if (is_live(state) && !is_live(was))
        join_worker(g);
    return true;
}

/* ---- events ---- */

void node_generation_tell(struct node_generation *g, const struct wire_frame *frame)
{
    struct node_models *models = g->model->models;
    g->last_event_ms = node_now(models);
    if (g->attempt.ahead != 0)
        g->attempt.ahead--;
    models->batch.more_comes = g->attempt.ahead != 0;
    if (g->sink.on_event != NULL)
        g->sink.on_event(g->sink.ctx, frame);
}

/* An event of the node's own. */
static void tell_encoded(struct node_generation *g, const struct lr_buf *buf)
{
    struct lr_str bytes = lr_buf_str(buf);
    struct wire_frame frame;
    bool has;
    if (wire_frame_next(&bytes, &frame, &has, NULL) == LR_OK && has)
        node_generation_tell(g, &frame);
}

static void tell_accepted(struct node_generation *g, bool has_swapped)
{
    struct lr_buf *buf = &g->model->models->scratch;
    char engine[384] = "";
    const struct node_worker *w = node_model_worker(g->model);
    if (w != NULL && node_worker_has_opened(w))
        (void)snprintf(engine, sizeof(engine), "%s %s", w->library->engine_id,
                       w->library->version);
    struct wire_accepted m = {.request_id = g->ask.request_id,
                              .engine = lr_str_z(engine),
                              .has_swapped = has_swapped};
    lr_buf_clear(buf);
    wire_accepted_encode(buf, &m);
    tell_encoded(g, buf);
}

static void generation_release(struct node_generation *g)
{
    if (!node_generation_move(g, NODE_GENERATION_OVER))
        return;
    lr_slots_give(&g->model->models->generations, g->id);
    lr_buf_free(&g->generated);
    free(g->frame);
    free(g->prefixes);
    free(g);
}

/* A last event is not encoded in the node's scratch: its owner may begin another generation at
 * once. */
static void tell_error(struct node_generation *g, const struct lr_error *err, bool retryable)
{
    struct wire_error m = {.error = *err, .retryable = retryable};
    struct lr_buf event;
    lr_buf_init(&event, EVENT_BYTES);
    wire_error_encode(&event, WIRE_ERROR, &m);
    tell_encoded(g, &event);
    lr_buf_free(&event);
}

void node_generation_fail(struct node_generation *g, const struct lr_error *err, bool retryable)
{
    g->model->models->count.errors++;
    g->model->requests_failed++;
    tell_error(g, err, retryable);
    generation_release(g);
}

void node_generation_abandon(struct node_generation *g, const struct lr_error *err,
                             bool retryable)
{
    tell_error(g, err, retryable);
    node_generation_cancel(g);
}

void node_generation_end(struct node_generation *g)
{
    g->model->requests_done++;
    g->model->last_used_ms = node_now(g->model->models);
    generation_release(g);
}

/* ---- admission ---- */

/* The generation of this model that runs under this name and whose owner still listens; NULL:
 * none does. */
static struct node_generation *find_named(const struct node_model *model, struct lr_str name)
{
    for (struct node_worker *w = model->workers; name.len != 0 && w != NULL; w = w->next)
        for (struct node_generation *g = w->live; g != NULL; g = g->next)
            if (node_generation_is_served(g) && lr_str_eq(g->ask.request_id, name))
                return g;
    return NULL;
}

static bool is_full(const struct node_model *model, const struct node_generation *leaves)
{
    bool makes_room = leaves != NULL && leaves->state == NODE_GENERATION_RUNNING &&
                      leaves->attempt.worker == leaves->attempt.worker->replica->worker;
    return model->state == NODE_MODEL_READY &&
           node_replicas_load(model) + model->queue_count >=
               node_replicas_slots(model) + SLOTS_BEYOND + makes_room;
}

/* Whether weights that are not the model's made the tokens that are to be continued. */
static lr_code check_weights(const struct node_model *model, struct lr_str weights,
                             size_t tokens, struct lr_error *err)
{
    if (tokens == 0 || weights.len == 0 || model->weights[0] == '\0' ||
        lr_str_eq_z(weights, model->weights))
        return LR_OK;
    return lr_fail_as(err, other_weights, model->id, weights, model->weights);
}

static lr_code fail_cannot_run(const struct node_model *model, struct lr_error *err)
{
    (void)lr_fail_as(err, cannot_run, model->id, &model->reason);
    if (model->reason.code != LR_OK)
        err->code = model->reason.code;
    return err->code;
}

static lr_code check_admission(const struct node_model *model, const struct wire_submit *ask,
                               const struct node_generation *leaves, struct lr_error *err)
{
    if (model->models->is_draining)
        return lr_fail_plain(err, node_stops);
    if (model->is_purging)
        return lr_fail_as(err, being_deleted, model->id);
    if (model->state == NODE_MODEL_FAILED || model->state == NODE_MODEL_ABSENT ||
        model->engine == NULL)
        return fail_cannot_run(model, err);
    if (node_gpus_check(model, err) != LR_OK)
        return err->code;
    if (model->queue_count >= model->models->limits.queue)
        return lr_fail_as(err, node_queue, model->queue_count, model->id);
    if (ask->no_queue && is_full(model, leaves))
        return lr_fail_as(err, node_busy, node_replicas_slots(model), model->id);
    return check_weights(model, ask->weights, ask->generated_count, err);
}

/* The tokens that the owner gave: the frame's last. */
static void keep_given(struct node_generation *g)
{
    if (g->sink.takes_lost)
        return;
    struct wire_cursor c = wire_cursor(lr_str(g->frame, g->frame_len));
    c.at = c.end - 4 * (size_t)g->ask.generated_count;
    for (uint32_t i = 0; i < g->ask.generated_count; i++)
        (void)node_generation_keep_token(g, wire_get_u32(&c));
}

/* On no list yet, with a copy of the frame. */
static lr_code generation_create(struct node_model *model, struct lr_str frame,
                                 const struct wire_submit *ask, struct node_sink sink,
                                 struct node_generation **out, struct lr_error *err)
{
    struct node_models *models = model->models;
    struct node_generation *g = calloc(1, sizeof(*g));
    char *copy = malloc(frame.len);
    uint64_t id = g != NULL && copy != NULL ? lr_slots_take(&models->generations, g) : 0;
    *out = NULL;
    if (id == 0) {
        free(g);
        free(copy);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    }
    memcpy(copy, frame.ptr, frame.len);
    memcpy(g->name, ask->request_id.ptr, ask->request_id.len);
    g->id = id;
    g->model = model;
    g->frame = copy;
    g->frame_len = frame.len;
    g->sink = sink;
    g->seq = models->next_seq++;
    g->last_event_ms = node_now(models);
    g->ask = *ask;
    g->ask.request_id = lr_str_z(g->name);
    if (ask->generated_count != 0)
        LR_COPY(g->weights, ask->weights);
    g->ask.model = g->ask.trace = g->ask.leaves = g->ask.weights = (struct lr_str){0};
    lr_buf_init(&g->generated, WIRE_IDS_MAX * sizeof(uint32_t));
    wire_submit_address(g->frame, g->id);
    keep_given(g);
    if (g->generated.failed) {
        generation_release(g);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    }
    *out = g;
    return LR_OK;
}

lr_code node_generation_take(struct node_model *model, struct lr_str frame,
                             const struct wire_submit *ask, struct node_sink sink,
                             struct node_generation **out, struct lr_error *err)
{
    struct node_models *models = model->models;
    struct node_generation *leaves = find_named(model, ask->leaves);
    *out = NULL;
    lr_code code = check_admission(model, ask, leaves, err);
    if (code == LR_OK)
        code = generation_create(model, frame, ask, sink, out, err);
    if (code != LR_OK)
        return code;
    struct node_generation *g = *out;
    uint64_t now = g->last_event_ms;
    g->deadline_at_ms = ask->deadline_ms != 0 ? now + ask->deadline_ms : 0;
    models->count.requests++;
    model->last_used_ms = now;
    if (ask->entry == WIRE_ENTRY_NEW && ask->generated_count != 0)
        g->ask.entry = WIRE_ENTRY_RESUMED;
    if (!node_generation_move(g, NODE_GENERATION_QUEUED))
        return LR_OK; /* the owner has heard why */
    if (leaves != NULL)
        node_generation_stop(leaves);
    tell_accepted(g, leaves != NULL);
    node_model_pump(model);
    return LR_OK;
}

/* In the scratch buffer. */
static lr_code encode(struct node_models *models, const struct wire_generate *g,
                      struct lr_str *frame, struct wire_submit *out, struct lr_error *err)
{
    lr_buf_clear(&models->scratch);
    wire_submit_encode(&models->scratch, g);
    *frame = lr_buf_str(&models->scratch);
    struct lr_str body = lr_str_sub(*frame, WIRE_HEADER_LEN, frame->len);
    if (models->scratch.failed || wire_submit_head_decode(body, out, NULL) != LR_OK)
        return lr_fail(err, LR_TOO_LARGE, "the request is larger than %d bytes", WIRE_BODY_MAX);
    return LR_OK;
}

lr_code node_generation_start(struct node_model *model, const struct wire_generate *g,
                              struct node_sink sink, struct node_generation **out,
                              struct lr_error *err)
{
    struct wire_submit ask;
    struct lr_str frame;
    *out = NULL;
    lr_code code = encode(model->models, g, &frame, &ask, err);
    return code == LR_OK ? node_generation_take(model, frame, &ask, sink, out, err) : code;
}

/* ---- in a worker ---- */

bool node_generation_keep_token(struct node_generation *g, uint32_t id)
{
    if (!g->sink.takes_lost)
        lr_buf_add(&g->generated, &id, sizeof(id));
    return !g->generated.failed;
}

/* A broken pipe is the worker's death, and its generations are looked after there. */
static void send_frame(struct node_generation *g, struct node_proc *proc)
{
    struct lr_str frame = lr_str(g->frame, g->frame_len);
    struct lr_buf *buf = &g->model->models->scratch;
    uint32_t given = g->ask.generated_count, count = node_generation_given(g);
    if (count != given) {
        lr_buf_clear(buf);
        wire_submit_continue(buf, frame, given,
                             (const uint32_t *)(const void *)g->generated.data, count);
        frame = lr_buf_str(buf);
    }
    (void)node_proc_send(proc, frame);
    if (!g->sink.takes_lost)
        return;
    free(g->frame);
    g->frame = NULL;
}

/* Weights that make the next tokens: those of the model, whose workers open no others. */
static void note_weights(struct node_generation *g)
{
    const struct node_model *model = g->model;
    struct wire_weights m = {.fingerprint = lr_str_z(model->weights)};
    struct lr_buf event;
    LR_COPY(g->weights, m.fingerprint);
    if (!g->sink.takes_weights || m.fingerprint.len == 0)
        return;
    lr_buf_init(&event, EVENT_BYTES);
    wire_weights_encode(&event, &m);
    tell_encoded(g, &event);
    lr_buf_free(&event);
}

void node_generations_check(struct node_model *model)
{
    struct lr_error err;
    for (struct node_generation *g = model->queue; g != NULL;) {
        if (check_weights(model, lr_str_z(g->weights), node_generation_given(g), &err) ==
            LR_OK) {
            g = g->next;
        } else {
            /* Its owner may end others with it: begun anew, and continuations come first. */
            node_generation_fail(g, &err, g->sink.takes_lost);
            g = model->queue;
        }
    }
}

void node_generation_submit(struct node_generation *g, struct node_worker *worker)
{
    static const enum node_generation_state next[NODE_GENERATION_OVER + 1] = {
        [NODE_GENERATION_NEW] = NODE_GENERATION_PROVING,
        [NODE_GENERATION_QUEUED] = NODE_GENERATION_RUNNING,
        [NODE_GENERATION_STOPPED] = NODE_GENERATION_STOPPING,
    };
    struct node_attempt attempt = {
        .worker = worker,
        .submitted_ms = node_now(worker->models),
        .given = node_generation_given(g),
        .entry = g->ask.entry,
        .probation = g->ask.entry == WIRE_ENTRY_COHORT ? WIRE_PROBATION_TOKENS : 0,
        .has_connection = g->sink.has_connection,
    };
    if (g->attempt.worker == NULL)
        g->attempt = attempt;
    if (!node_generation_move(g, next[g->state]))
        return;
    note_weights(g);
    send_frame(g, worker->proc);
    if (g->state == NODE_GENERATION_STOPPING)
        send_cancel(g);
}

lr_code node_generation_prove(struct node_worker *worker, struct node_sink sink,
                              struct lr_error *err)
{
    static const struct lr_segment hello = {.text = "Hello", .len = 5};
    struct node_generation *proof;
    struct wire_generate g;
    struct wire_submit ask;
    struct lr_str frame;
    wire_generate_defaults(&g);
    uint32_t can = worker->need.requests;
    g.request_id = lr_str_z("reload");
    g.segments = &hello;
    g.segment_count = 1;
    if (can != 0 && (can >> LR_REQUEST_GENERATE & 1) == 0) {
        g.kind = (can >> LR_REQUEST_EMBED & 1) != 0 ? LR_REQUEST_EMBED : LR_REQUEST_RERANK;
        g.document = &hello;
        g.document_count = 1;
    }
    g.max_tokens = 1;
    g.ignore_stop = true;
    lr_code code = encode(worker->models, &g, &frame, &ask, err);
    if (code == LR_OK)
        code = generation_create(worker->model, frame, &ask, sink, &proof, err);
    if (code == LR_OK)
        node_generation_submit(proof, worker);
    return code;
}

/* ---- ends ---- */

void node_generation_stop(struct node_generation *g)
{
    struct node_model *model = g->model;
    if (g->state == NODE_GENERATION_RUNNING) {
        if (node_generation_move(g, NODE_GENERATION_STOPPING))
            send_cancel(g);
    } else if (is_queued(g->state)) {
        /* It never began: its end is told here. */
        struct wire_done m = {.reason = LR_FINISH_CANCELLED};
        struct lr_buf event;
        lr_buf_init(&event, EVENT_BYTES);
        wire_done_encode(&event, &m);
        model->models->count.cancelled++;
        tell_encoded(g, &event);
        lr_buf_free(&event);
        generation_release(g);
        node_model_pump(model); /* it may have been the only reason to stay */
    }
}

void node_generation_cancel(struct node_generation *g)
{
    struct node_model *model = g->model;
    g->sink = (struct node_sink){0};
    model->models->count.cancelled++;
    if (!is_live(g->state)) {
        generation_release(g);
        node_model_pump(model); /* it may have been the only reason to stay */
        return;
    }
    /* It stays until the worker confirms: its pages are free then, not before. */
    bool was_told = is_told_to_end(g->state);
    if (node_generation_move(g, NODE_GENERATION_LEAVING) && !was_told)
        send_cancel(g);
}

static void tell_lost(struct node_generation *g, const struct node_victim *verdict,
                      const struct lr_error *how)
{
    struct wire_lost m = {.has_strike = verdict->has_strike,
                          .entry = verdict->entry,
                          .cohort = verdict->cohort,
                          .error = *how};
    struct lr_buf event;
    lr_buf_init(&event, EVENT_BYTES);
    wire_lost_encode(&event, &m);
    tell_encoded(g, &event);
    lr_buf_free(&event);
    generation_release(g);
}

void node_generation_lost(struct node_generation *g, const struct node_victim *verdict,
                          const struct lr_error *how)
{
    struct node_model *model = g->model;
    struct lr_error err;
    if (!node_generation_is_served(g)) {
        generation_release(g);
        return;
    }
    lr_log_warn(LR_LOG_OF(how), "request.lost request=%s model=%s strike=%d entry=%s how=%s",
                g->name, model->id, verdict->has_strike, wire_entry_name(verdict->entry),
                how->text);
    if (g->sink.takes_lost) {
        tell_lost(g, verdict, how);
        return;
    }
    g->strikes += verdict->has_strike;
    if (g->strikes >= WIRE_STRIKES_MAX) {
        (void)wire_lost_fail(&err, how);
        lr_log_error(LR_LOG_OF(how), "request.poison request=%s model=%s how=%s", g->name,
                     model->id, how->text);
        node_generation_fail(g, &err, false);
    } else if (model->models->is_draining) {
        (void)lr_fail_plain(&err, node_stops);
        node_generation_fail(g, &err, true);
    } else {
        g->ask.entry = verdict->entry;
        g->ask.cohort = verdict->cohort;
        (void)!node_generation_move(g, g->state == NODE_GENERATION_STOPPING
                                           ? NODE_GENERATION_STOPPED
                                           : NODE_GENERATION_QUEUED);
    }
}

/* ---- time ---- */

static void tick(struct node_generation *g, uint64_t now)
{
    struct lr_buf *buf = &g->model->models->scratch;
    struct lr_error err;
    if (g->state == NODE_GENERATION_QUEUED && g->deadline_at_ms != 0 &&
        now >= g->deadline_at_ms) {
        (void)lr_fail_as(&err, deadline_passed, g->model->id, g->ask.deadline_ms);
        node_generation_abandon(g, &err, false);
    } else if (now - g->last_event_ms >= TICK_MS) {
        lr_buf_clear(buf);
        wire_tick_encode(buf, NULL);
        tell_encoded(g, buf);
    }
}

void node_generations_tick(struct node_models *models, uint64_t now_ms)
{
    for (uint32_t i = 0; i < models->generations.count; i++)
        if (models->generations.all[i].item != NULL)
            tick(models->generations.all[i].item, now_ms);
}
