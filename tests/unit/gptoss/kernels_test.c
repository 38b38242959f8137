/* The vector kernels compute what the plain kernels define, for many shapes, and an element's
 * result does not depend on its surroundings. */
#include "tests/unit/gptoss/support.h"

#include <math.h>

#include "base/os/memory.h"
#include "engines/gptoss/backend/cpu/cpu.h"
#include "engines/gptoss/model/rope.h"

static uint32_t seed = 1;

static uint32_t next_word(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static float next_float(void)
{
    return (float)next_word() / 8388608.0f - 1.0f;
}

static void *aligned(size_t bytes)
{
    void *p = lr_aligned_alloc(CPU_ALIGN, (bytes + CPU_ALIGN) / CPU_ALIGN * CPU_ALIGN);

    assert_non_null(p);
    memset(p, 0, bytes);
    return p;
}

static double distance(const float *a, const float *b, size_t n)
{
    double difference = 0, norm = 1e-30;

    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

/* Both versions, or the plain one twice if the processor has neither AVX2 nor NEON. */
static const struct cpu_kernels *tables[2];

static int pick_tables(void **state)
{
    (void)state;
    tables[0] = cpu_kernels_plain();
    tables[1] = cpu_kernels_avx2() != NULL   ? cpu_kernels_avx2()
                : cpu_kernels_neon() != NULL ? cpu_kernels_neon()
                                             : cpu_kernels_plain();
    return 0;
}

/* ---- dense ---- */

static void run_dense(const struct cpu_kernels *k, const uint16_t *w, size_t columns,
                      uint32_t rows, const float *x, uint32_t tokens, float *y)
{
    float *packed = aligned(columns * tokens * sizeof(float));

    for (uint32_t t = 0; t < tokens; t++)
        k->pack_dense(x + t * columns, columns, packed + t * columns);
    const struct cpu_dense job = {w, columns, rows, tokens, packed, columns, y, rows};
    k->dense(&job);
    lr_aligned_free(packed);
}

static void dense_products_agree_over_odd_shapes_and_never_depend_on_the_tile(void **state)
{
    static const size_t columns[] = {1, 15, 16, 17, 64, 192, 250, 576};
    static const uint32_t rows[] = {1, 3, 4, 9, 17}, tokens[] = {1, 2, 3, 4, 7};

    (void)state;
    for (size_t c = 0; c < 8; c++)
        for (size_t r = 0; r < 5; r++)
            for (size_t t = 0; t < 5; t++) {
                size_t n = columns[c], outputs = (size_t)rows[r] * tokens[t];
                uint16_t *w = calloc(n * rows[r], sizeof(*w));
                float *x = calloc(n * tokens[t], sizeof(*x));
                float *y[2] = {calloc(outputs, 4), calloc(outputs, 4)}, one;
                for (size_t i = 0; i < n * rows[r]; i++)
                    w[i] = (uint16_t)(0x3E00 + next_word() % 0x100 + (next_word() & 0x8000));
                for (size_t i = 0; i < n * tokens[t]; i++)
                    x[i] = next_float();
                for (int k = 0; k < 2; k++)
                    run_dense(tables[k], w, n, rows[r], x, tokens[t], y[k]);
                assert_true(distance(y[1], y[0], outputs) < 2e-6);
                for (uint32_t i = 0; i < outputs; i++) {
                    uint32_t token = i / rows[r], row = i % rows[r];
                    run_dense(tables[1], w + row * n, n, 1, x + token * n, 1, &one);
                    assert_memory_equal(&one, &y[1][i], sizeof(one));
                }
                free(w);
                free(x);
                free(y[0]);
                free(y[1]);
            }
}

/* ---- MXFP4 ---- */

struct mx_case {
    size_t columns;
    uint32_t rows, tokens, excess;
    uint8_t *blocks, *scales;
    float *x;
};

static void run_mx(const struct cpu_kernels *k, const struct mx_case *c, uint32_t row,
                   uint32_t rows, uint32_t token, uint32_t tokens, float *y)
{
    size_t bytes = cpu_mx_packed_bytes(c->columns), groups = c->columns / 32;
    uint8_t *packed = aligned(bytes * tokens);
    const uint8_t *x[32];

    for (uint32_t t = 0; t < tokens; t++) {
        /* In pieces, like the experts' tasks. */
        for (size_t g = 0; g < groups; g += 2)
            k->pack_mx(c->x + (token + t) * c->columns + g * 32, g, groups - g < 2 ? 1 : 2,
                       packed + t * bytes);
        x[t] = packed + t * bytes;
    }
    const struct cpu_mx job = {
        .blocks = c->blocks + row * groups * 16,
        .scales = c->scales + row * groups,
        .scale_excess = c->excess,
        .rows = rows,
        .columns = c->columns,
        .x = x,
        .tokens = tokens,
        .y = y,
        .y_stride = rows,
    };
    k->mx(&job);
    lr_aligned_free(packed);
}

/* The sum in double precision, by the definition of the format.  *size is the scale of its
 * rounding error: each block's weights times its largest activation. */
static double exact_mx(const struct mx_case *c, uint32_t row, uint32_t token, double *size)
{
    static const double fp4[16] = {0,  0.5,  1,  1.5,  2,  3,  4,  6,
                                   -0, -0.5, -1, -1.5, -2, -3, -4, -6};
    size_t groups = c->columns / 32;
    double sum = 0;

    *size = 0;
    for (size_t i = 0; i < c->columns; i++) {
        const float *block = c->x + token * c->columns + i / 32 * 32;
        double top = 0;
        uint8_t byte = c->blocks[row * groups * 16 + i / 2];
        int scale = (int)c->scales[row * groups + i / 32] - (int)c->excess - 127;
        double weight = ldexp(fp4[i % 2 == 0 ? byte & 15 : byte >> 4], scale);
        for (int j = 0; j < 32; j++)
            top = fabs((double)block[j]) > top ? fabs((double)block[j]) : top;
        sum += weight * (double)block[i % 32];
        *size += weight * weight * top * top;
    }
    *size = sqrt(*size);
    return sum;
}

static void make_mx(struct mx_case *c, size_t columns, uint32_t rows, uint32_t tokens,
                    uint32_t excess)
{
    size_t groups = columns / 32;

    /* Exactly as large as needed, so that ASan detects a read past the end. */
    *c = (struct mx_case){columns,
                          rows,
                          tokens,
                          excess,
                          malloc(rows * groups * 16),
                          malloc(rows * groups),
                          malloc(columns * tokens * sizeof(float))};
    for (size_t i = 0; i < rows * groups * 16; i++)
        c->blocks[i] = (uint8_t)next_word();
    for (size_t i = 0; i < rows * groups; i++)
        c->scales[i] = (uint8_t)(118 + excess + next_word() % 8);
    for (size_t i = 0; i < columns * tokens; i++)
        c->x[i] = next_float() * (next_word() % 50 == 0 ? 100.0f : 1.0f);
}

static void free_mx(struct mx_case *c)
{
    free(c->blocks);
    free(c->scales);
    free(c->x);
}

static void mxfp4_products_are_exact_to_float32_over_odd_shapes(void **state)
{
    static const size_t columns[] = {32, 64, 96, 160, 192, 256, 288, 2880};
    static const uint32_t rows[] = {1, 2, 5, 64, 67}, tokens[] = {1, 2, 3, 4, 5, 8};

    (void)state;
    for (size_t i = 0; i < 8 * 5 * 6; i++) {
        struct mx_case c;
        if (columns[i % 8] == 2880 && rows[i / 8 % 5] > 5)
            continue; /* long rows once are enough */
        make_mx(&c, columns[i % 8], rows[i / 8 % 5], tokens[i / 40], i % 3 == 0 ? 14 : 0);
        size_t outputs = (size_t)c.rows * c.tokens;
        float *y = calloc(outputs, sizeof(*y));
        for (int k = 0; k < 2; k++) {
            run_mx(tables[k], &c, 0, c.rows, 0, c.tokens, y);
            for (uint32_t n = 0; n < outputs; n++) {
                double size, want = exact_mx(&c, n % c.rows, n / c.rows, &size);
                if (!(fabs((double)y[n] - want) <= 5e-7 * size))
                    fail_msg("%s: %zu columns, row %u: %.9g, want %.9g", tables[k]->name,
                             c.columns, n % c.rows, (double)y[n], want);
            }
        }
        free(y);
        free_mx(&c);
    }
}

static void mxfp4_products_never_depend_on_the_tile(void **state)
{
    struct mx_case c;
    float y[67 * 8], one;

    (void)state;
    make_mx(&c, 1312, 67, 8, 0); /* 41 blocks: more than a stretch, and an odd end */
    for (uint32_t tokens = 1; tokens <= 8; tokens++) {
        run_mx(tables[1], &c, 0, c.rows, 0, tokens, y);
        for (uint32_t n = 0; n < c.rows * tokens; n++) {
            run_mx(tables[1], &c, n % c.rows, 1, n / c.rows, 1, &one);
            assert_memory_equal(&one, &y[n], sizeof(one));
        }
    }
    free_mx(&c);
}

static void mxfp4_takes_zeros_and_extremes(void **state)
{
    struct mx_case c;
    float y;

    (void)state;
    make_mx(&c, 64, 1, 1, 0);
    memset(c.x, 0, 64 * sizeof(float));
    run_mx(tables[1], &c, 0, 1, 0, 1, &y);
    assert_true(y == 0.0f);
    for (int exponent = -60; exponent <= 60; exponent += 15) {
        double size, want;
        for (int i = 0; i < 64; i++)
            c.x[i] = ldexpf(i == 7 ? 0.99999f : next_float() * 1e-3f, exponent);
        want = exact_mx(&c, 0, 0, &size);
        run_mx(tables[1], &c, 0, 1, 0, 1, &y);
        assert_true(fabs((double)y - want) <= 5e-7 * size);
    }
    free_mx(&c);
}

/* ---- attention ---- */

static void attention_agrees_over_lengths_windows_and_groups(void **state)
{
    static const uint32_t lengths[] = {1, 2, 31, 32, 33, 64, 100, 257};
    enum { DIM = 64, MOST = 8, PAGES = 9 };
    size_t stride = 2 * DIM * CPU_PAGE_TOKENS;
    float *cache = aligned(PAGES * stride * sizeof(float));
    float q[MOST * DIM], sinks[MOST], out[2][MOST * DIM];
    float *scratch = aligned(cpu_attend_scratch(MOST, DIM) * sizeof(float));
    uint32_t pages[PAGES];

    (void)state;
    for (size_t i = 0; i < PAGES * stride; i++)
        cache[i] = next_float();
    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = (i * 5 + 3) % PAGES;
    for (size_t i = 0; i < MOST * DIM; i++)
        q[i] = next_float() * 3;
    for (uint32_t n = 0; n < 8 * 3 * 3; n++) {
        uint32_t length = lengths[n % 8], window = (uint32_t[]){1000, 16, 128}[n / 8 % 3];
        uint32_t group = (uint32_t[]){1, 3, 8}[n / 24];
        for (uint32_t i = 0; i < group; i++)
            sinks[i] = (float)((int)i * 10 - 30); /* from no weight to all the weight */
        for (int k = 0; k < 2; k++) {
            const struct cpu_attend job = {
                .q = q,
                .group = group,
                .head_dim = DIM,
                .scale = 0.125f,
                .sink = sinks,
                .from = length > window ? length - window : 0,
                .to = length - 1,
                .pages = pages,
                .base = cache,
                .v_offset = DIM * CPU_PAGE_TOKENS,
                .page_stride = stride,
                .out = out[k],
                .scratch = scratch,
            };
            tables[k]->attend(&job);
        }
        for (uint32_t h = 0; h < group; h++)
            assert_true(distance(out[1] + h * DIM, out[0] + h * DIM, DIM) < 2e-6);
    }
    lr_aligned_free(cache);
    lr_aligned_free(scratch);
}

/* ---- AVX-512 against AVX2, NEON with dot products against NEON, bit by bit ---- */

static const struct cpu_kernels *avx512_or_skip(void)
{
    const struct cpu_kernels *k =
        cpu_kernels_neon() != NULL ? cpu_kernels_neon_dot() : cpu_kernels_avx512();

    if (k == NULL) {
        print_message(
            "skipped: this processor lacks AVX-512 F, BW, VL, DQ or VNNI, or on arm64 "
            "dot products\n");
        skip();
    }
    return k;
}

static const struct cpu_kernels *avx2_or_neon(void)
{
    return cpu_kernels_avx2() != NULL ? cpu_kernels_avx2() : cpu_kernels_neon();
}

static uint32_t up_to(uint32_t most)
{
    return 1 + next_word() % most;
}

static void dense_products_have_the_same_bits_with_avx512_as_with_avx2(void **state)
{
    const struct cpu_kernels *pair[2] = {avx2_or_neon(), avx512_or_skip()};

    (void)state;
    for (uint32_t n = 0; n < 300; n++) {
        size_t columns = n % 3 == 0 ? up_to(40) * 16 : up_to(600);
        uint32_t rows = n % 2 == 0 ? up_to(9) * 8 : up_to(70), tokens = up_to(24);
        size_t outputs = (size_t)rows * tokens;
        /* Exactly as large as needed, so that ASan detects a read past the end. */
        uint16_t *w = malloc(columns * rows * sizeof(*w));
        float *x = malloc(columns * tokens * sizeof(*x));
        float *y[2] = {malloc(outputs * 4), malloc(outputs * 4)};
        for (size_t i = 0; i < columns * rows; i++)
            w[i] = (uint16_t)(0x3C00 + next_word() % 0x400 + (next_word() & 0x8000));
        for (size_t i = 0; i < columns * tokens; i++)
            x[i] = next_float() * (next_word() % 50 == 0 ? 100.0f : 1.0f);
        for (int k = 0; k < 2; k++)
            run_dense(pair[k], w, columns, rows, x, tokens, y[k]);
        assert_memory_equal(y[1], y[0], outputs * 4);
        free(w);
        free(x);
        free(y[0]);
        free(y[1]);
    }
}

static void mxfp4_products_have_the_same_bits_with_avx512_as_with_avx2(void **state)
{
    const struct cpu_kernels *pair[2] = {avx2_or_neon(), avx512_or_skip()};

    (void)state;
    for (uint32_t n = 0; n < 300; n++) {
        struct mx_case c;
        /* Also scales over their whole range, where products become 0 and infinity. */
        make_mx(&c, up_to(n % 10 == 0 ? 90 : 20) * 32, up_to(70), up_to(24), n % 3 * 7);
        for (size_t i = 0; n % 4 == 0 && i < c.rows * c.columns / 32; i++)
            c.scales[i] = (uint8_t)next_word();
        size_t outputs = (size_t)c.rows * c.tokens;
        float *y[2] = {malloc(outputs * 4), malloc(outputs * 4)};
        for (int k = 0; k < 2; k++)
            run_mx(pair[k], &c, 0, c.rows, 0, c.tokens, y[k]);
        for (size_t i = 0; i < outputs; i++) /* which of several NaNs results is not defined */
            if (!(isnan(y[0][i]) && isnan(y[1][i])))
                assert_memory_equal(&y[1][i], &y[0][i], 4);
        free(y[0]);
        free(y[1]);
        free_mx(&c);
    }
}

static void attention_has_the_same_bits_with_avx512_as_with_avx2(void **state)
{
    const struct cpu_kernels *pair[2] = {avx2_or_neon(), avx512_or_skip()};
    enum { MOST_DIM = 128, MOST = 9, PAGES = 12 };
    size_t most_stride = 2 * MOST_DIM * CPU_PAGE_TOKENS;
    float *cache = aligned(PAGES * most_stride * sizeof(float));
    float q[MOST * MOST_DIM], sinks[MOST], out[2][MOST * MOST_DIM];
    uint32_t pages[PAGES];

    (void)state;
    for (size_t i = 0; i < PAGES * most_stride; i++)
        cache[i] = next_float();
    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = (i * 5 + 3) % PAGES;
    for (uint32_t n = 0; n < 300; n++) {
        uint32_t dim = n % 3 == 0 ? up_to(MOST_DIM) : n % 3 == 1 ? 64 : up_to(MOST_DIM / 8) * 8;
        uint32_t group = up_to(MOST), length = up_to(PAGES * CPU_PAGE_TOKENS);
        uint32_t window = n % 2 == 0 ? length : up_to(length);
        float *scratch = malloc(cpu_attend_scratch(group, dim) * sizeof(float));
        for (size_t i = 0; i < (size_t)group * dim; i++)
            q[i] = next_float() * 5;
        for (uint32_t i = 0; i < group; i++)
            sinks[i] = next_float() * 30;
        for (int k = 0; k < 2; k++) {
            const struct cpu_attend job = {
                .q = q,
                .group = group,
                .head_dim = dim,
                .scale = 0.125f,
                .sink = sinks,
                .from = length - window,
                .to = length - 1,
                .pages = pages,
                .base = cache,
                .v_offset = dim * CPU_PAGE_TOKENS,
                .page_stride = 2 * dim * CPU_PAGE_TOKENS,
                .out = out[k],
                .scratch = scratch,
            };
            pair[k]->attend(&job);
        }
        assert_memory_equal(out[1], out[0], (size_t)group * dim * sizeof(float));
        free(scratch);
    }
    lr_aligned_free(cache);
}

/* ---- small kernels ---- */

static void norm_and_swiglu_agree(void **state)
{
    float x[67], u[134], a[2][67];
    uint16_t w[67];

    (void)state;
    for (int i = 0; i < 67; i++) {
        x[i] = next_float() * 4;
        w[i] = (uint16_t)(0x3F80 + next_word() % 64);
    }
    for (int i = 0; i < 134; i++)
        u[i] = next_float() * 12; /* past the limit of 7 on both sides */
    for (size_t n = 1; n <= 67; n += 3) {
        for (int k = 0; k < 2; k++)
            tables[k]->norm(x, w, n, 1e-5f, a[k]);
        assert_true(distance(a[1], a[0], n) < 1e-6);
        for (int k = 0; k < 2; k++)
            tables[k]->swiglu(u, n, 7.0f, a[k]);
        assert_true(distance(a[1], a[0], n) < 1e-6);
    }
    /* gate clamped from above only, up from both sides: 7 s(7) (up + 1) */
    float extreme[4] = {100.0f, -100.0f, -100.0f, 100.0f}, h[2];
    for (int k = 0; k < 2; k++) {
        tables[k]->swiglu(extreme, 2, 7.0f, h);
        assert_true(fabsf(h[0] - 7.0f / (1 + expf(-1.702f * 7)) * -6.0f) < 1e-4f);
        assert_true(fabsf(h[1]) < 1e-4f);
    }
}

static void router_takes_the_largest_with_ties_to_the_lowest_number(void **state)
{
    const float logits[6] = {1.0f, 3.0f, 3.0f, -2.0f, 3.0f, 2.0f};
    uint32_t choice[4];
    float chance[4];

    (void)state;
    cpu_route(logits, 6, 4, choice, chance);
    const uint32_t want[4] = {1, 2, 4, 5};
    assert_memory_equal(choice, want, sizeof(want));
    float e = expf(-1.0f);
    assert_true(fabsf(chance[0] - 1 / (3 + e)) < 1e-6f && chance[0] == chance[2]);
    assert_true(fabsf(chance[3] - e / (3 + e)) < 1e-6f);
}

static void rope_has_the_published_frequencies(void **state)
{
    static const double want[32] = {1.0,
                                    6.890443059e-1,
                                    4.747820555e-1,
                                    3.271458719e-1,
                                    2.254180002e-1,
                                    1.553229895e-1,
                                    1.070244215e-1,
                                    7.374456821e-2,
                                    5.081327482e-2,
                                    3.170569618e-2,
                                    1.933500113e-2,
                                    1.159204926e-2,
                                    6.794959490e-3,
                                    3.860359317e-3,
                                    2.093792379e-3,
                                    1.052602101e-3,
                                    4.564839192e-4,
                                    1.293187012e-4,
                                    3.830881237e-5,
                                    2.639646903e-5,
                                    1.818833668e-5,
                                    1.253256982e-5,
                                    8.635495875e-6,
                                    5.950239261e-6,
                                    4.099978482e-6,
                                    2.825066827e-6,
                                    1.946596211e-6,
                                    1.341291035e-6,
                                    9.242089502e-7,
                                    6.368209146e-7,
                                    4.387978251e-7,
                                    3.023511428e-7};
    struct model_config *c = calloc(1, sizeof(*c));
    double got[32];
    float cosines[32], sines[32];

    (void)state;
    c->head_dim = 64;
    c->rope = (struct model_rope){.kind = MODEL_ROPE_YARN,
                                  .theta = 150000,
                                  .factor = 32,
                                  .beta_fast = 32,
                                  .beta_slow = 1,
                                  .attention_factor = 1.3465735902799727,
                                  .original_context = 4096};
    gptoss_rope_frequencies(c, got);
    for (int i = 0; i < 32; i++)
        assert_true(fabs(got[i] / want[i] - 1) < 1e-8);
    gptoss_rope_row(c, got, 0, cosines, sines);
    assert_true(fabsf(cosines[5] - 1.3465736f) < 1e-6f && sines[5] == 0.0f);
    free(c);
}

/* FNV-1a over the bits of an output. */
static uint64_t hash_bits(uint64_t hash, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ p[i]) * UINT64_C(0x100000001B3);
    return hash;
}

/* The hashes were computed with the AVX2 kernels. */
static void vector_kernels_give_the_same_bits_on_every_kind_of_processor(void **state)
{
    enum { COLUMNS = 608, ROWS = 13, TOKENS = 5, OUTPUTS = ROWS * TOKENS, SMALL = 61 };
    const struct cpu_kernels *k = avx2_or_neon();
    static uint16_t w[COLUMNS * ROWS];
    static float x[COLUMNS * TOKENS], u[2 * SMALL], y[COLUMNS];
    uint64_t hash[3] = {0};
    struct mx_case c;

    (void)state;
    if (k == NULL) {
        print_message("skipped: this processor has neither AVX2 nor NEON\n");
        skip();
    }
    seed = 7;
    for (size_t i = 0; i < COLUMNS * ROWS; i++)
        w[i] = (uint16_t)(0x3C00 + next_word() % 0x400 + (next_word() & 0x8000));
    for (size_t i = 0; i < COLUMNS * TOKENS; i++)
        x[i] = next_float();
    for (size_t i = 0; i < 2 * SMALL; i++)
        u[i] = next_float() * 12;
    run_dense(k, w, COLUMNS - 3, ROWS, x, TOKENS, y);
    hash[0] = hash_bits(hash[0], y, OUTPUTS * sizeof(*y));
    make_mx(&c, COLUMNS, ROWS, TOKENS, 3);
    run_mx(k, &c, 0, ROWS, 0, TOKENS, y);
    hash[1] = hash_bits(hash[1], y, OUTPUTS * sizeof(*y));
    free_mx(&c);
    k->norm(x, w, COLUMNS - 5, 1e-5f, y);
    hash[2] = hash_bits(hash[2], y, (COLUMNS - 5) * sizeof(*y));
    k->swiglu(u, SMALL, 7.0f, y);
    hash[2] = hash_bits(hash[2], y, SMALL * sizeof(*y));
    assert_int_equal(hash[0], UINT64_C(0x7f4930b076c642b9));
    assert_int_equal(hash[1], UINT64_C(0x97c1a40f5a475092));
    assert_int_equal(hash[2], UINT64_C(0x2918af0974303620));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vector_kernels_give_the_same_bits_on_every_kind_of_processor),
        cmocka_unit_test(dense_products_agree_over_odd_shapes_and_never_depend_on_the_tile),
        cmocka_unit_test(mxfp4_products_are_exact_to_float32_over_odd_shapes),
        cmocka_unit_test(mxfp4_products_never_depend_on_the_tile),
        cmocka_unit_test(mxfp4_takes_zeros_and_extremes),
        cmocka_unit_test(attention_agrees_over_lengths_windows_and_groups),
        cmocka_unit_test(dense_products_have_the_same_bits_with_avx512_as_with_avx2),
        cmocka_unit_test(mxfp4_products_have_the_same_bits_with_avx512_as_with_avx2),
        cmocka_unit_test(attention_has_the_same_bits_with_avx512_as_with_avx2),
        cmocka_unit_test(norm_and_swiglu_agree),
        cmocka_unit_test(router_takes_the_largest_with_ties_to_the_lowest_number),
        cmocka_unit_test(rope_has_the_published_frequencies),
    };
    return cmocka_run_group_tests(tests, pick_tables, NULL);
}
