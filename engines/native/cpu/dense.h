/* native/cpu/dense.h - sums over the rows of a matrix, for the lanes of the including file.
 *
 * Lane i of a sum takes columns i, i + 16, i + 32, ... in their order, one rounding each,
 * whatever the type of the matrix and the shape of a tile.  So a packed matrix gives the bits
 * that the same values in float32 give.
 *
 * Codes of four and eight bits become float32 in registers, on their way into the sum: four
 * bits by a table of sixteen values that already has scale, zero point and shift of the group
 * in it, eight bits by their bits.  For many tokens a few rows are converted once, into memory
 * that stays in the cache.  All other codes always go that way.
 */
#ifndef NATIVE_CPU_DENSE_H
#define NATIVE_CPU_DENSE_H

#include "engines/native/cpu/kernels.h"
#include "engines/native/cpu/lanes.h"
#include "engines/native/cpu/scalar.h"
#include "engines/native/formats/unpack.h"

enum {
    DENSE_TOKENS = 24,     /* whose sums are kept at a time */
    PANEL_COLUMNS = 1024,  /* of a row that are converted at a time */
    SCALED_COLUMNS = 2048, /* of a row whose scales are prepared at a time */
    LINE_BYTES = 64,       /* of the processor's cache */
};

/* How the columns of a row become float32. */
enum source {
    SOURCE_F32,
    SOURCE_F16,
    SOURCE_BF16,
    SOURCE_NIBBLES, /* table[code] * scale, or (code - zero) * scale + shift */
    SOURCE_E4M3,
    SOURCE_SIGNED, /* eight bits: code * scale */
    SOURCE_BYTES,  /* eight bits: (code - zero) * scale + shift */
    SOURCE_OTHER,  /* by unpack_row */
};

struct dense_rows {
    enum source source;
    bool moved;                         /* zero points or shifts of runs */
    const uint8_t *data;                /* of the matrix's row 0 */
    size_t stride;                      /* bytes from one row to the next */
    uint32_t each;                      /* columns with one scale */
    const struct native_packed *packed; /* NULL: no codes */
    uint32_t first;                     /* row of `packed` that is row 0 */
    lanes table;
    lanes_how how;
};

/* Scales, zero points and shifts of the rows of a tile, in a panel of columns: [row][run]. */
enum { PANEL_RUNS = WIDE_ROWS * SCALED_COLUMNS / LANES };
struct dense_scales {
    uint32_t runs;
    float scale[PANEL_RUNS], zero[PANEL_RUNS], shift[PANEL_RUNS];
};

/* Scale, zero point and shift of a run of columns in one row; for nibbles `scale` is the table
 * of the run's values. */
struct dense_run {
    lanes scale, zero, shift;
};

LANES_INLINE uint32_t bits_of(const enum source source)
{
    switch (source) {
    case SOURCE_F32:
        return 32;
    case SOURCE_F16:
    case SOURCE_BF16:
        return 16;
    case SOURCE_NIBBLES:
        return 4;
    default:
        return 8;
    }
}

LANES_INLINE struct dense_run run_of(const enum source source, const struct dense_rows *w,
                                     const struct dense_scales *s, int row, uint32_t run)
{
    struct dense_run out = {lanes_zero(), lanes_zero(), lanes_zero()};

    if (source < SOURCE_NIBBLES)
        return out;
    size_t at = (size_t)row * s->runs + run;
    out.scale = lanes_all(s->scale[at]);
    if (source == SOURCE_NIBBLES && !w->moved)
        out.scale = lanes_mul(w->table, out.scale);
    if (source == SOURCE_NIBBLES && w->moved)
        out.scale = lanes_add(lanes_mul(lanes_add(w->table, lanes_all(s->zero[at])), out.scale),
                              lanes_all(s->shift[at]));
    if (source == SOURCE_BYTES) {
        out.zero = lanes_all(s->zero[at]);
        out.shift = lanes_all(s->shift[at]);
    }
    return out;
}

LANES_INLINE lanes load_values(const enum source source, const uint8_t *at,
                               const struct dense_run *run, lanes_how how)
{
    switch (source) {
    case SOURCE_F32:
        return lanes_load((const float *)(const void *)at);
    case SOURCE_F16:
        return lanes_f16((const uint16_t *)(const void *)at);
    case SOURCE_BF16:
        return lanes_bf16((const uint16_t *)(const void *)at);
    case SOURCE_NIBBLES:
        return lanes_nibbles(at, run->scale, how);
    case SOURCE_E4M3:
        return lanes_mul(lanes_e4m3(at, how), run->scale);
    case SOURCE_SIGNED:
        return lanes_mul(lanes_signed(at), run->scale);
    default:
        return lanes_add(lanes_mul(lanes_add(lanes_unsigned(at), run->zero), run->scale),
                         run->shift);
    }
}

/* The columns past a multiple of LANES, as if zeros followed. */
LANES_INLINE lanes last_values(const enum source source, const uint8_t *at,
                               const struct dense_run *run, lanes_how how, size_t n)
{
    _Alignas(16) uint8_t pad[LANES * sizeof(float)] = {0};
    float values[LANES];

    memcpy(pad, at, (n * bits_of(source) + 7) / 8);
    lanes_store(values, load_values(source, pad, run, how));
    for (size_t i = n; i < LANES; i++)
        values[i] = 0;
    return lanes_load(values);
}

LANES_INLINE lanes last_inputs(const float *x, size_t n)
{
    float pad[LANES] = {0};

    memcpy(pad, x, n * sizeof(*x));
    return lanes_load(pad);
}

/* The columns past a multiple of LANES: the last `left` of n. */
LANES_INLINE void add_last(const enum source source, const struct dense_rows *w,
                           const struct dense_scales *s, const uint8_t *at, uint32_t n,
                           uint32_t left, const float *const *x, const int rows,
                           const int tokens, lanes *acc)
{
    uint32_t k = n - left;

    for (int r = 0; r < rows; r++) {
        const struct dense_run run = run_of(source, w, s, r, k / w->each);
        lanes v =
            last_values(source, at + (size_t)r * w->stride + (size_t)k * bits_of(source) / 8,
                        &run, w->how, left);
        for (int t = 0; t < tokens; t++)
            acc[r * tokens + t] =
                lanes_fma(v, last_inputs(x[t] + k, left), acc[r * tokens + t]);
    }
}

/* sums[t][r] += columns 0 .. n - 1 of the rows at `at`, times those of x[t]. */
LANES_INLINE void add_columns(const enum source source, const struct dense_rows *w,
                              const struct dense_scales *s, const uint8_t *at, uint32_t n,
                              const float *const *x, const int rows, const int tokens,
                              bool ahead, lanes (*sums)[WIDE_ROWS])
{
    const uint32_t bits = bits_of(source), line = LINE_BYTES * 8 / bits;
    const uint32_t whole = n / LANES * LANES, each = w->each;
    const size_t stride = w->stride;
    const lanes_how how = w->how;
    lanes acc[WIDE_ROWS * TILE_TOKENS];

    for (int t = 0; t < tokens; t++)
        for (int r = 0; r < rows; r++)
            acc[r * tokens + t] = sums[t][r];
    for (uint32_t k = 0, i = 0; k < whole; i++) {
        uint32_t end = whole - k > each ? k + each : whole;
        struct dense_run run[WIDE_ROWS];
        for (int r = 0; r < rows; r++)
            run[r] = run_of(source, w, s, r, i);
        for (; k < end; k += LANES) {
            const uint8_t *from = at + (size_t)k * bits / 8;
            lanes in[TILE_TOKENS];
            /* The next rows: the processor's own prefetcher cannot follow this number of
             * streams. */
            for (int r = 0; ahead && k % line == 0 && r < rows; r++)
                __builtin_prefetch(from + (size_t)(rows + r) * stride);
            for (int t = 0; t < tokens; t++)
                in[t] = lanes_load(x[t] + k);
            for (int r = 0; r < rows; r++) {
                lanes v = load_values(source, from + (size_t)r * stride, &run[r], how);
                for (int t = 0; t < tokens; t++)
                    acc[r * tokens + t] = lanes_fma(v, in[t], acc[r * tokens + t]);
            }
        }
    }
    if (whole < n)
        add_last(source, w, s, at, n, n - whole, x, rows, tokens, acc);
    for (int t = 0; t < tokens; t++)
        for (int r = 0; r < rows; r++)
            sums[t][r] = acc[r * tokens + t];
}

/* ---- scales of a panel ---- */

static void fill_scales(const struct native_packed *p, const uint8_t *from, size_t at,
                        uint32_t n, float *restrict out)
{
    const uint8_t *bytes = from + at;
    uint32_t i = 0;

    if (p->column_step == 1 && p->scale == NATIVE_SCALE_BF16) {
        for (; i < n; i++) {
            uint16_t half;
            memcpy(&half, from + 2 * (at + i), sizeof(half));
            out[i] = unpack_bits((uint32_t)half << 16);
        }
    } else if (p->column_step == 1 && p->scale == NATIVE_SCALE_F32) {
        memcpy(out, from + 4 * at, n * sizeof(*out));
        i = n;
    } else if (p->column_step == 1 && p->scale == NATIVE_SCALE_E8M0) {
        for (; i < n; i++)
            out[i] = unpack_e8m0(bytes[i]);
    } else if (p->column_step == 1 && p->scale == NATIVE_SCALE_E4M3) {
        for (; i + LANES <= n; i += LANES)
            lanes_store(out + i, lanes_mul(lanes_e4m3(bytes + i, lanes_prepare()),
                                           lanes_all(LANES_E4M3_UNIT)));
        for (uint32_t k = 0; p->divides && k < i; k++)
            out[k] = out[k] / p->global;
        for (uint32_t k = 0; !p->divides && k < i; k++)
            out[k] = out[k] * p->global;
    }
    for (; i < n; i++)
        out[i] = unpack_scale_at(p, from, at + i * (size_t)p->column_step);
}

/* Negated, because the kernels add them. */
static void fill_zeros(const struct native_packed *p, size_t row, uint32_t run, uint32_t n,
                       float *restrict out)
{
    if (p->zero_order == NATIVE_ALONG_COLUMNS) {
        const uint8_t *words = p->zeros + row * p->bits / 32 * p->zero_stride + 4 * (size_t)run;
        uint32_t shift = row * p->bits % 32, mask = (1u << p->bits) - 1;
        for (uint32_t i = 0; i < n; i++)
            out[i] = -(float)((int32_t)(unpack_word(words + 4 * (size_t)i) >> shift & mask) +
                              p->zero);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        out[i] = -(float)unpack_zero(p, row, run + i);
}

/* The same of a row, or of several whose scales follow each other. */
static void fill_rows(const struct dense_rows *w, size_t row, uint32_t run, uint32_t n,
                      size_t to, struct dense_scales *s)
{
    const struct native_packed *p = w->packed;
    bool moved = w->moved || w->source == SOURCE_BYTES;
    size_t at = row / p->rows_each * p->row_step + run * p->column_step;

    fill_scales(p, p->scales, at, n, s->scale + to);
    for (uint32_t i = 0; w->source == SOURCE_E4M3 && i < n; i++)
        s->scale[to + i] *= LANES_E4M3_UNIT;
    if (moved && p->shifts != NULL)
        fill_scales(p, p->shifts, at, n, s->shift + to);
    for (uint32_t i = 0; moved && p->shifts == NULL && i < n; i++)
        s->shift[to + i] = -0.0f; /* changes no sum */
}

/* Scales of columns from .. from + n - 1. */
static void fill_runs(const struct dense_rows *w, uint32_t row, uint32_t from, uint32_t n,
                      uint32_t rows, struct dense_scales *s)
{
    const struct native_packed *p = w->packed;
    uint32_t run = from / w->each, runs = (n + w->each - 1) / w->each;
    size_t first = (size_t)w->first + row;

    s->runs = runs;
    if (p->rows_each == 1 && p->column_step == 1 && p->row_step == runs) {
        fill_rows(w, first, 0, rows * runs, 0, s);
    } else {
        for (size_t r = 0; r < rows; r++) {
            bool same = r > 0 && (first + r) % p->rows_each != 0;
            if (same && p->shifts == NULL)
                memcpy(s->scale + r * runs, s->scale + (r - 1) * runs, runs * sizeof(float));
            if (!same || p->shifts != NULL || w->source >= SOURCE_BYTES)
                fill_rows(w, first + r, run, runs, r * runs, s);
        }
    }
    for (size_t r = 0; p->zero_order != NATIVE_NO_CODES && r < rows; r++)
        fill_zeros(p, first + r, run, runs, s->zero + r * runs);
    for (size_t i = 0; p->zero_order == NATIVE_NO_CODES && i < (size_t)rows * runs; i++)
        s->zero[i] = -(float)p->zero;
}

/* ---- tiles ---- */

/* How many columns from `from` on are one panel of at most `most`: whole runs, or a part of
 * one. */
static uint32_t panel_of(const struct dense_rows *w, uint32_t from, uint32_t columns,
                         uint32_t most)
{
    uint32_t n = most;

    if (w->each <= most)
        n = most / w->each * w->each;
    else if (w->each - from % w->each < n)
        n = w->each - from % w->each;
    return columns - from < n ? columns - from : n;
}

/* Tokens of the next tile. */
static int next_tokens(uint32_t left)
{
    if (left >= TILE_TOKENS && left != 8)
        return TILE_TOKENS;
    return left >= 4 && TILE_TOKENS > 4 ? 4 : left >= 2 && TILE_TOKENS > 2 ? 2 : 1;
}

/* Numbers, for any tokens; `data` and `x` begin with the same column. */
LANES_INLINE void add_tokens(const enum source source, const struct dense_rows *w,
                             const uint8_t *at, uint32_t n, const float *const *x,
                             uint32_t tokens, const int rows, bool ahead,
                             lanes (*sums)[WIDE_ROWS])
{
    for (uint32_t t = 0, count; t < tokens; t += count) {
        count = rows == 1 ? 1 : (uint32_t)next_tokens(tokens - t);
        if (count == TILE_TOKENS)
            add_columns(source, w, NULL, at, n, x + t, rows, TILE_TOKENS, ahead && t == 0,
                        sums + t);
        else if (count == 4 && TILE_TOKENS > 4)
            add_columns(source, w, NULL, at, n, x + t, rows, 4, ahead && t == 0, sums + t);
        else if (count == 2 && TILE_TOKENS > 2)
            add_columns(source, w, NULL, at, n, x + t, rows, 2, ahead && t == 0, sums + t);
        else
            add_columns(source, w, NULL, at, n, x + t, rows, 1, ahead && t == 0, sums + t);
    }
}

/* Rows row .. row + rows - 1 in float32. */
LANES_INLINE void convert_rows(const enum source source, const struct dense_rows *w,
                               const struct dense_scales *s, uint32_t row, uint32_t from,
                               uint32_t n, const int rows, float *out)
{
    for (int r = 0; r < rows; r++, out += PANEL_COLUMNS) {
        const uint8_t *at =
            w->data + (row + (size_t)r) * w->stride + (size_t)from * bits_of(source) / 8;
        if (source == SOURCE_OTHER) {
            unpack_row(w->packed, w->first + row + (size_t)r, from, n, out);
            continue;
        }
        for (uint32_t k = 0, i = 0; k < n; i++) {
            uint32_t end = n - k > w->each ? k + w->each : n;
            struct dense_run run = run_of(source, w, s, r, i);
            for (; k + LANES <= end; k += LANES)
                lanes_store(out + k, load_values(source, at + (size_t)k * bits_of(source) / 8,
                                                 &run, w->how));
            if (k < end) {
                float last[LANES];
                lanes_store(last, last_values(source, at + (size_t)k * bits_of(source) / 8,
                                              &run, w->how, end - k));
                memcpy(out + k, last, (end - k) * sizeof(*out));
                k = end;
            }
        }
    }
}

LANES_INLINE void begin_sums(uint32_t tokens, const int rows, lanes (*sums)[WIDE_ROWS])
{
    for (uint32_t t = 0; t < tokens; t++)
        for (int r = 0; r < rows; r++)
            sums[t][r] = lanes_zero();
}

LANES_INLINE void end_sums(const struct native_dense *job, uint32_t row, uint32_t token,
                           uint32_t tokens, const int rows, lanes (*sums)[WIDE_ROWS],
                           const bool *nan)
{
    for (uint32_t t = 0; t < tokens; t++)
        for (int r = 0; r < rows; r++)
            job->y[(size_t)(token + t) * job->y_stride + row + (uint32_t)r] =
                nan[r] ? NAN : lanes_sum(sums[t][r]);
}

/* Numbers are summed as they lie. */
LANES_INLINE void sum_numbers(const enum source source, const struct dense_rows *w,
                              const struct native_dense *job, uint32_t row, uint32_t token,
                              uint32_t tokens, const int rows)
{
    static const bool nan[WIDE_ROWS] = {false};
    lanes sums[DENSE_TOKENS][WIDE_ROWS];

    begin_sums(tokens, rows, sums);
    add_tokens(source, w, w->data + (size_t)(job->first + row) * w->stride, w->each,
               job->x + token, tokens, rows, true, sums);
    end_sums(job, row, token, tokens, rows, sums, nan);
}

/* Scales of the panel, and the rows with a NaN in it: the conversion makes a number of E4M3's
 * code of NaN. */
LANES_INLINE void begin_panel(const enum source source, const struct dense_rows *w,
                              uint32_t row, uint32_t from, uint32_t n, const int rows,
                              struct dense_scales *scales, bool *nan)
{
    const uint8_t *at = w->data + (size_t)row * w->stride + (size_t)from * bits_of(source) / 8;

    fill_runs(w, row, from, n, (uint32_t)rows, scales);
    for (int r = 0; source == SOURCE_E4M3 && !w->packed->no_nan && r < rows; r++)
        nan[r] = nan[r] || unpack_has_nan(at + (size_t)r * w->stride, n);
}

/* Codes for one token. */
LANES_INLINE void sum_codes(const enum source source, const struct dense_rows *w,
                            const struct native_dense *job, uint32_t row, uint32_t token,
                            const int rows)
{
    uint32_t columns = job->matrix->columns, at = job->first + row;
    bool nan[WIDE_ROWS] = {false};
    struct dense_scales scales;
    lanes sums[1][WIDE_ROWS];

    begin_sums(1, rows, sums);
    for (uint32_t from = 0, n; from < columns; from += n) {
        const float *x = job->x[token] + from;
        n = panel_of(w, from, columns, SCALED_COLUMNS);
        begin_panel(source, w, at, from, n, rows, &scales, nan);
        add_columns(source, w, &scales,
                    w->data + (size_t)at * w->stride + (size_t)from * bits_of(source) / 8, n,
                    &x, rows, 1, true, sums);
    }
    end_sums(job, row, token, 1, rows, sums, nan);
}

/* Codes for several tokens: as float32 first. */
LANES_INLINE void sum_converted(const enum source source, const struct dense_rows *w,
                                const struct native_dense *job, uint32_t row, uint32_t token,
                                uint32_t tokens, const int rows)
{
    const struct dense_rows converted = {.stride = sizeof(float) * PANEL_COLUMNS,
                                         .each = PANEL_COLUMNS};
    uint32_t columns = job->matrix->columns, at = job->first + row;
    bool nan[WIDE_ROWS] = {false};
    struct dense_scales scales;
    lanes sums[DENSE_TOKENS][WIDE_ROWS];
    float panel[TILE_ROWS * PANEL_COLUMNS];

    begin_sums(tokens, rows, sums);
    for (uint32_t from = 0, n; from < columns; from += n) {
        const float *x[DENSE_TOKENS];
        n = panel_of(w, from, columns, PANEL_COLUMNS);
        for (uint32_t t = 0; t < tokens; t++)
            x[t] = job->x[token + t] + from;
        if (source >= SOURCE_NIBBLES && source != SOURCE_OTHER)
            begin_panel(source, w, at, from, n, rows, &scales, nan);
        convert_rows(source, w, &scales, at, from, n, rows, panel);
        add_tokens(SOURCE_F32, &converted, (const uint8_t *)(const void *)panel, n, x, tokens,
                   rows, false, sums);
    }
    end_sums(job, row, token, tokens, rows, sums, nan);
}

LANES_INLINE void sum_all(const enum source source, const struct dense_rows *w,
                          const struct native_dense *job)
{
    const bool plain = source == SOURCE_F32 || source == SOURCE_BF16;

    for (uint32_t t = 0; t < job->tokens; t += DENSE_TOKENS) {
        uint32_t left = job->tokens - t, n = left < DENSE_TOKENS ? left : DENSE_TOKENS, r = 0;
        for (; plain && n == 1 && r + WIDE_ROWS <= job->rows; r += WIDE_ROWS)
            sum_numbers(source, w, job, r, t, 1, WIDE_ROWS);
        for (; plain && r + TILE_ROWS <= job->rows; r += TILE_ROWS)
            sum_numbers(source, w, job, r, t, n, TILE_ROWS);
        for (; plain && r < job->rows; r++)
            sum_numbers(source, w, job, r, t, n, 1);
        for (; n == 1 && source >= SOURCE_NIBBLES && source != SOURCE_OTHER &&
               r + WIDE_ROWS <= job->rows;
             r += WIDE_ROWS)
            sum_codes(source, w, job, r, t, WIDE_ROWS);
        for (; r + TILE_ROWS <= job->rows; r += TILE_ROWS)
            sum_converted(source, w, job, r, t, n, TILE_ROWS);
        for (; r < job->rows; r++)
            sum_converted(source, w, job, r, t, n, 1);
    }
}

/* ---- stored by columns ---- */

LANES_INLINE float weight_at(const struct native_matrix *m, size_t at)
{
    if (m->type == NATIVE_F32)
        return ((const float *)m->data)[at];
    return m->type == NATIVE_F16 ? lanes_half(((const uint16_t *)m->data)[at])
                                 : lanes_brain(((const uint16_t *)m->data)[at]);
}

/* n outputs from `row` on, of stored row k; zeros follow. */
LANES_INLINE lanes stored_values(const struct native_matrix *m, uint32_t k, uint32_t row,
                                 uint32_t n)
{
    size_t at = k * m->row_stride + row;
    float w[LANES] = {0};

    if (m->type == NATIVE_PACKED)
        unpack_row(m->packed, m->packed_first + k, row, n, w);
    else if (n == LANES && m->type == NATIVE_F32)
        return lanes_load((const float *)m->data + at);
    else if (n == LANES && m->type == NATIVE_F16)
        return lanes_f16((const uint16_t *)m->data + at);
    else if (n == LANES)
        return lanes_bf16((const uint16_t *)m->data + at);
    else
        for (uint32_t i = 0; i < n; i++)
            w[i] = weight_at(m, at + i);
    return lanes_load(w);
}

/* Sixteen outputs at a time, columns in order. */
static void dense_transposed(const struct native_dense *job)
{
    const struct native_matrix *m = job->matrix;

    for (uint32_t t = 0; t < job->tokens; t += DENSE_TOKENS) {
        uint32_t left = job->tokens - t, tokens = left < DENSE_TOKENS ? left : DENSE_TOKENS;
        for (uint32_t r = 0; r < job->rows; r += LANES) {
            uint32_t n = job->rows - r < LANES ? job->rows - r : LANES;
            lanes acc[DENSE_TOKENS];
            float out[LANES];
            for (uint32_t i = 0; i < tokens; i++)
                acc[i] = lanes_zero();
            for (uint32_t k = 0; k < m->columns; k++) {
                lanes w = stored_values(m, k, job->first + r, n);
                for (uint32_t i = 0; i < tokens; i++)
                    acc[i] = lanes_fma(w, lanes_all(job->x[t + i][k]), acc[i]);
            }
            for (uint32_t i = 0; i < tokens; i++) {
                lanes_store(out, acc[i]);
                memcpy(job->y + (size_t)(t + i) * job->y_stride + r, out, n * sizeof(*out));
            }
        }
    }
}

/* ---- which source ---- */

/* The source of codes that lie along the rows, in runs that lanes fit into. */
static enum source source_of(const struct native_packed *p)
{
    bool moved = p->zero_order != NATIVE_NO_CODES || p->shifts != NULL;
    bool whole = p->columns_each % LANES == 0 || p->columns_each >= p->columns;

    if (p->order != NATIVE_ALONG_ROWS || p->groups != NULL || !whole || p->columns_each == 0)
        return SOURCE_OTHER;
    if (p->bits == 4 && p->code != NATIVE_CODE_SIGNED && p->code != NATIVE_CODE_E4M3)
        return SOURCE_NIBBLES;
    if (p->bits != 8)
        return SOURCE_OTHER;
    if (p->code == NATIVE_CODE_INT)
        return SOURCE_BYTES;
    if (p->code == NATIVE_CODE_SIGNED && !moved && p->zero == 0)
        return SOURCE_SIGNED;
    return p->code == NATIVE_CODE_E4M3 && !p->large_scales ? SOURCE_E4M3 : SOURCE_OTHER;
}

static lanes table_of(const struct native_packed *p, bool moved)
{
    float values[LANES];

    for (int i = 0; i < LANES; i++)
        values[i] = p->code == NATIVE_CODE_E2M1    ? unpack_e2m1[i]
                    : p->code == NATIVE_CODE_TABLE ? p->table[i]
                                                   : (float)(moved ? i : i - p->zero);
    return lanes_load(values);
}

static struct dense_rows rows_of_codes(const struct native_packed *p, uint32_t first)
{
    struct dense_rows w = {.source = source_of(p), .packed = p, .first = first};

    w.stride = (size_t)p->code_stride;
    w.data = p->codes + first * w.stride;
    w.each =
        p->columns_each > p->columns || w.source == SOURCE_OTHER ? p->columns : p->columns_each;
    w.moved = p->zero_order != NATIVE_NO_CODES || p->shifts != NULL;
    w.table = table_of(p, w.moved);
    w.how = lanes_prepare();
    return w;
}

static struct dense_rows rows_of_numbers(const struct native_matrix *m, enum source source)
{
    return (struct dense_rows){.source = source,
                               .data = m->data,
                               .stride = m->row_stride * (source == SOURCE_F32 ? 4 : 2),
                               .each = m->columns,
                               .table = lanes_zero(),
                               .how = lanes_prepare()};
}

/* The experts of gpt-oss: 32 columns share a power of two. */
static struct native_packed packed_mxfp4(const struct native_matrix *m)
{
    enum { GROUP = 32 };

    return (struct native_packed){.codes = m->data,
                                  .code_stride = m->columns / 2,
                                  .rows = m->rows,
                                  .columns = m->columns,
                                  .code = NATIVE_CODE_E2M1,
                                  .bits = 4,
                                  .order = NATIVE_ALONG_ROWS,
                                  .scale = NATIVE_SCALE_E8M0,
                                  .scales = m->scales,
                                  .rows_each = 1,
                                  .columns_each = GROUP,
                                  .row_step = m->columns / GROUP,
                                  .column_step = 1,
                                  .zero_order = NATIVE_NO_CODES};
}

static void dense_codes(const struct native_dense *job, const struct native_packed *p,
                        uint32_t first)
{
    const struct dense_rows w = rows_of_codes(p, first);

    switch (w.source) {
    case SOURCE_NIBBLES:
        sum_all(SOURCE_NIBBLES, &w, job);
        break;
    case SOURCE_E4M3:
        sum_all(SOURCE_E4M3, &w, job);
        break;
    case SOURCE_SIGNED:
        sum_all(SOURCE_SIGNED, &w, job);
        break;
    case SOURCE_BYTES:
        sum_all(SOURCE_BYTES, &w, job);
        break;
    default:
        sum_all(SOURCE_OTHER, &w, job);
        break;
    }
}

static void dense(const struct native_dense *job)
{
    const struct native_matrix *m = job->matrix;
    struct native_packed mxfp4;
    struct dense_rows w;

    if (m->transposed) {
        dense_transposed(job);
        return;
    }
    switch (m->type) {
    case NATIVE_BF16:
        w = rows_of_numbers(m, SOURCE_BF16);
        sum_all(SOURCE_BF16, &w, job);
        break;
    case NATIVE_F16:
        w = rows_of_numbers(m, SOURCE_F16);
        sum_all(SOURCE_F16, &w, job);
        break;
    case NATIVE_F32:
        w = rows_of_numbers(m, SOURCE_F32);
        sum_all(SOURCE_F32, &w, job);
        break;
    case NATIVE_MXFP4:
        mxfp4 = packed_mxfp4(m);
        dense_codes(job, &mxfp4, 0);
        break;
    case NATIVE_PACKED:
        dense_codes(job, m->packed, m->packed_first);
        break;
    }
}

#endif
