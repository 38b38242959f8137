/* Threads make the masks: expensive masks take several steps, the others do not wait for them,
 * and the tokens are the same as if the engine waited for every mask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "worker/constraints.h"

enum {
    VOCAB = 1 + 256 + 26 * 26 * 26, /* the end, every byte, and a quote with three letters */
    WORDS = (VOCAB + 31) / 32,
    ROWS = 6, /* the last one is cheap */
    CHEAP = ROWS - 1,
    TOKENS = 6,       /* of each answer */
    WAIT_NS = 300000, /* less than an expensive mask takes */
};

static bool token(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    static char text[4];
    (void)ctx;
    *bytes = lr_str(text, 1);
    *flags = 0;
    if (id == 0) {
        *bytes = LR_STR_LIT("<|end|>");
        *flags = LR_VOCAB_SPECIAL | LR_VOCAB_STOP;
    } else if (id <= 256) {
        text[0] = (char)(id - 1);
    } else if (id < VOCAB) {
        text[0] = '"';
        bytes->len = 4;
        id -= 257;
        for (int i = 1; i < 4; i++, id /= 26)
            text[i] = (char)('a' + id % 26);
    }
    return id < VOCAB;
}

struct answer {
    uint32_t tokens[TOKENS];
    uint32_t count;
    uint32_t sat_out; /* steps */
};

struct stage {
    struct worker_constraints all;
    struct grammar_vocab *vocab;
    struct answer answers[ROWS];
    uint64_t most_pieces; /* of the thread, for a mask of the cheap row */
    uint32_t steps;
};

/* A list of strings that are read in many ways at once; the cheap row has strings of any kind.
 */
static void add_row(struct stage *s, uint32_t row)
{
    struct grammar_program *program;
    struct grammar_matcher *matcher;
    struct lr_buf text;
    struct lr_error err;
    lr_buf_init(&text, 1 << 16);
    lr_buf_add_z(&text, "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{\"type\":"
                        "\"array\",\"minItems\":9,\"items\":{\"anyOf\":[");
    if (row == CHEAP)
        lr_buf_add_z(&text, "{\"type\":\"string\"}");
    for (uint32_t i = 0; row != CHEAP && i < 300 + row; i++)
        lr_buf_addf(&text, "%s{\"type\":\"string\",\"pattern\":\"^[a-y]*%c$\"}",
                    i > 0 ? "," : "", (char)('a' + i % 25));
    lr_buf_add_z(&text, "]}}}");
    if (grammar_compile(lr_buf_str(&text), &program, &err) != LR_OK ||
        grammar_matcher_create_aside(program, s->vocab, &matcher, &err) != LR_OK ||
        worker_constraints_add(&s->all, row, s->vocab, program, matcher, &err) != LR_OK)
        fail_msg("%s", err.text);
    lr_buf_free(&text);
}

static uint32_t choose(const uint32_t *mask, uint32_t row, uint32_t index)
{
    uint32_t id = (row * 7919 + index * 104729 + 5) % VOCAB;
    while ((mask[id >> 5] >> (id & 31) & 1u) == 0)
        id = (id + 1) % VOCAB;
    return id;
}

static void step(struct stage *s, bool waits)
{
    struct lr_error err = {0};
    uint32_t mask[WORDS];
    worker_constraints_step(&s->all);
    s->steps++;
    for (uint32_t row = 0; row < ROWS; row++) {
        struct answer *a = &s->answers[row];
        bool ready = true;
        if (a->count == TOKENS)
            continue;
        lr_code code =
            worker_constraints_mask(&s->all, row, mask, WORDS, waits ? NULL : &ready, &err);
        if (code != LR_OK)
            fail_msg("row %u: %s", row, err.text);
        a->sat_out += !ready;
        if (!ready)
            continue;
        uint64_t pieces = worker_constraints_pieces(&s->all, row);
        if (row == CHEAP && pieces > s->most_pieces)
            s->most_pieces = pieces;
        a->tokens[a->count] = choose(mask, row, a->count);
        worker_constraints_token(&s->all, row, a->tokens[a->count++]);
    }
}

static bool is_done(const struct stage *s)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < ROWS; row++)
        count += s->answers[row].count;
    return count == ROWS * TOKENS;
}

static struct stage *create_stage(uint32_t threads)
{
    const struct grammar_tokens tokens = {NULL, token};
    struct stage *s = calloc(1, sizeof(*s));
    struct lr_error err;
    assert_non_null(s);
    worker_constraints_init(&s->all, threads);
    assert_int_equal(grammar_vocab_create(&tokens, &s->vocab, &err), LR_OK);
    for (uint32_t row = 0; row < ROWS; row++)
        add_row(s, row);
    return s;
}

static void end_stage(struct stage *s)
{
    worker_constraints_free(&s->all);
    grammar_vocab_free(s->vocab);
}

static struct stage *play(uint32_t threads, bool waits, uint64_t budget_ns)
{
    struct stage *s = create_stage(threads);
    s->all.budget_ns = budget_ns;
    while (!is_done(s))
        step(s, waits);
    end_stage(s);
    return s;
}

static uint32_t sat_out(const struct stage *s)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < ROWS; row++)
        count += s->answers[row].sat_out;
    return count;
}

static void
the_engine_does_not_wait_for_expensive_masks_and_every_request_gets_its_tokens(void **state)
{
    struct stage *patient = play(1, true, 0),
                 *hasty[] = {play(1, false, WAIT_NS), play(3, false, WAIT_NS)};
    (void)state;
    assert_int_equal(patient->steps, TOKENS);
    assert_int_equal(sat_out(patient), 0);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(sat_out(hasty[i]) > 0);
        for (uint32_t row = 0; row < ROWS; row++)
            assert_memory_equal(hasty[i]->answers[row].tokens, patient->answers[row].tokens,
                                sizeof(hasty[i]->answers[row].tokens));
        free(hasty[i]);
    }
    free(patient);
}

/* An expensive mask has dozens of pieces. */
static void a_cheap_mask_waits_for_one_piece_of_each_expensive_mask(void **state)
{
    struct stage *s = play(1, false, WAIT_NS);
    (void)state;
    assert_in_range(s->most_pieces, 1, ROWS + 1);
    free(s);
}

static void the_engine_waits_for_the_masks_of_a_step_no_longer_than_its_budget(void **state)
{
    struct stage *s = create_stage(1);
    struct lr_error err = {0};
    uint32_t mask[WORDS], unready = 0;
    bool ready;
    (void)state;
    for (uint32_t row = 0; row < ROWS; row++)
        worker_constraints_token(&s->all, row, 1 + '['); /* expensive masks follow */
    worker_constraints_step(&s->all);
    s->all.waited_ns = s->all.budget_ns; /* the step has waited enough */
    for (uint32_t row = 0; row < ROWS; row++) {
        assert_int_equal(worker_constraints_mask(&s->all, row, mask, WORDS, &ready, &err),
                         LR_OK);
        unready += !ready;
    }
    assert_true(unready > 0);
    /* In the next step the engine waits again. */
    s->all.budget_ns = 60 * UINT64_C(1000000000);
    worker_constraints_step(&s->all);
    for (uint32_t row = 0; row < ROWS; row++) {
        assert_int_equal(worker_constraints_mask(&s->all, row, mask, WORDS, &ready, &err),
                         LR_OK);
        assert_true(ready);
    }
    end_stage(s);
    free(s);
}

/* Whatever its thread does at that moment. */
static void a_request_may_end_at_any_time(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 2 * ROWS; round++) {
        struct stage *s = create_stage(2);
        struct lr_error err = {0};
        uint32_t mask[WORDS];
        for (uint32_t row = 0; row < round % ROWS; row++)
            assert_int_equal(worker_constraints_mask(&s->all, row, mask, WORDS, NULL, &err),
                             LR_OK);
        worker_constraints_drop(&s->all, round % ROWS);
        worker_constraints_drop(&s->all, 0);
        worker_constraints_drop(&s->all, 0); /* a request without a constraint */
        assert_int_equal(s->all.threads[0].count + s->all.threads[1].count,
                         round % ROWS == 0 ? ROWS - 1 : ROWS - 2);
        assert_int_equal(worker_constraints_mask(&s->all, 0, mask, WORDS, NULL, &err),
                         LR_INTERNAL);
        end_stage(s);
        free(s);
    }
}

static void a_token_that_the_mask_forbids_ends_the_request_with_an_error(void **state)
{
    struct stage *s = create_stage(1);
    struct lr_error err = {0};
    uint32_t mask[WORDS];
    bool ready = false;
    (void)state;
    worker_constraints_token(&s->all, CHEAP, 1 + '}');
    assert_int_equal(worker_constraints_mask(&s->all, CHEAP, mask, WORDS, NULL, &err),
                     LR_INTERNAL);
    assert_non_null(strstr(err.text, "forbids"));
    worker_constraints_token(&s->all, CHEAP, 1 + '['); /* changes nothing */
    assert_int_equal(worker_constraints_mask(&s->all, CHEAP, mask, WORDS, &ready, &err),
                     LR_INTERNAL);
    assert_int_equal(worker_constraints_mask(&s->all, 0, mask, WORDS, NULL, &err), LR_OK);
    end_stage(s);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            the_engine_does_not_wait_for_expensive_masks_and_every_request_gets_its_tokens),
        cmocka_unit_test(a_cheap_mask_waits_for_one_piece_of_each_expensive_mask),
        cmocka_unit_test(the_engine_waits_for_the_masks_of_a_step_no_longer_than_its_budget),
        cmocka_unit_test(a_request_may_end_at_any_time),
        cmocka_unit_test(a_token_that_the_mask_forbids_ends_the_request_with_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
