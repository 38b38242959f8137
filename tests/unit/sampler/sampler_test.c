/* The next token is a pure function of seed, index, logits and history, as sampler.h defines
 * it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engines/sampler/sampler.h"

enum { VOCAB = 100 };

struct fixture {
    struct sampler *sampler;
    float logits[VOCAB];
    uint32_t usable[(VOCAB + 31) / 32];
    struct lr_sampling how;
    uint32_t history[64];
    struct sampler_input sample;
    struct sampler_result out;
};

static void start(struct fixture *b)
{
    memset(b, 0, sizeof(*b));
    b->sampler = sampler_create(VOCAB);
    assert_non_null(b->sampler);
    memset(b->usable, 0xFF, sizeof(b->usable));
    for (int i = 0; i < VOCAB; i++)
        b->logits[i] = -60.0f;
    b->how = (struct lr_sampling){
        .size = sizeof(b->how), .temperature = 1, .top_p = 1, .repetition_penalty = 1};
    b->sample = (struct sampler_input){.sampling = &b->how, .history = b->history};
}

static uint32_t sample(struct fixture *b)
{
    sampler_sample(b->sampler, b->logits, b->usable, &b->sample, &b->out);
    return b->out.id;
}

/* How often each of the first n ids is sampled in 20,000 tries. */
static void frequencies(struct fixture *b, double *share, uint32_t n)
{
    enum { SAMPLES = 20000 };

    memset(share, 0, n * sizeof(*share));
    for (uint32_t i = 0; i < SAMPLES; i++) {
        b->sample.index = i;
        uint32_t id = sample(b);
        assert_true(id < n);
        share[id] += 1.0 / SAMPLES;
    }
}

static void philox_gives_the_published_numbers(void **state)
{
    uint32_t out[4];

    /* Random123's known answer for counter 0 and key 0. */
    const uint32_t want[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    (void)state;
    sampler_philox(0, 0, 0, out);
    assert_memory_equal(out, want, sizeof(want));
}

static void greedy_takes_the_largest_and_the_lowest_of_equals(void **state)
{
    struct fixture b;

    (void)state;
    start(&b);
    b.how.temperature = 0;
    b.logits[40] = b.logits[7] = 3.0f;
    assert_int_equal(sample(&b), 7);
    b.usable[0] &= ~(1u << 7); /* a row without a token */
    assert_int_equal(sample(&b), 40);
    sampler_destroy(b.sampler);
}

static void sampling_follows_the_softmax_at_the_temperature(void **state)
{
    struct fixture b;
    double share[4], total = 0;

    (void)state;
    start(&b);
    for (int i = 0; i < 4; i++)
        b.logits[i] = (float)i;
    b.how.temperature = 2.0f;
    frequencies(&b, share, 4);
    for (int i = 0; i < 4; i++)
        total += exp(i / 2.0);
    for (int i = 0; i < 4; i++)
        assert_true(fabs(share[i] - exp(i / 2.0) / total) < 0.015);
    sampler_destroy(b.sampler);
}

static void the_same_seed_and_index_give_the_same_token_and_others_differ(void **state)
{
    struct fixture b;
    uint32_t first[50], same_seed = 0, other_seed = 0;

    (void)state;
    start(&b);
    for (int i = 0; i < VOCAB; i++)
        b.logits[i] = 0.0f;
    for (uint32_t i = 0; i < 50; i++) {
        b.sample.index = i;
        first[i] = sample(&b);
    }
    for (uint32_t i = 50; i-- > 0;) { /* in another order: no state is kept */
        b.sample.index = i;
        b.how.seed = 0;
        same_seed += sample(&b) == first[i];
        b.how.seed = (uint64_t)1 << 40;
        other_seed += sample(&b) == first[i];
    }
    assert_int_equal(same_seed, 50);
    assert_true(other_seed < 10);
    sampler_destroy(b.sampler);
}

static void filters_keep_what_they_say(void **state)
{
    struct fixture b;
    double share[8];

    (void)state;
    start(&b);
    for (int i = 0; i < 8; i++)
        b.logits[i] = logf((float)(8 - i)); /* weights 8 7 6 5 4 3 2 1 of 36 */
    for (int i = 8; i < VOCAB; i++)
        b.logits[i] = -INFINITY;

    b.how.top_k = 3;
    frequencies(&b, share, 8);
    assert_true(fabs(share[0] - 8.0 / 21) < 0.015 && fabs(share[2] - 6.0 / 21) < 0.015);
    assert_true(share[3] == 0 && share[7] == 0);

    b.how.top_k = 0;
    b.how.top_p = 0.5f; /* 8 + 7 < 18 <= 8 + 7 + 6 */
    frequencies(&b, share, 8);
    assert_true(share[2] > 0.25 && share[3] == 0);

    b.how.top_k = 3;
    b.how.top_p = 0.6f; /* of 21: 8 < 12.6 <= 8 + 7 */
    frequencies(&b, share, 8);
    assert_true(share[1] > 0.4 && share[2] == 0);

    b.how.top_k = 0;
    b.how.top_p = 1;
    b.how.min_p = 0.6f; /* of the largest, 8: 4.8 */
    frequencies(&b, share, 8);
    assert_true(share[3] > 0.1 && share[4] == 0);

    b.how.min_p = 0;
    b.how.top_p = 0; /* never fewer than one */
    frequencies(&b, share, 8);
    assert_true(share[0] > 0.99);
    sampler_destroy(b.sampler);
}

static void top_k_breaks_ties_by_the_lowest_id(void **state)
{
    struct fixture b;
    double share[VOCAB];

    (void)state;
    start(&b);
    for (int i = 0; i < VOCAB; i++)
        b.logits[i] = 1.0f;
    b.how.top_k = 2;
    frequencies(&b, share, VOCAB);
    assert_true(fabs(share[0] + share[1] - 1) < 1e-9 && share[0] > 0.4 && share[1] > 0.4);
    sampler_destroy(b.sampler);
}

static void penalties_count_prompt_and_generated_as_defined(void **state)
{
    struct fixture b;

    (void)state;
    start(&b);
    b.how.temperature = 0;
    b.logits[1] = 4.0f;
    b.logits[2] = 3.5f;
    b.logits[3] = 3.0f;
    b.history[0] = 1; /* prompt */
    b.history[1] = 2; /* generated, twice */
    b.history[2] = 2;
    b.sample.prompt_count = 1;
    b.sample.history_count = 3;
    assert_int_equal(sample(&b), 1);

    b.how.repetition_penalty = 2.0f; /* 1 and 2 are halved: 3 wins */
    assert_int_equal(sample(&b), 3);
    b.how.repetition_penalty = 1.0f;
    b.logits[1] = -60.0f;
    b.how.presence_penalty = 0.4f; /* 3.5 - 0.4 still wins */
    assert_int_equal(sample(&b), 2);
    b.how.frequency_penalty = 0.1f; /* - 2 * 0.1: 2.9 < 3 */
    assert_int_equal(sample(&b), 3);
    assert_int_equal(sample(&b), 3); /* no state is left from the previous call */
    const struct lr_logit_bias bias[] = {{2, 0.2f}, {3, -1.0f}, {5000, 1.0f}};
    b.how.logit_bias = bias;
    b.how.logit_bias_count = 3;
    assert_int_equal(sample(&b), 2);
    sampler_destroy(b.sampler);
}

static void a_mask_is_obeyed_and_an_empty_one_does_not_hang(void **state)
{
    struct fixture b;
    uint32_t mask[(VOCAB + 31) / 32] = {0};

    (void)state;
    start(&b);
    b.logits[9] = 10.0f;
    b.sample.mask = mask;
    mask[2] = 1u << 3; /* 67 alone */
    for (uint32_t i = 0; i < 50; i++) {
        b.sample.index = i;
        assert_int_equal(sample(&b), 67);
    }
    mask[2] = 0;
    assert_int_equal(sample(&b), 9);
    sampler_destroy(b.sampler);
}

static void log_probabilities_are_the_models_own(void **state)
{
    struct fixture b;
    double total = 0;

    (void)state;
    start(&b);
    for (int i = 0; i < VOCAB; i++) {
        b.logits[i] = (float)((i * 37) % VOCAB) / 20.0f;
        total += exp((double)b.logits[i]);
    }
    b.how.logprobs = 1;
    b.how.top_logprobs = 5;
    b.how.temperature = 0.3f; /* none of these changes the reported values */
    b.how.top_k = 2;
    uint32_t id = sample(&b);
    assert_true(fabs((double)b.out.logprob - ((double)b.logits[id] - log(total))) < 1e-5);
    assert_int_equal(b.out.top_count, 5);
    for (uint32_t i = 0; i < 5; i++) {
        double want = (double)(VOCAB - 1 - i) / 20.0 - log(total);
        assert_true(fabs((double)b.out.top[i].logprob - want) < 1e-5);
        assert_int_equal((b.out.top[i].token * 37) % VOCAB, VOCAB - 1 - i);
    }
    sampler_destroy(b.sampler);
}

static void rows_that_are_not_numbers_still_give_a_token(void **state)
{
    struct fixture b;

    (void)state;
    start(&b);
    for (int i = 0; i < VOCAB; i++)
        b.logits[i] = NAN;
    b.how.logprobs = 1;
    b.how.top_logprobs = 20;
    assert_true(sample(&b) < VOCAB);
    b.how.top_k = 5;
    b.how.top_p = 0.9f;
    b.logits[3] = INFINITY;
    assert_true(sample(&b) < VOCAB);
    sampler_destroy(b.sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_published_numbers),
        cmocka_unit_test(greedy_takes_the_largest_and_the_lowest_of_equals),
        cmocka_unit_test(sampling_follows_the_softmax_at_the_temperature),
        cmocka_unit_test(the_same_seed_and_index_give_the_same_token_and_others_differ),
        cmocka_unit_test(filters_keep_what_they_say),
        cmocka_unit_test(top_k_breaks_ties_by_the_lowest_id),
        cmocka_unit_test(penalties_count_prompt_and_generated_as_defined),
        cmocka_unit_test(a_mask_is_obeyed_and_an_empty_one_does_not_hang),
        cmocka_unit_test(log_probabilities_are_the_models_own),
        cmocka_unit_test(rows_that_are_not_numbers_still_give_a_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
