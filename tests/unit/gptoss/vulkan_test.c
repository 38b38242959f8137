/* The Vulkan device gives the results of Hugging Face transformers and fails with a sentence
 * that helps.  Runs on lavapipe, Mesa's Vulkan driver for processors; LR_LONG=1: every golden
 * case, every allocation that can fail. */
#include "tests/unit/gptoss/support.h"

#include <dlfcn.h>
#include <math.h>
#include <unistd.h>

#ifdef GPTOSS_VULKAN

#include "engines/devices/vulkan/vulkan.h"
#include "engines/gptoss/backend/gpu/gpu.h"

/* lavapipe does not free everything. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libvulkan_lvp.so\nleak:libLLVM\n";
}

static const char *const device[] = {"vulkan:0"};

static bool is_long(void)
{
    return getenv("LR_LONG") != NULL;
}

/* Only lavapipe, on every machine. */
static void use_lavapipe(void)
{
    static const char *const files[] = {"/usr/share/vulkan/icd.d/lvp_icd.x86_64.json",
                                        "/usr/share/vulkan/icd.d/lvp_icd.aarch64.json",
                                        "/usr/share/vulkan/icd.d/lvp_icd.json"};

    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
        if (lr_file_exists(files[i])) {
            assert_int_equal(setenv("VK_ICD_FILENAMES", files[i], 1), 0);
            return;
        }
    fail_msg("lavapipe is not installed: run tools/setup test");
}

/* A machine without the loader: libvulkan cannot be opened. */
static bool hides_loader;

__attribute__((visibility("default"))) void *dlopen(const char *file, int mode)
{
    void *(*real)(const char *, int);
    void *symbol = dlsym(RTLD_NEXT, "dlopen");

    memcpy(&real, &symbol, sizeof(real));
    return hides_loader && file != NULL && strstr(file, "libvulkan") != NULL ? NULL
                                                                             : real(file, mode);
}

static void must_say_what_to_install(const struct lr_error *err)
{
    assert_non_null(
        strstr(err->text, "on Debian and Ubuntu libvulkan1 and mesa-vulkan-drivers"));
    assert_non_null(strstr(err->text, "on Windows the GPU maker's driver"));
    assert_non_null(strstr(err->text, "on macOS"));
}

static void without_loader_or_driver_the_message_says_what_to_install_where(void **state)
{
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_engine_options options = {
        .size = sizeof(options), .devices = device, .device_count = 1};
    struct lr_error err = {0};

    (void)state;
    hides_loader = true;
    assert_int_equal(gptoss_engine_api()->probe(ODD_MODEL, &options, &need, &err),
                     LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "cannot be opened"));
    must_say_what_to_install(&err);
    hides_loader = false;
    assert_int_equal(setenv("VK_ICD_FILENAMES", "/nowhere/driver.json", 1), 0);
    assert_int_equal(gptoss_engine_api()->probe(ODD_MODEL, &options, &need, &err),
                     LR_UNSUPPORTED);
    must_say_what_to_install(&err);
    use_lavapipe();
    assert_int_equal(gptoss_engine_api()->probe(ODD_MODEL, &options, &need, &err), LR_OK);
    static const char *const ninth[] = {"vulkan:9"};
    options.devices = ninth;
    assert_int_equal(gptoss_engine_api()->probe(ODD_MODEL, &options, &need, &err),
                     LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "doctor"));
}

/* ---- which device, and how much of its memory ---- */

/* Three devices of lavapipe's making; the second one is discrete. */
static const struct vulkan_library *real_library;
static VkPhysicalDevice real_handle;
static const char *const titles[] = {"A chip", "A card", "A card on loan"};
static const VkPhysicalDeviceType types[] = {VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU,
                                             VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU,
                                             VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU};
static char handles[3];
static uint64_t used_bytes = 1000; /* of a budget of 5000 */
static bool chooses_subgroup;      /* the driver's features let a kernel choose its size */

static size_t index_of(VkPhysicalDevice handle)
{
    return (size_t)((const char *)(const void *)handle - handles);
}

static VkResult VKAPI_PTR list_three(VkInstance instance, uint32_t *count,
                                     VkPhysicalDevice *out)
{
    (void)instance;
    for (uint32_t i = 0; i < 3; i++)
        out[i] = (VkPhysicalDevice)(void *)&handles[i];
    *count = 3;
    return VK_SUCCESS;
}

static void *in_chain(void *next, VkStructureType type)
{
    VkBaseOutStructure *s = next;

    while (s != NULL && s->sType != type)
        s = s->pNext;
    return s;
}

static void VKAPI_PTR other_properties(VkPhysicalDevice handle,
                                       VkPhysicalDeviceProperties2 *out)
{
    VkPhysicalDeviceIDProperties *id =
        in_chain(out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);

    VkPhysicalDeviceSubgroupSizeControlProperties *size = in_chain(
        out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES);
    VkPhysicalDeviceSubgroupProperties *subgroup =
        in_chain(out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);

    real_library->vkGetPhysicalDeviceProperties2(real_handle, out);
    if (size != NULL) {
        size->minSubgroupSize = 8;
        size->maxSubgroupSize = 64;
        size->requiredSubgroupSizeStages = VK_SHADER_STAGE_COMPUTE_BIT;
    }
    if (subgroup != NULL)
        subgroup->subgroupSize = 64;
    out->properties.deviceType = types[index_of(handle)];
    (void)snprintf(out->properties.deviceName, sizeof(out->properties.deviceName), "%s",
                   titles[index_of(handle)]);
    if (id != NULL)
        memset(id->deviceUUID, 0xA0 + (int)index_of(handle), VK_UUID_SIZE);
}

static VkResult VKAPI_PTR with_budget(VkPhysicalDevice handle, const char *layer,
                                      uint32_t *count, VkExtensionProperties *out)
{
    VkResult result =
        real_library->vkEnumerateDeviceExtensionProperties(real_handle, layer, count, out);

    (void)handle;
    (void)snprintf(out[(*count)++].extensionName, VK_MAX_EXTENSION_NAME_SIZE, "%s",
                   VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
    return result;
}

static void VKAPI_PTR other_memory(VkPhysicalDevice handle,
                                   VkPhysicalDeviceMemoryProperties2 *out)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT *budget =
        in_chain(out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
    void *next = out->pNext;

    (void)handle;
    out->pNext = NULL; /* lavapipe does not know it */
    real_library->vkGetPhysicalDeviceMemoryProperties2(real_handle, out);
    out->pNext = next;
    assert_non_null(budget);
    budget->heapBudget[0] = 5000;
    budget->heapUsage[0] = used_bytes;
}

static void VKAPI_PTR other_features(VkPhysicalDevice handle, VkPhysicalDeviceFeatures2 *out)
{
    VkPhysicalDeviceSubgroupSizeControlFeatures *size =
        in_chain(out->pNext, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES);

    (void)handle;
    if (size != NULL)
        size->subgroupSizeControl = size->computeFullSubgroups = chooses_subgroup;
}

static void VKAPI_PTR other_families(VkPhysicalDevice handle, uint32_t *count,
                                     VkQueueFamilyProperties *out)
{
    (void)handle;
    real_library->vkGetPhysicalDeviceQueueFamilyProperties(real_handle, count, out);
}

static struct vulkan_library play_three_devices(void)
{
    struct lr_error err = {0};
    uint32_t count = 1;

    assert_int_equal(vulkan_library_get(&real_library, &err), LR_OK);
    assert_true(real_library->vkEnumeratePhysicalDevices(real_library->instance, &count,
                                                         &real_handle) >= 0);
    struct vulkan_library played = *real_library;
    played.vkEnumeratePhysicalDevices = list_three;
    played.vkGetPhysicalDeviceProperties2 = other_properties;
    played.vkEnumerateDeviceExtensionProperties = with_budget;
    played.vkGetPhysicalDeviceMemoryProperties2 = other_memory;
    played.vkGetPhysicalDeviceFeatures2 = other_features;
    played.vkGetPhysicalDeviceQueueFamilyProperties = other_families;
    return played;
}

static void a_device_is_found_by_number_uuid_and_name_and_the_discrete_one_first(void **state)
{
    static const char *const found[][2] = {
        {"vulkan", "A card"},
        {"vulkan:0", "A chip"},
        {"vulkan:2", "A card on loan"},
        {"vulkan:A card on", "A card on loan"},
        {"vulkan:card", "A card"},
        {"vulkan:a2a2a2a2-a2a2-a2a2-A2A2-a2a2a2a2a2a2", "A card on loan"},
        {"vulkan:a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0", "A chip"},
        {"vulkan:a0a0", NULL},
        {"vulkan:3", NULL},
        {"vulkan:A car park", NULL},
    };
    struct vulkan_found device_found;
    struct lr_error err = {0};

    (void)state;
    struct vulkan_library played = play_three_devices();
    for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++) {
        lr_code code = vulkan_find(&played, found[i][0], &device_found, &err);
        assert_int_equal(code, found[i][1] != NULL ? LR_OK : LR_UNSUPPORTED);
        if (code != LR_OK)
            assert_non_null(strstr(err.text, "doctor"));
        else
            assert_string_equal(device_found.limits.name, found[i][1]);
    }
    /* What other programs hold is not ours. */
    assert_int_equal(vulkan_find(&played, "vulkan:1", &device_found, &err), LR_OK);
    assert_false(device_found.limits.is_cpu);
    assert_int_equal(device_found.limits.free_bytes, 4000);
    assert_true(device_found.limits.total_bytes > 5000);
}

static void a_device_whose_budget_is_used_up_has_no_free_memory(void **state)
{
    static const struct {
        uint64_t used, left;
    } rows[] = {{4999, 1}, {5000, 0}, {6000, 0}};
    struct vulkan_library played = play_three_devices();
    struct vulkan_found found;
    struct lr_error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        used_bytes = rows[i].used;
        assert_int_equal(vulkan_find(&played, "vulkan:1", &found, &err), LR_OK);
        assert_int_equal(found.limits.free_bytes, rows[i].left);
    }
    used_bytes = 1000;
}

static void the_plan_counts_the_subgroups_that_the_kernels_get(void **state)
{
    struct vulkan_library played = play_three_devices();
    struct vulkan_found found;
    struct lr_error err = {0};

    (void)state;
    assert_int_equal(vulkan_find(&played, "vulkan:1", &found, &err), LR_OK);
    assert_int_equal(found.required_size, 0);
    assert_int_equal(found.limits.subgroup, 64);
    chooses_subgroup = true;
    assert_int_equal(vulkan_find(&played, "vulkan:1", &found, &err), LR_OK);
    assert_int_equal(found.required_size, 32);
    assert_int_equal(found.limits.subgroup, 32);
    chooses_subgroup = false;
}

static void compiled_kernels_are_kept_and_a_damaged_file_does_no_harm(void **state)
{
    char folder[] = "/tmp/gptoss-cache-XXXXXX", command[160];
    struct gpu_device *d;
    struct gpu_pipeline *pipeline;
    struct lr_error err = {0};

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(setenv("TMPDIR", folder, 1), 0);
    (void)snprintf(command, sizeof(command), "test -s %s/gptoss-vulkan-*.cache", folder);
    assert_int_not_equal(system(command), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(vulkan_open("vulkan:0", &gptoss_vulkan_programs, &d, &err), LR_OK);
        assert_int_equal(vulkan_pipeline(d, GPU_norm, 256, 0, &pipeline, &err), LR_OK);
        vulkan_close(d);
        assert_int_equal(system(command), 0);
        char damage[160];
        (void)snprintf(damage, sizeof(damage), "for f in %s/*; do echo damaged > $f; done",
                       folder);
        if (i == 1)
            assert_int_equal(system(damage), 0);
    }
    (void)snprintf(command, sizeof(command), "grep -q damaged %s/* ; s=$?; rm -r %s; exit $s",
                   folder, folder);
    assert_int_not_equal(system(command), 0); /* it was written anew */
    assert_int_equal(unsetenv("TMPDIR"), 0);
}

/* ---- golden ---- */

static double relative_error(const float *a, const float *b, size_t n)
{
    double difference = 0, norm = 0;

    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

/* Most tests need few kernels. */
static const char late[] = "{\"kernels\": \"late\"}";

static struct recorder *open_on(const char *dir, uint32_t chunk, const char *extra)
{
    const struct lr_engine_options options = {.size = sizeof(options),
                                              .devices = device,
                                              .device_count = 1,
                                              .max_context = 2048,
                                              .prefill_chunk = chunk,
                                              .extra_json = extra != NULL ? extra : late};

    return recorder_open(dir, &options);
}

static void check_logits(const char *dir, const char *golden, uint32_t chunk, size_t every,
                         const char *extra)
{
    struct recorder *r = open_on(dir, chunk, extra);
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_error err = {0};
    struct golden g;

    assert_int_equal(gptoss_engine_api()->probe(dir, NULL, &need, &err), LR_OK);
    golden_load(&g, golden);
    for (size_t i = 0; i < g.count; i += every) {
        const struct golden_case *c = &g.cases[i];
        size_t total = c->count * need.vocab_size;
        float *logits = calloc(total, sizeof(*logits));
        assert_non_null(logits);
        if (gptoss_engine_api()->logits(r->model, c->ids, c->count, logits, &err) != LR_OK)
            fail_msg("%s: %s", c->name, err.text);
        double e = relative_error(logits + total - c->logit_count, c->logits, c->logit_count);
        if (!(e <= 1e-3))
            fail_msg("%s in chunks of %u: relative error %g", c->name, chunk, e);
        free(logits);
    }
    lr_arena_free(&g.arena);
    recorder_close(r);
}

static void demo_logits_equal_the_reference_within_a_thousandth(void **state)
{
    (void)state;
    check_logits(DEMO_MODEL, DEMO_GOLDEN, 0, is_long() ? 1 : 12, NULL);
    check_logits(DEMO_MODEL, DEMO_GOLDEN, 7, is_long() ? 4 : 16, NULL);
}

static void odd_logits_equal_the_reference_within_a_thousandth(void **state)
{
    (void)state;
    check_logits(ODD_MODEL, ODD_GOLDEN, 0, 1, NULL);
    check_logits(ODD_MODEL, ODD_GOLDEN, 5, is_long() ? 1 : 2, NULL);
    if (is_long())
        for (uint32_t chunk = 1; chunk <= 64; chunk *= 2)
            check_logits(ODD_MODEL, ODD_GOLDEN, chunk, 1, NULL);
}

/* Tensors in many parts, and many allocations. */
static void a_device_that_binds_few_bytes_gives_the_same_results(void **state)
{
    static const char small[] =
        "{\"binding_bytes\": 80000, \"allocation_bytes\": 100000, \"kernels\": \"late\"}";

    (void)state;
    check_logits(ODD_MODEL, ODD_GOLDEN, 16, 2, small);
    check_logits(ODD_MODEL, ODD_GOLDEN, 4, 2, small);
}

static void greedy_continuations_equal_the_reference_all_in_one_batch(void **state)
{
    struct recorder *r = open_on(DEMO_MODEL, 0, NULL);
    struct golden g;
    size_t every = is_long() ? 1 : 5;

    (void)state;
    golden_load(&g, DEMO_GOLDEN);
    for (size_t i = 0; i < g.count; i += every) {
        const struct golden_case *c = &g.cases[i];
        struct lr_engine_request request =
            plain_request(i, c->ids, c->count, (uint32_t)c->greedy_count);
        request.ignore_stop = 1;
        must_submit(r, &request);
    }
    recorder_run(r);
    for (size_t i = 0; i < g.count; i += every) {
        const struct record *q = record_of(r, i);
        assert_int_equal(q->count, g.cases[i].greedy_count);
        assert_memory_equal(q->tokens, g.cases[i].greedy,
                            g.cases[i].greedy_count * sizeof(uint32_t));
    }
    lr_arena_free(&g.arena);
    recorder_close(r);
}

/* With log probabilities the host samples, without them the device does. */
static void device_and_host_sample_the_same_tokens(void **state)
{
    struct recorder *r = open_on(DEMO_MODEL, 0, NULL);
    static const uint32_t prompt[] = {5, 99, 1033, 7};

    (void)state;
    for (uint64_t id = 0; id < 8; id++) {
        struct lr_engine_request request = plain_request(id, prompt, 4, 24);
        request.ignore_stop = 1;
        request.sampling.temperature = 0.8f + 0.1f * (float)(id / 2);
        request.sampling.seed = 77 + id / 2;
        request.sampling.logprobs = id % 2;
        must_submit(r, &request);
    }
    recorder_run(r);
    for (uint64_t id = 0; id < 8; id += 2) {
        assert_int_equal(record_of(r, id)->count, 24);
        assert_memory_equal(record_of(r, id)->tokens, record_of(r, id + 1)->tokens,
                            24 * sizeof(uint32_t));
    }
    assert_memory_not_equal(record_of(r, 0)->tokens, record_of(r, 2)->tokens,
                            24 * sizeof(uint32_t));
    recorder_close(r);
}

/* ---- the backend alone ---- */

enum { PAGES = 8, TOKENS = 70 };

struct open_model {
    struct model_gptoss *weights;
    struct gptoss_plan plan;
    struct gptoss_backend *backend;
    uint32_t *usable;
};

static void read_weights(struct open_model *m, const char *dir)
{
    struct lr_error err = {0};

    assert_int_equal(model_gptoss_open(dir, NULL, &m->weights, &err), LR_OK);
    size_t words = (m->weights->vocab_rows + 31) / 32;
    m->usable = calloc(words, sizeof(*m->usable));
    assert_non_null(m->usable);
    memset(m->usable, 0xFF, words * sizeof(*m->usable));
}

static const struct gptoss_backend_options small_options = {.device = "vulkan:0",
                                                            .max_sequences = 4,
                                                            .max_context = 512,
                                                            .prefill_chunk = 128,
                                                            .extra_json = late};

static void open_backend(struct open_model *m, const char *dir)
{
    const struct gptoss_backend_api *api = gptoss_backend_vulkan();
    const struct gptoss_backend_host host = {0};
    struct lr_error err = {0};

    read_weights(m, dir);
    if (api->plan(&m->weights->config, &small_options, &m->plan, &err) != LR_OK ||
        api->open(&host, m->weights, m->usable, &small_options, &m->plan, &m->backend, &err) !=
            LR_OK)
        fail_msg("%s", err.text);
}

static void close_backend(struct open_model *m)
{
    gptoss_backend_vulkan()->close(m->backend);
    model_gptoss_close(m->weights);
    free(m->usable);
}

static lr_code forward(struct open_model *m, const uint32_t *ids, uint32_t from, uint32_t count,
                       const uint32_t *full, const uint32_t *window, float *logits,
                       struct lr_error *err)
{
    struct gptoss_step step = {.position = from,
                               .count = count,
                               .page_count = PAGES,
                               .tokens = ids + from,
                               .full_pages = full,
                               .window_pages = window,
                               .logits = logits};
    const struct gptoss_batch batch = {.steps = &step, .count = 1, .tokens = count};

    return gptoss_backend_vulkan()->forward(m->backend, &batch, err);
}

static void pages_keep_their_content_when_their_number_changes_and_when_they_move(void **state)
{
    const struct gptoss_backend_api *api = gptoss_backend_vulkan();
    struct open_model m = {0};
    struct lr_error err = {0};
    uint32_t ids[TOKENS], full[PAGES], window[PAGES];

    (void)state;
    open_backend(&m, ODD_MODEL);
    size_t vocab = m.weights->vocab_rows;
    float *before = calloc(vocab, sizeof(float)), *after = calloc(vocab, sizeof(float));
    float *rows = calloc(TOKENS * vocab, sizeof(float));
    for (uint32_t i = 0; i < TOKENS; i++)
        ids[i] = (i * 7919 + 13) % (uint32_t)vocab;
    for (uint32_t i = 0; i < PAGES; i++)
        full[i] = window[i] = i;
    assert_int_equal(forward(&m, ids, 0, TOKENS - 1, full, window, rows, &err), LR_OK);
    assert_int_equal(forward(&m, ids, TOKENS - 1, 1, full, window, before, &err), LR_OK);
    assert_int_equal(api->resize(m.backend, GPTOSS_FULL, m.plan.full_pages + 5, &err), LR_OK);
    assert_int_equal(api->resize(m.backend, GPTOSS_WINDOW, m.plan.window_pages + 3, &err),
                     LR_OK);
    const struct gptoss_move moves[] = {{1, m.plan.full_pages + 4}, {0, 9}};
    assert_int_equal(api->move(m.backend, GPTOSS_FULL, moves, 2, &err), LR_OK);
    full[1] = m.plan.full_pages + 4;
    full[0] = 9;
    const struct gptoss_move slides[] = {{2, m.plan.window_pages + 2}};
    assert_int_equal(api->move(m.backend, GPTOSS_WINDOW, slides, 1, &err), LR_OK);
    window[2] = m.plan.window_pages + 2;
    assert_int_equal(forward(&m, ids, TOKENS - 1, 1, full, window, after, &err), LR_OK);
    assert_memory_equal(before, after, vocab * sizeof(float));
    free(before);
    free(after);
    free(rows);
    close_backend(&m);
}

/* ---- devices that fail ---- */

static VkResult VKAPI_PTR lost(VkQueue queue, uint32_t count, const VkSubmitInfo *infos,
                               VkFence fence)
{
    (void)queue;
    (void)count;
    (void)infos;
    (void)fence;
    return VK_ERROR_DEVICE_LOST;
}

static void a_lost_device_is_an_error_of_the_step_and_closes(void **state)
{
    struct open_model m = {0};
    struct lr_error err = {0};
    const uint32_t ids[] = {1, 2, 3}, pages[PAGES] = {0};

    (void)state;
    open_backend(&m, ODD_MODEL);
    float *logits = calloc(3 * (size_t)m.weights->vocab_rows, sizeof(float));
    m.backend->device->vkQueueSubmit = lost;
    assert_int_equal(forward(&m, ids, 0, 3, pages, pages, logits, &err), LR_INTERNAL);
    assert_non_null(strstr(err.text, "was lost"));
    free(logits);
    close_backend(&m);
}

static PFN_vkAllocateMemory real_allocate;
static int allocations_left;

static VkResult VKAPI_PTR short_of_memory(VkDevice handle, const VkMemoryAllocateInfo *info,
                                          const VkAllocationCallbacks *callbacks,
                                          VkDeviceMemory *out)
{
    if (allocations_left-- <= 0)
        return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    return real_allocate(handle, info, callbacks, out);
}

static const struct gpu_host *real_host;

static lr_code open_short(const char *name, const struct gpu_programs *programs,
                          struct gpu_device **out, struct lr_error *err)
{
    lr_code code = real_host->open(name, programs, out, err);

    if (code == LR_OK) {
        real_allocate = (*out)->vkAllocateMemory;
        (*out)->vkAllocateMemory = short_of_memory;
    }
    return code;
}

static void without_memory_the_model_does_not_open_and_nothing_leaks(void **state)
{
    struct open_model m = {0};
    const struct gptoss_backend_host host = {0};
    struct lr_error err = {0};

    (void)state;
    real_host = gptoss_vulkan_host();
    struct gpu_host stingy = *real_host;
    stingy.open = open_short;
    read_weights(&m, ODD_MODEL);
    assert_int_equal(gpu_plan(&stingy, &m.weights->config, &small_options, &m.plan, &err),
                     LR_OK);
    for (int n = 0; n < 1000; n += is_long() ? 1 : 9) {
        allocations_left = n;
        lr_code code = gpu_open(&stingy, &host, m.weights, m.usable, &small_options, &m.plan,
                                &m.backend, &err);
        if (code == LR_OK) {
            assert_true(n > 10);
            break;
        }
        if (code != LR_OUT_OF_RAM) /* lavapipe's memory is the machine's */
            fail_msg("allocation %d: %s", n, err.text);
        assert_null(m.backend);
    }
    assert_non_null(m.backend);
    close_backend(&m);
}

/* With memory for one more layer, then for none, then for all. */
static void pages_that_have_no_memory_to_change_in_keep_their_content(void **state)
{
    struct open_model m = {0};
    struct lr_error err = {0};
    const uint32_t ids[] = {3, 1, 4, 1, 5, 9, 2, 6}, pages[PAGES] = {0};

    (void)state;
    open_backend(&m, ODD_MODEL);
    uint32_t before = m.plan.window_pages;
    size_t vocab = m.weights->vocab_rows;
    float *rows = calloc(7 * vocab, sizeof(float)), *logits = calloc(4 * vocab, sizeof(float));
    assert_int_equal(forward(&m, ids, 0, 7, pages, pages, rows, &err), LR_OK);
    assert_int_equal(forward(&m, ids, 7, 1, pages, pages, logits, &err), LR_OK);
    real_allocate = m.backend->device->vkAllocateMemory;
    m.backend->device->vkAllocateMemory = short_of_memory;
    const struct {
        int allocations;
        uint32_t pages;
        lr_code code;
    } tries[] = {{1, before + 1, LR_OUT_OF_RAM},
                 {0, before - 1, LR_OK}, /* smaller needs no memory */
                 {1000, before + 1, LR_OK}};
    for (size_t i = 0; i < 3; i++) {
        allocations_left = tries[i].allocations;
        uint32_t expected =
            tries[i].code == LR_OK ? tries[i].pages : m.backend->pages[GPTOSS_WINDOW];
        assert_int_equal(gpu_resize(m.backend, GPTOSS_WINDOW, tries[i].pages, &err),
                         tries[i].code);
        assert_int_equal(m.backend->pages[GPTOSS_WINDOW], expected);
        allocations_left = 1000;
        float *again = logits + (i + 1) * vocab;
        assert_int_equal(forward(&m, ids, 7, 1, pages, pages, again, &err), LR_OK);
        assert_memory_equal(again, logits, vocab * sizeof(float));
    }
    free(rows);
    free(logits);
    close_backend(&m);
}

static void a_device_that_is_too_small_is_refused_with_both_numbers(void **state)
{
    struct gptoss_backend_options options = {.device = "vulkan:0"};
    struct model_config config;
    struct gpu_limits limits, small;
    struct gptoss_plan plan;
    struct lr_error err = {0};

    (void)state;
    assert_int_equal(model_config_read(DEMO_MODEL, &config, &err), LR_OK);
    assert_int_equal(vulkan_describe("vulkan", &limits, &err), LR_OK);
    assert_true(limits.is_cpu);
    assert_int_equal(gpu_plan_for(&config, &options, &limits, &plan, &err), LR_OK);
    options.memory_limit = plan.weights;
    assert_int_equal(gpu_plan_for(&config, &options, &limits, &plan, &err), LR_OUT_OF_RAM);
    assert_non_null(strstr(err.text, "--max-context"));
    options.memory_limit = 0;
    small = limits;
    small.threads = 128;
    assert_int_equal(gpu_plan_for(&config, &options, &small, &plan, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "too small"));
    small = limits;
    small.subgroup = 4;
    assert_int_equal(gpu_plan_for(&config, &options, &small, &plan, &err), LR_UNSUPPORTED);
    small = limits;
    small.binding_bytes = 4096;
    assert_int_equal(gpu_plan_for(&config, &options, &small, &plan, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "binds at most"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_loader_or_driver_the_message_says_what_to_install_where),
        cmocka_unit_test(a_device_is_found_by_number_uuid_and_name_and_the_discrete_one_first),
        cmocka_unit_test(a_device_whose_budget_is_used_up_has_no_free_memory),
        cmocka_unit_test(the_plan_counts_the_subgroups_that_the_kernels_get),
        cmocka_unit_test(compiled_kernels_are_kept_and_a_damaged_file_does_no_harm),
        cmocka_unit_test(a_device_that_is_too_small_is_refused_with_both_numbers),
        cmocka_unit_test(odd_logits_equal_the_reference_within_a_thousandth),
        cmocka_unit_test(a_device_that_binds_few_bytes_gives_the_same_results),
        cmocka_unit_test(demo_logits_equal_the_reference_within_a_thousandth),
        cmocka_unit_test(greedy_continuations_equal_the_reference_all_in_one_batch),
        cmocka_unit_test(device_and_host_sample_the_same_tokens),
        cmocka_unit_test(pages_keep_their_content_when_their_number_changes_and_when_they_move),
        cmocka_unit_test(a_lost_device_is_an_error_of_the_step_and_closes),
        cmocka_unit_test(without_memory_the_model_does_not_open_and_nothing_leaks),
        cmocka_unit_test(pages_that_have_no_memory_to_change_in_keep_their_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

/* The engine was built without glslc: there is nothing to test, and devices say so. */
static void without_glslc_the_message_names_it(void **state)
{
    static const char *const device[] = {"vulkan:0"};
    const struct lr_engine_options options = {
        .size = sizeof(options), .devices = device, .device_count = 1};
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_error err = {0};

    (void)state;
    assert_int_equal(gptoss_engine_api()->probe(ODD_MODEL, &options, &need, &err),
                     LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "glslc"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(without_glslc_the_message_names_it)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
