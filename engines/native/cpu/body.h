/* native/cpu/body.h - the kernels of kernels.h, for the lanes of the including file.
 *
 * NATIVE_KERNELS_NAME is what the table is called.
 */
#include "engines/native/cpu/kernels.h"
#include "engines/native/cpu/lanes.h"
#include "engines/native/cpu/scalar.h"
#include "engines/native/formats/unpack.h"

#ifndef NATIVE_KERNELS_NAME
#define NATIVE_KERNELS_NAME "plain"
#endif

/* ---- matrices ---- */

LANES_INLINE lanes load_weights(const enum native_type type, const void *data, size_t at)
{
    if (type == NATIVE_F32)
        return lanes_load((const float *)data + at);
    if (type == NATIVE_F16)
        return lanes_f16((const uint16_t *)data + at);
    return lanes_bf16((const uint16_t *)data + at);
}

LANES_INLINE float weight_at(enum native_type type, const void *data, size_t at)
{
    if (type == NATIVE_F32)
        return ((const float *)data)[at];
    return type == NATIVE_F16 ? lanes_half(((const uint16_t *)data)[at])
                              : lanes_brain(((const uint16_t *)data)[at]);
}

/* The columns past a multiple of LANES, as if zeros followed. */
LANES_INLINE lanes last_weights(const enum native_type type, const void *data, size_t at,
                                size_t n)
{
    float pad[LANES] = {0};

    for (size_t i = 0; i < n; i++)
        pad[i] = weight_at(type, data, at + i);
    return lanes_load(pad);
}

LANES_INLINE lanes last_inputs(const float *x, size_t n)
{
    float pad[LANES] = {0};

    memcpy(pad, x, n * sizeof(*x));
    return lanes_load(pad);
}

LANES_INLINE void tile(const struct native_dense *job, const enum native_type type,
                       uint32_t row, uint32_t token, const int rows, const int tokens)
{
    const struct native_matrix *m = job->matrix;
    size_t columns = m->columns, stride = m->row_stride, k = 0;
    size_t from = (size_t)(job->first + row) * stride;
    const float *const *x = job->x + token;
    lanes acc[WIDE_ROWS * TILE_TOKENS];

    for (int i = 0; i < rows * tokens; i++)
        acc[i] = lanes_zero();
    for (; k + LANES <= columns; k += LANES) {
        lanes in[TILE_TOKENS];
        for (int t = 0; t < tokens; t++)
            in[t] = lanes_load(x[t] + k);
        for (int r = 0; r < rows; r++) {
            lanes w = load_weights(type, m->data, from + (size_t)r * stride + k);
            for (int t = 0; t < tokens; t++)
                acc[r * tokens + t] = lanes_fma(w, in[t], acc[r * tokens + t]);
        }
    }
    if (k < columns)
        for (int r = 0; r < rows; r++) {
            lanes w = last_weights(type, m->data, from + (size_t)r * stride + k, columns - k);
            for (int t = 0; t < tokens; t++)
                acc[r * tokens + t] =
                    lanes_fma(w, last_inputs(x[t] + k, columns - k), acc[r * tokens + t]);
        }
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tokens; t++)
            job->y[(token + (size_t)t) * job->y_stride + row + (size_t)r] =
                lanes_sum(acc[r * tokens + t]);
}

LANES_INLINE void dense_rows(const struct native_dense *job, const enum native_type type)
{
    uint32_t r = 0, t;

    if (job->tokens == 1) {
        for (; r + WIDE_ROWS <= job->rows; r += WIDE_ROWS)
            tile(job, type, r, 0, WIDE_ROWS, 1);
        for (; r < job->rows; r++)
            tile(job, type, r, 0, 1, 1);
        return;
    }
    for (; r + TILE_ROWS <= job->rows; r += TILE_ROWS) {
        for (t = 0; t + TILE_TOKENS <= job->tokens; t += TILE_TOKENS)
            tile(job, type, r, t, TILE_ROWS, TILE_TOKENS);
        for (; t < job->tokens; t++)
            tile(job, type, r, t, TILE_ROWS, 1);
    }
    for (; r < job->rows; r++)
        for (t = 0; t < job->tokens; t++)
            tile(job, type, r, t, 1, 1);
}

/* Stored by columns: sixteen outputs at a time, columns in order. */
static void dense_transposed(const struct native_dense *job)
{
    const struct native_matrix *m = job->matrix;

    for (uint32_t r = 0; r < job->rows; r += LANES) {
        uint32_t n = job->rows - r < LANES ? job->rows - r : LANES;
        for (uint32_t t = 0; t < job->tokens; t++) {
            lanes acc = lanes_zero();
            float out[LANES];
            for (size_t k = 0; k < m->columns; k++) {
                size_t at = k * m->row_stride + job->first + r;
                lanes w = n < LANES               ? last_weights(m->type, m->data, at, n)
                          : m->type == NATIVE_F32 ? load_weights(NATIVE_F32, m->data, at)
                          : m->type == NATIVE_F16 ? load_weights(NATIVE_F16, m->data, at)
                                                  : load_weights(NATIVE_BF16, m->data, at);
                acc = lanes_fma(w, lanes_all(job->x[t][k]), acc);
            }
            lanes_store(out, acc);
            memcpy(job->y + t * job->y_stride + r, out, n * sizeof(*out));
        }
    }
}

/* MXFP4: 32 columns share a power of two.  Their values are exact in float32. */
LANES_INLINE void tile_mxfp4(const struct native_dense *job, uint32_t row, uint32_t token,
                             const int rows, const int tokens)
{
    enum { GROUP = 32 };
    const struct native_matrix *m = job->matrix;
    size_t groups = m->columns / GROUP, from = (job->first + row) * groups;
    const uint8_t *blocks = (const uint8_t *)m->data + from * (GROUP / 2);
    const uint8_t *scales = m->scales + from;
    const float *const *x = job->x + token;
    lanes acc[FP4_ROWS * FP4_TOKENS];

    for (int i = 0; i < rows * tokens; i++)
        acc[i] = lanes_zero();
    for (size_t g = 0; g < groups; g++)
        for (int r = 0; r < rows; r++) {
            size_t at = (size_t)r * groups + g;
            lanes low, high;
            lanes_fp4(blocks + at * (GROUP / 2), scalar_power(scales[at]), &low, &high);
            for (int t = 0; t < tokens; t++) {
                lanes sum = acc[r * tokens + t];
                sum = lanes_fma(low, lanes_load(x[t] + g * GROUP), sum);
                acc[r * tokens + t] =
                    lanes_fma(high, lanes_load(x[t] + g * GROUP + LANES), sum);
            }
        }
    for (int r = 0; r < rows; r++)
        for (int t = 0; t < tokens; t++)
            job->y[(token + (size_t)t) * job->y_stride + row + (size_t)r] =
                lanes_sum(acc[r * tokens + t]);
}

static void dense_mxfp4(const struct native_dense *job)
{
    for (uint32_t r = 0; r < job->rows;) {
        uint32_t t = 0;
        if (job->rows - r >= FP4_ROWS) {
            for (; t + FP4_TOKENS <= job->tokens; t += FP4_TOKENS)
                tile_mxfp4(job, r, t, FP4_ROWS, FP4_TOKENS);
            for (; t < job->tokens; t++)
                tile_mxfp4(job, r, t, FP4_ROWS, 1);
            r += FP4_ROWS;
        } else {
            for (; t < job->tokens; t++)
                tile_mxfp4(job, r, t, 1, 1);
            r++;
        }
    }
}

/* ---- packed matrices ---- */

/* Values of a few rows and columns are unpacked into memory that stays in the cache; sums then
 * take them in the order of plain matrices, so they have the bits that the same values in F32
 * give. */
enum { PACKED_ROWS = 8, PACKED_COLUMNS = 256, PACKED_TOKENS = 24 };

LANES_INLINE void add_part(const float *w, const float *x, uint32_t n, const int rows,
                           lanes *acc)
{
    lanes sum[PACKED_ROWS];
    uint32_t k = 0;

    for (int r = 0; r < rows; r++)
        sum[r] = acc[r];
    for (; k + LANES <= n; k += LANES) {
        lanes in = lanes_load(x + k);
        for (int r = 0; r < rows; r++)
            sum[r] = lanes_fma(lanes_load(w + (size_t)r * PACKED_COLUMNS + k), in, sum[r]);
    }
    if (k < n) {
        lanes in = last_inputs(x + k, n - k);
        for (int r = 0; r < rows; r++)
            sum[r] =
                lanes_fma(last_inputs(w + (size_t)r * PACKED_COLUMNS + k, n - k), in, sum[r]);
    }
    for (int r = 0; r < rows; r++)
        acc[r] = sum[r];
}

LANES_INLINE void dense_packed_rows(const struct native_dense *job, uint32_t row,
                                    uint32_t token, uint32_t tokens, const int rows)
{
    const struct native_matrix *m = job->matrix;
    uint32_t first = m->packed_first + job->first + row;
    float w[PACKED_ROWS * PACKED_COLUMNS];
    lanes acc[PACKED_TOKENS * PACKED_ROWS];

    for (uint32_t i = 0; i < tokens * PACKED_ROWS; i++)
        acc[i] = lanes_zero();
    for (uint32_t k = 0; k < m->columns; k += PACKED_COLUMNS) {
        uint32_t n = m->columns - k < PACKED_COLUMNS ? m->columns - k : PACKED_COLUMNS;
        for (uint32_t r = 0; r < (uint32_t)rows; r++)
            unpack_row(m->packed, first + r, k, n, w + (size_t)r * PACKED_COLUMNS);
        for (uint32_t t = 0; t < tokens; t++)
            add_part(w, job->x[token + t] + k, n, rows, acc + (size_t)t * PACKED_ROWS);
    }
    for (uint32_t t = 0; t < tokens; t++)
        for (uint32_t r = 0; r < (uint32_t)rows; r++)
            job->y[(size_t)(token + t) * job->y_stride + row + r] =
                lanes_sum(acc[(size_t)t * PACKED_ROWS + r]);
}

static void dense_packed(const struct native_dense *job)
{
    for (uint32_t t = 0; t < job->tokens; t += PACKED_TOKENS) {
        uint32_t left = job->tokens - t, n = left < PACKED_TOKENS ? left : PACKED_TOKENS, r = 0;
        for (; r + PACKED_ROWS <= job->rows; r += PACKED_ROWS)
            dense_packed_rows(job, r, t, n, PACKED_ROWS);
        for (; r < job->rows; r++)
            dense_packed_rows(job, r, t, n, 1);
    }
}

/* Stored by columns: stored row k holds the values of column k, as in dense_transposed. */
static void dense_packed_transposed(const struct native_dense *job)
{
    const struct native_matrix *m = job->matrix;

    for (uint32_t t = 0; t < job->tokens; t += PACKED_TOKENS) {
        uint32_t left = job->tokens - t, tokens = left < PACKED_TOKENS ? left : PACKED_TOKENS;
        for (uint32_t r = 0; r < job->rows; r += LANES) {
            uint32_t n = job->rows - r < LANES ? job->rows - r : LANES;
            lanes acc[PACKED_TOKENS];
            float w[LANES] = {0}, out[LANES];
            for (uint32_t i = 0; i < tokens; i++)
                acc[i] = lanes_zero();
            for (uint32_t k = 0; k < m->columns; k++) {
                unpack_row(m->packed, m->packed_first + k, job->first + r, n, w);
                for (uint32_t i = 0; i < tokens; i++)
                    acc[i] = lanes_fma(lanes_load(w), lanes_all(job->x[t + i][k]), acc[i]);
            }
            for (uint32_t i = 0; i < tokens; i++) {
                lanes_store(out, acc[i]);
                memcpy(job->y + (size_t)(t + i) * job->y_stride + r, out, n * sizeof(*out));
            }
        }
    }
}

static void dense(const struct native_dense *job)
{
    if (job->matrix->type == NATIVE_PACKED && job->matrix->transposed) {
        dense_packed_transposed(job);
        return;
    }
    if (job->matrix->transposed) {
        dense_transposed(job);
        return;
    }
    switch (job->matrix->type) {
    case NATIVE_BF16:
        dense_rows(job, NATIVE_BF16);
        break;
    case NATIVE_F16:
        dense_rows(job, NATIVE_F16);
        break;
    case NATIVE_F32:
        dense_rows(job, NATIVE_F32);
        break;
    case NATIVE_MXFP4:
        dense_mxfp4(job);
        break;
    case NATIVE_PACKED:
        dense_packed(job);
        break;
    }
}

/* ---- attention ---- */

enum { PAGE = NATIVE_PAGE_TOKENS };

/* The scores of a page's positions, for some heads side by side. */
LANES_INLINE void scores_of(const struct native_look *job, uint32_t head, const float *k,
                            const int heads, float score[LOOK_HEADS][PAGE])
{
    const float *query = job->q + (size_t)head * job->key_size;
    lanes sums[2 * LOOK_HEADS];

    for (int h = 0; h < 2 * heads; h++)
        sums[h] = lanes_zero();
    for (uint32_t d = 0; d < job->key_size; d++) {
        lanes low = lanes_load(k + (size_t)d * PAGE);
        lanes high = lanes_load(k + (size_t)d * PAGE + LANES);
        for (int h = 0; h < heads; h++) {
            lanes q = lanes_all(query[(size_t)h * job->key_size + d]);
            sums[2 * h] = lanes_fma(q, low, sums[2 * h]);
            sums[2 * h + 1] = lanes_fma(q, high, sums[2 * h + 1]);
        }
    }
    for (int h = 0; h < heads; h++) {
        lanes_store(score[h], sums[2 * h]);
        lanes_store(score[h] + LANES, sums[2 * h + 1]);
        for (uint32_t i = 0; job->softcap > 0 && i < PAGE; i++)
            score[h][i] = job->softcap * scalar_tanh(score[h][i] / job->softcap);
    }
}

/* Values d .. d + 16 * parts - 1 of: out = out * shrink + weights . values.  Sums of a page,
 * then of pages: the error grows with the root of their number. */
LANES_INLINE void add_some(float *out, const float *v, uint32_t n, const float weight[PAGE],
                           float shrink, uint32_t a, uint32_t b, const int parts)
{
    lanes sums[VALUE_PARTS];

    for (int p = 0; p < parts; p++)
        sums[p] = lanes_zero();
    for (uint32_t i = a; i < b; i++) {
        lanes w = lanes_all(weight[i]);
        for (int p = 0; p < parts; p++)
            sums[p] = lanes_fma(w, lanes_load(v + (size_t)i * n + p * LANES), sums[p]);
    }
    for (int p = 0; p < parts; p++)
        lanes_store(out + p * LANES,
                    lanes_fma(lanes_load(out + p * LANES), lanes_all(shrink), sums[p]));
}

static void add_values(float *out, const float *v, uint32_t n, const float weight[PAGE],
                       float shrink, uint32_t a, uint32_t b)
{
    uint32_t d = 0;

    for (; d + VALUE_PARTS * LANES <= n; d += VALUE_PARTS * LANES)
        add_some(out + d, v + d, n, weight, shrink, a, b, VALUE_PARTS);
    for (; d + LANES <= n; d += LANES)
        add_some(out + d, v + d, n, weight, shrink, a, b, 1);
    for (; d < n; d++) {
        float sum = 0;
        for (uint32_t i = a; i < b; i++)
            sum = fmaf(weight[i], v[(size_t)i * n + d], sum);
        out[d] = fmaf(out[d], shrink, sum);
    }
}

/* The values are the leading rows of K, [n][PAGE]. */
static void add_key_values(float *out, const float *k, uint32_t n, const float weight[PAGE],
                           float shrink)
{
    lanes low = lanes_load(weight), high = lanes_load(weight + LANES);

    for (uint32_t d = 0; d < n; d++) {
        lanes sum = lanes_fma(low, lanes_load(k + (size_t)d * PAGE), lanes_zero());
        sum = lanes_fma(high, lanes_load(k + (size_t)d * PAGE + LANES), sum);
        out[d] = fmaf(out[d], shrink, lanes_sum(sum));
    }
}

/* One page for one head with these scores: positions a..b - 1 of it are seen. */
static void look_at_page(const struct native_look *job, uint32_t head, const float *k,
                         const float score[PAGE], uint32_t a, uint32_t b, float *top,
                         float *sum)
{
    float *out = job->out + (size_t)head * job->value_size;
    float weight[PAGE], high = *top, all = 0;

    for (uint32_t i = a; i < b; i++)
        high = score[i] > high ? score[i] : high;
    float shrink = scalar_exp(*top - high);
    for (uint32_t i = 0; i < PAGE; i++)
        weight[i] = scalar_exp(score[i] - high);
    for (uint32_t i = 0; i < PAGE; i++)
        weight[i] = i >= a && i < b ? weight[i] : 0.0f;
    *top = high;
    for (uint32_t i = a; i < b; i++)
        all += weight[i];
    *sum = fmaf(*sum, shrink, all);
    if (job->values_are_keys)
        add_key_values(out, k, job->value_size, weight, shrink);
    else
        add_values(out, k + (size_t)job->key_size * PAGE, job->value_size, weight, shrink, a,
                   b);
}

/* Softmax over one page at a time with a running maximum.  Pages begin at multiples of PAGE of
 * the sequence, so a query reads the same pages in the same order however its prompt was split.
 * A sink only enters the denominator: it is the first maximum, with weight one. */
static void look(const struct native_look *job)
{
    float top[NATIVE_LOOK_HEADS], sum[NATIVE_LOOK_HEADS];

    memset(job->out, 0, (size_t)job->group * job->value_size * sizeof(*job->out));
    for (uint32_t h = 0; h < job->group; h++) {
        top[h] = job->sinks != NULL ? job->sinks[h] : -3.0e38f;
        sum[h] = job->sinks != NULL ? 1.0f : 0.0f;
    }
    for (uint32_t p = job->from / PAGE; p <= job->to / PAGE; p++) {
        const float *k = job->base + job->pages[p] * job->page_stride;
        uint32_t first = p * PAGE, a = job->from > first ? job->from - first : 0;
        uint32_t b = job->to - first < PAGE ? job->to - first + 1 : PAGE;
        float score[LOOK_HEADS][PAGE];
        for (uint32_t h = 0; h < job->group;) {
            uint32_t n = job->group - h < LOOK_HEADS ? 1 : LOOK_HEADS;
            if (n == LOOK_HEADS)
                scores_of(job, h, k, LOOK_HEADS, score);
            else
                scores_of(job, h, k, 1, score);
            for (uint32_t i = 0; i < n; i++, h++)
                look_at_page(job, h, k, score[i], a, b, &top[h], &sum[h]);
        }
    }
    for (uint32_t h = 0; h < job->group; h++)
        for (uint32_t d = 0; d < job->value_size; d++)
            job->out[(size_t)h * job->value_size + d] /= sum[h];
}

/* ---- state ---- */

/* Products and sums round separately here: each compiler then computes the same. */
static void delta(const struct native_delta_step *job)
{
    uint32_t n = job->value_size;
    float *memory = job->scratch, *out = job->out;

    for (uint32_t i = 0; i < n; i++)
        memory[i] = out[i] = 0;
    for (uint32_t d = 0; d < job->key_size; d++) {
        float *row = job->state + (size_t)d * n, key = job->k[d], decay = job->decay;
        for (uint32_t i = 0; i < n; i++) {
            row[i] *= decay;
            memory[i] += row[i] * key;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        memory[i] = (job->v[i] - memory[i]) * job->beta;
    for (uint32_t d = 0; d < job->key_size; d++) {
        float *row = job->state + (size_t)d * n, key = job->k[d], query = job->q[d];
        for (uint32_t i = 0; i < n; i++) {
            row[i] += key * memory[i];
            out[i] += row[i] * query;
        }
    }
}

static void ssm(const struct native_ssm_step *job)
{
    uint32_t n = job->head_size;
    float *out = job->out;

    for (uint32_t i = 0; i < n; i++)
        out[i] = job->skip * job->x[i];
    for (uint32_t s = 0; s < job->state_size; s++) {
        float *row = job->state + (size_t)s * n, in = job->dt * job->b[s], c = job->c[s];
        float decay = job->decay;
        for (uint32_t i = 0; i < n; i++) {
            row[i] = row[i] * decay + in * job->x[i];
            out[i] += row[i] * c;
        }
    }
}

/* ---- activations ---- */

static void act(enum native_act how, float *x, size_t n)
{
    switch (how) {
    case NATIVE_LINEAR:
    case NATIVE_CLIPPED:
        break;
    case NATIVE_SILU:
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] / (1.0f + scalar_exp(-x[i]));
        break;
    case NATIVE_GELU:
        for (size_t i = 0; i < n; i++)
            x[i] = 0.5f * x[i] * (1.0f + scalar_erf(x[i] * 0.70710678118654752440f));
        break;
    case NATIVE_GELU_TANH:
        for (size_t i = 0; i < n; i++)
            x[i] = 0.5f * x[i] *
                   (1.0f + scalar_tanh(0.79788456080286535588f *
                                       (x[i] + 0.044715f * x[i] * x[i] * x[i])));
        break;
    case NATIVE_RELU2:
        for (size_t i = 0; i < n; i++)
            x[i] = x[i] > 0 ? x[i] * x[i] : 0;
        break;
    case NATIVE_SIGMOID:
        for (size_t i = 0; i < n; i++)
            x[i] = 1.0f / (1.0f + scalar_exp(-x[i]));
        break;
    case NATIVE_TANH:
        for (size_t i = 0; i < n; i++)
            x[i] = scalar_tanh(x[i]);
        break;
    }
}

static const struct native_kernels body_table = {
    .name = NATIVE_KERNELS_NAME,
    .dense = dense,
    .look = look,
    .delta = delta,
    .ssm = ssm,
    .act = act,
};
