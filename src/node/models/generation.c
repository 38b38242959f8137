#include "node/models/generation.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/state.h"
#include "wire/bytes.h"

enum { TICK_MS = 900, SLOTS_BEYOND = 2 };

void node_generation_push(struct node_generation **list, struct node_generation *request)
{
    while (*list != NULL)
        list = &(*list)->next;
    request->next = NULL;
    request->link = list;
    *list = request;
}

/* For lists without an order: one end, whatever their length. */
static void push_front(struct node_generation **list, struct node_generation *request)
{
    request->next = *list;
    request->link = list;
    if (*list != NULL)
        (*list)->link = &request->next;
    *list = request;
}

/* Behind the others that were computed before, ahead of those that never were. */
static void push_again(struct node_generation **list, struct node_generation *request)
{
    while (*list != NULL && (*list)->ask.entry != WIRE_ENTRY_NEW)
        list = &(*list)->next;
    push_front(list, request);
}

void node_generation_unlink(struct node_generation *request)
{
    if (request->link == NULL)
        return;
    *request->link = request->next;
    if (request->next != NULL)
        request->next->link = request->link;
    request->next = NULL;
    request->link = NULL;
}

struct node_generation *node_generation_find(struct node *node, uint64_t id)
{
    return lr_slots_find(&node->generations, id);
}

/* The generation of this model that runs under this name and whose owner still listens; NULL:
 * none does. */
static struct node_generation *find_named(const struct node_model *model, struct lr_str name)
{
    const struct lr_slots *all = &model->node->generations;
    for (uint32_t i = 0; name.len != 0 && i < all->count; i++) {
        struct node_generation *r = all->all[i].item;
        if (r != NULL && r->place == NODE_GENERATION_LIVE && r->model == model &&
            !r->is_proof && r->sink.on_event != NULL && lr_str_eq(r->ask.request_id, name))
            return r;
    }
    return NULL;
}

/* ---- events ---- */

static void tell(struct node_generation *request, struct lr_buf *buf)
{
    struct lr_str bytes = lr_buf_str(buf);
    struct wire_frame frame;
    bool has;
    if (wire_frame_next(&bytes, &frame, &has, NULL) == LR_OK && has)
        node_generation_event(request, &frame);
}

void node_generation_event(struct node_generation *request, const struct wire_frame *frame)
{
    struct node *node = request->model->node;
    request->last_event_ms = node_now(node);
    if (request->ahead != 0)
        request->ahead--;
    node->batch.more_comes = request->ahead != 0;
    if (request->sink.on_event != NULL)
        request->sink.on_event(request->sink.ctx, frame);
}

static void tell_accepted(struct node_generation *request, bool has_swapped)
{
    struct node_model *model = request->model;
    struct lr_buf *buf = &model->node->scratch;
    char engine[384] = "";
    const struct node_worker *w = node_model_worker(model);
    if (w != NULL && node_worker_has_opened(w))
        (void)snprintf(engine, sizeof(engine), "%s %s", w->library->engine_id,
                       w->library->version);
    struct wire_accepted m = {.request_id = request->ask.request_id,
                              .engine = lr_str_z(engine),
                              .has_swapped = has_swapped};
    lr_buf_clear(buf);
    wire_accepted_encode(buf, &m);
    tell(request, buf);
}

/* ---- life ---- */

static bool is_full(const struct node_model *model, const struct node_generation *leaves)
{
    const struct node_worker *w = node_model_worker(model);
    bool makes_room = leaves != NULL && !leaves->is_leaving && leaves->worker == w;
    return model->state == NODE_MODEL_READY && w != NULL &&
           node_worker_load(w) + model->queue_count >=
               w->need.max_sequences + SLOTS_BEYOND + makes_room;
}

static lr_code check_admission(struct node *node, const struct node_model *model, bool no_queue,
                               const struct node_generation *leaves, struct lr_error *err)
{
    if (node->is_draining)
        return lr_fail(err, LR_UNAVAILABLE, "this node is shutting down");
    if (model->is_purging)
        return lr_fail(err, LR_NOT_FOUND, "model \"%s\" is being deleted", model->id);
    if (model->state == NODE_MODEL_FAILED || model->state == NODE_MODEL_ABSENT ||
        model->engine == NULL)
        return lr_fail(err, model->reason_code != LR_OK ? model->reason_code : LR_UNAVAILABLE,
                       "model \"%s\" cannot be run: %s", model->id, model->reason);
    if (model->queue_count >= node->limits.queue)
        return lr_fail(err, LR_RATE_LIMITED,
                       "%u requests wait for model \"%s\" already (setting node-queue)",
                       model->queue_count, model->id);
    if (no_queue && is_full(model, leaves))
        return lr_fail(err, LR_RATE_LIMITED, "busy: all %u slots of model \"%s\" are taken",
                       node_model_worker(model)->need.max_sequences, model->id);
    return LR_OK;
}

static void enqueue(struct node_generation *request)
{
    struct node_model *model = request->model;
    request->place = NODE_GENERATION_QUEUED;
    model->queue_count++;
    if (request->ask.entry == WIRE_ENTRY_NEW)
        node_generation_push(&model->queue, request);
    else
        push_again(&model->queue, request);
}

/* On no list yet, with a copy of the frame.  NULL without memory. */
static struct node_generation *create(struct node_model *model, struct lr_str frame,
                                      const struct wire_submit *ask, struct node_sink sink)
{
    struct node *node = model->node;
    struct node_generation *r = calloc(1, sizeof(*r));
    char *copy = malloc(frame.len);
    uint64_t id = r != NULL && copy != NULL ? lr_slots_take(&node->generations, r) : 0;
    if (id == 0) {
        free(r);
        free(copy);
        return NULL;
    }
    memcpy(copy, frame.ptr, frame.len);
    memcpy(r->name, ask->request_id.ptr, ask->request_id.len);
    r->id = id;
    r->model = model;
    r->frame = copy;
    r->frame_len = frame.len;
    r->sink = sink;
    r->seq = node->next_seq++;
    r->arrived_ms = r->last_event_ms = node_now(node);
    r->ask = *ask;
    r->ask.request_id = lr_str_z(r->name);
    r->ask.model = r->ask.trace = r->ask.leaves = (struct lr_str){0};
    wire_submit_address(r->frame, r->id);
    return r;
}

lr_code node_generation_take(struct node_model *model, struct lr_str frame,
                             const struct wire_submit *ask, struct node_sink sink,
                             struct node_generation **out, struct lr_error *err)
{
    struct node *node = model->node;
    struct node_generation *leaves = find_named(model, ask->leaves);
    *out = NULL;
    lr_code code = check_admission(node, model, ask->no_queue, leaves, err);
    if (code != LR_OK)
        return code;
    struct node_generation *r = create(model, frame, ask, sink);
    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    r->deadline_at_ms = ask->deadline_ms != 0 ? r->arrived_ms + ask->deadline_ms : 0;
    node->count.requests++;
    model->last_used_ms = r->arrived_ms;
    if (ask->entry == WIRE_ENTRY_NEW && ask->generated_count != 0)
        r->ask.entry = WIRE_ENTRY_RESUMED;
    enqueue(r);
    *out = r;
    if (leaves != NULL)
        node_generation_stop(leaves);
    tell_accepted(r, leaves != NULL);
    node_model_pump(model);
    return LR_OK;
}

/* In the node's scratch memory; empty where it was too large. */
static struct lr_str encode(struct node *node, const struct wire_generate *g,
                            struct wire_submit *out)
{
    lr_buf_clear(&node->scratch);
    wire_submit_encode(&node->scratch, g);
    struct lr_str frame = lr_buf_str(&node->scratch);
    struct lr_str body = lr_str_sub(frame, WIRE_HEADER_LEN, frame.len);
    bool is_good = !node->scratch.failed && wire_submit_head_decode(body, out, NULL) == LR_OK;
    return is_good ? frame : (struct lr_str){0};
}

lr_code node_generation_start(struct node_model *model, const struct wire_generate *g,
                              struct node_sink sink, struct node_generation **out,
                              struct lr_error *err)
{
    struct wire_submit ask;
    struct lr_str frame = encode(model->node, g, &ask);
    *out = NULL;
    if (frame.len == 0)
        return lr_fail(err, LR_TOO_LARGE, "the request is larger than %d bytes", WIRE_BODY_MAX);
    return node_generation_take(model, frame, &ask, sink, out, err);
}

static bool keep_tokens(struct node_generation *r, const uint32_t *ids, size_t count)
{
    if (r->generated_count + count > r->generated_cap) {
        size_t cap = r->generated_cap != 0 ? 2 * r->generated_cap : 64;
        while (cap < r->generated_count + count)
            cap *= 2;
        uint32_t *grown = realloc(r->generated, cap * sizeof(*grown));
        if (grown == NULL)
            return false;
        r->generated = grown;
        r->generated_cap = cap;
    }
    if (count != 0)
        memcpy(r->generated + r->generated_count, ids, count * sizeof(*ids));
    r->generated_count += count;
    return true;
}

/* The tokens that the owner gave: the frame's last. */
static bool keep_given(struct node_generation *r)
{
    struct wire_cursor c = wire_cursor(lr_str(r->frame, r->frame_len));
    c.at = c.end - 4 * (size_t)r->ask.generated_count;
    for (uint32_t i = 0; i < r->ask.generated_count; i++) {
        uint32_t id = wire_get_u32(&c);
        if (!keep_tokens(r, &id, 1))
            return false;
    }
    return true;
}

static void settle_entry(struct node_generation *request)
{
    struct node_worker *w = request->worker;
    struct node_attempt *a = &request->attempt;
    w->entering_count -= a->is_entering;
    w->newcomer_count -= a->is_newcomer;
    w->suspect_count -= a->is_newcomer && request->ask.entry == WIRE_ENTRY_SUSPECT;
    a->is_entering = a->is_newcomer = false;
}

void node_generation_entered(struct node_generation *request)
{
    settle_entry(request);
    request->attempt.has_entered = true;
}

/* Off every list; what belongs to the attempt goes with it. */
static void leave_place(struct node_generation *request)
{
    node_generation_unlink(request);
    if (request->place == NODE_GENERATION_QUEUED)
        request->model->queue_count--;
    if (request->place == NODE_GENERATION_LIVE) {
        settle_entry(request);
        request->worker->live_count--;
        request->worker->connection_count -= request->attempt.has_connection;
        request->worker->leaving_count -= request->is_leaving;
        request->is_leaving = false;
        request->worker = NULL;
        request->attempt = (struct node_attempt){0};
    }
    request->place = NODE_GENERATION_NEW;
}

static void send_cancel(struct node_generation *request)
{
    struct node *node = request->model->node;
    request->worker->leaving_count += !request->is_leaving;
    request->is_leaving = true;
    lr_buf_clear(&node->scratch);
    wire_u64_encode(&node->scratch, WIRE_CANCEL, request->id);
    if (request->worker->proc != NULL)
        (void)node_proc_send(request->worker->proc, lr_buf_str(&node->scratch));
}

/* Sends the frame.  A broken pipe is the worker's death, and its requests are looked after
 * there. */
static void send_frame(struct node_generation *request, struct node_proc *proc)
{
    struct node *node = request->model->node;
    struct lr_str frame = lr_str(request->frame, request->frame_len);
    bool is_again = request->generated_count != request->ask.generated_count;
    if (request->sink.takes_lost || !is_again) {
        (void)node_proc_send(proc, frame);
    } else {
        lr_buf_clear(&node->scratch);
        wire_submit_continue(&node->scratch, frame, request->ask.generated_count,
                             request->generated, request->generated_count);
        (void)node_proc_send(proc, lr_buf_str(&node->scratch));
    }
    if (!request->sink.takes_lost)
        return;
    free(request->frame);
    request->frame = NULL;
}

void node_generation_submit(struct node_generation *request, struct node_worker *worker)
{
    struct node *node = worker->node;
    enum wire_entry entry = request->ask.entry;
    leave_place(request);
    if (!request->sink.takes_lost && request->generated_count == 0 && !keep_given(request)) {
        struct lr_error err;
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for a request");
        node_generation_fail(request, &err, true);
        return;
    }
    bool is_newcomer = entry == WIRE_ENTRY_NEW || entry == WIRE_ENTRY_SUSPECT;
    request->place = NODE_GENERATION_LIVE;
    request->worker = worker;
    request->attempt = (struct node_attempt){
        .submitted_ms = node_now(node),
        .given = request->sink.takes_lost ? request->ask.generated_count
                                          : (uint32_t)request->generated_count,
        .probation = entry == WIRE_ENTRY_COHORT ? WIRE_PROBATION_TOKENS : 0,
        .has_connection = request->sink.has_connection,
        .is_newcomer = is_newcomer,
    };
    request->ahead = 0;
    worker->connection_count += request->attempt.has_connection;
    push_front(&worker->live, request);
    worker->newcomer_count += is_newcomer;
    worker->suspect_count += entry == WIRE_ENTRY_SUSPECT;
    if (worker->live_count++ == 0)
        worker->progress_ms = node_now(node);
    send_frame(request, worker->proc);
    /* The worker that was told died over it.  The next one only tells what it took. */
    if (request->is_stopped)
        send_cancel(request);
}

lr_code node_generation_prove(struct node_worker *worker, struct node_sink sink,
                              struct lr_error *err)
{
    static const struct lr_segment hello = {.text = "Hello", .len = 5};
    struct wire_generate g;
    struct wire_submit ask;
    wire_generate_defaults(&g);
    g.request_id = lr_str_z("reload");
    g.segments = &hello;
    g.segment_count = 1;
    g.max_tokens = 1;
    g.ignore_stop = true;
    struct lr_str frame = encode(worker->node, &g, &ask);
    struct node_generation *r =
        frame.len != 0 ? create(worker->model, frame, &ask, sink) : NULL;
    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    r->is_proof = true;
    node_generation_submit(r, worker);
    return LR_OK;
}

static void free_request(struct node_generation *request)
{
    struct node *node = request->model->node;
    leave_place(request);
    lr_slots_give(&node->generations, request->id);
    free(request->frame);
    free(request->generated);
    free(request);
}

void node_generation_fail(struct node_generation *request, const struct lr_error *err,
                          bool retryable)
{
    struct node *node = request->model->node;
    struct wire_error m = {.error = *err, .retryable = retryable};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096); /* not scratch: the caller's error may live in there */
    wire_error_encode(&buf, WIRE_ERROR, &m);
    node->count.errors++;
    request->model->requests_failed++;
    tell(request, &buf);
    lr_buf_free(&buf);
    free_request(request);
}

void node_generation_end(struct node_generation *request)
{
    request->model->requests_done++;
    request->model->last_used_ms = node_now(request->model->node);
    free_request(request);
}

/* It never began: its end is told here. */
static void stop_waiting(struct node_generation *request)
{
    struct node_model *model = request->model;
    struct wire_done m = {.reason = LR_FINISH_CANCELLED};
    struct lr_buf buf;
    lr_buf_init(&buf, 256);
    wire_done_encode(&buf, &m);
    model->node->count.cancelled++;
    tell(request, &buf);
    lr_buf_free(&buf);
    free_request(request);
    node_model_pump(model); /* it may have been the only reason to stay */
}

void node_generation_stop(struct node_generation *request)
{
    if (request->place == NODE_GENERATION_QUEUED) {
        stop_waiting(request);
    } else if (request->place == NODE_GENERATION_LIVE) {
        request->is_stopped = true;
        send_cancel(request);
    }
}

void node_generation_cancel(struct node_generation *request)
{
    struct node_model *model = request->model;
    struct node *node = model->node;
    request->sink = (struct node_sink){0};
    node->count.cancelled++;
    if (request->place != NODE_GENERATION_LIVE) {
        free_request(request);
        node_model_pump(model); /* it may have been the only reason to stay */
        return;
    }
    /* It stays until the worker confirms: its pages are free then, not before. */
    send_cancel(request);
}

void node_generation_abandon(struct node_generation *request, const struct lr_error *err,
                             bool retryable)
{
    struct node_sink sink = request->sink;
    struct wire_error m = {.error = *err, .retryable = retryable};
    struct wire_frame frame;
    struct lr_buf buf;
    bool has = false;
    lr_buf_init(&buf, 4096);
    wire_error_encode(&buf, WIRE_ERROR, &m);
    struct lr_str bytes = lr_buf_str(&buf);
    node_generation_cancel(request);
    if (sink.on_event != NULL && wire_frame_next(&bytes, &frame, &has, NULL) == LR_OK && has)
        sink.on_event(sink.ctx, &frame);
    lr_buf_free(&buf);
}

static void tell_lost(struct node_generation *request, const struct node_victim *verdict,
                      const struct lr_error *how)
{
    struct wire_lost m = {.has_strike = verdict->has_strike,
                          .entry = verdict->entry,
                          .cohort = verdict->cohort,
                          .error = *how};
    struct lr_buf buf;
    lr_buf_init(&buf, 4096); /* not scratch: the owner may submit again at once */
    wire_lost_encode(&buf, &m);
    tell(request, &buf);
    lr_buf_free(&buf);
    free_request(request);
}

void node_generation_lost(struct node_generation *request, const struct node_victim *verdict,
                          const struct lr_error *how)
{
    struct node_model *model = request->model;
    struct lr_error err;
    leave_place(request);
    if (request->sink.on_event == NULL || request->is_proof) {
        free_request(request);
        return;
    }
    lr_log_warn(NULL, "request.lost request=" LR_STR_FMT " model=%s strike=%d entry=%s how=%s",
                LR_STR_ARG(request->ask.request_id), model->id, verdict->has_strike,
                wire_entry_name(verdict->entry), how->text);
    if (request->sink.takes_lost) {
        tell_lost(request, verdict, how);
        return;
    }
    request->ask.entry = verdict->entry;
    request->ask.cohort = verdict->cohort;
    request->strikes += verdict->has_strike;
    if (request->strikes >= WIRE_STRIKES_MAX) {
        (void)wire_lost_fail(&err, how);
        lr_log_error(NULL, "request.poison request=" LR_STR_FMT " model=%s how=%s",
                     LR_STR_ARG(request->ask.request_id), model->id, how->text);
        node_generation_fail(request, &err, false);
    } else if (model->node->is_draining) {
        (void)lr_fail(&err, LR_UNAVAILABLE, "this node is shutting down");
        node_generation_fail(request, &err, true);
    } else {
        enqueue(request);
    }
}

bool node_generation_keep_token(struct node_generation *request, uint32_t id)
{
    return request->sink.takes_lost || keep_tokens(request, &id, 1);
}

/* Whether a cohort that goes in by itself is on probation there. */
static bool has_other_cohort(const struct node_worker *worker, uint32_t cohort)
{
    for (const struct node_generation *r = worker->live; r != NULL; r = r->next)
        if (r->attempt.probation != 0 && r->ask.cohort != WIRE_COHORT_TOGETHER &&
            r->ask.cohort != cohort)
            return true;
    return false;
}

bool node_generation_may_enter(const struct node_generation *request,
                               const struct node_worker *worker, bool suspect_waits)
{
    switch (request->ask.entry) {
    case WIRE_ENTRY_NEW:
        return !suspect_waits && worker->suspect_count == 0;
    case WIRE_ENTRY_SUSPECT:
        return worker->newcomer_count == 0;
    case WIRE_ENTRY_COHORT:
        return request->ask.cohort == WIRE_COHORT_TOGETHER ||
               !has_other_cohort(worker, request->ask.cohort);
    default:
        return true;
    }
}

static void tick(struct node *node, struct node_generation *request, uint64_t now)
{
    if (request->deadline_at_ms != 0 && now >= request->deadline_at_ms &&
        request->place == NODE_GENERATION_QUEUED && request->sink.on_event != NULL) {
        struct lr_error err;
        (void)lr_fail(&err, LR_TIMEOUT,
                      "model \"%s\" was not there to begin within %" PRIu64
                      " ms, the request's deadline (setting queue-timeout of the router)",
                      request->model->id, request->ask.deadline_ms);
        node_generation_abandon(request, &err, false);
        return;
    }
    if (now - request->last_event_ms < TICK_MS)
        return;
    lr_buf_clear(&node->scratch);
    wire_tick_encode(&node->scratch, NULL);
    tell(request, &node->scratch);
}

void node_generations_tick(struct node *node, uint64_t now_ms)
{
    for (uint32_t i = 0; i < node->generations.count; i++)
        if (node->generations.all[i].item != NULL)
            tick(node, node->generations.all[i].item, now_ms);
}
