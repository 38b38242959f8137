/* bench_dialects TOKENIZER [ROUNDS]: the time of a mask in calls of each dialect, against
 * Hermes' in the same run.  A random legal answer is written again and again, a round of each
 * dialect in turn, so that a busy machine slows all of them alike.  Times are processor time.
 *
 * The vocabulary is that of the tokenizer and, as control tokens, the marks of all forms. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "grammar/calls.h"
#include "grammar/constraint.h"
#include "grammar/grammar.h"
#include "llm-router/engine.h"
#include "tokenizer/tokenizer.h"

enum { MARKS_MAX = 1024, MASKS_MAX = 1 << 16, ANSWER_TOKENS = 160 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"path\":{\"type\":\"string\"},\"line\":{\"type\":"
    "\"integer\"},\"all\":{\"type\":\"boolean\"},\"kind\":{\"enum\":[\"fast\",\"slow\"]},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}},\"required\":[\"path\","
    "\"line\",\"kind\"],\"additionalProperties\":false}";

struct vocabulary {
    struct tokenizer *tokenizer;
    struct lr_str marks[MARKS_MAX];
    uint32_t words, count; /* tokens of the tokenizer, marks */
};

struct dialect {
    struct grammar_program *program;
    double *us; /* owned */
    size_t count;
};

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void stop(const char *why)
{
    (void)fprintf(stderr, "bench_dialects: %s\n", why);
    exit(1);
}

static void add(struct vocabulary *v, struct lr_str mark)
{
    for (uint32_t i = 0; i < v->count; i++)
        if (lr_str_eq(v->marks[i], mark))
            return;
    if (mark.len > 1 && v->count < MARKS_MAX)
        v->marks[v->count++] = mark;
}

static bool token_of(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    const struct vocabulary *v = ctx;
    const char *text;
    uint32_t len;
    if (id < v->words) {
        if (!tokenizer_token(v->tokenizer, id, &text, &len, flags))
            return false;
        *bytes = lr_str(text, len);
        return true;
    }
    *flags = id == v->words ? LR_VOCAB_SPECIAL | LR_VOCAB_STOP : LR_VOCAB_SPECIAL;
    *bytes = id == v->words ? LR_STR_LIT("<|stop|>") : v->marks[id - v->words - 1];
    return id <= v->words + v->count;
}

static void compile(struct dialect *d, enum grammar_format format)
{
    const struct grammar_form *f = grammar_form_of(format);
    const struct lr_json *parsed;
    struct lr_arena arena;
    struct lr_error err;
    struct lr_buf text;
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, lr_str_z(schema), NULL, &parsed, &err) != LR_OK)
        stop(err.text);
    const struct grammar_tool tool = {
        .name = LR_STR_LIT("read_file"), .schema = parsed, .strict = true};
    const struct grammar_constraint c = {.format = format,
                                         .answer = GRAMMAR_ANSWER_NONE,
                                         .is_strict = true,
                                         .tools = &tool,
                                         .tool_count = 1,
                                         .one_call = true,
                                         .thought = f->thought};
    lr_buf_init(&text, 1 << 20);
    grammar_constraint_write(&text, &c);
    if (grammar_compile(lr_buf_str(&text), &d->program, &err) != LR_OK)
        stop(err.text);
    d->us = malloc(MASKS_MAX * sizeof(double));
    lr_buf_free(&text);
    lr_arena_free(&arena);
    if (d->us == NULL)
        stop("no memory");
}

/* A legal token: now and then a mark, so that all parts of a call are reached. */
static uint32_t choose(const struct vocabulary *v, const uint32_t *mask)
{
    uint32_t all = v->words + 1 + v->count;
    for (uint32_t tries = 0; tries < 100000; tries++) {
        bool is_mark = rand() % 3 == 0 && tries < 2000;
        uint32_t id = is_mark ? v->words + (uint32_t)rand() % (v->count + 1)
                              : (uint32_t)rand() % (rand() % 2 == 0 ? 400 : all);
        if ((mask[id / 32] >> id % 32 & 1) != 0)
            return id;
    }
    for (uint32_t id = 0; id < all; id++)
        if ((mask[id / 32] >> id % 32 & 1) != 0)
            return id;
    return v->words;
}

static void round_of(struct dialect *d, const struct vocabulary *v,
                     const struct grammar_vocab *vocab, uint32_t *mask, size_t words)
{
    struct grammar_matcher *m;
    struct lr_error err;
    if (grammar_matcher_create(d->program, vocab, &m, &err) != LR_OK)
        stop(err.text);
    for (int i = 0; i < ANSWER_TOKENS && d->count < MASKS_MAX; i++) {
        double start = now_us();
        if (grammar_matcher_mask(m, mask, words, &err) != LR_OK)
            stop(err.text);
        d->us[d->count++] = now_us() - start;
        uint32_t id = choose(v, mask);
        if (id == v->words || !grammar_matcher_token(m, id))
            break;
    }
    grammar_matcher_free(m);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    static struct vocabulary v;
    static struct dialect dialects[GRAMMAR_FORMAT_COUNT];
    struct grammar_vocab *vocab;
    struct lr_error err;
    long rounds = argc == 3 ? strtol(argv[2], NULL, 10) : 100;
    if (argc < 2)
        stop("bench_dialects TOKENIZER [ROUNDS]");
    if (tokenizer_open_file(argv[1], &v.tokenizer, &err) != LR_OK)
        stop(err.text);
    v.words = tokenizer_vocab_size(v.tokenizer);
    for (enum grammar_format i = GRAMMAR_MUSE; i < GRAMMAR_FORMAT_COUNT; i++) {
        const struct grammar_form *f = grammar_form_of(i);
        const struct lr_str marks[] = {
            f->section, f->section_end, f->begin,     f->end,           f->key,
            f->key_end, f->value,       f->value_end, f->quote,         f->name_end,
            f->id_end,  f->drops[0],    f->drops[1],  f->thought.begin, f->thought.end};
        for (size_t k = 0; k < sizeof(marks) / sizeof(marks[0]); k++)
            add(&v, marks[k]);
    }
    const struct grammar_tokens tokens = {&v, token_of};
    if (grammar_vocab_create(&tokens, &vocab, &err) != LR_OK)
        stop(err.text);
    size_t words = ((size_t)v.words + 1 + v.count + 31) / 32;
    uint32_t *mask = calloc(words, sizeof(*mask));
    for (enum grammar_format i = GRAMMAR_MUSE; i < GRAMMAR_FORMAT_COUNT; i++)
        compile(&dialects[i], i);
    for (long r = 0; r < rounds; r++)
        for (enum grammar_format i = GRAMMAR_MUSE; i < GRAMMAR_FORMAT_COUNT; i++)
            round_of(&dialects[i], &v, vocab, mask, words);
    for (enum grammar_format i = GRAMMAR_MUSE; i < GRAMMAR_FORMAT_COUNT; i++)
        qsort(dialects[i].us, dialects[i].count, sizeof(double), by_size);
    const struct dialect *h = &dialects[GRAMMAR_HERMES];
    double bar = h->us[h->count * 99 / 100];
    (void)printf("| dialect | masks | p50, us | p99, us | p99 against Hermes "
                 "|\n|---|---|---|---|---|\n");
    for (enum grammar_format i = GRAMMAR_MUSE; i < GRAMMAR_FORMAT_COUNT; i++) {
        const struct dialect *d = &dialects[i];
        double p99 = d->us[d->count * 99 / 100];
        (void)printf("| %s | %zu | %.0f | %.0f | %.2f |\n", grammar_format_name(i), d->count,
                     d->us[d->count / 2], p99, p99 / bar);
        grammar_program_free(d->program);
        free(d->us);
    }
    free(mask);
    grammar_vocab_free(vocab);
    tokenizer_free(v.tokenizer);
    return 0;
}
