/* native/cpu/weights.c - the weights as this device computes from them.
 *
 * Most stay in their mapping.  AWQ and GPTQ store their codes by columns, so a row lies in
 * thousands of places: such matrices are copied once, with the codes, scales and zero points of
 * a row side by side, and the pages of the file are given back.  No copy is larger than what it
 * replaces but for a byte per zero point.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/os/memory.h"
#include "engines/native/cpu/cpu.h"
#include "engines/native/formats/unpack.h"
#include "engines/native/model.h"

struct native_weights {
    struct native_matrix *matrices;
    struct native_packed *packed; /* by matrix */
    void **copies;                /* by matrix; NULL: in the mapping */
    uint32_t count;
};

void native_weights_close(struct native_weights *w)
{
    if (w == NULL)
        return;
    for (uint32_t i = 0; w->copies != NULL && i < w->count; i++)
        lr_aligned_free(w->copies[i]);
    free(w->copies);
    free(w->packed);
    free(w->matrices);
    free(w);
}

const struct native_matrix *native_weights_matrices(const struct native_weights *w)
{
    return w->matrices;
}

/* ---- copies with rows side by side ---- */

/* A matrix whose rows are put side by side. */
struct copy {
    const struct native_packed *from; /* rows `first`.. of it */
    uint32_t first, rows, groups, scale_bytes;
    uint64_t stride;
    uint8_t *codes, *scales, *zeros;
};

enum { COPY_ROWS = 64 };

static bool is_by_columns(const struct native_packed *p)
{
    return (p->order == NATIVE_AWQ_WORDS || p->order == NATIVE_ALONG_COLUMNS) &&
           p->groups == NULL && (p->bits == 4 || p->bits == 8) && p->columns % 32 == 0 &&
           p->columns_each % 16 == 0 && p->shifts == NULL && p->rows_each == 1;
}

/* A column of GPTQ's words is a row of the copy. */
static void copy_words(const struct copy *c, uint32_t from, uint32_t to)
{
    const struct native_packed *p = c->from;
    uint32_t words = (uint32_t)(c->stride / 4);

    for (uint32_t w = 0; w < words; w++) {
        const uint8_t *stored = p->codes + w * p->code_stride;
        for (uint32_t r = from; r < to; r++)
            memcpy(c->codes + r * c->stride + (size_t)w * 4,
                   stored + 4 * (size_t)(c->first + r), 4);
    }
}

/* Eight columns of AWQ: each word has eight rows of one column. */
static void copy_awq(const struct copy *c, uint32_t from, uint32_t to)
{
    for (uint32_t k = 0; k < c->from->columns; k += 8)
        for (uint32_t r = from; r < to; r++) {
            uint32_t word = 0;
            for (uint32_t i = 0; i < 8; i++)
                word |=
                    unpack_awq(c->from->codes + (k + i) * c->from->code_stride, c->first + r)
                    << (4 * i);
            memcpy(c->codes + r * c->stride + k / 2, &word, sizeof(word));
        }
}

static void copy_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct copy *c = ctx;
    const struct native_packed *p = c->from;
    uint32_t from = task * COPY_ROWS,
             to = c->rows - from < COPY_ROWS ? c->rows : from + COPY_ROWS;

    (void)worker;
    if (p->order == NATIVE_AWQ_WORDS)
        copy_awq(c, from, to);
    else
        copy_words(c, from, to);
    for (uint32_t r = from; r < to; r++)
        for (uint32_t g = 0; g < c->groups; g++) {
            size_t at = (size_t)r * c->groups + g, row = (size_t)c->first + r;
            memcpy(c->scales + at * c->scale_bytes,
                   p->scales + (row * p->row_step + g * p->column_step) * c->scale_bytes,
                   c->scale_bytes);
            c->zeros[at] = (uint8_t)(unpack_zero(p, row, g) - p->zero);
        }
}

/* Copies matrix i; the pages of its codes may go. */
static lr_code copy_matrix(struct native_weights *w, uint32_t i, struct engine_pool *pool,
                           struct lr_error *err)
{
    struct native_matrix *m = &w->matrices[i];
    const struct native_packed *p = m->packed;
    struct copy c = {.from = p,
                     .first = m->packed_first,
                     .rows = m->rows,
                     .groups = p->columns / p->columns_each,
                     .scale_bytes = p->scale == NATIVE_SCALE_F32 ? 4 : 2,
                     .stride = (uint64_t)p->columns * p->bits / 8};
    size_t codes = (size_t)(c.rows * c.stride), count = (size_t)c.rows * c.groups;

    c.codes = lr_aligned_alloc(NATIVE_CPU_ALIGN, codes + count * (c.scale_bytes + 1));
    if (c.codes == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the %zu bytes of \"%s\" by rows",
                       codes + count * (c.scale_bytes + 1), m->name);
    w->copies[i] = c.codes;
    c.scales = c.codes + codes;
    c.zeros = c.scales + count * c.scale_bytes;
    engine_pool_run(pool, copy_task, &c, (c.rows + COPY_ROWS - 1) / COPY_ROWS);
    model_advise(p->codes, p->code_bytes, MODEL_ADVICE_DONTNEED);
    w->packed[i] = *p;
    w->packed[i].codes = c.codes;
    w->packed[i].code_stride = c.stride;
    w->packed[i].code_bytes = codes;
    w->packed[i].bytes = codes + count * (c.scale_bytes + 1);
    w->packed[i].rows = c.rows;
    w->packed[i].order = NATIVE_ALONG_ROWS;
    w->packed[i].scales = c.scales;
    w->packed[i].row_step = c.groups;
    w->packed[i].column_step = 1;
    w->packed[i].zero_order = NATIVE_BYTES;
    w->packed[i].zeros = c.zeros;
    w->packed[i].zero_stride = c.groups;
    m->packed = &w->packed[i];
    m->packed_first = 0;
    m->data = c.codes;
    return LR_OK;
}

/* ---- reading ---- */

/* Bytes that lie together at m->data; scales lie elsewhere and were read on opening. */
static uint64_t bytes_of(const struct native_matrix *m)
{
    uint64_t bytes = native_matrix_bytes(m);

    if (m->type == NATIVE_MXFP4)
        return bytes / 17 * 16;
    return m->type == NATIVE_PACKED
               ? (uint64_t)((double)m->packed->code_bytes * m->rows / m->packed->rows)
               : bytes;
}

struct reading {
    const struct serving_host *host;
    uint64_t done, reported, total;
};

static lr_code report(struct reading *r, struct lr_error *err)
{
    r->reported = r->done;
    if (r->host->progress != NULL &&
        r->host->progress(r->host->ctx, "read", r->done, r->total) != 0)
        return lr_fail(err, LR_CANCELLED, "loading was cancelled");
    return LR_OK;
}

/* Reads a matrix in its mapping into memory, so that the first answer does not wait for the
 * disk.  *has_nan: among its bytes is a NaN of E4M3. */
static lr_code read_matrix(const struct native_matrix *m, struct reading *r, bool *has_nan,
                           struct lr_error *err)
{
    enum { PAGE_BYTES = 4096, REPORT = 64 << 20 };
    bool searched = m->type == NATIVE_PACKED && m->packed->code == NATIVE_CODE_E4M3 &&
                    m->packed_first == 0 && m->rows == m->packed->rows;
    const uint8_t *p = m->data;
    uint64_t bytes = bytes_of(m);
    volatile uint8_t sum = 0;
    lr_code code = LR_OK;

    *has_nan = !searched;
    for (uint64_t at = 0; at < bytes && code == LR_OK; at += PAGE_BYTES) {
        uint64_t n = bytes - at < PAGE_BYTES ? bytes - at : PAGE_BYTES;
        sum = (uint8_t)(sum + p[at]);
        *has_nan = *has_nan || unpack_has_nan(p + at, (uint32_t)n);
        r->done += n;
        if (r->done >= r->reported + REPORT)
            code = report(r, err);
    }
    return code;
}

static lr_code read_all(struct native_weights *w, struct reading *r, struct engine_pool *pool,
                        struct lr_error *err)
{
    lr_code code = LR_OK;

    for (uint32_t i = 0; i < w->count && code == LR_OK; i++) {
        struct native_matrix *m = &w->matrices[i];
        bool has_nan = true;
        if (m->type == NATIVE_PACKED && is_by_columns(m->packed)) {
            r->done += bytes_of(m);
            code = copy_matrix(w, i, pool, err);
            if (code == LR_OK)
                code = report(r, err);
            continue;
        }
        code = read_matrix(m, r, &has_nan, err);
        if (has_nan)
            continue;
        w->packed[i] = *m->packed;
        w->packed[i].no_nan = true;
        m->packed = &w->packed[i];
    }
    r->done = r->total;
    return code == LR_OK ? report(r, err) : code;
}

lr_code native_weights_open(const struct serving_host *host, const struct native_model *m,
                            struct engine_pool *pool, struct native_weights **out,
                            struct lr_error *err)
{
    struct native_weights *w = calloc(1, sizeof(*w));
    struct reading r = {.host = host, .total = m->spec.weight_bytes};
    size_t count = m->spec.matrix_count;

    *out = NULL;
    if (w != NULL) {
        w->count = m->spec.matrix_count;
        w->matrices = malloc((count + 1) * sizeof(*w->matrices));
        w->packed = malloc((count + 1) * sizeof(*w->packed));
        w->copies = calloc(count + 1, sizeof(*w->copies));
    }
    if (w == NULL || w->matrices == NULL || w->packed == NULL || w->copies == NULL) {
        native_weights_close(w);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the list of %zu matrices", count);
    }
    memcpy(w->matrices, m->spec.matrices, count * sizeof(*w->matrices));
    model_weights_advise(m->weights, MODEL_ADVICE_WILLNEED);
    lr_code code = read_all(w, &r, pool, err);
    if (code != LR_OK) {
        native_weights_close(w);
        return code;
    }
    *out = w;
    return LR_OK;
}
