/* The masks of one step have a budget: expensive masks take several steps, the others do not
 * wait for them, and the tokens are the same as without a budget. */
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
    TOKENS = 12, /* of each answer */
    BUDGET = 200 * 1000,
    STEPS_MAX = 10000,
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
    struct lr_fake_clock clock; /* stands still: only work counts */
    struct answer answers[ROWS];
    uint32_t most_work; /* of a step */
    uint32_t steps;
    uint32_t behind; /* tokens of the last one when the first of the expensive ones has ended */
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
        grammar_matcher_create(program, s->vocab, &matcher, &err) != LR_OK ||
        worker_constraints_add(&s->all, row, program, matcher, &err) != LR_OK)
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

static void step(struct stage *s, bool has_budget)
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
        lr_code code = worker_constraints_mask(&s->all, row, mask, WORDS,
                                               has_budget ? &ready : NULL, &err);
        if (code != LR_OK)
            fail_msg("row %u: %s", row, err.text);
        a->sat_out += !ready;
        if (!ready)
            continue;
        a->tokens[a->count] = choose(mask, row, a->count);
        worker_constraints_token(&s->all, row, a->tokens[a->count++]);
    }
    if (s->all.masks.used > s->most_work)
        s->most_work = s->all.masks.used;
}

static bool is_done(const struct stage *s)
{
    uint32_t count = 0;
    for (uint32_t row = 0; row < ROWS; row++)
        count += s->answers[row].count;
    return count == ROWS * TOKENS;
}

/* The last of the expensive ones, once the first of them has all its tokens. */
static void compare(struct stage *s)
{
    uint32_t most = 0, least = TOKENS;
    for (uint32_t row = 0; row < CHEAP; row++) {
        most = s->answers[row].count > most ? s->answers[row].count : most;
        least = s->answers[row].count < least ? s->answers[row].count : least;
    }
    if (most == TOKENS && s->behind == 0)
        s->behind = least;
}

static struct stage *create_stage(void)
{
    const struct grammar_tokens tokens = {NULL, token};
    struct stage *s = calloc(1, sizeof(*s));
    struct lr_error err;
    assert_non_null(s);
    lr_fake_clock_init(&s->clock, 0, 0);
    worker_constraints_init(&s->all);
    assert_int_equal(grammar_vocab_create(&tokens, &s->vocab, &err), LR_OK);
    return s;
}

static void end_stage(struct stage *s)
{
    worker_constraints_free(&s->all);
    grammar_vocab_free(s->vocab);
}

static struct stage *play(bool has_budget)
{
    struct stage *s = create_stage();
    s->all.masks.clock = &s->clock.clock;
    s->all.masks.work = BUDGET;
    for (uint32_t row = 0; row < ROWS; row++)
        add_row(s, row);
    while (!is_done(s) && s->steps < STEPS_MAX) {
        step(s, has_budget);
        compare(s);
    }
    assert_true(is_done(s));
    end_stage(s);
    return s;
}

static void the_masks_of_a_step_keep_to_their_budget_and_every_request_goes_on(void **state)
{
    struct stage *free_run = play(false), *s = play(true);
    (void)state;
    assert_int_equal(free_run->steps, TOKENS);
    /* A share may be exceeded by one node of the walk. */
    assert_in_range(s->most_work, BUDGET / 2, BUDGET + ROWS * WORKER_MASK_LEAST);
    assert_int_equal(s->answers[CHEAP].sat_out, 0);
    assert_in_range(s->behind, TOKENS / 2, TOKENS);
    for (uint32_t row = 0; row < ROWS; row++) {
        assert_memory_equal(s->answers[row].tokens, free_run->answers[row].tokens,
                            sizeof(s->answers[row].tokens));
        if (row != CHEAP)
            assert_in_range(s->answers[row].sat_out, 1, s->steps - TOKENS);
    }
    free(free_run);
    free(s);
}

/* With the time used up, a mask still gets the least share, so that it is finished some day. */
static void a_mask_goes_on_where_the_time_of_the_step_is_used_up(void **state)
{
    struct stage *s = create_stage();
    struct lr_error err = {0};
    uint32_t mask[WORDS], steps = 0;
    bool ready;
    (void)state;
    add_row(s, 0);
    assert_int_equal(worker_constraints_mask(&s->all, 0, mask, WORDS, NULL, &err), LR_OK);
    worker_constraints_token(&s->all, 0, 1 + '[');
    for (ready = false; !ready && steps < STEPS_MAX; steps++) {
        worker_constraints_step(&s->all);
        s->all.masks.took = WORKER_MASKS_NS;
        assert_int_equal(worker_constraints_mask(&s->all, 0, mask, WORDS, &ready, &err), LR_OK);
        assert_in_range(s->all.masks.used, 1, 2 * WORKER_MASK_LEAST);
    }
    assert_true(ready && steps > 10);
    end_stage(s);
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_masks_of_a_step_keep_to_their_budget_and_every_request_goes_on),
        cmocka_unit_test(a_mask_goes_on_where_the_time_of_the_step_is_used_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
