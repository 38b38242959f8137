/* A mask contains exactly the tokens that a matcher accepts, along random answers. */
#include "grammar_test.h"
#include "llm-router/engine.h"

enum { VOCAB_MAX = 2048 };

struct words {
    char text[VOCAB_MAX][16];
    uint32_t len[VOCAB_MAX];
    uint32_t flags[VOCAB_MAX];
    uint32_t count;
};

static uint32_t seed = 1;

static uint32_t draw(uint32_t below)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % below;
}

static void add(struct words *w, const char *text, size_t len, uint32_t flags)
{
    memcpy(w->text[w->count], text, len);
    w->len[w->count] = (uint32_t)len;
    w->flags[w->count++] = flags;
}

/* Every byte, control tokens, and common byte strings of JSON and Harmony. */
static struct words *make_words(void)
{
    static const char *const parts[] = {
        "\"",   "{",          "}",        "[",         "]",     ",",        ":",       " ",
        "\n",   "  ",         "\\",       "\\u",       "d8",    "3d",       "0",       "1",
        "12",   "-",          ".",        "e",         "true",  "null",     "name",    "a",
        "b",    "\xe6",       "\x97\xa5", "\xc3\xa9",  "final", "analysis", "comment", "ary",
        " to=", "functions.", "json",     "assistant", "x",     "\t",
    };
    static const char *const controls[] = {"<|start|>",   "<|end|>",       "<|message|>",
                                           "<|channel|>", "<|constrain|>", "<|other|>"};
    struct words *w = calloc(1, sizeof(*w));
    assert_non_null(w);
    for (int i = 0; i < 256; i++)
        add(w, &(char){(char)i}, 1, 0);
    add(w, "", 0, 0);
    add(w, "unused", 6, LR_VOCAB_UNUSED);
    for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++)
        add(w, controls[i], strlen(controls[i]), LR_VOCAB_SPECIAL);
    add(w, "<|return|>", 10, LR_VOCAB_SPECIAL | LR_VOCAB_STOP);
    add(w, "<|call|>", 8, LR_VOCAB_SPECIAL | LR_VOCAB_STOP);
    while (w->count < VOCAB_MAX) {
        char text[64];
        size_t len = 0;
        for (uint32_t n = 1 + draw(3); n > 0; n--) {
            const char *part = parts[draw(sizeof(parts) / sizeof(parts[0]))];
            memcpy(text + len, part, strlen(part));
            len += strlen(part);
        }
        if (len <= 16)
            add(w, text, len, 0);
    }
    return w;
}

static bool token(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    const struct words *w = ctx;
    if (id >= w->count)
        return false;
    *bytes = lr_str(w->text[id], w->len[id]);
    *flags = w->flags[id];
    return true;
}

static const char *const constraints[] = {
    "{\"format\":\"plain\",\"answer\":\"object\"}",
    "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{\"type\":\"object\","
    "\"properties\":{\"name\":{"
    "\"type\":\"string\"},\"a\":{\"anyOf\":[{\"type\":\"string\"},{\"const\":\"ab\"},{\"type\":"
    "\"number\"}]},\"b\":"
    "{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":3},\"maxItems\":2}},"
    "\"required\":[\"a\"]}}",
    "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{\"type\":\"array\",\"items\":{"
    "\"anyOf\":[{\"type\":"
    "\"string\",\"minLength\":2},{\"type\":\"string\",\"maxLength\":9},{\"enum\":[\"name\",12,"
    "1]}]}}}",
    "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{\"type\":\"string\",\"minLength\":"
    "1,\"maxLength\":9}}",
    "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{\"type\":\"array\",\"items\":{"
    "\"type\":\"string\",\"oneOf\":[{\"pattern\":\"name\"},{\"pattern\":\"a1\"},{"
    "\"pattern\":\"x\"}]}}}",
    "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{\"type\":\"object\","
    "\"patternProperties\":{\"^.{1,7}$\":{\"type\":\"integer\"}},\"additionalProperties\":"
    "false}}",
    "{\"format\":\"harmony\",\"answer\":\"object\"}",
    "{\"format\":\"harmony\",\"answer\":\"text\",\"tools\":[{\"name\":\"a\",\"strict\":true,"
    "\"schema\":{\"type\":"
    "\"object\",\"properties\":{\"x\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":120}},"
    "\"required\":[\"x\"]}},"
    "{\"name\":\"ab\",\"strict\":false}]}",
    "{\"format\":\"harmony\",\"answer\":\"none\",\"tools\":[{\"name\":\"name\",\"strict\":"
    "false,\"schema\":{}}]}",
    "{\"format\":\"plain\",\"answer\":\"regex\",\"regex\":\"([^ab]{0,9}|name.*)[0-9]{2,}\"}",
    "{\"format\":\"plain\",\"answer\":\"choice\",\"choice\":[\"name\",\"namea\",\"a12\",\"a1\","
    "\"ab "
    "b\"]}",
    "{\"format\":\"plain\",\"answer\":\"grammar\",\"grammar\":\"root ::= v\\nv ::= s | n | "
    "\\\"[\\\" "
    "v (\\\",\\\" w v)* \\\"]\\\" | \\\"{\\\" s \\\":\\\" w v \\\"}\\\"\\ns ::= [\\\"] "
    "[^\\\"]* "
    "[\\\"]\\nn ::= [0-9]+ (\\\".\\\" [0-9]+)?\\nw ::= \\\" \\\"{0,2}\"}",
    "{\"format\":\"plain\",\"answer\":\"grammar\",\"grammar\":\"root ::= t\\nt ::= f | f "
    "\\\"\\\" t*+\\nf ::= [1-9ab]+ | \\\"x\\\"{2,3}\"}",
    "{\"format\":\"plain\",\"answer\":\"grammar\",\"grammar\":\"root ::= (x | [^{}]{1,3}) (x | "
    ".) "
    "(y | [ab]*) \\\"x\\\"?\\nx ::= \\\"{\\\" [^}]* x? \\\"}\\\"\\ny ::= [a-z] y? \\\"1\\\"\"}",
};

static struct grammar_matcher *play(const struct grammar_program *program,
                                    const struct grammar_vocab *vocab, const uint32_t *answer,
                                    uint32_t len)
{
    struct grammar_matcher *m;
    struct lr_error err;
    assert_int_equal(grammar_matcher_create(program, vocab, &m, &err), LR_OK);
    for (uint32_t i = 0; i < len; i++)
        assert_true(grammar_matcher_token(m, answer[i]));
    return m;
}

/* The tokens that this state accepts, found by trying each.  An accepted token changes the
 * state, so the state is rebuilt by replaying the answer. */
static void brute_force(const struct grammar_program *program,
                        const struct grammar_vocab *vocab, const uint32_t *answer, uint32_t len,
                        uint32_t *mask)
{
    struct grammar_matcher *m = play(program, vocab, answer, len);
    for (uint32_t id = 0; id < VOCAB_MAX; id++) {
        if (!grammar_matcher_token(m, id))
            continue;
        mask[id >> 5] |= 1u << (id & 31);
        grammar_matcher_free(m);
        m = play(program, vocab, answer, len);
    }
    grammar_matcher_free(m);
}

/* The mask again, by a matcher that works on it in pieces.  A token that comes meanwhile ends
 * the work on it. */
static void check_in_pieces(struct grammar_matcher *m, uint32_t taken, const uint32_t *expected)
{
    struct lr_error err;
    uint32_t mask[VOCAB_MAX / 32], used;
    bool ready = false;
    if (draw(4) == 0) {
        assert_int_equal(grammar_matcher_prepare(m, 1 + draw(300), &used, &ready, &err), LR_OK);
        assert_false(grammar_matcher_token(m, VOCAB_MAX));
        assert_false(grammar_matcher_token(m, 256)); /* of no bytes */
        ready = false;
    }
    while (!ready)
        assert_int_equal(grammar_matcher_prepare(m, 1 + draw(300), &used, &ready, &err), LR_OK);
    assert_int_equal(grammar_matcher_mask(m, mask, VOCAB_MAX / 32, &err), LR_OK);
    assert_memory_equal(mask, expected, sizeof(mask));
    assert_true(grammar_matcher_token(m, taken));
}

/* One random answer; the mask is compared at one position. */
static void check_answer(const struct grammar_program *program,
                         const struct grammar_vocab *vocab, uint32_t stop_after)
{
    struct grammar_matcher *m, *in_pieces;
    struct lr_error err;
    uint32_t answer[64], len = 0;
    uint32_t mask[VOCAB_MAX / 32], expected[VOCAB_MAX / 32] = {0};
    assert_int_equal(grammar_matcher_create(program, vocab, &m, &err), LR_OK);
    assert_int_equal(grammar_matcher_create(program, vocab, &in_pieces, &err), LR_OK);
    while (!grammar_matcher_is_complete(m)) {
        assert_int_equal(grammar_matcher_mask(m, mask, VOCAB_MAX / 32, &err), LR_OK);
        if (len == stop_after)
            break;
        uint32_t id = draw(VOCAB_MAX);
        while ((mask[id >> 5] >> (id & 31) & 1u) == 0)
            id = (id + 1) % VOCAB_MAX;
        check_in_pieces(in_pieces, id, mask);
        assert_true(grammar_matcher_token(m, id));
        answer[len++] = id;
    }
    if (!grammar_matcher_is_complete(m)) {
        brute_force(program, vocab, answer, len, expected);
        assert_memory_equal(mask, expected, sizeof(mask));
    } else {
        assert_int_not_equal(grammar_matcher_mask(m, mask, VOCAB_MAX / 32, &err), LR_OK);
    }
    grammar_matcher_free(m);
    grammar_matcher_free(in_pieces);
}

/* Trying every token takes most of this test's time: every position of an answer with
 * LR_LONG=1, else every third. */
static void a_mask_holds_exactly_the_tokens_that_are_legal(void **state)
{
    (void)state;
    const uint32_t stride = getenv("LR_LONG") != NULL ? 1 : 3;
    struct words *w = make_words();
    struct grammar_vocab *vocab;
    struct lr_error err;
    const struct grammar_tokens tokens = {w, token};
    assert_int_equal(grammar_vocab_create(&tokens, &vocab, &err), LR_OK);
    for (size_t i = 0; i < sizeof(constraints) / sizeof(constraints[0]); i++) {
        struct grammar_program *program = compile_text(constraints[i], &err);
        if (program == NULL)
            fail_msg("%s: %s", constraints[i], err.text);
        for (uint32_t at = (uint32_t)i % stride; at < 24; at += stride)
            check_answer(program, vocab, at);
        grammar_program_free(program);
    }
    grammar_vocab_free(vocab);
    free(w);
}

static void a_vocabulary_without_the_control_tokens_is_refused(void **state)
{
    (void)state;
    struct words *w = make_words();
    struct grammar_vocab *vocab;
    struct grammar_matcher *m;
    struct lr_error err;
    w->count = 256;
    const struct grammar_tokens tokens = {w, token};
    assert_int_equal(grammar_vocab_create(&tokens, &vocab, &err), LR_OK);
    struct grammar_program *program = compile_text(constraints[6], &err);
    assert_int_equal(grammar_matcher_create(program, vocab, &m, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "<|channel|>"));
    grammar_program_free(program);
    program = compile_text(constraints[0], &err);
    assert_int_equal(grammar_matcher_create(program, vocab, &m, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "stop token"));
    grammar_program_free(program);
    grammar_vocab_free(vocab);
    free(w);
}

/* Every text of a quote and three letters, for trying hundreds of readings of a string. */
static bool quoted(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    static char text[4];
    (void)ctx;
    *flags = 0;
    if (id == 0) {
        *flags = LR_VOCAB_SPECIAL | LR_VOCAB_STOP;
        *bytes = LR_STR_LIT("<|end|>");
        return true;
    }
    text[0] = '"';
    for (int i = 1; i < 4; i++, id /= 26)
        text[i] = (char)('a' + id % 26);
    *bytes = lr_str(text, sizeof(text));
    return id == 0;
}

/* Each letter may end a word or go on with it, so that the readings double with every letter
 * until the limit of threads.  All of them are at the same few places of the automaton. */
static void many_readings_at_the_same_place_cost_little_more_than_one(void **state)
{
    static const char text[] =
        "{\"format\":\"plain\",\"answer\":\"grammar\",\"grammar\":\"root ::= t\\n"
        "t ::= f | f \\\"\\\" t*+\\nf ::= [1-9]+ | \\\"x\\\"{2,3}\"}";
    struct lr_error err = {0};
    struct words *w = make_words();
    struct grammar_vocab *vocab;
    struct grammar_matcher *m;
    uint32_t used, most = 0;
    bool ready;
    (void)state;
    struct grammar_program *program = compile_text(text, &err);
    assert_non_null(program);
    assert_int_equal(grammar_vocab_create(&(struct grammar_tokens){w, token}, &vocab, &err),
                     LR_OK);
    assert_int_equal(grammar_matcher_create(program, vocab, &m, &err), LR_OK);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(grammar_matcher_prepare(m, UINT32_MAX, &used, &ready, &err), LR_OK);
        most = used > most ? used : most;
        assert_true(grammar_matcher_token(m, '1'));
    }
    if (most > 50000)
        fail_msg("a mask took %u moves", most);
    grammar_matcher_free(m);
    grammar_vocab_free(vocab);
    grammar_program_free(program);
    free(w);
}

static void a_mask_of_too_many_readings_is_refused_and_does_not_take_long(void **state)
{
    enum { READINGS = 900 };
    const struct grammar_tokens tokens = {NULL, quoted};
    struct grammar_vocab *vocab;
    struct grammar_matcher *m;
    struct lr_buf text;
    struct lr_error err;
    (void)state;
    lr_buf_init(&text, 1 << 20);
    lr_buf_add_z(&text, "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":{\"anyOf\":[");
    for (int i = 0; i < READINGS; i++)
        lr_buf_addf(&text, "%s{\"type\":\"string\",\"pattern\":\"^[a-y]*%c$\"}",
                    i > 0 ? "," : "", 'a' + i % 25);
    lr_buf_add_z(&text, "]}}");
    struct grammar_program *program = compile_text(lr_buf_z(&text), &err);
    assert_non_null(program);
    assert_int_equal(grammar_vocab_create(&tokens, &vocab, &err), LR_OK);
    assert_int_equal(grammar_matcher_create(program, vocab, &m, &err), LR_OK);
    uint32_t *mask = calloc(1 << 10, sizeof(*mask));
    assert_int_equal(grammar_matcher_mask(m, mask, 1 << 10, &err), LR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "too many readings"));
    free(mask);
    grammar_matcher_free(m);
    grammar_vocab_free(vocab);
    grammar_program_free(program);
    lr_buf_free(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_holds_exactly_the_tokens_that_are_legal),
        cmocka_unit_test(a_vocabulary_without_the_control_tokens_is_refused),
        cmocka_unit_test(many_readings_at_the_same_place_cost_little_more_than_one),
        cmocka_unit_test(a_mask_of_too_many_readings_is_refused_and_does_not_take_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
