/* gptoss/backend/gpu/backend.c - plan, open and close for any host; see gpu.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/gptoss/backend/gpu/gpu.h"
#include "engines/gptoss/model/rope.h"

lr_code gpu_plan(const struct gpu_host *host, const struct model_config *c,
                 const struct gptoss_backend_options *o, struct gptoss_plan *out,
                 struct lr_error *err)
{
    struct gpu_limits limits;
    lr_code code = host->describe(o->device, &limits, err);

    if (code != LR_OK)
        return code;
    const struct gpu_extra extra = gpu_extra_read(o->extra_json);
    gpu_limits_lower(&limits, &extra);
    return gpu_plan_for(c, o, &limits, out, err);
}

void gpu_close(struct gptoss_backend *b)
{
    if (b == NULL)
        return;
    engine_pool_destroy(b->pool);
    for (uint32_t i = 0; i < GPU_HOST_THREADS; i++)
        sampler_destroy(b->samplers[i]);
    gpu_forget_kept(b);
    b->host->close(b->device); /* with its buffers and other recordings */
    free(b->frequency);
    free(b->layers);
    free(b);
}

/* The plan's limit may be older than other programs' memory. */
static lr_code check_memory(const struct gptoss_backend *b, struct lr_error *err)
{
    uint64_t needed = b->plan.weights + b->plan.workspace + b->plan.kv;

    if (needed <= b->limits.free_bytes)
        return LR_OK;
    return lr_fail(err, b->limits.is_cpu ? LR_OUT_OF_RAM : LR_OUT_OF_VRAM,
                   "the model needs %llu bytes of memory and %llu are free on %s",
                   (unsigned long long)needed, (unsigned long long)b->limits.free_bytes,
                   b->limits.name);
}

static lr_code backend_allot(struct gptoss_backend *b, struct lr_error *err)
{
    struct gpu_room rooms[GPU_ROOMS];
    uint64_t bytes;
    lr_code code = gpu_wrap_file(b, err);

    if (code == LR_OK)
        code = gpu_place_weights(b, &bytes, err); /* counts */
    for (uint32_t i = 0; i < b->allocation_count && code == LR_OK; i++)
        code = b->host->allocate(b->device, b->allocation_bytes[i], GPU_ON_DEVICE,
                                 &b->allocations[i], err);
    if (code == LR_OK)
        code = gpu_place_weights(b, &bytes, err);
    gpu_rooms(b->config, &b->limits, &b->plan, rooms);
    for (uint32_t i = 0; i < GPU_ROOMS && code == LR_OK; i++)
        code = b->host->allocate(
            b->device, rooms[i].bytes, GPU_ON_DEVICE,
            (struct gpu_buffer **)(void *)((char *)&b->ws + rooms[i].member), err);
    if (code == LR_OK)
        code = b->host->allocate(b->device, rooms[0].bytes, GPU_TO_DEVICE, &b->to_device, err);
    if (code == LR_OK)
        code = b->host->allocate(b->device, gpu_to_host_bytes(b->config), GPU_TO_HOST,
                                 &b->to_host, err);
    return code;
}

/* The bits of the ids that may be sampled. */
static lr_code send_usable(struct gptoss_backend *b, struct lr_error *err)
{
    struct gpu_list list = {0};
    uint64_t bytes = (uint64_t)(b->weights->vocab_rows + 31) / 32 * 4;
    struct gpu_buffer *staging;
    lr_code code = b->host->allocate(b->device, bytes, GPU_TO_DEVICE, &staging, err);

    if (code != LR_OK)
        return code;
    memcpy(b->host->mapped(staging), b->usable, bytes);
    gpu_list_copy(&list, (struct gpu_span){staging, 0, bytes},
                  (struct gpu_span){b->ws.usable, 0, bytes});
    code = gpu_run(b, &list, err);
    gpu_list_free(&list);
    b->host->release(b->device, staging);
    return code;
}

static lr_code start_threads(struct gptoss_backend *b, struct lr_error *err)
{
    for (uint32_t i = 0; i < b->plan.threads; i++) {
        b->samplers[i] = sampler_create(b->weights->vocab_rows);
        if (b->samplers[i] == NULL)
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u samplers", b->plan.threads);
    }
    b->pool = engine_pool_create(b->plan.threads);
    return b->pool != NULL
               ? LR_OK
               : lr_fail(err, LR_OUT_OF_RAM, "cannot start %u threads", b->plan.threads);
}

static lr_code backend_start(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                             const struct gptoss_backend_options *o, struct lr_error *err)
{
    lr_code code = b->host->describe(o->device, &b->limits, err);

    const struct gpu_extra extra = gpu_extra_read(o->extra_json);
    if (code == LR_OK) {
        gpu_limits_lower(&b->limits, &extra);
        b->late_kernels = extra.late_kernels;
        b->few = gpu_few_rows(b->config, &b->limits);
        code = check_memory(b, err);
    }
    if (code == LR_OK)
        code = b->host->open(o->device, b->host->programs, &b->device, err);
    if (code == LR_OK)
        code = start_threads(b, err);
    if (code == LR_OK)
        code = backend_allot(b, err);
    if (code == LR_OK)
        code = gpu_matrices_open(b, &extra, err);
    if (code == LR_OK)
        code = gpu_make_pipelines(b, host, err);
    if (code == LR_OK)
        code = gpu_load_weights(b, host, err);
    if (code == LR_OK)
        code = gpu_pages_open(b, err);
    if (code == LR_OK)
        code = send_usable(b, err);
    if (code == LR_OK && host->log != NULL) {
        char text[400];
        (void)snprintf(text, sizeof(text),
                       "api=%s device=\"%.200s\" weights=%llu kv=%llu workspace=%llu "
                       "subgroup=%u matrices=%s allocations=%u in_place=%llu",
                       b->host->name, b->limits.name, (unsigned long long)b->plan.weights,
                       (unsigned long long)b->plan.kv, (unsigned long long)b->plan.workspace,
                       b->limits.subgroup,
                       b->matrices.few != 0 ? "all"
                       : b->matrices.many   ? "many"
                                            : "none",
                       b->allocation_count, (unsigned long long)b->in_place_bytes);
        host->log(host->ctx, 1, "gpu.open", text);
    }
    return code;
}

lr_code gpu_open(const struct gpu_host *gpu, const struct gptoss_backend_host *host,
                 const struct model_gptoss *weights, const uint32_t *usable,
                 const struct gptoss_backend_options *options, const struct gptoss_plan *plan,
                 struct gptoss_backend **out, struct lr_error *err)
{
    struct gptoss_backend *b = calloc(1, sizeof(*b));
    const struct model_config *c = &weights->config;

    *out = NULL;
    if (b == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the GPU backend");
    b->host = gpu;
    b->weights = weights;
    b->usable = usable;
    b->config = c;
    b->plan = *plan;
    b->logit_stride = (c->vocab + 63) / 64 * 64;
    b->layers = calloc(c->layers, sizeof(*b->layers));
    b->frequency = calloc(c->head_dim / 2 + 1, sizeof(*b->frequency));
    lr_code code = LR_OK;
    if (b->layers == NULL || b->frequency == NULL)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for %u layers", c->layers);
    if (code == LR_OK) {
        gptoss_rope_frequencies(c, b->frequency);
        code = backend_start(b, host, options, err);
    }
    if (code != LR_OK) {
        gpu_close(b);
        return code;
    }
    *out = b;
    return LR_OK;
}
