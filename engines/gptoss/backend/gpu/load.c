/* gptoss/backend/gpu/load.c - weights from the mapped files to the device.
 *
 * The bytes stay as they are.  On a device with memory of its own, threads copy a piece into
 * mapped memory while the device copies the piece before it.  On a device that shares the
 * machine's memory, the threads copy into the tensors themselves.  What the device reads in the
 * file (in_place.c) is not copied.
 */
#include <stdatomic.h>
#include <string.h>

#include "engines/gptoss/backend/gpu/gpu.h"

enum { SLOTS = 3, COPY_LEAST = 256 << 10 };
enum { MATRIX_SCALE_MAX = 127 + 7 }; /* scale_m.glsl has room for 2^7 */
#define SLOT_BYTES (32ull << 20)

struct loader {
    struct gptoss_backend *b;
    const struct gptoss_backend_host *host;
    struct lr_error *err;
    struct gpu_buffer *slots[SLOTS];
    struct gpu_recording *recordings[SLOTS];
    uint64_t tickets[SLOTS];
    uint32_t slot;
    uint64_t done, total;
    uint32_t seed;
};

struct copy_job {
    char *to;
    const char *from;
    size_t bytes, share;
};

static void copy_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct copy_job *job = ctx;
    size_t at = task * job->share;
    size_t n = job->bytes - at < job->share ? job->bytes - at : job->share;

    (void)worker;
    memcpy(job->to + at, job->from + at, n);
}

/* One thread copies far slower than a bus. */
static void copy_bytes(struct loader *l, void *to, const void *from, size_t bytes)
{
    struct copy_job job = {to, from, bytes, 0};

    job.share = bytes / l->b->plan.threads / 4;
    job.share = job.share < COPY_LEAST ? COPY_LEAST : job.share;
    engine_pool_run(l->b->pool, copy_task, &job,
                    (uint32_t)((bytes + job.share - 1) / job.share));
}

static lr_code send(struct loader *l, struct gpu_span to, const char *from)
{
    struct gptoss_backend *b = l->b;
    uint32_t i = l->slot;

    l->slot = (i + 1) % SLOTS;
    lr_code code = b->host->wait(b->device, l->tickets[i], l->err);
    if (code != LR_OK)
        return code;
    copy_bytes(l, b->host->mapped(l->slots[i]), from, to.bytes);
    const struct gpu_command copy = {
        .kind = GPU_COPY, .span_count = 2, .spans = {{l->slots[i], 0, to.bytes}, to}};
    b->host->forget(b->device, l->recordings[i]);
    l->recordings[i] = NULL;
    code = b->host->record(b->device, &copy, 1, &l->recordings[i], l->err);
    if (code == LR_OK)
        code = b->host->submit(b->device, l->recordings[i], &l->tickets[i], l->err);
    return code;
}

static lr_code upload(struct loader *l, struct gpu_span to, const void *from, uint64_t bytes)
{
    const struct gpu_host *gpu = l->b->host;
    char *mapped = l->b->limits.unified ? gpu->mapped(to.buffer) : NULL;

    if (gpu_is_in_place(l->b, to.buffer)) {
        l->done += bytes;
        l->b->in_place_bytes += bytes;
        return LR_OK;
    }
    for (uint64_t at = 0; at < bytes;) {
        uint64_t n = bytes - at < SLOT_BYTES ? bytes - at : SLOT_BYTES;
        const char *piece = (const char *)from + at;
        lr_code code = LR_OK;
        if (mapped != NULL)
            copy_bytes(l, mapped + to.at + at, piece, n);
        else
            code = send(l, (struct gpu_span){to.buffer, to.at + at, n}, piece);
        if (code != LR_OK)
            return code;
        at += n;
        l->done += n;
        if (l->host->progress != NULL &&
            l->host->progress(l->host->ctx, "upload", l->done, l->total) != 0)
            return lr_fail(l->err, LR_CANCELLED, "loading was cancelled");
    }
    return LR_OK;
}

/* Rows of `from` that become the rows `at` .. `at + rows` of a matrix with parts. */
static lr_code upload_rows(struct loader *l, const struct gpu_matrix *m, uint32_t at,
                           const uint16_t *from, uint32_t rows)
{
    uint64_t row_bytes = (uint64_t)m->columns * 2;
    lr_code code = LR_OK;

    for (uint32_t i = 0; i < m->part_count && code == LR_OK; i++) {
        const struct gpu_part *p = &m->parts[i];
        uint32_t begin = at > p->first ? at : p->first;
        uint32_t end = at + rows < p->first + p->count ? at + rows : p->first + p->count;
        if (begin >= end)
            continue;
        struct gpu_span to = p->weight;
        to.at += (begin - p->first) * row_bytes;
        code = upload(l, to, (const char *)from + (begin - at) * row_bytes,
                      (end - begin) * row_bytes);
    }
    return code;
}

struct scale_job {
    const uint8_t *scales;
    size_t bytes, share;
    _Atomic uint32_t largest;
};

static void scale_task(void *ctx, uint32_t task, uint32_t worker)
{
    struct scale_job *job = ctx;
    size_t at = task * job->share;
    size_t n = job->bytes - at < job->share ? job->bytes - at : job->share;
    uint32_t most = 0;

    (void)worker;
    for (size_t i = 0; i < n; i++)
        most = job->scales[at + i] > most ? job->scales[at + i] : most;
    for (uint32_t seen = atomic_load(&job->largest);
         most > seen && !atomic_compare_exchange_weak(&job->largest, &seen, most);)
        ;
}

/* Cooperative matrices hold weights as float16. */
static lr_code check_scales(struct loader *l, const uint8_t *scales, size_t bytes)
{
    const struct gptoss_backend *b = l->b;
    struct scale_job job = {scales, bytes, bytes / b->plan.threads + 1, 0};
    uint32_t most = MATRIX_SCALE_MAX + b->weights->scale_excess;

    if (!b->matrices.many)
        return LR_OK;
    engine_pool_run(b->pool, scale_task, &job, (uint32_t)((bytes + job.share - 1) / job.share));
    if (job.largest <= most)
        return LR_OK;
    return lr_fail(l->err, LR_UNSUPPORTED,
                   "an expert has weights of the scale 2^%d; cooperative matrices have code "
                   "for up to 2^7: load it with --engine-options "
                   "'{\"matrices\": \"none\"}'",
                   (int)job.largest - (int)b->weights->scale_excess - 127);
}

static lr_code upload_experts(struct loader *l, const struct gpu_matrix *m,
                              const struct model_experts *e)
{
    uint64_t groups = (uint64_t)m->rows * (m->columns / 32), blocks = groups * 16;
    lr_code code = LR_OK;

    for (uint32_t i = 0; i < m->part_count && code == LR_OK; i++) {
        const struct gpu_part *p = &m->parts[i];
        /* Adjacent experts are one copy. */
        uint32_t step = e->blocks_stride == blocks && e->scales_stride == groups ? p->count : 1;
        for (uint32_t n = 0; n < p->count && code == LR_OK; n += step) {
            struct gpu_span w = p->weight, s = p->scales, bias = m->bias;
            uint32_t expert = p->first + n;
            w.at += n * blocks;
            s.at += n * groups;
            bias.at += (uint64_t)expert * m->rows * 2;
            code = check_scales(l, e->scales + expert * e->scales_stride, step * groups);
            if (code == LR_OK)
                code = upload(l, w, e->blocks + expert * e->blocks_stride, step * blocks);
            if (code == LR_OK)
                code = upload(l, s, e->scales + expert * e->scales_stride, step * groups);
        }
    }
    for (uint32_t n = 0; n < l->b->config->experts && code == LR_OK; n++) {
        struct gpu_span bias = m->bias;
        bias.at += (uint64_t)n * m->rows * 2;
        code =
            upload(l, bias, (const char *)e->bias + n * e->bias_stride, (uint64_t)m->rows * 2);
    }
    return code;
}

static lr_code upload_layer(struct loader *l, const struct gpu_layer *to,
                            const struct model_gptoss_layer *from)
{
    const struct model_config *c = l->b->config;
    uint32_t q = c->heads * GPU_HEAD_DIM, kv = c->kv_heads * GPU_HEAD_DIM;
    const struct {
        struct gpu_span to;
        uint64_t at;
        const uint16_t *from;
        uint32_t count;
    } vectors[] = {
        {to->attn_norm, 0, from->attn_norm, c->hidden},
        {to->mlp_norm, 0, from->mlp_norm, c->hidden},
        {to->sinks, 0, from->sinks, c->heads},
        {to->qkv.bias, 0, from->q_bias, q},
        {to->qkv.bias, q, from->k_bias, kv},
        {to->qkv.bias, q + kv, from->v_bias, kv},
        {to->out.bias, 0, from->o_bias, c->hidden},
        {to->router.bias, 0, from->router_bias, c->experts},
    };
    lr_code code = LR_OK;

    for (size_t i = 0; i < sizeof(vectors) / sizeof(vectors[0]) && code == LR_OK; i++) {
        struct gpu_span span = vectors[i].to;
        span.at += vectors[i].at * 2;
        code = upload(l, span, vectors[i].from, (uint64_t)vectors[i].count * 2);
    }
    if (code == LR_OK)
        code = upload_rows(l, &to->qkv, 0, from->q_weight, q);
    if (code == LR_OK)
        code = upload_rows(l, &to->qkv, q, from->k_weight, kv);
    if (code == LR_OK)
        code = upload_rows(l, &to->qkv, q + kv, from->v_weight, kv);
    if (code == LR_OK)
        code = upload_rows(l, &to->out, 0, from->o_weight, c->hidden);
    if (code == LR_OK)
        code = upload_rows(l, &to->router, 0, from->router_weight, c->experts);
    if (code == LR_OK)
        code = upload_experts(l, &to->gate_up, &from->gate_up);
    return code == LR_OK ? upload_experts(l, &to->down, &from->down) : code;
}

static lr_code upload_all(struct loader *l)
{
    struct gptoss_backend *b = l->b;
    const struct model_gptoss *w = b->weights;
    lr_code code = upload_rows(l, &b->embed, 0, w->embed, w->vocab_rows);

    for (uint32_t i = 0; i < b->config->layers && code == LR_OK; i++)
        code = upload_layer(l, &b->layers[i], &w->layers[i]);
    if (code == LR_OK)
        code = upload(l, b->norm, w->norm, (uint64_t)b->config->hidden * 2);
    if (code == LR_OK)
        code = upload_rows(l, &b->unembed, 0, w->unembed, w->vocab_rows);
    for (uint32_t i = 0; i < SLOTS && code == LR_OK; i++)
        code = b->host->wait(b->device, l->tickets[i], l->err);
    return code;
}

/* ---- random weights, for benchmarks ---- */

static void fill_matrix(struct loader *l, struct gpu_list *list, const struct gpu_matrix *m)
{
    for (uint32_t i = 0; i < m->part_count; i++) {
        const struct gpu_part *p = &m->parts[i];
        bool experts = p->scales.bytes != 0;
        gpu_add_fill(l->b, list, p->weight, experts ? GPU_FILL_CODES : GPU_FILL_BF16,
                     l->seed++);
        if (experts)
            gpu_add_fill(l->b, list, p->scales, GPU_FILL_SCALES, l->seed++);
    }
    if (m->bias.bytes != 0)
        gpu_add_fill(l->b, list, m->bias, GPU_FILL_BF16, l->seed++);
}

static lr_code fill_all(struct loader *l)
{
    struct gptoss_backend *b = l->b;
    struct gpu_list list = {0};
    lr_code code = LR_OK;

    fill_matrix(l, &list, &b->embed);
    fill_matrix(l, &list, &b->unembed);
    gpu_add_fill(b, &list, b->norm, GPU_FILL_ONES, 0);
    for (uint32_t i = 0; i < b->config->layers && code == LR_OK; i++) {
        const struct gpu_layer *to = &b->layers[i];
        gpu_add_fill(b, &list, to->attn_norm, GPU_FILL_ONES, 0);
        gpu_add_fill(b, &list, to->mlp_norm, GPU_FILL_ONES, 0);
        gpu_add_fill(b, &list, to->sinks, GPU_FILL_BF16, l->seed++);
        fill_matrix(l, &list, &to->qkv);
        fill_matrix(l, &list, &to->out);
        fill_matrix(l, &list, &to->router);
        fill_matrix(l, &list, &to->gate_up);
        fill_matrix(l, &list, &to->down);
        code = gpu_run(b, &list, l->err);
    }
    gpu_list_free(&list);
    return code;
}

lr_code gpu_load_weights(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                         struct lr_error *err)
{
    struct loader l = {.b = b, .host = host, .err = err, .total = b->weights->weight_bytes};
    lr_code code = LR_OK;

    if (b->weights->embed == NULL)
        return fill_all(&l);
    model_gptoss_advise(b->weights, MODEL_ADVICE_WILLNEED);
    for (uint32_t i = 0; i < SLOTS && code == LR_OK && !b->limits.unified; i++)
        code = b->host->allocate(b->device, SLOT_BYTES, GPU_TO_DEVICE, &l.slots[i], err);
    if (code == LR_OK)
        code = upload_all(&l);
    for (uint32_t i = 0; i < SLOTS; i++) {
        struct lr_error ignored;
        if (b->host->wait(b->device, l.tickets[i], &ignored) == LR_OK)
            b->host->forget(b->device, l.recordings[i]);
        b->host->release(b->device, l.slots[i]);
    }
    if (code == LR_OK && b->is_paired)
        model_gptoss_drop_plain(b->weights);
    return code;
}
