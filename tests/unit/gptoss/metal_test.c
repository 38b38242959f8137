/* The Metal host gives the results of the reference, by a stand-in for Metal whose kernels run
 * on the processor (tests/fake_metal).  Without GPTOSS_METAL this is not built. */
#include "tests/unit/gptoss/support.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/library.h"
#include "model/metalbin.h"

/* lavapipe does not free everything. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libvulkan_lvp.so\nleak:libLLVM\n";
}

static int (*live)(void), (*launches)(void), (*archived)(void);
static void (*lose)(bool is_lost);
static void (*limit)(uint64_t bytes), (*limit_working_set)(uint64_t bytes);
static uint64_t (*own_bytes)(void), (*wrapped_bytes)(void);
static void (*refuse_wrapping)(bool is_refused);

static void find(void *library, const char *name, void *out)
{
    void *symbol = lr_library_symbol(library, name);
    assert_non_null(symbol);
    memcpy(out, &symbol, sizeof(symbol));
}

static int open_stand_in(void **state)
{
    (void)state;
    assert_int_equal(setenv("LR_METAL_LIBRARY", LR_FAKE_METAL, 1), 0);
    assert_int_equal(setenv("VK_ICD_FILENAMES", LR_LAVAPIPE, 0), 0);
    void *library = lr_library_open(LR_FAKE_METAL);
    if (library == NULL)
        fail_msg("%s", lr_library_error());
    find(library, "fake_metal_live", &live);
    find(library, "fake_metal_launches", &launches);
    find(library, "fake_metal_archived", &archived);
    find(library, "fake_metal_lose", &lose);
    find(library, "fake_metal_limit", &limit);
    find(library, "fake_metal_working_set", &limit_working_set);
    find(library, "fake_metal_own_bytes", &own_bytes);
    find(library, "fake_metal_wrapped_bytes", &wrapped_bytes);
    find(library, "fake_metal_refuse_wrapping", &refuse_wrapping);
    return 0;
}

static struct lr_engine_options on_metal(void)
{
    static const char *const devices[] = {"metal"};
    return (struct lr_engine_options){.size = sizeof(struct lr_engine_options),
                                      .devices = devices,
                                      .device_count = 1,
                                      .prefill_chunk = 64,
                                      .max_sequences = 4,
                                      .max_context = 512};
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

/* What an open model takes, and a sum over the bits of the first case's logits. */
struct taken {
    uint64_t own, wrapped, sum;
};

static uint64_t sum_of(const float *logits, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof(bits));
        sum = sum * 31 + bits;
    }
    return sum;
}

/* The logits of some cases, within 1e-3 of the reference. */
static struct taken check_logits(const char *dir, struct lr_engine_options options,
                                 const char *golden, size_t cases)
{
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_error err = {0};
    struct golden g;
    if (gptoss_engine_api()->probe(dir, &options, &need, &err) != LR_OK)
        fail_msg("%s", err.text);
    golden_load(&g, golden);
    struct recorder *r = recorder_open(dir, &options);
    struct taken taken = {own_bytes(), wrapped_bytes(), 0};
    for (size_t i = 0; i < g.count && i < cases; i++) {
        const struct golden_case *c = &g.cases[i];
        size_t total = c->count * need.vocab_size;
        float *logits = calloc(total, sizeof(*logits));
        if (gptoss_engine_api()->logits(r->model, c->ids, c->count, logits, &err) != LR_OK)
            fail_msg("%s: %s", c->name, err.text);
        double e = relative_error(logits + total - c->logit_count, c->logits, c->logit_count);
        if (!(e <= 1e-3))
            fail_msg("%s: relative error %g", c->name, e);
        if (i == 0)
            taken.sum = sum_of(logits, total);
        free(logits);
    }
    recorder_close(r);
    lr_arena_free(&g.arena);
    return taken;
}

static size_t cases(void)
{
    return getenv("LR_LONG") != NULL ? 32 : 1;
}

static void logits_of_both_models_are_those_of_the_reference(void **state)
{
    int before = launches();
    (void)state;
    (void)check_logits(DEMO_MODEL, on_metal(), DEMO_GOLDEN, cases());
    assert_true(launches() > before); /* the stand-in has computed them */
    if (cases() > 1)
        (void)check_logits(ODD_MODEL, on_metal(), ODD_GOLDEN, cases());
    assert_int_equal(live(), 0);
}

/* The tokens of some cases, from a model.bin or the safetensors. */
static void check_greedy(const char *artifact)
{
    struct lr_engine_options options = on_metal();
    struct golden g;
    options.artifact_path = artifact;
    golden_load(&g, DEMO_GOLDEN);
    struct recorder *r = recorder_open(DEMO_MODEL, &options);
    size_t count = cases() > 1 ? g.count : 2;
    for (size_t i = 0; i < count; i++) {
        const struct golden_case *c = &g.cases[i];
        struct lr_engine_request request =
            plain_request(i, c->ids, c->count, (uint32_t)c->greedy_count);
        request.ignore_stop = 1;
        must_submit(r, &request);
    }
    recorder_run(r);
    for (size_t i = 0; i < count; i++) {
        const struct record *q = record_of(r, i);
        assert_int_equal(q->count, g.cases[i].greedy_count);
        assert_memory_equal(q->tokens, g.cases[i].greedy,
                            g.cases[i].greedy_count * sizeof(uint32_t));
    }
    assert_true(live() > 0);
    recorder_close(r);
    assert_int_equal(live(), 0);
    lr_arena_free(&g.arena);
}

/* Writes the model.bin of a model; returns the bytes of its weights. */
static uint64_t write_model_bin(const char *dir, const char *path)
{
    struct lr_error err = {0};
    struct model_gptoss *m;
    if (model_gptoss_open(dir, NULL, &m, &err) != LR_OK ||
        model_metalbin_write(m, NULL, path, &err) != LR_OK)
        fail_msg("%s", err.text);
    uint64_t bytes = m->weight_bytes;
    model_gptoss_close(m);
    return bytes;
}

static void check_in_place(const char *dir, const char *golden, const char *path, size_t count)
{
    uint64_t weights = write_model_bin(dir, path);
    struct lr_engine_options options = on_metal();
    options.artifact_path = path;
    struct taken used = check_logits(dir, options, golden, count);
    options.extra_json = "{\"kernels\": \"late\"}";
    refuse_wrapping(true);
    struct taken copied = check_logits(dir, options, golden, 1);
    refuse_wrapping(false);
    assert_int_equal(copied.wrapped, 0);
    assert_true(used.wrapped >= weights);
    assert_true(copied.own - used.own >= weights); /* no weight has other memory */
    assert_int_equal(copied.sum, used.sum);        /* bit for bit */
    assert_int_equal(live(), 0);
    assert_int_equal(unlink(path), 0);
}

static void a_model_bin_is_used_where_it_is_mapped_without_a_copy_of_a_weight(void **state)
{
    char folder[] = "/tmp/gptoss-in-place-XXXXXX", path[64];
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/model.bin", folder);
    uint64_t weights = write_model_bin(DEMO_MODEL, path);
    check_greedy(path); /* steps of few rows */
    /* Tables and experts are too large for a window; the others stay. */
    struct lr_engine_options options = on_metal();
    options.artifact_path = path;
    options.extra_json = "{\"kernels\": \"late\", \"binding_bytes\": 600000}";
    struct taken both = check_logits(DEMO_MODEL, options, DEMO_GOLDEN, 1);
    assert_true(both.wrapped > 0 && both.wrapped < weights);
    assert_int_equal(unlink(path), 0);
    check_in_place(DEMO_MODEL, DEMO_GOLDEN, path, cases());
    if (cases() > 1)
        check_in_place(ODD_MODEL, ODD_GOLDEN, path, cases());
    assert_int_equal(rmdir(folder), 0);
}

static void
greedy_tokens_are_those_of_the_reference_and_every_object_is_given_back(void **state)
{
    (void)state;
    check_greedy(NULL);
}

static void compiled_kernels_are_kept_and_a_damaged_file_is_made_anew(void **state)
{
    char folder[] = "/tmp/gptoss-archive-XXXXXX", command[128];
    struct lr_engine_options options = on_metal();
    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    int before = archived();
    recorder_close(recorder_open(DEMO_MODEL, &options));
    assert_int_equal(archived(), before); /* there was no file */
    recorder_close(recorder_open(DEMO_MODEL, &options));
    int from_file = archived() - before;
    assert_true(from_file > 10);
    (void)snprintf(command, sizeof(command), "for f in %s/*; do echo damaged > $f; done",
                   folder);
    assert_int_equal(system(command), 0);
    recorder_close(recorder_open(DEMO_MODEL, &options));
    assert_int_equal(archived() - before, from_file);
    recorder_close(recorder_open(DEMO_MODEL, &options));
    assert_int_equal(archived() - before, 2 * from_file);
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
    assert_int_equal(unsetenv("TMPDIR"), 0);
    assert_int_equal(live(), 0);
}

static void a_lost_gpu_and_too_little_memory_are_errors_that_say_so(void **state)
{
    struct lr_engine_options options = on_metal();
    struct lr_engine_model *model = NULL;
    struct lr_error err = {0};
    struct golden g;
    (void)state;
    golden_load(&g, DEMO_GOLDEN);
    struct recorder *r = recorder_open(DEMO_MODEL, &options);
    float *logits = calloc(g.cases[0].count * 65536, sizeof(*logits));
    lose(true);
    assert_int_equal(
        gptoss_engine_api()->logits(r->model, g.cases[0].ids, g.cases[0].count, logits, &err),
        LR_INTERNAL);
    assert_non_null(strstr(err.text, "the GPU is lost"));
    recorder_close(r);
    lose(false);
    free(logits);
    lr_arena_free(&g.arena);
    assert_int_equal(live(), 0);

    limit(1 << 20);
    const struct lr_engine_host host = {.size = sizeof(host)};
    lr_code code = gptoss_engine_api()->open(&host, DEMO_MODEL, &options, &model, &err);
    assert_int_equal(code, LR_OUT_OF_VRAM);
    assert_non_null(strstr(err.text, "--max-context"));
    limit(0);
    assert_int_equal(live(), 0);
}

/* A node passes the limit of the machine's RAM. */
static void metals_working_set_limits_a_load_below_the_limit_of_the_node(void **state)
{
    struct lr_engine_options options = on_metal();
    struct lr_engine_model *model = NULL;
    struct lr_error err = {0};
    const struct lr_engine_host host = {.size = sizeof(host)};
    (void)state;
    options.vram_limit = (uint64_t)1 << 40;
    limit_working_set(1 << 20);
    assert_int_equal(gptoss_engine_api()->open(&host, DEMO_MODEL, &options, &model, &err),
                     LR_OUT_OF_VRAM);
    assert_non_null(strstr(err.text, "and may use 1048576"));
    limit_working_set(0);
    assert_int_equal(live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_of_both_models_are_those_of_the_reference),
        cmocka_unit_test(a_model_bin_is_used_where_it_is_mapped_without_a_copy_of_a_weight),
        cmocka_unit_test(
            greedy_tokens_are_those_of_the_reference_and_every_object_is_given_back),
        cmocka_unit_test(compiled_kernels_are_kept_and_a_damaged_file_is_made_anew),
        cmocka_unit_test(a_lost_gpu_and_too_little_memory_are_errors_that_say_so),
        cmocka_unit_test(metals_working_set_limits_a_load_below_the_limit_of_the_node),
    };
    return cmocka_run_group_tests(tests, open_stand_in, NULL);
}
