/* A sequence's logits do not depend on its neighbours: alone or with seven others, with any
 * number of threads, every bit is the same. */
#include "tests/unit/gptoss/support.h"

#include "engines/gptoss/backend/backend.h"

enum { SEQUENCES = 8, PAGES = 16 };

struct device {
    struct model_gptoss *weights;
    struct gptoss_plan plan;
    struct gptoss_backend *backend;
    uint32_t *usable;
};

static const char *extra; /* NULL, or the option for the plain kernels */

static void open_device(struct device *d, const char *dir, uint32_t threads)
{
    const struct gptoss_backend_api *api = gptoss_backend_cpu();
    const struct gptoss_backend_options options = {.device = "cpu",
                                                   .max_sequences = SEQUENCES,
                                                   .prefill_chunk = 256,
                                                   .threads = threads,
                                                   .extra_json = extra};
    const struct gptoss_backend_host host = {0};
    struct lr_error err = {0};

    assert_int_equal(model_gptoss_open(dir, NULL, &d->weights, &err), LR_OK);
    assert_int_equal(api->plan(&d->weights->config, &options, &d->plan, &err), LR_OK);
    size_t words = (d->weights->vocab_rows + 31) / 32;
    d->usable = calloc(words, sizeof(*d->usable));
    memset(d->usable, 0xFF, words * sizeof(*d->usable));
    assert_int_equal(
        api->open(&host, d->weights, d->usable, &options, &d->plan, &d->backend, &err), LR_OK);
}

static void close_device(struct device *d)
{
    gptoss_backend_cpu()->close(d->backend);
    model_gptoss_close(d->weights);
    free(d->usable);
}

/* Sequence n, with its own length, ids and pages. */
struct work {
    uint32_t ids[100];
    uint32_t full[PAGES], window[PAGES];
    uint32_t count;
};

static void make_work(struct work *w, uint32_t n, uint32_t vocab)
{
    w->count = 20 + n * 11;
    for (uint32_t i = 0; i < w->count; i++)
        w->ids[i] = (i * 7919 + n * 104729 + 13) % vocab;
    for (uint32_t i = 0; i < PAGES; i++) {
        w->full[i] = n * PAGES + i;
        w->window[i] = (SEQUENCES - 1 - n) * 4 + i % 4; /* few, and in another order */
    }
}

static struct gptoss_step step_of(struct work *w, uint32_t slot, uint32_t from, uint32_t count,
                                  float *logits)
{
    return (struct gptoss_step){
        .slot = slot,
        .position = from,
        .count = count,
        .page_count = PAGES,
        .tokens = w->ids + from,
        .full_pages = w->full,
        .window_pages = w->window,
        .logits = logits,
    };
}

static void forward(struct device *d, struct gptoss_step *steps, uint32_t count)
{
    struct gptoss_batch batch = {.steps = steps, .count = count};
    struct lr_error err = {0};

    for (uint32_t i = 0; i < count; i++)
        batch.tokens += steps[i].count;
    assert_int_equal(gptoss_backend_cpu()->forward(d->backend, &batch, &err), LR_OK);
}

/* Runs all eight together, in chunks of varying sizes. */
static void run_together(struct device *d, struct work *works, float **logits)
{
    uint32_t done[SEQUENCES] = {0}, vocab = d->weights->vocab_rows, live = SEQUENCES;

    for (uint32_t round = 0; live > 0; round++) {
        struct gptoss_step steps[SEQUENCES];
        uint32_t count = 0;
        live = 0;
        for (uint32_t n = 0; n < SEQUENCES; n++) {
            uint32_t left = works[n].count - done[n];
            uint32_t want = 1 + (round * 5 + n * 3) % 17, take = left < want ? left : want;
            if (take == 0)
                continue;
            steps[count++] =
                step_of(&works[n], n, done[n], take, logits[n] + (size_t)done[n] * vocab);
            done[n] += take;
            live++;
        }
        if (count > 0)
            forward(d, steps, count);
    }
}

static void check(const char *dir, uint32_t threads)
{
    struct device d;
    struct work works[SEQUENCES];
    float *together[SEQUENCES];

    open_device(&d, dir, threads);
    uint32_t vocab = d.weights->vocab_rows;
    for (uint32_t n = 0; n < SEQUENCES; n++) {
        make_work(&works[n], n, vocab);
        together[n] = calloc((size_t)works[n].count * vocab, sizeof(float));
    }
    run_together(&d, works, together);
    close_device(&d);

    open_device(&d, dir, 1);
    for (uint32_t n = 0; n < SEQUENCES; n++) {
        size_t bytes = (size_t)works[n].count * vocab * sizeof(float);
        float *alone = calloc(1, bytes);
        struct gptoss_step step = step_of(&works[n], 0, 0, works[n].count, alone);
        forward(&d, &step, 1);
        assert_memory_equal(alone, together[n], bytes);
        free(alone);
        free(together[n]);
    }
    close_device(&d);
}

static void logits_are_bitwise_the_same_alone_and_among_seven_others(void **state)
{
    (void)state;
    check(DEMO_MODEL, 2);
    check(ODD_MODEL, 2);
}

static void logits_are_bitwise_the_same_with_five_threads(void **state)
{
    (void)state;
    check(ODD_MODEL, 5);
}

static void the_plain_kernels_are_as_invariant(void **state)
{
    (void)state;
    extra = "{\"kernels\": \"plain\"}";
    check(ODD_MODEL, 3);
    extra = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_are_bitwise_the_same_alone_and_among_seven_others),
        cmocka_unit_test(logits_are_bitwise_the_same_with_five_threads),
        cmocka_unit_test(the_plain_kernels_are_as_invariant),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
