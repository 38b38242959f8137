/* Every kernel for Vulkan and Metal computes what the CPU device computes, launch by launch,
 * for odd shapes, and writes nothing else.  Runs on lavapipe; LR_LONG=1: all shapes, and the
 * same launches by the Metal host over its stand-in. */
#include "tests/unit/gptoss/kernel_checks.h"

#include "base/os/library.h"

/* lavapipe does not free everything. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libvulkan_lvp.so\nleak:libLLVM\n";
}

enum { SEQUENCES = 8, CONTEXT = 512, CHUNK = 160, TABLE = CONTEXT / 32, LAYERS = 2 };

struct shape {
    uint32_t hidden, intermediate, heads, kv_heads, experts, chosen, vocab, window;
    const char *extra; /* options of the backend */
};

static const struct shape shapes[] = {
    {96, 160, 6, 2, 5, 2, 131, 33, "{\"kernels\": \"late\"}"},
    {64, 32, 2, 1, 3, 1, 67, 5, "{\"kernels\": \"late\"}"},
    {224, 96, 14, 2, 9, 4, 300, 64, "{\"kernels\": \"late\"}"},
    {160, 96, 24, 3, 17, 8, 515, 128, "{\"kernels\": \"late\"}"},
    {96, 160, 3, 3, 5, 3, 1000, 31, "{\"kernels\": \"late\"}"},
    /* matrices in parts */
    {224, 160, 3, 1, 80, 3, 3500, 31, "{\"binding_bytes\": 1100000, \"kernels\": \"late\"}"},
    {4128, 32, 1, 1, 2, 1, 24, 7, "{\"kernels\": \"late\"}"}, /* no path for few rows */
    {32, 32, 1, 1, 256, 8, 40, 3, "{\"kernels\": \"late\"}"},
};

/* ---- a model of random numbers ---- */

static uint32_t seed = 1;

static uint32_t next_word(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

struct made_model {
    struct model_gptoss model;
    struct model_gptoss_layer layers[LAYERS];
    void *owned[64];
    uint32_t owned_count;
    uint32_t *usable;
};

static void *keep(struct made_model *m, size_t bytes)
{
    void *p = calloc(bytes + 64, 1);

    assert_true(p != NULL && m->owned_count < 64);
    return m->owned[m->owned_count++] = p;
}

/* BF16 numbers of about that size. */
static const uint16_t *bf16s(struct made_model *m, size_t count, float size)
{
    uint16_t *out = keep(m, count * 2);

    for (size_t i = 0; i < count; i++) {
        float v = size * ((float)next_word() / 8388608.0f - 1.0f);
        out[i] = (uint16_t)(check_bits(v) >> 16);
    }
    return out;
}

static struct model_experts experts(struct made_model *m, uint32_t rows, uint32_t columns)
{
    size_t groups = (size_t)rows * (columns / 32), count = m->model.config.experts;
    uint8_t *blocks = keep(m, count * groups * 16), *scales = keep(m, count * groups);

    for (size_t i = 0; i < count * groups * 16; i++)
        blocks[i] = (uint8_t)next_word();
    for (size_t i = 0; i < count * groups; i++)
        scales[i] = (uint8_t)(119 + next_word() % 4);
    return (struct model_experts){.blocks = blocks,
                                  .scales = scales,
                                  .bias = bf16s(m, count * rows, 0.3f),
                                  .blocks_stride = groups * 16,
                                  .scales_stride = groups,
                                  .bias_stride = (uint64_t)rows * 2,
                                  .rows = rows,
                                  .columns = columns};
}

static void fill_layer(struct made_model *m, struct model_gptoss_layer *l)
{
    const struct model_config *c = &m->model.config;
    size_t q = (size_t)c->heads * 64, kv = (size_t)c->kv_heads * 64;
    float size = 1.7f / sqrtf((float)c->hidden);

    *l = (struct model_gptoss_layer){
        .attn_norm = bf16s(m, c->hidden, 1.5f),
        .q_weight = bf16s(m, q * c->hidden, size),
        .q_bias = bf16s(m, q, 0.4f),
        .k_weight = bf16s(m, kv * c->hidden, size),
        .k_bias = bf16s(m, kv, 0.4f),
        .v_weight = bf16s(m, kv * c->hidden, size),
        .v_bias = bf16s(m, kv, 0.4f),
        .o_weight = bf16s(m, c->hidden * q, 1.7f / sqrtf((float)q)),
        .o_bias = bf16s(m, c->hidden, 0.4f),
        .sinks = bf16s(m, c->heads, 2),
        .mlp_norm = bf16s(m, c->hidden, 1.5f),
        .router_weight = bf16s(m, (size_t)c->experts * c->hidden, size),
        .router_bias = bf16s(m, c->experts, 0.4f),
        .gate_up = experts(m, 2 * c->intermediate, c->hidden),
        .down = experts(m, c->hidden, c->intermediate),
    };
}

static void make_model(struct made_model *m, const struct shape *s)
{
    struct model_config *c = &m->model.config;
    struct lr_error err = {0};

    memset(m, 0, sizeof(*m));
    seed = 1;
    assert_int_equal(model_config_read(DEMO_MODEL, c, &err), LR_OK);
    c->layers = LAYERS;
    c->hidden = s->hidden;
    c->intermediate = s->intermediate;
    c->heads = s->heads;
    c->kv_heads = s->kv_heads;
    c->head_dim = 64;
    c->experts = s->experts;
    c->experts_per_token = s->chosen;
    c->vocab = s->vocab;
    c->window = s->window;
    c->context = CONTEXT;
    c->sliding[0] = true;
    c->sliding[1] = false;
    m->model.vocab_rows = s->vocab;
    m->model.embed = bf16s(m, (size_t)s->vocab * s->hidden, 1);
    m->model.norm = bf16s(m, s->hidden, 1.5f);
    m->model.unembed = bf16s(m, (size_t)s->vocab * s->hidden, 0.2f);
    for (uint32_t i = 0; i < LAYERS; i++)
        fill_layer(m, &m->layers[i]);
    m->model.layers = m->layers;
    m->model.source = "random";
    m->usable = keep(m, (s->vocab + 31) / 32 * 4);
    for (uint32_t i = 0; i < s->vocab; i++)
        if (i % 7 != 3)
            m->usable[i / 32] |= 1u << i % 32;
}

static void free_model(struct made_model *m)
{
    for (uint32_t i = 0; i < m->owned_count; i++)
        free(m->owned[i]);
}

/* ---- steps ---- */

/* What the sequences 0 .. 7 do in a step: so many tokens each. */
struct act {
    uint32_t counts[SEQUENCES];
    bool logits, samples;
};

static const struct act acts[] = {
    {{130}, true, false},
    {{CHUNK}, false, true},
    {{1}, false, true}, /* over four parts of the keys */
    {{1}, true, true},
    {{0, 9}, true, false},
    {{0, 1, 16}, true, true},
    {{0, 1, 1}, false, true},
    {{0, 0, 0, 3, 3, 3, 3, 3}, false, true},
    {{1, 1, 1}, false, true},
    {{1, 1}, true, true},
    {{0, 0, 0, 1, 1, 1, 1, 1}, false, true},
    {{1, 1, 1, 1, 1, 1, 1, 1}, false, true},
    {{1, 1, 1, 1, 1, 1, 1, 1}, true, true},
    {{0, 0, 40, 0, 25}, true, true}, /* more rows than a submission takes */
};

struct play {
    const struct gptoss_backend_api *cpu;
    struct gptoss_backend *reference;
    uint32_t windows;         /* pages of a sequence */
    uint32_t compared, equal; /* rows of logits */
    uint32_t positions[SEQUENCES];
    uint32_t full[SEQUENCES][TABLE], window[SEQUENCES][TABLE];
    struct lr_sampling sampling[SEQUENCES];
    struct sampler_input input[SEQUENCES];
    struct sampler_result result[SEQUENCES];
};

static void tell_spy(const struct gptoss_batch *batch)
{
    spy.row_count = spy.sampled_count = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        const struct gptoss_step *s = &batch->steps[i];
        for (uint32_t j = 0; j < s->count; j++)
            spy.rows[spy.row_count++] = (struct spy_row){s, s->position + j, s->tokens[j]};
        if (s->sample != NULL)
            spy.sampled[spy.sampled_count++] = s;
    }
}

static double relative_error(const float *a, const float *b, size_t n)
{
    double difference = 0, norm = 1e-30;

    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

static void compare_logits(struct play *p, const float *got, const float *expected,
                           uint32_t rows, size_t vocab)
{
    p->compared += rows;
    for (uint32_t i = 0; i < rows; i++)
        p->equal += relative_error(got + i * vocab, expected + i * vocab, vocab) < 1e-3 ? 1 : 0;
}

static void play_act(struct play *p, const struct made_model *m, const struct act *act)
{
    struct gptoss_step steps[SEQUENCES];
    struct gptoss_batch batch = {.steps = steps};
    size_t vocab = m->model.vocab_rows;
    uint32_t ids[SEQUENCES][CHUNK];
    float *logits[2] = {calloc(CHUNK * vocab, 4), calloc(CHUNK * vocab, 4)};
    struct lr_error err = {0};

    assert_true(logits[0] != NULL && logits[1] != NULL);
    for (uint32_t s = 0; s < SEQUENCES; s++) {
        if (act->counts[s] == 0)
            continue;
        for (uint32_t i = 0; i < act->counts[s]; i++)
            ids[s][i] = next_word() % (uint32_t)vocab;
        p->sampling[s] = (struct lr_sampling){.temperature = s % 3 == 0 ? 0 : 0.7f,
                                              .top_p = 1,
                                              .repetition_penalty = 1,
                                              .seed = s};
        p->input[s] = (struct sampler_input){.sampling = &p->sampling[s], .index = s * 5};
        steps[batch.count++] =
            (struct gptoss_step){.slot = s,
                                 .position = p->positions[s],
                                 .count = act->counts[s],
                                 .page_count = TABLE,
                                 .tokens = ids[s],
                                 .full_pages = p->full[s],
                                 .window_pages = p->window[s],
                                 .sample = act->samples ? &p->input[s] : NULL,
                                 .sampled = &p->result[s]};
        p->positions[s] += act->counts[s];
        batch.tokens += act->counts[s];
    }
    for (int k = 0; k < 2; k++) {
        float *next = logits[k];
        for (uint32_t i = 0; i < batch.count; i++) {
            steps[i].logits = act->logits ? next : NULL;
            next += steps[i].count * vocab;
        }
        tell_spy(&batch);
        if ((k == 0 ? gpu_forward(spy.b, &batch, &err)
                    : p->cpu->forward(p->reference, &batch, &err)) != LR_OK)
            fail_msg("%s", err.text);
    }
    if (act->logits)
        compare_logits(p, logits[0], logits[1], batch.tokens, vocab);
    free(logits[0]);
    free(logits[1]);
}

static struct gptoss_backend_options options_for(const char *device, const struct shape *s)
{
    return (struct gptoss_backend_options){.device = device,
                                           .max_sequences = SEQUENCES,
                                           .max_context = CONTEXT,
                                           .kv_tokens = SEQUENCES * CONTEXT,
                                           .prefill_chunk = CHUNK,
                                           .threads = 2,
                                           .extra_json = s->extra};
}

static void open_both(struct play *p, struct made_model *m, const struct shape *s,
                      const char *device)
{
    struct gptoss_backend_options options = options_for(device, s);
    const struct gptoss_backend_host host = {0};
    struct gptoss_plan plan, cpu_plan;
    struct lr_error err = {0};

    if (gpu_plan(&spy.host, &m->model.config, &options, &plan, &err) != LR_OK ||
        gpu_open(&spy.host, &host, &m->model, m->usable, &options, &plan, &spy.b, &err) !=
            LR_OK)
        fail_msg("%s", err.text);
    options.device = "cpu";
    options.max_sequences = 64; /* more pages of windows */
    options.extra_json = NULL;
    p->cpu = gptoss_backend_cpu();
    if (p->cpu->plan(&m->model.config, &options, &cpu_plan, &err) != LR_OK ||
        p->cpu->open(&host, &m->model, m->usable, &options, &cpu_plan, &p->reference, &err) !=
            LR_OK)
        fail_msg("%s", err.text);
    uint32_t windows =
        plan.window_pages < cpu_plan.window_pages ? plan.window_pages : cpu_plan.window_pages;
    p->windows = windows / SEQUENCES;
    assert_true(plan.full_pages >= SEQUENCES * TABLE &&
                plan.page_tokens == cpu_plan.page_tokens);
    assert_true(p->windows >= CHUNK / 32 + s->window / 32 + 2);
    for (uint32_t i = 0; i < SEQUENCES; i++)
        for (uint32_t j = 0; j < TABLE; j++) {
            p->full[i][j] = (j * 5 + 3) % TABLE * SEQUENCES + i;
            p->window[i][j] = i * p->windows + j % p->windows;
        }
}

/* Every pipeline of the backend must have been launched by one of the shapes. */
static bool launched[GPU_KERNEL_COUNT], usable[GPU_KERNEL_COUNT];

static void check_shape(const struct gpu_host *real, const char *device, const struct shape *s)
{
    struct made_model m;
    struct play p = {0};

    spy_on(real);
    make_model(&m, s);
    open_both(&p, &m, s, device);
    for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
        play_act(&p, &m, &acts[i]);
    /* A router's choice may differ between devices where two experts are nearly equal, and with
     * it a token's logits: most tokens must agree. */
    if (p.equal < p.compared - p.compared / 8)
        fail_msg("only %u of %u rows of logits are the CPU device's", p.equal, p.compared);
    for (uint32_t i = 0; i < spy.b->made_count; i++)
        usable[spy.b->made[i].kernel] = true;
    for (uint32_t i = 0; i < GPU_KERNEL_COUNT; i++)
        launched[i] = launched[i] || spy.launches[i] > 0;
    gpu_close(spy.b);
    p.cpu->close(p.reference);
    free_model(&m);
}

static void check_shapes(const struct gpu_host *real, const char *device)
{
    size_t count = getenv("LR_LONG") != NULL ? sizeof(shapes) / sizeof(shapes[0]) : 1;

    memset(launched, 0, sizeof(launched));
    memset(usable, 0, sizeof(usable));
    for (size_t i = 0; i < count; i++)
        check_shape(real, device, &shapes[i]);
}

static void check_random_weights(const struct gpu_host *real, const char *device)
{
    struct gptoss_backend_options options = options_for(device, &shapes[0]);
    const struct gptoss_backend_host host = {0};
    struct made_model m;
    struct gptoss_plan plan;
    struct lr_error err = {0};

    spy_on(real);
    make_model(&m, &shapes[0]);
    m.model.embed = NULL; /* asks for them */
    if (gpu_plan(&spy.host, &m.model.config, &options, &plan, &err) != LR_OK ||
        gpu_open(&spy.host, &host, &m.model, m.usable, &options, &plan, &spy.b, &err) != LR_OK)
        fail_msg("%s", err.text);
    assert_true(spy.launches[GPU_fill] > 10);
    launched[GPU_fill] = true;
    gpu_close(spy.b);
    free_model(&m);
}

/* Since the last check_shapes().  A kernel that no open model offers needs a device
 * with more than lavapipe has. */
static void check_all_were_launched(void)
{
    for (uint32_t i = 0; i < GPU_KERNEL_COUNT; i++) {
        if (!usable[i])
            print_message("not on this device: kernel %s\n", spy_names[i]);
        else if (!launched[i])
            fail_msg("kernel %s was not launched: add a shape or a step for it", spy_names[i]);
        else
            (void)check_of((enum gpu_kernel)i);
    }
}

static void use_lavapipe(void)
{
    assert_int_equal(setenv("VK_ICD_FILENAMES", LR_LAVAPIPE, 1), 0);
    if (!lr_file_exists(LR_LAVAPIPE))
        fail_msg("lavapipe is not installed: run tools/setup test");
}

static void every_launch_computes_what_the_cpu_device_computes(void **state)
{
    (void)state;
    use_lavapipe();
    check_shapes(gptoss_vulkan_host(), "vulkan:0");
}

static void random_weights_are_those_of_their_definition(void **state)
{
    (void)state;
    check_random_weights(gptoss_vulkan_host(), "vulkan:0");
}

/* Runs after the two tests above. */
static void every_kernel_that_this_device_can_run_was_launched(void **state)
{
    (void)state;
    check_all_were_launched();
}

/* ---- submissions ---- */

/* A step on a device that takes so many nanoseconds for a multiply-add. */
static void play_at_pace(struct play *p, const struct made_model *m, double pace,
                         const struct act *act)
{
    for (uint32_t i = 0; i < GPU_PACES; i++)
        spy.b->pace[i] = pace;
    spy.submissions = spy.most_commands = 0;
    spy.work = spy.most_work = 0;
    spy.launches[GPU_attend] = 0;
    play_act(p, m, act);
}

/* Of the pace that the limit of a submission is `work`. */
static double pace_for(uint64_t work)
{
    double pace = 200e6 / (double)work;

    spy.b->pace[0] = pace;
    assert_in_range(gpu_work_limit(spy.b, 1), work - 1, work + 1);
    return pace;
}

static void a_system_may_reset_a_gpu_so_no_submission_takes_seconds(void **state)
{
    const struct act few = {{9}, false, false}, many = {{CHUNK}, false, false},
                     token = {{1}, false, true};
    struct made_model m;
    struct play p = {0};

    (void)state;
    spy_on(gptoss_vulkan_host());
    make_model(&m, &shapes[0]);
    open_both(&p, &m, &shapes[0], "vulkan:0");
    /* A fast device: few rows at once, many rows layer by layer. */
    play_at_pace(&p, &m, 1e-9, &few);
    uint64_t work = spy.work;
    uint32_t commands = spy.most_commands;
    assert_int_equal(spy.submissions, 1);
    play_at_pace(&p, &m, 1e-9, &many);
    assert_int_equal(spy.submissions, LAYERS);
    assert_true(spy.most_commands < commands);
    assert_true(spy.work > 10 * work); /* rows count */
    assert_int_equal(spy.launches[GPU_attend], LAYERS);
    /* What a step took is known afterwards. */
    assert_true(spy.b->pace[1] > 1e-6);
    /* A slow one: pieces of at most the limit; so the same rows with more keys need more. */
    uint64_t limit = spy.work / 16;
    play_at_pace(&p, &m, pace_for(limit), &many);
    uint32_t submissions = spy.submissions;
    assert_true(spy.work > 16 * limit); /* keys count */
    assert_in_range(submissions, spy.work / limit, 4 * 16);
    assert_in_range(spy.most_work, limit / 4, limit + 1);
    play_at_pace(&p, &m, pace_for(limit / 8), &many);
    assert_true(spy.submissions > submissions);
    assert_true(spy.most_work <= limit / 8 + 1);
    assert_true(spy.launches[GPU_attend] > 8 * LAYERS); /* no launch is long */
    /* A token: one submission that is kept, or pieces. */
    play_at_pace(&p, &m, 1e-9, &token);
    assert_int_equal(spy.submissions, 1);
    assert_int_equal(spy.work, gpu_step_work(spy.b, &(struct gpu_shape){
                                                        .rows = 1, .keys = 9 + 3 * CHUNK + 1}));
    work = spy.work;
    play_at_pace(&p, &m, pace_for(work / 3), &token);
    assert_in_range(spy.submissions, 3, 12);
    gpu_close(spy.b);
    p.cpu->close(p.reference);
    free_model(&m);
}

static void a_matrix_in_parts_counts_as_much_and_is_several_submissions(void **state)
{
    const struct shape *shape = &shapes[5];
    const struct act token = {{1}, false, true};
    struct made_model m;
    struct play p = {0};

    (void)state;
    assert_non_null(strstr(shape->extra, "binding_bytes"));
    spy_on(gptoss_vulkan_host());
    make_model(&m, shape);
    open_both(&p, &m, shape, "vulkan:0");
    assert_true(spy.b->unembed.part_count > 1 && spy.b->layers[0].down.part_count > 1);
    play_at_pace(&p, &m, 1e-9, &token);
    uint64_t work = gpu_step_work(spy.b, &(struct gpu_shape){.rows = 1, .keys = 1});
    assert_in_range(spy.work, work - work / 100, work); /* a part's share may be rounded */
    /* The logits alone are more than the limit. */
    uint64_t limit = spy.b->unembed.rows * spy.b->unembed.columns / 2;
    play_at_pace(&p, &m, pace_for(limit), &token);
    assert_true(spy.most_work <= limit + 1);
    gpu_close(spy.b);
    p.cpu->close(p.reference);
    free_model(&m);
}

#ifdef LR_FAKE_METAL
static void by_the_metal_host_too(void **state)
{
    (void)state;
    if (getenv("LR_LONG") == NULL)
        return;
    assert_int_equal(setenv("LR_METAL_LIBRARY", LR_FAKE_METAL, 1), 0);
    check_shapes(gptoss_metal_host(), "metal");
    check_random_weights(gptoss_metal_host(), "metal");
    check_all_were_launched();
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_launch_computes_what_the_cpu_device_computes),
        cmocka_unit_test(random_weights_are_those_of_their_definition),
        cmocka_unit_test(every_kernel_that_this_device_can_run_was_launched),
        cmocka_unit_test(a_system_may_reset_a_gpu_so_no_submission_takes_seconds),
        cmocka_unit_test(a_matrix_in_parts_counts_as_much_and_is_several_submissions),
#ifdef LR_FAKE_METAL
        cmocka_unit_test(by_the_metal_host_too),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
