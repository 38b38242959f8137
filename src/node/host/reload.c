#include "node/host/reload.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/log.h"
#include "node/fetch/storage.h"
#include "node/models/models.h"
#include "wire/event.h"
#include "wire/fleet.h"
#include "wire/open.h"

enum { RETRY_MS = 5000 };

/* One reload from the check of the new files to the start of its candidates. */
struct node_reload {
    struct node_answer answer; /* first: the argument of the callbacks */
    struct node_models *models;
    struct node_engine *engine;
    struct plugin_manifest manifest; /* of the new version */
    struct node_library *library;    /* reference */
    struct node_proc *check;
    struct listener *listeners; /* owned */
};

/* Hears how a reload ended. */
struct listener {
    struct listener *next;
    node_reload_fn fn;
    void *arg;
};

static void reload_tell(struct node_models *models, const char *event,
                        const struct node_library *library, const char *model,
                        const char *reason)
{
    lr_log_info(NULL,
                "engine.reload what=%s engine=%s version=%s sha256=%.12s model=%s reason=%s",
                event, library->engine_id, library->version, library->sha256, model, reason);
    LR_JSON_MEMBERS(net_bus_begin(models->events, event), LR_TEXT("engine", library->engine_id),
                    LR_TEXT("version", library->version), LR_TEXT("model", model),
                    LR_TEXT("reason", reason));
    net_bus_send(models->events);
}

/* ---- candidates ---- */

static bool both_fit(const struct node_replica *replica)
{
    static struct node_room room;
    struct node_models *models = replica->model->models;
    node_measure(models);
    node_plan_room(models, replica->pool, replica->worker->base, &room);
    /* What is reclaimed is there after a step at most: long before the candidate has read its
     * files. */
    if (room.plan == NODE_PLAN_RECLAIM)
        (void)node_kv_limit_reclaim(&room);
    return room.plan <= NODE_PLAN_RECLAIM;
}

static void start_candidate(struct node_replica *replica)
{
    const struct node_model *model = replica->model;
    struct lr_error err;
    if (replica->candidate != NULL) { /* of an earlier reload: outdated by this one */
        node_worker_end(replica->candidate);
        replica->candidate = NULL;
    }
    if (!both_fit(replica)) {
        replica->is_swapping = true;
        node_replica_drain(replica, "a new version of its engine takes over");
        return;
    }
    if (node_worker_start(replica, model->engine->library, replica->worker->base,
                          &replica->candidate, &err) != LR_OK)
        reload_tell(model->models, "reload_failed", model->engine->library, model->id,
                    err.text);
}

static void on_proof(void *ctx, const struct wire_frame *frame)
{
    struct node_worker *w = ctx;
    struct wire_error m;
    if (w->state != NODE_WORKER_PROVING)
        return; /* a later reload, or an unload, has ended it */
    if (frame->type == WIRE_DONE) {
        reload_tell(w->models, "reloaded", w->library, w->model->id, "");
        w->models->count.reloads++;
        node_worker_promote(w);
    } else if (frame->type == WIRE_ERROR && wire_error_decode(frame->body, &m, NULL) == LR_OK) {
        node_worker_kill(w, &m.error);
    }
}

void node_reload_prove(struct node_worker *candidate)
{
    struct node_sink sink = {.ctx = candidate, .on_event = on_proof};
    struct lr_error err;
    if (node_generation_prove(candidate, sink, &err) != LR_OK)
        node_worker_kill(candidate, &err);
}

/* New loads go back to the version that works. */
static bool go_back(struct node_engine *engine, const struct node_library *bad)
{
    if (engine->library != bad || engine->previous == NULL)
        return engine->library != bad;
    node_library_unref(engine->library);
    engine->library = engine->previous;
    engine->previous = NULL;
    return true;
}

void node_reload_failed(struct node_model *model, struct node_worker *candidate,
                        const char *how)
{
    reload_tell(model->models, "reload_failed", candidate->library, model->id,
                candidate->failure.code != LR_OK ? candidate->failure.text : how);
    (void)go_back(model->engine, candidate->library);
}

bool node_reload_revert(struct node_replica *replica, const struct lr_error *why)
{
    const struct node_model *model = replica->model;
    struct node_library *bad = model->engine->library;
    replica->is_swapping = false;
    reload_tell(model->models, "reload_failed", bad, model->id, why->text);
    return go_back(model->engine, bad);
}

/* ---- the check ---- */

static void discard(struct node_reload *r)
{
    plugin_manifest_free(&r->manifest);
    node_library_unref(r->library);
    free(r);
}

static void take_over(struct node_reload *r)
{
    struct node_engine *e = r->engine;
    node_library_unref(e->previous);
    e->previous = e->library;
    e->library = node_library_ref(r->library);
    plugin_manifest_free(&e->manifest);
    e->manifest = r->manifest;
    r->manifest = (struct plugin_manifest){0};
    e->refusal.text[0] = '\0';
    e->is_told = false;
    if (e->previous == NULL)
        reload_tell(r->models, "reloaded", e->library, "", "");
    node_storage_resolve(r->models->storage); /* models that waited for an engine */
    for (struct node_model *m = r->models->first; m != NULL; m = m->next) {
        if (m->engine != e)
            continue;
        for (size_t i = 0; i < NODE_REPLICAS; i++)
            if (m->replicas[i].state == NODE_REPLICA_READY)
                start_candidate(&m->replicas[i]);
        node_model_retry(m);
        node_model_pump(m);
    }
}

static void reload_finish(struct node_reload *r)
{
    bool is_good = r->answer.has_need;
    r->engine->reload = NULL;
    if (is_good)
        take_over(r);
    else
        reload_tell(r->models, "reload_refused", r->library, "", r->answer.error.text);
    while (r->listeners != NULL) {
        struct listener *l = r->listeners;
        r->listeners = l->next;
        l->fn(l->arg, is_good ? NULL : &r->answer.error, true);
        free(l);
    }
    discard(r);
}

static lr_code listen_to(struct node_reload *r, node_reload_fn fn, void *arg,
                         struct lr_error *err)
{
    struct listener *l = fn != NULL ? calloc(1, sizeof(*l)) : NULL;
    if (fn == NULL)
        return LR_OK;
    if (l == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a reload");
    *l = (struct listener){.next = r->listeners, .fn = fn, .arg = arg};
    r->listeners = l;
    return LR_OK;
}

static void on_check_exit(void *arg, const char *how)
{
    struct node_reload *r = arg;
    if (!r->answer.has_need && r->answer.error.code == LR_OK)
        (void)lr_fail_as(&r->answer.error, library_died, how);
    reload_finish(r);
}

static lr_code start_check(struct node_reload *r, struct lr_error *err)
{
    const struct wire_open open = {
        .library = r->library->path,
        .engine_id = r->library->engine_id,
        .engine_version = r->library->version,
        .abi_version = r->library->abi,
    };
    const struct node_proc_callbacks callbacks = {
        .arg = r, .on_frames = node_answer_on_frames, .on_exit = on_check_exit};
    return node_engine_run(r->models->launcher, r->library, r->library->engine_id, WIRE_PROBE,
                           &open, &callbacks, &r->check, err);
}

lr_code node_reload(struct node_models *models, struct node_engine *engine, bool force,
                    node_reload_fn fn, void *arg, struct lr_error *err)
{
    if (engine->reload != NULL)
        return listen_to(engine->reload, fn, arg, err);
    struct node_reload *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a reload");
    *r = (struct node_reload){.models = models, .engine = engine};
    engine->signature = node_folder_signature(engine->folder);
    lr_code code =
        node_library_take(models->engines, engine->folder, &r->manifest, &r->library, err);
    if (code == LR_OK && engine->library != NULL && !force &&
        strcmp(engine->library->sha256, r->library->sha256) == 0) {
        discard(r);
        if (fn != NULL)
            fn(arg, NULL, false);
        return LR_OK;
    }
    if (code == LR_OK)
        code = start_check(r, err);
    if (code != LR_OK) {
        discard(r);
        return code;
    }
    engine->reload = r;
    return listen_to(r, fn, arg, err);
}

void node_reload_tell_refused(struct node_models *models)
{
    for (struct node_engine *e = models->engines->first; e != NULL; e = e->next) {
        if (e->library != NULL || e->is_told)
            continue;
        e->is_told = true;
        struct lr_json_writer *w = net_bus_begin(models->events, "engine_refused");
        lr_json_member_z(w, "engine", e->name);
        wire_event_put_error(w, &e->refusal);
        lr_json_member_z(w, "code", lr_code_name(e->refusal.code));
        net_bus_send(models->events);
    }
}

/* An engine that was refused for what may pass (a full disk, a file half there) is looked at
 * again though its folder has not changed. */
static bool is_worth_a_look(const struct node_models *models, const struct node_engine *e)
{
    bool is_judged = e->refusal.code == LR_ABI_MISMATCH || e->refusal.code == LR_UNSUPPORTED ||
                     e->refusal.code == LR_INVALID_ARGUMENT ||
                     e->refusal.code == LR_PERMISSION_DENIED || e->refusal.code == LR_CONFLICT;
    return e->library == NULL && !is_judged && node_now(models) >= e->retry_ms;
}

void node_reload_watch(struct node_models *models)
{
    for (struct node_engine *e = models->engines->first; e != NULL; e = e->next) {
        uint64_t now = node_folder_signature(e->folder);
        struct lr_error err;
        bool is_again = is_worth_a_look(models, e);
        if ((now == e->signature && !is_again) || e->reload != NULL)
            continue;
        /* Files still being copied differ from one look to the next. */
        if (now != e->signature && now != e->seen_signature) {
            e->seen_signature = now;
            continue;
        }
        e->retry_ms = node_now(models) + RETRY_MS;
        lr_code code = node_reload(models, e, false, NULL, NULL, &err);
        if (code != LR_OK && !lr_error_same(&err, &e->refusal))
            lr_log_warn(LR_LOG_OF(&err), "engine.reload_refused engine=%s reason=%s", e->name,
                        err.text);
        if (code != LR_OK && e->library == NULL) {
            e->refusal = err;
        }
        if (code == LR_UNAVAILABLE)
            e->signature = 0; /* half copied: look again */
    }
    bool has_more = node_engines_scan(models->engines);
    node_reload_tell_refused(models);
    if (has_more)
        node_storage_resolve(models->storage);
}
