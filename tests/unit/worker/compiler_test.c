/* Constraints are compiled beside the loop, which only reads the vocabulary, part by part. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "wire/reader.h"
#include "worker/compiler.h"

enum { VOCAB = 40000 }; /* more than one part */

static pthread_t loop_thread;
static uint32_t other_threads; /* that called the engine */

static lr_code vocab(const struct lr_engine_model *model, uint32_t id, const char **bytes,
                     uint32_t *len, uint32_t *flags)
{
    static char text[4];
    (void)model;
    other_threads += !pthread_equal(pthread_self(), loop_thread);
    if (id >= VOCAB)
        return LR_INVALID_ARGUMENT;
    *bytes = id + 1 == VOCAB ? "<|end|>" : text;
    *len = id < 256 ? 1 : (uint32_t)(id + 1 == VOCAB ? 7 : 4);
    *flags = id + 1 == VOCAB ? LR_VOCAB_SPECIAL | LR_VOCAB_STOP : 0;
    text[0] = (char)id;
    for (int i = 0; id >= 256 && i < 4; i++)
        text[i] = (char)('a' + id / (i == 0 ? 1 : i == 1 ? 26 : i == 2 ? 676 : 17576) % 26);
    return LR_OK;
}

static const struct lr_engine_api api = {.size = sizeof(api), .vocab = vocab};

static lr_code begin(struct worker_compiler *c, uint64_t id, const char *constraint,
                     const uint32_t *generated, size_t count)
{
    struct wire_generate g;
    struct lr_buf out;
    struct wire_reader reader;
    struct wire_frame frame;
    struct lr_error err = {0};
    bool has = false;
    wire_generate_defaults(&g);
    g.id = id;
    g.constraint = lr_str_z(constraint);
    g.generated = generated;
    g.generated_count = count;
    g.prompt_ids = (const uint32_t[]){1};
    g.prompt_id_count = 1;
    lr_buf_init(&out, 1 << 16);
    wire_submit_encode(&out, &g);
    wire_reader_init(&reader, WIRE_BODY_MAX);
    wire_reader_give(&reader, lr_buf_str(&out));
    assert_int_equal(wire_reader_next(&reader, &frame, &has, &err), LR_OK);
    assert_true(has);
    lr_code code = worker_compiler_begin(c, &api, frame.body, &err);
    lr_buf_free(&out); /* the job has a copy */
    wire_reader_free(&reader);
    return code;
}

/* As the worker's loop does it. */
static struct worker_job *await(struct worker_compiler *c, uint32_t *reads)
{
    struct worker_job *job;
    while ((job = worker_compiler_take(c)) == NULL) {
        assert_int_not_equal(c->pending, 0);
        if (worker_compiler_reads(c)) {
            worker_compiler_read(c, &api, NULL);
            ++*reads;
        } else {
            struct pollfd ready = {.fd = (int)c->wake.handle, .events = POLLIN};
            assert_int_equal(poll(&ready, 1, 60 * 1000), 1);
        }
    }
    return job;
}

#define OBJECT "{\"format\":\"plain\",\"answer\":\"object\"}"

static void the_loop_reads_the_vocabulary_in_parts_and_compiles_nothing(void **state)
{
    struct worker_compiler c;
    struct lr_error err;
    uint32_t reads = 0, *mask = calloc(VOCAB / 32, sizeof(*mask));
    (void)state;
    loop_thread = pthread_self();
    worker_compiler_init(&c);
    assert_int_equal(begin(&c, 7, OBJECT, NULL, 0), LR_OK);
    assert_null(worker_compiler_take(&c)); /* the thread waits for the vocabulary */
    struct worker_job *job = await(&c, &reads);
    assert_int_equal(reads, 3);
    assert_int_equal(other_threads, 0);
    assert_int_equal(job->g.id, 7);
    assert_int_equal(job->code, LR_OK);
    assert_int_equal(grammar_matcher_mask(job->matcher, mask, VOCAB / 32, &err), LR_OK);
    assert_int_equal(mask['{' / 32], 1u << ('{' % 32));
    worker_job_destroy(job);
    assert_false(worker_compiler_reads(&c));
    worker_compiler_free(&c);
    free(mask);
}

static void a_job_follows_the_tokens_that_the_client_has_and_tells_what_is_wrong(void **state)
{
    static const uint32_t good[] = {'{'}, bad[] = {'}'};
    struct worker_compiler c;
    uint32_t reads = 0;
    (void)state;
    worker_compiler_init(&c);
    assert_int_equal(begin(&c, 1, OBJECT, good, 1), LR_OK);
    assert_int_equal(begin(&c, 2, OBJECT, bad, 1), LR_OK);
    assert_int_equal(begin(&c, 3, "{\"format\":\"plain\"}", NULL, 0), LR_OK);
    for (uint64_t id = 1; id <= 3; id++) {
        struct worker_job *job = await(&c, &reads);
        assert_int_equal(job->g.id, id);
        assert_int_equal(job->code, id == 1 ? LR_OK : LR_INVALID_ARGUMENT);
        if (id == 1)
            assert_true(grammar_matcher_token(job->matcher, '}'));
        if (id == 2)
            assert_non_null(strstr(job->err.text, "token 0"));
        worker_job_destroy(job);
    }
    worker_compiler_free(&c);
}

static void a_cancelled_job_is_never_taken(void **state)
{
    struct worker_compiler c;
    uint32_t reads = 0;
    (void)state;
    worker_compiler_init(&c);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(begin(&c, id, OBJECT, NULL, 0), LR_OK);
    assert_true(worker_compiler_cancel(&c, 1));
    assert_true(worker_compiler_cancel(&c, 3));
    assert_false(worker_compiler_cancel(&c, 3));
    assert_false(worker_compiler_cancel(&c, 4));
    struct worker_job *job = await(&c, &reads);
    assert_int_equal(job->g.id, 2);
    worker_job_destroy(job);
    assert_int_equal(begin(&c, 5, OBJECT, NULL, 0), LR_OK);
    worker_compiler_free(&c); /* with a job that was not taken */
}

static void an_engine_without_a_vocabulary_has_no_constraints(void **state)
{
    const struct lr_engine_api none = {.size = sizeof(none)};
    struct worker_compiler c;
    struct lr_error err;
    (void)state;
    worker_compiler_init(&c);
    assert_int_equal(worker_compiler_begin(&c, &none, LR_STR_LIT(""), &err), LR_UNSUPPORTED);
    assert_int_equal(c.pending, 0);
    worker_compiler_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loop_reads_the_vocabulary_in_parts_and_compiles_nothing),
        cmocka_unit_test(a_job_follows_the_tokens_that_the_client_has_and_tells_what_is_wrong),
        cmocka_unit_test(a_cancelled_job_is_never_taken),
        cmocka_unit_test(an_engine_without_a_vocabulary_has_no_constraints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
