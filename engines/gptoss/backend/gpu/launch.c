/* gptoss/backend/gpu/launch.c - which kernels compute a layer, the logits and the samples. */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "engines/gptoss/backend/gpu/launch.h"

enum { MANY_THREADS = 256, ELEMENT_THREADS = 64, TILE_ROWS = 128, TILE_TOKENS = 64 };
enum { SMALL_TILE = 16 }; /* for few tokens of an expert */
enum { NORM_ROWS = 2 };   /* more rows: the norm is a launch of its own */
enum { FEW_HEADS = 2 };   /* of attention */

/* ---- pipelines ---- */

static uint32_t threads_of(const struct gptoss_backend *b, enum gpu_kernel kernel)
{
    uint32_t subgroup = b->limits.subgroup, most = b->limits.threads;

    switch (kernel) {
    case GPU_few_dense_1:
    case GPU_few_dense_2:
    case GPU_few_dense_4:
    case GPU_few_dense_8:
    case GPU_few_qkv_1:
    case GPU_few_qkv_2:
    case GPU_few_qkv_4:
    case GPU_few_qkv_8:
        return 4 * subgroup < MANY_THREADS ? 4 * subgroup : MANY_THREADS;
    case GPU_few_up:
    case GPU_attend: /* its shared memory is for eight subgroups */
        return 8 * subgroup < MANY_THREADS ? 8 * subgroup : MANY_THREADS;
    case GPU_few_down:
    case GPU_few_down_wide:
        most = most < 512 ? most : 512;
        return 16 * subgroup < most ? 16 * subgroup : most / subgroup * subgroup;
    case GPU_layout_m:
        return subgroup;
    case GPU_embed:
    case GPU_rope:
    case GPU_merge:
    case GPU_many_sum:
    case GPU_route:
        return ELEMENT_THREADS;
    default:
        return MANY_THREADS;
    }
}

/* Makes the pipeline if it was not made at open. */
static const struct gpu_pipeline *pipeline_of(struct gptoss_backend *b, struct gpu_list *l,
                                              enum gpu_kernel kernel, uint32_t mode)
{
    for (uint32_t i = 0; i < b->made_count; i++) {
        struct gpu_made *made = &b->made[i];
        if (made->kernel != kernel || made->mode != mode)
            continue;
        if (made->pipeline == NULL && l->code == LR_OK)
            l->code = b->host->pipeline(b->device, kernel, threads_of(b, kernel), mode,
                                        &made->pipeline, &l->err);
        return made->pipeline;
    }
    l->code = lr_fail(&l->err, LR_INTERNAL, "kernel %d is not in mode %u", kernel, mode);
    return NULL;
}

/* Query heads that a work group of attention computes: a divisor of the group.  With few rows
 * more work groups of fewer heads end sooner. */
static uint32_t attend_heads(const struct gptoss_backend *b, uint32_t rows)
{
    const struct model_config *c = b->config;
    uint32_t group = c->heads / c->kv_heads, n = rows <= b->few ? FEW_HEADS : GPU_GROUP_MAX;

    while (group % n != 0)
        n--;
    return n;
}

static enum gpu_kernel down_kernel(const struct gptoss_backend *b)
{
    return b->limits.shared_bytes >= 48 << 10 ? GPU_few_down_wide : GPU_few_down;
}

/* MODE of the experts' kernels that are not *_m. */
static uint32_t strided_of(const struct gptoss_backend *b)
{
    return b->window_count > 0 ? GPU_STRIDED : 0;
}

/* Drivers compile for seconds: every thread makes some. */
struct make_job {
    struct gptoss_backend *b;
    uint32_t first;       /* kernel of this round */
    _Atomic lr_code code; /* the first failure */
    struct lr_error err;
};

static void make_task(void *ctx, uint32_t task, uint32_t worker)
{
    struct make_job *job = ctx;
    struct gpu_made *made = &job->b->made[job->first + task];
    struct lr_error err = {0};
    lr_code none = LR_OK;
    lr_code code =
        job->b->host->pipeline(job->b->device, made->kernel, threads_of(job->b, made->kernel),
                               made->mode, &made->pipeline, &err);

    (void)worker;
    if (code != LR_OK && atomic_compare_exchange_strong(&job->code, &none, code))
        job->err = err;
}

lr_code gpu_make_pipelines(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                           struct lr_error *err)
{
    uint32_t parts = b->matrices.parts, two = parts == 2 ? GPU_TWO_PARTS : 0;
    uint32_t strided = strided_of(b), paired = b->is_paired ? GPU_PAIRED_QKV : 0;
    const bool few = b->few != 0, many = b->matrices.many, plain = !many,
               few_m = b->matrices.few != 0, few_plain = few && !few_m,
               dense = b->matrices.dense == 0;
    const struct {
        enum gpu_kernel kernel;
        uint32_t mode;
        bool used;
    } wanted[] = {
        {GPU_embed, 0, true},
        {GPU_norm, 0, plain || dense},
#define DENSE(n, norm, gather, used)                                                           \
    {GPU_few_dense_##n, GPU_ADD | GPU_BIAS, few && (used)},                                    \
        {GPU_few_dense_##n, (norm), (used)}, {GPU_few_dense_##n, (norm) | (gather), (used)},   \
        {GPU_few_qkv_##n, (norm) | paired, few && (used)}
        DENSE(1, GPU_NORM, GPU_GATHER, true),
        DENSE(2, GPU_NORM, GPU_GATHER, true),
        DENSE(4, 0, 0, dense),
        DENSE(8, 0, 0, dense),
#undef DENSE
        {GPU_few_router, 0, few_plain},
        {GPU_few_up, strided, few_plain},
        {down_kernel(b), strided, few_plain},
        {GPU_few_router_pack, 0, few_m},
        {GPU_few_up_m, 0, few_m},
        {GPU_few_down_m, 0, few_m},
        {GPU_few_down_m, b->config->experts_per_token, few_m},
        {GPU_few_qkv_m, 0, few_m},
        {GPU_few_dense_m, 0, few_m},
        {GPU_few_dense_m, GPU_ADD | GPU_BIAS, few_m},
        {GPU_rope, b->is_paired ? GPU_PAIRED_ROPE : 0, true},
        {GPU_attend, attend_heads(b, 1), true},
        {GPU_attend, attend_heads(b, UINT32_MAX), true},
        {GPU_merge, 0, true},
        {GPU_many_dense, GPU_BIAS, plain},
        {GPU_many_dense, GPU_ADD | GPU_BIAS, plain},
        {GPU_many_dense, 0, plain},
        {GPU_pack, GPU_NORM, many},
        {GPU_pack, 0, many},
        {GPU_many_dense_m, GPU_BIAS | two, many},
        {GPU_many_dense_m, GPU_BIAS | GPU_TWO_PARTS, many && two == 0},
        {GPU_many_dense_m, GPU_ADD | GPU_BIAS | two, many},
        {GPU_many_dense_m, GPU_TWO_PARTS, many},
        {GPU_route, 0, true},
        {GPU_sort, SMALL_TILE, true},
        {GPU_sort, TILE_TOKENS, true},
        {GPU_many_up_16, strided, plain},
        {GPU_many_up_64, strided, plain},
        {GPU_many_down_16, strided, plain},
        {GPU_many_down_64, strided, plain},
        {GPU_many_up_m_16, parts, many},
        {GPU_many_up_m_64, parts, many},
        {GPU_many_down_m_16, parts, many},
        {GPU_many_down_m_64, parts, many},
        {GPU_many_sum, 0, true},
        {GPU_sample_part, 0, true},
        {GPU_sample_last, 0, true},
        {GPU_fill, 0, true},
    };
    uint32_t count = sizeof(wanted) / sizeof(wanted[0]);
    struct make_job job = {.b = b, .first = b->made_count, .code = LR_OK};

    _Static_assert(sizeof(wanted) / sizeof(wanted[0]) <= GPU_PIPELINES_MAX, "pipelines");
    for (uint32_t i = 0; i < count; i++)
        if (wanted[i].used)
            b->made[b->made_count++] =
                (struct gpu_made){wanted[i].kernel, wanted[i].mode, NULL};
    for (uint32_t left; job.first < b->made_count && !b->late_kernels && job.code == LR_OK;
         job.first += b->plan.threads) {
        left = b->made_count - job.first;
        if (host->progress != NULL &&
            host->progress(host->ctx, "compile", job.first, b->made_count) != 0)
            return lr_fail(err, LR_CANCELLED, "loading was cancelled");
        engine_pool_run(b->pool, make_task, &job,
                        left < b->plan.threads ? left : b->plan.threads);
    }
    if (job.code != LR_OK && err != NULL)
        *err = job.err;
    return job.code;
}

/* ---- lists of commands ---- */

static struct gpu_command *next_command(struct gpu_list *l)
{
    static struct gpu_command none; /* written if there is no memory, never read */

    if (l->count == l->room) {
        uint32_t room = l->room == 0 ? 64 : l->room * 2;
        struct gpu_command *more = realloc(l->commands, room * sizeof(*more));
        if (more == NULL) {
            l->code = lr_fail(&l->err, LR_OUT_OF_RAM, "no memory for a step's commands");
            return &none;
        }
        l->commands = more;
        l->room = room;
    }
    struct gpu_command *c = &l->commands[l->count++];
    *c = (struct gpu_command){.after = true};
    return c;
}

void gpu_list_free(struct gpu_list *l)
{
    free(l->commands);
    *l = (struct gpu_list){0};
}

void gpu_list_copy(struct gpu_list *l, struct gpu_span from, struct gpu_span to)
{
    struct gpu_command *c = next_command(l);

    c->kind = GPU_COPY;
    c->span_count = 2;
    c->spans[0] = from;
    c->spans[1] = to;
}

void gpu_list_zero(struct gpu_list *l, struct gpu_span what)
{
    struct gpu_command *c = next_command(l);

    c->kind = GPU_ZERO;
    c->span_count = 1;
    c->spans[0] = what;
}

void gpu_launch(struct gptoss_backend *b, struct gpu_list *l, enum gpu_kernel kernel,
                uint32_t mode, struct gpu_grid grid, const void *push, size_t push_bytes,
                const struct gpu_span *spans, size_t span_count)
{
    struct gpu_command *c = next_command(l);

    c->kind = GPU_LAUNCH;
    c->pipeline = pipeline_of(b, l, kernel, mode);
    c->grid[0] = grid.x;
    c->grid[1] = grid.y;
    c->grid[2] = grid.z;
    c->push_bytes = (uint32_t)push_bytes;
    c->span_count = (uint32_t)span_count;
    memcpy(c->push, push, push_bytes);
    memcpy(c->spans, spans, span_count * sizeof(*spans));
}

void gpu_beside_previous(struct gpu_list *l, bool beside)
{
    if (beside && l->count > 0)
        l->commands[l->count - 1].after = false;
}

void gpu_charge(struct gpu_list *l, uint64_t rows, uint64_t columns, uint64_t tokens)
{
    if (l->count > 0)
        l->commands[l->count - 1].work += rows * columns * tokens;
}

void gpu_charge_experts(const struct gptoss_backend *b, struct gpu_list *l,
                        const struct gpu_matrix *m, const struct gpu_part *part,
                        uint32_t tokens)
{
    if (l->count > 0)
        l->commands[l->count - 1].work += (uint64_t)m->rows * m->columns * tokens *
                                          b->config->experts_per_token * part->count /
                                          b->config->experts;
}

lr_code gpu_record(struct gptoss_backend *b, struct gpu_list *l, struct gpu_recording **out,
                   struct lr_error *err)
{
    *out = NULL;
    if (l->code != LR_OK)
        return lr_fail(err, l->code, "%s", l->err.text);
    return b->host->record(b->device, l->commands, l->count, out, err);
}

lr_code gpu_run(struct gptoss_backend *b, struct gpu_list *l, struct lr_error *err)
{
    struct gpu_recording *recording;
    uint64_t ticket = 0;
    lr_code code = gpu_record(b, l, &recording, err);

    if (code == LR_OK)
        code = b->host->submit(b->device, recording, &ticket, err);
    if (code == LR_OK)
        code = b->host->wait(b->device, ticket, err);
    b->host->forget(b->device, recording);
    l->count = 0;
    return code;
}

/* ---- inputs, embedding ---- */

void gpu_add_inputs(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s)
{
    uint64_t bytes = s->at.tables + s->table_bytes;

    gpu_list_copy(l, (struct gpu_span){b->to_device, 0, bytes},
                  (struct gpu_span){b->ws.inputs, 0, bytes});
}

void gpu_add_embed(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s)
{
    for (uint32_t i = 0; i < b->embed.part_count; i++) {
        const struct gpu_part *part = &b->embed.parts[i];
        const struct push_embed push = {s->rows, b->embed.columns, part->first, part->count};
        gpu_launch(
            b, l, GPU_embed, 0,
            (struct gpu_grid){gpu_over(b->embed.columns / 2, ELEMENT_THREADS), s->rows, 1},
            PUSH(push), SPANS(part->weight, gpu_input(b, s->at.rows), gpu_whole(b->ws.x)));
        gpu_beside_previous(l, i > 0);
    }
}

/* ---- dense products ---- */

static const enum gpu_kernel few_dense[] = {GPU_few_dense_1, GPU_few_dense_2, GPU_few_dense_4,
                                            GPU_few_dense_8};
static const enum gpu_kernel few_qkv[] = {GPU_few_qkv_1, GPU_few_qkv_2, GPU_few_qkv_4,
                                          GPU_few_qkv_8};

static uint32_t few_class(uint32_t rows)
{
    return rows <= 1 ? 0 : rows <= 2 ? 1 : rows <= 4 ? 2 : 3;
}

static uint32_t subgroups(const struct gptoss_backend *b, enum gpu_kernel kernel)
{
    return threads_of(b, kernel) / b->limits.subgroup;
}

static void add_few_dense(struct gptoss_backend *b, struct gpu_list *l,
                          const struct gpu_product *d)
{
    enum gpu_kernel kernel = few_dense[few_class(d->tokens)];
    uint32_t rows = d->tokens > 2 ? 4 : 2; /* ROWS of few_dense.comp */
    struct gpu_span x = gpu_whole(d->x);

    for (uint32_t i = 0; i < d->m->part_count; i++) {
        const struct gpu_part *part = &d->m->parts[i];
        const struct push_dense push = {d->m->columns, part->first, part->count,
                                        d->tokens,     d->y_stride, (float)b->config->rms_eps};
        gpu_launch(b, l, kernel, d->mode,
                   (struct gpu_grid){gpu_over(part->count, rows * subgroups(b, kernel)), 1, 1},
                   PUSH(push),
                   SPANS(part->weight, (d->mode & GPU_BIAS) != 0 ? d->m->bias : x, x,
                         (d->mode & GPU_NORM) != 0 ? d->norm : x, gpu_whole(d->y),
                         (d->mode & GPU_GATHER) != 0 ? d->out_rows : x));
        gpu_beside_previous(l, i > 0);
        gpu_charge(l, part->count, d->m->columns, d->tokens);
    }
}

static void add_many_dense(struct gptoss_backend *b, struct gpu_list *l,
                           const struct gpu_product *d)
{
    if (b->matrices.many) {
        gpu_add_many_dense_m(b, l, d);
        return;
    }
    struct gpu_span x = gpu_whole(d->x);

    for (uint32_t i = 0; i < d->m->part_count; i++) {
        const struct gpu_part *part = &d->m->parts[i];
        const struct push_dense push = {d->m->columns, part->first, part->count,
                                        d->tokens,     d->y_stride, 0};
        gpu_launch(b, l, GPU_many_dense, d->mode,
                   (struct gpu_grid){gpu_over(part->count, TILE_ROWS),
                                     gpu_over(d->tokens, TILE_TOKENS), 1},
                   PUSH(push),
                   SPANS(part->weight, (d->mode & GPU_BIAS) != 0 ? d->m->bias : x, x,
                         gpu_whole(d->y)));
        gpu_beside_previous(l, i > 0);
        gpu_charge(l, part->count, d->m->columns, d->tokens);
    }
}

static void add_norm(struct gptoss_backend *b, struct gpu_list *l, struct gpu_span weight,
                     uint32_t rows, const struct gpu_span *out_rows)
{
    const struct push_norm push = {rows, b->config->hidden, out_rows != NULL ? 1 : 0,
                                   (float)b->config->rms_eps};

    gpu_launch(b, l, GPU_norm, 0, (struct gpu_grid){rows, 1, 1}, PUSH(push),
               SPANS(gpu_whole(b->ws.x), weight,
                     out_rows != NULL ? *out_rows : gpu_whole(b->ws.x),
                     gpu_whole(b->ws.normed)));
}

/* The rows as add_many_dense reads them. */
static void add_many_norm(struct gptoss_backend *b, struct gpu_list *l, struct gpu_span weight,
                          uint32_t rows, const struct gpu_span *out_rows)
{
    if (b->matrices.many)
        gpu_add_pack(b, l, b->ws.x, b->ws.normed, b->config->hidden, rows, &weight, out_rows);
    else
        add_norm(b, l, weight, rows, out_rows);
}

/* ---- attention ---- */

struct push_qkv gpu_qkv_push(const struct gptoss_backend *b, const struct gpu_shape *s,
                             const struct gpu_layer *layer)
{
    const struct model_config *c = b->config;

    return (struct push_qkv){.columns = c->hidden,
                             .tokens = s->rows,
                             .heads = c->heads,
                             .kv_heads = c->kv_heads,
                             .window = layer->sliding ? 1 : 0,
                             .eps = (float)c->rms_eps};
}

static void add_qkv(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s,
                    const struct gpu_layer *layer)
{
    const struct model_config *c = b->config;
    struct push_qkv push = gpu_qkv_push(b, s, layer);

    if (gpu_few_dense_by_matrices(b, s->rows)) {
        gpu_add_few_qkv_m(b, l, s, layer);
        return;
    }
    if (s->rows <= b->few) {
        enum gpu_kernel kernel = few_qkv[few_class(s->rows)];
        uint32_t paired = b->is_paired ? GPU_PAIRED_QKV : 0;
        bool norm = s->rows <= NORM_ROWS;
        if (!norm)
            add_norm(b, l, layer->attn_norm, s->rows, NULL);
        for (uint32_t i = 0; i < layer->qkv.part_count; i++) {
            const struct gpu_part *part = &layer->qkv.parts[i];
            push.first = part->first;
            push.count = part->count;
            gpu_launch(b, l, kernel, (norm ? GPU_NORM : 0) | paired,
                       (struct gpu_grid){gpu_over(part->count, 4 * subgroups(b, kernel)), 1, 1},
                       PUSH(push),
                       SPANS(part->weight, layer->qkv.bias,
                             gpu_whole(norm ? b->ws.x : b->ws.normed), layer->attn_norm,
                             gpu_input(b, s->at.rows), gpu_input(b, s->at.rope),
                             gpu_whole(b->ws.q), gpu_whole(layer->kv)));
            gpu_beside_previous(l, i > 0);
            gpu_charge(l, part->count, c->hidden, s->rows);
        }
        return;
    }
    uint32_t width = (c->heads + 2 * c->kv_heads) * GPU_HEAD_DIM;
    add_many_norm(b, l, layer->attn_norm, s->rows, NULL);
    add_many_dense(b, l,
                   &(struct gpu_product){.m = &layer->qkv,
                                         .x = b->ws.normed,
                                         .y = b->ws.qkv,
                                         .tokens = s->rows,
                                         .y_stride = width,
                                         .mode = GPU_BIAS});
    gpu_launch(b, l, GPU_rope, b->is_paired ? GPU_PAIRED_ROPE : 0,
               (struct gpu_grid){gpu_over(width / 4, ELEMENT_THREADS), s->rows, 1}, PUSH(push),
               SPANS(gpu_whole(b->ws.qkv), gpu_input(b, s->at.rows), gpu_input(b, s->at.rope),
                     gpu_whole(b->ws.q), gpu_whole(layer->kv)));
}

/* Multiply-adds of a row's attention. */
static uint64_t attend_work(const struct gptoss_backend *b, const struct gpu_shape *s,
                            bool slides)
{
    const struct model_config *c = b->config;
    uint64_t keys = slides && c->window < s->keys ? c->window : s->keys;

    return 2 * keys * c->heads * c->head_dim;
}

/* `count` rows from `first` on. */
static void add_some_attention(struct gptoss_backend *b, struct gpu_list *l,
                               const struct gpu_shape *s, const struct gpu_layer *layer,
                               uint32_t first, uint32_t count)
{
    const struct model_config *c = b->config;
    uint32_t heads = attend_heads(b, s->rows), splits = layer->sliding ? 1 : s->splits;
    const struct push_attend push = {
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .group = c->heads / c->kv_heads,
        .window = layer->sliding ? c->window : 0,
        .splits = splits,
        .row = first,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
    };

    gpu_launch(b, l, GPU_attend, heads, (struct gpu_grid){c->heads / heads, count, splits},
               PUSH(push),
               SPANS(gpu_whole(b->ws.q), gpu_whole(layer->kv), gpu_input(b, s->at.rows),
                     gpu_input(b, s->at.tables), layer->sinks,
                     gpu_whole(splits == 1 ? b->ws.mixed : b->ws.partial)));
    gpu_beside_previous(l, first > 0 && splits == 1);
    gpu_charge(l, attend_work(b, s, layer->sliding), 1, count);
    if (splits > 1)
        gpu_launch(b, l, GPU_merge, 0, (struct gpu_grid){c->heads, count, 1}, PUSH(push),
                   SPANS(gpu_whole(b->ws.partial), layer->sinks, gpu_whole(b->ws.mixed)));
}

/* Many rows with many keys are several launches, so that none takes seconds. */
static void add_attention(struct gptoss_backend *b, struct gpu_list *l,
                          const struct gpu_shape *s, const struct gpu_layer *layer)
{
    uint64_t most = s->limit / attend_work(b, s, layer->sliding);
    uint32_t count = most < 1 ? 1 : most < s->rows ? (uint32_t)most : s->rows;

    for (uint32_t first = 0; first < s->rows; first += count)
        add_some_attention(b, l, s, layer, first,
                           count < s->rows - first ? count : s->rows - first);
}

/* ---- experts ---- */

struct push_experts gpu_experts_push(const struct gptoss_backend *b, const struct gpu_matrix *m,
                                     const struct gpu_part *part, uint32_t tokens)
{
    const struct model_config *c = b->config;

    return (struct push_experts){
        .columns = m->columns,
        .rows = m->rows,
        .first = part->first,
        .count = part->count,
        .tokens = tokens,
        .experts = c->experts,
        .chosen = c->experts_per_token,
        .excess = b->weights->scale_excess,
        .block_stride = m->block_stride,
        .scale_stride = m->scale_stride,
        .bias_stride = m->bias_stride,
        .limit = (float)c->swiglu_limit,
        .eps = (float)c->rms_eps,
    };
}

static void add_few_experts(struct gptoss_backend *b, struct gpu_list *l,
                            const struct gpu_shape *s, const struct gpu_layer *layer)
{
    const struct model_config *c = b->config;
    enum gpu_kernel down = down_kernel(b);
    uint32_t rows = 4 * subgroups(b, GPU_few_up), /* four of a subgroup: MX_ROWS */
        down_rows = 4 * (subgroups(b, down) / c->experts_per_token);

    for (uint32_t i = 0; i < layer->router.part_count; i++) {
        const struct gpu_part *part = &layer->router.parts[i];
        const struct push_dense push = {c->hidden, part->first, part->count,
                                        s->rows,   c->experts,  (float)c->rms_eps};
        gpu_launch(b, l, GPU_few_router, 0, (struct gpu_grid){part->count, 1, 1}, PUSH(push),
                   SPANS(part->weight, layer->router.bias, gpu_whole(b->ws.x), layer->mlp_norm,
                         gpu_whole(b->ws.router)));
        gpu_beside_previous(l, i > 0);
        gpu_charge(l, part->count, c->hidden, s->rows);
    }
    for (uint32_t i = 0; i < layer->gate_up.part_count; i++) {
        const struct gpu_part *part = &layer->gate_up.parts[i];
        const struct push_experts push = gpu_experts_push(b, &layer->gate_up, part, s->rows);
        gpu_launch(b, l, GPU_few_up, strided_of(b),
                   (struct gpu_grid){gpu_over(layer->gate_up.rows, rows),
                                     s->rows * c->experts_per_token, 1},
                   PUSH(push),
                   SPANS(part->weight, part->scales, layer->gate_up.bias, gpu_whole(b->ws.x),
                         layer->mlp_norm, gpu_whole(b->ws.router), gpu_whole(b->ws.inner),
                         gpu_whole(b->ws.choice)));
        gpu_beside_previous(l, i > 0);
        gpu_charge_experts(b, l, &layer->gate_up, part, s->rows);
    }
    for (uint32_t i = 0; i < layer->down.part_count; i++) {
        const struct gpu_part *part = &layer->down.parts[i];
        const struct push_experts push = gpu_experts_push(b, &layer->down, part, s->rows);
        gpu_launch(b, l, down, strided_of(b),
                   (struct gpu_grid){gpu_over(layer->down.rows, down_rows), s->rows, 1},
                   PUSH(push),
                   SPANS(part->weight, part->scales, layer->down.bias, gpu_whole(b->ws.inner),
                         gpu_whole(b->ws.choice), gpu_whole(b->ws.x)));
        gpu_charge_experts(b, l, &layer->down, part, s->rows);
    }
}

static void add_many_experts(struct gptoss_backend *b, struct gpu_list *l,
                             const struct gpu_shape *s, const struct gpu_layer *layer)
{
    const struct model_config *c = b->config;
    uint32_t pairs = s->rows * c->experts_per_token;
    /* With few tokens of each expert most of a large tile would be empty. */
    bool small = s->rows * c->experts_per_token < c->experts * (SMALL_TILE + SMALL_TILE / 2);
    uint32_t tile = small ? SMALL_TILE : TILE_TOKENS, tiles = pairs / tile + c->experts;
    const struct push_route route = {s->rows, c->experts, c->experts_per_token, c->hidden};
    enum gpu_kernel up = small ? GPU_many_up_16 : GPU_many_up_64,
                    down = small ? GPU_many_down_16 : GPU_many_down_64;
    uint32_t mode = b->matrices.many ? b->matrices.parts : strided_of(b);

    if (b->matrices.many) {
        up = small ? GPU_many_up_m_16 : GPU_many_up_m_64;
        down = small ? GPU_many_down_m_16 : GPU_many_down_m_64;
    }
    add_many_norm(b, l, layer->mlp_norm, s->rows, NULL);
    add_many_dense(b, l,
                   &(struct gpu_product){.m = &layer->router,
                                         .x = b->ws.normed,
                                         .exact = true,
                                         .y = b->ws.router,
                                         .tokens = s->rows,
                                         .y_stride = c->experts,
                                         .mode = GPU_BIAS});
    gpu_launch(b, l, GPU_route, 0, (struct gpu_grid){gpu_over(s->rows, ELEMENT_THREADS), 1, 1},
               PUSH(route), SPANS(gpu_whole(b->ws.router), gpu_whole(b->ws.choice)));
    gpu_launch(b, l, GPU_sort, tile, (struct gpu_grid){1, 1, 1}, PUSH(route),
               SPANS(gpu_whole(b->ws.choice), gpu_whole(b->ws.sorted), gpu_whole(b->ws.tiles)));
    for (uint32_t i = 0; i < layer->gate_up.part_count; i++) {
        const struct gpu_part *part = &layer->gate_up.parts[i];
        const struct push_experts push = gpu_experts_push(b, &layer->gate_up, part, s->rows);
        gpu_launch(
            b, l, up, mode,
            (struct gpu_grid){gpu_over(layer->gate_up.rows, TILE_ROWS), tiles, 1}, PUSH(push),
            SPANS(part->weight, part->scales, layer->gate_up.bias, gpu_whole(b->ws.normed),
                  gpu_whole(b->ws.tiles), gpu_whole(b->ws.sorted), gpu_whole(b->ws.inner)));
        gpu_beside_previous(l, i > 0);
        gpu_charge_experts(b, l, &layer->gate_up, part, s->rows);
    }
    for (uint32_t i = 0; i < layer->down.part_count; i++) {
        const struct gpu_part *part = &layer->down.parts[i];
        const struct push_experts push = gpu_experts_push(b, &layer->down, part, s->rows);
        gpu_launch(b, l, down, mode,
                   (struct gpu_grid){gpu_over(layer->down.rows, TILE_ROWS), tiles, 1},
                   PUSH(push),
                   SPANS(part->weight, part->scales, layer->down.bias, gpu_whole(b->ws.inner),
                         gpu_whole(b->ws.tiles), gpu_whole(b->ws.sorted),
                         gpu_whole(b->ws.choice), gpu_whole(b->ws.expert_out)));
        gpu_beside_previous(l, i > 0);
        gpu_charge_experts(b, l, &layer->down, part, s->rows);
    }
    gpu_launch(b, l, GPU_many_sum, 0,
               (struct gpu_grid){gpu_over(c->hidden, ELEMENT_THREADS), s->rows, 1}, PUSH(route),
               SPANS(gpu_whole(b->ws.expert_out), gpu_whole(b->ws.x)));
}

void gpu_add_layer(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s,
                   uint32_t index)
{
    const struct gpu_layer *layer = &b->layers[index];
    bool few = s->rows <= b->few, by_matrices = gpu_few_dense_by_matrices(b, s->rows);
    bool packed = by_matrices || (!few && b->matrices.many);
    const struct gpu_product out = {.m = &layer->out,
                                    .x = packed ? b->ws.qkv : b->ws.mixed,
                                    .y = b->ws.x,
                                    .tokens = s->rows,
                                    .y_stride = b->config->hidden,
                                    .mode = GPU_ADD | GPU_BIAS};

    add_qkv(b, l, s, layer);
    add_attention(b, l, s, layer);
    if (packed)
        gpu_add_pack(b, l, b->ws.mixed, b->ws.qkv, layer->out.columns, s->rows, NULL, NULL);
    if (by_matrices)
        gpu_add_few_dense_m(b, l, &out);
    else if (few)
        add_few_dense(b, l, &out);
    else
        add_many_dense(b, l, &out);
    if (s->rows <= b->matrices.few)
        gpu_add_few_experts_m(b, l, s, layer);
    else if (few)
        add_few_experts(b, l, s, layer);
    else
        add_many_experts(b, l, s, layer);
}

uint64_t gpu_step_work(const struct gptoss_backend *b, const struct gpu_shape *s)
{
    const struct gpu_matrix *m = &b->unembed;
    uint64_t work = (uint64_t)m->rows * m->columns;

    for (uint32_t i = 0; i < b->config->layers; i++) {
        const struct gpu_layer *l = &b->layers[i];
        const struct gpu_matrix *const dense[] = {&l->qkv, &l->out, &l->router},
                                       *const experts[] = {&l->gate_up, &l->down};
        for (size_t n = 0; n < 3; n++)
            work += (uint64_t)dense[n]->rows * dense[n]->columns;
        for (size_t n = 0; n < 2; n++)
            work +=
                (uint64_t)experts[n]->rows * experts[n]->columns * b->config->experts_per_token;
        work += attend_work(b, s, l->sliding);
    }
    return work * s->rows;
}

/* ---- logits and sampling ---- */

void gpu_add_logits(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s,
                    bool gather, uint32_t first, uint32_t count)
{
    struct gpu_span out_rows = gpu_input(b, s->at.out_rows + (uint64_t)first * 4);
    struct gpu_product d = {.m = &b->unembed,
                            .x = b->ws.x,
                            .y = b->ws.logits,
                            .norm = b->norm,
                            .out_rows = out_rows,
                            .tokens = count,
                            .y_stride = b->logit_stride,
                            .mode = GPU_NORM | (gather ? GPU_GATHER : 0),
                            .exact = true};

    bool by_matrices = gpu_few_dense_by_matrices(b, count);
    if (by_matrices || count > GPU_FEW)
        add_many_norm(b, l, b->norm, count, gather ? &out_rows : NULL);
    else if (count > NORM_ROWS)
        add_norm(b, l, b->norm, count, gather ? &out_rows : NULL);
    if (by_matrices || count > NORM_ROWS) {
        d.x = b->ws.normed;
        d.mode = 0;
    }
    if (by_matrices)
        gpu_add_few_dense_m(b, l, &d);
    else if (count <= GPU_FEW)
        add_few_dense(b, l, &d);
    else
        add_many_dense(b, l, &d);
}

void gpu_add_sampling(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s,
                      uint32_t first, uint32_t count)
{
    const struct push_sample push = {b->weights->vocab_rows, b->logit_stride, GPU_SAMPLE_PARTS};

    gpu_launch(b, l, GPU_sample_part, 0, (struct gpu_grid){GPU_SAMPLE_PARTS, count, 1},
               PUSH(push),
               SPANS(gpu_whole(b->ws.logits), gpu_whole(b->ws.usable),
                     gpu_input(b, s->at.how + (uint64_t)first * sizeof(struct gpu_sample)),
                     gpu_whole(b->ws.best)));
    gpu_launch(b, l, GPU_sample_last, 0, (struct gpu_grid){count, 1, 1}, PUSH(push),
               SPANS(gpu_whole(b->ws.best), gpu_whole(b->ws.sampled)));
    gpu_list_copy(l, (struct gpu_span){b->ws.sampled, 0, count * 4},
                  (struct gpu_span){b->to_host, 0, count * 4});
}

void gpu_add_fill(struct gptoss_backend *b, struct gpu_list *l, struct gpu_span span,
                  uint32_t kind, uint32_t seed)
{
    const struct push_fill push = {(uint32_t)((span.bytes + 3) / 4), seed * 0x9E3779B9u + 1,
                                   kind};

    span.bytes = (span.bytes + 3) / 4 * 4;
    gpu_launch(b, l, GPU_fill, 0, (struct gpu_grid){1024, 1, 1}, PUSH(push), SPANS(span));
    gpu_beside_previous(l, l->count > 1);
}
