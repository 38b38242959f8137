/* Steps that are launched before the tokens of the step before are known give the same answers.
 * The device is the CPU backend behind begin() and finish(): a step is computed when it begins,
 * and its tokens are shown when it is finished. */
#include "tests/unit/gptoss/support.h"

#include "engines/gptoss/backend/adapter.h"
#include "engines/serving/model.h"

enum { SEQUENCES = 8, REQUESTS = 12, GENERATED = 90, VOCAB = 2000 };

/* The steps that the device has. */
static struct {
    struct serving_step *steps; /* the engine's */
    uint32_t count;
    uint32_t ids[SEQUENCES];
} begun[2];
static uint32_t tokens[SEQUENCES]; /* the last ones that the device sampled, or was given */
static uint32_t begun_count, followed;
static uint32_t placed; /* sequences that came into a step that follows another */
static uint32_t
    unsampled_in; /* the n-th finished step has a token that only forward() samples */

static lr_code begin(struct serving_backend *backend, const struct serving_batch *batch,
                     struct lr_error *err)
{
    struct serving_step steps[SEQUENCES];
    struct sampler_result results[SEQUENCES];
    struct serving_batch copy = *batch;

    assert_true(batch->count <= SEQUENCES && begun_count < 2);
    if (batch->tokens != batch->count)
        return LR_UNSUPPORTED;
    for (uint32_t i = 0; i < batch->count; i++) {
        steps[i] = batch->steps[i];
        if (steps[i].sample == NULL || steps[i].sample->mask != NULL)
            return LR_UNSUPPORTED;
        steps[i].sampled = &results[i];
        if (batch->follows != 0 && steps[i].tokens != NULL)
            placed++;
        else if (batch->follows != 0)
            steps[i].tokens = &tokens[i];
    }
    copy.steps = steps;
    lr_code code = gptoss_serving_cpu.forward(backend, &copy, err);
    begun[begun_count].steps = batch->steps;
    begun[begun_count].count = batch->count;
    for (uint32_t i = 0; i < batch->count; i++)
        tokens[i] = begun[begun_count].ids[i] = results[i].id;
    begun_count++;
    followed += batch->follows;
    return code;
}

static lr_code finish(struct serving_backend *backend, struct lr_error *err)
{
    (void)backend;
    (void)err;
    assert_true(begun_count > 0);
    for (uint32_t i = 0; i < begun[0].count; i++)
        *begun[0].steps[i].sampled = (struct sampler_result){.id = begun[0].ids[i]};
    if (unsampled_in != 0 && --unsampled_in == 0) {
        begun[0].steps[0].sampled->id = UINT32_MAX;
        begun[0].steps[0].sample = NULL;
    }
    begun[0] = begun[1];
    begun_count--;
    return LR_OK;
}

/* The tokens of a whole step are copied to the place of the tokens that were sampled. */
static lr_code forward(struct serving_backend *backend, const struct serving_batch *batch,
                       struct lr_error *err)
{
    for (uint32_t i = 0, n = 0; i < batch->count; i++)
        for (uint32_t k = 0; k < batch->steps[i].count && n < SEQUENCES; k++)
            tokens[n++] = batch->steps[i].tokens[k];
    return gptoss_serving_cpu.forward(backend, batch, err);
}

/* A model whose device computes ahead (or not). */
static struct recorder *open_model(bool ahead, uint32_t kv_tokens)
{
    static struct serving_backend_api api;
    const struct lr_engine_options options = {.size = sizeof(options),
                                              .max_tokens = kv_tokens,
                                              .max_context = 512,
                                              .max_sequences = SEQUENCES,
                                              .prefill_chunk = 64};
    struct recorder *r = recorder_open(DEMO_MODEL, &options);

    api = gptoss_serving_cpu;
    if (ahead) {
        api.forward = forward;
        api.begin = begin;
        api.finish = finish;
    }
    r->model->backend_api = &api;
    begun_count = followed = placed = unsampled_in = 0;
    return r;
}

static void submit(struct recorder *r, uint64_t id)
{
    uint32_t ids[120], count = 5 + (uint32_t)(id * 37 % 110);

    for (uint32_t i = 0; i < count; i++)
        ids[i] = (uint32_t)((id * 7919 + i * 104729) % VOCAB);
    struct lr_engine_request request =
        plain_request(id, ids, count, 1 + (uint32_t)(id * 29 % GENERATED));
    request.sampling.temperature = id % 3 == 0 ? 1.0f : 0.0f;
    request.sampling.seed = id;
    request.ignore_stop = id % 4 != 1;
    must_submit(r, &request);
}

static void step(struct recorder *r)
{
    struct lr_error err = {0};
    int32_t busy;

    assert_int_equal(recorder_api()->step(r->model, &busy, &err), LR_OK);
}

static void assert_same(struct recorder *a, struct recorder *b, uint64_t id)
{
    const struct record *x = record_of(a, id), *y = record_of(b, id);

    assert_int_equal(x->done_calls, 1);
    assert_int_equal(y->done_calls, 1);
    assert_int_equal(x->reason, y->reason);
    assert_int_equal(x->count, y->count);
    assert_memory_equal(x->tokens, y->tokens, x->count * sizeof(x->tokens[0]));
}

/* Twelve requests for eight places, in KV memory of so many tokens. */
static void compare(uint32_t kv_tokens, uint32_t unsampled)
{
    struct recorder *plain = open_model(false, kv_tokens);
    for (uint64_t id = 1; id <= REQUESTS; id++)
        submit(plain, id);
    recorder_run(plain);
    struct recorder *ahead = open_model(true, kv_tokens);
    unsampled_in = unsampled;
    for (uint64_t id = 1; id <= REQUESTS; id++)
        submit(ahead, id);
    recorder_run(ahead);
    assert_true(followed > 20);
    for (uint64_t id = 1; id <= REQUESTS; id++)
        assert_same(plain, ahead, id);
    assert_int_equal(recorder_stats(ahead).kv_bytes_in_use, 0);
    recorder_close(plain);
    recorder_close(ahead);
}

static void answers_are_the_same_when_steps_run_ahead(void **state)
{
    (void)state;
    compare(8192, 0);
}

static void answers_are_the_same_when_pages_are_short_and_sequences_preempted(void **state)
{
    (void)state;
    compare(640, 0);
}

static void a_token_the_device_cannot_sample_is_computed_again(void **state)
{
    (void)state;
    compare(8192, 30);
}

/* With four or five sequences a step has three of them. */
static void answers_are_the_same_when_sequences_wait_in_turn(void **state)
{
    struct recorder *r[2];

    (void)state;
    for (int ahead = 0; ahead < 2; ahead++) {
        r[ahead] = open_model(ahead != 0, 8192);
        r[ahead]->model->scheduler.plan.dips[0] = (struct serving_dip){.rows = 3, .enough = 6};
        for (uint64_t id = 1; id <= 5; id++)
            submit(r[ahead], id);
        recorder_run(r[ahead]);
    }
    assert_true(followed > 20);
    assert_true(placed > 20);
    for (uint64_t id = 1; id <= 5; id++)
        assert_same(r[0], r[1], id);
    assert_int_equal(recorder_stats(r[1]).kv_bytes_in_use, 0);
    recorder_close(r[0]);
    recorder_close(r[1]);
}

/* A request is cancelled and another one comes, each while a step is ahead. */
static void cancelling_and_asking_while_a_step_is_ahead_changes_no_other_answer(void **state)
{
    struct recorder *plain = open_model(false, 8192);
    float *logits = calloc((size_t)VOCAB * 64, sizeof(float));
    const uint32_t some[] = {1, 2, 3};
    struct lr_error err = {0};

    (void)state;
    for (uint64_t id = 1; id <= 4; id++)
        submit(plain, id);
    submit(plain, 9);
    recorder_run(plain);
    struct recorder *r = open_model(true, 8192);
    for (uint64_t id = 1; id <= 4; id++)
        submit(r, id);
    while (r->model->rounds_in_flight == 0)
        step(r);
    recorder_api()->cancel(r->model, 2);
    for (int i = 0; i < 3 || r->model->rounds_in_flight == 0; i++)
        step(r);
    assert_int_equal(record_of(r, 2)->reason, LR_FINISH_CANCELLED);
    logits = realloc(logits, (size_t)r->model->vocabulary.rows * 3 * sizeof(float));
    assert_int_equal(recorder_api()->logits(r->model, some, 3, logits, &err), LR_OK);
    step(r);
    step(r);
    submit(r, 9);
    recorder_run(r);
    for (uint64_t id = 1; id <= 9; id++)
        if (id != 2 && (id <= 4 || id == 9))
            assert_same(plain, r, id);
    assert_int_equal(recorder_stats(r).kv_bytes_in_use, 0);
    free(logits);
    recorder_close(plain);
    recorder_close(r);
}

/* The last request is cancelled: the model is idle with a step on the device. */
static void a_model_that_was_left_with_a_step_ahead_answers_and_closes(void **state)
{
    struct recorder *plain = open_model(false, 8192);
    (void)state;
    submit(plain, 5);
    recorder_run(plain);
    struct recorder *r = open_model(true, 8192);
    submit(r, 4);
    while (r->model->rounds_in_flight == 0)
        step(r);
    recorder_api()->cancel(r->model, 4);
    step(r);
    submit(r, 5);
    recorder_run(r);
    assert_same(plain, r, 5);
    submit(r, 7);
    while (r->model->rounds_in_flight == 0)
        step(r);
    recorder_close(r);
    recorder_close(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_the_same_when_steps_run_ahead),
        cmocka_unit_test(answers_are_the_same_when_pages_are_short_and_sequences_preempted),
        cmocka_unit_test(a_token_the_device_cannot_sample_is_computed_again),
        cmocka_unit_test(answers_are_the_same_when_sequences_wait_in_turn),
        cmocka_unit_test(cancelling_and_asking_while_a_step_is_ahead_changes_no_other_answer),
        cmocka_unit_test(a_model_that_was_left_with_a_step_ahead_answers_and_closes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
