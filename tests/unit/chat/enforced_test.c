/* Calls of every dialect that a constraint enforces are calls that the reader reads back: a
 * model that writes anything that is legal is played by random choices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "dialects.h"
#include "grammar/constraint.h"
#include "grammar/grammar.h"
#include "grammar/program.h"
#include "llm-router/engine.h"

enum { TEXTS = 64, STOP = 256, TOKENS_MAX = 257 + 2 * TEXTS, BYTES_MAX = 1 << 14 };

static const char schema[] =
    "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},"
    "\"n\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":9},\"on\":{\"type\":\"boolean\"},"
    "\"kind\":{\"enum\":[\"fast\",\"slow\"]},\"code\":{\"type\":\"string\",\"maxLength\":3},"
    "\"tags\":{\"type\":\"array\",\"items\":{\"enum\":[\"x\",\"y\"]},\"maxItems\":2}},"
    "\"required\":[\"city\",\"n\",\"kind\"],\"additionalProperties\":false}";

static uint32_t random_below(uint32_t n)
{
    static uint64_t state = 20261119;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 11) % n);
}

/* Single bytes, the stop token, and the texts of marks: as text, and as control tokens. */
struct vocabulary {
    struct lr_str texts[TEXTS];
    uint32_t count;
    char bytes[256];
};

static void add(struct vocabulary *v, struct lr_str text)
{
    if (text.len > 1 && v->count < TEXTS)
        v->texts[v->count++] = text;
}

static void fill(struct vocabulary *v, const struct chat_dialect *d)
{
    const struct grammar_form *f = grammar_form_of(d->format);
    const struct lr_str marks[] = {f->section,
                                   f->section_end,
                                   f->begin,
                                   f->end,
                                   f->name_end,
                                   f->name_close,
                                   f->key,
                                   f->key_end,
                                   f->key_close,
                                   f->value,
                                   f->value_end,
                                   f->drops[0],
                                   f->drops[1],
                                   d->thought.begin,
                                   d->thought.end,
                                   f->prefix,
                                   LR_STR_LIT("<|\"|>"),
                                   f->quote,
                                   f->id_end,
                                   LR_STR_LIT("<|sep|>"),
                                   LR_STR_LIT("<|close|>"),
                                   LR_STR_LIT("<|open|>"),
                                   LR_STR_LIT("]<]minimax[>["),
                                   LR_STR_LIT("<city>"),
                                   LR_STR_LIT("]<]minimax[>[</city>"),
                                   LR_STR_LIT("]<]minimax[>[</code>"),
                                   LR_STR_LIT("\", "),
                                   LR_STR_LIT("\"}")};
    *v = (struct vocabulary){0};
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        add(v, marks[i]);
    for (int i = 0; i < 256; i++)
        v->bytes[i] = (char)i;
}

static bool token(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    const struct vocabulary *v = ctx;
    *flags = id == STOP ? LR_VOCAB_SPECIAL | LR_VOCAB_STOP : 0;
    if (id < 256)
        *bytes = lr_str(&v->bytes[id], 1);
    else if (id == STOP)
        *bytes = LR_STR_LIT("<|stop|>");
    else if (id < 257 + 2 * v->count) {
        uint32_t i = id - 257;
        *bytes = v->texts[i / 2];
        *flags = i % 2 != 0 ? LR_VOCAB_SPECIAL : 0;
    } else {
        return false;
    }
    return true;
}

/* What the reader makes of it. */
struct got {
    struct lr_buf arguments, content;
    uint32_t calls;
};

static void take(void *ctx, const struct chat_delta *d)
{
    struct got *g = ctx;
    if (d->kind == CHAT_DELTA_TOOL_BEGIN) {
        g->calls++;
        lr_buf_clear(&g->arguments);
        assert_true(lr_str_eq_z(d->text, "get") || lr_str_eq_z(d->text, "now"));
    }
    if (d->kind == CHAT_DELTA_TOOL_ARGUMENTS)
        lr_buf_add_str(&g->arguments, d->text);
    if (d->kind == CHAT_DELTA_CONTENT)
        lr_buf_add_str(&g->content, d->text);
}

/* A legal token: marks are liked, so that texts end; from a length on only what ends is. */
static uint32_t choose(const struct vocabulary *v, const uint32_t *mask, size_t len)
{
    uint32_t count = 257 + 2 * v->count;
    bool is_late = len > 600;
    for (uint32_t tries = 0;; tries++) {
        bool is_mark = is_late || random_below(3) == 0;
        uint32_t id =
            is_mark && tries < 400 ? STOP + random_below(count - STOP) : 32 + random_below(96);
        if (is_late && random_below(3) != 0)
            id = (unsigned char)"\"}])>:"[random_below(6)];
        if (tries > 4000)
            id = random_below(count);
        if ((mask[id / 32] >> id % 32 & 1) != 0 && (id < 256 || id != 60))
            return id;
        assert_true(tries < 100000);
    }
}

static void check_arguments(const struct vocabulary *v, const struct lr_buf *json,
                            const char *wrote)
{
    struct lr_arena arena;
    const struct lr_json *root;
    uint64_t n;
    struct lr_str city;
    (void)v;
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, lr_buf_str(json), NULL, &root, NULL) != LR_OK ||
        !lr_json_u64(lr_json_get(root, "n"), &n) || n < 1 || n > 9 ||
        !lr_json_str(lr_json_get(root, "city"), &city) || lr_json_get(root, "kind") == NULL)
        fail_msg("%s\nhas the arguments " LR_STR_FMT, wrote, LR_STR_ARG(lr_buf_str(json)));
    lr_arena_free(&arena);
}

static void play(const struct chat_dialect *d, const struct grammar_program *program,
                 const struct vocabulary *v, const struct grammar_vocab *vocab, bool is_opened,
                 const struct chat_declared *tools)
{
    struct chat_reader reader = {.dialect = d};
    struct chat_reader_options options = {
        .tools = tools, .tool_count = tools != NULL, .is_opened = is_opened};
    struct grammar_matcher *m;
    struct lr_error err;
    struct lr_buf wrote;
    struct got g = {0};
    uint32_t mask[(TOKENS_MAX + 31) / 32], id = 0;
    lr_buf_init(&g.arguments, 1 << 20);
    lr_buf_init(&g.content, 1 << 20);
    lr_buf_init(&wrote, 1 << 20);
    d->reading->init(&reader, &options, take, &g);
    assert_int_equal(grammar_matcher_create(program, vocab, &m, &err), LR_OK);
    while (id != STOP) {
        struct lr_str bytes;
        uint32_t flags;
        if (grammar_matcher_mask(m, mask, (257 + 2 * v->count + 31) / 32, &err) != LR_OK)
            fail_msg("%s: %s after %s", d->name, err.text, lr_buf_z(&wrote));
        id = choose(v, mask, wrote.len);
        assert_true(grammar_matcher_token(m, id));
        (void)token((void *)(uintptr_t)v, id, &bytes, &flags);
        if (id != STOP)
            lr_buf_add_str(&wrote, bytes);
        d->reading->token(&reader, bytes, (flags & LR_VOCAB_SPECIAL) != 0);
        if (wrote.len >= BYTES_MAX)
            fail_msg("%s: no end of %s", d->name, lr_buf_z(&wrote));
    }
    d->reading->end(&reader, false);
    d->reading->free(&reader);
    if (tools != NULL ? g.calls == 0 : g.content.len == 0)
        fail_msg("%s: nothing is read in %s", d->name, lr_buf_z(&wrote));
    check_arguments(v, tools != NULL ? &g.arguments : &g.content, lr_buf_z(&wrote));
    grammar_matcher_free(m);
    lr_buf_free(&g.arguments);
    lr_buf_free(&g.content);
    lr_buf_free(&wrote);
}

/* Plays one dialect, with calls of the tool or (NULL) an answer that fits the schema. */
static void play_dialect(const struct chat_dialect *d, const struct lr_json *parsed,
                         bool is_opened, const struct chat_declared *tools)
{
    int rounds = getenv("LR_LONG") != NULL ? 100 : 10; /* twice: outside and inside a thought */
    const struct grammar_tool tool = {
        .name = LR_STR_LIT("get"), .schema = parsed, .strict = true};
    struct grammar_constraint c = {.format = d->format,
                                   .answer = tools != NULL ? GRAMMAR_ANSWER_NONE
                                                           : GRAMMAR_ANSWER_SCHEMA,
                                   .value = tools != NULL ? NULL : parsed,
                                   .is_strict = true,
                                   .tools = &tool,
                                   .tool_count = tools != NULL,
                                   .one_call = true,
                                   .thought = d->thought,
                                   .is_opened = is_opened && d->thought.end.len != 0};
    struct grammar_program *program;
    struct grammar_vocab *vocab;
    struct vocabulary v;
    struct lr_error err;
    struct lr_buf text;
    fill(&v, d);
    lr_buf_init(&text, 1 << 20);
    grammar_constraint_write(&text, &c);
    if (grammar_compile(lr_buf_str(&text), &program, &err) != LR_OK)
        fail_msg("%s: %s", d->name, err.text);
    const struct grammar_tokens tokens = {&v, token};
    assert_int_equal(grammar_vocab_create(&tokens, &vocab, &err), LR_OK);
    for (int i = 0; i < rounds; i++)
        play(d, program, &v, vocab, is_opened, tools);
    grammar_vocab_free(vocab);
    grammar_program_free(program);
    lr_buf_free(&text);
}

static void play_all(bool with_tools)
{
    const struct lr_json *parsed;
    struct lr_arena arena;
    struct chat_declared declared[1] = {{.name = LR_STR_LIT("get")}};
    lr_arena_init(&arena, 1 << 20);
    assert_int_equal(lr_json_parse(&arena, lr_str_z(schema), NULL, &parsed, NULL), LR_OK);
    assert_true(chat_types_of(&arena, parsed, &declared[0].types));
    for (int format = GRAMMAR_PLAIN; format < GRAMMAR_FORMAT_COUNT; format++)
        for (int opened = 0; opened < 2; opened++) {
            struct chat_dialect d = dialect_of((enum grammar_format)format);
            /* Forms with marks around content drop them wherever they are, also spelled out in
             * a string; random texts are full of them. */
            const struct grammar_form *f = grammar_form_of((enum grammar_format)format);
            if ((f->thinks_anywhere || f->drops[0].len != 0) && !with_tools)
                continue;
            if (!d.is_channels && (format != GRAMMAR_PLAIN || !with_tools))
                play_dialect(&d, parsed, opened != 0, with_tools ? declared : NULL);
        }
    lr_arena_free(&arena);
}

static void a_call_that_is_enforced_is_read_back(void **state)
{
    (void)state;
    play_all(true);
}

static void a_structured_answer_comes_after_the_reasoning(void **state)
{
    (void)state;
    play_all(false);
}

/* Steps of a program for so many required parameters, which come in any order. */
static uint32_t steps_of(uint32_t count)
{
    struct lr_buf text;
    struct lr_error err;
    struct grammar_program *program;
    lr_buf_init(&text, 1 << 20);
    lr_buf_add_z(&text,
                 "{\"format\":\"qwen_xml\",\"answer\":\"none\",\"tools\":[{\"name\":"
                 "\"f\",\"strict\":true,\"schema\":{\"type\":\"object\",\"properties\":{");
    for (uint32_t i = 0; i < count; i++)
        lr_buf_addf(&text, "%s\"p%03u\":{\"type\":\"integer\"}", i != 0 ? "," : "", i);
    lr_buf_add_z(&text, "},\"required\":[");
    for (uint32_t i = 0; i < count; i++)
        lr_buf_addf(&text, "%s\"p%03u\"", i != 0 ? "," : "", i);
    lr_buf_add_z(&text, "]}}]}");
    if (grammar_compile(lr_buf_str(&text), &program, &err) != LR_OK)
        fail_msg("%s", err.text);
    uint32_t steps = program->count;
    grammar_program_free(program);
    lr_buf_free(&text);
    return steps;
}

static void parameters_in_any_order_need_linear_room(void **state)
{
    (void)state;
    assert_true(steps_of(256) < 9 * steps_of(32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_call_that_is_enforced_is_read_back),
        cmocka_unit_test(a_structured_answer_comes_after_the_reasoning),
        cmocka_unit_test(parameters_in_any_order_need_linear_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
