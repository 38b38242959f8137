/* grammar_walk SEED: random answers through the masks of schemas.
 *
 * stdin has a JSON Schema on each line.  One line comes out for each: the answer, or "refused:
 * " and the reason.  A walk draws each token among those that the mask allows, until the answer
 * ends.  The longer the answer is, the more often a token is drawn that ends something.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "grammar/grammar.h"
#include "llm-router/engine.h"

enum {
    STEPS_MAX = 5000, /* tokens of an answer: more than a walk needs */
    DIGITS_MAX = 9,   /* in a row: a validator that counts in doubles can tell them apart */
    HURRY = 40,       /* tokens after which an answer is to end soon */
    ANSWER_MAX = 1 << 20,
    FIRST_WORD = 257, /* tokens: 256 bytes, the stop token, words */
    STOP = 256,
};

/* First the names and constants of tests/support/random_schema.mjs: a walk would hardly spell
 * what a schema requires byte by byte. */
static const char *const words[] = {
    "[1,\"a\"]",
    "{\"a\":1,\"b\":[null]}",
    "2.5",
    "-7",
    "\"a\":",
    "\"b\":",
    "\"c\":",
    "\"foo\":",
    "\"bar\":",
    "\"x-1\":",
    "\"foo bar\":",
    "\"\xc3\xa9\":",
    "\"\xe6\x97\xa5\xe6\x9c\xac\":",
    "\"a\"",
    "\"foo\"",
    "\"\"",
    "\"\xc3\xa9\\\"\\\\\"",
    "{\"",
    "\":",
    "\": ",
    "\",",
    "\", \"",
    "\"}",
    "\"]",
    "},",
    "],",
    ", ",
    "true",
    "nul",
    "0.",
    "12",
    "-1",
    "abc",
    "a b",
    "foo",
    "bar",
    "20",
    "20-",
    "T0",
    ":0",
    "00Z",
    "\xe6",
    "\xc3",
    "\\n",
    "\\\"",
    "[[",
    "}}",
};
enum { WANTED = 17 };
enum {
    TOKENS = FIRST_WORD + sizeof(words) / sizeof(words[0]),
    MASK_WORDS = (TOKENS + 31) / 32
};

static uint64_t seed;

static uint32_t draw(uint32_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (uint32_t)(seed >> 16) % below;
}

static bool token(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    static char one[256];
    (void)ctx;
    *flags = id == STOP ? LR_VOCAB_SPECIAL | LR_VOCAB_STOP : 0;
    if (id < STOP)
        one[id] = (char)id;
    if (id < TOKENS)
        *bytes = id < STOP    ? lr_str(&one[id], 1)
                 : id == STOP ? LR_STR_LIT("<|return|>")
                              : lr_str_z(words[id - FIRST_WORD]);
    return id < TOKENS;
}

/* ---- which token ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool ends_value(uint32_t id)
{
    return id == STOP || id == '}' || id == ']';
}

static bool ends_string(uint32_t id)
{
    return id == '"';
}

static bool is_wanted(uint32_t id)
{
    return id >= FIRST_WORD && id < FIRST_WORD + WANTED;
}

/* Letters, digits and punctuation: control characters and parts of UTF-8 are most of the bytes,
 * and they would be most of a text. */
static bool is_usual(uint32_t id)
{
    return id >= STOP || (id >= 0x20 && id < 0x7F);
}

/* One of the allowed tokens that fit; TOKENS: none does. */
static uint32_t draw_among(const uint32_t *mask, bool (*fits)(uint32_t id), bool no_digits)
{
    uint32_t list[TOKENS], count = 0;
    struct lr_str bytes;
    uint32_t flags;
    for (uint32_t id = 0; id < TOKENS; id++) {
        if ((mask[id >> 5] >> (id & 31) & 1) == 0 || (fits != NULL && !fits(id)))
            continue;
        (void)token(NULL, id, &bytes, &flags);
        if (!no_digits || id == STOP || !is_digit(bytes.ptr[0]))
            list[count++] = id;
    }
    return count != 0 ? list[draw(count)] : TOKENS;
}

static bool is_in_string(struct lr_str answer)
{
    bool inside = false;
    for (size_t i = 0; i < answer.len; i++) {
        if (answer.ptr[i] == '"')
            inside = !inside;
        else if (answer.ptr[i] == '\\')
            i++;
    }
    return inside;
}

static uint32_t draw_token(const uint32_t *mask, struct lr_str answer, uint32_t steps)
{
    size_t digits = 0;
    uint32_t id = TOKENS;
    while (digits < answer.len && is_digit(answer.ptr[answer.len - digits - 1]))
        digits++;
    bool enough = digits >= DIGITS_MAX, inside = is_in_string(answer);
    if (draw(8) == 0 || (steps > HURRY && draw(4) != 0))
        id = draw_among(mask, inside ? ends_string : ends_value, enough);
    if (id == TOKENS && !inside && draw(3) == 0)
        id = draw_among(mask, is_wanted, enough);
    if (id == TOKENS && draw(8) != 0)
        id = draw_among(mask, is_usual, enough);
    if (id == TOKENS)
        id = draw_among(mask, NULL, enough);
    return id != TOKENS ? id : draw_among(mask, NULL, false);
}

/* ---- a walk ---- */

static lr_code walk(struct grammar_matcher *m, struct lr_buf *answer, struct lr_error *err)
{
    uint32_t mask[MASK_WORDS], flags;
    struct lr_str bytes;
    for (uint32_t steps = 0; !grammar_matcher_is_complete(m); steps++) {
        lr_code code = grammar_matcher_mask(m, mask, MASK_WORDS, err);
        if (code != LR_OK)
            return code;
        uint32_t id = draw_token(mask, lr_buf_str(answer), steps);
        if (steps == STEPS_MAX || id == TOKENS || !grammar_matcher_token(m, id))
            return lr_fail(err, LR_INTERNAL, "token %u after %u tokens leads nowhere", id,
                           steps);
        (void)token(NULL, id, &bytes, &flags);
        if (id != STOP)
            lr_buf_add_str(answer, bytes);
    }
    return LR_OK;
}

/* Line breaks between elements of JSON, which would end the line. */
static void print(const char *before, struct lr_str answer)
{
    (void)fputs(before, stdout);
    for (size_t i = 0; i < answer.len; i++)
        (void)putchar(answer.ptr[i] == '\n' ? ' ' : answer.ptr[i]);
    (void)putchar('\n');
}

static bool try_schema(const struct grammar_vocab *vocab, struct lr_str schema)
{
    struct grammar_program *program = NULL;
    struct grammar_matcher *m;
    struct lr_buf constraint, answer;
    struct lr_error err = {0};
    lr_buf_init(&constraint, ANSWER_MAX);
    lr_buf_init(&answer, ANSWER_MAX);
    lr_buf_add_z(&constraint, "{\"format\":\"plain\",\"answer\":\"schema\",\"schema\":");
    lr_buf_add_str(&constraint, schema);
    lr_buf_add_char(&constraint, '}');
    lr_code code = grammar_compile(lr_buf_str(&constraint), &program, &err);
    if (code != LR_OK) {
        (void)printf("refused: %s\n", err.text);
    } else if ((code = grammar_matcher_create(program, vocab, &m, &err)) == LR_OK) {
        code = walk(m, &answer, &err);
        grammar_matcher_free(m);
        if (code != LR_OK)
            lr_buf_addf(&answer, ": %s", err.text);
        print(code == LR_OK ? "" : "stuck: ", lr_buf_str(&answer));
    }
    grammar_program_free(program);
    lr_buf_free(&constraint);
    lr_buf_free(&answer);
    return code != LR_OUT_OF_RAM;
}

int main(int argc, char **argv)
{
    const struct grammar_tokens tokens = {NULL, token};
    struct grammar_vocab *vocab;
    struct lr_error err;
    char *line = NULL;
    size_t room = 0;
    ssize_t len;
    bool ok = true;
    seed = 88172645463325252u + (argc > 1 ? strtoull(argv[1], NULL, 10) : 0);
    if (grammar_vocab_create(&tokens, &vocab, &err) != LR_OK)
        return 1;
    while (ok && (len = getline(&line, &room, stdin)) > 0)
        ok = try_schema(vocab, lr_str_trim(lr_str(line, (size_t)len)));
    free(line);
    grammar_vocab_free(vocab);
    return ok ? 0 : 1;
}
