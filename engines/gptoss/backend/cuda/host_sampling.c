/* gptoss/backend/cuda/host_sampling.c - sampling on the host, for what the device does not
 * support.
 *
 * Rows are copied to pinned memory in groups; while the threads sample one group, the next is
 * copied.
 */
#include <stdlib.h>

#include "engines/gptoss/backend/cuda/cuda.h"

/* Rows of a group: the number of threads, so that a group takes the time of one row. */
enum { GROUP = CUDA_HOST_THREADS, GROUPS = 2 };

lr_code cuda_host_sampling_open(struct gptoss_backend *b, struct lr_error *err)
{
    uint32_t threads = b->plan.threads;

    CUDA_TRY(
        b->cu,
        cuMemAllocHost((void **)&b->host_logits, (size_t)GROUPS * GROUP * b->logit_stride * 4),
        err);
    for (uint32_t i = 0; i < threads; i++) {
        b->samplers[i] = sampler_create(b->vocab_rows);
        if (b->samplers[i] == NULL)
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u samplers", threads);
    }
    b->pool = engine_pool_create(threads);
    return b->pool != NULL ? LR_OK
                           : lr_fail(err, LR_OUT_OF_RAM, "cannot start %u threads", threads);
}

void cuda_host_sampling_close(struct gptoss_backend *b)
{
    engine_pool_destroy(b->pool);
    for (uint32_t i = 0; i < CUDA_HOST_THREADS; i++)
        sampler_destroy(b->samplers[i]);
    if (b->host_logits != NULL)
        (void)b->cu->cuMemFreeHost(b->host_logits);
}

struct group {
    struct gptoss_backend *b;
    const struct cuda_host_row *rows;
    const float *logits;
};

static float *rows_of_group(const struct gptoss_backend *b, uint32_t group)
{
    return b->host_logits + (size_t)(group % GROUPS) * GROUP * b->logit_stride;
}

static lr_code copy_group(struct gptoss_backend *b, const struct cuda_host_row *rows,
                          uint32_t count, uint32_t group, struct lr_error *err)
{
    float *to = rows_of_group(b, group);

    for (uint32_t i = 0; i < GROUP && group * GROUP + i < count; i++) {
        const float *from =
            b->ws.logits + (size_t)rows[group * GROUP + i].row * b->logit_stride;
        CUDA_TRY(b->cu,
                 cuMemcpyDtoHAsync(to + (size_t)i * b->logit_stride,
                                   (CUdeviceptr)(uintptr_t)from, (size_t)b->vocab_rows * 4,
                                   b->stream),
                 err);
    }
    return LR_OK;
}

static void host_sampling_sample_task(void *ctx, uint32_t i, uint32_t worker)
{
    const struct group *g = ctx;
    const struct gptoss_step *s = g->rows[i].step;

    sampler_sample(g->b->samplers[worker], g->logits + (size_t)i * g->b->logit_stride,
                   g->b->usable, s->sample, s->sampled);
}

lr_code cuda_host_sampling(struct gptoss_backend *b, const struct cuda_host_row *rows,
                           uint32_t count, struct lr_error *err)
{
    lr_code code = copy_group(b, rows, count, 0, err);

    for (uint32_t group = 0; group * GROUP < count && code == LR_OK; group++) {
        uint32_t first = group * GROUP, left = count - first;
        struct group g = {b, rows + first, rows_of_group(b, group)};
        CUDA_TRY(b->cu, cuStreamSynchronize(b->stream), err);
        if (left > GROUP)
            code = copy_group(b, rows, count, group + 1, err);
        engine_pool_run(b->pool, host_sampling_sample_task, &g, left < GROUP ? left : GROUP);
    }
    return code;
}
