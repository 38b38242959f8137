/* The native engine on Metal gives the results of the processor, by a stand-in for Metal whose
 * kernels run on the processor (tests/fake_metal).  It ends the process where a launch reads
 * what a launch beside it writes.  LR_LONG=1: every model of the fixtures. */
#include "tests/unit/native/support.h"
#include "tests/unit/native/vulkan_support.h"

enum { TOKENS = 40 };
static const double LIMIT = 2e-5;

static int use_stand_in(void **state)
{
    assert_int_equal(setenv("LR_METAL_LIBRARY", LR_FAKE_METAL, 1), 0);
    return use_lavapipe(state);
}

static float *logits_of(const char *family, const struct how *how, size_t *count)
{
    uint32_t ids[TOKENS];
    char dir[512];
    struct run r;

    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = (i * 29 + 5) % 96;
    (void)snprintf(dir, sizeof(dir), FAMILIES "%s", family);
    run_open(&r, dir, how);
    float *logits = run_logits(&r, ids, TOKENS);
    *count = (size_t)TOKENS * r.facts.vocab_rows;
    run_close(&r);
    return logits;
}

static void check_model(const char *family)
{
    const struct how cpu = {.chunk = 512}, metal = {.chunk = 37,
                                                    .api = native_backend_metal(),
                                                    .device = "metal",
                                                    .extra_json = "{\"kv\": \"f32\"}"};
    size_t count, same;
    float *wanted = logits_of(family, &cpu, &count), *got = logits_of(family, &metal, &same);

    assert_int_equal(count, same);
    double error = error_of(got, wanted, count);
    if (!(error <= LIMIT))
        fail_msg("%s: relative error %g", family, error);
    free(wanted);
    free(got);
}

static void models_have_the_logits_of_the_processor(void **state)
{
    static const char *const some[] = {"qwen3-moe", "qwen3.5", "deepseek-v3"};

    (void)state;
    for (size_t i = 0; !is_long() && i < sizeof(some) / sizeof(some[0]); i++)
        check_model(some[i]);
    for (size_t i = 0; is_long() && i < FAMILIES_COUNT; i++)
        check_model(families[i]);
    for (size_t i = 0; is_long() && i < FORMATS_COUNT; i++)
        check_model(formats[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_have_the_logits_of_the_processor),
    };

    return cmocka_run_group_tests(tests, use_stand_in, NULL);
}
