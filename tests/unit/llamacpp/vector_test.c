/* tests/unit/llamacpp/vector_test.c - embeddings and scores compared with libllama itself. */
#include "tests/unit/llamacpp/support.h"

#include "tests/unit/llamacpp/oracle.h"

#define BERT     LLAMACPP_MODEL "-bert"
#define RERANKER LLAMACPP_MODEL "-reranker"

static const char *const texts[] = {
    "the weather", "x", "in the morning the others wait", "<|im_end|> is text",
    "a longer text, which has more tokens than the others and fills a part of the batch"};
enum { TEXTS = sizeof(texts) / sizeof(texts[0]) };

static struct lr_segment segment_of(const char *text)
{
    return (struct lr_segment){.text = text, .len = strlen(text)};
}

static struct lr_engine_request vector_request(uint64_t id, uint32_t kind,
                                               const struct lr_segment *text)
{
    return (struct lr_engine_request){.size = sizeof(struct lr_engine_request),
                                      .kind = kind,
                                      .id = id,
                                      .segments = text,
                                      .segment_count = 1};
}

static void expect_near(const float *got, const float *wanted, uint32_t count)
{
    double worst = 0;

    for (uint32_t i = 0; i < count; i++)
        worst = fmax(worst, fabs((double)got[i] - (double)wanted[i]));
    if (!(worst < 1e-4))
        fail_msg("the largest difference is %g", worst);
}

static struct oracle must_open(const char *file)
{
    struct oracle o;
    struct lr_error err = {0};

    if (!oracle_open(file, &o, &err))
        fail_msg("%s: %s", file, err.text);
    return o;
}

static void expect_embedding(struct oracle *o, const struct record *q, const char *text)
{
    float values[ORACLE_VALUES];

    oracle_text(o, text);
    uint32_t count = oracle_compute(o, false, values);
    oracle_scale(values, count);
    assert_int_equal(q->vectors, 1);
    assert_int_equal(q->done_calls, 1);
    assert_int_equal(q->reason, LR_FINISH_STOP);
    assert_int_equal(q->vector_count, count);
    assert_int_equal(q->usage.prompt_tokens, o->count);
    assert_int_equal(q->usage.completion_tokens, 0);
    expect_near(q->vector, values, count);
}

static void test_embeddings_equal_those_of_a_plain_loop_alone_and_together(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    struct recorder *r = recorder_open(BERT, &options);
    struct oracle o = must_open(BERT "/model.gguf");

    for (uint32_t i = 0; i < TEXTS; i++) {
        struct lr_segment text = segment_of(texts[i]);
        struct lr_engine_request request = vector_request(1 + i, LR_REQUEST_EMBED, &text);
        must_submit(r, &request);
        recorder_run(r);
    }
    for (uint32_t i = 0; i < TEXTS; i++) {
        struct lr_segment text = segment_of(texts[i]);
        struct lr_engine_request request = vector_request(101 + i, LR_REQUEST_EMBED, &text);
        must_submit(r, &request);
    }
    uint64_t steps = recorder_stats(r).steps;
    recorder_run(r);
    assert_in_range(recorder_stats(r).steps - steps, 1, TEXTS - 1); /* they shared batches */
    for (uint32_t i = 0; i < TEXTS; i++) {
        expect_embedding(&o, record_of(r, 1 + i), texts[i]);
        expect_embedding(&o, record_of(r, 101 + i), texts[i]);
    }
    assert_int_equal(recorder_stats(r).pages_in_use, 0);
    oracle_close(&o);
    recorder_close(r);
}

static void test_scores_equal_those_of_a_plain_loop(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    struct recorder *r = recorder_open(RERANKER, &options);
    struct oracle o = must_open(RERANKER "/model.gguf");
    struct lr_segment query = segment_of("where is the river");

    for (uint32_t i = 0; i < TEXTS; i++) {
        struct lr_segment document = segment_of(texts[i]);
        struct lr_engine_request request = vector_request(1 + i, LR_REQUEST_RERANK, &query);
        request.document = &document;
        request.document_count = 1;
        must_submit(r, &request);
    }
    recorder_run(r);
    for (uint32_t i = 0; i < TEXTS; i++) {
        const struct record *q = record_of(r, 1 + i);
        float values[ORACLE_VALUES];
        oracle_pair(&o, query.text, texts[i]);
        assert_int_equal(oracle_compute(&o, true, values), 1);
        values[0] = oracle_score(values[0]);
        assert_int_equal(q->vector_count, 1);
        assert_int_equal(q->usage.prompt_tokens, o.count);
        expect_near(q->vector, values, 1);
    }
    oracle_close(&o);
    recorder_close(r);
}

static void expect_refused(struct recorder *r, const struct lr_engine_request *request,
                           lr_code wanted, const char *word)
{
    struct lr_error err = {0};

    assert_int_equal(api()->submit(r->model, request, &err), wanted);
    if (strstr(err.text, word) == NULL)
        fail_msg("no \"%s\" in: %s", word, err.text);
}

static void test_a_text_as_long_as_the_context_fits_and_a_longer_one_is_refused(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    options.max_context = 64;
    options.prefill_chunk = 16; /* the batch is as long as the context all the same */
    struct recorder *r = recorder_open(BERT, &options);
    uint32_t ids[65];

    for (uint32_t i = 0; i < 65; i++)
        ids[i] = i;
    struct lr_engine_request request = plain_request(1, ids, 64, 0);
    request.kind = LR_REQUEST_EMBED;
    must_submit(r, &request);
    recorder_run(r);
    assert_int_equal(record_of(r, 1)->vectors, 1);
    request.id = 2;
    request.prompt_id_count = 65;
    expect_refused(r, &request, LR_INVALID_ARGUMENT, "65 tokens; the context holds 64 tokens");
    recorder_close(r);
}

static void test_a_model_refuses_what_it_does_not_offer(void **state)
{
    (void)state;
    struct lr_engine_options options = small_options();
    struct lr_segment text = segment_of("x");
    struct lr_engine_request request = vector_request(1, LR_REQUEST_RERANK, &text);
    struct recorder *r = recorder_open(BERT, &options);
    uint32_t id = 1;
    float logit;
    struct lr_error err = {0};

    expect_refused(r, &request, LR_UNSUPPORTED, "reranking");
    request.kind = LR_REQUEST_EMBED;
    request.dimensions = 65;
    expect_refused(r, &request, LR_INVALID_ARGUMENT, "65; an embedding of this model has 64");
    request = plain_request(2, &id, 1, 4);
    expect_refused(r, &request, LR_UNSUPPORTED, "generated text");
    assert_int_equal(api()->logits(r->model, &id, 1, &logit, &err), LR_UNSUPPORTED);
    recorder_close(r);
    r = recorder_open(RERANKER, &options);
    request = vector_request(1, LR_REQUEST_EMBED, &text);
    expect_refused(r, &request, LR_UNSUPPORTED, "embeddings");
    recorder_close(r);
    r = recorder_open(LLAMACPP_MODEL, &options);
    expect_refused(r, &request, LR_UNSUPPORTED, "embeddings");
    recorder_close(r);
}

static void test_a_probe_says_what_the_model_can_do(void **state)
{
    (void)state;
    struct lr_engine_options options = {.size = sizeof(options)};
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_error err = {0};

    assert_int_equal(api()->probe(BERT, &options, &need, &err), LR_OK);
    assert_int_equal(need.max_context, 256);
    assert_int_equal(need.requests, 1u << LR_REQUEST_EMBED);
    assert_int_equal(need.dimensions, 64);
    assert_int_equal(need.kv, 0); /* nothing is kept between two steps */
    assert_int_equal(api()->probe(RERANKER, &options, &need, &err), LR_OK);
    assert_int_equal(need.requests, 1u << LR_REQUEST_RERANK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embeddings_equal_those_of_a_plain_loop_alone_and_together),
        cmocka_unit_test(test_scores_equal_those_of_a_plain_loop),
        cmocka_unit_test(test_a_text_as_long_as_the_context_fits_and_a_longer_one_is_refused),
        cmocka_unit_test(test_a_model_refuses_what_it_does_not_offer),
        cmocka_unit_test(test_a_probe_says_what_the_model_can_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
