/* For every row and all parameters the token is the one that sampler.h defines: the loops over
 * parts of a row, with and without AVX2, are compared with a sampler that sorts everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "engines/sampler/state.h"
#include "tests/unit/sampler/oracle.h"

enum { LARGE = 201088, BIASES = 8, HISTORY = 40 };

/* One row and its sampling parameters, derived from one number. */
struct trial {
    uint32_t number, taken; /* number of this trial, and random words used so far */
    uint32_t vocab;
    float *logits;
    uint32_t *usable, *mask;
    uint32_t history[HISTORY];
    struct lr_logit_bias bias[BIASES];
    struct lr_sampling how;
    struct sampler_input sample;
};

static uint32_t word(struct trial *t)
{
    uint32_t out[4];

    sampler_philox(0x5eed, t->taken / 4, t->number, out);
    return out[t->taken++ % 4];
}

static uint32_t below(struct trial *t, uint32_t n)
{
    return (uint32_t)((uint64_t)word(t) * n >> 32);
}

static float uniform(struct trial *t)
{
    return (float)(word(t) >> 8) / 16777216.0f;
}

static float normal(struct trial *t)
{
    float a = 0;

    for (int i = 0; i < 12; i++)
        a += uniform(t);
    return a - 6;
}

/* A float of any exponent. */
static float any_size(struct trial *t)
{
    return ldexpf(uniform(t) - 0.5f, (int)below(t, 250) - 126);
}

static float odd_number(struct trial *t)
{
    const float odd[] = {NAN,   INFINITY, -INFINITY, -INFINITY, NAN,
                         3e38f, -3e38f,   -0.0f,     1e-42f};

    return odd[below(t, sizeof(odd) / sizeof(odd[0]))];
}

static void make_row(struct trial *t)
{
    uint32_t kind = below(t, 9), heads = 1 + below(t, 20);
    float size = uniform(t) * 6, step = ldexpf(1, -(int)below(t, 5));
    const bool coarse = t->vocab == LARGE; /* a sum of twelve for each value would take long */

    for (uint32_t i = 0; i < t->vocab; i++) {
        float x = (coarse ? uniform(t) * 6 - 3 : normal(t)) * size;
        switch (kind) {
        case 0:
            x = 1.5f;
            break;
        case 1:
            x = roundf(x / step) * step;
            break; /* ties everywhere */
        case 2:
            x = below(t, 2) != 0 ? 0 : -size;
            break; /* two values */
        case 3:
            x = any_size(t);
            break;
        case 4:
            x = 10 + ldexpf((float)below(t, 50), -20);
            break; /* neighbours in float32 */
        case 5:
            x = below(t, 50) == 0 ? odd_number(t) : x;
            break;
        case 6:
            x = -30 * uniform(t);
            break;
        default:
            break;
        }
        t->logits[i] = x;
    }
    if (kind >= 7) /* peaked */
        for (uint32_t i = 0; i < heads; i++)
            t->logits[below(t, t->vocab)] += 10 + 15 * uniform(t);
    if (below(t, 200) == 0)
        for (uint32_t i = 0; i < t->vocab; i++)
            t->logits[i] = below(t, 2) != 0 ? NAN : -INFINITY;
}

static void make_bits(struct trial *t, uint32_t *words, uint32_t kind)
{
    for (uint32_t w = 0; w < (t->vocab + 31) / 32; w++) {
        const uint32_t bits[] = {UINT32_MAX, word(t), below(t, 20) == 0 ? word(t) : 0, 0};
        words[w] = bits[kind];
    }
    if (kind == 3 && below(t, 2) != 0)
        words[below(t, (t->vocab + 31) / 32)] |= 1u << below(t, 32);
}

#define PICK(t, ...)                                                                           \
    ((const float[]){__VA_ARGS__}[below(t, sizeof((float[]){__VA_ARGS__}) / sizeof(float))])

static void make_how(struct trial *t)
{
    const uint32_t n = t->vocab;
    const uint32_t ks[] = {0,  0,     0,     1,     2, 5,     20,
                           50, n / 3, n / 2, n - 1, n, n + 3, below(t, n)};

    t->how = (struct lr_sampling){.size = sizeof(t->how),
                                  .seed = (uint64_t)word(t) << 32 | word(t),
                                  .temperature = PICK(t, 0, 1, 1, 1, 0.7f, 0.2f, 1.7f, 100,
                                                      1e-3f, 1e-30f, 1e20f, INFINITY),
                                  .top_k = ks[below(t, sizeof(ks) / sizeof(ks[0]))],
                                  .top_p = PICK(t, 1, 1, 0, 0.001f, 0.1f, 0.25f, 0.5f, 0.75f,
                                                0.9f, 0.95f, 0.999f, 0.99999994f),
                                  .min_p = PICK(t, 0, 0, 0, 0.01f, 0.1f, 0.5f, 1),
                                  .repetition_penalty = PICK(t, 1, 1, 0, 1.1f, 2, 0.5f),
                                  .presence_penalty = PICK(t, 0, 0, 0.5f, -2),
                                  .frequency_penalty = PICK(t, 0, 0, 0.3f, -1),
                                  .logprobs = below(t, 2),
                                  .top_logprobs = below(t, 3) == 0 ? below(t, 21) : 0};
    if (below(t, 4) == 0) {
        t->how.logit_bias = t->bias;
        t->how.logit_bias_count = below(t, BIASES + 1);
        for (uint32_t i = 0; i < BIASES; i++)
            t->bias[i] = (struct lr_logit_bias){below(t, n + 2), PICK(t, 1, -5, 30, -INFINITY)};
    }
    for (uint32_t i = 0; i < HISTORY; i++)
        t->history[i] = below(t, below(t, 2) != 0 ? n + 2 : 5);
    t->sample = (struct sampler_input){.sampling = &t->how,
                                       .index = below(t, 1000),
                                       .prompt_count = below(t, HISTORY),
                                       .history_count = below(t, HISTORY + 1),
                                       .history = t->history,
                                       .mask = below(t, 3) == 0 ? t->mask : NULL};
    make_bits(t, t->usable, below(t, 4) == 0 ? 1 + below(t, 2) : 0);
    make_bits(t, t->mask, below(t, 4));
}

static bool is_none(float logprob) /* for a row without numbers */
{
    return isnan(logprob) || logprob == INFINITY;
}

static bool close_to(float a, float b)
{
    return (is_none(a) && is_none(b)) || a == b || fabsf(a - b) <= 1e-6f * (1 + fabsf(b));
}

static void check(const struct trial *t, const char *loops, const struct sampler_result *want,
                  const struct sampler_result *got)
{
    bool same = got->id == want->id && got->top_count == want->top_count &&
                close_to(got->logprob, want->logprob);

    /* With NaN there is no order of the list. */
    for (uint32_t i = 0; i < got->top_count && same && !is_none(want->logprob); i++)
        same = got->top[i].token == want->top[i].token &&
               close_to(got->top[i].logprob, want->top[i].logprob);
    if (!same)
        fail_msg("trial %u of %u ids, %s: id %u (%u wanted), logprob %g (%g), %u listed (%u); "
                 "temperature %g top_k %u top_p %.9g min_p %g",
                 t->number, t->vocab, loops, got->id, want->id, (double)got->logprob,
                 (double)want->logprob, got->top_count, want->top_count,
                 (double)t->how.temperature, t->how.top_k, (double)t->how.top_p,
                 (double)t->how.min_p);
}

static void run_trials(uint32_t vocab, uint32_t first, uint32_t count)
{
    const struct scan_kernels *tables[] = {scan_kernels_plain(), scan_kernels_avx2()};
    struct sampler *samplers[2] = {NULL, NULL};
    uint32_t words = (vocab + 31) / 32;
    struct trial t = {.vocab = vocab};

    t.logits = calloc(vocab, sizeof(*t.logits));
    t.usable = calloc(words, sizeof(*t.usable));
    t.mask = calloc(words, sizeof(*t.mask));
    assert_true(t.logits != NULL && t.usable != NULL && t.mask != NULL);
    for (int k = 0; k < 2; k++)
        if (tables[k] != NULL)
            assert_non_null(samplers[k] = sampler_create_with(vocab, tables[k]));
    for (uint32_t i = 0; i < count; i++) {
        struct sampler_result want, got;
        t.number = first + i;
        t.taken = 0;
        make_row(&t);
        make_how(&t);
        oracle_sample(t.logits, vocab, t.usable, &t.sample, &want);
        for (int k = 0; k < 2; k++) {
            if (tables[k] == NULL)
                continue;
            sampler_sample(samplers[k], t.logits, t.usable, &t.sample, &got);
            check(&t, tables[k]->name, &want, &got);
        }
    }
    for (int k = 0; k < 2; k++)
        sampler_destroy(samplers[k]);
    free(t.logits);
    free(t.usable);
    free(t.mask);
}

static void small_rows_are_sampled_as_defined(void **state)
{
    const uint32_t sizes[] = {1, 2, 31, 32, 33, 63, 64, 65, 129, 200};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        run_trials(sizes[i], (uint32_t)i * 10000, 1500);
}

static void middling_rows_are_sampled_as_defined(void **state)
{
    (void)state;
    run_trials(1000, 200000, 1200);
    run_trials(4097, 300000, 150);
}

static void rows_of_gpt_oss_are_sampled_as_defined(void **state)
{
    (void)state;
    run_trials(LARGE, 400000, 40);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_rows_are_sampled_as_defined),
        cmocka_unit_test(middling_rows_are_sampled_as_defined),
        cmocka_unit_test(rows_of_gpt_oss_are_sampled_as_defined),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
