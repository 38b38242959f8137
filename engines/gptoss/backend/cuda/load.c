/* gptoss/backend/cuda/load.c - weights from the mapped files to the device.
 *
 * Works piece by piece: host threads copy a piece from the mapping to pinned memory, the copy
 * engine copies it to a device buffer, and a kernel puts it into the order of args.h.  Several
 * slots keep the three busy at once.  Vectors that need no reordering are copied directly.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engines/gptoss/backend/cuda/cuda.h"
#include "engines/gptoss/model/rope.h"

enum { COPY_THREADS = 8, COPY_ALONE_BYTES = 1 << 20 };

/* Orders of repack.cu. */
enum { ORDER_PLAIN = 0, ORDER_ROPE = 1, ORDER_GATE_UP = 2 };

struct loader {
    struct gptoss_backend *b;
    const struct gptoss_backend_host *host;
    struct lr_error *err;
    void *pinned[CUDA_STAGING_SLOTS];
    CUdeviceptr staged[CUDA_STAGING_SLOTS];
    CUevent done[CUDA_STAGING_SLOTS];
    uint32_t slot;
    uint64_t loaded, total;
    CUdeviceptr too_large;
};

struct copy_part {
    void *to;
    const void *from;
    size_t bytes;
};

static void *copy_thread(void *arg)
{
    struct copy_part *part = arg;
    memcpy(part->to, part->from, part->bytes);
    return NULL;
}

/* One thread does not saturate a PCIe 5 link, and page faults on the mapping make it slower. */
static void copy_in_parallel(void *to, const void *from, size_t bytes)
{
    if (bytes < COPY_ALONE_BYTES) {
        memcpy(to, from, bytes);
        return;
    }
    pthread_t threads[COPY_THREADS];
    struct copy_part parts[COPY_THREADS];
    bool started[COPY_THREADS];
    size_t share = (bytes / COPY_THREADS + 4095) / 4096 * 4096;
    for (int i = 0; i < COPY_THREADS; i++) {
        size_t at = share * (size_t)i < bytes ? share * (size_t)i : bytes;
        size_t len = bytes - at < share ? bytes - at : share;
        parts[i] = (struct copy_part){(char *)to + at, (const char *)from + at, len};
        started[i] = i > 0 && pthread_create(&threads[i], NULL, copy_thread, &parts[i]) == 0;
        if (!started[i] && i > 0)
            (void)copy_thread(&parts[i]);
    }
    (void)copy_thread(&parts[0]);
    for (int i = 1; i < COPY_THREADS; i++)
        if (started[i])
            (void)pthread_join(threads[i], NULL);
}

/* Copies bytes to the current slot's device buffer; finish_slot() must follow. */
static lr_code stage(struct loader *l, const void *from, size_t bytes)
{
    const struct cuda_driver *cu = l->b->cu;
    CUDA_TRY(cu, cuEventSynchronize(l->done[l->slot]), l->err);
    copy_in_parallel(l->pinned[l->slot], from, bytes);
    CUDA_TRY(cu, cuMemcpyHtoDAsync(l->staged[l->slot], l->pinned[l->slot], bytes, l->b->stream),
             l->err);
    l->loaded += bytes;
    return LR_OK;
}

static lr_code finish_slot(struct loader *l)
{
    const struct cuda_driver *cu = l->b->cu;
    CUDA_TRY(cu, cuEventRecord(l->done[l->slot], l->b->stream), l->err);
    l->slot = (l->slot + 1) % CUDA_STAGING_SLOTS;
    if (l->host->progress != NULL &&
        l->host->progress(l->host->ctx, "read", l->loaded, l->total) != 0)
        return lr_fail(l->err, LR_CANCELLED, "loading was cancelled");
    return LR_OK;
}

static lr_code put_plain(struct loader *l, const void *to, const void *from, size_t bytes)
{
    const struct cuda_driver *cu = l->b->cu;
    for (size_t at = 0; at < bytes; at += CUDA_STAGING_BYTES) {
        size_t len = bytes - at < CUDA_STAGING_BYTES ? bytes - at : CUDA_STAGING_BYTES;
        CUDA_TRY(cu, cuEventSynchronize(l->done[l->slot]), l->err);
        copy_in_parallel(l->pinned[l->slot], (const char *)from + at, len);
        CUDA_TRY(cu,
                 cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)to + at, l->pinned[l->slot], len,
                                   l->b->stream),
                 l->err);
        l->loaded += len;
        lr_code code = finish_slot(l);
        if (code != LR_OK)
            return code;
    }
    return LR_OK;
}

static uint32_t grid_for(uint64_t items)
{
    return (uint32_t)((items + 255) / 256);
}

/* `rows` rows of the file become tiles first_tile .. of m.  Pieces end at tile borders, and at
 * head borders if rows are paired across a head. */
static lr_code put_bf16(struct loader *l, const struct cuda_matrix *m, uint32_t first_tile,
                        const uint16_t *from, uint32_t rows, uint32_t order)
{
    uint64_t row_bytes = (uint64_t)m->blocks * 64;
    uint32_t piece = (uint32_t)(CUDA_STAGING_BYTES / row_bytes) / 64 * 64;
    if (piece == 0)
        return lr_fail(l->err, LR_UNSUPPORTED,
                       "a row of %llu bytes is larger than the staging buffers",
                       (unsigned long long)row_bytes);
    for (uint32_t row = 0; row < rows; row += piece) {
        uint32_t count = rows - row < piece ? rows - row : piece, tiles = (count + 15) / 16;
        lr_code code = stage(l, (const char *)from + row * row_bytes, count * row_bytes);
        if (code != LR_OK)
            return code;
        CUdeviceptr to = (CUdeviceptr)(uintptr_t)m->weights +
                         (uint64_t)(first_tile + row / 16) * m->blocks * 1024;
        uint32_t blocks = m->blocks;
        void *arguments[] = {&l->staged[l->slot], &to, &count, &blocks, &tiles, &order};
        code = cuda_launch(l->b, CUDA_repack_bf16, grid_for((uint64_t)tiles * blocks * 64), 1,
                           1, 256, 0, arguments, l->err);
        if (code == LR_OK)
            code = finish_slot(l);
        if (code != LR_OK)
            return code;
    }
    return LR_OK;
}

static lr_code put_bias(struct loader *l, const uint16_t *to_base, uint64_t first,
                        const uint16_t *from, uint32_t rows, uint32_t order)
{
    lr_code code = stage(l, from, (size_t)rows * 2);
    if (code != LR_OK)
        return code;
    uint32_t tiles = (rows + 15) / 16;
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)(to_base + first);
    void *arguments[] = {&l->staged[l->slot], &to, &rows, &tiles, &order};
    code = cuda_launch(l->b, CUDA_repack_bias, grid_for((uint64_t)tiles * 16), 1, 1, 256, 0,
                       arguments, l->err);
    return code == LR_OK ? finish_slot(l) : code;
}

static lr_code put_expert(struct loader *l, const struct cuda_matrix *m,
                          const struct model_experts *e, uint32_t expert, uint32_t order)
{
    struct gptoss_backend *b = l->b;
    uint32_t rows = e->rows, blocks = m->blocks, tiles = m->tiles,
             excess = b->weights->scale_excess;
    uint64_t bytes = (uint64_t)rows * blocks * 16;
    if (bytes > CUDA_STAGING_BYTES)
        return lr_fail(l->err, LR_UNSUPPORTED,
                       "an expert matrix of %llu bytes is larger than the staging buffers (%d)",
                       (unsigned long long)bytes, CUDA_STAGING_BYTES);
    lr_code code = stage(l, e->blocks + expert * e->blocks_stride, bytes);
    if (code != LR_OK)
        return code;
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)m->weights + expert * m->expert_weights;
    void *codes[] = {&l->staged[l->slot], &to, &rows, &blocks, &tiles, &order};
    code =
        cuda_launch(b, CUDA_repack_mxfp4, grid_for((uint64_t)tiles * ((blocks + 1) / 2) * 32),
                    1, 1, 256, 0, codes, l->err);
    if (code == LR_OK)
        code = finish_slot(l);
    if (code == LR_OK)
        code = stage(l, e->scales + expert * e->scales_stride, (size_t)rows * blocks);
    if (code != LR_OK)
        return code;
    to = (CUdeviceptr)(uintptr_t)m->scales + expert * m->expert_scales;
    void *scales[] = {&l->staged[l->slot], &to, &rows, &blocks, &tiles, &order, &excess,
                      &l->too_large};
    code =
        cuda_launch(b, CUDA_repack_scales, grid_for((uint64_t)tiles * ((blocks + 3) / 4) * 8),
                    1, 1, 256, 0, scales, l->err);
    if (code == LR_OK)
        code = finish_slot(l);
    if (code != LR_OK)
        return code;
    const uint16_t *bias =
        (const uint16_t *)(const void *)((const char *)e->bias + expert * e->bias_stride);
    return put_bias(l, m->bias, expert * m->expert_bias, bias, rows, order);
}

static lr_code put_attention(struct loader *l, const struct cuda_layer *to,
                             const struct model_gptoss_layer *from)
{
    const struct model_config *c = l->b->config;
    uint32_t q = c->heads * 64, kv = c->kv_heads * 64;
    const struct {
        const uint16_t *weight, *bias;
        uint32_t first, rows;
    } parts[] = {{from->q_weight, from->q_bias, 0, q},
                 {from->k_weight, from->k_bias, q, kv},
                 {from->v_weight, from->v_bias, q + kv, kv}};
    for (size_t i = 0; i < 3; i++) {
        lr_code code = put_bf16(l, &to->qkv, parts[i].first / 16, parts[i].weight,
                                parts[i].rows, ORDER_ROPE);
        if (code == LR_OK)
            code = put_bias(l, to->qkv.bias, parts[i].first, parts[i].bias, parts[i].rows,
                            ORDER_ROPE);
        if (code != LR_OK)
            return code;
    }
    lr_code code = put_bf16(l, &to->out, 0, from->o_weight, c->hidden, ORDER_PLAIN);
    if (code == LR_OK)
        code = put_bias(l, to->out.bias, 0, from->o_bias, c->hidden, ORDER_PLAIN);
    if (code == LR_OK)
        code = put_plain(l, to->sinks, from->sinks, (size_t)c->heads * 2);
    if (code == LR_OK)
        code = put_plain(l, to->attn_norm, from->attn_norm, (size_t)c->hidden * 2);
    return code;
}

static lr_code put_layer(struct loader *l, const struct cuda_layer *to,
                         const struct model_gptoss_layer *from)
{
    const struct model_config *c = l->b->config;
    lr_code code = put_attention(l, to, from);
    if (code == LR_OK)
        code = put_plain(l, to->mlp_norm, from->mlp_norm, (size_t)c->hidden * 2);
    if (code == LR_OK)
        code =
            put_plain(l, to->router, from->router_weight, (size_t)c->experts * c->hidden * 2);
    if (code == LR_OK)
        code = put_plain(l, to->router_bias, from->router_bias, (size_t)c->experts * 2);
    for (uint32_t e = 0; e < c->experts && code == LR_OK; e++) {
        code = put_expert(l, &to->gate_up, &from->gate_up, e, ORDER_GATE_UP);
        if (code == LR_OK)
            code = put_expert(l, &to->down, &from->down, e, ORDER_PLAIN);
    }
    return code;
}

/* cos and sin by position, in the pairs of the q, k, v product. */
static lr_code put_rope(struct loader *l)
{
    struct gptoss_backend *b = l->b;
    uint32_t positions = b->plan.max_context;
    float *table = malloc((size_t)positions * 64 * sizeof(float));
    if (table == NULL)
        return lr_fail(l->err, LR_OUT_OF_RAM, "no memory for a rotation table of %u positions",
                       positions);
    double frequencies[32];
    gptoss_rope_frequencies(b->config, frequencies);
    for (uint32_t p = 0; p < positions; p++) {
        float cosines[32], sines[32];
        gptoss_rope_row(b->config, frequencies, p, cosines, sines);
        for (size_t i = 0; i < 32; i++) {
            table[(size_t)p * 64 + 2 * i] = cosines[i];
            table[(size_t)p * 64 + 2 * i + 1] = sines[i];
        }
    }
    uint64_t loaded = l->loaded;
    lr_code code = put_plain(l, b->rope, table, (size_t)positions * 64 * sizeof(float));
    l->loaded = loaded; /* these are no bytes of the model */
    free(table);
    return code;
}

static lr_code put_embed(struct loader *l)
{
    const struct model_gptoss *w = l->b->weights;
    size_t bytes = (size_t)w->vocab_rows * l->b->config->hidden * 2;

    if (l->b->host_embed == NULL)
        return put_plain(l, l->b->embed, w->embed, bytes);
    for (size_t at = 0; at < bytes; at += CUDA_STAGING_BYTES) {
        size_t len = bytes - at < CUDA_STAGING_BYTES ? bytes - at : CUDA_STAGING_BYTES;
        copy_in_parallel((char *)l->b->host_embed + at, (const char *)w->embed + at, len);
        l->loaded += len;
        if (l->host->progress != NULL &&
            l->host->progress(l->host->ctx, "read", l->loaded, l->total) != 0)
            return lr_fail(l->err, LR_CANCELLED, "loading was cancelled");
    }
    return LR_OK;
}

static lr_code put_all(struct loader *l)
{
    struct gptoss_backend *b = l->b;
    const struct model_gptoss *w = b->weights;
    const struct cuda_driver *cu = b->cu;
    if (w->embed == NULL) { /* a model shape without weights */
        lr_code code = cuda_fill_weights(b, l->err);
        return code == LR_OK ? put_rope(l) : code;
    }
    lr_code code = LR_OK;
    for (uint32_t i = 0; i < b->config->layers && code == LR_OK; i++)
        code = put_layer(l, &b->layers[i], &w->layers[i]);
    if (code == LR_OK)
        code = put_embed(l);
    if (code == LR_OK)
        code = put_plain(l, b->norm, w->norm, (size_t)b->config->hidden * 2);
    if (code == LR_OK)
        code = put_bf16(l, &b->unembed, 0, w->unembed, w->vocab_rows, ORDER_PLAIN);
    if (code == LR_OK)
        code = put_rope(l);
    if (code != LR_OK)
        return code;
    uint32_t too_large = 0;
    CUDA_TRY(cu, cuMemcpyDtoHAsync(&too_large, l->too_large, 4, b->stream), l->err);
    CUDA_TRY(cu, cuStreamSynchronize(b->stream), l->err);
    if (too_large != 0)
        return lr_fail(
            l->err, LR_UNSUPPORTED,
            "%u expert scales are above 2; the CUDA backend has code for scales up to 2",
            too_large);
    return LR_OK;
}

static lr_code cuda_load_prepare(struct loader *l)
{
    const struct cuda_driver *cu = l->b->cu;
    CUDA_TRY(cu, cuMemAlloc(&l->too_large, 256), l->err);
    CUDA_TRY(cu, cuMemsetD8Async(l->too_large, 0, 256, l->b->stream), l->err);
    for (int i = 0; i < CUDA_STAGING_SLOTS; i++) {
        CUDA_TRY(cu, cuMemAllocHost(&l->pinned[i], CUDA_STAGING_BYTES), l->err);
        CUDA_TRY(cu, cuMemAlloc(&l->staged[i], CUDA_STAGING_BYTES), l->err);
        CUDA_TRY(cu, cuEventCreate(&l->done[i], CU_EVENT_DISABLE_TIMING), l->err);
    }
    return LR_OK;
}

lr_code cuda_load_weights(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                          struct lr_error *err)
{
    const struct cuda_driver *cu = b->cu;
    struct loader l = {.b = b, .host = host, .err = err, .total = b->weights->weight_bytes};
    model_gptoss_advise(b->weights, MODEL_ADVICE_WILLNEED);
    lr_code code = cuda_load_prepare(&l);
    if (code == LR_OK)
        code = put_all(&l);
    (void)cu->cuStreamSynchronize(b->stream);
    for (int i = 0; i < CUDA_STAGING_SLOTS; i++) {
        if (l.done[i] != NULL)
            (void)cu->cuEventDestroy(l.done[i]);
        if (l.staged[i] != 0)
            (void)cu->cuMemFree(l.staged[i]);
        if (l.pinned[i] != NULL)
            (void)cu->cuMemFreeHost(l.pinned[i]);
    }
    if (l.too_large != 0)
        (void)cu->cuMemFree(l.too_large);
    return code;
}
