/* The engine through its ABI: stops, limits, cancels, continuations, masks, messages with both
 * numbers. */
#include "tests/unit/gptoss/support.h"

#include <math.h>

#include "engines/serving/model.h"

#define API gptoss_engine_api()

static const char prompt_text[] = "<|start|>user<|message|>hello<|end|><|start|>assistant";

static struct lr_engine_request text_request(uint64_t id, const struct lr_segment *segment,
                                             uint32_t max_tokens)
{
    struct lr_engine_request r = plain_request(id, NULL, 0, max_tokens);

    r.segments = segment;
    r.segment_count = 1;
    return r;
}

static const struct lr_segment hello = {prompt_text, sizeof(prompt_text) - 1, 1, 0};

static void the_demo_model_answers_in_words_and_stops_by_itself(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_engine_request request = text_request(1, &hello, 0);

    (void)state;
    must_submit(r, &request);
    recorder_run(r);
    struct record *q = record_of(r, 1);
    assert_int_equal(q->done_calls, 1);
    assert_int_equal(q->reason, LR_FINISH_STOP);
    assert_non_null(strstr(q->text, "<|channel|>final<|message|>"));
    assert_non_null(strstr(q->text, "<|return|>")); /* the stop is emitted, by name */
    assert_int_equal(q->usage.completion_tokens, q->count);
    assert_true(q->usage.prompt_tokens > 5);
    assert_int_equal(recorder_stats(r).kv_bytes_in_use, 0);
    recorder_close(r);
}

static void max_tokens_and_stop_ids_end_an_answer(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_engine_request request = text_request(1, &hello, 3);

    (void)state;
    must_submit(r, &request);
    recorder_run(r);
    assert_int_equal(record_of(r, 1)->count, 3);
    assert_int_equal(record_of(r, 1)->reason, LR_FINISH_LENGTH);
    uint32_t stop = record_of(r, 1)->tokens[1];
    request = text_request(2, &hello, 50);
    request.stop_ids = &stop;
    request.stop_id_count = 1;
    must_submit(r, &request);
    recorder_run(r);
    assert_int_equal(record_of(r, 2)->count, 2);
    assert_int_equal(record_of(r, 2)->reason, LR_FINISH_STOP);
    recorder_close(r);
}

static void
a_beginning_that_was_computed_is_not_computed_again_and_changes_no_token(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct golden g;

    (void)state;
    golden_load(&g, DEMO_GOLDEN);
    const struct golden_case *longest = &g.cases[0];
    for (size_t i = 1; i < g.count; i++)
        if (g.cases[i].count > longest->count)
            longest = &g.cases[i];
    const char *const scopes[] = {"key", "key", "another key", NULL};
    for (uint32_t i = 0; i < 4; i++) {
        struct lr_engine_request q = plain_request(i + 1, longest->ids, longest->count, 20);
        uint64_t before = recorder_stats(r).prompt_tokens;
        q.cache_scope = scopes[i];
        must_submit(r, &q);
        recorder_run(r);
        const struct record *now = record_of(r, i + 1), *first = record_of(r, 1);
        assert_memory_equal(now->tokens, first->tokens, first->count * sizeof(uint32_t));
        assert_int_equal(now->prefill_done, longest->count);
        assert_int_equal(now->usage.prompt_tokens, longest->count);
        assert_int_equal(recorder_stats(r).prompt_tokens - before,
                         longest->count - now->usage.cached_tokens);
        assert_int_equal(recorder_stats(r).kv_bytes_in_use, 0);
        if (i == 1)
            assert_true(now->usage.cached_tokens > longest->count * 3 / 4);
        else
            assert_int_equal(now->usage.cached_tokens, 0);
    }
    lr_arena_free(&g.arena);
    recorder_close(r);
}

static void a_step_report_counts_running_and_waiting_requests(void **state)
{
    const struct lr_engine_options options = {
        .size = sizeof(options), .max_sequences = 1, .max_context = 256, .prefill_chunk = 4};
    struct recorder *r = recorder_open(DEMO_MODEL, &options);
    struct lr_engine_request first = text_request(1, &hello, 3),
                             second = text_request(2, &hello, 3);

    (void)state;
    must_submit(r, &first);
    must_submit(r, &second);
    recorder_run(r);
    uint64_t tokens = record_of(r, 1)->usage.prompt_tokens;
    assert_int_equal(r->step_reports, recorder_stats(r).steps);
    assert_int_equal(r->first_step.sequences, 1);
    assert_int_equal(r->first_step.waiting, 1);
    assert_int_equal(r->first_step.prompt_tokens, tokens < 4 ? tokens : 4);
    assert_int_equal(r->first_step.kv_bytes, recorder_stats(r).kv_bytes);
    assert_true(r->first_step.kv_bytes_in_use > 0);
    assert_true(r->first_step.duration_ns > 0);
    recorder_close(r);
}

static void a_sampled_run_continued_elsewhere_equals_one_run(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_engine_request request = text_request(1, &hello, 40);

    (void)state;
    request.sampling.temperature = 1.5f;
    request.sampling.seed = 12345;
    request.sampling.frequency_penalty = 0.2f;
    request.ignore_stop = 1;
    must_submit(r, &request);
    recorder_run(r);
    const struct record *whole = record_of(r, 1);
    assert_int_equal(whole->count, 40);
    for (uint32_t cut = 1; cut < 40; cut += 13) {
        request.id = 100 + cut;
        request.generated = whole->tokens;
        request.generated_count = cut;
        must_submit(r, &request);
        recorder_run(r);
        const struct record *rest = record_of(r, request.id);
        assert_int_equal(rest->count, 40 - cut);
        assert_memory_equal(rest->tokens, whole->tokens + cut, (40 - cut) * sizeof(uint32_t));
        assert_int_equal(rest->usage.completion_tokens, 40);
    }
    recorder_close(r);
}

/* The n-th token of an answer is sampled with the noise of index n, for any prompt. */
static void each_token_is_what_the_sampler_gives_at_its_index(void **state)
{
    enum { TOKENS = 24 };
    static const uint32_t prompt[] = {11, 7, 300, 12};
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_engine_request request = plain_request(1, prompt, 4, TOKENS);

    (void)state;
    request.sampling.temperature = 1.3f;
    request.sampling.seed = 99;
    request.ignore_stop = 1;
    must_submit(r, &request);
    recorder_run(r);
    const struct record *whole = record_of(r, 1);
    assert_int_equal(whole->count, TOKENS);

    uint32_t vocab = r->model->vocabulary.rows, ids[4 + TOKENS];
    struct sampler *sampler = sampler_create(vocab);
    float *logits = calloc((size_t)(4 + TOKENS) * vocab, sizeof(*logits));
    assert_true(sampler != NULL && logits != NULL);
    memcpy(ids, prompt, sizeof(prompt));
    memcpy(ids + 4, whole->tokens, TOKENS * sizeof(*ids));
    assert_int_equal(recorder_api()->logits(r->model, ids, 4 + TOKENS, logits, NULL), LR_OK);
    uint32_t moved = 0;
    for (uint32_t i = 0; i < TOKENS; i++) {
        struct sampler_input how = {.sampling = &request.sampling,
                                    .index = i,
                                    .prompt_count = 4,
                                    .history_count = 4 + i,
                                    .history = ids};
        struct sampler_result sampled;
        const float *row = logits + (size_t)(3 + i) * vocab;
        sampler_sample(sampler, row, r->model->vocabulary.usable, &how, &sampled);
        assert_int_equal(sampled.id, whole->tokens[i]);
        how.index = i + 1;
        sampler_sample(sampler, row, r->model->vocabulary.usable, &how, &sampled);
        moved += sampled.id != whole->tokens[i];
    }
    assert_true(moved > 0); /* otherwise the index would have no effect */
    free(logits);
    sampler_destroy(sampler);
    recorder_close(r);
}

static void a_continuation_that_is_complete_only_ends(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_engine_request request = text_request(1, &hello, 0);

    (void)state;
    must_submit(r, &request);
    recorder_run(r);
    const struct record *whole = record_of(r, 1);
    request.id = 2;
    request.generated = whole->tokens;
    request.generated_count = whole->count; /* ends with the stop token */
    must_submit(r, &request);
    request.id = 3;
    request.generated_count = 2;
    request.max_tokens = 2;
    must_submit(r, &request);
    recorder_run(r);
    assert_int_equal(record_of(r, 2)->count, 0);
    assert_int_equal(record_of(r, 2)->reason, LR_FINISH_STOP);
    assert_int_equal(record_of(r, 3)->count, 0);
    assert_int_equal(record_of(r, 3)->reason, LR_FINISH_LENGTH);
    assert_int_equal(record_of(r, 3)->usage.completion_tokens, 2);
    recorder_close(r);
}

static void cancel_frees_the_pages_and_says_so_once_at_every_stage(void **state)
{
    const struct lr_engine_options options = {
        .size = sizeof(options), .prefill_chunk = 4, .max_sequences = 1};
    struct recorder *r = recorder_open(DEMO_MODEL, &options);
    struct lr_error err;
    int32_t busy;

    (void)state;
    for (uint64_t stage = 0; stage < 8; stage++) { /* queued, in the prompt, decoding */
        struct lr_engine_request request = text_request(stage, &hello, 50);
        must_submit(r, &request);
        for (uint64_t i = 0; i < stage; i++)
            assert_int_equal(API->step(r->model, &busy, &err), LR_OK);
        API->cancel(r->model, stage);
        assert_int_equal(record_of(r, stage)->done_calls, 1);
        assert_int_equal(record_of(r, stage)->reason, LR_FINISH_CANCELLED);
        assert_int_equal(recorder_stats(r).pages_in_use, 0);
        assert_int_equal(recorder_stats(r).sequences, 0);
        API->cancel(r->model, stage); /* unknown now: ignored */
        assert_int_equal(API->step(r->model, &busy, &err), LR_OK);
        assert_int_equal(busy, 0);
        assert_int_equal(record_of(r, stage)->done_calls, 1);
    }
    recorder_close(r);
}

static void a_host_may_cancel_from_inside_on_token(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);

    (void)state;
    r->cancel_at_token = 3;
    for (uint64_t id = 1; id <= 4; id++) {
        struct lr_engine_request request = text_request(id, &hello, 50);
        must_submit(r, &request);
    }
    recorder_run(r);
    for (uint64_t id = 1; id <= 4; id++) {
        assert_int_equal(record_of(r, id)->count, 3);
        assert_int_equal(record_of(r, id)->done_calls, 1);
        assert_int_equal(record_of(r, id)->reason, LR_FINISH_CANCELLED);
    }
    assert_int_equal(recorder_stats(r).pages_in_use, 0);
    recorder_close(r);
}

static void close_with_live_requests_leaks_nothing(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_error err;
    int32_t busy;

    (void)state;
    for (uint64_t id = 1; id <= 20; id++) {
        struct lr_engine_request request = text_request(id, &hello, 50);
        must_submit(r, &request);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(API->step(r->model, &busy, &err), LR_OK);
    recorder_close(r);
    API->close(NULL);
}

static void an_overlong_prompt_is_refused_with_both_numbers(void **state)
{
    const struct lr_engine_options options = {.size = sizeof(options), .max_context = 50};
    struct recorder *r = recorder_open(DEMO_MODEL, &options);
    uint32_t ids[60] = {0};
    struct lr_error err;

    (void)state;
    struct lr_engine_request request = plain_request(1, ids, 50, 10);
    assert_int_equal(API->submit(r->model, &request, &err), LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "50 tokens; the context holds 50"));
    request = plain_request(2, ids, 45, 10); /* fits, and ends where the context ends */
    request.ignore_stop = 1;
    must_submit(r, &request);
    recorder_run(r);
    assert_int_equal(record_of(r, 2)->count, 5);
    assert_int_equal(record_of(r, 2)->reason, LR_FINISH_LENGTH);
    recorder_close(r);
}

static void malformed_requests_are_refused_by_name(void **state)
{
    struct recorder *r = recorder_open(ODD_MODEL, NULL);
    uint32_t ids[3] = {1, 517, 2};
    struct lr_error err;

    (void)state;
    struct lr_engine_request request = plain_request(1, ids, 3, 1);
    assert_int_equal(API->submit(r->model, &request, &err), LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "517"));
    request = plain_request(1, ids, 0, 1);
    assert_int_equal(API->submit(r->model, &request, &err), LR_INVALID_ARGUMENT);
    request = plain_request(1, ids, 1, 1);
    request.sampling.top_p = NAN;
    assert_int_equal(API->submit(r->model, &request, &err), LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "top_p"));
    request = plain_request(1, ids, 1, 1);
    request.kind = 7;
    assert_int_equal(API->submit(r->model, &request, &err), LR_UNSUPPORTED);
    request = text_request(1, &hello, 1);
    assert_int_equal(API->submit(r->model, &request, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tokenizer.json"));
    request = plain_request(1, ids, 1, 1);
    must_submit(r, &request);
    assert_int_equal(API->submit(r->model, &request, &err), LR_INVALID_ARGUMENT); /* same id */
    recorder_close(r);
}

static void samples_only_what_the_host_allows(uint32_t late_masks)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_engine_request request = text_request(1, &hello, 5);

    r->model->plan.late_masks = late_masks;
    r->mask_ids[0] = 65;
    r->mask_ids[1] = 66;
    r->mask_count = 2;
    request.constrained = 1;
    request.sampling.temperature = 1;
    must_submit(r, &request);
    recorder_run(r);
    for (uint32_t i = 0; i < 5; i++)
        assert_in_range(record_of(r, 1)->tokens[i], 65, 66);
    r->mask_code = LR_TIMEOUT;
    request.id = 2;
    must_submit(r, &request);
    recorder_run(r);
    assert_int_equal(record_of(r, 2)->reason, LR_FINISH_ERROR);
    assert_int_equal(record_of(r, 2)->error.code, LR_TIMEOUT);
    assert_int_equal(recorder_stats(r).pages_in_use, 0);
    recorder_close(r);
}

static void a_constrained_request_samples_only_what_the_host_allows(void **state)
{
    (void)state;
    samples_only_what_the_host_allows(0);
    samples_only_what_the_host_allows(1);
}

/* Four engines: the masks are made before the device computes or meanwhile, and at once or
 * late.  The steps are others, the tokens are the same, and a stream beside has its tokens in
 * as many steps as it would alone. */
static void a_request_whose_mask_is_late_sits_out_and_gets_the_same_tokens(void **state)
{
    enum { TOKENS = 5, LATE = 3 };
    struct record records[4];

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct recorder *r = recorder_open(DEMO_MODEL, NULL);
        struct lr_engine_request slow = text_request(1, &hello, TOKENS),
                                 beside = text_request(2, &hello, TOKENS);
        r->mask_count = 4;
        for (uint32_t k = 0; k < 4; k++)
            r->mask_ids[k] = 65 + k;
        r->masks_late = i % 2 * LATE;
        r->model->plan.late_masks = i / 2;
        slow.constrained = 1;
        slow.sampling.temperature = 1;
        beside.ignore_stop = 1;
        must_submit(r, &slow);
        must_submit(r, &beside);
        recorder_run(r);
        records[i] = *record_of(r, 1);
        assert_int_equal(record_of(r, 2)->count, TOKENS);
        /* A device that computes meanwhile also computes the steps of which nothing is
         * sampled. */
        if (i < 3)
            assert_int_equal(recorder_stats(r).steps, i != 1 ? TOKENS : 2 * TOKENS - 1);
        assert_int_equal(recorder_stats(r).generated_tokens, 2 * TOKENS);
        assert_int_equal(recorder_stats(r).pages_in_use, 0);
        recorder_close(r);
    }
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(records[i].count, TOKENS);
        assert_memory_equal(records[0].tokens, records[i].tokens,
                            TOKENS * sizeof(records[0].tokens[0]));
    }
}

static void log_probabilities_come_with_the_token(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_engine_request request = text_request(1, &hello, 4);

    (void)state;
    request.sampling.logprobs = 1;
    request.sampling.top_logprobs = 3;
    must_submit(r, &request);
    recorder_run(r);
    const struct record *q = record_of(r, 1);
    assert_int_equal(q->top_count, 3);
    assert_int_equal(q->top[0].token, q->tokens[3]); /* greedy takes the most likely */
    assert_true(q->logprobs[3] == q->top[0].logprob);
    assert_true(q->top[0].logprob <= 0 && q->top[1].logprob <= q->top[0].logprob);
    recorder_close(r);
}

static void few_pages_make_requests_wait_and_change_no_token(void **state)
{
    struct recorder *roomy = recorder_open(DEMO_MODEL, NULL);
    const struct lr_engine_options options = {.size = sizeof(options),
                                              .max_tokens = 160,
                                              .max_context = 160,
                                              .prefill_chunk = 16,
                                              .max_sequences = 6};
    struct recorder *tight = recorder_open(DEMO_MODEL, &options);

    (void)state;
    for (uint64_t id = 0; id < 6; id++) {
        struct lr_engine_request request = text_request(id, &hello, 80);
        request.sampling.temperature = 1;
        request.sampling.seed = id;
        request.ignore_stop = 1;
        must_submit(roomy, &request);
        must_submit(tight, &request);
    }
    recorder_run(roomy);
    recorder_run(tight);
    for (uint64_t id = 0; id < 6; id++) {
        assert_int_equal(record_of(tight, id)->count, 80);
        assert_memory_equal(record_of(tight, id)->tokens, record_of(roomy, id)->tokens,
                            80 * sizeof(uint32_t));
    }
    assert_int_equal(recorder_stats(tight).pages_in_use, 0);
    recorder_close(roomy);
    recorder_close(tight);
}

/* Steps from the submission of a short request until its first token, while a long prompt is
 * computed. */
static uint32_t steps_to_first_token(struct recorder *r, uint64_t id)
{
    struct lr_engine_request request = text_request(id, &hello, 3);
    struct lr_error err;
    uint32_t steps = 0;
    int32_t busy;

    request.ignore_stop = 1;
    must_submit(r, &request);
    for (; record_of(r, id)->count == 0; steps++)
        assert_int_equal(API->step(r->model, &busy, &err), LR_OK);
    return steps;
}

static void a_short_prompt_beside_a_long_one_has_its_token_within_two_steps(void **state)
{
    enum { LONG = 3000 };
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    uint32_t *ids = calloc(LONG, sizeof(*ids));
    struct lr_error err;
    int32_t busy;

    (void)state;
    for (uint32_t i = 0; i < LONG; i++)
        ids[i] = i * 31 % 2000;
    struct lr_engine_request request = plain_request(1, ids, LONG, 3);
    request.ignore_stop = 1;
    must_submit(r, &request);
    assert_int_equal(API->step(r->model, &busy, &err), LR_OK);
    for (uint64_t id = 2; id < 6; id++) {
        assert_in_range(steps_to_first_token(r, id), 1, 2);
        assert_true(record_of(r, 1)->prefill_done < LONG);
    }
    recorder_run(r);
    assert_int_equal(record_of(r, 1)->count, 3);
    /* The same tokens as without the short ones. */
    request.id = 9;
    must_submit(r, &request);
    recorder_run(r);
    assert_memory_equal(record_of(r, 1)->tokens, record_of(r, 9)->tokens, 3 * sizeof(*ids));
    free(ids);
    recorder_close(r);
}

/* Steps that a long prompt takes beside a stream. */
static uint32_t steps_with_target_gap(uint32_t target_gap_ms)
{
    enum { LONG = 1500 };
    struct lr_engine_options options = {.size = sizeof(options),
                                        .target_gap_ms = target_gap_ms};
    struct recorder *r = recorder_open(DEMO_MODEL, &options);
    uint32_t *ids = calloc(LONG, sizeof(*ids));
    struct lr_engine_request stream = text_request(1, &hello, 2000);
    struct lr_error err;
    uint32_t steps = 0;
    int32_t busy;

    stream.ignore_stop = 1;
    must_submit(r, &stream);
    while (record_of(r, 1)->count == 0)
        assert_int_equal(API->step(r->model, &busy, &err), LR_OK);
    for (uint32_t i = 0; i < LONG; i++)
        ids[i] = i * 31 % 2000;
    struct lr_engine_request request = plain_request(2, ids, LONG, 3);
    request.ignore_stop = 1;
    must_submit(r, &request);
    for (; record_of(r, 2)->count == 0; steps++)
        assert_int_equal(API->step(r->model, &busy, &err), LR_OK);
    free(ids);
    recorder_close(r);
    return steps;
}

static void with_a_larger_target_gap_a_long_prompt_takes_fewer_steps(void **state)
{
    (void)state;
    uint32_t few = steps_with_target_gap(60000), many = steps_with_target_gap(1);
    /* 64 tokens, then twice as many each time up to 512; with 1 ms it stays near 64. */
    assert_in_range(few, 1, 8);
    assert_true(many > few);
}

static void logits_are_computed_beside_live_requests_without_touching_them(void **state)
{
    const struct lr_engine_options options = {.size = sizeof(options), .max_sequences = 2};
    struct recorder *r = recorder_open(DEMO_MODEL, &options);
    struct lr_error err;
    uint32_t ids[40];
    float *before = malloc(40 * 2048 * sizeof(float)),
          *after = malloc(40 * 2048 * sizeof(float));
    int32_t busy;

    (void)state;
    for (uint32_t i = 0; i < 40; i++)
        ids[i] = i * 31 % 2000;
    assert_int_equal(API->logits(r->model, ids, 40, before, &err), LR_OK);
    struct lr_engine_request request = text_request(9, &hello, 30);
    request.ignore_stop = 1;
    must_submit(r, &request);
    recorder_run(r);
    for (uint64_t id = 1; id <= 2; id++) {
        request.id = id;
        must_submit(r, &request);
    }
    for (int i = 0; i < 5; i++)
        assert_int_equal(API->step(r->model, &busy, &err), LR_OK);
    assert_int_equal(API->logits(r->model, ids, 40, after, &err), LR_OK);
    assert_memory_equal(before, after, 40 * 2048 * sizeof(float));
    recorder_run(r);
    for (uint64_t id = 1; id <= 2; id++)
        assert_memory_equal(record_of(r, id)->tokens, record_of(r, 9)->tokens,
                            30 * sizeof(uint32_t));
    free(before);
    free(after);
    recorder_close(r);
}

static void probe_states_what_open_takes_and_limits_are_kept(void **state)
{
    struct lr_engine_need need = {.size = sizeof(need)}, tight = {.size = sizeof(tight)};
    struct lr_engine_options options = {.size = sizeof(options)};
    struct lr_error err;

    (void)state;
    assert_int_equal(API->probe(DEMO_MODEL, &options, &need, &err), LR_OK);
    assert_int_equal(need.total, need.weights + need.kv + need.workspace + need.fixed);
    assert_true(need.weights > 7000000 && need.weights < 9000000);
    assert_int_equal(need.vocab_size, 2048);
    struct recorder *r = recorder_open(DEMO_MODEL, &options);
    assert_int_equal(recorder_stats(r).kv_bytes, need.kv);
    recorder_close(r);

    options.ram_limit = need.total - need.kv / 2; /* half the cache fits: it shrinks */
    assert_int_equal(API->probe(DEMO_MODEL, &options, &tight, &err), LR_OK);
    assert_true(tight.kv < need.kv);
    options.ram_limit = 1000000;
    assert_int_equal(API->probe(DEMO_MODEL, &options, &tight, &err), LR_OUT_OF_RAM);
    assert_non_null(strstr(err.text, "1000000"));
    struct lr_engine_model *m;
    assert_int_equal(API->open(&(struct lr_engine_host){.size = sizeof(struct lr_engine_host)},
                               DEMO_MODEL, &options, &m, &err),
                     LR_OUT_OF_RAM);
    assert_null(m);
}

static void other_devices_and_missing_models_are_named(void **state)
{
    const char *two[] = {"cpu", "cpu"}, *odd[] = {"tpu"};
    struct lr_engine_options options = {
        .size = sizeof(options), .device_count = 2, .devices = two};
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_error err;

    (void)state;
    assert_int_equal(API->probe(DEMO_MODEL, &options, &need, &err), LR_UNSUPPORTED);
    options.device_count = 1;
    options.devices = odd;
    assert_int_equal(API->probe(DEMO_MODEL, &options, &need, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "tpu"));
    options.device_count = 0;
    lr_code code = API->probe("/nonexistent", &options, &need, &err);
    assert_true(code != LR_OK && code < 100);
    assert_non_null(strstr(err.text, "/nonexistent"));
}

static uint32_t warnings;

static void count_warnings(void *ctx, int32_t level, const char *event, const char *text)
{
    (void)ctx;
    (void)text;
    warnings += level == 2 && strcmp(event, "model.artifact") == 0;
}

static void a_broken_artifact_falls_back_to_safetensors_with_a_warning(void **state)
{
    const struct lr_engine_options options = {.size = sizeof(options),
                                              .artifact_path = DEMO_MODEL "/config.json"};
    const struct lr_engine_host host = {.size = sizeof(host), .log = count_warnings};
    struct lr_engine_model *m;
    struct lr_error err;

    (void)state;
    assert_int_equal(API->open(&host, DEMO_MODEL, &options, &m, &err), LR_OK);
    assert_int_equal(warnings, 1);
    API->close(m);
}

static void vocab_and_tokenize_know_the_models_tokens(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_error err;
    const char *bytes;
    uint32_t ids[64], len, flags, stops = 0;
    size_t count;

    (void)state;
    assert_int_equal(API->tokenize(r->model, &hello, 1, ids, 2, &count, &err), LR_OK);
    assert_true(count > 2 &&
                count < 64); /* the complete count, though only two ids were written */
    assert_int_equal(API->tokenize(r->model, &hello, 1, ids, 64, &count, &err), LR_OK);
    assert_int_equal(API->vocab(r->model, ids[0], &bytes, &len, &flags), LR_OK);
    assert_int_equal(flags, LR_VOCAB_SPECIAL);
    assert_memory_equal(bytes, "<|start|>", len);
    for (uint32_t id = 0; id < 2048; id++) {
        assert_int_equal(API->vocab(r->model, id, &bytes, &len, &flags), LR_OK);
        stops += (flags & LR_VOCAB_STOP) != 0;
    }
    assert_true(stops >= 3);
    assert_int_equal(API->vocab(r->model, 2048, &bytes, &len, &flags), LR_INVALID_ARGUMENT);
    recorder_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_demo_model_answers_in_words_and_stops_by_itself),
        cmocka_unit_test(max_tokens_and_stop_ids_end_an_answer),
        cmocka_unit_test(
            a_beginning_that_was_computed_is_not_computed_again_and_changes_no_token),
        cmocka_unit_test(a_step_report_counts_running_and_waiting_requests),
        cmocka_unit_test(a_sampled_run_continued_elsewhere_equals_one_run),
        cmocka_unit_test(each_token_is_what_the_sampler_gives_at_its_index),
        cmocka_unit_test(a_continuation_that_is_complete_only_ends),
        cmocka_unit_test(cancel_frees_the_pages_and_says_so_once_at_every_stage),
        cmocka_unit_test(a_host_may_cancel_from_inside_on_token),
        cmocka_unit_test(close_with_live_requests_leaks_nothing),
        cmocka_unit_test(an_overlong_prompt_is_refused_with_both_numbers),
        cmocka_unit_test(malformed_requests_are_refused_by_name),
        cmocka_unit_test(a_constrained_request_samples_only_what_the_host_allows),
        cmocka_unit_test(a_request_whose_mask_is_late_sits_out_and_gets_the_same_tokens),
        cmocka_unit_test(log_probabilities_come_with_the_token),
        cmocka_unit_test(few_pages_make_requests_wait_and_change_no_token),
        cmocka_unit_test(a_short_prompt_beside_a_long_one_has_its_token_within_two_steps),
        cmocka_unit_test(with_a_larger_target_gap_a_long_prompt_takes_fewer_steps),
        cmocka_unit_test(logits_are_computed_beside_live_requests_without_touching_them),
        cmocka_unit_test(probe_states_what_open_takes_and_limits_are_kept),
        cmocka_unit_test(other_devices_and_missing_models_are_named),
        cmocka_unit_test(a_broken_artifact_falls_back_to_safetensors_with_a_warning),
        cmocka_unit_test(vocab_and_tokenize_know_the_models_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
