/* The kernels against float64 sums, at real widths and far into a context, and each kind of
 * vector registers against the others bit by bit. */
#include <math.h>

#include "engines/native/formats/packed.h"
#include "tests/unit/native/support.h"

enum { KERNELS = 3, PAGE = NATIVE_PAGE_TOKENS };

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

static uint32_t all_kernels(const struct native_kernels *out[KERNELS + 1])
{
    const struct native_kernels *const known[] = {native_kernels_plain(), native_kernels_avx2(),
                                                  native_kernels_avx512(),
                                                  native_kernels_neon()};
    uint32_t n = 0;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (known[i] != NULL)
            out[n++] = known[i];
    return n;
}

static void close_to(const float *got, const double *wanted, uint32_t n, const char *what)
{
    double difference = 0, norm = 0;

    for (uint32_t i = 0; i < n; i++) {
        difference += ((double)got[i] - wanted[i]) * ((double)got[i] - wanted[i]);
        norm += wanted[i] * wanted[i];
    }
    if (!(sqrt(difference) <= 1e-5 * sqrt(norm)))
        fail_msg("%s: relative error %g", what, sqrt(difference / norm));
}

/* ---- matrices ---- */

static const float fp4[16] = {0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                              -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f};

/* A matrix of random values, and the same as float64. */
static void make(struct native_matrix *m, enum native_type type, uint32_t rows,
                 uint32_t columns, bool transposed, double *values)
{
    size_t count = (size_t)rows * columns;
    uint8_t *data = malloc(count * 4), *scales = malloc(count / 32 + 1);

    assert_true(data != NULL && scales != NULL);
    *m = (struct native_matrix){.type = type,
                                .transposed = transposed,
                                .rows = rows,
                                .columns = columns,
                                .row_stride = transposed ? rows : columns,
                                .data = data,
                                .scales = scales};
    for (size_t i = 0; i < count / 32 + 1; i++)
        scales[i] = (uint8_t)(120 + next() % 12);
    for (size_t i = 0; i < count; i++) {
        float v = any();
        uint32_t bits;
        uint16_t half;
        size_t at = transposed ? i % rows * columns + i / rows : i;
        memcpy(&bits, &v, sizeof(bits));
        if (type == NATIVE_F32) {
            memcpy(data + i * 4, &v, 4);
        } else if (type == NATIVE_BF16) {
            half = (uint16_t)(bits >> 16);
            memcpy(data + i * 2, &half, 2);
            bits &= 0xFFFF0000u;
            memcpy(&v, &bits, sizeof(v));
        } else if (type == NATIVE_F16) {
            half = (uint16_t)(next() & 0xBBFF); /* below 1, subnormal ones too */
            memcpy(data + i * 2, &half, 2);
            int exponent = half >> 10 & 15;
            v = ldexpf((float)((half & 1023) + (exponent != 0 ? 1024 : 0)),
                       (exponent != 0 ? exponent : 1) - 25);
            v = half >> 15 ? -v : v;
        } else {
            uint32_t nibble = next() & 15;
            if (i % 2 == 0)
                data[i / 2] = 0;
            data[i / 2] |= (uint8_t)(nibble << (i % 2 * 4));
            v = ldexpf(fp4[nibble], scales[i / 32] - 127);
        }
        values[at] = (double)v;
    }
}

static void check_dense(enum native_type type, uint32_t rows, uint32_t columns, uint32_t tokens,
                        bool transposed)
{
    const struct native_kernels *kernels[KERNELS + 1];
    uint32_t kinds = all_kernels(kernels);
    double *values = malloc((size_t)rows * columns * sizeof(*values));
    double *wanted = calloc((size_t)rows * tokens, sizeof(*wanted));
    float *x = malloc((size_t)tokens * columns * sizeof(*x));
    float *first = malloc((size_t)rows * tokens * sizeof(*first));
    float *y = malloc((size_t)rows * tokens * sizeof(*y));
    const float *vectors[32];
    struct native_matrix m;

    make(&m, type, rows, columns, transposed, values);
    for (size_t i = 0; i < (size_t)tokens * columns; i++)
        x[i] = any();
    for (uint32_t t = 0; t < tokens; t++) {
        vectors[t] = x + (size_t)t * columns;
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t k = 0; k < columns; k++)
                wanted[t * rows + r] += values[(size_t)r * columns + k] * (double)vectors[t][k];
    }
    for (uint32_t i = 0; i < kinds; i++) {
        struct native_dense job = {.matrix = &m,
                                   .rows = rows,
                                   .tokens = tokens,
                                   .x = vectors,
                                   .y = y,
                                   .y_stride = rows};
        kernels[i]->dense(&job);
        if (i == 0)
            memcpy(first, y, (size_t)rows * tokens * sizeof(*y));
        assert_memory_equal(first, y, (size_t)rows * tokens * sizeof(*y));
        /* Alone and from the middle: the same bits. */
        job.first = rows / 2;
        job.rows = rows - rows / 2;
        job.tokens = 1;
        kernels[i]->dense(&job);
        assert_memory_equal(first + rows / 2, y, job.rows * sizeof(*y));
    }
    close_to(first, wanted, rows * tokens, "a matrix");
    free((void *)(uintptr_t)m.data);
    free((void *)(uintptr_t)m.scales);
    free(values);
    free(wanted);
    free(x);
    free(first);
    free(y);
}

static void matrices_of_every_type_give_the_same_bits_in_every_tile(void **state)
{
    (void)state;
    for (int type = NATIVE_BF16; type <= NATIVE_F32; type++) {
        check_dense((enum native_type)type, 9, 4096, 7, false);
        check_dense((enum native_type)type, 37, 99, 13, false);
        check_dense((enum native_type)type, 5, 3, 1, false);
        check_dense((enum native_type)type, 37, 48, 3, true);
    }
    check_dense(NATIVE_MXFP4, 11, 2880, 6, false);
    check_dense(NATIVE_MXFP4, 3, 32, 1, false);
}

/* ---- codes ---- */

struct codes {
    uint8_t code, bits, scale, order, zero_order;
    bool shifts, divides;
    uint32_t rows_each, each; /* 0: all columns */
};

static const struct codes codes[] = {
    {NATIVE_CODE_INT, 4, NATIVE_SCALE_BF16, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 0, 0, 1, 128},
    {NATIVE_CODE_INT, 4, NATIVE_SCALE_F16, NATIVE_ALONG_ROWS, NATIVE_ALONG_COLUMNS, 0, 0, 1,
     32},
    {NATIVE_CODE_INT, 4, NATIVE_SCALE_F32, NATIVE_ALONG_ROWS, NATIVE_ALONG_ROWS, 0, 0, 1, 64},
    {NATIVE_CODE_INT, 4, NATIVE_SCALE_BF16, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 1, 0, 1, 64},
    {NATIVE_CODE_INT, 8, NATIVE_SCALE_F32, NATIVE_ALONG_ROWS, NATIVE_ALONG_COLUMNS, 0, 0, 1,
     16},
    {NATIVE_CODE_INT, 8, NATIVE_SCALE_BF16, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 1, 0, 1, 32},
    {NATIVE_CODE_INT, 3, NATIVE_SCALE_BF16, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 1, 0, 1, 32},
    {NATIVE_CODE_SIGNED, 8, NATIVE_SCALE_F32, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 0, 0, 1, 0},
    {NATIVE_CODE_SIGNED, 8, NATIVE_SCALE_F32, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 0, 0, 1, 48},
    {NATIVE_CODE_E4M3, 8, NATIVE_SCALE_BF16, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 0, 0, 7, 128},
    {NATIVE_CODE_E4M3, 8, NATIVE_SCALE_F32, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 0, 0, 128, 0},
    {NATIVE_CODE_E4M3, 8, NATIVE_SCALE_E8M0, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 0, 0, 1, 32},
    {NATIVE_CODE_E4M3, 8, NATIVE_SCALE_F32, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 0, 0, 1, 24},
    {NATIVE_CODE_E2M1, 4, NATIVE_SCALE_E4M3, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 0, 1, 1, 16},
    {NATIVE_CODE_E2M1, 4, NATIVE_SCALE_E4M3, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 0, 0, 1, 16},
    {NATIVE_CODE_E2M1, 4, NATIVE_SCALE_E8M0, NATIVE_ALONG_ROWS, NATIVE_NO_CODES, 0, 0, 1, 32},
    {NATIVE_CODE_TABLE, 4, NATIVE_SCALE_F32, NATIVE_FLAT, NATIVE_NO_CODES, 0, 0, 1, 64},
};

static const float code_table[16] = {-1,     -0.7f, -0.5f, -0.4f, -0.3f, -0.2f, -0.1f, 0,
                                     0.125f, 0.2f,  0.3f,  0.4f,  0.5f,  0.6f,  0.7f,  1};

/* Random scales, each a usual number of its type. */
static uint8_t *make_scales(uint8_t type, size_t count)
{
    uint8_t *out = malloc(4 * count);

    for (size_t i = 0; i < count; i++) {
        float v = any() / 100;
        uint16_t half = (uint16_t)(0x1000 + next() % 0x1000);
        memcpy(out + 4 * i, &v, sizeof(v));
        if (type == NATIVE_SCALE_BF16)
            memcpy(out + 2 * i, out + 4 * i + 2, 2);
        else if (type == NATIVE_SCALE_F16)
            memcpy(out + 2 * i, &half, 2);
        else if (type == NATIVE_SCALE_E8M0)
            out[i] = (uint8_t)(110 + next() % 20);
        else if (type == NATIVE_SCALE_E4M3)
            out[i] = (uint8_t)(next() % 120);
    }
    return out;
}

static void make_codes(const struct codes *c, uint32_t rows, uint32_t columns,
                       struct native_packed *p)
{
    uint32_t each = c->each != 0 ? c->each : columns, groups = (columns + each - 1) / each;
    size_t stride = ((size_t)columns * c->bits + 31) / 32 * 4, count = (size_t)rows * groups;
    uint8_t *bytes = malloc(rows * stride), *zeros = malloc(rows * (size_t)groups * 4 + 4);

    for (size_t i = 0; i < rows * stride; i++)
        bytes[i] =
            (uint8_t)(c->code == NATIVE_CODE_E4M3 ? next() % 127 | (next() & 128) : next());
    for (size_t i = 0; i < rows * (size_t)groups * 4 + 4; i++)
        zeros[i] = (uint8_t)next();
    *p = (struct native_packed){.codes = bytes,
                                .code_stride = stride,
                                .rows = rows,
                                .columns = columns,
                                .code = c->code,
                                .bits = c->bits,
                                .order = c->order,
                                .scale = c->scale,
                                .scales = make_scales(c->scale, count),
                                .shifts = c->shifts ? make_scales(c->scale, count) : NULL,
                                .rows_each = c->rows_each,
                                .columns_each = each,
                                .row_step = groups,
                                .column_step = 1,
                                .global = 0.3f,
                                .divides = c->divides,
                                .zero_order = c->zero_order,
                                .zeros = zeros,
                                .zero_stride = c->zero_order == NATIVE_ALONG_ROWS
                                                   ? ((size_t)rows * c->bits + 31) / 32 * 4
                                                   : (size_t)groups * 4,
                                .zero = c->code == NATIVE_CODE_INT ? 5 : 0,
                                .table = code_table};
}

static void free_codes(struct native_packed *p)
{
    free((void *)(uintptr_t)p->codes);
    free((void *)(uintptr_t)p->scales);
    free((void *)(uintptr_t)p->shifts);
    free((void *)(uintptr_t)p->zeros);
}

static void check_codes(struct native_packed *p, uint32_t tokens)
{
    const struct native_kernels *kernels[KERNELS + 1];
    uint32_t kinds = all_kernels(kernels), rows = p->rows, columns = p->columns;
    float *values = malloc((size_t)rows * columns * sizeof(*values));
    float *x = malloc((size_t)tokens * columns * sizeof(*x));
    float *wanted = malloc((size_t)rows * tokens * sizeof(*wanted));
    float *y = malloc((size_t)rows * tokens * sizeof(*y));
    const float *vectors[32];
    const struct native_matrix plain = {.type = NATIVE_F32,
                                        .rows = rows,
                                        .columns = columns,
                                        .row_stride = columns,
                                        .data = values},
                               packed = {.type = NATIVE_PACKED,
                                         .rows = rows,
                                         .columns = columns,
                                         .packed = p};

    for (uint32_t r = 0; r < rows; r++)
        native_packed_row(p, r, 0, columns, values + (size_t)r * columns);
    for (size_t i = 0; i < (size_t)tokens * columns; i++)
        x[i] = any();
    for (uint32_t t = 0; t < tokens; t++)
        vectors[t] = x + (size_t)t * columns;
    struct native_dense job = {.matrix = &plain,
                               .rows = rows,
                               .tokens = tokens,
                               .x = vectors,
                               .y = wanted,
                               .y_stride = rows};
    kernels[0]->dense(&job);
    job.matrix = &packed;
    job.y = y;
    for (uint32_t i = 0; i < kinds; i++) {
        memset(y, 0xFF, (size_t)rows * tokens * sizeof(*y));
        kernels[i]->dense(&job);
        for (uint32_t k = 0; k < rows * tokens; k++)
            if (memcmp(&y[k], &wanted[k], sizeof(*y)) != 0 &&
                !(isnan(y[k]) && isnan(wanted[k])))
                fail_msg("%s, code %d of %d bits, groups of %u, %u columns, %u tokens: %g is "
                         "not %g",
                         kernels[i]->name, p->code, p->bits, p->columns_each, columns, tokens,
                         (double)y[k], (double)wanted[k]);
    }
    free(values);
    free(x);
    free(wanted);
    free(y);
}

static void codes_give_the_bits_of_their_values_in_float32(void **state)
{
    static const uint32_t shapes[][3] = {
        {19, 384, 1}, {11, 2112, 2}, {13, 192, 9}, {9, 576, 25}};
    struct native_packed p;

    (void)state;
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
        for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
            make_codes(&codes[i], shapes[s][0], shapes[s][1], &p);
            check_codes(&p, shapes[s][2]);
            p.columns -= 3; /* a row ends between two groups, and in the middle of lanes */
            if (p.order == NATIVE_ALONG_ROWS)
                check_codes(&p, shapes[s][2]);
            free_codes(&p);
        }
}

static void a_code_of_nan_makes_its_row_nan_and_no_other(void **state)
{
    static const struct codes e4m3 = {.code = NATIVE_CODE_E4M3,
                                      .bits = 8,
                                      .scale = NATIVE_SCALE_F32,
                                      .zero_order = NATIVE_NO_CODES,
                                      .rows_each = 1,
                                      .each = 64};
    struct native_packed p;

    (void)state;
    for (uint32_t row = 0; row < 19; row += 6) {
        make_codes(&e4m3, 19, 1600, &p);
        ((uint8_t *)(uintptr_t)p.codes)[row * p.code_stride + 1590] =
            row % 4 == 0 ? 0x7F : 0xFF;
        check_codes(&p, 1);
        check_codes(&p, 7);
        free_codes(&p);
    }
}

/* ---- attention ---- */

struct shape {
    uint32_t heads, key_size, value_size, window, to;
    bool latent, sinks;
    float softcap;
};

/* Positions share pages in memory, so that a long context is small. */
enum { PAGES = 509, TABLE = 131072 / PAGE };

static void attend_in_doubles(const struct native_look *j, uint32_t h, double *out)
{
    const float *q = j->q + (size_t)h * j->key_size;
    double top = j->sinks != NULL ? (double)j->sinks[h] : -1e300, sum;
    double *score = malloc((j->to + 1) * sizeof(*score));

    for (uint32_t p = j->from; p <= j->to; p++) {
        const float *k = j->base + j->pages[p / PAGE] * j->page_stride;
        score[p] = 0;
        for (uint32_t d = 0; d < j->key_size; d++)
            score[p] += (double)q[d] * (double)k[d * PAGE + p % PAGE];
        if (j->softcap > 0)
            score[p] = (double)j->softcap * tanh(score[p] / (double)j->softcap);
        top = score[p] > top ? score[p] : top;
    }
    sum = j->sinks != NULL ? exp((double)j->sinks[h] - top) : 0;
    memset(out, 0, j->value_size * sizeof(*out));
    for (uint32_t p = j->from; p <= j->to; p++) {
        const float *k = j->base + j->pages[p / PAGE] * j->page_stride;
        const float *v = k + (size_t)j->key_size * PAGE + (size_t)(p % PAGE) * j->value_size;
        double weight = exp(score[p] - top);
        sum += weight;
        for (uint32_t d = 0; d < j->value_size; d++)
            out[d] += weight * (double)(j->values_are_keys ? k[d * PAGE + p % PAGE] : v[d]);
    }
    for (uint32_t d = 0; d < j->value_size; d++)
        out[d] /= sum;
    free(score);
}

static void check_look(const struct shape *s)
{
    static uint32_t table[TABLE];
    const struct native_kernels *kernels[KERNELS + 1];
    uint32_t kinds = all_kernels(kernels), values = s->latent ? 0 : s->value_size;
    size_t page = (size_t)(s->key_size + values) * PAGE, width = s->heads * s->value_size;
    uint32_t pages = s->to / PAGE + 1 < PAGES ? s->to / PAGE + 1 : PAGES;
    float *memory = malloc(pages * page * sizeof(float)), *out = malloc(width * sizeof(float));
    float *q = malloc(s->heads * s->key_size * sizeof(float)),
          *first = malloc(width * sizeof(float));
    double *wanted = malloc(width * sizeof(double));
    float sinks[NATIVE_LOOK_HEADS];

    for (size_t i = 0; i < pages * page; i++)
        memory[i] = any();
    for (uint32_t i = 0; i < s->heads * s->key_size; i++)
        q[i] = any() * 4 / (float)sqrt((double)s->key_size);
    for (uint32_t i = 0; i < TABLE; i++)
        table[i] = i * 5 % pages;
    for (uint32_t i = 0; i < s->heads; i++)
        sinks[i] = any();
    uint32_t rows = s->to > 10000 ? 1 : 8;
    for (uint32_t row = 0; row < rows && row <= s->to; row++) {
        struct native_look job = {.q = q,
                                  .group = s->heads,
                                  .key_size = s->key_size,
                                  .value_size = s->value_size,
                                  .values_are_keys = s->latent,
                                  .softcap = s->softcap,
                                  .sinks = s->sinks ? sinks : NULL,
                                  .to = s->to - row,
                                  .pages = table,
                                  .base = memory,
                                  .page_stride = page,
                                  .out = out};
        if (s->window != 0 && job.to >= s->window)
            job.from = job.to - s->window + 1;
        for (uint32_t i = 0; i < kinds; i++) {
            kernels[i]->look(&job);
            if (i == 0)
                memcpy(first, out, width * sizeof(*out));
            assert_memory_equal(first, out, width * sizeof(*out));
        }
        for (uint32_t h = 0; row % 7 == 0 && h < s->heads; h++)
            attend_in_doubles(&job, h, wanted + h * s->value_size);
        if (row % 7 == 0)
            close_to(first, wanted, (uint32_t)width, "attention");
    }
    free(memory);
    free(out);
    free(q);
    free(first);
    free(wanted);
}

static void attention_is_right_far_into_a_context_and_at_the_borders_of_windows(void **state)
{
    static const struct shape shapes[] = {
        {4, 128, 128, 0, 0, false, false, 0},     {4, 128, 128, 0, 4095, false, false, 0},
        {5, 128, 128, 0, 32767, false, true, 0},  {1, 256, 256, 0, 131071, false, false, 50},
        {2, 40, 24, 0, 100, false, true, 0},      {16, 576, 512, 0, 4095, true, false, 0},
        {4, 256, 256, 512, 511, false, false, 0}, {4, 256, 256, 512, 519, false, false, 0},
        {2, 64, 64, 4096, 4099, false, true, 30}, {3, 128, 128, 1024, 131071, false, false, 0},
        {2, 17, 17, 33, 70, false, false, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        check_look(&shapes[i]);
}

/* ---- state ---- */

static void the_delta_rule_follows_its_formula(void **state)
{
    enum { KEYS = 48, VALUES = 40, STEPS = 50 };
    const struct native_kernels *kernels[KERNELS + 1];
    uint32_t kinds = all_kernels(kernels);
    float q[KEYS], k[KEYS], v[VALUES], out[VALUES], scratch[VALUES], first[VALUES];

    (void)state;
    for (uint32_t i = 0; i < kinds; i++) {
        float memory[KEYS * VALUES] = {0};
        double exact[KEYS][VALUES] = {{0}}, wanted[VALUES];
        seed = 77;
        for (int step = 0; step < STEPS; step++) {
            float decay = 0.5f + 0.4f * any(), beta = 0.5f + 0.4f * any();
            for (int d = 0; d < KEYS; d++) {
                q[d] = any() / 5;
                k[d] = any() / 5;
            }
            for (int d = 0; d < VALUES; d++) {
                double known = 0;
                v[d] = any();
                for (int n = 0; n < KEYS; n++)
                    known += (exact[n][d] *= (double)decay) * (double)k[n];
                wanted[d] = 0;
                for (int n = 0; n < KEYS; n++) {
                    exact[n][d] += (double)k[n] * ((double)v[d] - known) * (double)beta;
                    wanted[d] += exact[n][d] * (double)q[n];
                }
            }
            kernels[i]->delta(&(struct native_delta_step){memory, q, k, v, KEYS, VALUES, decay,
                                                          beta, out, scratch});
        }
        close_to(out, wanted, VALUES, "the delta rule");
        if (i == 0)
            memcpy(first, out, sizeof(out));
        assert_memory_equal(first, out, sizeof(out));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matrices_of_every_type_give_the_same_bits_in_every_tile),
        cmocka_unit_test(codes_give_the_bits_of_their_values_in_float32),
        cmocka_unit_test(a_code_of_nan_makes_its_row_nan_and_no_other),
        cmocka_unit_test(attention_is_right_far_into_a_context_and_at_the_borders_of_windows),
        cmocka_unit_test(the_delta_rule_follows_its_formula),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
