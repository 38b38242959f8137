/* Our own exp, log, sine, cosine, tanh and erf against those of the C library, and the angles
 * of ropes far into a context. */
#include <math.h>

#include "engines/native/cpu/scalar.h"
#include "engines/native/spec/math.h"
#include "tests/unit/native/support.h"

static void near(double got, double wanted, double limit, const char *what, double x)
{
    double unit = fabs(wanted) > 1e-30 ? fabs(wanted) : 1e-30;

    if (!(fabs(got - wanted) <= limit * unit))
        fail_msg("%s(%.17g) is %.17g, expected %.17g", what, x, got, wanted);
}

static void doubles_are_right_to_fourteen_digits(void **state)
{
    (void)state;
    for (int i = -1900; i < 1900; i++)
        near(native_exp(0.37 * i), exp(0.37 * i), 1e-14, "exp", 0.37 * i);
    for (int i = -50; i < 50; i++)
        near(native_log(pow(1.7, i)), log(pow(1.7, i)), 1e-14, "log", pow(1.7, i));
    assert_true(native_exp(-800) == 0 && isinf(native_exp(800)));
}

static void angles_of_positions_up_to_131071_are_right_to_ten_digits(void **state)
{
    static const uint32_t positions[] = {0, 1, 17, 4095, 32767, 131071};
    double sine, cosine;

    (void)state;
    for (size_t p = 0; p < sizeof(positions) / sizeof(positions[0]); p++)
        for (int i = 0; i < 62; i++) {
            double x = positions[p] * pow(0.77, i);
            native_sincos(x, &sine, &cosine);
            if (fabs(sine - sin(x)) > 1e-10 || fabs(cosine - cos(x)) > 1e-10)
                fail_msg("sine and cosine of %.17g", x);
        }
}

static void floats_are_right_to_six_digits(void **state)
{
    (void)state;
    for (int i = -6000; i < 6000; i++) {
        float x = 0.013f * (float)i;
        near((double)scalar_exp(x), exp((double)x), 1e-6, "exp", (double)x);
        near((double)scalar_tanh(x / 8), tanh((double)x / 8), 1e-6, "tanh", (double)x / 8);
        near((double)scalar_erf(x / 16), erf((double)x / 16), 1e-6, "erf", (double)x / 16);
    }
    assert_true(scalar_exp(-1e9f) < 1e-37f && scalar_exp(1e9f) > 1e38f);
}

/* The first rope of qwen3 with these members instead of its own. */
static void read_rope(const char *from, const char *to, struct native_rope_table *out,
                      double inverse[16])
{
    const struct native_arch *arch;
    const struct lr_json *config;
    struct model_weights *weights;
    struct native_spec spec;
    struct lr_error err = {0};
    struct lr_arena arena;
    char text[4096];

    lr_arena_init(&arena, 16 << 20);
    struct lr_str whole = family_file(&arena, "qwen3", "config.json");
    const char *at = strstr(whole.ptr, from);
    assert_non_null(at);
    snprintf(text, sizeof(text), "%.*s%s%s", (int)(at - whole.ptr), whole.ptr, to,
             at + strlen(from));
    assert_int_equal(lr_json_parse(&arena, lr_str_z(text), NULL, &config, NULL), LR_OK);
    assert_int_equal(native_arch_find(config, &arch, &err), LR_OK);
    assert_int_equal(model_weights_open(FAMILIES "qwen3", &weights, &err), LR_OK);
    if (native_spec_build(config, "qwen3", weights, arch, &spec, &err) != LR_OK)
        fail_msg("%s", err.text);
    *out = spec.ropes[0];
    assert_int_equal(out->dims, 32);
    memcpy(inverse, out->inverse, 16 * sizeof(*inverse));
    native_spec_free(&spec);
    model_weights_close(weights);
    lr_arena_free(&arena);
}

static void scaled_ropes_follow_their_formulas(void **state)
{
    struct native_rope_table t;
    double plain[16], v[16];

    (void)state;
    read_rope("\"rope_scaling\": null", "\"rope_scaling\": null", &t, plain);
    for (int i = 0; i < 16; i++)
        near(plain[i], pow(1e6, -2.0 * i / 32), 1e-13, "inverse", i);
    read_rope("\"rope_scaling\": null", "\"rope_scaling\": {\"type\":\"linear\",\"factor\":4}",
              &t, v);
    for (int i = 0; i < 16; i++)
        near(v[i], plain[i] / 4, 1e-15, "linear", i);
    read_rope("\"rope_scaling\": null",
              "\"rope_scaling\": {\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":1,"
              "\"high_freq_factor\":4,\"original_max_position_embeddings\":64}",
              &t, v);
    for (int i = 0; i < 16; i++) {
        double turns = 64 * plain[i] / (2 * NATIVE_PI), smooth = (turns - 1) / 3;
        double wanted = turns < 1   ? plain[i] / 8
                        : turns > 4 ? plain[i]
                                    : (1 - smooth) * plain[i] / 8 + smooth * plain[i];
        near(v[i], wanted, 1e-13, "llama3", i);
    }
    read_rope("\"rope_scaling\": null",
              "\"rope_scaling\": {\"rope_type\":\"yarn\",\"factor\":4,"
              "\"original_max_position_embeddings\":64}",
              &t, v);
    near(t.attention, 0.1 * log(4) + 1, 1e-13, "yarn", 0);
    near(v[0], plain[0], 1e-13, "yarn", 0);
    near(v[15], plain[15] / 4, 1e-13, "yarn", 15);
    read_rope("\"rope_scaling\": null", "\"rope_scaling\": {\"type\":\"dynamic\",\"factor\":2}",
              &t, v);
    assert_true(t.dynamic == 2 && t.limit == 2048);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubles_are_right_to_fourteen_digits),
        cmocka_unit_test(angles_of_positions_up_to_131071_are_right_to_ten_digits),
        cmocka_unit_test(floats_are_right_to_six_digits),
        cmocka_unit_test(scaled_ropes_follow_their_formulas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
