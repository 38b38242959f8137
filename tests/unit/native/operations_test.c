/* Each kernel by itself: one operation with odd sizes and random numbers on Vulkan gives what
 * the processor computes, for prompts and for single tokens, in batches.  Runs on lavapipe.
 * LR_LONG=1: real widths and long contexts. */
#include "tests/unit/native/vulkan_support.h"

#include <stdio.h>
#include <string.h>

#include "engines/native/formats/packed.h"
#include "engines/native/model.h"
#include "engines/native/spec/build.h"

#ifdef NATIVE_VULKAN

#define SOME_MODEL                                                                             \
    LR_SOURCE_DIR "/tests/fixtures/families/qwen3" /* its weights are not used                 \
                                                    */
enum { IDS = 64, SEQUENCES = 2, PAGES = 256 };
static const double LIMIT = 2e-5;

/* ---- a model of one operation ---- */

struct maker {
    struct native_model model;
    struct native_builder b;
    struct lr_error err;
    reg result;
};

static uint32_t seed = 1;

static uint32_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

/* From -1 to 1. */
static float any(void)
{
    return (float)((double)next() / 2147483648.0 - 1);
}

static struct native_spec *spec_of(struct maker *m)
{
    return &m->model.spec;
}

static void *bytes(struct maker *m, size_t count)
{
    void *out = lr_arena_array(&spec_of(m)->arena, count, 1);

    assert_non_null(out);
    return out;
}

static uint32_t vector(struct maker *m, uint32_t count, float low, float high)
{
    struct native_spec *s = spec_of(m);
    float *values = bytes(m, count * sizeof(*values));

    for (uint32_t i = 0; i < count; i++)
        values[i] = low + (high - low) * (any() + 1) / 2;
    assert_true(native_build_room(&m->b, (void **)(void *)&s->vectors, s->vector_count,
                                  &m->b.vector_room, sizeof(*s->vectors)));
    s->vectors[s->vector_count] = (struct native_vector){"v", values, count};
    return s->vector_count++;
}

static uint32_t add_matrix(struct maker *m, struct native_matrix matrix)
{
    struct native_spec *s = spec_of(m);

    assert_true(native_build_room(&m->b, (void **)(void *)&s->matrices, s->matrix_count,
                                  &m->b.matrix_room, sizeof(*s->matrices)));
    s->matrices[s->matrix_count] = matrix;
    return s->matrix_count++;
}

static uint16_t brain(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

static uint32_t matrix(struct maker *m, enum native_type type, uint32_t rows, uint32_t columns,
                       bool transposed)
{
    size_t count = (size_t)rows * columns;
    char *data = bytes(m, count * 4), *scales = bytes(m, count / 32 + 1);

    for (size_t i = 0; i < count; i++) {
        float v = any() / 4;
        uint16_t half = type == NATIVE_F16 ? (uint16_t)(0x2800 + (next() & 0x83FF)) : brain(v);
        if (type == NATIVE_F32)
            memcpy(data + 4 * i, &v, 4);
        else if (type == NATIVE_MXFP4)
            data[i / 2] = (char)next();
        else
            memcpy(data + 2 * i, &half, 2);
    }
    for (size_t i = 0; i < count / 32; i++)
        scales[i] = (char)(120 + next() % 5);
    return add_matrix(m, (struct native_matrix){.name = "m",
                                                .type = type,
                                                .transposed = transposed,
                                                .rows = rows,
                                                .columns = columns,
                                                .row_stride = transposed ? rows : columns,
                                                .data = data,
                                                .scales = (const uint8_t *)scales});
}

/* A register with a row of random numbers for each id. */
static reg input(struct maker *m, uint32_t width)
{
    reg x = native_register(&m->b, width);
    struct native_op *op = native_build_op(&m->b, NATIVE_OP_EMBED, x, NATIVE_NO_REG);

    op->embed = (struct native_embed){.row = NATIVE_BY_ID, .scale = 1};
    op->matrix[0] = matrix(m, NATIVE_F32, IDS, width, false);
    for (unsigned row = NATIVE_BY_POSITION; row <= NATIVE_BY_PART; row++) {
        op = native_build_op(&m->b, NATIVE_OP_EMBED, x, NATIVE_NO_REG);
        op->embed =
            (struct native_embed){.row = (uint8_t)row, .add = true, .first = 3, .scale = 0.1f};
        op->matrix[0] = matrix(m, NATIVE_BF16, IDS, width, false);
    }
    return x;
}

static struct native_op *operation(struct maker *m, enum native_op_kind kind, reg in,
                                   uint32_t width)
{
    m->result = native_register(&m->b, width);
    return native_build_op(&m->b, kind, m->result, in);
}

/* In place. */
static struct native_op *change(struct maker *m, enum native_op_kind kind, reg x)
{
    m->result = x;
    return native_build_op(&m->b, kind, x, x);
}

/* ---- running it ---- */

struct shape {
    uint32_t prompt, then; /* tokens of the two steps of each sequence */
};

static float *run_on(struct maker *m, const struct serving_backend_api *api, const char *device,
                     const struct shape *shape, size_t *count)
{
    const struct serving_host host = {0};
    struct serving_options options = {.device = device,
                                      .max_sequences = SEQUENCES,
                                      .kv_tokens = SEQUENCES * PAGES * 32,
                                      .max_context = PAGES * 32,
                                      .prefill_chunk = SEQUENCES * shape->prompt,
                                      .threads = 2,
                                      .extra_json = "{\"kv\": \"f32\"}"};
    uint32_t usable[IDS] = {0}, width = spec_of(m)->registers[m->result].width, done = 0;
    size_t rows = (size_t)SEQUENCES * (shape->prompt + shape->then);
    static uint32_t pages[SEQUENCES][PAGES], ids[2][PAGES * 32];
    struct serving_backend *backend;
    struct serving_plan plan;
    float *out = calloc(rows * width, sizeof(*out));

    *count = rows * width;
    if (api->plan(&m->model, &options, &plan, &m->err) != LR_OK ||
        api->open(&host, &m->model, usable, &options, &plan, &backend, &m->err) != LR_OK)
        fail_msg("%s", m->err.text);
    for (uint32_t i = 0; i < SEQUENCES * PAGES; i++)
        pages[i / PAGES][i % PAGES] = i * 7 % (SEQUENCES * PAGES);
    for (uint32_t i = 0; i < SEQUENCES * PAGES * 32; i++)
        ids[i / (PAGES * 32)][i % (PAGES * 32)] = (i * 37 + i / 9) % IDS;
    for (uint32_t round = 0; round < 2; round++) {
        struct serving_step steps[SEQUENCES];
        uint32_t at = round == 0 ? 0 : shape->prompt,
                 n = round == 0 ? shape->prompt : shape->then;
        for (uint32_t i = 0; i < SEQUENCES; i++, done += n) {
            steps[i] = (struct serving_step){.slot = i,
                                             .position = at,
                                             .count = n,
                                             .page_count = (at + n + 31) / 32,
                                             .prompt = shape->prompt,
                                             .second = shape->prompt / 2,
                                             .tokens = ids[i] + at,
                                             .snapshot_load = SERVING_NONE,
                                             .snapshot_save = SERVING_NONE,
                                             .logits = out + (size_t)done * width};
            for (uint32_t k = 0; k < SERVING_KINDS_MAX; k++)
                steps[i].pages[k] = pages[i];
        }
        const struct serving_batch batch = {
            .steps = steps, .count = SEQUENCES, .tokens = SEQUENCES * n};
        if (n > 0 && api->forward(backend, &batch, &m->err) != LR_OK)
            fail_msg("%s", m->err.text);
    }
    api->close(backend);
    return out;
}

typedef void make_fn(struct maker *m, const void *how);

static void compare(const char *what, make_fn *make, const void *how, const struct shape *shape)
{
    struct maker m = {.b = {.layer = NATIVE_NO_LAYER, .code = LR_OK}};
    struct native_spec *s = spec_of(&m);
    size_t count;

    m.b.spec = s;
    m.b.err = &m.err;
    lr_arena_init(&s->arena, 1u << 30);
    s->family = "test";
    s->vocab = IDS;
    s->context = PAGES * 32;
    assert_int_equal(model_weights_open(SOME_MODEL, &m.model.weights, &m.err), LR_OK);
    (void)native_register(&m.b, 4); /* X */
    make(&m, how);
    s->result = m.result;
    s->head_ops = s->op_count;
    native_build_finish(&m.b);
    assert_int_equal(m.b.code, LR_OK);
    float *wanted = run_on(&m, native_backend_cpu(), "cpu", shape, &count),
          *got = run_on(&m, native_backend_vulkan(), "vulkan:0", shape, &count);
    double error = error_of(got, wanted, count);
    if (!(error <= LIMIT))
        fail_msg("%s: relative error %g", what, error);
    free(wanted);
    free(got);
    native_spec_free(s);
    model_weights_close(m.model.weights);
}

static const struct shape usual = {37, 1}, few = {2, 1};

/* ---- matrices ---- */

struct dense {
    enum native_type type;
    uint32_t rows, columns;
    bool transposed, bias;
};

static void make_dense(struct maker *m, const void *how)
{
    const struct dense *d = how;
    reg x = input(m, d->columns);
    struct native_op *op = operation(m, NATIVE_OP_LINEAR, x, d->rows);

    op->matrix[0] = matrix(m, d->type, d->rows, d->columns, d->transposed);
    if (d->bias)
        op->vector[0] = vector(m, d->rows, -1, 1);
}

static void dense_matrices_of_odd_sizes(void **state)
{
    static const struct dense cases[] = {
        {NATIVE_BF16, 48, 80, false, true},  {NATIVE_BF16, 131, 7, false, false},
        {NATIVE_F16, 33, 48, false, false},  {NATIVE_F32, 65, 81, false, true},
        {NATIVE_MXFP4, 50, 96, false, true}, {NATIVE_BF16, 72, 40, true, true},
        {NATIVE_F32, 9, 34, true, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        compare("linear", make_dense, &cases[i], &usual);
        compare("linear, few rows", make_dense, &cases[i], &few);
    }
}

/* Codes of every width that no golden model has, with groups and zero points. */
struct coded {
    uint8_t bits, code, scale, zero_order;
    uint32_t columns_each;
    bool listed; /* a group for each column */
};

static void make_coded(struct maker *m, const void *how)
{
    enum { ROWS = 40, COLUMNS = 96 };
    const struct coded *c = how;
    uint32_t groups = COLUMNS / c->columns_each;
    struct native_packed *p = bytes(m, sizeof(*p));
    uint8_t *codes = bytes(m, ROWS * COLUMNS + 8), *scales = bytes(m, 4 * ROWS * COLUMNS),
            *zeros = bytes(m, ROWS * COLUMNS);
    int32_t *listed = bytes(m, COLUMNS * sizeof(*listed));

    for (uint32_t i = 0; i < ROWS * COLUMNS; i++) {
        codes[i] = (uint8_t)next();
        zeros[i] = (uint8_t)next();
    }
    for (uint32_t i = 0; i < ROWS * groups; i++) {
        uint16_t half = brain(any() / 8);
        memcpy(scales + 2 * i, &half, 2);
        if (c->scale == NATIVE_SCALE_E4M3)
            scales[i] = (uint8_t)(next() & 0x77);
    }
    for (uint32_t i = 0; i < COLUMNS; i++)
        listed[i] = (int32_t)(i * 5 % groups);
    *p = (struct native_packed){
        .format = "test",
        .codes = codes,
        .code_stride = COLUMNS * c->bits / 8,
        .code_bytes = ROWS * COLUMNS * c->bits / 8,
        .bytes = ROWS * COLUMNS,
        .rows = ROWS,
        .columns = COLUMNS,
        .code = c->code,
        .bits = c->bits,
        .order = NATIVE_ALONG_ROWS,
        .scale = c->scale,
        .scales = scales,
        .rows_each = 1,
        .columns_each = c->columns_each,
        .row_step = groups,
        .column_step = 1,
        .scale_count = ROWS * groups,
        .global = 3,
        .divides = true,
        .zero_order = c->zero_order,
        .zeros = zeros,
        .zero_stride = ROWS,
        .zero = 3,
        .groups = c->listed ? (const uint8_t *)listed : NULL,
    };
    reg x = input(m, COLUMNS);
    struct native_op *op = operation(m, NATIVE_OP_LINEAR, x, ROWS - 7);
    op->matrix[0] = add_matrix(m, (struct native_matrix){.name = "m",
                                                         .type = NATIVE_PACKED,
                                                         .rows = ROWS - 7,
                                                         .columns = COLUMNS,
                                                         .data = codes,
                                                         .packed = p,
                                                         .packed_first = 7});
}

static void codes_of_every_width_with_groups_and_zero_points(void **state)
{
    static const struct coded cases[] = {
        {2, NATIVE_CODE_INT, NATIVE_SCALE_BF16, NATIVE_NO_CODES, 32, false},
        {3, NATIVE_CODE_INT, NATIVE_SCALE_BF16, NATIVE_NO_CODES, 16, true},
        {4, NATIVE_CODE_INT, NATIVE_SCALE_BF16, NATIVE_ALONG_ROWS, 32, false},
        {4, NATIVE_CODE_INT, NATIVE_SCALE_BF16, NATIVE_ALONG_ROWS, 6, false},
        {5, NATIVE_CODE_INT, NATIVE_SCALE_BF16, NATIVE_NO_CODES, 48, false},
        {6, NATIVE_CODE_INT, NATIVE_SCALE_BF16, NATIVE_NO_CODES, 96, false},
        {8, NATIVE_CODE_INT, NATIVE_SCALE_BF16, NATIVE_ALONG_ROWS, 32, true},
        {8, NATIVE_CODE_SIGNED, NATIVE_SCALE_BF16, NATIVE_NO_CODES, 96, false},
        {4, NATIVE_CODE_E2M1, NATIVE_SCALE_E4M3, NATIVE_NO_CODES, 16, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char what[64];
        (void)snprintf(what, sizeof(what), "codes, case %zu", i);
        compare(what, make_coded, &cases[i], &usual);
        compare(what, make_coded, &cases[i], &few);
    }
}

static void make_heads(struct maker *m, const void *how)
{
    const bool *transposed = how;
    enum { HEADS = 3, ROWS = 40, COLUMNS = 24, HEAD_ROWS = 70 };
    reg x = input(m, HEADS * (COLUMNS + 4));
    struct native_op *op = operation(m, NATIVE_OP_HEADS, x, HEADS * ROWS);

    op->heads = (struct native_heads){.heads = HEADS,
                                      .rows = ROWS,
                                      .columns = COLUMNS,
                                      .head_rows = HEAD_ROWS,
                                      .first_row = 5,
                                      .in_stride = COLUMNS + 4,
                                      .out_stride = ROWS,
                                      .transposed = *transposed};
    op->matrix[0] =
        matrix(m, NATIVE_BF16, HEADS * HEAD_ROWS, *transposed ? ROWS : COLUMNS, false);
}

static void a_matrix_for_each_head(void **state)
{
    static const bool both[] = {false, true};

    (void)state;
    for (int i = 0; i < 2; i++) {
        compare("heads", make_heads, &both[i], &usual);
        compare("heads, few rows", make_heads, &both[i], &few);
    }
}

/* ---- rows ---- */

static void make_norm(struct maker *m, const void *how)
{
    const struct native_norm *n = how;
    uint32_t width = 3 * n->group;
    reg x = input(m, width), gate = input(m, width);
    struct native_op *op = operation(m, NATIVE_OP_NORM, x, width);

    op->norm = *n;
    op->in[1] = n->gate_first ? gate : NATIVE_NO_REG;
    op->vector[0] = vector(m, n->wide ? width : n->group, 0, 2);
    if (n->layer)
        op->vector[1] = vector(m, n->wide ? width : n->group, -1, 1);
}

static void norms_of_odd_groups(void **state)
{
    static const struct native_norm cases[] = {
        {.group = 80, .eps = 1e-6f},
        {.group = 48, .eps = 1e-5f, .layer = true, .wide = true},
        {.group = 7, .eps = 1e-6f, .plus_one = true},
        {.group = 130, .eps = 1e-6f, .gate_first = true, .wide = true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        compare("norm", make_norm, &cases[i], &usual);
}

static void make_rows(struct maker *m, const void *how)
{
    const enum native_op_kind *kind = how;
    reg x = input(m, 90), gate = input(m, 18);
    struct native_op *op;

    switch (*kind) {
    case NATIVE_OP_GATE:
        op = operation(m, *kind, x, 90);
        op->in[1] = gate;
        op->gate = (struct native_gate){.act = NATIVE_GELU, .group = 5};
        break;
    case NATIVE_OP_ACT:
        op = operation(m, *kind, x, 90);
        op->gate = (struct native_gate){.act = NATIVE_GELU_TANH};
        op = change(m, *kind, m->result);
        op->gate = (struct native_gate){.act = NATIVE_TANH};
        break;
    case NATIVE_OP_SLICE:
        op = operation(m, *kind, x, 3 * 20);
        op->slice = (struct native_slice){
            .groups = 3, .group_in = 30, .offset = 7, .length = 11, .out_stride = 20};
        op = native_build_op(&m->b, *kind, m->result, x);
        op->slice = (struct native_slice){
            .groups = 3, .group_in = 30, .length = 9, .out_stride = 20, .out_offset = 11};
        break;
    case NATIVE_OP_ADD:
        op = change(m, *kind, x);
        op->in[1] = input(m, 90);
        op->scale = 0.3f;
        break;
    default:
        op = change(m, *kind, x);
        op->scale = 0.7f;
        if (*kind == NATIVE_OP_SCALE)
            op->vector[0] = vector(m, 90, -2, 2);
        break;
    }
}

static void operations_on_each_value_of_a_row(void **state)
{
    static const enum native_op_kind kinds[] = {NATIVE_OP_GATE,  NATIVE_OP_ACT,
                                                NATIVE_OP_SLICE, NATIVE_OP_ADD,
                                                NATIVE_OP_SCALE, NATIVE_OP_SOFTCAP};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        compare(native_op_name(kinds[i]), make_rows, &kinds[i], &usual);
}

static void make_rope(struct maker *m, const void *how)
{
    const struct native_rotate *r = how;
    struct native_spec *s = spec_of(m);
    double *inverse = bytes(m, 20 * sizeof(*inverse));
    struct native_op *op = change(m, NATIVE_OP_ROPE, input(m, r->heads * r->head_size));

    native_rope_plain(10000, 40, inverse);
    s->ropes[s->rope_count++] = (struct native_rope_table){
        .dims = 40, .inverse = inverse, .attention = 1.25, .theta = 10000};
    op->rope = *r;
}

static void rotations_in_halves_and_in_pairs(void **state)
{
    static const struct native_rotate cases[] = {
        {.heads = 3, .head_size = 80, .offset = 8},
        {.heads = 5, .head_size = 48, .interleaved = true},
    };

    (void)state;
    for (size_t i = 0; i < 2; i++)
        compare("rope", make_rope, &cases[i], &usual);
}

/* ---- attention ---- */

static void make_attend(struct maker *m, const void *how)
{
    const struct native_attention *a = how;
    struct native_spec *s = spec_of(m);
    uint32_t values = a->values_are_keys ? 0 : a->value_size;
    reg q = input(m, a->heads * a->head_size), k = input(m, a->kv_heads * a->head_size),
        v = values > 0 ? input(m, a->kv_heads * values) : NATIVE_NO_REG;
    struct native_op *op = operation(m, NATIVE_OP_ATTEND, q, a->heads * a->value_size);

    op->in[1] = k;
    op->in[2] = v;
    op->attend = *a;
    op->writes = true;
    op->cache = s->cache_count;
    if (a->sinks != NULL)
        op->vector[0] = vector(m, a->heads, -1, 3);
    s->kinds[s->kind_count++] = (struct native_kind){0, a->kv_heads * (a->head_size + values)};
    assert_true(native_build_room(&m->b, (void **)(void *)&s->caches, s->cache_count,
                                  &m->b.cache_room, sizeof(*s->caches)));
    s->caches[s->cache_count++] = (struct native_cache){
        .heads = a->kv_heads, .key_size = a->head_size, .value_size = values};
}

static void attention_of_every_shape(void **state)
{
    static const struct native_attention cases[] = {
        {.heads = 6, .kv_heads = 2, .head_size = 80, .value_size = 80, .scale = 0.4},
        {.heads = 3, .kv_heads = 3, .head_size = 48, .value_size = 24, .scale = 1, .window = 9},
        {.heads = 4,
         .kv_heads = 1,
         .head_size = 16,
         .value_size = 16,
         .scale = 2,
         .sinks = "s",
         .softcap = 3},
        {.heads = 2, .kv_heads = 1, .head_size = 512, .value_size = 512, .scale = 0.1},
        {.heads = 5,
         .kv_heads = 1,
         .head_size = 72,
         .value_size = 64,
         .scale = 0.5,
         .values_are_keys = true},
        {.heads = 2,
         .kv_heads = 2,
         .head_size = 24,
         .value_size = 24,
         .scale = 1,
         .query_beta = 0.5,
         .query_floor = 8},
        {.heads = 2,
         .kv_heads = 2,
         .head_size = 24,
         .value_size = 24,
         .scale = 1,
         .window = 12,
         .both_ways = true},
    };
    static const struct shape longer = {101, 1};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char what[64];
        (void)snprintf(what, sizeof(what), "attention, case %zu", i);
        compare(what, make_attend, &cases[i], &longer);
    }
}

/* ---- experts ---- */

struct mixture {
    struct native_route route;
    struct native_experts experts;
    bool fused, bias;
    enum native_type type;
};

static void make_experts(struct maker *m, const void *how)
{
    const struct mixture *x = how;
    uint32_t n = x->experts.experts, inner = x->experts.inner;
    reg in = input(m, 96), scores = input(m, n),
        choice = native_register(&m->b, 2 * x->route.chosen);
    struct native_op *route = native_build_op(&m->b, NATIVE_OP_ROUTE, choice, scores);

    route->route = x->route;
    if (x->bias)
        route->vector[0] = vector(m, n, -0.2f, 0.2f);
    struct native_op *op = operation(m, NATIVE_OP_EXPERTS, in, 56);
    op->in[1] = choice;
    op->experts = x->experts;
    for (uint32_t e = 0; e < n && (x->fused || x->experts.gated); e++) {
        uint32_t at = matrix(m, x->type, x->fused ? 2 * inner : inner, 96, false);
        op->matrix[0] = e == 0 ? at : op->matrix[0];
    }
    for (uint32_t e = 0; e < n && !x->fused; e++) {
        uint32_t at = matrix(m, x->type, inner, 96, false);
        op->matrix[1] = e == 0 ? at : op->matrix[1];
    }
    for (uint32_t e = 0; e < n; e++) {
        uint32_t at = matrix(m, x->type, 56, inner, false);
        op->matrix[2] = e == 0 ? at : op->matrix[2];
    }
    if (x->bias) {
        op->vector[0] = vector(m, n * 2 * inner, -1, 1);
        op->vector[1] = vector(m, n * 56, -1, 1);
    }
}

static void routing_and_experts_of_every_kind(void **state)
{
    static const struct mixture cases[] = {
        {{.experts = 9, .chosen = 3, .normalize = true, .scale = 2},
         {.experts = 9, .chosen = 3, .inner = 40, .act = NATIVE_SILU, .gated = true},
         false,
         false,
         NATIVE_BF16},
        {{.experts = 12,
          .chosen = 4,
          .score = NATIVE_SIGMOID_SCORE,
          .groups = 4,
          .group_count = 2,
          .epsilon = 1e-20f,
          .normalize = true,
          .scale = 1.5f},
         {.experts = 12,
          .chosen = 4,
          .inner = 64,
          .act = NATIVE_CLIPPED,
          .gated = true,
          .interleaved = true,
          .limit = 0.5f},
         true,
         true,
         NATIVE_MXFP4},
        {{.experts = 6, .chosen = 2, .score = NATIVE_SPARSEMIXER, .jitter = 0.01f, .scale = 1},
         {.experts = 6, .chosen = 2, .inner = 33, .act = NATIVE_RELU2},
         false,
         false,
         NATIVE_F32},
        {{.experts = 8,
          .chosen = 2,
          .groups = 4,
          .group_count = 2,
          .by_best = true,
          .scale = 1},
         {.experts = 8, .chosen = 2, .inner = 24, .act = NATIVE_GELU_TANH, .gated = true},
         true,
         false,
         NATIVE_F16},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char what[64];
        (void)snprintf(what, sizeof(what), "experts, case %zu", i);
        compare(what, make_experts, &cases[i], &usual);
        compare(what, make_experts, &cases[i], &few);
    }
}

/* ---- state ---- */

static void make_state(struct maker *m, const void *how)
{
    const enum native_op_kind *kind = how;
    struct native_spec *s = spec_of(m);
    struct native_op *op;

    if (*kind == NATIVE_OP_CONV) {
        op = operation(m, *kind, input(m, 70), 70);
        op->conv = (struct native_conv){.channels = 70, .kernel = 4, .act = NATIVE_SILU};
        op->vector[0] = vector(m, 70 * 4, -1, 1);
        op->vector[1] = vector(m, 70, -1, 1);
        s->state_floats = 3 * 70;
    } else if (*kind == NATIVE_OP_DELTA) {
        reg in = input(m, 2 * 2 * 24 + 4 * 40), beta = input(m, 4), a = input(m, 4);
        op = operation(m, *kind, in, 4 * 40);
        op->in[1] = beta;
        op->in[2] = a;
        op->delta = (struct native_delta){
            .key_heads = 2, .value_heads = 4, .key_size = 24, .value_size = 40};
        op->vector[0] = vector(m, 4, -1, 1);
        op->vector[1] = vector(m, 4, -1, 1);
        s->state_floats = 4 * 24 * 40;
    } else {
        reg in = input(m, 4 * 18 + 2 * 2 * 20), dt = input(m, 4);
        op = operation(m, *kind, in, 4 * 18);
        op->in[1] = dt;
        op->ssm = (struct native_ssm){.heads = 4,
                                      .head_size = 18,
                                      .groups = 2,
                                      .state_size = 20,
                                      .dt_min = 0.01f,
                                      .dt_max = 1};
        op->vector[0] = vector(m, 4, -1, 1);
        op->vector[1] = vector(m, 4, -1, 1);
        op->vector[2] = vector(m, 4, -1, 1);
        s->state_floats = 4 * 18 * 20;
    }
}

static void operations_with_state_over_two_steps(void **state)
{
    static const enum native_op_kind kinds[] = {NATIVE_OP_CONV, NATIVE_OP_DELTA, NATIVE_OP_SSM};
    static const struct shape steps = {37, 3};

    (void)state;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        compare(native_op_name(kinds[i]), make_state, &kinds[i], &steps);
}

/* ---- real widths ---- */

static void real_widths_and_long_contexts(void **state)
{
    static const struct dense wide[] = {{NATIVE_BF16, 12288, 4096, false, false},
                                        {NATIVE_BF16, 151936, 1024, false, false},
                                        {NATIVE_MXFP4, 5760, 2880, false, true}};
    static const struct native_attention deep = {
        .heads = 16, .kv_heads = 4, .head_size = 128, .value_size = 128, .scale = 0.09};
    static const struct shape one = {1, 0}, many = {40, 1}, context = {2000, 1};

    (void)state;
    if (!is_long())
        return;
    for (size_t i = 0; i < sizeof(wide) / sizeof(wide[0]); i++) {
        compare("a wide matrix", make_dense, &wide[i], &one);
        if (i != 1)
            compare("a wide matrix, many rows", make_dense, &wide[i], &many);
    }
    compare("a long context", make_attend, &deep, &context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_matrices_of_odd_sizes),
        cmocka_unit_test(codes_of_every_width_with_groups_and_zero_points),
        cmocka_unit_test(a_matrix_for_each_head),
        cmocka_unit_test(norms_of_odd_groups),
        cmocka_unit_test(operations_on_each_value_of_a_row),
        cmocka_unit_test(rotations_in_halves_and_in_pairs),
        cmocka_unit_test(attention_of_every_shape),
        cmocka_unit_test(routing_and_experts_of_every_kind),
        cmocka_unit_test(operations_with_state_over_two_steps),
        cmocka_unit_test(real_widths_and_long_contexts),
    };

    return cmocka_run_group_tests(tests, use_lavapipe, NULL);
}

#else
int main(void)
{
    return 0; /* this build has no Vulkan */
}
#endif
