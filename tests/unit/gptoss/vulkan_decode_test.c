/* A decode step of more than GPU_FEW rows on Vulkan gives the tokens of the CPU device, and
 * writes the keys and values that the CPU device writes.  Runs on lavapipe. */
#include "tests/unit/gptoss/support.h"

#include <math.h>

#include "engines/gptoss/backend/gpu/gpu.h"

/* lavapipe does not free everything. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libvulkan_lvp.so\nleak:libLLVM\n";
}

enum { SEQUENCES = GPU_KEPT_ROWS, CONTEXT = 64, TABLE = CONTEXT / GPU_PAGE_TOKENS };
enum { PROMPT_MAX = 31, PROMPTS = 4 }; /* so many prompts at a time */

struct device {
    const struct gptoss_backend_api *api;
    struct gptoss_backend *backend;
};

struct sequence {
    uint32_t position;
    uint32_t ids[PROMPT_MAX]; /* of the next step */
    uint32_t full[TABLE], window[TABLE];
    struct lr_sampling sampling;
    struct sampler_input input;
};

static struct model_gptoss *model;
static uint32_t *usable;
static struct device vulkan, cpu;
static struct sequence sequences[SEQUENCES];
static float *vulkan_logits, *cpu_logits; /* of SEQUENCES rows */

/* ---- both devices ---- */

static void open_device(struct device *d, const char *name,
                        const struct gptoss_backend_api *api)
{
    const struct gptoss_backend_options options = {.device = name,
                                                   .max_sequences = SEQUENCES,
                                                   .max_context = CONTEXT,
                                                   .kv_tokens = SEQUENCES * CONTEXT,
                                                   .prefill_chunk = PROMPTS * PROMPT_MAX,
                                                   .threads = 2,
                                                   .extra_json = "{\"kernels\": \"late\"}"};
    const struct gptoss_backend_host host = {0};
    struct gptoss_plan plan;
    struct lr_error err = {0};

    d->api = api;
    if (api->plan(&model->config, &options, &plan, &err) != LR_OK ||
        api->open(&host, model, usable, &options, &plan, &d->backend, &err) != LR_OK)
        fail_msg("%s: %s", name, err.text);
    assert_int_equal(plan.page_tokens, GPU_PAGE_TOKENS);
    assert_true(plan.full_pages >= SEQUENCES * TABLE && plan.window_pages >= SEQUENCES * TABLE);
}

static int open_both(void **state)
{
    struct lr_error err = {0};

    (void)state;
    assert_int_equal(setenv("VK_ICD_FILENAMES", LR_LAVAPIPE, 1), 0);
    if (!lr_file_exists(LR_LAVAPIPE))
        fail_msg("lavapipe is not installed: run tools/setup test");
    assert_int_equal(model_gptoss_open(ODD_MODEL, NULL, &model, &err), LR_OK);
    size_t words = (model->vocab_rows + 31) / 32;
    usable = malloc(words * sizeof(*usable));
    vulkan_logits = calloc((size_t)SEQUENCES * model->vocab_rows, sizeof(float));
    cpu_logits = calloc((size_t)SEQUENCES * model->vocab_rows, sizeof(float));
    assert_true(usable != NULL && vulkan_logits != NULL && cpu_logits != NULL);
    memset(usable, 0xFF, words * sizeof(*usable));
    open_device(&vulkan, "vulkan:0", gptoss_backend_vulkan());
    open_device(&cpu, "cpu", gptoss_backend_cpu());
    return 0;
}

static int close_both(void **state)
{
    (void)state;
    vulkan.api->close(vulkan.backend);
    cpu.api->close(cpu.backend);
    model_gptoss_close(model);
    free(usable);
    free(vulkan_logits);
    free(cpu_logits);
    return 0;
}

static void must_forward(const struct device *d, struct gptoss_step *steps, uint32_t count)
{
    struct gptoss_batch batch = {.steps = steps, .count = count};
    struct lr_error err = {0};

    for (uint32_t i = 0; i < count; i++)
        batch.tokens += steps[i].count;
    if (d->api->forward(d->backend, &batch, &err) != LR_OK)
        fail_msg("%s: %s", d->api->name, err.text);
}

/* ---- steps ---- */

static uint32_t next_id(void)
{
    static uint32_t seed = 1;

    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % model->vocab_rows;
}

/* The next `count` tokens of a sequence. */
static struct gptoss_step step_of(uint32_t slot, uint32_t count)
{
    struct sequence *s = &sequences[slot];
    struct gptoss_step step = {.slot = slot,
                               .position = s->position,
                               .count = count,
                               .page_count = TABLE,
                               .tokens = s->ids,
                               .full_pages = s->full,
                               .window_pages = s->window};

    for (uint32_t i = 0; i < count; i++)
        s->ids[i] = next_id();
    s->position += count;
    assert_true(s->position <= CONTEXT);
    return step;
}

/* Prompts of 2 to 31 tokens, so that sequences are within and beyond the window of 16, and go
 * on on their second page. */
static void compute_prompts(void)
{
    for (uint32_t first = 0; first < SEQUENCES; first += PROMPTS) {
        struct gptoss_step steps[PROMPTS];
        for (uint32_t i = 0; i < PROMPTS; i++) {
            struct sequence *s = &sequences[first + i];
            s->position = 0;
            for (uint32_t j = 0; j < TABLE; j++) {
                s->full[j] = (SEQUENCES - 1 - first - i) * TABLE + j;
                s->window[j] = j * SEQUENCES + first + i;
            }
            steps[i] = step_of(first + i, 2 + (first + i) * 7 % (PROMPT_MAX - 1));
        }
        must_forward(&vulkan, steps, PROMPTS);
        must_forward(&cpu, steps, PROMPTS);
    }
}

/* One token of `rows` sequences, in another order than that of their slots. */
static void next_tokens(struct gptoss_step *steps, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++)
        steps[i] = step_of((i * 37 + rows) % SEQUENCES, 1);
}

/* A third of the rows each: greedy, with noise, and on the host, which tells the log
 * probability. */
static void set_sampling(struct gptoss_step *steps, uint32_t rows)
{
    for (uint32_t i = 0; i < rows; i++) {
        struct sequence *s = &sequences[steps[i].slot];
        s->sampling = (struct lr_sampling){.temperature = i % 3 == 1 ? 0.7f : 0,
                                           .top_p = 1,
                                           .repetition_penalty = 1,
                                           .seed = 100 + i,
                                           .logprobs = i % 3 == 2};
        s->input = (struct sampler_input){.sampling = &s->sampling, .index = i};
        steps[i].sample = &s->input;
    }
}

/* What the greatest of is sampled, by the CPU device's logits. */
static float score(const struct gptoss_step *step, const float *logits, uint32_t id)
{
    uint32_t words[4];

    if (step->sample->sampling->temperature == 0)
        return logits[id];
    sampler_philox(step->sample->sampling->seed, id / 4, step->sample->index, words);
    return logits[id] / step->sample->sampling->temperature + sampler_gumbel(words[id % 4]);
}

/* The token of the CPU device, or one beside it within the rounding. */
static void compare_token(const struct gptoss_step *step, uint32_t row, uint32_t rows,
                          const struct sampler_result *got,
                          const struct sampler_result *expected)
{
    const float *logits = cpu_logits + (size_t)row * model->vocab_rows;

    assert_true(got->id < model->vocab_rows);
    if (score(step, logits, expected->id) - score(step, logits, got->id) > 1e-3f)
        fail_msg("row %u of %u: token %u, and not %u", row, rows, got->id, expected->id);
    if (fabsf(got->logprob - expected->logprob) > 1e-3f)
        fail_msg("row %u of %u: log probability %g, and not %g", row, rows,
                 (double)got->logprob, (double)expected->logprob);
}

static void decode(uint32_t rows)
{
    struct gptoss_step steps[SEQUENCES];
    struct sampler_result got[SEQUENCES] = {0}, expected[SEQUENCES] = {0};

    next_tokens(steps, rows);
    set_sampling(steps, rows);
    for (uint32_t i = 0; i < rows; i++)
        steps[i].sampled = &got[i];
    vulkan.backend->pace[0] = 1e-9; /* a slow device computes a step in pieces */
    must_forward(&vulkan, steps, rows);
    for (uint32_t i = 0; i < rows; i++) {
        steps[i].sampled = &expected[i];
        steps[i].logits = cpu_logits + (size_t)i * model->vocab_rows;
    }
    must_forward(&cpu, steps, rows);
    for (uint32_t i = 0; i < rows; i++)
        compare_token(&steps[i], i, rows, &got[i], &expected[i]);
}

static double relative_error(const float *a, const float *b, size_t n)
{
    double difference = 0, norm = 0;

    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

/* The logits after one more token, which reads what the decode steps have written. */
static void compare_logits(uint32_t rows)
{
    struct gptoss_step steps[SEQUENCES];
    size_t vocab = model->vocab_rows;

    next_tokens(steps, rows);
    for (uint32_t i = 0; i < rows; i++)
        steps[i].logits = vulkan_logits + i * vocab;
    must_forward(&vulkan, steps, rows);
    for (uint32_t i = 0; i < rows; i++)
        steps[i].logits = cpu_logits + i * vocab;
    must_forward(&cpu, steps, rows);
    for (uint32_t i = 0; i < rows; i++) {
        double e = relative_error(vulkan_logits + i * vocab, cpu_logits + i * vocab, vocab);
        if (!(e <= 1e-3))
            fail_msg("row %u of %u: relative error %g", i, rows, e);
    }
}

static void a_decode_step_of_many_rows_gives_the_results_of_the_cpu_device(void **state)
{
    static const uint32_t sizes[] = {GPU_FEW + 1, 17, 33, GPU_KEPT_ROWS};

    (void)state;
    compute_prompts();
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        decode(sizes[i]);
        /* Recorded once, and submitted again. */
        assert_int_equal(vulkan.backend->kept_count, i + 1);
        decode(sizes[i]);
        assert_int_equal(vulkan.backend->kept_count, i + 1);
        compare_logits(sizes[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_decode_step_of_many_rows_gives_the_results_of_the_cpu_device),
    };
    return cmocka_run_group_tests(tests, open_both, close_both);
}
