/* node/host/admission.c - room is made before a load, by evicting exactly what is needed
 * (docs/promises.md: room-first).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/log.h"
#include "node/fetch/storage.h"
#include "node/models/models.h"
#include "wire/event.h"
#include "wire/open.h"

/* ---- the choice of a device ---- */

static bool is_sound(const struct node_models *models, uint32_t pool)
{
    return !node_health_is_faulty(&models->pools.pool[pool].health);
}

/* GPUs that the engine's present version has refused. */
static uint64_t refused_pools(const struct node_model *model)
{
    return model->engine != NULL && model->refused_by == model->engine->library
               ? model->refused_pools
               : 0;
}

bool node_pool_takes(const struct node_model *model, uint32_t pool)
{
    return is_sound(model->models, pool) && (refused_pools(model) & node_pool_bit(pool)) == 0;
}

struct offer {
    uint32_t pool; /* NODE_POOL_NONE: nothing was offered so far */
    uint32_t rank; /* of the pool's device */
    enum node_plan plan;
    uint64_t free_bytes;
};

/* How well a model of `need` bytes would fit into the pool, and how much is free there. */
static struct offer try_pool(const struct node_models *models, uint32_t pool, uint64_t need)
{
    static struct node_room room;
    const struct node_pool_state *state = &models->pools.pool[pool].state;
    uint64_t held = 0;
    node_plan_room(models, pool, need, &room);
    for (size_t i = 0; i < room.count; i++)
        held += room.claims[i].bytes;
    return (struct offer){
        .pool = pool,
        .rank = models->pools.pool[pool].rank,
        .plan = room.plan,
        .free_bytes = lr_elapsed(held, node_ledger_capacity(state, room.claims, room.count)),
    };
}

/* An integrated GPU can have more memory than the card beside it, the machine's, and is many
 * times slower: the kind of the device counts before the memory. */
static bool is_better(const struct offer *a, const struct offer *b)
{
    if (b->pool == NODE_POOL_NONE)
        return true;
    if ((a->plan == NODE_PLAN_NEVER) != (b->plan == NODE_PLAN_NEVER))
        return b->plan == NODE_PLAN_NEVER;
    if (a->plan != NODE_PLAN_NEVER && a->rank != b->rank)
        return a->rank < b->rank;
    return a->plan != b->plan ? a->plan < b->plan : a->free_bytes > b->free_bytes;
}

/* Of the GPUs without a bit in `passed`. */
static struct offer best_offer(const struct node_model *model, uint64_t passed, uint64_t need)
{
    const struct node_models *models = model->models;
    struct offer best = {.pool = NODE_POOL_NONE};
    for (uint32_t i = 1; i < models->pools.count; i++) {
        if (!is_sound(models, i) || (passed & node_pool_bit(i)) != 0)
            continue;
        struct offer offer = try_pool(models, i, need);
        if (is_better(&offer, &best))
            best = offer;
    }
    return best;
}

uint32_t node_pool_for(const struct node_model *model, bool on_device, uint64_t need)
{
    const struct node_models *models = model->models;
    if (!on_device || models->pools.count == 1)
        return NODE_POOL_RAM;
    /* A model lies on one device as a whole. */
    struct offer best = best_offer(model, model->short_pools | refused_pools(model), need);
    if (best.pool == NODE_POOL_NONE) /* the others have become faulty meanwhile */
        best = best_offer(model, 0, need);
    /* Models were already asked to leave this device for the new model: it loads there. */
    bool has_asked = model->wants_room && model->room_pool != NODE_POOL_RAM &&
                     is_sound(models, model->room_pool);
    return best.plan != NODE_PLAN_FITS && has_asked ? model->room_pool : best.pool;
}

bool node_pool_refused(struct node_model *model, uint32_t pool, struct node_library *library,
                       const struct lr_error *why)
{
    if (why->code != LR_UNSUPPORTED || pool == NODE_POOL_RAM)
        return false;
    if (model->refused_by != library)
        node_pools_unrefuse(model);
    if (model->refused_by == NULL)
        model->refused_by = node_library_ref(library);
    model->refused_pools |= node_pool_bit(pool);
    if (best_offer(model, model->short_pools | model->refused_pools, 0).pool ==
        NODE_POOL_NONE) {
        node_pools_unrefuse(model); /* it is the model: the next try asks all of them again */
        return false;
    }
    const struct node_pool *gpu = &model->models->pools.pool[pool];
    lr_log_warn(LR_LOG_OF(why), "model.gpu_refused model=%s gpu=%s name=%s reason=%s",
                model->id, gpu->name, gpu->title, why->text);
    return true;
}

void node_pools_unrefuse(struct node_model *model)
{
    node_library_unref(model->refused_by);
    model->refused_by = NULL;
    model->refused_pools = 0;
}

static bool is_awaited(const struct node_models *models, uint32_t pool)
{
    for (const struct node_model *m = models->first; m != NULL; m = m->next)
        if (m->wants_room && m->room_pool == pool)
            return true;
    return false;
}

static bool may_hold_extra(const struct node_model *model, uint32_t pool)
{
    const struct node_models *models = model->models;
    uint32_t held = 0;
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        held +=
            model->replicas[i].state != NODE_REPLICA_EMPTY && model->replicas[i].pool == pool;
    return held < models->pools.pool[pool].copies && node_pool_takes(model, pool) &&
           !is_awaited(models, pool);
}

uint32_t node_pool_for_extra(const struct node_model *model)
{
    const struct node_models *models = model->models;
    struct offer best = {.pool = NODE_POOL_NONE};
    for (uint32_t i = 1; i < models->pools.count; i++) {
        if (!may_hold_extra(model, i))
            continue;
        struct offer offer = try_pool(models, i, model->need.total);
        if (offer.plan <= NODE_PLAN_RECLAIM && is_better(&offer, &best))
            best = offer;
    }
    return best.pool;
}

/* Whether it runs on a GPU, as far as is known. */
static bool is_on_device(const struct node_model *model)
{
    return model->has_need ? model->need.on_device != 0
                           : strcmp(model->models->devices.kind, "cpu") != 0;
}

lr_code node_gpus_check(const struct node_model *model, struct lr_error *err)
{
    const struct node_pools *pools = &model->models->pools;
    bool has_sound = pools->count == 1 || !is_on_device(model);
    for (uint32_t i = 1; i < pools->count; i++)
        has_sound = has_sound || is_sound(model->models, i);
    if (has_sound)
        return LR_OK;
    const struct node_pool *gpu = &pools->pool[1];
    return lr_fail_as(err, gpus_faulty, gpu->title, gpu->name, gpu->health.reason);
}

const char *node_artifact_of(const struct node_model *model)
{
    const struct node_models *models = model->models;
    const struct model_descriptor *d = model->descriptor;
    if (d == NULL || model->skip_artifact)
        return NULL;
    if (models->artifact != NULL)
        return models->artifact;
    for (size_t i = 0; models->uses_artifacts && i < d->artifact_count; i++)
        if (strcmp(d->artifacts[i].backend, models->devices.kind) == 0)
            return d->artifacts[i].path;
    return NULL;
}

/* "GPU-<uuid>" of NVML is "vulkan:<uuid>" of Vulkan, which finds no part of a GPU ("MIG-...").
 */
static const char *by_vulkan(const char *device)
{
    static char name[64];
    bool is_one = strcmp(device, "cuda") != 0;
    (void)snprintf(name, sizeof(name), "vulkan%s%s", is_one ? ":" : "",
                   !is_one                           ? ""
                   : strncmp(device, "GPU-", 4) == 0 ? device + 4
                                                     : device);
    return name;
}

void node_describe_open(const struct node_model *model, const struct node_library *library,
                        uint32_t pool, uint64_t limit, struct wire_open *out)
{
    const struct node_models *models = model->models;
    static const char *device;
    *out = (struct wire_open){
        .library = library->path,
        .engine_id = library->engine_id,
        .engine_version = library->version,
        .abi_version = library->abi,
        .model_dir = model->descriptor != NULL ? model->descriptor->model_dir : "",
        .format =
            model->descriptor != NULL ? model_format_name(model->descriptor->format) : NULL,
        .weights = model->weights[0] != '\0' ? model->weights : NULL,
        .is_downloaded = model->is_downloaded,
        .has_stop = model->stop != NULL,
        .stop_id = model->stop != NULL ? model->stop->id : 0,
        .blobs = model->blobs,
        .options = models->options,
    };
    out->options.artifact_path = node_artifact_of(model);
    if (model->descriptor != NULL && model->descriptor->format == MODEL_FORMAT_GGUF)
        out->options.filename = lr_path_base(model->descriptor->primary);
    device = pool != NODE_POOL_RAM ? models->pools.pool[pool].name : models->devices.name;
    if (model->is_by_vulkan)
        device = by_vulkan(device);
    out->options.devices = &device;
    out->options.device_count = 1;
    if (pool == NODE_POOL_RAM)
        out->options.ram_limit = limit;
    /* A device without memory of its own computes in RAM. */
    if (pool != NODE_POOL_RAM || strcmp(models->devices.kind, "cpu") != 0)
        out->options.vram_limit = limit;
}

static enum node_claim_kind kind_of(const struct node_worker *w)
{
    const struct node_model *m = w->model;
    const struct node_replica *r = w->replica;
    bool is_extra = node_replica_is_extra(r);
    if (m->is_pinned && !is_extra)
        return NODE_CLAIM_PINNED;
    bool has_work = is_extra ? w->live_count != 0 : node_model_leases(m) != 0;
    if (w == r->worker && r->state == NODE_REPLICA_READY && !has_work && r->candidate == NULL)
        return NODE_CLAIM_IDLE;
    return NODE_CLAIM_BUSY;
}

/* What a worker holds of a pool: a worker on a GPU may also hold pinned memory of the host. */
static uint64_t held_of(const struct node_worker *w, uint32_t pool)
{
    if (w->pool == pool)
        return w->reserved;
    return pool == NODE_POOL_RAM && w->need.on_device != 0 ? w->need.ram : 0;
}

void node_plan_room(const struct node_models *models, uint32_t pool, uint64_t need,
                    struct node_room *out)
{
    out->count = 0;
    for (struct node_model *m = models->first; m != NULL; m = m->next)
        for (struct node_worker *w = m->workers; w != NULL; w = w->next)
            if ((w->pool == pool || held_of(w, pool) != 0) &&
                out->count < sizeof(out->claims) / sizeof(out->claims[0]))
                out->claims[out->count++] = (struct node_claim){
                    .owner = w,
                    .bytes = held_of(w, pool),
                    .reclaimable = w->pool == pool ? node_kv_limit_reclaimable(w) : 0,
                    .measured = w->pool == pool ? w->measured : 0,
                    /* An extra replica goes before the only one of another model. */
                    .last_used_ms = node_replica_is_extra(w->replica) ? 0 : m->last_used_ms,
                    .kind = kind_of(w),
                };
    out->plan = node_ledger_plan(&models->pools.pool[pool].state, out->claims, out->count, need,
                                 &out->available);
}

static void admission_refuse(struct node_model *model, const struct node_pool *pool,
                             uint64_t available)
{
    const struct lr_engine_need *n = &model->need;
    uint64_t cap = pool->state.cap;
    bool is_capped = cap != 0 && cap == node_ledger_limit(&pool->state);
    struct lr_error err;
    char need[32], weights[32], kv[32], work[32], room[32], total[32], missing[32], limit[64];
    char rest[256];
    lr_format_size(n->total, need);
    lr_format_size(n->weights, weights);
    lr_format_size(n->kv, kv);
    lr_format_size(n->workspace + n->fixed, work);
    lr_format_size(available, room);
    lr_format_size(pool->state.total, total);
    lr_format_size(n->total - available, missing);
    if (is_capped)
        (void)snprintf(limit, sizeof(limit), "vram-limit is %" PRIu64 " bytes", cap);
    else
        (void)snprintf(limit, sizeof(limit), "at most %u %% in use", pool->state.limit_percent);
    (void)snprintf(rest, sizeof(rest),
                   "%" PRIu64 " bytes of %s, %s), %s are missing: %s, or lower max-context, "
                   "max-tokens or max-sequences",
                   available, total, limit, missing,
                   is_capped ? "raise vram-limit" : "use a machine with more memory");
    (void)lr_fail_as(&err, too_large, model->id, need, n->total, weights, kv, work, pool->title,
                     room, rest);
    err.code = n->on_device != 0 ? LR_OUT_OF_VRAM : LR_OUT_OF_RAM;
    node_model_trouble(model, NODE_TROUBLE_ROOM, &err);
}

uint64_t node_available(struct node_model *model)
{
    static struct node_room room;
    uint32_t pool = node_pool_for(model, model->need.on_device != 0, model->need.total);
    if (pool == NODE_POOL_NONE)
        return 0;
    node_plan_room(model->models, pool, model->need.total, &room);
    return room.available;
}

void node_forget_need(struct node_model *model)
{
    model->has_need = false;
    model->is_tight = false;
    node_pools_unrefuse(model);
}

static void start_probe(struct node_model *model);

static void admission_make_room(struct node_model *model)
{
    static struct node_room room;
    struct node_models *models = model->models;
    struct lr_error err;
    /* Fresh figures: what a worker that has just left held must not look like foreign
     * use. */
    node_measure(models);
    uint32_t pool = node_pool_for(model, model->need.on_device != 0, model->need.total);
    node_plan_room(models, pool, model->need.total, &room);
    if (room.plan == NODE_PLAN_NEVER && !model->is_tight && room.available != 0) {
        model->is_tight = true;
        start_probe(model);
        return;
    }
    if (room.plan == NODE_PLAN_NEVER) {
        admission_refuse(model, &models->pools.pool[pool], room.available);
        return;
    }
    if (room.plan == NODE_PLAN_FITS) {
        model->wants_room = false;
        if (node_replica_load(&model->replicas[0], pool, &err) != LR_OK)
            node_model_trouble(model, NODE_TROUBLE_TOLD, &err);
        return;
    }
    if (!node_model_has_demand(model) && !model->is_pinned) {
        /* A try of the circuit breaker, for nobody in particular: nobody is evicted for it. */
        node_model_move(model, NODE_MODEL_PRESENT, NULL);
        return;
    }
    model->wants_room = true;
    model->room_pool = pool;
    model->wants_room_seq = model->queue != NULL ? model->queue->seq : models->next_seq;
    (void)node_kv_limit_reclaim(&room); /* each answer leads back here */
    for (size_t i = 0; i < room.count; i++) {
        const struct node_worker *owner = room.claims[i].owner;
        struct node_replica *victim = owner->replica;
        if (!room.claims[i].is_victim || owner != victim->worker ||
            victim->state == NODE_REPLICA_DRAINING)
            continue;
        models->count.evictions += !victim->is_yielding;
        victim->is_yielding = true;
        node_replica_pump(victim);
    }
}

/* ---- the probe: what will it need? ---- */

struct probe {
    struct node_answer answer; /* first: the argument of the callbacks */
    struct node_model *model;
    uint32_t pool;                /* the plan is for this pool, */
    uint64_t limit;               /* with at most this memory */
    struct node_library *library; /* reference */
    uint64_t started_ms;
};

bool node_artifact_refused(struct node_model *model, const struct lr_error *why)
{
    const char *artifact = node_artifact_of(model);
    if (artifact == NULL || (why->code != LR_MODEL_CORRUPT && why->code != LR_UNSUPPORTED))
        return false;
    lr_log_warn(LR_LOG_OF(why), "model.artifact_refused model=%s artifact=%s reason=%s",
                model->id, artifact, why->text);
    model->skip_artifact = true;
    node_forget_need(model);
    return true;
}

/* What the engine may plan with.  Engines fill a limit that is short for them, so a tight one
 * leaves a little for other programs, whose use changes all the time. */
static uint64_t probe_limit(const struct node_model *model, uint32_t pool)
{
    enum { PART_LEFT = 64 };
    static struct node_room room;
    uint64_t limit = node_ledger_limit(&model->models->pools.pool[pool].state);
    if (!model->is_tight)
        return limit;
    node_plan_room(model->models, pool, 0, &room);
    uint64_t most = room.available - room.available / PART_LEFT;
    return most < limit ? most + (most == 0) : limit; /* 0 would be no limit */
}

/* Other programs and pinned models hold memory that a plan by the pool's limit could need, and
 * there is a device of a worse kind, to which that plan would then move the model. */
static bool is_crowded(const struct node_pools *pools, const struct node_model *model,
                       uint32_t pool)
{
    static struct node_room room;
    bool has_worse = false;
    for (uint32_t i = 1; pool != NODE_POOL_RAM && i < pools->count; i++)
        has_worse = has_worse || pools->pool[i].rank > pools->pool[pool].rank;
    node_plan_room(model->models, pool, 0, &room);
    return has_worse && room.available < node_ledger_limit(&pools->pool[pool].state);
}

/* The engine cannot plan with this limit: it is not asked about devices that have no more
 * memory.  False: there is no other device. */
static bool pass_short_pools(struct node_model *model, uint32_t pool, uint64_t limit)
{
    model->short_pools |= node_pool_bit(pool);
    for (uint32_t i = 1; i < model->models->pools.count; i++) {
        uint64_t other = probe_limit(model, i);
        if (other != 0 && (limit == 0 || other <= limit)) /* 0: no limit is known */
            model->short_pools |= node_pool_bit(i);
    }
    return pool != NODE_POOL_RAM &&
           best_offer(model, model->short_pools | refused_pools(model), 0).pool !=
               NODE_POOL_NONE;
}

static void on_probe_exit(void *arg, const char *how)
{
    struct probe *p = arg;
    struct node_model *model = p->model;
    struct lr_error err = p->answer.error;
    bool has_need = p->answer.has_need, was_told = err.code != LR_OK;
    bool is_late = node_now(model->models) - p->started_ms >= model->models->limits.load_ms;
    bool is_short = was_told && (err.code == LR_OUT_OF_VRAM || err.code == LR_OUT_OF_RAM);
    uint32_t pool = p->pool;
    uint64_t limit = p->limit;
    model->probe = NULL;
    node_changed(model->models);
    if (has_need) {
        model->need = p->answer.need;
        model->has_need = true;
        node_library_unref(model->need_library);
        model->need_library = node_library_ref(p->library);
    }
    bool is_refused =
        !has_need && was_told && node_pool_refused(model, p->pool, p->library, &err);
    node_library_unref(p->library);
    free(p);
    if (model->state != NODE_MODEL_STARTING)
        return;
    if (has_need || is_refused || node_artifact_refused(model, &err)) {
        node_admit(model);
        return;
    }
    if (is_short && pass_short_pools(model, pool, limit)) {
        start_probe(model);
        return;
    }
    if (is_short && model->is_tight && model->has_need) {
        node_model_trouble(model, NODE_TROUBLE_TIGHT, &err);
        return;
    }
    if (!was_told) {
        (void)lr_fail_as(&err, engine_died_asked, how);
        err.code = is_late ? LR_TIMEOUT : LR_INTERNAL;
    }
    node_model_trouble(model, was_told ? NODE_TROUBLE_TOLD : NODE_TROUBLE_DEATH, &err);
    node_model_pump(model);
}

static void start_probe(struct node_model *model)
{
    struct node_models *models = model->models;
    struct node_library *library = model->engine->library;
    struct lr_error err;
    struct wire_open open;
    uint32_t pool = node_pool_for(model, is_on_device(model), 0);
    struct probe *p = calloc(1, sizeof(*p));
    const struct node_proc_callbacks callbacks = {
        .arg = p, .on_frames = node_answer_on_frames, .on_exit = on_probe_exit};
    model->wants_probe = false;
    if (is_crowded(&models->pools, model, pool))
        model->is_tight = true;
    uint64_t limit = probe_limit(model, pool);
    node_describe_open(model, library, pool, limit, &open);
    lr_code code =
        p != NULL ? node_engine_run(models->launcher, library, model->id, WIRE_PROBE, &open,
                                    &callbacks, &model->probe, &err)
                  : lr_fail(&err, LR_OUT_OF_RAM, "no memory to ask the engine about the model");
    if (code != LR_OK) {
        free(p);
        node_model_trouble(model, NODE_TROUBLE_TOLD, &err);
        return;
    }
    p->model = model;
    p->pool = pool;
    p->limit = limit;
    p->started_ms = node_now(models);
    p->library = node_library_ref(library);
}

/* Other programs held memory of a device when Vulkan listed it: they may have left. */
static bool has_told_others(const struct node_pools *pools)
{
    for (uint32_t i = 1; i < pools->count; i++)
        if (pools->pool[i].is_listed && pools->pool[i].foreign != 0)
            return true;
    return false;
}

void node_admit(struct node_model *model)
{
    struct lr_error err = {.code = LR_UNAVAILABLE};
    if (model->state == NODE_MODEL_WAITING)
        node_storage_look(model); /* what it failed with may lie there no more */
    bool is_at_rest = model->state == NODE_MODEL_PRESENT || model->state == NODE_MODEL_WAITING;
    if (is_at_rest)
        node_storage_notice(model);
    if (is_at_rest && model->registered_as[0] != '\0' && !node_storage_reopen(model)) {
        err = model->reason;
        node_model_fail_waiting(model, &err);
        return;
    }
    if (is_at_rest)
        node_generations_check(model);
    if (is_at_rest) {
        model->wants_probe = model->is_tight;
        bool was_short = model->reason.code == LR_OUT_OF_VRAM;
        model->short_pools = 0;
        node_breaker_try(&model->breaker);
        node_model_move(model, NODE_MODEL_STARTING, NULL);
        model->awaits_refresh = is_on_device(model) &&
                                (was_short || has_told_others(&model->models->pools)) &&
                                node_device_refresh(model->models);
    }
    if (model->state != NODE_MODEL_STARTING || model->probe != NULL || model->awaits_refresh)
        return;
    const char *artifact = node_artifact_of(model);
    if (artifact != NULL && node_is_directml(artifact, &err)) {
        node_model_trouble(model, NODE_TROUBLE_JUDGED, &err);
    } else if (node_library_restore(model->models->engines, model->engine, &err) != LR_OK) {
        node_model_trouble(model, NODE_TROUBLE_TOLD, &err);
    } else if (node_gpus_check(model, &err) != LR_OK) {
        node_model_trouble(model, NODE_TROUBLE_ROOM, &err);
    } else if (!model->has_need || model->wants_probe ||
               model->need_library != model->engine->library) {
        node_measure(model->models);
        start_probe(model);
    } else {
        admission_make_room(model);
    }
}
