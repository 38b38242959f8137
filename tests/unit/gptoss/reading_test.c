/* Long prompts are tokenized beside the steps: nobody waits for them, and they give the same
 * tokens as a prompt that is tokenized at once. */
#include "tests/unit/gptoss/support.h"

#include <semaphore.h>

#include "engines/serving/reading.h"

/* ---- the thread, with a tokenizer that waits for the test ---- */

static sem_t may_end;

/* The only id is the number of bytes. */
static lr_code slow_encode(const struct tokenizer *tokenizer, const struct lr_segment *segments,
                           size_t count, struct tokenizer_ids *ids, struct lr_error *err)
{
    (void)tokenizer;
    (void)err;
    while (sem_wait(&may_end) != 0)
        continue;
    tokenizer_ids_init(ids, 1);
    ids->items = calloc(1, sizeof(*ids->items));
    assert_non_null(ids->items);
    ids->capacity = ids->count = 1;
    for (size_t i = 0; i < count; i++)
        ids->items[0] += (uint32_t)segments[i].len;
    return LR_OK;
}

static void begin(struct serving_reading *r, uint64_t number, size_t bytes)
{
    static const char text[1000];
    const struct lr_segment parts[] = {{.text = text, .len = bytes / 2},
                                       {.text = text, .len = bytes - bytes / 2}};

    assert_true(serving_reading_begin(r, number, parts, 2));
}

static bool is_reading(struct serving_reading *r, uint64_t number)
{
    pthread_mutex_lock(&r->lock);
    bool is = r->current != NULL && r->current->number == number;
    pthread_mutex_unlock(&r->lock);
    return is;
}

/* Lets one text end and returns it. */
static struct serving_text *next(struct serving_reading *r)
{
    struct serving_text *text;

    sem_post(&may_end);
    while ((text = serving_reading_take(r)) == NULL)
        serving_reading_await(r, 1000);
    return text;
}

static void expect(struct serving_reading *r, uint64_t number, uint32_t bytes)
{
    struct serving_text *text = next(r);

    assert_int_equal(text->number, number);
    assert_int_equal(text->code, LR_OK);
    assert_int_equal(text->ids.items[0], bytes);
    serving_text_destroy(text);
}

static struct serving_reading *start(void)
{
    static struct serving_reading r;

    sem_init(&may_end, 0, 0);
    serving_reading_init(&r, NULL, slow_encode);
    begin(&r, 1, 900); /* keeps the thread busy */
    while (!is_reading(&r, 1))
        serving_reading_await(&r, 100);
    return &r;
}

static void the_shortest_text_comes_first_and_every_fourth_time_the_oldest(void **state)
{
    struct serving_reading *r = start();

    (void)state;
    begin(r, 2, 800);
    begin(r, 3, 700);
    begin(r, 4, 100);
    begin(r, 5, 200);
    begin(r, 6, 300);
    assert_null(serving_reading_take(r)); /* nobody waits for it */
    expect(r, 1, 900);
    expect(r, 4, 100);
    expect(r, 5, 200);
    expect(r, 2, 800); /* the oldest */
    expect(r, 6, 300);
    expect(r, 3, 700);
    assert_int_equal(r->pending, 0);
    serving_reading_deinit(r);
}

static void a_dropped_text_is_never_taken_in_whichever_stage_it_is(void **state)
{
    struct serving_reading *r = start();

    (void)state;
    begin(r, 2, 10);
    begin(r, 3, 20);
    begin(r, 4, 30);
    serving_reading_drop(r, 1); /* being tokenized */
    serving_reading_drop(r, 3); /* waits */
    serving_reading_drop(r, 3);
    assert_int_equal(r->pending, 2);
    sem_post(&may_end); /* of 1 */
    expect(r, 2, 10);
    sem_post(&may_end);
    while (r->done == NULL)
        serving_reading_await(r, 1000);
    serving_reading_drop(r, 4); /* done */
    assert_int_equal(r->pending, 0);
    assert_null(serving_reading_take(r));
    serving_reading_deinit(r);
}

static void texts_that_nobody_took_are_freed_with_the_thread(void **state)
{
    struct serving_reading *r = start();

    (void)state;
    begin(r, 2, 10);
    begin(r, 3, 20);
    sem_post(&may_end); /* of 1: done when the thread ends, or before */
    sem_post(&may_end);
    sem_post(&may_end);
    serving_reading_deinit(r);
    serving_reading_deinit(r);
}

/* ---- the engine ---- */

enum { LONG = 3 * SERVING_READING_LEAST };

static struct lr_segment long_text(void)
{
    /* One token of the demo model, of 45 bytes: a long text with few tokens. */
    static const char token[] = "\u3001\u3068\u3066\u3082\u5c0f\u3055\u306a\u30c7"
                                "\u30e2\u7528\u30e2\u30c7\u30eb\u3067\u3059";
    static char text[LONG];

    for (size_t i = 0; i < LONG; i++)
        text[i] = token[i % (sizeof(token) - 1)];
    return (struct lr_segment){.text = text, .len = LONG};
}

static struct lr_engine_request long_request(uint64_t id, const struct lr_segment *segment)
{
    struct lr_engine_request r = plain_request(id, NULL, 0, 2);

    r.segments = segment;
    r.segment_count = 1;
    return r;
}

static void a_long_prompt_has_the_tokens_and_the_answer_of_its_ids(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_segment segment = long_text();
    struct lr_engine_request late = long_request(1, &segment);
    struct lr_error err = {0};
    static uint32_t ids[LONG];
    size_t count = 0;

    (void)state;
    segment.len = SERVING_READING_LEAST + 100;
    late.ignore_stop = 1;
    assert_int_equal(
        gptoss_engine_api()->tokenize(r->model, &segment, 1, ids, LONG, &count, &err), LR_OK);
    must_submit(r, &late);
    assert_int_equal(recorder_stats(r).sequences, 1);
    recorder_run(r);
    struct lr_engine_request now = plain_request(2, ids, count, 2);
    now.ignore_stop = 1;
    must_submit(r, &now);
    recorder_run(r);
    struct record *a = record_of(r, 1), *b = record_of(r, 2);
    assert_int_equal(a->usage.prompt_tokens, count);
    assert_int_equal(a->count, 2);
    assert_memory_equal(a->tokens, b->tokens, 2 * sizeof(uint32_t));
    recorder_close(r);
}

static void a_long_prompt_that_does_not_fit_ends_with_the_error_and_both_numbers(void **state)
{
    const struct lr_engine_options options = {.size = sizeof(options), .max_context = 512};
    struct recorder *r = recorder_open(DEMO_MODEL, &options);
    const struct lr_segment segment = long_text();
    struct lr_engine_request request = long_request(1, &segment);

    (void)state;
    must_submit(r, &request);
    recorder_run(r);
    struct record *q = record_of(r, 1);
    assert_int_equal(q->done_calls, 1);
    assert_int_equal(q->reason, LR_FINISH_ERROR);
    assert_int_equal(q->error.code, LR_INVALID_ARGUMENT);
    assert_non_null(strstr(q->error.text, "512"));
    assert_int_equal(recorder_stats(r).sequences, 0);
    recorder_close(r);
}

static void a_long_prompt_can_be_cancelled_and_its_id_used_again_at_once(void **state)
{
    struct recorder *r = recorder_open(DEMO_MODEL, NULL);
    struct lr_segment segment = long_text();
    struct lr_engine_request request = long_request(1, &segment);
    struct lr_error err = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        must_submit(r, &request);
        assert_int_equal(gptoss_engine_api()->submit(r->model, &request, &err),
                         LR_INVALID_ARGUMENT); /* it is live */
        gptoss_engine_api()->cancel(r->model, 1);
        assert_int_equal(record_of(r, 1)->done_calls, i + 1);
        assert_int_equal(record_of(r, 1)->reason, LR_FINISH_CANCELLED);
        assert_int_equal(recorder_stats(r).sequences, 0);
    }
    recorder_run(r);
    must_submit(r, &request); /* closed while it is being tokenized */
    recorder_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shortest_text_comes_first_and_every_fourth_time_the_oldest),
        cmocka_unit_test(a_dropped_text_is_never_taken_in_whichever_stage_it_is),
        cmocka_unit_test(texts_that_nobody_took_are_freed_with_the_thread),
        cmocka_unit_test(a_long_prompt_has_the_tokens_and_the_answer_of_its_ids),
        cmocka_unit_test(a_long_prompt_that_does_not_fit_ends_with_the_error_and_both_numbers),
        cmocka_unit_test(a_long_prompt_can_be_cancelled_and_its_id_used_again_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
