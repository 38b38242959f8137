/* The memory plan of a GPU, without a GPU: what fits on a card, and what a card that is too
 * small is told.
 * Also the message for a driver that cannot compile the kernels. */
#include "tests/unit/gptoss/support.h"

#ifdef GPTOSS_CUDA
#include "engines/gptoss/backend/cuda/cuda.h"
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

static lr_code plan(uint64_t card, int units, const struct gptoss_backend_options *o,
                    struct gptoss_plan *out, struct lr_error *err)
{
    const struct cuda_device device = {.total_bytes = card, .multiprocessors = units};

    *err = (struct lr_error){0};
    return cuda_plan_for(&shape->config, o, &device, out, err);
}

static void a_large_card_has_everything_on_the_device_and_room_to_grow(void **state)
{
    const struct gptoss_backend_options o = {.memory_limit = 126 * GIB};
    struct gptoss_plan p;
    struct lr_error err;

    (void)state;
    assert_int_equal(plan(140 * GIB, 132, &o, &p, &err), LR_OK);
    assert_int_equal(p.embed_on_host, 0);
    assert_int_equal(p.max_context, 131072);
    assert_true(p.full_pages * p.page_tokens >= 262144);
    assert_int_equal(p.fixed >> 20, 663);
    assert_true(p.most_pages[GPTOSS_FULL] * p.full_page_bytes > 130 * GIB);
    assert_int_equal(p.least_pages[GPTOSS_FULL] * p.page_tokens, 131072);
    assert_int_equal(p.first_chunk, p.prefill_chunk); /* no growth before the full speed */
}

static void fifteen_gib_hold_a_prompt_of_32000_tokens(void **state)
{
    const struct gptoss_backend_options o = {.memory_limit = 15 * GIB};
    struct gptoss_plan p;
    struct lr_error err;

    (void)state;
    assert_int_equal(plan(140 * GIB, 132, &o, &p, &err), LR_OK);
    assert_int_equal(p.embed_on_host, 1);
    assert_true(p.total <= 15 * GIB);
    assert_true(p.max_context > 40000);
    assert_true(p.full_pages * p.page_tokens >= p.max_context);
}

static void the_number_of_sequences_follows_from_memory(void **state)
{
    uint32_t before = 0;
    struct gptoss_plan p;
    struct lr_error err;

    (void)state;
    for (uint64_t limit = 15; limit <= 60; limit++) {
        const struct gptoss_backend_options o = {.memory_limit = limit * GIB};
        assert_int_equal(plan(140 * GIB, 132, &o, &p, &err), LR_OK);
        assert_true(p.max_sequences >= before);
        /* More than the least only if nothing else becomes smaller by it. */
        if (p.max_sequences > 64)
            assert_true(p.embed_on_host == 0 && p.full_pages * p.page_tokens >= 262144);
        before = p.max_sequences;
        if (limit == 15)
            assert_int_equal(p.max_sequences, 64);
    }
    assert_int_equal(before, 256);
    const struct gptoss_backend_options given = {.max_sequences = 100};
    assert_int_equal(plan(140 * GIB, 132, &given, &p, &err), LR_OK);
    assert_int_equal(p.max_sequences, 100);
}

static void the_plan_is_the_same_within_its_own_total(void **state)
{
    (void)state;
    for (uint64_t limit = 14; limit <= 40; limit++) {
        struct gptoss_backend_options o = {.memory_limit = limit * GIB};
        struct gptoss_plan first, second;
        struct lr_error err;
        if (plan(limit < 24 ? 16 * GIB : 140 * GIB, 60, &o, &first, &err) != LR_OK)
            continue;
        o.memory_limit = first.total;
        assert_int_equal(plan(limit < 24 ? 16 * GIB : 140 * GIB, 60, &o, &second, &err), LR_OK);
        assert_memory_equal(&first, &second, sizeof(first));
    }
}

static void a_small_card_has_a_smaller_workspace_and_fixed_part(void **state)
{
    const struct gptoss_backend_options o = {.memory_limit = 15 * GIB};
    struct gptoss_plan small, large;
    struct lr_error err;

    (void)state;
    assert_int_equal(plan(16 * GIB, 34, &o, &small, &err), LR_OK);
    assert_int_equal(plan(140 * GIB, 132, &o, &large, &err), LR_OK);
    assert_true(small.workspace < large.workspace * 2 / 3);
    assert_true(small.fixed < large.fixed * 2 / 3);
    assert_true(small.max_context > large.max_context);
}

static void a_card_that_is_too_small_is_told_what_is_missing_and_what_helps(void **state)
{
    struct gptoss_backend_options o = {.memory_limit = 15 * GIB, .max_context = 131072};
    struct gptoss_plan p;
    struct lr_error err;
    unsigned context = 0;

    (void)state;
    assert_int_equal(plan(16 * GIB, 60, &o, &p, &err), LR_OUT_OF_VRAM);
    assert_non_null(strstr(err.text, " are missing; --max-context "));
    assert_int_equal(
        sscanf(strstr(err.text, "--max-context"), "--max-context %u would fit", &context), 1);
    o.max_context = context;
    assert_int_equal(plan(16 * GIB, 60, &o, &p, &err), LR_OK);

    o = (struct gptoss_backend_options){.memory_limit = 8 * GIB};
    assert_int_equal(plan(8 * GIB, 60, &o, &p, &err), LR_OUT_OF_VRAM);
    assert_non_null(strstr(err.text, "no setting helps"));

    o = (struct gptoss_backend_options){.memory_limit = 15 * GIB, .max_sequences = 1024};
    assert_int_equal(plan(16 * GIB, 60, &o, &p, &err), LR_OUT_OF_VRAM);
    assert_non_null(strstr(err.text, "--max-sequences "));

    o = (struct gptoss_backend_options){.memory_limit = 15 * GIB, .kv_tokens = 1000000};
    assert_int_equal(plan(16 * GIB, 60, &o, &p, &err), LR_OUT_OF_VRAM);
    assert_non_null(strstr(err.text, "without --max-tokens would fit"));
}

static void
a_driver_that_is_too_old_for_the_code_is_told_both_versions_and_what_helps(void **state)
{
    const struct cuda_device device = {.name = "NVIDIA RTX 3090", .major = 8, .minor = 6};
    struct lr_error err = {0};
    char needed[32];

    (void)state;
    assert_int_equal(
        cuda_code_refused(CUDA_ERROR_UNSUPPORTED_PTX_VERSION, 12040, &device, &err),
        LR_UNSUPPORTED);
    (void)snprintf(needed, sizeof(needed), "one for CUDA %d.%d or later", CUDA_VERSION / 1000,
                   CUDA_VERSION % 1000 / 10);
    assert_non_null(strstr(err.text, "driver is for CUDA 12.4 "));
    assert_non_null(strstr(err.text, needed));
    assert_non_null(strstr(err.text, "NVIDIA RTX 3090 (compute capability 8.6)"));
    assert_non_null(strstr(err.text, "install a newer driver"));
    assert_non_null(strstr(err.text, "release-all-gpus"));
    assert_int_equal(cuda_code_refused(CUDA_ERROR_NO_BINARY_FOR_GPU, 13000, &device, &err),
                     LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "no code for NVIDIA RTX 3090"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_large_card_has_everything_on_the_device_and_room_to_grow),
        cmocka_unit_test(fifteen_gib_hold_a_prompt_of_32000_tokens),
        cmocka_unit_test(the_number_of_sequences_follows_from_memory),
        cmocka_unit_test(the_plan_is_the_same_within_its_own_total),
        cmocka_unit_test(a_small_card_has_a_smaller_workspace_and_fixed_part),
        cmocka_unit_test(a_card_that_is_too_small_is_told_what_is_missing_and_what_helps),
        cmocka_unit_test(
            a_driver_that_is_too_old_for_the_code_is_told_both_versions_and_what_helps),
    };
    return cmocka_run_group_tests(tests, open_shape, close_shape);
}
#else
int main(void)
{
    return 0; /* built without CUDA */
}
#endif
