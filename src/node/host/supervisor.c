/* node/host/supervisor.c - a worker's life as its node sees it: start, retirement, death.
 * What it says meanwhile is in frames.c.
 *
 * Every path out of a worker leads through on_exit, once; what it held is decided
 * there and nowhere else.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/list.h"
#include "base/log.h"
#include "base/machine.h"
#include "node/fetch/storage.h"
#include "node/host/reload.h"
#include "node/models/models.h"
#include "wire/open.h"

static void on_exit_of(void *arg, const char *how);

/* ---- states ---- */

#define TO(name) LR_STATE(NODE_WORKER_##name)
static const struct lr_machine machine = {
    "worker",
    {
        [NODE_WORKER_LOADING] = {"loading",
                                 TO(PROVING) | TO(READY) | TO(CLOSING) | TO(KILLED) | TO(GONE)},
        [NODE_WORKER_PROVING] = {"proving", TO(READY) | TO(CLOSING) | TO(KILLED) | TO(GONE)},
        [NODE_WORKER_READY] = {"ready", TO(LEAVING) | TO(CLOSING) | TO(KILLED) | TO(GONE)},
        [NODE_WORKER_LEAVING] = {"leaving", TO(CLOSING) | TO(KILLED) | TO(GONE)},
        [NODE_WORKER_CLOSING] = {"closing", TO(GONE)},
        [NODE_WORKER_KILLED] = {"killed", TO(GONE)},
        [NODE_WORKER_GONE] = {"gone", 0},
    },
};

void node_worker_move(struct node_worker *worker, enum node_worker_state state)
{
    if (lr_machine_allows(&machine, worker->model->id, worker->state, state)) {
        worker->state = state;
        return;
    }
    if (worker->proc == NULL)
        return;
    worker->state = NODE_WORKER_KILLED;
    node_proc_kill(worker->proc);
}

/* ---- start and end ---- */

/* The folder that processes of this engine may write to; NULL: they are not confined. */
static const char *scratch_of(const struct node_launcher *launcher, const char *engine_id,
                              char out[LR_PATH_MAX])
{
    struct lr_error err;
    if (launcher->scratch_dir[0] == '\0')
        return NULL;
    (void)snprintf(out, LR_PATH_MAX, "%.4000s/%.64s", launcher->scratch_dir, engine_id);
    if (lr_dir_create(out, &err) != LR_OK) /* the engine is confined all the same */
        lr_log_warn(LR_LOG_OF(&err), "engine.no_scratch folder=%s reason=%s", out, err.text);
    return out;
}

lr_code node_engine_run(const struct node_launcher *launcher,
                        const struct node_library *library, const char *label,
                        enum wire_type type, const struct wire_open *open,
                        const struct node_proc_callbacks *callbacks, struct node_proc **out,
                        struct lr_error *err)
{
    static const char *const only = "cuda:0";
    char scratch[LR_PATH_MAX];
    struct lr_buf frame;
    struct wire_open asked = *open;
    const char *device = open->options.device_count == 1 ? open->options.devices[0] : "";
    bool is_part = strncmp(device, "MIG-", 4) == 0;
    if (is_part) /* CUDA shows a process no more than one part of a GPU */
        asked.options.devices = &only;
    struct node_proc_config config = {
        .executable = launcher->executable,
        .scratch = scratch_of(launcher, library->engine_id, scratch),
        .label = label,
        .visible = is_part || strncmp(device, "GPU-", 4) == 0 ? device : NULL,
        .is_probe = type != WIRE_OPEN,
        .limit_ms = type == WIRE_PROBE ? launcher->probe_ms : 0,
        .callbacks = *callbacks,
    };
    lr_code code = node_proc_start(launcher->loop, &config, out, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&frame, WIRE_BODY_MAX);
    wire_open_encode(&frame, type, &asked);
    (void)node_proc_send(*out, lr_buf_str(&frame));
    lr_buf_free(&frame);
    return LR_OK;
}

lr_code node_worker_start(struct node_replica *replica, struct node_library *library,
                          uint64_t bytes, struct node_worker **out, struct lr_error *err)
{
    struct node_model *model = replica->model;
    struct node_models *models = model->models;
    struct wire_open open;
    *out = NULL;
    struct node_worker *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a worker");
    *w = (struct node_worker){
        .models = models,
        .model = model,
        .replica = replica,
        .pool = replica->pool,
        .base = bytes,
        .reserved = bytes,
        .started_ms = node_now(models),
        .progress_ms = node_now(models),
    };
    const struct node_proc_callbacks callbacks = {.arg = w,
                                                  .on_frames = node_worker_on_frames,
                                                  .on_line = node_worker_on_line,
                                                  .on_exit = on_exit_of};
    node_describe_open(model, library, w->pool, bytes, &open);
    lr_code code = node_engine_run(models->launcher, library, model->id, WIRE_OPEN, &open,
                                   &callbacks, &w->proc, err);
    if (code != LR_OK) {
        free(w);
        return code;
    }
    w->library = node_library_ref(library);
    LR_LIST_PUSH(&model->workers, w, next, link);
    models->count.worker_starts++;
    lr_log_info(
        NULL,
        "worker.start model=%s pid=%d engine=%s version=%s reserved=%" PRIu64 " weights=%s",
        model->id, (int)node_proc_pid(w->proc), library->engine_id, library->version, bytes,
        open.options.artifact_path != NULL ? open.options.artifact_path : "the model's own");
    *out = w;
    return LR_OK;
}

void node_worker_kill(struct node_worker *worker, const struct lr_error *why)
{
    if (node_worker_is_ending(worker))
        return;
    worker->failure = *why;
    node_worker_move(worker, NODE_WORKER_KILLED);
    node_proc_kill(worker->proc);
}

void node_worker_end(struct node_worker *worker)
{
    if (!node_worker_is_ending(worker))
        node_worker_move(worker, NODE_WORKER_CLOSING);
    if (worker->proc != NULL)
        node_proc_kill(worker->proc);
}

void node_worker_retire(struct node_worker *worker)
{
    struct node_models *models = worker->models;
    if (worker->state == NODE_WORKER_LOADING) /* in the middle of a load nobody listens */
        node_worker_end(worker);
    if (worker->state == NODE_WORKER_READY)
        node_worker_move(worker, NODE_WORKER_LEAVING);
    if (node_worker_is_ending(worker) || worker->live_count != 0)
        return;
    node_worker_move(worker, NODE_WORKER_CLOSING);
    worker->close_by_ms = node_now(models) + models->limits.close_ms;
    lr_buf_clear(&models->scratch);
    wire_empty_encode(&models->scratch, WIRE_CLOSE);
    (void)node_proc_send(worker->proc, lr_buf_str(&models->scratch));
}

void node_worker_promote(struct node_worker *candidate)
{
    struct node_replica *replica = candidate->replica;
    struct node_worker *old = replica->worker;
    node_worker_move(candidate, NODE_WORKER_READY);
    replica->candidate = NULL;
    replica->worker = candidate;
    node_worker_retire(old);
    node_model_pump(replica->model);
}

uint32_t node_worker_load(const struct node_worker *w)
{
    uint32_t slots = w->need.max_sequences;
    return w->live_count - (w->leaving_count < slots ? w->leaving_count : slots);
}

/* ---- death ---- */

static void detach(struct node_worker *w)
{
    struct node_replica *replica = w->replica;
    LR_LIST_REMOVE(w, next, link);
    if (replica->candidate == w)
        replica->candidate = NULL;
    if (replica->worker != w)
        return;
    replica->worker = NULL;
    node_replica_move(replica, NODE_REPLICA_EMPTY, NULL);
}

static void load_failed(struct node_model *model, const struct node_worker *w, const char *how)
{
    struct lr_error err = w->failure;
    bool was_told = err.code != LR_OK;
    bool is_refused =
        !w->replica->is_swapping && node_pool_refused(model, w->pool, w->library, &err);
    if (is_refused || node_artifact_refused(model, &err) ||
        node_storage_is_replaced(model, &err)) {
        node_model_move(model, NODE_MODEL_PRESENT, &err);
        return;
    }
    if (!was_told)
        (void)lr_fail_as(&err, engine_died_loading, how);
    if (w->replica->is_swapping && node_reload_revert(w->replica, &err)) {
        node_model_move(model, NODE_MODEL_PRESENT, &err);
        return;
    }
    bool was_killed = !was_told || err.code == LR_TIMEOUT;
    node_model_trouble(model, was_killed ? NODE_TROUBLE_DEATH : NODE_TROUBLE_TOLD, &err);
}

/* Decides about everything that was in the worker, then tells each owner.  Owners may submit
 * again or cancel others meanwhile: the generations are found again by their ids. */
static void lose_all(struct node_worker *w, const struct lr_error *how)
{
    struct node_models *models = w->models;
    size_t count = 0;
    struct node_victim *victims = calloc((size_t)w->live_count + 1, sizeof(*victims));
    for (const struct node_generation *g = w->live; victims != NULL && g != NULL; g = g->next) {
        enum node_progress progress = g->attempt.progress;
        victims[count++] = (struct node_victim){
            .id = g->id,
            .entry = g->ask.entry,
            .cohort = g->ask.cohort,
            .is_newcomer = node_generation_is_newcomer(g) && progress == NODE_PROGRESS_ENTERING,
            .has_entered = progress != NODE_PROGRESS_NONE,
            .is_on_probation = g->attempt.probation != 0,
        };
    }
    /* The time that a hanging worker was waited for says nothing about the one before it. */
    uint64_t now = node_now(models);
    if (how->code == LR_TIMEOUT)
        now = lr_elapsed(models->limits.step_ms, now);
    node_blame_decide(&w->model->blame, victims, count, now);
    for (size_t i = 0; i < count; i++) {
        struct node_generation *g = lr_slots_find(&models->generations, victims[i].id);
        if (g != NULL)
            node_generation_lost(g, &victims[i], how);
    }
    /* Without memory to decide, nobody is blamed. */
    while (w->live != NULL)
        node_generation_lost(w->live, &(struct node_victim){.entry = WIRE_ENTRY_RESUMED}, how);
    free(victims);
}

static void serving_died(struct node_worker *w, bool was_busy, const struct lr_error *how)
{
    struct node_model *model = w->model;
    /* The candidate of a reload ends, too: the next load is of its version. */
    if (w->replica->candidate != NULL) {
        node_worker_end(w->replica->candidate);
        w->replica->is_swapping = true;
    }
    /* A model that was in use is loaded again, also where its requests went on elsewhere. */
    model->is_wanted = model->is_wanted || model->is_pinned || was_busy;
    node_model_trouble(model, NODE_TROUBLE_DEATH, how);
}

static void drained(struct node_replica *replica)
{
    struct node_model *model = replica->model;
    if (node_model_worker(model) != NULL)
        return; /* another replica serves on, and loads this one again where it is wanted */
    node_model_move(model, NODE_MODEL_PRESENT, NULL);
    /* With requests that wait for it the next load does it, and tells them where it fails. */
    if (model->registered_as[0] != '\0' && node_model_leases(model) == 0)
        (void)node_storage_reopen(model);
    if (replica->is_swapping)
        node_model_load(model);
}

static void replica_lost(struct node_worker *w, bool was_loading, bool was_busy,
                         const struct lr_error *why)
{
    if (was_loading && !w->replica->is_swapping)
        (void)node_pool_refused(w->model, w->pool, w->library, why);
    node_replica_lost(w->replica, was_loading, was_busy, why);
}

static void on_exit_of(void *arg, const char *how)
{
    struct node_worker *w = arg;
    struct node_model *model = w->model;
    struct node_models *models = w->models;
    enum node_replica_state was = w->replica->state;
    bool was_serving = w->replica->worker == w;
    bool was_candidate = w->replica->candidate == w;
    bool expected = w->state == NODE_WORKER_CLOSING;
    bool was_busy = w->live_count != 0;

    node_worker_move(w, NODE_WORKER_GONE);
    w->proc = NULL;
    detach(w);
    if (!expected) {
        models->count.worker_deaths++;
        model->deaths++;
        lr_log_error(LR_LOG_OF(&w->failure),
                     "worker.died model=%s engine=%s how=%s reason=%s live=%u", model->id,
                     w->library->engine_id, how, w->failure.text, w->live_count);
        LR_JSON_MEMBERS(net_bus_begin(models->events, "worker_died"),
                        LR_TEXT("model", model->id), LR_TEXT("how", how));
        net_bus_send(models->events);
    } else {
        lr_log_info(NULL, "worker.left model=%s how=%s", model->id, how);
    }
    struct lr_error why = w->failure;
    if (why.code == LR_OK)
        (void)lr_fail_as(&why, worker_ended, how);
    lose_all(w, &why);
    if (was_candidate && !expected)
        node_reload_failed(model, w, how);
    else if (was_serving && was == NODE_REPLICA_DRAINING)
        drained(w->replica);
    else if (was_serving && node_model_worker(model) != NULL)
        replica_lost(w, was == NODE_REPLICA_LOADING, was_busy, &why);
    else if (was_serving && was == NODE_REPLICA_LOADING)
        load_failed(model, w, how);
    else if (was_serving)
        serving_died(w, was_busy, &why);
    node_library_unref(w->library);
    free(w);
    node_model_pump(model);
    node_admit_waiting(models);
    node_changed(models);
}

void node_replica_lost(struct node_replica *replica, bool was_loading, bool was_busy,
                       const struct lr_error *how)
{
    struct node_model *model = replica->model;
    struct node_models *models = model->models;
    if (replica->candidate != NULL) { /* the next load is of its version */
        node_worker_end(replica->candidate);
        replica->is_swapping = true;
    }
    (void)snprintf(model->lost_reason, sizeof(model->lost_reason), "%s", how->text);
    bool is_reverted = was_loading && replica->is_swapping && node_reload_revert(replica, how);
    if (was_loading && !is_reverted)
        node_breaker_failed(&replica->breaker, node_now(models));
    else if (!was_loading)
        (void)node_breaker_died(&replica->breaker, models->limits.kills, node_now(models));
    /* The others are all leaving: the model is loaded again when they have left. */
    if (model->state == NODE_MODEL_DRAINING && (was_busy || model->is_pinned))
        model->is_wanted = true;
}
