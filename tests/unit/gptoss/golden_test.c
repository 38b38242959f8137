/* The CPU device gives the results of Hugging Face transformers, in any batch and chunk. */
#include "tests/unit/gptoss/support.h"

#include <math.h>
#include <unistd.h>

#include "model/metalbin.h"

static uint32_t vocab_of(const char *dir)
{
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_error err = {0};

    assert_int_equal(gptoss_engine_api()->probe(dir, NULL, &need, &err), LR_OK);
    return need.vocab_size;
}

static float *logits_of(struct recorder *r, const struct golden_case *c, uint32_t vocab)
{
    struct lr_error err = {0};
    float *out = calloc(c->count * vocab, sizeof(*out));

    assert_non_null(out);
    if (gptoss_engine_api()->logits(r->model, c->ids, c->count, out, &err) != LR_OK)
        fail_msg("%s: %s", c->name, err.text);
    return out;
}

static double relative_error(const float *a, const float *b, size_t n)
{
    double difference = 0, norm = 0;

    for (size_t i = 0; i < n; i++) {
        difference += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        norm += (double)b[i] * (double)b[i];
    }
    return sqrt(difference / norm);
}

static void check_logits(const char *dir, const char *golden, const char *extra)
{
    static const uint32_t chunks[] = {64, 7, 1};
    uint32_t vocab = vocab_of(dir);
    struct golden g;
    float *first[32] = {0};

    golden_load(&g, golden);
    for (size_t k = 0; k < 3; k++) {
        const struct lr_engine_options options = {
            .size = sizeof(options), .prefill_chunk = chunks[k], .extra_json = extra};
        struct recorder *r = recorder_open(dir, &options);
        /* Small chunks are slow: only every sixth of the many dialogues, and the long text. */
        for (size_t i = 0; i < g.count; i += k == 0 || g.count < 4 ? 1 : 6) {
            const struct golden_case *c = &g.cases[i];
            float *logits = logits_of(r, c, vocab);
            size_t total = c->count * vocab;
            double e =
                relative_error(logits + total - c->logit_count, c->logits, c->logit_count);
            if (!(e <= 1e-5))
                fail_msg("%s: relative error %g", c->name, e);
            if (k == 0) {
                first[i] = logits;
                continue;
            }
            assert_memory_equal(logits, first[i], total * sizeof(*logits));
            free(logits);
        }
        assert_int_equal(recorder_stats(r).pages_in_use, 0);
        recorder_close(r);
    }
    for (size_t i = 0; i < g.count; i++)
        free(first[i]);
    lr_arena_free(&g.arena);
}

static void demo_logits_equal_the_reference_bitwise_in_any_chunk(void **state)
{
    (void)state;
    check_logits(DEMO_MODEL, DEMO_GOLDEN, NULL);
}

static void odd_logits_equal_the_reference_bitwise_in_any_chunk(void **state)
{
    (void)state;
    check_logits(ODD_MODEL, ODD_GOLDEN, NULL);
}

static void the_plain_kernels_equal_the_reference_too(void **state)
{
    (void)state;
    check_logits(ODD_MODEL, ODD_GOLDEN, "{\"kernels\": \"plain\"}");
}

static void check_greedy(const char *dir, const char *golden)
{
    struct recorder *r = recorder_open(dir, NULL);
    struct golden g;

    golden_load(&g, golden);
    for (size_t i = 0; i < g.count; i++) {
        const struct golden_case *c = &g.cases[i];
        struct lr_engine_request request =
            plain_request(i, c->ids, c->count, (uint32_t)c->greedy_count);
        request.ignore_stop = 1;
        must_submit(r, &request);
    }
    recorder_run(r);
    for (size_t i = 0; i < g.count; i++) {
        const struct record *q = record_of(r, i);
        assert_int_equal(q->count, g.cases[i].greedy_count);
        assert_memory_equal(q->tokens, g.cases[i].greedy,
                            g.cases[i].greedy_count * sizeof(uint32_t));
        assert_int_equal(q->usage.prompt_tokens, g.cases[i].count);
        assert_int_equal(q->prefill_done, g.cases[i].count);
    }
    lr_arena_free(&g.arena);
    recorder_close(r);
}

static void greedy_continuations_equal_the_reference_all_in_one_batch(void **state)
{
    (void)state;
    check_greedy(DEMO_MODEL, DEMO_GOLDEN);
    check_greedy(ODD_MODEL, ODD_GOLDEN);
}

static void model_bin_gives_the_same_bits_as_safetensors(void **state)
{
    char path[] = "/tmp/gptoss-metal-XXXXXX";
    struct model_gptoss *m;
    struct lr_error err = {0};
    struct golden g;

    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    unlink(path);
    assert_int_equal(model_gptoss_open(DEMO_MODEL, NULL, &m, &err), LR_OK);
    if (model_metalbin_write(m, NULL, path, &err) != LR_OK)
        fail_msg("%s", err.text);
    uint32_t vocab = m->vocab_rows;
    model_gptoss_close(m);

    const struct lr_engine_options from_bin = {.size = sizeof(from_bin), .artifact_path = path};
    struct recorder *a = recorder_open(DEMO_MODEL, NULL);
    struct recorder *b = recorder_open(DEMO_MODEL, &from_bin);
    golden_load(&g, DEMO_GOLDEN);
    for (size_t i = 0; i < 3; i++) {
        float *x = logits_of(a, &g.cases[i], vocab), *y = logits_of(b, &g.cases[i], vocab);
        assert_memory_equal(x, y, g.cases[i].count * vocab * sizeof(*x));
        free(x);
        free(y);
    }
    lr_arena_free(&g.arena);
    recorder_close(a);
    recorder_close(b);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(demo_logits_equal_the_reference_bitwise_in_any_chunk),
        cmocka_unit_test(odd_logits_equal_the_reference_bitwise_in_any_chunk),
        cmocka_unit_test(the_plain_kernels_equal_the_reference_too),
        cmocka_unit_test(greedy_continuations_equal_the_reference_all_in_one_batch),
        cmocka_unit_test(model_bin_gives_the_same_bits_as_safetensors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
