/* The engine's own options: known ones are read, wrong ones are named, others are ignored. */
#include "tests/unit/gptoss/support.h"

#include "engines/gptoss/extra.h"

static void known_options_are_read_and_others_left_alone(void **state)
{
    struct gptoss_extra extra;

    (void)state;
    assert_int_equal(gptoss_extra_read(NULL, &extra, NULL), LR_OK);
    assert_string_equal(extra.random_shape, "");
    assert_false(extra.measure_memory);
    assert_int_equal(
        gptoss_extra_read("{\"random_shape\":\"120b\",\"measure_memory\":true,\"x\":[1]}",
                          &extra, NULL),
        LR_OK);
    assert_string_equal(extra.random_shape, "120b");
    assert_true(extra.measure_memory);
}

static void wrong_options_are_refused_by_name(void **state)
{
    struct gptoss_extra extra;
    struct lr_error err = {0};

    (void)state;
    assert_int_equal(gptoss_extra_read("[1]", &extra, &err), LR_INVALID_ARGUMENT);
    assert_int_equal(gptoss_extra_read("{", &extra, &err), LR_INVALID_ARGUMENT);
    assert_int_equal(gptoss_extra_read("{\"random_shape\":7}", &extra, &err),
                     LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "random_shape"));
    assert_int_equal(gptoss_extra_read("{\"measure_memory\":\"yes\"}", &extra, &err),
                     LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "measure_memory"));
}

static void random_weights_need_a_gpu(void **state)
{
    struct lr_engine_options options = {.size = sizeof(options),
                                        .extra_json = "{\"random_shape\":\"20b\"}"};
    struct lr_engine_host host = {.size = sizeof(host)};
    struct lr_engine_model *model;
    struct lr_error err = {0};

    (void)state;
    assert_int_equal(gptoss_engine_api()->open(&host, "none", &options, &model, &err),
                     LR_UNSUPPORTED);
    assert_null(model);
    assert_non_null(strstr(err.text, "--device cuda"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_options_are_read_and_others_left_alone),
        cmocka_unit_test(wrong_options_are_refused_by_name),
        cmocka_unit_test(random_weights_need_a_gpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
