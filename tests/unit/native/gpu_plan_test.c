/* The memory that a plan states before a load is the memory that the load takes, for every
 * model of the fixtures, with the sizes that an operator may choose; and a launch never reaches
 * behind what a device binds.  Runs on lavapipe. */
#include "tests/unit/native/vulkan_support.h"

#include <stdio.h>

#include "base/os/file.h"

#ifdef NATIVE_VULKAN

#include "engines/devices/vulkan/vulkan.h"
#include "engines/native/gpu/gpu.h"

#define FOLDER LR_SOURCE_DIR "/tests/fixtures/"

static uint64_t taken; /* bytes of all buffers that are left */

static lr_code count_allocate(struct gpu_device *device, uint64_t bytes, enum gpu_place place,
                              struct gpu_buffer **out, struct lr_error *err)
{
    taken += bytes;
    return vulkan_allocate(device, bytes, place, out, err);
}

static void count_release(struct gpu_device *device, struct gpu_buffer *buffer)
{
    taken -= buffer != NULL ? buffer->bytes : 0;
    vulkan_release(device, buffer);
}

/* Opens a model and compares what it took with its plan. */
static void check(const char *dir, const struct serving_options *options)
{
    const struct serving_host none = {0};
    struct gpu_host host = VULKAN_HOST(&native_vulkan_programs);
    struct serving_backend *backend;
    struct serving_plan plan;
    struct lr_error err = {0};
    static uint32_t usable[1 << 14];
    void *model;

    host.allocate = count_allocate;
    host.release = count_release;
    taken = 0;
    if (native_model_api()->open(&none, dir, options, &model, &err) != LR_OK ||
        native_gpu_plan(&host, model, options, &plan, &err) != LR_OK ||
        native_gpu_open(&host, &none, model, usable, options, &plan, &backend, &err) != LR_OK)
        fail_msg("%s: %s", dir, err.text);
    double planned = (double)(plan.weights + plan.workspace + plan.kv);
    if (!(fabs((double)taken - planned) <= 0.03 * planned))
        fail_msg("%s: planned %g bytes, and it takes %llu", dir, planned,
                 (unsigned long long)taken);
    native_gpu_close(backend);
    native_model_api()->close(model);
}

static void check_folder(const char *kind, const struct serving_options *options)
{
    char dir[512], config[600];
    uint32_t seen = 0;

    (void)snprintf(dir, sizeof(dir), FOLDER "%s", kind);
    struct lr_dir *list = lr_dir_open(dir);
    assert_non_null(list);
    for (const char *name; (name = lr_dir_next(list)) != NULL;) {
        (void)snprintf(dir, sizeof(dir), FOLDER "%s/%s", kind, name);
        (void)snprintf(config, sizeof(config), "%s/config.json", dir);
        if (!lr_file_exists(config) || (!is_long() && seen >= 6))
            continue;
        check(dir, options);
        seen++;
    }
    lr_dir_close(list);
    assert_true(seen > 3);
}

static void a_plan_is_what_the_load_takes(void **state)
{
    const struct serving_options small = {.device = "vulkan:0",
                                          .max_sequences = 3,
                                          .prefill_chunk = 48,
                                          .kv_tokens = 640,
                                          .max_context = 320},
                                 usual = {.device = "vulkan:0"};

    (void)state;
    check_folder("families", &small);
    check_folder("formats", &small);
    check(FOLDER "families/qwen3.5", &usual);
}

/* What is bound at a time bounds the sequences, not the tokens of a step. */
static void states_that_do_not_fit_a_binding_cost_sequences(void **state)
{
    const struct serving_host none = {0};
    const struct gpu_host host = VULKAN_HOST(&native_vulkan_programs);
    struct serving_options options = {.device = "vulkan:0", .max_sequences = 200};
    struct serving_plan plan;
    struct lr_error err = {0};
    char extra[64];
    void *model;

    (void)state;
    assert_int_equal(
        native_model_api()->open(&none, FOLDER "families/qwen3.5", &options, &model, &err),
        LR_OK);
    assert_int_equal(native_gpu_plan(&host, model, &options, &plan, &err), LR_OK);
    assert_int_equal(plan.max_sequences, 200);
    uint32_t chunk = plan.prefill_chunk;
    (void)snprintf(extra, sizeof(extra), "{\"binding_bytes\": %llu}",
                   (unsigned long long)plan.state_bytes * 150);
    options.extra_json = extra;
    assert_int_equal(native_gpu_plan(&host, model, &options, &plan, &err), LR_OK);
    assert_in_range(plan.max_sequences, 100, 150);
    assert_int_equal(plan.prefill_chunk, chunk);
    native_model_api()->close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_is_what_the_load_takes),
        cmocka_unit_test(states_that_do_not_fit_a_binding_cost_sequences),
    };

    return cmocka_run_group_tests(tests, use_lavapipe, NULL);
}

#else
int main(void)
{
    return 0; /* this build has no Vulkan */
}
#endif
