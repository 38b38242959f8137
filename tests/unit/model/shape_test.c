/* The published shapes: their parameters, their bytes, and the bytes that a decode step
 * reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/shape.h"

static void shapes_have_the_published_sizes(void **state)
{
    struct model_config c;

    (void)state;
    assert_int_equal(model_shape_config("20b", &c, NULL), LR_OK);
    assert_int_equal(c.layers, 24);
    assert_int_equal(c.experts, 32);
    assert_true(c.sliding[0] && !c.sliding[1]);
    assert_int_equal(model_shape_config("120b", &c, NULL), LR_OK);
    assert_int_equal(c.layers, 36);
    assert_int_equal(c.experts, 128);
}

static void another_name_is_refused_with_the_known_ones(void **state)
{
    struct model_gptoss *m;
    struct model_config c;
    struct lr_error err = {0};

    (void)state;
    assert_int_equal(model_shape_config("7b", &c, &err), LR_INVALID_ARGUMENT);
    assert_string_equal(err.text, "shape \"7b\" is not known: 20b or 120b");
    assert_int_equal(model_shape_open("7b", &m, &err), LR_INVALID_ARGUMENT);
    assert_null(m);
}

static void a_shape_opens_without_weights(void **state)
{
    struct model_gptoss *m;

    (void)state;
    assert_int_equal(model_shape_open("20b", &m, NULL), LR_OK);
    assert_null(m->embed);
    assert_null(m->layers[23].gate_up.blocks);
    assert_int_equal(m->vocab_rows, 201088);
    model_gptoss_advise(m, MODEL_ADVICE_WILLNEED);
    model_gptoss_close(m);
}

/* One token of 20b reads 3.708 GB of weights; a large batch reads every expert once. */
static void a_step_reads_what_its_experts_and_context_need(void **state)
{
    struct model_config c;

    (void)state;
    assert_int_equal(model_shape_config("20b", &c, NULL), LR_OK);
    double one = model_step_bytes(&c, 1, 0), all = model_step_bytes(&c, 1000, 0);
    double embed = (double)c.vocab * c.hidden * 2;
    assert_true(one > 3.70e9 && one < 3.72e9);
    assert_true(all > (double)model_gptoss_weight_bytes(&c) - embed - 1e6);
    assert_true(all <
                (double)model_gptoss_weight_bytes(&c) - embed + 1000.0 * c.hidden * 2 + 1);
    /* 12 full layers see 1000 keys, 12 sliding ones 128: K and V, 8 heads of 64, bf16. */
    double kv = model_step_bytes(&c, 1, 1000) - one;
    assert_true(kv > 0.999 * 12 * 1128 * 2048 && kv < 1.001 * 12 * 1128 * 2048);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_have_the_published_sizes),
        cmocka_unit_test(another_name_is_refused_with_the_known_ones),
        cmocka_unit_test(a_shape_opens_without_weights),
        cmocka_unit_test(a_step_reads_what_its_experts_and_context_need),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
