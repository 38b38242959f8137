/* native/gpu/backend.c - open and close for any host; see gpu.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/native/gpu/gpu.h"

void native_gpu_close(struct serving_backend *b)
{
    if (b == NULL)
        return;
    engine_pool_destroy(b->pool);
    for (uint32_t i = 0; i < NATIVE_GPU_THREADS; i++)
        sampler_destroy(b->samplers[i]);
    b->host->close(b->device); /* with its buffers and recordings */
    native_gpu_place_free(&b->weights);
    free(b->caches);
    free(b);
}

/* The plan's limit may be older than other programs' memory. */
static lr_code check_memory(const struct serving_backend *b, struct lr_error *err)
{
    uint64_t needed = b->plan.weights + b->plan.workspace + b->plan.kv;

    if (needed <= b->limits.free_bytes)
        return LR_OK;
    return lr_fail(err, b->limits.is_cpu ? LR_OUT_OF_RAM : LR_OUT_OF_VRAM,
                   "the model needs %llu bytes of memory and %llu are free on %s",
                   (unsigned long long)needed, (unsigned long long)b->limits.free_bytes,
                   b->limits.name);
}

static lr_code allot_weights(struct serving_backend *b, struct lr_error *err)
{
    lr_code code = native_gpu_place(&b->weights, b->spec, &b->limits, err); /* counts */

    for (uint32_t i = 0; i < b->weights.allocation_count && code == LR_OK; i++)
        code = b->host->allocate(b->device, b->weights.allocation_bytes[i], GPU_ON_DEVICE,
                                 &b->weights.allocations[i], err);
    return code == LR_OK ? native_gpu_place(&b->weights, b->spec, &b->limits, err) : code;
}

static lr_code allot_workspace(struct serving_backend *b, struct lr_error *err)
{
    const struct {
        enum native_gpu_room room;
        enum gpu_place place;
        struct gpu_buffer **buffer;
    } rooms[] = {
        {NATIVE_ROOM_INNER, GPU_ON_DEVICE, &b->inner},
        {NATIVE_ROOM_HIDDEN, GPU_ON_DEVICE, &b->hidden},
        {NATIVE_ROOM_DOWN, GPU_ON_DEVICE, &b->down},
        {NATIVE_ROOM_SORTED, GPU_ON_DEVICE, &b->sorted},
        {NATIVE_ROOM_INPUTS, GPU_ON_DEVICE, &b->inputs},
        {NATIVE_ROOM_STATE, GPU_ON_DEVICE, &b->state},
        {NATIVE_ROOM_NOTHING, GPU_ON_DEVICE, &b->nothing},
        {NATIVE_ROOM_INPUTS, GPU_TO_DEVICE, &b->to_device},
        {NATIVE_ROOM_RESULTS, GPU_TO_HOST, &b->to_host},
    };
    lr_code code = LR_OK;

    for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]) && code == LR_OK; i++) {
        uint64_t bytes = native_gpu_room_bytes(b->spec, &b->plan, rooms[i].room);
        if (bytes > 0)
            code = b->host->allocate(b->device, bytes, rooms[i].place, rooms[i].buffer, err);
    }
    for (uint32_t i = 0; i < b->spec->buffer_count && code == LR_OK; i++)
        code = b->host->allocate(b->device, native_gpu_buffer_bytes(b->spec, &b->plan, i),
                                 GPU_ON_DEVICE, &b->buffers[i], err);
    return code;
}

static lr_code allot_pages(struct serving_backend *b, struct lr_error *err)
{
    lr_code code = LR_OK;

    b->caches = calloc(b->spec->cache_count + 1, sizeof(*b->caches));
    if (b->caches == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u caches", b->spec->cache_count);
    for (uint32_t i = 0; i < b->plan.kind_count && code == LR_OK; i++)
        code = native_gpu_resize(b, i, b->plan.kinds[i].pages, err);
    return code == LR_OK ? native_gpu_resize(b, SERVING_SNAPSHOTS, b->plan.snapshots, err)
                         : code;
}

static lr_code start_threads(struct serving_backend *b, struct lr_error *err)
{
    for (uint32_t i = 0; i < b->plan.threads; i++) {
        b->samplers[i] = sampler_create(b->spec->vocab);
        if (b->samplers[i] == NULL)
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u samplers", b->plan.threads);
    }
    b->pool = engine_pool_create(b->plan.threads);
    return b->pool != NULL
               ? LR_OK
               : lr_fail(err, LR_OUT_OF_RAM, "cannot start %u threads", b->plan.threads);
}

static void tell(const struct serving_backend *b, const struct serving_host *host)
{
    char text[512];

    if (host->log == NULL)
        return;
    (void)snprintf(text, sizeof(text),
                   "api=%s device=\"%.200s\" weights=%llu kv=%llu workspace=%llu subgroup=%u "
                   "allocations=%u",
                   b->host->name, b->limits.name, (unsigned long long)b->plan.weights,
                   (unsigned long long)b->plan.kv, (unsigned long long)b->plan.workspace,
                   b->limits.subgroup, b->weights.allocation_count);
    host->log(host->ctx, 1, "gpu.open", text);
}

static lr_code backend_start(struct serving_backend *b, const struct serving_host *host,
                             const struct serving_options *o, struct lr_error *err)
{
    const struct native_gpu_extra extra = native_gpu_extra_read(o->extra_json);
    lr_code code = b->host->describe(o->device, &b->limits, err);

    b->wide = extra.wide;
    if (code == LR_OK) {
        native_gpu_lower(&b->limits, &extra);
        code = check_memory(b, err);
    }
    if (code == LR_OK)
        code = b->host->open(o->device, b->host->programs, &b->device, err);
    if (code == LR_OK)
        code = start_threads(b, err);
    if (code == LR_OK)
        code = allot_weights(b, err);
    if (code == LR_OK)
        code = allot_workspace(b, err);
    if (code == LR_OK)
        code = native_gpu_load(b, host, err);
    if (code == LR_OK)
        code = allot_pages(b, err);
    if (code == LR_OK)
        tell(b, host);
    return code;
}

lr_code native_gpu_open(const struct gpu_host *gpu, const struct serving_host *host,
                        const void *model, const uint32_t *usable,
                        const struct serving_options *options, const struct serving_plan *plan,
                        struct serving_backend **out, struct lr_error *err)
{
    const struct native_model *m = model;
    struct serving_backend *b = calloc(1, sizeof(*b));

    *out = NULL;
    if (b == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the GPU device");
    b->host = gpu;
    b->spec = &m->spec;
    b->usable = usable;
    b->plan = *plan;
    b->head_rows = native_gpu_head_rows(plan);
    model_weights_advise(m->weights, MODEL_ADVICE_WILLNEED);
    lr_code code = backend_start(b, host, options, err);
    if (code != LR_OK) {
        native_gpu_close(b);
        return code;
    }
    *out = b;
    return LR_OK;
}
