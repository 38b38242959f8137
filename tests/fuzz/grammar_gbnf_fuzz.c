/* LINK: grammar base */
/* Any text as a grammar: refused with a reason, or compiled into a program that always has a
 * legal token, and whose masks hold exactly the tokens that the matcher takes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "grammar/grammar.h"
#include "llm-router/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BYTES = 256, ANSWER_MAX = 120, HURRY = 40, GRAMMAR_MAX = 4096 };

static const char *const more[] = {
    "ab",  "a,", "),", "((", "\"}", "\": ", "  ",       "\n\n",     "12",
    "0.5", "xy", "b1", "]]", "{\"", "true", "\xe6\x97", "\xa5\xe6", "\xc3\xa9",
};
enum { STOP = BYTES + sizeof(more) / sizeof(more[0]), TOKENS = STOP + 1 };
enum { WORDS = (TOKENS + 31) / 32 };

static void demand(bool claim)
{
    if (!claim)
        abort();
}

static bool token(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    static char all[BYTES];
    (void)ctx;
    if (id >= TOKENS)
        return false;
    *flags = id == STOP ? LR_VOCAB_SPECIAL | LR_VOCAB_STOP : 0;
    if (id < BYTES) {
        all[id] = (char)(unsigned char)id;
        *bytes = lr_str(&all[id], 1);
    } else {
        *bytes = lr_str_z(id == STOP ? "<|return|>" : more[id - BYTES]);
    }
    return true;
}

static uint32_t draw(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static bool is_set(const uint32_t *mask, uint32_t id)
{
    return (mask[id >> 5] >> (id & 31) & 1u) != 0;
}

static void answer(const struct grammar_program *program, const struct grammar_vocab *vocab,
                   uint32_t seed)
{
    struct grammar_matcher *m;
    struct lr_error err;
    uint32_t mask[WORDS];
    demand(grammar_matcher_create(program, vocab, &m, &err) == LR_OK);
    for (uint32_t n = 0; !grammar_matcher_is_complete(m) && n < ANSWER_MAX; n++) {
        if (grammar_matcher_mask(m, mask, WORDS, &err) != LR_OK) {
            demand(strstr(err.text, "too many readings") != NULL);
            break;
        }
        /* Trying every token costs as much as many masks: later in an answer a few are tried.
         */
        uint32_t stride = n < 12 ? 1 : 29;
        for (uint32_t id = n % stride; id < TOKENS; id += stride)
            demand(is_set(mask, id) || !grammar_matcher_token(m, id));
        uint32_t id = n > HURRY && is_set(mask, STOP) ? STOP : draw(&seed) % TOKENS;
        while (!is_set(mask, id))
            id = (id + 1) % TOKENS;
        demand(grammar_matcher_token(m, id));
    }
    grammar_matcher_free(m);
}

/* The constraint around the grammar. */
static void write_constraint(struct lr_buf *out, struct lr_str grammar)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "format", "plain");
    lr_json_member_z(&w, "answer", "grammar");
    lr_json_member_str(&w, "grammar", grammar);
    lr_json_end_object(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct grammar_vocab *vocab;
    const struct grammar_tokens tokens = {NULL, token};
    struct lr_str text = lr_str((const char *)data, size);
    struct grammar_program *program;
    struct lr_error err = {0};
    struct lr_buf constraint;
    if (size > GRAMMAR_MAX || !lr_utf8_valid(text))
        return 0;
    if (vocab == NULL)
        demand(grammar_vocab_create(&tokens, &vocab, &err) == LR_OK);
    lr_buf_init(&constraint, 1 << 20);
    write_constraint(&constraint, text);
    lr_code code = grammar_compile(lr_buf_str(&constraint), &program, &err);
    lr_buf_free(&constraint);
    demand((code == LR_OK) == (program != NULL));
    demand(code == LR_OK || err.text[0] != '\0');
    for (uint32_t seed = 0; code == LR_OK && seed < 2; seed++)
        answer(program, vocab, seed + (uint32_t)size);
    grammar_program_free(program);
    return 0;
}
