/* gptoss/backend/cuda/random.c - benchmarks without a file: random weights made on the device,
 * and the device's memory bandwidth, measured on those weights.
 *
 * Values have the size of a trained model's, so that activations stay finite and experts are
 * chosen about evenly; norms are 1.  For a model with a file only the measurement can run, if
 * extra_json asks for it.
 */
#include <stdio.h>

#include "base/clock.h"
#include "engines/gptoss/backend/cuda/cuda.h"

/* Kinds of repack.cu's fill_random. */
enum { FILL_BF16 = 0, FILL_CODES = 1, FILL_SCALES = 2 };
enum { FILL_THREADS = 256, READ_THREADS = 512, READ_PASSES = 5, BF16_ONE = 0x3F80 };

/* Fewer bytes fit into caches, at least in part. */
#define READ_LEAST (1ull << 30)

struct filler {
    struct gptoss_backend *b;
    struct lr_error *err;
    uint32_t seed;
    lr_code code; /* the first error */
};

static void cuda_random_fill(struct filler *f, const void *to, uint64_t bytes, uint32_t kind)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)to;
    size_t words = (size_t)((bytes + 3) / 4); /* pieces are padded to 256 bytes */
    uint32_t seed = f->seed++ * 0x9E3779B9u + 1;
    uint32_t blocks = (uint32_t)f->b->device.multiprocessors * 8;
    void *arguments[] = {&at, &words, &seed, &kind};
    if (f->code == LR_OK && to != NULL)
        f->code = cuda_launch(f->b, CUDA_fill_random, blocks, 1, 1, FILL_THREADS, 0, arguments,
                              f->err);
}

static void fill_ones(struct filler *f, const uint16_t *to, uint32_t count)
{
    CUresult result = f->code != LR_OK
                          ? CUDA_SUCCESS
                          : f->b->cu->cuMemsetD16Async((CUdeviceptr)(uintptr_t)to, BF16_ONE,
                                                       count, f->b->stream);
    if (result != CUDA_SUCCESS)
        f->code = cuda_fail(f->b->cu, result, "cuMemsetD16Async", f->err);
}

static void fill_bf16(struct filler *f, const struct cuda_matrix *m)
{
    cuda_random_fill(f, m->weights, (uint64_t)m->tiles * m->blocks * 1024, FILL_BF16);
    if (m->bias != NULL)
        cuda_random_fill(f, m->bias, (uint64_t)m->tiles * 32, FILL_BF16);
}

static void fill_experts(struct filler *f, const struct cuda_matrix *m, uint32_t experts)
{
    cuda_random_fill(f, m->weights, m->expert_weights * experts, FILL_CODES);
    cuda_random_fill(f, m->scales, m->expert_scales * experts, FILL_SCALES);
    cuda_random_fill(f, m->bias, m->expert_bias * 2 * experts, FILL_BF16);
}

lr_code cuda_fill_weights(struct gptoss_backend *b, struct lr_error *err)
{
    const struct model_config *c = b->config;
    struct filler f = {.b = b, .err = err};
    cuda_random_fill(&f, b->embed, (uint64_t)c->vocab * c->hidden * 2, FILL_BF16);
    fill_ones(&f, b->norm, c->hidden);
    fill_bf16(&f, &b->unembed);
    for (uint32_t i = 0; i < c->layers; i++) {
        const struct cuda_layer *l = &b->layers[i];
        fill_ones(&f, l->attn_norm, c->hidden);
        fill_ones(&f, l->mlp_norm, c->hidden);
        cuda_random_fill(&f, l->sinks, (uint64_t)c->heads * 2, FILL_BF16);
        cuda_random_fill(&f, l->router, (uint64_t)c->experts * c->hidden * 2, FILL_BF16);
        cuda_random_fill(&f, l->router_bias, (uint64_t)c->experts * 2, FILL_BF16);
        fill_bf16(&f, &l->qkv);
        fill_bf16(&f, &l->out);
        fill_experts(&f, &l->gate_up, c->experts);
        fill_experts(&f, &l->down, c->experts);
    }
    if (f.code == LR_OK)
        CUDA_TRY(b->cu, cuStreamSynchronize(b->stream), err);
    return f.code;
}

lr_code cuda_measure_memory(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                            struct lr_error *err)
{
    uint64_t bytes = b->plan.weights / 16 * 16, best_ns = UINT64_MAX;
    if (bytes < READ_LEAST || host->log == NULL)
        return LR_OK;
    CUdeviceptr sum = (CUdeviceptr)(uintptr_t)b->ws.logits; /* its content is not used */
    size_t pieces = (size_t)(bytes / 16);
    void *arguments[] = {&b->weight_memory, &pieces, &sum};
    for (int i = 0; i < READ_PASSES; i++) {
        CUDA_TRY(b->cu, cuStreamSynchronize(b->stream), err);
        uint64_t start = lr_clock_ns(NULL);
        lr_code code = cuda_launch(b, CUDA_read_memory, (uint32_t)b->device.multiprocessors * 4,
                                   1, 1, READ_THREADS, 0, arguments, err);
        if (code != LR_OK)
            return code;
        CUDA_TRY(b->cu, cuStreamSynchronize(b->stream), err);
        uint64_t ns = lr_clock_ns(NULL) - start;
        best_ns = ns < best_ns ? ns : best_ns;
    }
    char text[64];
    (void)snprintf(text, sizeof(text), "read_bytes_per_s=%.0f",
                   (double)bytes * 1e9 / (double)best_ns);
    host->log(host->ctx, 1, "cuda.memory", text);
    return LR_OK;
}
