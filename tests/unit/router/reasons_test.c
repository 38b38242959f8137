/* Reasons as codes and parameters: known sentences fit, others stay as they are. */
#include "tests/unit/router/support.h"

#include "router/fleet/reasons.h"

static const char *put(struct lr_buf *out, const char *text)
{
    struct lr_json_writer w;
    lr_buf_clear(out);
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    router_reason_put(&w, "reason", lr_str_z(text));
    lr_json_end_object(&w);
    return lr_buf_z(out);
}

static void a_known_sentence_has_a_code_and_what_stands_in_it(void **state)
{
    struct lr_buf out;
    (void)state;
    lr_buf_init(&out, 1 << 16);
    assert_string_equal(put(&out, "no online node has it"),
                        "{\"reason_code\":\"nowhere\",\"reason_params\":{}}");
    assert_string_equal(put(&out, "node n0 has been silent for 5012 ms"),
                        "{\"reason_code\":\"node_silent\",\"reason_params\":{\"node\":\"n0\","
                        "\"ms\":\"5012\"}}");
    assert_string_equal(
        put(&out, "no engine for runtime \"LlamaForCausalLM\"; engines here: echo, gptoss"),
        "{\"reason_code\":\"no_engine\",\"reason_params\":{\"runtime\":\"LlamaForCausalLM\","
        "\"engines\":\"echo, gptoss\"}}");
    assert_string_equal(put(&out, "killed by SIGSEGV (core dumped)"),
                        "{\"reason_code\":\"worker_killed\",\"reason_params\":{\"signal\":"
                        "\"SIGSEGV (core dumped)\"}}");
    /* A known sentence within another has its code, too. */
    assert_string_equal(
        put(&out, "3 attempts in a row failed; the last: no event of the node in 5000 ms"),
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
        assert_string_equal(put(&out, texts[i]), "{}");
    lr_buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_sentence_has_a_code_and_what_stands_in_it),
        cmocka_unit_test(an_unknown_or_cut_sentence_has_no_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
