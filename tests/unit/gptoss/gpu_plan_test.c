/* The plan of gpt-oss-20b for a GPU behind Vulkan or Metal, without a GPU. */
#include "tests/unit/gptoss/support.h"

#ifdef GPTOSS_VULKAN

#include "engines/gptoss/backend/gpu/gpu.h"
#include "model/shape.h"

#define GIB (1ull << 30)

static struct model_gptoss *shape;

static int open_shape(void **state)
{
    (void)state;
    /* The engine's table makes the linker take the whole engine, which the backend needs. */
    return recorder_api()->abi == LR_ENGINE_ABI &&
                   model_shape_open("20b", &shape, NULL) == LR_OK
               ? 0
               : -1;
}

static int close_shape(void **state)
{
    (void)state;
    model_gptoss_close(shape);
    return 0;
}

/* A card with memory of its own. */
static const struct gpu_limits card = {
    .name = "a card",
    .total_bytes = 24 * GIB,
    .free_bytes = 24 * GIB,
    .binding_bytes = 4 * GIB - 1,
    .allocation_bytes = 4 * GIB,
    .alignment = 64,
    .subgroup = 32,
    .threads = 1024,
    .shared_bytes = 48 << 10,
};

static struct gptoss_plan plan_of(const struct gpu_limits *limits,
                                  const struct gptoss_backend_options *o)
{
    struct gptoss_plan p;
    struct lr_error err = {0};

    assert_int_equal(gpu_plan_for(&shape->config, o, limits, &p, &err), LR_OK);
    return p;
}

static void only_a_card_with_cooperative_matrices_begins_with_more_than_the_least(void **state)
{
    const struct gptoss_backend_options o = {0}, fixed = {.prefill_chunk = 1024};
    struct gpu_limits limits = card;

    (void)state;
    limits.matrices = true;
    assert_int_equal(plan_of(&limits, &o).first_chunk, 512);
    assert_int_equal(plan_of(&limits, &fixed).least_chunk, 1024);
    limits.unified = true; /* an integrated GPU */
    assert_int_equal(plan_of(&limits, &o).first_chunk, 64);
    limits.unified = limits.matrices = false; /* an old card */
    assert_int_equal(plan_of(&limits, &o).first_chunk, 64);
    assert_int_equal(plan_of(&limits, &o).prefill_chunk, 2048); /* it may grow to that */
}

/* Pages of a layer that are bound at a time. */
static uint64_t bound_pages(const struct gpu_limits *l)
{
    return l->binding_bytes / gpu_layer_page_bytes(&shape->config);
}

static void no_layer_has_more_pages_than_the_device_binds(void **state)
{
    const struct gptoss_backend_options tries[] = {
        {0}, {.max_sequences = 1024}, {.prefill_chunk = 8192}, {.kv_tokens = 1 << 20}};

    (void)state;
    for (uint64_t mib = 128; mib <= 4096; mib *= 2)
        for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
            struct gpu_limits limits = card;
            limits.total_bytes = limits.free_bytes = 80 * GIB;
            limits.binding_bytes = mib << 20;
            const struct gptoss_plan p = plan_of(&limits, &tries[i]);
            uint64_t bound = bound_pages(&limits);
            assert_in_range(p.least_pages[GPTOSS_WINDOW], 1, p.window_pages);
            assert_in_range(p.window_pages, 1, p.most_pages[GPTOSS_WINDOW]);
            assert_in_range(p.most_pages[GPTOSS_WINDOW], 1, bound);
            assert_in_range(p.full_pages, 1, p.most_pages[GPTOSS_FULL]);
            assert_in_range(p.most_pages[GPTOSS_FULL], 1, bound);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_card_with_cooperative_matrices_begins_with_more_than_the_least),
        cmocka_unit_test(no_layer_has_more_pages_than_the_device_binds),
    };
    return cmocka_run_group_tests(tests, open_shape, close_shape);
}
#else
int main(void)
{
    return 0; /* built without Vulkan */
}
#endif
