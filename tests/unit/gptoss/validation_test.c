/* The validation layers of Vulkan have nothing to say about what the Vulkan host does, the
 * order of memory accesses included.  LR_LONG=1 only: the layers are installed by tools/setup
 * long. */
#include "tests/unit/gptoss/support.h"

#include <unistd.h>

#include "engines/devices/vulkan/vulkan.h"
#include "engines/gptoss/backend/gpu/gpu.h"

/* Driver and layers do not free everything. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libvulkan_lvp.so\nleak:libLLVM\nleak:libVkLayer_khronos_validation.so\n"
           "leak:libvulkan.so\n";
}

static char folder[] = "/tmp/gptoss-validation-XXXXXX", log_path[64];

static void write_settings(void)
{
    char text[512], path[64];
    struct lr_error err = {0};
    int n = snprintf(text, sizeof(text),
                     "khronos_validation.enables = "
                     "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT\n"
                     "khronos_validation.report_flags = error,warn\n"
                     "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG\n"
                     "khronos_validation.enable_message_limit = false\n"
                     "khronos_validation.log_filename = %s\n",
                     log_path);

    (void)snprintf(path, sizeof(path), "%s/vk_layer_settings.txt", folder);
    assert_int_equal(lr_file_write_atomic(path, lr_str(text, (size_t)n), 0600, &err), LR_OK);
}

static int use_layers(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(log_path, sizeof(log_path), "%s/log", folder);
    write_settings();
    assert_int_equal(setenv("VK_ICD_FILENAMES", LR_LAVAPIPE, 1), 0);
    assert_int_equal(setenv("VK_INSTANCE_LAYERS", "VK_LAYER_KHRONOS_validation", 1), 0);
    assert_int_equal(setenv("VK_LAYER_SETTINGS_PATH", folder, 1), 0);
    return 0;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    (void)snprintf(command, sizeof(command), "rm -r %s", folder);
    return system(command);
}

/* What the layers have said since the last call. */
static struct lr_str said(struct lr_arena *arena)
{
    static size_t before;
    struct lr_str text = {0};

    lr_arena_init(arena, 64 << 20);
    (void)!lr_file_read(arena, log_path, 32 << 20, &text, NULL);
    struct lr_str fresh = lr_str(text.ptr + before, text.len - before);
    before = text.len;
    return fresh;
}

static void must_be_silent(const char *when)
{
    struct lr_arena arena;
    struct lr_str text = said(&arena);

    if (text.len != 0)
        fail_msg("%s: " LR_STR_FMT, when, LR_STR_ARG(text));
    lr_arena_free(&arena);
}

static void must_be_told(const char *what)
{
    struct lr_arena arena;
    struct lr_str text = said(&arena);
    char *copy = lr_arena_copy(&arena, text);

    if (copy == NULL || strstr(copy, what) == NULL)
        fail_msg("the layers do not tell of %s: are they installed (tools/setup long)?", what);
    lr_arena_free(&arena);
}

/* Two copies to one place with nothing between them. */
static void the_layers_tell_of_a_mistake_and_of_a_missing_barrier(void **state)
{
    struct gpu_device *d;
    struct gpu_buffer *a, *b;
    struct gpu_recording *recording;
    struct lr_error err = {0};
    uint64_t ticket;
    const struct gpu_host *host = gptoss_vulkan_host();

    (void)state;
    assert_int_equal(host->open("vulkan:0", host->programs, &d, &err), LR_OK);
    assert_int_equal(host->allocate(d, 4096, GPU_ON_DEVICE, &a, &err), LR_OK);
    assert_int_equal(host->allocate(d, 4096, GPU_ON_DEVICE, &b, &err), LR_OK);
    must_be_silent("a device with two buffers");
    struct gpu_command commands[2] = {
        {.kind = GPU_COPY, .after = true, .span_count = 2, .spans = {{a, 0, 256}, {b, 0, 256}}},
        {.kind = GPU_COPY, .span_count = 2, .spans = {{a, 256, 256}, {b, 0, 256}}},
    };
    assert_int_equal(host->record(d, commands, 2, &recording, &err), LR_OK);
    assert_int_equal(host->submit(d, recording, &ticket, &err), LR_OK);
    assert_int_equal(host->wait(d, ticket, &err), LR_OK);
    must_be_told("SYNC-HAZARD-WRITE-AFTER-WRITE");
    commands[1].after = true;
    host->forget(d, recording);
    assert_int_equal(host->record(d, commands, 2, &recording, &err), LR_OK);
    assert_int_equal(host->submit(d, recording, &ticket, &err), LR_OK);
    assert_int_equal(host->wait(d, ticket, &err), LR_OK);
    must_be_silent("the same copies with a barrier");
    commands[0].spans[0].at = 4096 - 16;
    assert_int_equal(host->record(d, commands, 1, &recording, &err), LR_OK);
    must_be_told("VUID-vkCmdCopyBuffer");
    host->close(d);
    must_be_silent("close");
}

static void run_golden(const char *dir, const char *golden, uint32_t chunk, const char *extra)
{
    static const char *const device[] = {"vulkan:0"};
    const struct lr_engine_options options = {.size = sizeof(options),
                                              .devices = device,
                                              .device_count = 1,
                                              .max_context = 1024,
                                              .prefill_chunk = chunk,
                                              .extra_json = extra};
    struct recorder *r = recorder_open(dir, &options);
    struct golden g;

    must_be_silent("open");
    golden_load(&g, golden);
    for (size_t i = 0; i < g.count && i < 9; i++) {
        const struct golden_case *c = &g.cases[i];
        struct lr_engine_request request = plain_request(i, c->ids, c->count, 8);
        request.ignore_stop = 1;
        request.sampling.temperature = i % 2 == 0 ? 0 : 0.9f;
        request.sampling.logprobs = i % 4 == 3;
        must_submit(r, &request);
    }
    recorder_run(r);
    must_be_silent("steps of many sequences");
    recorder_close(r);
    must_be_silent("close");
    lr_arena_free(&g.arena);
}

static void golden_cases_leave_the_layers_silent(void **state)
{
    (void)state;
    run_golden(ODD_MODEL, ODD_GOLDEN, 0, NULL);
    run_golden(ODD_MODEL, ODD_GOLDEN, 5,
               "{\"binding_bytes\": 80000, \"allocation_bytes\": 100000}");
    run_golden(DEMO_MODEL, DEMO_GOLDEN, 0, NULL);
    run_golden(DEMO_MODEL, DEMO_GOLDEN, 7, NULL);
}

static void changing_and_moving_pages_leaves_the_layers_silent(void **state)
{
    const struct gptoss_backend_api *api = gptoss_backend_vulkan();
    const struct gptoss_backend_host host = {0};
    const struct gptoss_backend_options options = {.device = "vulkan:0",
                                                   .max_sequences = 4,
                                                   .max_context = 512,
                                                   .extra_json = "{\"kernels\": \"late\"}"};
    const struct gptoss_move moves[] = {{0, 5}, {1, 6}};
    struct model_gptoss *weights;
    struct gptoss_backend *backend;
    struct gptoss_plan plan;
    struct lr_error err = {0};

    (void)state;
    assert_int_equal(model_gptoss_open(ODD_MODEL, NULL, &weights, &err), LR_OK);
    uint32_t *usable = calloc(weights->vocab_rows / 32 + 1, 4);
    assert_int_equal(api->plan(&weights->config, &options, &plan, &err), LR_OK);
    assert_int_equal(api->open(&host, weights, usable, &options, &plan, &backend, &err), LR_OK);
    for (uint32_t kind = 0; kind < GPTOSS_KINDS; kind++) {
        uint32_t pages = kind == GPTOSS_FULL ? plan.full_pages : plan.window_pages;
        assert_int_equal(api->resize(backend, (enum gptoss_kind)kind, pages + 9, &err), LR_OK);
        assert_int_equal(api->move(backend, (enum gptoss_kind)kind, moves, 2, &err), LR_OK);
        assert_int_equal(api->resize(backend, (enum gptoss_kind)kind, 8, &err), LR_OK);
    }
    api->close(backend);
    must_be_silent("pages");
    model_gptoss_close(weights);
    free(usable);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_layers_tell_of_a_mistake_and_of_a_missing_barrier),
        cmocka_unit_test(golden_cases_leave_the_layers_silent),
        cmocka_unit_test(changing_and_moving_pages_leaves_the_layers_silent),
    };

    if (getenv("LR_LONG") == NULL)
        return 0;
    return cmocka_run_group_tests(tests, use_layers, remove_folder);
}
