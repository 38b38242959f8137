/* tests/unit/gptoss/kernel_checks.h - what every kernel of shaders/ must write, computed by the
 * plain kernels of the CPU device.
 *
 * One check for each file of shaders/; a kernel of a file without a check fails the test.  A
 * check finds its operands by the buffers that are bound, not by their places, and reads the
 * weights of the model and not those of the device: so it holds for every variant of a kernel.
 */
#ifndef TESTS_GPTOSS_KERNEL_CHECKS_H
#define TESTS_GPTOSS_KERNEL_CHECKS_H

#include "engines/gptoss/backend/cpu/kernels.h"
#include "engines/gptoss/model/rope.h"
#include "tests/unit/gptoss/kernel_spy.h"

#define PUSH_OF(l, type) ((const struct type *)(const void *)(l)->command->push)

/* ---- operands ---- */

struct check_part {
    const struct gpu_matrix *matrix;
    const struct gpu_part *part;
    const struct gpu_layer *layer;            /* NULL: a table */
    const struct model_gptoss_layer *weights; /* of the layer */
};

static bool check_binds(const struct spy_launch *l, const struct gpu_span *span)
{
    for (uint32_t i = 0; i < l->command->span_count; i++)
        if (l->command->spans[i].buffer == span->buffer && l->command->spans[i].at == span->at)
            return true;
    return false;
}

static bool check_binds_buffer(const struct spy_launch *l, const struct gpu_buffer *buffer)
{
    for (uint32_t i = 0; i < l->command->span_count; i++)
        if (l->command->spans[i].buffer == buffer)
            return true;
    return false;
}

static bool check_in_matrix(const struct spy_launch *l, const struct gpu_matrix *m,
                            struct check_part *out)
{
    for (uint32_t i = 0; i < m->part_count; i++)
        if (check_binds(l, &m->parts[i].weight)) {
            out->matrix = m;
            out->part = &m->parts[i];
            return true;
        }
    return false;
}

static struct check_part check_find(const struct spy_launch *l)
{
    struct gptoss_backend *b = spy.b;
    struct check_part out = {0};

    if (check_in_matrix(l, &b->embed, &out) || check_in_matrix(l, &b->unembed, &out))
        return out;
    for (uint32_t i = 0; i < b->config->layers; i++) {
        const struct gpu_layer *layer = &b->layers[i];
        out.layer = layer;
        out.weights = &b->weights->layers[i];
        if (check_in_matrix(l, &layer->qkv, &out) || check_in_matrix(l, &layer->out, &out) ||
            check_in_matrix(l, &layer->router, &out) ||
            check_in_matrix(l, &layer->gate_up, &out) || check_in_matrix(l, &layer->down, &out))
            return out;
    }
    fail_msg("%s binds no matrix", spy_names[l->kernel]);
    return out;
}

/* The layer whose pages or sinks are bound. */
static uint32_t check_layer(const struct spy_launch *l)
{
    struct gptoss_backend *b = spy.b;

    for (uint32_t i = 0; i < b->config->layers; i++)
        if (check_binds_buffer(l, b->layers[i].kv) || check_binds(l, &b->layers[i].sinks))
            return i;
    fail_msg("%s binds no layer", spy_names[l->kernel]);
    return 0;
}

static const uint32_t *check_listed_rows(const struct spy_launch *l)
{
    for (uint32_t i = 0; i < l->command->span_count; i++)
        if (l->command->spans[i].buffer == spy.b->ws.inputs)
            return (const uint32_t *)(const void *)((const char *)spy_data(spy.b->ws.inputs) +
                                                    l->command->spans[i].at);
    fail_msg("%s binds no list of rows", spy_names[l->kernel]);
    return NULL;
}

/* ---- arithmetic of the CPU device ---- */

/* As check_dot() reads it; the caller frees it. */
static float *check_pack(const float *x, size_t columns)
{
    float *packed = calloc(columns + CPU_ALIGN, sizeof(*packed));

    assert_non_null(packed);
    cpu_kernels_plain()->pack_dense(x, columns, packed);
    return packed;
}

static float check_dot(const uint16_t *weight, const float *packed, size_t columns)
{
    float y = 0;
    const struct cpu_dense job = {weight, columns, 1, 1, packed, columns, &y, 1};

    cpu_kernels_plain()->dense(&job);
    return y;
}

/* All rows of an expert's matrix times x, plus the bias. */
static float *check_expert(const struct model_experts *e, uint32_t expert, const float *x)
{
    uint8_t *packed = calloc(cpu_mx_packed_bytes(e->columns) + CPU_ALIGN, 1);
    float *y = calloc(e->rows, sizeof(*y));
    const uint8_t *vectors[] = {packed};
    const struct cpu_mx job = {.blocks = e->blocks + expert * e->blocks_stride,
                               .scales = e->scales + expert * e->scales_stride,
                               .scale_excess = spy.b->weights->scale_excess,
                               .rows = e->rows,
                               .columns = e->columns,
                               .x = vectors,
                               .tokens = 1,
                               .y = y,
                               .y_stride = e->rows};
    const uint16_t *bias =
        (const uint16_t *)(const void *)((const char *)e->bias + expert * e->bias_stride);

    assert_true(packed != NULL && y != NULL);
    cpu_kernels_plain()->pack_mx(x, 0, e->columns / 32, packed);
    cpu_kernels_plain()->mx(&job);
    for (uint32_t r = 0; r < e->rows; r++)
        y[r] += cpu_bf16(bias[r]);
    free(packed);
    return y;
}

/* Row `row` of x, divided by its size and times the weight. */
static float *check_norm(const float *x, uint32_t row, const uint16_t *weight)
{
    size_t n = spy.b->config->hidden;
    float *out = calloc(n, sizeof(*out));

    assert_non_null(out);
    cpu_kernels_plain()->norm(x + row * n, weight, n, (float)spy.b->config->rms_eps, out);
    return out;
}

static uint16_t check_to_half(float v)
{
    uint16_t best = 0, sign = v < 0 ? 0x8000 : 0;
    float size = fabsf(v);

    /* The largest half that is not above, then the nearer one of it and the next. */
    for (uint16_t bit = 0x4000; bit != 0; bit = (uint16_t)(bit >> 1))
        if (spy_half(best | bit) <= size && (best | bit) < 0x7C00)
            best |= bit;
    if (best < 0x7BFF && size - spy_half(best) > spy_half(best + 1u) - size)
        best++;
    return best | sign;
}

/* ---- embedding, norm, dense products ---- */

static void check_embed(struct spy_launch *l)
{
    struct check_part at = check_find(l);
    uint32_t n = spy.b->config->hidden;

    for (uint32_t t = 0; t < spy.row_count; t++) {
        uint32_t token = spy.rows[t].token;
        for (uint32_t i = 0; i < n && token - at.part->first < at.part->count; i++)
            *spy_float(l, spy.b->ws.x, (size_t)t * n + i) =
                cpu_bf16(spy.b->weights->embed[(size_t)token * n + i]);
    }
}

static void check_norm_kernel(struct spy_launch *l)
{
    const struct push_norm *push = PUSH_OF(l, push_norm);
    const uint32_t *listed = push->gather != 0 ? check_listed_rows(l) : NULL;
    const uint16_t *weight = check_binds(l, &spy.b->norm) ? spy.b->weights->norm : NULL;

    for (uint32_t i = 0; i < spy.b->config->layers; i++) {
        if (check_binds(l, &spy.b->layers[i].attn_norm))
            weight = spy.b->weights->layers[i].attn_norm;
        if (check_binds(l, &spy.b->layers[i].mlp_norm))
            weight = spy.b->weights->layers[i].mlp_norm;
    }
    assert_non_null(weight);
    for (uint32_t t = 0; t < push->rows; t++) {
        float *y = check_norm(spy_data(spy.b->ws.x), listed != NULL ? listed[t] : t, weight);
        for (uint32_t i = 0; i < push->columns; i++)
            *spy_float(l, spy.b->ws.normed, (size_t)t * push->columns + i) = y[i];
        free(y);
    }
}

/* Row `row` of a dense matrix. */
static const uint16_t *check_row(const struct check_part *at, uint32_t row, float *bias)
{
    const struct model_config *c = spy.b->config;
    const struct model_gptoss_layer *w = at->weights;
    uint32_t q = c->heads * c->head_dim, kv = c->kv_heads * c->head_dim;
    const uint16_t *weight = spy.b->weights->unembed, *biases = NULL;

    if (at->layer != NULL && at->matrix == &at->layer->out) {
        weight = w->o_weight;
        biases = w->o_bias;
    } else if (at->layer != NULL && at->matrix == &at->layer->router) {
        weight = w->router_weight;
        biases = w->router_bias;
    } else if (at->layer != NULL) {
        weight = row < q ? w->q_weight : row < q + kv ? w->k_weight : w->v_weight;
        biases = row < q ? w->q_bias : row < q + kv ? w->k_bias : w->v_bias;
        row -= row < q ? 0 : row < q + kv ? q : q + kv;
    }
    *bias = biases != NULL ? cpu_bf16(biases[row]) : 0;
    return weight + (size_t)row * at->matrix->columns;
}

static void check_dense(struct spy_launch *l)
{
    const struct gptoss_backend *b = spy.b;
    const struct push_dense *push = PUSH_OF(l, push_dense);
    struct check_part at = check_find(l);
    bool is_out = at.layer != NULL && at.matrix == &at.layer->out;
    bool is_table = at.layer == NULL, is_router = !is_table && at.matrix == &at.layer->router;
    struct gpu_buffer *to = is_out      ? b->ws.x
                            : is_table  ? b->ws.logits
                            : is_router ? b->ws.router
                                        : b->ws.qkv;
    const uint32_t *listed = (l->mode & GPU_GATHER) != 0 ? check_listed_rows(l) : NULL;
    bool normed = (l->mode & GPU_NORM) != 0 || !check_binds_buffer(l, b->ws.normed);

    for (uint32_t t = 0; t < push->tokens; t++) {
        uint32_t from = listed != NULL ? listed[t] : t;
        const float *x = is_out ? (const float *)spy_data(b->ws.mixed)
                                : (const float *)spy_data(b->ws.normed);
        const uint16_t *weight = is_router ? at.weights->mlp_norm : b->weights->norm;
        float *own = !is_out && normed ? check_norm(spy_data(b->ws.x), from, weight) : NULL;
        x = own != NULL ? own : x + (size_t)from * at.matrix->columns;
        float *packed = check_pack(x, at.matrix->columns);
        for (uint32_t r = at.part->first; r < at.part->first + at.part->count; r++) {
            float bias, *y = spy_float(l, to, (size_t)t * push->y_stride + r);
            float sum = check_dot(check_row(&at, r, &bias), packed, at.matrix->columns) + bias;
            *y = is_out ? *y + sum : sum;
        }
        free(packed);
        free(own);
    }
}

/* ---- q, k, v ---- */

/* v: the rows of the matrix for row t of the step; only whole heads in [first, first + count)
 * are written. */
static void check_put(struct spy_launch *l, uint32_t layer, uint32_t t, const float *v,
                      uint32_t first, uint32_t count)
{
    const struct gptoss_backend *b = spy.b;
    const struct model_config *c = b->config;
    const struct spy_row *row = &spy.rows[t];
    const uint32_t *table =
        b->layers[layer].sliding ? row->step->window_pages : row->step->full_pages;
    uint32_t page = table[row->position / GPU_PAGE_TOKENS];
    uint32_t slot = row->position % GPU_PAGE_TOKENS;
    float rope[GPU_HEAD_DIM];

    gptoss_rope_row(c, b->frequency, row->position, rope, rope + GPU_HEAD_DIM / 2);
    for (uint32_t head = first / GPU_HEAD_DIM; head < (first + count) / GPU_HEAD_DIM; head++) {
        float out[GPU_HEAD_DIM];
        memcpy(out, v + (size_t)head * GPU_HEAD_DIM, sizeof(out));
        for (uint32_t d = 0; d < 32 && head < c->heads + c->kv_heads; d++) {
            float x = out[d], y = out[d + 32];
            out[d] = x * rope[d] - y * rope[d + 32];
            out[d + 32] = y * rope[d] + x * rope[d + 32];
        }
        for (uint32_t d = 0; d < GPU_HEAD_DIM && head < c->heads; d++)
            *spy_float(l, b->ws.q, ((size_t)t * c->heads + head) * GPU_HEAD_DIM + d) = out[d];
        if (head < c->heads)
            continue;
        uint32_t is_v = head >= c->heads + c->kv_heads ? 1 : 0;
        uint32_t kv_head = head - c->heads - is_v * c->kv_heads;
        size_t at =
            (((size_t)page * c->kv_heads + kv_head) * 2 + is_v) * GPU_PAGE_TOKENS + slot;
        for (uint32_t d = 0; d < GPU_HEAD_DIM; d += 2)
            *spy_word(l, b->layers[layer].kv, at * 32 + d / 2, SPY_HALVES) =
                check_to_half(out[d]) | (uint32_t)check_to_half(out[d + 1]) << 16;
    }
}

static void check_few_qkv(struct spy_launch *l)
{
    const struct gptoss_backend *b = spy.b;
    struct check_part at = check_find(l);
    uint32_t layer = check_layer(l), rows = at.matrix->rows;

    for (uint32_t t = 0; t < spy.row_count; t++) {
        float *v = calloc(rows, sizeof(*v));
        float *own = check_norm(spy_data(b->ws.x), t, at.weights->attn_norm);
        float *packed = check_pack(own, at.matrix->columns);
        for (uint32_t r = at.part->first; r < at.part->first + at.part->count; r++) {
            float bias;
            const uint16_t *weight = check_row(&at, r, &bias);
            v[r] = check_dot(weight, packed, at.matrix->columns) + bias;
        }
        check_put(l, layer, t, v, at.part->first, at.part->count);
        free(packed);
        free(own);
        free(v);
    }
}

static void check_rope(struct spy_launch *l)
{
    const struct model_config *c = spy.b->config;
    uint32_t width = (c->heads + 2 * c->kv_heads) * GPU_HEAD_DIM, layer = check_layer(l);
    const float *qkv = spy_data(spy.b->ws.qkv);

    for (uint32_t t = 0; t < spy.row_count; t++)
        check_put(l, layer, t, qkv + (size_t)t * width, 0, width);
}

/* ---- attention ---- */

/* The keys or values of the cache as the CPU device has them. */
static void check_cache(uint32_t layer, const uint32_t *table, uint32_t kv_head, uint32_t from,
                        uint32_t to, float *out)
{
    const struct model_config *c = spy.b->config;
    const uint16_t *kv = spy_data(spy.b->layers[layer].kv);

    for (uint32_t p = from; p <= to; p++) {
        uint32_t slot = p % GPU_PAGE_TOKENS;
        size_t head = (size_t)table[p / GPU_PAGE_TOKENS] * c->kv_heads + kv_head;
        const uint16_t *k = kv + (head * 2 * GPU_PAGE_TOKENS + slot) * GPU_HEAD_DIM;
        const uint16_t *v = k + GPU_PAGE_TOKENS * GPU_HEAD_DIM;
        float *page = out + (size_t)(p / CPU_PAGE_TOKENS) * 2 * GPU_HEAD_DIM * CPU_PAGE_TOKENS;
        for (uint32_t d = 0; d < GPU_HEAD_DIM; d++) {
            page[d * CPU_PAGE_TOKENS + slot] = spy_half(k[d]);
            page[GPU_HEAD_DIM * CPU_PAGE_TOKENS + slot * GPU_HEAD_DIM + d] = spy_half(v[d]);
        }
    }
}

static void check_attention_of(struct spy_launch *l, uint32_t layer, uint32_t t)
{
    const struct gptoss_backend *b = spy.b;
    const struct model_config *c = b->config;
    bool slides = b->layers[layer].sliding;
    const struct spy_row *row = &spy.rows[t];
    const uint32_t *table = slides ? row->step->window_pages : row->step->full_pages;
    uint32_t group = c->heads / c->kv_heads, to = row->position;
    uint32_t from = slides && to >= c->window ? to - c->window + 1 : 0;
    uint32_t count = to / CPU_PAGE_TOKENS + 1, pages[64];
    float *cache = calloc((size_t)count * 2 * GPU_HEAD_DIM * CPU_PAGE_TOKENS, sizeof(float));
    float *out = calloc((size_t)group * GPU_HEAD_DIM, sizeof(float)), sink[64];
    float *scratch = calloc(cpu_attend_scratch(group, GPU_HEAD_DIM), sizeof(float));

    assert_true(cache != NULL && out != NULL && scratch != NULL && count <= 64 && group <= 64);
    for (uint32_t i = 0; i < count; i++)
        pages[i] = i;
    for (uint32_t kv_head = 0; kv_head < c->kv_heads; kv_head++) {
        size_t first = ((size_t)t * c->heads + kv_head * group) * GPU_HEAD_DIM;
        for (uint32_t h = 0; h < group; h++)
            sink[h] = cpu_bf16(b->weights->layers[layer].sinks[kv_head * group + h]);
        check_cache(layer, table, kv_head, from, to, cache);
        const struct cpu_attend job = {.q = (const float *)spy_data(b->ws.q) + first,
                                       .group = group,
                                       .head_dim = GPU_HEAD_DIM,
                                       .scale = 1 / sqrtf((float)GPU_HEAD_DIM),
                                       .sink = sink,
                                       .from = from,
                                       .to = to,
                                       .pages = pages,
                                       .base = cache,
                                       .v_offset = GPU_HEAD_DIM * CPU_PAGE_TOKENS,
                                       .page_stride = 2 * GPU_HEAD_DIM * CPU_PAGE_TOKENS,
                                       .out = out,
                                       .scratch = scratch};
        cpu_kernels_plain()->attend(&job);
        for (size_t i = 0; i < (size_t)group * GPU_HEAD_DIM; i++)
            *spy_float(l, b->ws.mixed, first + i) = out[i];
    }
    free(cache);
    free(out);
    free(scratch);
}

/* Parts of the keys are checked where they meet, in merge. */
static void check_attend(struct spy_launch *l)
{
    const struct push_attend *push = PUSH_OF(l, push_attend);
    size_t words = (size_t)l->command->grid[1] * push->heads * push->splits * 66;

    for (size_t i = 0; push->splits > 1 && i < words; i++)
        (void)spy_word(l, spy.b->ws.partial, i, SPY_ANY);
    for (uint32_t i = 0; push->splits == 1 && i < l->command->grid[1]; i++)
        check_attention_of(l, check_layer(l), push->row + i);
}

static void check_merge(struct spy_launch *l)
{
    for (uint32_t i = 0; i < l->command->grid[1]; i++)
        check_attention_of(l, check_layer(l), PUSH_OF(l, push_attend)->row + i);
}

/* ---- experts ---- */

/* The experts of a row: largest logits first, of equal ones the lowest number. */
static void check_choose(const float *logits, uint32_t *out)
{
    const struct model_config *c = spy.b->config;

    for (uint32_t n = 0; n < c->experts_per_token; n++) {
        uint32_t best = UINT32_MAX;
        for (uint32_t e = 0; e < c->experts; e++) {
            bool taken = false;
            for (uint32_t i = 0; i < n; i++)
                taken = taken || out[i] == e;
            if (!taken && (best == UINT32_MAX || logits[e] > logits[best]))
                best = e;
        }
        out[n] = best;
    }
}

static float check_float(uint32_t bits)
{
    float v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

static uint32_t check_bits(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    return bits;
}

static bool check_has(const struct check_part *at, uint32_t expert)
{
    return expert >= at->part->first && expert - at->part->first < at->part->count;
}

/* The first matrix and SwiGLU; x is normalized. */
static void check_up(struct spy_launch *l, const struct check_part *at, uint32_t expert,
                     const float *x, size_t to)
{
    uint32_t n = spy.b->config->intermediate;
    float *y = check_expert(&at->weights->gate_up, expert, x);
    float *inner = calloc(n, sizeof(*inner));

    assert_non_null(inner);
    cpu_kernels_plain()->swiglu(y, n, (float)spy.b->config->swiglu_limit, inner);
    for (uint32_t i = 0; i < n; i++)
        *spy_float(l, spy.b->ws.inner, to * n + i) = inner[i];
    free(inner);
    free(y);
}

static void check_few_up(struct spy_launch *l)
{
    const struct model_config *c = spy.b->config;
    struct check_part at = check_find(l);
    uint32_t chosen[GPU_CHOSEN_MAX];

    for (uint32_t t = 0; t < spy.row_count; t++) {
        const float *logits =
            (const float *)spy_data(spy.b->ws.router) + (size_t)t * c->experts;
        float *x = check_norm(spy_data(spy.b->ws.x), t, at.weights->mlp_norm);
        check_choose(logits, chosen);
        for (uint32_t n = 0; n < c->experts_per_token; n++) {
            size_t slot = (size_t)t * c->experts_per_token + n;
            *spy_word(l, spy.b->ws.choice, slot * 2, SPY_WORD) = chosen[n];
            *spy_word(l, spy.b->ws.choice, slot * 2 + 1, SPY_WORD) =
                check_bits(logits[chosen[n]]);
            if (check_has(&at, chosen[n]))
                check_up(l, &at, chosen[n], x, slot);
        }
        free(x);
    }
}

static void check_few_down(struct spy_launch *l)
{
    const struct model_config *c = spy.b->config;
    struct check_part at = check_find(l);
    const uint32_t *choice = spy_data(spy.b->ws.choice);
    const float *inner = spy_data(spy.b->ws.inner);

    for (uint32_t t = 0; t < spy.row_count; t++) {
        const uint32_t *mine = choice + (size_t)t * c->experts_per_token * 2;
        double sum = 0;
        for (uint32_t n = 0; n < c->experts_per_token; n++)
            sum += exp((double)check_float(mine[2 * n + 1]) - (double)check_float(mine[1]));
        for (uint32_t i = 0; i < c->hidden; i++) /* zero is added where no expert is here */
            (void)spy_float(l, spy.b->ws.x, (size_t)t * c->hidden + i);
        for (uint32_t n = 0; n < c->experts_per_token; n++) {
            size_t slot = (size_t)t * c->experts_per_token + n;
            if (!check_has(&at, mine[2 * n]))
                continue;
            float weight = (float)(exp((double)check_float(mine[2 * n + 1]) -
                                       (double)check_float(mine[1])) /
                                   sum);
            float *y =
                check_expert(&at.weights->down, mine[2 * n], inner + slot * c->intermediate);
            for (uint32_t i = 0; i < c->hidden; i++)
                *spy_float(l, spy.b->ws.x, (size_t)t * c->hidden + i) += weight * y[i];
            free(y);
        }
    }
}

static void check_route(struct spy_launch *l)
{
    const struct model_config *c = spy.b->config;
    uint32_t chosen[GPU_CHOSEN_MAX];

    for (uint32_t t = 0; t < spy.row_count; t++) {
        const float *logits =
            (const float *)spy_data(spy.b->ws.router) + (size_t)t * c->experts;
        float sum = 0;
        check_choose(logits, chosen);
        for (uint32_t n = 0; n < c->experts_per_token; n++)
            sum += expf(logits[chosen[n]] - logits[chosen[0]]);
        for (uint32_t n = 0; n < c->experts_per_token; n++) {
            size_t slot = (size_t)t * c->experts_per_token + n;
            *spy_word(l, spy.b->ws.choice, slot * 2, SPY_WORD) = chosen[n];
            *spy_float(l, spy.b->ws.choice, slot * 2 + 1) =
                expf(logits[chosen[n]] - logits[chosen[0]]) / sum;
        }
    }
}

static uint32_t check_pairs(void)
{
    return spy.row_count * spy.b->config->experts_per_token;
}

static void check_sort(struct spy_launch *l)
{
    uint32_t tiles = check_pairs() / l->mode + spy.b->config->experts;

    for (uint32_t i = 0; i < check_pairs(); i++)
        (void)spy_word(l, spy.b->ws.sorted, i, SPY_ANY);
    for (uint32_t i = 0; i < tiles * sizeof(struct gpu_tile) / 4; i++)
        (void)spy_word(l, spy.b->ws.tiles, i, SPY_ANY);
}

/* Every pair is in one tile, which is of its expert. */
static void look_sort(struct spy_launch *l)
{
    const uint32_t *choice = spy_data(spy.b->ws.choice), *sorted = spy_data(spy.b->ws.sorted);
    const struct gpu_tile *tiles = spy_data(spy.b->ws.tiles);
    uint32_t pairs = check_pairs(), count = pairs / l->mode + spy.b->config->experts;
    bool *seen = calloc(pairs, sizeof(*seen));

    assert_non_null(seen);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < tiles[i].count; j++) {
            assert_true(tiles[i].count <= l->mode && tiles[i].first + j < pairs);
            uint32_t pair = sorted[tiles[i].first + j];
            assert_true(pair < pairs && !seen[pair]);
            assert_int_equal(choice[2 * pair], tiles[i].expert);
            seen[pair] = true;
        }
    for (uint32_t i = 0; i < pairs; i++)
        assert_true(seen[i]);
    free(seen);
}

static void check_many_up(struct spy_launch *l)
{
    const struct model_config *c = spy.b->config;
    struct check_part at = check_find(l);
    const uint32_t *choice = spy_data(spy.b->ws.choice), *sorted = spy_data(spy.b->ws.sorted);
    const float *x = spy_data(spy.b->ws.normed);

    for (uint32_t i = 0; i < check_pairs(); i++)
        if (check_has(&at, choice[2 * sorted[i]]))
            check_up(l, &at, choice[2 * sorted[i]],
                     x + (size_t)(sorted[i] / c->experts_per_token) * c->hidden, i);
}

static void check_many_down(struct spy_launch *l)
{
    const struct model_config *c = spy.b->config;
    struct check_part at = check_find(l);
    const uint32_t *choice = spy_data(spy.b->ws.choice), *sorted = spy_data(spy.b->ws.sorted);
    const float *inner = spy_data(spy.b->ws.inner);

    for (uint32_t i = 0; i < check_pairs(); i++) {
        uint32_t pair = sorted[i];
        if (!check_has(&at, choice[2 * pair]))
            continue;
        float *y = check_expert(&at.weights->down, choice[2 * pair],
                                inner + (size_t)i * c->intermediate);
        for (uint32_t r = 0; r < c->hidden; r++)
            *spy_float(l, spy.b->ws.expert_out, (size_t)pair * c->hidden + r) =
                y[r] * check_float(choice[2 * pair + 1]);
        free(y);
    }
}

static void check_many_sum(struct spy_launch *l)
{
    const struct model_config *c = spy.b->config;
    const float *y = spy_data(spy.b->ws.expert_out);

    for (uint32_t i = 0; i < check_pairs(); i++)
        for (uint32_t r = 0; r < c->hidden; r++)
            *spy_float(l, spy.b->ws.x, (size_t)(i / c->experts_per_token) * c->hidden + r) +=
                y[(size_t)i * c->hidden + r];
}

/* ---- sampling ---- */

/* What the greatest of is sampled: the logit, or the logit by the temperature and noise. */
static float check_score(uint32_t row, uint32_t id)
{
    const struct lr_sampling *how = spy.sampled[row]->sample->sampling;
    float logit =
        ((const float *)spy_data(spy.b->ws.logits))[(size_t)row * spy.b->logit_stride + id];
    uint32_t words[4];

    if (how->temperature == 0)
        return logit;
    sampler_philox(how->seed, id / 4, spy.sampled[row]->sample->index, words);
    return logit / (float)how->temperature + sampler_gumbel(words[id % 4]);
}

static void check_sample_part(struct spy_launch *l)
{
    uint32_t words = l->command->grid[1] * PUSH_OF(l, push_sample)->parts * 2;

    assert_true(l->command->grid[1] <= spy.sampled_count);
    for (uint32_t i = 0; i < words; i++)
        (void)spy_word(l, spy.b->ws.best, i, SPY_ANY);
}

static uint32_t check_best(uint32_t row, uint32_t parts)
{
    const uint32_t *best = (const uint32_t *)spy_data(spy.b->ws.best) + (size_t)row * parts * 2;
    uint32_t id = UINT32_MAX;
    float value = 0;

    for (uint32_t i = 0; i < parts; i++) {
        float v = check_float(best[2 * i]);
        uint32_t other = best[2 * i + 1];
        if (other != UINT32_MAX &&
            (id == UINT32_MAX || v > value || (v == value && other < id))) {
            value = v;
            id = other;
        }
    }
    return id;
}

/* The best of all ids, or one beside it within the rounding of the noise; only usable ids. */
static void look_sample_part(struct spy_launch *l)
{
    for (uint32_t row = 0; row < l->command->grid[1]; row++) {
        uint32_t id = check_best(row, PUSH_OF(l, push_sample)->parts), best = UINT32_MAX;
        for (uint32_t i = 0; i < spy.b->weights->vocab_rows; i++)
            if ((spy.b->usable[i / 32] >> i % 32 & 1) != 0 &&
                (best == UINT32_MAX || check_score(row, i) > check_score(row, best)))
                best = i;
        assert_true(id < spy.b->weights->vocab_rows);
        assert_true((spy.b->usable[id / 32] >> id % 32 & 1) != 0);
        assert_true(id == best || check_score(row, best) - check_score(row, id) < 1e-5f);
    }
}

static void check_sample_last(struct spy_launch *l)
{
    for (uint32_t row = 0; row < l->command->grid[0]; row++)
        *spy_word(l, spy.b->ws.sampled, row, SPY_WORD) =
            check_best(row, PUSH_OF(l, push_sample)->parts);
}

/* ---- random weights ---- */

static void check_fill(struct spy_launch *l)
{
    const struct push_fill *push = PUSH_OF(l, push_fill);
    const struct gpu_span *span = &l->command->spans[0];

    for (uint32_t i = 0; i < push->words; i++) {
        uint32_t h = (i ^ push->seed) * 0x85EBCA6Bu;
        h = (h ^ h >> 13) * 0xC2B2AE35u;
        h ^= h >> 16;
        if (push->kind == GPU_FILL_BF16)
            h = (h & 0x807F807Fu) | 0x3C003C00u | (h >> 3 & 0x00800080u);
        else if (push->kind == GPU_FILL_SCALES)
            h = 0x78787878u + (h & 0x01010101u);
        else if (push->kind == GPU_FILL_ONES)
            h = 0x3F803F80u;
        *spy_word(l, span->buffer, span->at / 4 + i, SPY_WORD) = h;
    }
}

/* ---- the table ---- */

/* By the kernel's file. */
static const struct check {
    const char *file;
    void (*expect)(struct spy_launch *l);
    void (*look)(struct spy_launch *l); /* after the launch; NULL: nothing more */
} checks[] = {
    {"embed", check_embed, NULL},
    {"norm", check_norm_kernel, NULL},
    {"few_dense", check_dense, NULL},
    {"few_qkv", check_few_qkv, NULL},
    {"few_router", check_dense, NULL},
    {"few_up", check_few_up, NULL},
    {"few_down", check_few_down, NULL},
    {"rope", check_rope, NULL},
    {"attend", check_attend, NULL},
    {"merge", check_merge, NULL},
    {"many_dense", check_dense, NULL},
    {"route", check_route, NULL},
    {"sort", check_sort, look_sort},
    {"many_up", check_many_up, NULL},
    {"many_down", check_many_down, NULL},
    {"many_sum", check_many_sum, NULL},
    {"sample_part", check_sample_part, look_sample_part},
    {"sample_last", check_sample_last, NULL},
    {"fill", check_fill, NULL},
};

static const char *const spy_files[] = {
#define KERNEL(name, file, define, bindings, push) #file,
#include "engines/gptoss/backend/shaders/kernels.def"
};

static const struct check *check_of(enum gpu_kernel kernel)
{
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
        if (strcmp(checks[i].file, spy_files[kernel]) == 0)
            return &checks[i];
    fail_msg("kernel %s: kernel_checks.h has no check for shaders/%s.comp", spy_names[kernel],
             spy_files[kernel]);
    return NULL;
}

static void spy_expect(struct spy_launch *l)
{
    check_of(l->kernel)->expect(l);
}

static void spy_look(struct spy_launch *l)
{
    const struct check *check = check_of(l->kernel);

    if (check->look != NULL)
        check->look(l);
}

#endif
