/* tests/gpu/kernels_filtered.c - the sampling of sample_filtered.cu compared with the host's
 * sampler: rows and parameters of every kind, the same tokens and log probabilities.
 *
 * logf may differ in its last bit between host and device, and sums by what sampler.h allows:
 * such a row may differ, less than once in 10,000.  The number of differences is printed.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/fixture.h"

enum { ROWS = 64, HISTORY_MAX = 5000, BIASES_MAX = 300 };

/* A row's sampling parameters and the memory they point to. */
struct trial {
    struct lr_sampling sampling;
    struct sampler_input how;
    struct lr_logit_bias bias[BIASES_MAX];
    uint32_t history[HISTORY_MAX];
    uint32_t *mask;
    bool odd;     /* cases for the host: NaN, an empty mask */
    uint32_t row; /* of the logits */
    bool made;    /* sampled on the device */
    struct sampler *sampler;
    struct sampler_result got, want;
};

struct trials {
    struct fixture fixture;
    uint32_t vocab;
    float *logits; /* [ROWS][stride] */
    bool odd[ROWS];
    struct trial *trial; /* [ROWS] */
};

static float between(struct test_random *r, double low, double high)
{
    return (float)(low + (high - low) * (double)test_random_below(r, 1 << 24) / (1 << 24));
}

#define PICK(r, ...)                                                                           \
    ((const float[]){                                                                          \
        __VA_ARGS__}[test_random_below(r, sizeof((float[]){__VA_ARGS__}) / sizeof(float))])

static void make_row(struct trials *t, struct test_random *r, uint32_t row)
{
    float *l = t->logits + (size_t)row * t->fixture.b->logit_stride;
    uint32_t kind = test_random_below(r, 9);
    double size = between(r, 0.1, 6);
    t->odd[row] = kind == 8;
    for (uint32_t i = 0; i < t->vocab; i++)
        l[i] = kind == 0   ? 1.5f                                    /* all equal */
               : kind == 1 ? (float)test_random_below(r, 40) * 0.25f /* many equal */
               : kind == 2 ? (test_random_below(r, 2) != 0 ? 0 : -(float)size)
               : kind == 3 ? between(r, -30, 0)
               : kind == 4 ? 10 + ldexpf((float)test_random_below(r, 50), -20) /* neighbours */
                           : between(r, -3, 3) * (float)size;
    for (uint32_t i = 0; kind >= 5 && kind <= 6 && i < 20; i++) /* peaked */
        l[test_random_below(r, t->vocab)] += between(r, 5, 25);
    for (uint32_t i = 0; kind == 8 && i < t->vocab / 50 + 1; i++)
        l[test_random_below(r, t->vocab)] = PICK(r, NAN, INFINITY, -INFINITY, -INFINITY, 3e38f);
}

static void make_mask(struct trials *t, struct test_random *r, struct trial *x)
{
    uint32_t kind = test_random_below(r, 8), words = (t->vocab + 31) / 32;
    for (uint32_t w = 0; w < words; w++)
        x->mask[w] = kind == 4   ? (uint32_t)test_random_bits(r)
                     : kind == 5 ? (test_random_below(r, 20) == 0 ? 0x10010u : 0)
                                 : 0;
    if (kind == 6) /* one id */
        x->mask[test_random_below(r, words)] = 1u << test_random_below(r, 32);
    x->how.mask = kind >= 4 ? x->mask : NULL;
    x->odd = x->odd || kind >= 5;
}

static void make_edits(struct trials *t, struct test_random *r, struct trial *x)
{
    uint32_t most = test_random_below(r, 2) != 0 ? 40 : HISTORY_MAX;
    uint32_t ids = test_random_below(r, 2) != 0 ? t->vocab + 2 : 50;
    x->how.history = x->history;
    x->how.history_count = test_random_below(r, most + 1);
    x->how.prompt_count = test_random_below(r, x->how.history_count + 1);
    for (uint32_t i = 0; i < x->how.history_count; i++)
        x->history[i] = test_random_below(r, ids);
    x->sampling.logit_bias = x->bias;
    x->sampling.logit_bias_count =
        test_random_below(r, 3) == 0 ? test_random_below(r, BIASES_MAX + 1) : 0;
    uint32_t step = t->vocab / (BIASES_MAX + 1);
    for (uint32_t i = 0; i < x->sampling.logit_bias_count; i++)
        x->bias[i] = (struct lr_logit_bias){i * step + test_random_below(r, step),
                                            PICK(r, 1, -5, 30, -100, 0.1f)};
}

static void make_trial(struct trials *t, struct test_random *r, uint32_t row)
{
    struct trial *x = &t->trial[row];
    static const uint32_t ks[] = {0, 0, 0, 1, 2, 5, 20, 50, 1000, 1 << 30};
    x->row = row;
    x->odd = t->odd[row];
    x->sampling = (struct lr_sampling){
        .size = sizeof(x->sampling),
        .seed = test_random_bits(r),
        .temperature = PICK(r, 0, 1, 1, 1, 0.7f, 0.2f, 1.5f, 2),
        .top_k = ks[test_random_below(r, sizeof(ks) / sizeof(ks[0]))],
        .top_p = PICK(r, 1, 1, 0, 0.01f, 0.5f, 0.75f, 0.9f, 0.95f, 0.99f, 0.9999f),
        .min_p = PICK(r, 0, 0, 0, 0.01f, 0.1f, 0.5f),
        .repetition_penalty = PICK(r, 1, 1, 0, 1.1f, 1.7f, 0.5f),
        .presence_penalty = PICK(r, 0, 0, 0.5f, -2),
        .frequency_penalty = PICK(r, 0, 0, 0.3f, -0.1f),
        .logprobs = test_random_below(r, 2),
        .top_logprobs = test_random_below(r, 3) == 0 ? test_random_below(r, 21) : 0};
    x->how =
        (struct sampler_input){.sampling = &x->sampling, .index = test_random_below(r, 100000)};
    make_mask(t, r, x);
    make_edits(t, r, x);
}

static void sample_on_host(void *ctx, uint32_t i)
{
    struct trials *t = ctx;
    struct trial *x = &t->trial[i];
    sampler_sample(x->sampler, t->logits + (size_t)x->row * t->fixture.b->logit_stride,
                   t->fixture.b->usable, &x->how, &x->want);
}

/* Samples the trials 0 .. count - 1 from the rows they name. */
static void sample_on_device(struct trials *t, uint32_t count)
{
    struct gptoss_backend *b = t->fixture.b;
    uint32_t place[ROWS];
    struct lr_error err = {0};
    cuda_filter_begin(b);
    for (uint32_t i = 0; i < count; i++) {
        place[i] = b->filters.count;
        t->trial[i].made = cuda_filter_add(b, &t->trial[i].how, t->trial[i].row);
    }
    memset(b->sampled, 0xFF, sizeof(*b->sampled));
    test_must(cuda_filter_copy(b, &err), &err, "copy of the rows");
    test_must(cuda_filter_launch(b, &err), &err, "sampling");
    (void)b->cu->cuStreamSynchronize(b->stream);
    for (uint32_t i = 0; i < count; i++)
        if (t->trial[i].made)
            t->trial[i].made = cuda_filter_read(b, place[i], &t->trial[i].got);
}

struct tally {
    uint32_t made,
        left; /* sampled on the device; left to the host though the device should sample */
    uint32_t parted; /* different tokens */
    uint32_t lists;  /* log probabilities that do not belong to the token */
};

static bool is_near(float a, float b)
{
    return fabsf(a - b) <= 1e-6f * (1 + fabsf(b));
}

static void judge(const struct trial *x, struct tally *n)
{
    bool listed = x->got.top_count == x->want.top_count;
    n->left += !x->made && !x->odd;
    n->made += x->made;
    if (!x->made)
        return;
    if (x->got.id != x->want.id) {
        n->parted++;
        printf("     parted: %u, the host %u; temperature %g top_k %u top_p %g min_p %g\n",
               x->got.id, x->want.id, (double)x->sampling.temperature, x->sampling.top_k,
               (double)x->sampling.top_p, (double)x->sampling.min_p);
    } else {
        listed = listed && is_near(x->got.logprob, x->want.logprob);
    }
    for (uint32_t i = 0; i < x->got.top_count && listed; i++)
        listed = x->got.top[i].token == x->want.top[i].token &&
                 is_near(x->got.top[i].logprob, x->want.top[i].logprob);
    n->lists += !listed;
}

static void open_trials(struct trials *t, uint32_t vocab)
{
    t->vocab = vocab;
    fixture_open_vocabulary(&t->fixture, vocab, 7);
    t->logits = test_alloc((size_t)ROWS * t->fixture.b->logit_stride, 4);
    t->trial = test_alloc(ROWS, sizeof(*t->trial));
    for (uint32_t i = 0; i < ROWS; i++) {
        t->trial[i].mask = test_alloc((vocab + 31) / 32, 4);
        t->trial[i].sampler = sampler_create(vocab);
    }
}

static void close_trials(struct trials *t)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        free(t->trial[i].mask);
        sampler_destroy(t->trial[i].sampler);
    }
    free(t->trial);
    free(t->logits);
    fixture_close(&t->fixture);
}

/* `sets` times 64 rows, each sampled in `ways` ways. */
static void run_trials(uint32_t vocab, uint32_t sets, uint32_t ways, struct test_random *r)
{
    struct trials t;
    struct tally n = {0};
    uint32_t again = 0;
    open_trials(&t, vocab);
    if (!t.fixture.b->filters.has) {
        printf("     no sampling with filters of %u ids on this GPU, so not tested\n", vocab);
        close_trials(&t);
        return;
    }
    for (uint32_t s = 0; s < sets * ways; s++) {
        for (uint32_t i = 0; s % ways == 0 && i < ROWS; i++)
            make_row(&t, r, i);
        if (s % ways == 0)
            fixture_put(&t.fixture, t.fixture.b->ws.logits, t.logits,
                        (size_t)ROWS * t.fixture.b->logit_stride * 4);
        for (uint32_t i = 0; i < ROWS; i++)
            make_trial(&t, r, i);
        test_parallel(ROWS, sample_on_host, &t);
        sample_on_device(&t, ROWS);
        for (uint32_t i = 0; i < ROWS; i++)
            judge(&t.trial[i], &n);
        /* The first row alone: the same bits as with other rows. */
        struct trial first = t.trial[0];
        sample_on_device(&t, 1);
        again += first.made != t.trial[0].made ||
                 (first.made && memcmp(&first.got, &t.trial[0].got, sizeof(first.got)) != 0);
    }
    test_check(n.parted, (double)n.made / 10000,
               "filtered sampling: %u of %u ids, other tokens", n.made, vocab);
    test_check(n.lists, 0, "filtered sampling: %u ids, other log probabilities", vocab);
    test_check(n.left, 0, "filtered sampling: %u ids, left to the host without need", vocab);
    test_check(again, 0, "filtered sampling: %u ids, otherwise alone than with 63 others",
               vocab);
    close_trials(&t);
}

void test_filtered(struct test_random *r)
{
    run_trials(517, 100, 2, r);
    run_trials(5001, 100, 4, r);
    run_trials(201088, 5, 4, r);
}
