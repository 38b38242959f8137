/* Reasons as codes and parameters: known sentences fit, others stay as they are. */
#include "tests/unit/router/support.h"

#include "router/fleet/reasons.h"
#include "wire/error.h"

static const char *put(struct lr_buf *out, const struct lr_error *err)
{
    struct lr_json_writer w;
    lr_buf_clear(out);
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    router_reason_put(&w, "reason", err);
    lr_json_end_object(&w);
    return lr_buf_z(out);
}

/* As a node of an earlier release says it. */
static const char *put_heard(struct lr_buf *out, const char *text)
{
    struct lr_error err;
    wire_error_heard(&err, LR_UNAVAILABLE, lr_str_z(text), (struct lr_str){0});
    return put(out, &err);
}

static void an_error_with_an_id_has_it_as_its_code_whatever_its_sentence_says(void **state)
{
    struct lr_buf out;
    struct lr_error err;
    (void)state;
    lr_buf_init(&out, 1 << 16);
    lr_error_restore(&err, LR_UNSUPPORTED, LR_STR_LIT("echo runs here, and no llama does"),
                     LR_STR_LIT("no_engine 28+5,0+4"));
    assert_string_equal(put(&out, &err),
                        "{\"reason_code\":\"no_engine\",\"reason_params\":{\"runtime\":"
                        "\" does\",\"engines\":\"echo\"}}");
    (void)lr_fail(&err, LR_UNAVAILABLE, "no online node has it");
    assert_string_equal(put(&out, &err), "{}");
    lr_buf_free(&out);
}

static void a_sentence_of_an_earlier_release_has_a_code_and_what_stands_in_it(void **state)
{
    struct lr_buf out;
    (void)state;
    lr_buf_init(&out, 1 << 16);
    assert_string_equal(put_heard(&out, "no online node has it"),
                        "{\"reason_code\":\"nowhere\",\"reason_params\":{}}");
    assert_string_equal(put_heard(&out, "node n0 has been silent for 5012 ms"),
                        "{\"reason_code\":\"node_silent\",\"reason_params\":{\"node\":\"n0\","
                        "\"ms\":\"5012\"}}");
    assert_string_equal(
        put_heard(&out,
                  "no engine for runtime \"LlamaForCausalLM\"; engines here: echo, gptoss"),
        "{\"reason_code\":\"no_engine\",\"reason_params\":{\"runtime\":\"LlamaForCausalLM\","
        "\"engines\":\"echo, gptoss\"}}");
    assert_string_equal(put_heard(&out, "killed by SIGSEGV (core dumped)"),
                        "{\"reason_code\":\"worker_killed\",\"reason_params\":{\"signal\":"
                        "\"SIGSEGV (core dumped)\"}}");
    /* A known sentence within another has its code, too. */
    assert_string_equal(
        put_heard(&out,
                  "3 attempts in a row failed; the last: no event of the node in 5000 ms"),
        "{\"reason_code\":\"attempts_failed\",\"reason_params\":{\"count\":\"3\",\"cause\":"
        "\"no event of the node in 5000 ms\",\"cause_code\":\"node_quiet\",\"cause_params\":{"
        "\"ms\":\"5000\"}}}");
    lr_buf_free(&out);
}

static void an_unknown_or_cut_sentence_has_no_code(void **state)
{
    static const char *const texts[] = {"",
                                        "no online node has",
                                        "no online node has it at all",
                                        "node n0 has been silent for 5012",
                                        "{model}",
                                        "model \"m\" needs 1 GiB"};
    struct lr_buf out;
    (void)state;
    lr_buf_init(&out, 1 << 16);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_string_equal(put_heard(&out, texts[i]), "{}");
    lr_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_with_an_id_has_it_as_its_code_whatever_its_sentence_says),
        cmocka_unit_test(a_sentence_of_an_earlier_release_has_a_code_and_what_stands_in_it),
        cmocka_unit_test(an_unknown_or_cut_sentence_has_no_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
