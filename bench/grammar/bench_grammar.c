/* bench_grammar TOKENIZER CASES LOG EVERY: MaskBench's questions, see bench/grammar/run.
 *
 * A schema passes when it compiles, takes its valid instances and refuses the others.  On the
 * way every mask is compared with the matcher: the instance's next token is in it exactly when
 * the matcher takes that token.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "grammar/grammar.h"
#include "llm-router/engine.h"
#include "tokenizer/tokenizer.h"

enum { SCHEMAS_MAX = 20000, MASKS_MAX = 8000000, TOKENS_MAX = 1 << 24 };

struct times {
    double *us; /* owned */
    size_t count;
};

struct bench {
    struct tokenizer *tokenizer;
    struct grammar_vocab *vocab;
    uint32_t *mask; /* owned */
    size_t words;
    uint32_t stop;
    FILE *log;
    struct times masks, compiles;
    unsigned schemas, passing, refused, valid_refused, invalid_accepted, masks_wrong;
};

struct cases {
    FILE *file;
    char *name, *schema; /* owned, of the schema that is being read */
    uint32_t schema_len, tests;
};

static double now_us(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void stop(const char *why)
{
    (void)fprintf(stderr, "bench_grammar: %s\n", why);
    exit(1);
}

/* ---- the vocabulary ---- */

static bool is_stop(struct lr_str name)
{
    return lr_str_eq_z(name, "<|return|>") || lr_str_eq_z(name, "<|call|>") ||
           lr_str_eq_z(name, "<|endoftext|>") || lr_str_eq_z(name, "<|im_end|>");
}

static bool token_of(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    struct bench *b = ctx;
    const char *text;
    uint32_t len;
    if (!tokenizer_token(b->tokenizer, id, &text, &len, flags))
        return false;
    *bytes = lr_str(text, len);
    if ((*flags & LR_VOCAB_SPECIAL) != 0 && is_stop(*bytes)) {
        *flags |= LR_VOCAB_STOP;
        b->stop = id;
    }
    return true;
}

static void open_vocab(struct bench *b, const char *path)
{
    struct lr_error err;
    const struct grammar_tokens tokens = {b, token_of};
    if (tokenizer_open_file(path, &b->tokenizer, &err) != LR_OK ||
        grammar_vocab_create(&tokens, &b->vocab, &err) != LR_OK)
        stop(err.text);
    b->words = ((size_t)tokenizer_vocab_size(b->tokenizer) + 31) / 32;
    b->mask = calloc(b->words, sizeof(*b->mask));
    b->masks.us = malloc(MASKS_MAX * sizeof(double));
    b->compiles.us = malloc(SCHEMAS_MAX * sizeof(double));
    if (b->mask == NULL || b->masks.us == NULL || b->compiles.us == NULL)
        stop("no memory");
}

static bool has_bit(const struct bench *b, uint32_t id)
{
    return (b->mask[id >> 5] >> (id & 31) & 1u) != 0;
}

/* ---- the cases ---- */

static char *read_text(struct cases *c, size_t len)
{
    char *text = malloc(len + 1);
    if (text == NULL || fread(text, 1, len, c->file) != len)
        stop("the file of cases ends early");
    text[len] = '\0';
    return text;
}

static bool next_schema(struct cases *c)
{
    uint32_t head[3];
    if (fread(head, sizeof(*head), 3, c->file) != 3)
        return false;
    c->name = read_text(c, head[0]);
    c->schema = read_text(c, head[1]);
    c->schema_len = head[1];
    c->tests = head[2];
    return true;
}

/* ---- a schema ---- */

/* The time to the first mask counts as compiling. */
static struct grammar_program *compile(struct bench *b, struct cases *c)
{
    static const char head[] = "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":";
    struct grammar_program *program = NULL;
    struct grammar_matcher *m;
    struct lr_error err = {0};
    char *text = malloc(c->schema_len + sizeof(head) + 1);
    if (text == NULL)
        stop("no memory");
    memcpy(text, head, sizeof(head) - 1);
    memcpy(text + sizeof(head) - 1, c->schema, c->schema_len);
    text[sizeof(head) - 1 + c->schema_len] = '}';
    double start = now_us();
    lr_code code = grammar_compile(lr_str(text, c->schema_len + sizeof(head)), &program, &err);
    if (code == LR_OK && grammar_matcher_create(program, b->vocab, &m, &err) == LR_OK) {
        (void)!grammar_matcher_mask(m, b->mask, b->words, &err);
        grammar_matcher_free(m);
    }
    double took = now_us() - start;
    if (code == LR_OK && b->compiles.count < SCHEMAS_MAX)
        b->compiles.us[b->compiles.count++] = took;
    if (took > 20000)
        (void)fprintf(b->log, "slow\t%s\tcompiling %.0f us\n", c->name, took);
    if (code != LR_OK)
        (void)fprintf(b->log, "refused\t%s\t%s\n", c->name, err.text);
    free(text);
    return program;
}

/* One token of an instance: whether it fits, and whether mask and matcher agree on it. */
static bool take(struct bench *b, struct grammar_matcher *m, uint32_t id, const char *name)
{
    struct lr_error err;
    double start = now_us();
    lr_code code = grammar_matcher_mask(m, b->mask, b->words, &err);
    double took = now_us() - start;
    if (b->masks.count < MASKS_MAX)
        b->masks.us[b->masks.count++] = took;
    if (took > 5000)
        (void)fprintf(b->log, "slow\t%s\t%.0f us\n", name, took);
    bool in_mask = code == LR_OK && has_bit(b, id);
    bool fits = grammar_matcher_token(m, id);
    if (fits != in_mask) {
        b->masks_wrong++;
        (void)fprintf(b->log, "mask\t%s\ttoken %u: mask %d matcher %d\n", name, id, in_mask,
                      fits);
    }
    return fits;
}

static bool takes_instance(struct bench *b, const struct grammar_program *program,
                           const char *name, struct lr_str text)
{
    struct grammar_matcher *m;
    struct tokenizer_ids ids;
    struct lr_error err;
    bool fits = true;
    tokenizer_ids_init(&ids, TOKENS_MAX);
    if (grammar_matcher_create(program, b->vocab, &m, &err) != LR_OK ||
        tokenizer_encode(b->tokenizer, text, false, &ids, &err) != LR_OK)
        stop(err.text);
    for (size_t i = 0; i < ids.count && fits; i++)
        fits = take(b, m, ids.items[i], name);
    fits = fits && grammar_matcher_mask(m, b->mask, b->words, &err) == LR_OK &&
           has_bit(b, b->stop);
    grammar_matcher_free(m);
    tokenizer_ids_free(&ids);
    return fits;
}

static void ask(struct bench *b, struct cases *c, bool skipped)
{
    bool valid_refused = false, invalid_accepted = false;
    struct grammar_program *program = skipped ? NULL : compile(b, c);
    for (uint32_t i = 0; i < c->tests; i++) {
        uint8_t valid;
        uint32_t len;
        if (fread(&valid, 1, 1, c->file) != 1 || fread(&len, sizeof(len), 1, c->file) != 1)
            stop("the file of cases ends early");
        char *text = read_text(c, len);
        bool fits = program != NULL && takes_instance(b, program, c->name, lr_str(text, len));
        if (program != NULL && fits != (valid != 0)) {
            (void)fprintf(b->log, "%s\t%s\t%u\t%.400s\n",
                          valid != 0 ? "valid-refused" : "invalid-accepted", c->name, i, text);
            valid_refused = valid_refused || valid != 0;
            invalid_accepted = invalid_accepted || valid == 0;
        }
        free(text);
    }
    if (skipped)
        return;
    b->schemas++;
    b->refused += program == NULL;
    b->valid_refused += valid_refused;
    b->invalid_accepted += invalid_accepted;
    b->passing += program != NULL && !valid_refused && !invalid_accepted;
    grammar_program_free(program);
}

/* ---- the table ---- */

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void show(const char *name, struct times *t)
{
    double sum = 0;
    if (t->count == 0)
        return;
    qsort(t->us, t->count, sizeof(*t->us), by_size);
    for (size_t i = 0; i < t->count; i++)
        sum += t->us[i];
    (void)printf("| %s, us: avg, p50, p99, p99.9, max (%zu) | %.0f, %.0f, %.0f, %.0f, %.0f |\n",
                 name, t->count, sum / (double)t->count, t->us[t->count / 2],
                 t->us[t->count * 99 / 100], t->us[t->count * 999 / 1000], t->us[t->count - 1]);
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct cases c = {0};
    if (argc != 5)
        stop("bench_grammar TOKENIZER CASES LOG EVERY");
    long every = strtol(argv[4], NULL, 10);
    c.file = fopen(argv[2], "rb");
    b.log = fopen(argv[3], "w");
    if (c.file == NULL || b.log == NULL || every < 1)
        stop("cannot open the files");
    open_vocab(&b, argv[1]);
    for (long i = 0; next_schema(&c); i++) {
        ask(&b, &c, i % every != 0);
        free(c.name);
        free(c.schema);
    }
    (void)printf("| schemas | %u |\n| passing | %u |\n| refused at compile time | %u |\n"
                 "| with a valid instance refused / an invalid one accepted | %u / %u |\n"
                 "| masks that disagree with the matcher | %u |\n",
                 b.schemas, b.passing, b.refused, b.valid_refused, b.invalid_accepted,
                 b.masks_wrong);
    show("mask", &b.masks);
    show("compile to first mask", &b.compiles);
    (void)fclose(c.file);
    (void)fclose(b.log);
    free(b.mask);
    free(b.masks.us);
    free(b.compiles.us);
    grammar_vocab_free(b.vocab);
    tokenizer_free(b.tokenizer);
    return 0;
}
