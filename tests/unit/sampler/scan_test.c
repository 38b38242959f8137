/* The sampler's loops: borders fall between exactly the right ranks, plain C and AVX2 give the
 * same bits, and no id that could win is skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engines/sampler/state.h"
#include "tests/unit/sampler/oracle.h"

enum { VOCAB = 3000, WORDS = (VOCAB + 31) / 32, BLOCKS = (VOCAB + 63) / 64 };

static float logits[VOCAB];
static uint32_t usable[WORDS];

static double uniform(uint32_t id, uint32_t row, uint32_t which)
{
    uint32_t out[4];

    sampler_philox(99, id, row, out);
    return ((double)out[which] + 0.5) / 4294967296.0;
}

/* Normally distributed logits of many scales, some rounded so that values are equal, some with
 * a few high ones. */
static void make_row(uint32_t row)
{
    const double sizes[] = {0.001, 0.5, 1, 2, 3, 8};
    double size = sizes[row % 6];

    for (uint32_t i = 0; i < VOCAB; i++) {
        double x =
            sqrt(-2 * log(uniform(i, row, 0))) * cos(6.2831853 * uniform(i, row, 1)) * size;
        if (row % 4 == 1)
            x = round(x / size * 8) / 8 * size;
        if (row % 4 == 2 && i % 499 == 0)
            x += 15 * uniform(i, row, 2);
        logits[i] = (float)x;
    }
    memset(usable, 0xFF, sizeof(usable));
}

static struct scan_row filled(struct sampler *s, float temperature)
{
    struct scan_row row = {.values = s->values,
                           .peaks = s->peaks,
                           .blocks = s->blocks,
                           .top = -INFINITY,
                           .temperature = temperature};

    assert_false(sampler_fill(s, logits, usable, NULL));
    for (uint32_t b = 0; b < s->blocks; b++)
        row.top = fmaxf(row.top, s->peaks[b]);
    return row;
}

/* Both versions, or plain C twice if there is no AVX2. */
static void make_samplers(struct sampler *s[2], uint32_t vocab)
{
    const struct scan_kernels *avx2 = scan_kernels_avx2();

    s[0] = sampler_create_with(vocab, scan_kernels_plain());
    s[1] = sampler_create_with(vocab, avx2 != NULL ? avx2 : scan_kernels_plain());
    assert_true(s[0] != NULL && s[1] != NULL);
}

static void check_border(struct sampler *s, uint32_t number, const struct lr_sampling *p)
{
    static struct oracle_id ranks[VOCAB];
    const struct scan_row row = filled(s, p->temperature);
    struct sampler_border got = sampler_filter(s, &row, p);

    for (uint32_t i = 0; i < VOCAB; i++)
        ranks[i] = (struct oracle_id){(logits[i] - row.top) / row.temperature, i};
    const struct oracle_id want = ranks[oracle_filter(ranks, VOCAB, p) - 1];
    if (got.x != want.x || got.id != want.id)
        fail_msg(
            "row %u, %s, temperature %g top_k %u top_p %.9g: border %.9g id %u (%.9g id %u "
            "wanted)",
            number, s->scan->name, (double)p->temperature, p->top_k, (double)p->top_p,
            (double)got.x, got.id, (double)want.x, want.id);
}

static void borders_of_top_k_and_top_p_are_the_defined_ranks(void **state)
{
    const float temperatures[] = {1, 0.7f, 0.05f, 30, 1e6f};
    const float shares[] = {0, 0.001f, 0.2f, 0.5f, 0.9f, 0.95f, 0.999f, 0.99999994f};
    const uint32_t counts[] = {1, 2, 7, 40, 46, 47, 48, 500, VOCAB - 1};
    struct sampler *s[2];

    (void)state;
    make_samplers(s, VOCAB);
    for (uint32_t n = 0; n < 60; n++) {
        make_row(n);
        for (uint32_t i = 0; i < 17; i++) {
            struct lr_sampling p = {.temperature = temperatures[(n + i) % 5], .top_p = 1};
            if (i < 8 || n % 2 != 0)
                p.top_p = shares[i % 8];
            if (i >= 8)
                p.top_k = counts[i - 8];
            check_border(s[0], n, &p);
            check_border(s[1], n, &p);
        }
    }
    sampler_destroy(s[0]);
    sampler_destroy(s[1]);
}

static void equal_rows_are_cut_at_the_exact_share(void **state)
{
    struct sampler *s[2];

    (void)state;
    make_samplers(s, VOCAB);
    memset(usable, 0xFF, sizeof(usable));
    for (uint32_t i = 0; i < VOCAB; i++)
        logits[i] = -3.25f;
    for (int k = 0; k < 2; k++) {
        const struct scan_row row = filled(s[k], 0.3f);
        struct lr_sampling p = {.top_p = 0.5f}; /* exactly half of the ids */
        assert_int_equal(sampler_filter(s[k], &row, &p).id, VOCAB / 2 - 1);
        p.top_p = 0.50000006f;
        assert_int_equal(sampler_filter(s[k], &row, &p).id, VOCAB / 2);
        p.top_k = 1001;
        p.top_p = 0.25f; /* of 1001: 250.25 */
        assert_int_equal(sampler_filter(s[k], &row, &p).id, 250);
        sampler_destroy(s[k]);
    }
}

static void weights_are_exp_to_ten_digits_and_one_at_zero(void **state)
{
    const struct scan_kernels *tables[] = {scan_kernels_plain(), scan_kernels_avx2()};
    static double sums[(SCAN_BUCKETS + 1) * SCAN_LANES];
    float block[SCAN_BLOCK];

    (void)state;
    for (int k = 0; k < 2 && tables[k] != NULL; k++) {
        for (int i = 0; i <= 36700; i++) {
            const struct scan_row row = {.values = block, .blocks = 1, .temperature = 1};
            const struct scan_tally t = {.low = SAMPLER_WEIGHTLESS,
                                         .least = SAMPLER_WEIGHTLESS,
                                         .weigh = true,
                                         .shift = 22,
                                         .sums = sums};
            double sum = 0;
            for (int j = 0; j < SCAN_BLOCK; j++)
                block[j] = -INFINITY;
            block[i % SCAN_BLOCK] = (float)i / -1000.0f;
            memset(sums, 0, sizeof(sums));
            tables[k]->tally(&row, &t);
            for (size_t j = 0; j < sizeof(sums) / sizeof(sums[0]); j++)
                sum += sums[j];
            double want = exp((double)block[i % SCAN_BLOCK]);
            assert_true(fabs(sum - want) <= 1.2e-10 * want);
            assert_true(i != 0 || sum == 1);
        }
    }
}

/* The loops over one row, mixed with values that do not count. */
static void plain_and_avx2_loops_give_the_same_bits(void **state)
{
    static double sums[2][(SCAN_BUCKETS + 1) * SCAN_LANES];
    static float x[2][BLOCKS * SCAN_BLOCK];
    static uint32_t ids[2][BLOCKS * SCAN_BLOCK];
    struct sampler *s[2];

    (void)state;
    make_samplers(s, VOCAB);
    for (uint32_t n = 0; n < 48; n++) {
        uint32_t found[2];
        make_row(n);
        for (uint32_t w = 0; w < WORDS; w++)
            usable[w] = w % 3 == 0 ? UINT32_MAX : (uint32_t)(uniform(w, n, 3) * 4294967296.0);
        for (int k = 0; k < 2; k++) {
            const struct scan_row row = filled(s[k], n % 2 == 0 ? 1 : 0.8f);
            const struct scan_tally t = {.low = n % 5 == 0 ? -2 : SAMPLER_WEIGHTLESS,
                                         .least = n % 3 == 0 ? -1 : SAMPLER_WEIGHTLESS,
                                         .weigh = n % 7 != 0,
                                         .base = 0x3A200000,
                                         .shift = 18,
                                         .sums = sums[k]};
            memset(sums[k], 0, sizeof(sums[k]));
            s[k]->scan->tally(&row, &t);
            found[k] = s[k]->scan->gather(&row, -3, -0.5f, x[k], ids[k]);
        }
        assert_memory_equal(s[0]->values, s[1]->values, BLOCKS * SCAN_BLOCK * sizeof(float));
        assert_memory_equal(s[0]->peaks, s[1]->peaks, BLOCKS * sizeof(float));
        assert_memory_equal(sums[0], sums[1], sizeof(sums[0]));
        assert_int_equal(found[0], found[1]);
        assert_memory_equal(x[0], x[1], found[0] * sizeof(float));
        assert_memory_equal(ids[0], ids[1], found[0] * sizeof(uint32_t));
    }
    sampler_destroy(s[0]);
    sampler_destroy(s[1]);
}

static void no_id_that_could_win_is_passed_over_and_few_others_are_looked_at(void **state)
{
    struct sampler *s[2];
    uint32_t could = 0, may[2] = {0, 0};

    (void)state;
    make_samplers(s, VOCAB);
    for (uint32_t n = 0; n < 60; n++) {
        make_row(n);
        for (int k = 0; k < 2; k++) {
            const struct scan_row row = filled(s[k], n % 2 == 0 ? 1 : 0.8f);
            struct scan_noise noise = {
                .seed = n * 0x123456789u, .index = n, .low = -12, .best = (float)(n % 10) - 2};
            scan_noise_keys(&noise);
            for (uint32_t b = 0; b < s[k]->blocks; b++) {
                uint32_t words[SCAN_BLOCK], want[4];
                uint64_t found = s[k]->scan->noise(&row, b, &noise, words);
                for (uint32_t i = 0; i < SCAN_BLOCK; i++) {
                    uint32_t id = b * SCAN_BLOCK + i;
                    float at = scan_x(&row, s[k]->values[id]);
                    sampler_philox(noise.seed, id / 4, noise.index, want);
                    bool wins =
                        at >= noise.low && at + sampler_gumbel(want[id % 4]) >= noise.best;
                    bool looked_at = (found >> i & 1) != 0;
                    assert_true(looked_at || !wins);
                    assert_true(!looked_at || words[i] == want[id % 4]);
                    could += wins && k == 0;
                    may[k] += looked_at;
                }
            }
        }
    }
    assert_true(could > 1000 && may[0] < could * 3 / 2 && may[1] < could * 3 / 2);
    sampler_destroy(s[0]);
    sampler_destroy(s[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(borders_of_top_k_and_top_p_are_the_defined_ranks),
        cmocka_unit_test(equal_rows_are_cut_at_the_exact_share),
        cmocka_unit_test(weights_are_exp_to_ten_digits_and_one_at_zero),
        cmocka_unit_test(plain_and_avx2_loops_give_the_same_bits),
        cmocka_unit_test(no_id_that_could_win_is_passed_over_and_few_others_are_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
