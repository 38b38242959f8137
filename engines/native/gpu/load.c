/* native/gpu/load.c - weights from the mapped files to the device.
 *
 * Threads write rows in the device's order (weights.c) into mapped memory.  On a device with
 * memory of its own that is staging memory: the device copies a piece while the threads write
 * the next one.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/native/gpu/gpu.h"

enum { SLOTS = 2, TASKS = 8, UNIT_BYTES = 16 };

struct loader {
    struct serving_backend *b;
    const struct serving_host *host;
    struct lr_error *err;
    struct gpu_buffer *slots[SLOTS];
    struct gpu_recording *recordings[SLOTS];
    uint64_t tickets[SLOTS];
    uint32_t slot;
    uint64_t done;
};

/* Rows of a weight, counted over its matrices. */
struct row_job {
    const struct native_spec *spec;
    const struct native_gpu_weight *w;
    uint64_t first, count, share;
    char *to;
};

static void row_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct row_job *job = ctx;
    uint64_t from = task * job->share, to = from + job->share;

    (void)worker;
    for (uint64_t i = from; i < to && i < job->count; i++) {
        uint64_t row = job->first + i;
        native_gpu_row(job->spec, job->w, (uint32_t)(row / job->w->rows),
                       (uint32_t)(row % job->w->rows),
                       job->to + i * job->w->units * UNIT_BYTES);
    }
}

static lr_code report(struct loader *l, uint64_t bytes)
{
    l->done += bytes;
    if (l->host->progress != NULL &&
        l->host->progress(l->host->ctx, "upload", l->done, l->b->plan.weights) != 0)
        return lr_fail(l->err, LR_CANCELLED, "loading was cancelled");
    return LR_OK;
}

/* Where the host writes `bytes` that belong to the span. */
static lr_code loader_begin(struct loader *l, struct gpu_span to, char **out)
{
    const struct gpu_host *gpu = l->b->host;
    char *mapped = gpu->mapped(to.buffer);
    lr_code code = LR_OK;

    if (mapped != NULL) {
        *out = mapped + to.at;
        return LR_OK;
    }
    code = gpu->wait(l->b->device, l->tickets[l->slot], l->err);
    *out = gpu->mapped(l->slots[l->slot]);
    return code;
}

static lr_code loader_end(struct loader *l, struct gpu_span to)
{
    const struct gpu_host *gpu = l->b->host;
    uint32_t i = l->slot;
    lr_code code = LR_OK;

    if (gpu->mapped(to.buffer) == NULL) {
        const struct gpu_command copy = {
            .kind = GPU_COPY, .span_count = 2, .spans = {{l->slots[i], 0, to.bytes}, to}};
        gpu->forget(l->b->device, l->recordings[i]);
        l->recordings[i] = NULL;
        code = gpu->record(l->b->device, &copy, 1, &l->recordings[i], l->err);
        if (code == LR_OK)
            code = gpu->submit(l->b->device, l->recordings[i], &l->tickets[i], l->err);
        l->slot = (i + 1) % SLOTS;
    }
    return code == LR_OK ? report(l, to.bytes) : code;
}

static lr_code load_rows(struct loader *l, const struct native_gpu_weight *w, uint32_t part)
{
    uint64_t row = (uint64_t)w->units * UNIT_BYTES, rows = w->count > 1 ? w->rows : 1;
    uint64_t all = (uint64_t)w->count * w->rows, at = part * w->part_unit * rows,
             end = at + w->part_unit * rows, begin = at;
    lr_code code = LR_OK;

    for (end = end < all ? end : all; at < end && code == LR_OK;) {
        struct row_job job = {l->b->spec, w, at, end - at, 0, NULL};
        if (job.count > NATIVE_GPU_SLOT_BYTES / row)
            job.count = NATIVE_GPU_SLOT_BYTES / row;
        struct gpu_span to = w->parts[part];
        to.at += (at - begin) * row;
        to.bytes = job.count * row;
        code = loader_begin(l, to, &job.to);
        if (code != LR_OK)
            return code;
        job.share = job.count / (l->b->plan.threads * TASKS) + 1;
        engine_pool_run(l->b->pool, row_task, &job,
                        (uint32_t)((job.count + job.share - 1) / job.share));
        code = loader_end(l, to);
        at += job.count;
    }
    return code;
}

/* Bytes that are in memory. */
static lr_code load_bytes(struct loader *l, struct gpu_span to, const char *from)
{
    lr_code code = LR_OK;

    for (uint64_t at = 0, n; at < to.bytes && code == LR_OK; at += n) {
        n = to.bytes - at < NATIVE_GPU_SLOT_BYTES ? to.bytes - at : NATIVE_GPU_SLOT_BYTES;
        struct gpu_span piece = {to.buffer, to.at + at, n};
        char *out;
        code = loader_begin(l, piece, &out);
        if (code != LR_OK)
            return code;
        memcpy(out, from + at, n);
        code = loader_end(l, piece);
    }
    return code;
}

static lr_code load_side(struct loader *l, const struct native_gpu_weight *w)
{
    char *side = malloc(w->side_bytes);
    lr_code code = LR_OK;

    if (side == NULL)
        return lr_fail(l->err, LR_OUT_OF_RAM, "no memory for %llu bytes of scales",
                       (unsigned long long)w->side_bytes);
    native_gpu_side(l->b->spec, w, side);
    code = load_bytes(l, w->side, side);
    free(side);
    return code;
}

static lr_code load_all(struct loader *l)
{
    const struct native_gpu_weights *all = &l->b->weights;
    lr_code code = LR_OK;

    for (uint32_t i = 0; i < all->count && code == LR_OK; i++) {
        for (uint32_t p = 0; p < all->all[i].part_count && code == LR_OK; p++)
            code = load_rows(l, &all->all[i], p);
        if (code == LR_OK && all->all[i].side_bytes > 0)
            code = load_side(l, &all->all[i]);
    }
    for (uint32_t i = 0; i < l->b->spec->vector_count && code == LR_OK; i++)
        code = load_bytes(l, all->vectors[i], (const char *)l->b->spec->vectors[i].values);
    for (uint32_t i = 0; i < SLOTS && code == LR_OK; i++)
        code = l->b->host->wait(l->b->device, l->tickets[i], l->err);
    return code;
}

lr_code native_gpu_load(struct serving_backend *b, const struct serving_host *host,
                        struct lr_error *err)
{
    struct loader l = {.b = b, .host = host, .err = err};
    lr_code code = LR_OK;

    for (uint32_t i = 0; i < SLOTS && code == LR_OK && !b->limits.unified; i++)
        code = b->host->allocate(b->device, NATIVE_GPU_SLOT_BYTES, GPU_TO_DEVICE, &l.slots[i],
                                 err);
    if (code == LR_OK)
        code = load_all(&l);
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct lr_error ignored;
        if (b->host->wait(b->device, l.tickets[i], &ignored) == LR_OK)
            b->host->forget(b->device, l.recordings[i]);
        b->host->release(b->device, l.slots[i]);
    }
    return code;
}
