/* tests/unit/llamacpp/engine_test.c - the engine compared with libllama itself. */
#include "tests/unit/llamacpp/support.h"

#include <math.h>

enum { PROMPT = 40 };

static void fill_prompt(uint32_t *ids, uint32_t count, uint32_t seed)
{
    for (uint32_t i = 0; i < count; i++)
        ids[i] = (seed * 2654435761u + i * 40503u) % 400;
}

/* ---- numbers ---- */

static void test_logits_equal_those_of_a_plain_decode(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    struct recorder *r = recorder_open(LLAMACPP_MODEL, &options);
    struct direct d = direct_open(256);
    struct lr_error err = {0};
    uint32_t ids[PROMPT];
    double worst = 0;

    fill_prompt(ids, PROMPT, 3);
    float *logits = calloc((size_t)PROMPT * d.rows, sizeof(*logits));
    assert_int_equal(api()->logits(r->model, ids, PROMPT, logits, &err), LR_OK);
    direct_decode(&d, ids, PROMPT, 0);
    for (int32_t i = 0; i < PROMPT; i++) {
        const float *row = d.lib->llama_get_logits_ith(d.context, i);
        for (uint32_t k = 0; k < d.rows; k++)
            worst = fmax(worst, fabs((double)logits[(size_t)i * d.rows + k] - (double)row[k]));
    }
    print_message("largest difference %g\n", worst);
    assert_true(worst < 1e-4);
    free(logits);
    direct_close(&d);
    recorder_close(r);
}

static uint32_t largest(const float *row, uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < count - 1; i++) /* the last id is marked as unused */
        if (row[i] > row[best])
            best = i;
    return best;
}

static void test_greedy_tokens_equal_those_of_a_plain_loop(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    struct recorder *r = recorder_open(LLAMACPP_MODEL, &options);
    struct direct d = direct_open(256);
    uint32_t ids[PROMPT], id;

    fill_prompt(ids, PROMPT, 9);
    struct lr_engine_request request = endless_request(1, ids, PROMPT, 60);
    must_submit(r, &request);
    recorder_run(r);
    assert_int_equal(record_of(r, 1)->count, 60);
    direct_decode(&d, ids, PROMPT, 0);
    id = largest(d.lib->llama_get_logits_ith(d.context, PROMPT - 1), d.rows);
    for (int32_t i = 0; i < 60; i++) {
        assert_int_equal(record_of(r, 1)->tokens[i], id);
        direct_decode(&d, &id, 1, PROMPT + i);
        id = largest(d.lib->llama_get_logits_ith(d.context, 0), d.rows);
    }
    direct_close(&d);
    recorder_close(r);
}

/* ---- batches with little memory ---- */

static void run_many(const struct lr_engine_options *options, uint32_t requests,
                     uint32_t max_tokens)
{
    struct recorder *r = recorder_open(LLAMACPP_MODEL, options);
    uint32_t ids[PROMPT];

    for (uint32_t i = 1; i <= requests; i++) { /* each alone */
        fill_prompt(ids, PROMPT, i);
        struct lr_engine_request request = endless_request(i, ids, PROMPT, max_tokens);
        must_submit(r, &request);
        recorder_run(r);
    }
    for (uint32_t i = 1; i <= requests; i++) {
        fill_prompt(ids, PROMPT, i);
        struct lr_engine_request request = endless_request(100 + i, ids, PROMPT, max_tokens);
        must_submit(r, &request);
    }
    recorder_run(r);
    for (uint32_t i = 1; i <= requests; i++) {
        const struct record *alone = record_of(r, i), *among = record_of(r, 100 + i);
        assert_int_equal(among->done_calls, 1);
        assert_int_equal(among->reason, LR_FINISH_LENGTH);
        assert_int_equal(among->count, max_tokens);
        assert_memory_equal(alone->tokens, among->tokens, max_tokens * sizeof(uint32_t));
    }
    assert_int_equal(recorder_stats(r).kv_bytes_in_use, 0);
    recorder_close(r);
}

static void test_sixteen_requests_at_once_give_the_answers_of_each_alone(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    options.max_sequences = 16;
    run_many(&options, 16, 24);
}

static void test_a_pool_too_small_for_all_still_serves_all(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    options.max_tokens = 256; /* four of 40 + 100 tokens do not fit: some are preempted */
    run_many(&options, 6, 100);
}

/* ---- ends ---- */

static void test_a_cancel_inside_a_callback_frees_the_cells_at_once(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    struct recorder *r = recorder_open(LLAMACPP_MODEL, &options);
    uint32_t ids[PROMPT];
    int32_t busy = 1;
    struct lr_error err;

    fill_prompt(ids, PROMPT, 5);
    r->cancel_at_token = 3;
    struct lr_engine_request request = endless_request(1, ids, PROMPT, 50);
    must_submit(r, &request);
    assert_int_equal(api()->step(r->model, &busy, &err), LR_OK);
    assert_int_equal(recorder_stats(r).pages_in_use, 16); /* the first chunk */
    recorder_run(r);
    assert_int_equal(record_of(r, 1)->count, 3);
    assert_int_equal(record_of(r, 1)->reason, LR_FINISH_CANCELLED);
    assert_int_equal(record_of(r, 1)->usage.completion_tokens, 3);
    assert_int_equal(recorder_stats(r).pages_in_use, 0);
    recorder_close(r);
}

static void test_an_end_of_turn_token_is_emitted_and_ends_the_answer(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    struct recorder *r = recorder_open(LLAMACPP_MODEL, &options);
    uint32_t ids[PROMPT];
    struct lr_logit_bias bias = {token_named(r, "<|im_end|>"), 1000.0f};

    fill_prompt(ids, PROMPT, 6);
    struct lr_engine_request request = endless_request(1, ids, PROMPT, 50);
    request.ignore_stop = 0;
    request.sampling.logit_bias = &bias;
    request.sampling.logit_bias_count = 1;
    must_submit(r, &request);
    recorder_run(r);
    assert_int_equal(record_of(r, 1)->count, 1);
    assert_int_equal(record_of(r, 1)->specials, 1);
    assert_int_equal(record_of(r, 1)->reason, LR_FINISH_STOP);
    recorder_close(r);
}

static void test_an_unused_token_is_never_sampled(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    struct recorder *r = recorder_open(LLAMACPP_MODEL, &options);
    uint32_t ids[PROMPT];
    struct direct d = direct_open(256);
    struct lr_logit_bias bias = {d.rows - 1, 1000.0f};

    fill_prompt(ids, PROMPT, 6);
    struct lr_engine_request request = endless_request(1, ids, PROMPT, 10);
    request.sampling.logit_bias = &bias;
    request.sampling.logit_bias_count = 1;
    must_submit(r, &request);
    recorder_run(r);
    for (uint32_t i = 0; i < 10; i++)
        assert_true(record_of(r, 1)->tokens[i] < d.rows - 1);
    direct_close(&d);
    recorder_close(r);
}

static void test_only_tokens_of_the_mask_are_sampled(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    struct recorder *r = recorder_open(LLAMACPP_MODEL, &options);
    uint32_t ids[PROMPT];

    fill_prompt(ids, PROMPT, 7);
    r->mask_ids[0] = 17;
    r->mask_ids[1] = 301;
    r->mask_count = 2;
    struct lr_engine_request request = endless_request(1, ids, PROMPT, 30);
    request.constrained = 1;
    request.sampling.temperature = 1.5f;
    must_submit(r, &request);
    recorder_run(r);
    for (uint32_t i = 0; i < 30; i++)
        assert_true(record_of(r, 1)->tokens[i] == 17 || record_of(r, 1)->tokens[i] == 301);
    recorder_close(r);
}

/* ---- options ---- */

static void expect_refused(struct lr_engine_options options, lr_code wanted, const char *word)
{
    struct recorder *r = recorder_create();
    struct lr_error err = {0};
    lr_code code = api()->open(&r->host, LLAMACPP_MODEL, &options, &r->model, &err);

    assert_int_equal(code, wanted);
    assert_null(r->model);
    if (strstr(err.text, word) == NULL)
        fail_msg("no \"%s\" in: %s", word, err.text);
    free(r);
}

static void test_unsupported_requests_are_refused_with_a_reason(void **state)
{
    (void)state;
    const char *cuda = "cuda:7", *metal = "metal:0", *uuid = "GPU-0", *vulkan = "vulkan:x";
    struct lr_engine_options options = small_options();

    options.device_count = 1;
    options.devices = &cuda;
    expect_refused(options, LR_INTERNAL, "cuda:7");
    options.devices = &uuid;
    expect_refused(options, LR_INTERNAL, "GPU-0");
    options.devices = &metal;
    expect_refused(options, LR_UNSUPPORTED, "metal:0");
    options.devices = &vulkan;
    expect_refused(options, LR_UNSUPPORTED, "with a number");
    options = small_options();
    options.extra_json = "{\"speed\": 9}";
    expect_refused(options, LR_INVALID_ARGUMENT, "speed");
    options.extra_json = "{\"kv_type\": \"q1\"}";
    expect_refused(options, LR_INVALID_ARGUMENT, "q8_0");
    options.extra_json = NULL;
    options.artifact_path = "metal/model.bin";
    expect_refused(options, LR_UNSUPPORTED, "metal/model.bin");
    options = small_options();
    options.ram_limit = 1 << 20;
    expect_refused(options, LR_OUT_OF_RAM, "1048576");
}

static void test_a_limit_shrinks_a_cache_that_was_left_to_the_engine(void **state)
{
    (void)state;
    struct lr_engine_options options = {.size = sizeof(options)};
    struct lr_engine_need need = {.size = sizeof(need)}, less = {.size = sizeof(less)};
    struct lr_error err = {0};

    assert_int_equal(api()->probe(LLAMACPP_MODEL, &options, &need, &err), LR_OK);
    options.ram_limit = need.total - need.kv / 4;
    assert_int_equal(api()->probe(LLAMACPP_MODEL, &options, &less, &err), LR_OK);
    assert_true(less.total <= options.ram_limit && less.kv < need.kv);
    options.max_tokens = 32768; /* set by the operator: must not be changed */
    assert_int_equal(api()->probe(LLAMACPP_MODEL, &options, &less, &err), LR_OUT_OF_RAM);
}

static void test_other_types_of_cache_work(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    uint32_t ids[PROMPT];

    fill_prompt(ids, PROMPT, 8);
    for (int i = 0; i < 2; i++) {
        options.extra_json = i == 0 ? "{\"kv_type\": \"f32\"}" : "{\"kv_type\": \"q8_0\"}";
        struct recorder *r = recorder_open(LLAMACPP_MODEL, &options);
        struct lr_engine_request request = endless_request(1, ids, PROMPT, 8);
        must_submit(r, &request);
        recorder_run(r);
        assert_int_equal(record_of(r, 1)->count, 8);
        recorder_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_logits_equal_those_of_a_plain_decode),
        cmocka_unit_test(test_greedy_tokens_equal_those_of_a_plain_loop),
        cmocka_unit_test(test_sixteen_requests_at_once_give_the_answers_of_each_alone),
        cmocka_unit_test(test_a_pool_too_small_for_all_still_serves_all),
        cmocka_unit_test(test_a_cancel_inside_a_callback_frees_the_cells_at_once),
        cmocka_unit_test(test_an_end_of_turn_token_is_emitted_and_ends_the_answer),
        cmocka_unit_test(test_an_unused_token_is_never_sampled),
        cmocka_unit_test(test_only_tokens_of_the_mask_are_sampled),
        cmocka_unit_test(test_unsupported_requests_are_refused_with_a_reason),
        cmocka_unit_test(test_a_limit_shrinks_a_cache_that_was_left_to_the_engine),
        cmocka_unit_test(test_other_types_of_cache_work),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
