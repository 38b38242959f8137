/* native/gpu/weights.c - how matrices lie on a device: every weight format in one order.
 *
 * Codes go along rows, four or eight bits each, the lowest first; a row fills pieces of 16
 * bytes.  Scales keep their type and go by row and group.  A stored zero point z becomes the
 * shift -z * scale.  What the kernels have no code for (a quantized matrix that is stored by
 * columns, groups over the ends of rows) becomes float32.
 */
#include <stdlib.h>
#include <string.h>

#include "engines/native/formats/unpack.h"
#include "engines/native/gpu/gpu.h"

enum { UNIT_BYTES = 16, PLACE = 256, GRID_MOST = 65535 };

struct native_matrix native_gpu_matrix(const struct native_spec *spec,
                                       const struct native_gpu_weight *w, uint32_t matrix)
{
    struct native_matrix m = spec->matrices[w->first + (w->heads == NULL ? matrix : 0)];
    const struct native_heads *how;

    if (w->heads == NULL)
        return m;
    how = &w->heads->heads;
    uint32_t row = matrix * how->head_rows + how->first_row;
    m.transposed = how->transposed;
    m.rows = how->rows;
    m.columns = how->columns;
    if (m.type == NATIVE_PACKED)
        m.packed_first += row;
    else
        m.data = (const char *)m.data +
                 (uint64_t)row * m.row_stride * (m.type == NATIVE_F32 ? 4u : 2u);
    return m;
}

/* ---- how a matrix is kept ---- */

static uint32_t stored_bits(uint32_t mode)
{
    uint32_t code = mode & NATIVE_MODE_CODE;

    if (code <= NATIVE_CODED_F32)
        return code == NATIVE_CODED_F32 ? 32 : 16;
    return (mode & NATIVE_MODE_FOUR) != 0 ? 4 : 8;
}

static void describe_packed(const struct native_matrix *m, struct native_gpu_weight *w)
{
    static const uint8_t codes[] = {
        [NATIVE_CODE_INT] = NATIVE_CODED_INT,     [NATIVE_CODE_SIGNED] = NATIVE_CODED_SIGNED,
        [NATIVE_CODE_E4M3] = NATIVE_CODED_E4M3,   [NATIVE_CODE_E2M1] = NATIVE_CODED_E2M1,
        [NATIVE_CODE_TABLE] = NATIVE_CODED_TABLE,
    };
    static const uint8_t scales[] = {
        [NATIVE_SCALE_BF16] = NATIVE_SCALED_BF16, [NATIVE_SCALE_F16] = NATIVE_SCALED_F16,
        [NATIVE_SCALE_F32] = NATIVE_SCALED_F32,   [NATIVE_SCALE_E4M3] = NATIVE_SCALED_E4M3,
        [NATIVE_SCALE_E8M0] = NATIVE_SCALED_E8M0, [NATIVE_SCALE_NESTED] = NATIVE_SCALED_F32,
    };
    const struct native_packed *p = m->packed;
    bool zeros = p->zero_order != NATIVE_NO_CODES;

    w->columns_each = p->columns_each;
    w->rows_each = p->order == NATIVE_FLAT ? 1 : p->rows_each;
    w->row_shift = m->packed_first % w->rows_each;
    w->groups = (m->columns + p->columns_each - 1) / p->columns_each;
    w->scale_rows = (w->row_shift + m->rows - 1) / w->rows_each + 1;
    w->mode = codes[p->code] | (uint32_t)scales[p->scale] << NATIVE_MODE_SCALE |
              (p->bits <= 4 ? NATIVE_MODE_FOUR : 0) |
              (zeros || p->shifts != NULL ? NATIVE_MODE_SHIFT : 0) |
              (p->groups != NULL || p->columns_each % 4 != 0 ? NATIVE_MODE_EACH : 0);
    w->zero = zeros || p->code > NATIVE_CODE_SIGNED ? 0 : (float)p->zero;
    w->expand = m->transposed || (zeros && w->rows_each != 1) ||
                (p->order == NATIVE_FLAT && m->columns % p->columns_each != 0);
}

/* Shape and mode of one matrix. */
static struct native_gpu_weight describe(const struct native_matrix *m)
{
    static const uint8_t codes[] = {[NATIVE_BF16] = NATIVE_CODED_BF16,
                                    [NATIVE_F16] = NATIVE_CODED_F16,
                                    [NATIVE_F32] = NATIVE_CODED_F32};
    struct native_gpu_weight w = {.rows = m->rows, .columns = m->columns, .rows_each = 1};

    if (m->type == NATIVE_PACKED) {
        describe_packed(m, &w);
    } else if (m->type == NATIVE_MXFP4) {
        w.columns_each = 32;
        w.groups = m->columns / 32;
        w.scale_rows = m->rows;
        w.mode = NATIVE_CODED_E2M1 | NATIVE_MODE_FOUR | NATIVE_SCALED_E8M0 << NATIVE_MODE_SCALE;
    } else {
        w.mode = codes[m->type];
    }
    return w;
}

static bool same_shape(const struct native_gpu_weight *a, const struct native_gpu_weight *b)
{
    return a->rows == b->rows && a->columns == b->columns && a->mode == b->mode &&
           a->expand == b->expand && a->columns_each == b->columns_each &&
           a->rows_each == b->rows_each && a->row_shift == b->row_shift && a->zero == b->zero;
}

static uint32_t add_words(uint64_t *bytes, uint64_t words)
{
    uint32_t at = (uint32_t)(*bytes / 4);

    *bytes += words * 4;
    return at;
}

static void lay_out_side(struct native_gpu_weight *w)
{
    static const uint8_t bytes[] = {[NATIVE_SCALED_BF16] = 2,
                                    [NATIVE_SCALED_F16] = 2,
                                    [NATIVE_SCALED_F32] = 4,
                                    [NATIVE_SCALED_E4M3] = 1,
                                    [NATIVE_SCALED_E8M0] = 1};
    uint64_t scales = (uint64_t)w->count * w->scale_rows * w->groups;
    uint32_t kind = w->mode >> NATIVE_MODE_SCALE & 7;

    w->shifts_at = w->groups_at = w->table_at = w->factors_at = NATIVE_GPU_ABSENT;
    if (kind == NATIVE_SCALED_NOT)
        return;
    w->scale_bytes = bytes[kind];
    w->side_bytes = (scales * w->scale_bytes + 3) / 4 * 4;
    if ((w->mode & NATIVE_MODE_SHIFT) != 0)
        w->shifts_at = add_words(&w->side_bytes, scales);
    if ((w->mode & NATIVE_MODE_CODE) == NATIVE_CODED_TABLE)
        w->table_at = add_words(&w->side_bytes, 1u << stored_bits(w->mode));
    if (kind == NATIVE_SCALED_E4M3)
        w->factors_at = add_words(&w->side_bytes, w->count);
}

/* Every matrix of the group; other shapes among them become float32. */
static void describe_all(const struct native_spec *spec, struct native_gpu_weight *w)
{
    const struct native_matrix first = native_gpu_matrix(spec, w, 0);
    struct native_gpu_weight all = describe(&first);
    bool listed = first.type == NATIVE_PACKED && first.packed->groups != NULL;

    for (uint32_t i = 1; i < w->count; i++) {
        const struct native_matrix m = native_gpu_matrix(spec, w, i);
        const struct native_gpu_weight one = describe(&m);
        all.expand = all.expand || !same_shape(&all, &one) ||
                     listed != (m.type == NATIVE_PACKED && m.packed->groups != NULL);
    }
    all.heads = w->heads;
    all.first = w->first;
    all.count = w->count;
    if (all.expand) {
        all.mode = NATIVE_CODED_F32;
        all.rows_each = 1;
        all.row_shift = 0;
        listed = false;
    }
    uint32_t unit = UNIT_BYTES * 8 / stored_bits(all.mode);
    all.units = (all.columns + unit - 1) / unit;
    lay_out_side(&all);
    if (listed)
        all.groups_at = add_words(&all.side_bytes, (uint64_t)all.count * all.columns);
    *w = all;
}

/* ---- places ---- */

uint64_t native_gpu_part_bytes(const struct gpu_limits *l)
{
    uint64_t most =
        l->binding_bytes < l->allocation_bytes ? l->binding_bytes : l->allocation_bytes;

    return most / PLACE * PLACE;
}

static struct gpu_span place(struct native_gpu_weights *w, const struct gpu_limits *limits,
                             uint64_t bytes)
{
    uint64_t padded = (bytes + PLACE - 1) / PLACE * PLACE;
    uint32_t last = w->allocation_count;

    if (padded > native_gpu_part_bytes(limits) || last == NATIVE_GPU_ALLOCATIONS) {
        w->too_large = bytes > w->too_large ? bytes : w->too_large;
        return (struct gpu_span){0};
    }
    if (last == 0 || w->allocation_bytes[last - 1] + padded > limits->allocation_bytes)
        w->allocation_bytes[w->allocation_count++] = 0;
    last = w->allocation_count - 1;
    struct gpu_span span = {w->allocations[last], w->allocation_bytes[last], bytes};
    w->allocation_bytes[last] += padded;
    w->total += padded;
    return span;
}

/* Parts of whole rows of one matrix, or of whole matrices. */
static void place_parts(struct native_gpu_weights *all, struct native_gpu_weight *w,
                        const struct gpu_limits *limits)
{
    uint64_t row = (uint64_t)w->units * UNIT_BYTES, each = w->count > 1 ? w->rows * row : row;
    uint32_t count = w->count > 1 ? w->count : w->rows;
    uint64_t unit = native_gpu_part_bytes(limits) / each;

    if (w->count == 1 && unit > GRID_MOST * NATIVE_GPU_ROWS)
        unit = GRID_MOST * NATIVE_GPU_ROWS;
    if (w->heads != NULL && unit < count)
        unit = 0; /* all heads are one launch */
    if (row > NATIVE_GPU_SLOT_BYTES)
        unit = 0;
    if (unit == 0) {
        all->too_large = each > all->too_large ? each : all->too_large;
        return;
    }
    w->part_unit = unit < count ? (uint32_t)unit : count;
    w->part_count = (count + w->part_unit - 1) / w->part_unit;
    w->parts = calloc(w->part_count, sizeof(*w->parts));
    for (uint32_t i = 0; w->parts != NULL && i < w->part_count; i++) {
        uint32_t first = i * w->part_unit;
        uint32_t n = count - first < w->part_unit ? count - first : w->part_unit;
        w->parts[i] = place(all, limits, n * each);
    }
    if (w->side_bytes > 0)
        w->side = place(all, limits, w->side_bytes);
}

static bool same_matrix(const struct native_matrix *a, const struct native_matrix *b)
{
    return a->data == b->data && a->packed == b->packed && a->type == b->type &&
           a->packed_first == b->packed_first && a->rows == b->rows &&
           a->columns == b->columns && a->row_stride == b->row_stride &&
           a->transposed == b->transposed;
}

/* Embedding and head may be one matrix. */
static uint32_t find_weight(const struct native_gpu_weights *all, const struct native_spec *s,
                            uint32_t matrix)
{
    for (uint32_t i = 0; i < all->count; i++)
        if (all->all[i].heads == NULL && all->all[i].count == 1 &&
            same_matrix(&s->matrices[all->all[i].first], &s->matrices[matrix]))
            return i;
    return NATIVE_NONE;
}

static uint32_t add_weight(struct native_gpu_weights *all, const struct native_spec *s,
                           const struct native_op *op, uint32_t role,
                           const struct gpu_limits *limits)
{
    uint32_t count = op->kind == NATIVE_OP_EXPERTS ? op->experts.experts
                     : op->kind == NATIVE_OP_HEADS ? op->heads.heads
                                                   : 1;
    uint32_t found = NATIVE_NONE;

    if (op->matrix[role] == NATIVE_NONE)
        return NATIVE_NONE;
    if (op->kind == NATIVE_OP_LINEAR || op->kind == NATIVE_OP_EMBED)
        found = find_weight(all, s, op->matrix[role]);
    if (found != NATIVE_NONE)
        return found;
    struct native_gpu_weight *w = &all->all[all->count];
    *w = (struct native_gpu_weight){.heads = op->kind == NATIVE_OP_HEADS ? op : NULL,
                                    .first = op->matrix[role],
                                    .count = count};
    describe_all(s, w);
    place_parts(all, w, limits);
    return all->count++;
}

void native_gpu_place_free(struct native_gpu_weights *w)
{
    for (uint32_t i = 0; i < w->count; i++)
        free(w->all[i].parts);
    free(w->all);
    free(w->of_op);
    free(w->vectors);
    w->all = NULL;
    w->of_op = NULL;
    w->vectors = NULL;
    w->count = w->allocation_count = 0;
    w->total = w->too_large = 0;
}

lr_code native_gpu_place(struct native_gpu_weights *w, const struct native_spec *s,
                         const struct gpu_limits *limits, struct lr_error *err)
{
    enum { ROLES = 3 };

    native_gpu_place_free(w);
    w->all = calloc((size_t)s->op_count * ROLES, sizeof(*w->all));
    w->of_op = calloc((size_t)s->op_count * ROLES, sizeof(*w->of_op));
    w->vectors = calloc(s->vector_count + 1, sizeof(*w->vectors));
    if (w->all == NULL || w->of_op == NULL || w->vectors == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a list of %u weights",
                       s->matrix_count);
    for (uint32_t i = 0; i < s->op_count; i++)
        for (uint32_t r = 0; r < ROLES; r++)
            w->of_op[i * ROLES + r] = add_weight(w, s, &s->ops[i], r, limits);
    for (uint32_t i = 0; i < s->vector_count; i++)
        w->vectors[i] = place(w, limits, (uint64_t)s->vectors[i].count * sizeof(float));
    for (uint32_t i = 0; i < w->count; i++)
        if (w->too_large == 0 && w->all[i].parts == NULL)
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for a list of parts");
    if (w->too_large > 0)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s binds at most %llu bytes at a time, and a tensor of this model has "
                       "%llu: choose another device, or --device cpu",
                       limits->name, (unsigned long long)native_gpu_part_bytes(limits),
                       (unsigned long long)w->too_large);
    return LR_OK;
}

/* ---- rows ---- */

/* An element of a dense matrix, or of a quantized one, as float32. */
static float value_at(const struct native_matrix *m, uint32_t row, uint32_t column)
{
    uint64_t at = m->transposed ? column * m->row_stride + row : row * m->row_stride + column;
    float v;

    if (m->type == NATIVE_PACKED) {
        native_packed_row(m->packed, m->packed_first + (m->transposed ? column : row),
                          m->transposed ? row : column, 1, &v);
        return v;
    }
    if (m->type == NATIVE_MXFP4) {
        uint8_t byte = ((const uint8_t *)m->data)[((uint64_t)row * m->columns + column) / 2];
        return unpack_e2m1[column % 2 == 0 ? byte & 15 : byte >> 4] *
               unpack_e8m0(m->scales[(uint64_t)row * (m->columns / 32) + column / 32]);
    }
    if (m->type == NATIVE_F32)
        return ((const float *)m->data)[at];
    uint16_t half = ((const uint16_t *)m->data)[at];
    return m->type == NATIVE_F16 ? unpack_half(half) : unpack_bits((uint32_t)half << 16);
}

static void expanded_row(const struct native_matrix *m, uint32_t row, float *out)
{
    if (m->type == NATIVE_PACKED && !m->transposed) {
        native_packed_row(m->packed, m->packed_first + row, 0, m->columns, out);
        return;
    }
    for (uint32_t c = 0; c < m->columns; c++)
        out[c] = value_at(m, row, c);
}

static void dense_row(const struct native_matrix *m, uint32_t row, char *out)
{
    size_t bytes = m->type == NATIVE_F32 ? 4 : 2;
    const char *from = m->data;

    if (!m->transposed) {
        memcpy(out, from + row * m->row_stride * bytes, m->columns * bytes);
        return;
    }
    for (uint64_t c = 0; c < m->columns; c++)
        memcpy(out + c * bytes, from + (c * m->row_stride + row) * bytes, bytes);
}

static void packed_row(const struct native_packed *p, uint32_t row, bool four, uint8_t *out)
{
    if (p->order == NATIVE_ALONG_ROWS && (p->bits == 8 || p->bits == 4)) {
        memcpy(out, p->codes + row * p->code_stride, ((size_t)p->columns * p->bits + 7) / 8);
        return;
    }
    for (uint32_t c = 0; c < p->columns; c++) {
        uint32_t code = unpack_code(p, row, c);
        if (four)
            out[c / 2] |= (uint8_t)(code << 4 * (c % 2));
        else
            out[c] = (uint8_t)code;
    }
}

void native_gpu_row(const struct native_spec *spec, const struct native_gpu_weight *w,
                    uint32_t matrix, uint32_t row, void *out)
{
    const struct native_matrix m = native_gpu_matrix(spec, w, matrix);

    memset(out, 0, (size_t)w->units * UNIT_BYTES);
    if (w->expand)
        expanded_row(&m, row, out);
    else if (m.type == NATIVE_PACKED)
        packed_row(m.packed, m.packed_first + row, (w->mode & NATIVE_MODE_FOUR) != 0, out);
    else if (m.type == NATIVE_MXFP4)
        memcpy(out, (const char *)m.data + (uint64_t)row * (m.columns / 2), m.columns / 2);
    else
        dense_row(&m, row, out);
}

/* ---- scales ---- */

static void packed_side(const struct native_gpu_weight *w, const struct native_matrix *m,
                        uint32_t matrix, char *out)
{
    const struct native_packed *p = m->packed;
    uint64_t at = (uint64_t)matrix * w->scale_rows * w->groups;
    float *shifts = (float *)(void *)out + w->shifts_at,
          factor = p->divides ? 1.0f / p->global : p->global;

    for (uint64_t r = 0; r < w->scale_rows; r++)
        for (uint64_t g = 0; g < w->groups; g++, at++) {
            uint64_t row = m->packed_first / w->rows_each + r,
                     from = p->order == NATIVE_FLAT ? row * w->groups + g
                                                    : row * p->row_step + g * p->column_step;
            float scale = unpack_scale_at(p, p->scales, from);
            if (p->scale == NATIVE_SCALE_NESTED)
                memcpy(out + at * 4, &scale, sizeof(scale));
            else
                memcpy(out + at * w->scale_bytes, p->scales + from * w->scale_bytes,
                       w->scale_bytes);
            if ((w->mode & NATIVE_MODE_SHIFT) == 0)
                continue;
            float shift = p->shifts != NULL ? unpack_scale_at(p, p->shifts, from) : 0;
            if (p->code <= NATIVE_CODE_SIGNED)
                shift -= (float)unpack_zero(p, row, g) * scale;
            shifts[at] = shift;
        }
    if (w->factors_at != NATIVE_GPU_ABSENT)
        memcpy(out + (w->factors_at + (size_t)matrix) * 4, &factor, sizeof(factor));
    if (w->table_at != NATIVE_GPU_ABSENT)
        memcpy(out + w->table_at * 4ull, p->table, (1u << p->bits) * sizeof(float));
    if (w->groups_at != NATIVE_GPU_ABSENT)
        memcpy(out + (w->groups_at + (uint64_t)matrix * w->columns) * 4, p->groups,
               w->columns * 4ull);
}

void native_gpu_side(const struct native_spec *spec, const struct native_gpu_weight *w,
                     void *out)
{
    memset(out, 0, w->side_bytes);
    for (uint32_t i = 0; i < w->count; i++) {
        const struct native_matrix m = native_gpu_matrix(spec, w, i);
        uint64_t bytes = (uint64_t)w->scale_rows * w->groups;
        if (m.type == NATIVE_PACKED)
            packed_side(w, &m, i, out);
        else
            memcpy((char *)out + i * bytes, m.scales, bytes);
    }
}
