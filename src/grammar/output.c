/* grammar/output.c - see grammar/constraint.h: constraints as text, and the model's whole
 * output around the constrained part. */
#include <stdlib.h>

#include "grammar/form_output.h"
#include "grammar/program.h"
#include "grammar/texts.h"

enum { TOOLS_MAX = GRAMMAR_TOOLS_MAX, ARENA_BYTES = 32 << 20 };

/* Also the names of the members with their values. */
static const char *const answers[] = {"none",   "text",  "free",   "object",
                                      "schema", "regex", "choice", "grammar"};

void grammar_constraint_write(struct lr_buf *out, const struct grammar_constraint *c)
{
    struct lr_json_writer w;
    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "format", grammar_format_name(c->format));
    lr_json_member_z(&w, "answer", answers[c->answer]);
    if (c->answer == GRAMMAR_ANSWER_SCHEMA && c->is_strict)
        lr_json_member_bool(&w, "strict", true);
    if (c->answer >= GRAMMAR_ANSWER_SCHEMA) {
        lr_json_key(&w, answers[c->answer]);
        lr_json_put_value(&w, c->value);
    }
    if (c->tool_count != 0) {
        lr_json_member_array(&w, "tools");
        for (uint32_t i = 0; i < c->tool_count; i++) {
            lr_json_begin_object(&w);
            lr_json_member_str(&w, "name", c->tools[i].name);
            lr_json_member_bool(&w, "strict", c->tools[i].strict);
            if (c->tools[i].schema != NULL) {
                lr_json_key(&w, "schema");
                lr_json_put_value(&w, c->tools[i].schema);
            }
            lr_json_end_object(&w);
        }
        lr_json_end_array(&w);
    }
    if (c->one_call)
        lr_json_member_bool(&w, "one_call", true);
    if (c->thought.end.len != 0) {
        lr_json_member_object(&w, "thought");
        lr_json_member_str(&w, "begin", c->thought.begin);
        lr_json_member_str(&w, "end", c->thought.end);
        lr_json_member_bool(&w, "opened", c->is_opened);
        if (c->budget != 0)
            lr_json_member_u64(&w, "budget", c->budget);
        lr_json_end_object(&w);
    }
    lr_json_end_object(&w);
}

bool grammar_constraint_is_wish(struct lr_str constraint)
{
    /* the second member, behind the name of a format */
    return lr_str_find(lr_str_sub(constraint, 0, 64), LR_STR_LIT("\"answer\":\"free\"")) !=
           LR_STR_NONE;
}

/* ---- reading ---- */

struct reading {
    struct grammar_constraint c;
    struct grammar_tool tools[TOOLS_MAX];
};

static lr_code malformed(struct lr_error *err, const char *what)
{
    return lr_fail(err, LR_INVALID_ARGUMENT, "constraint: \"%s\" is missing or wrong", what);
}

static lr_code read_tools(struct reading *r, const struct lr_json *list, struct lr_error *err)
{
    if (list == NULL)
        return LR_OK;
    if (list->type != LR_JSON_ARRAY || list->count > TOOLS_MAX)
        return malformed(err, "tools");
    for (uint32_t i = 0; i < list->count; i++) {
        struct grammar_tool *tool = &r->tools[i];
        const struct lr_json *item = &list->items[i];
        if (!lr_json_str(lr_json_get(item, "name"), &tool->name) || tool->name.len == 0 ||
            !lr_json_bool(lr_json_get(item, "strict"), &tool->strict))
            return malformed(err, "tools");
        tool->schema = lr_json_get(item, "schema");
    }
    r->c.tools = r->tools;
    r->c.tool_count = list->count;
    return LR_OK;
}

static bool is_right(enum grammar_answer answer, const struct lr_json *value)
{
    if (answer < GRAMMAR_ANSWER_SCHEMA)
        return true;
    if (answer == GRAMMAR_ANSWER_REGEX || answer == GRAMMAR_ANSWER_GRAMMAR)
        return lr_json_is(value, LR_JSON_STRING);
    bool is_list = lr_json_is(value, LR_JSON_ARRAY);
    for (uint32_t i = 0; answer == GRAMMAR_ANSWER_CHOICE && is_list && i < value->count; i++)
        is_list = value->items[i].type == LR_JSON_STRING;
    return answer == GRAMMAR_ANSWER_CHOICE ? is_list : value != NULL;
}

static lr_code read_constraint(const struct lr_json *root, struct reading *r,
                               struct lr_error *err)
{
    struct lr_str format, answer;
    size_t i = 0;
    uint32_t known = 0;
    if (!lr_json_str(lr_json_get(root, "format"), &format))
        return malformed(err, "format");
    while (known < GRAMMAR_FORMAT_COUNT &&
           !lr_str_eq_z(format, grammar_format_name((enum grammar_format)known)))
        known++;
    if (known == GRAMMAR_FORMAT_COUNT)
        return malformed(err, "format");
    r->c.format = (enum grammar_format)known;
    if (!lr_json_str(lr_json_get(root, "answer"), &answer))
        return malformed(err, "answer");
    while (i < sizeof(answers) / sizeof(answers[0]) && !lr_str_eq_z(answer, answers[i]))
        i++;
    if (i == sizeof(answers) / sizeof(answers[0]))
        return malformed(err, "answer");
    r->c.answer = (enum grammar_answer)i;
    r->c.value = lr_json_get(root, answers[i]);
    (void)lr_json_bool(lr_json_get(root, "strict"), &r->c.is_strict);
    (void)lr_json_bool(lr_json_get(root, "one_call"), &r->c.one_call);
    if (!is_right(r->c.answer, r->c.value))
        return malformed(err, answers[i]);
    const struct lr_json *thought = lr_json_get(root, "thought");
    if (thought != NULL && (!lr_json_str(lr_json_get(thought, "begin"), &r->c.thought.begin) ||
                            !lr_json_str(lr_json_get(thought, "end"), &r->c.thought.end) ||
                            !lr_json_bool(lr_json_get(thought, "opened"), &r->c.is_opened) ||
                            r->c.thought.end.len > GRAMMAR_THOUGHT_MAX ||
                            r->c.thought.begin.len > GRAMMAR_THOUGHT_MAX))
        return malformed(err, "thought");
    uint64_t budget;
    if (lr_json_u64(lr_json_get(thought, "budget"), &budget) && budget <= UINT32_MAX)
        r->c.budget = (uint32_t)budget;
    lr_code code = read_tools(r, lr_json_get(root, "tools"), err);
    if (code == LR_OK && r->c.tool_count == 0 && r->c.answer == GRAMMAR_ANSWER_NONE)
        return malformed(err, "tools");
    if (code == LR_OK && r->c.tool_count != 0 && r->c.format == GRAMMAR_PLAIN)
        return malformed(err, "tools");
    return code;
}

/* ---- compiling ---- */

static uint32_t text_until(struct grammar_build *b, uint32_t next)
{
    uint32_t loop = grammar_fork(b, 0, 0);
    grammar_patch(b, loop, grammar_step(b, GRAMMAR_TEXT, loop, 0), next);
    return loop;
}

uint32_t grammar_output_answer(struct grammar_build *b, const struct grammar_constraint *c,
                               uint32_t next)
{
    switch (c->answer) {
    case GRAMMAR_ANSWER_SCHEMA:
        b->strict = c->is_strict;
        return grammar_schema_whole(b, c->value, false, next);
    case GRAMMAR_ANSWER_OBJECT:
        return grammar_any_object(b, next);
    case GRAMMAR_ANSWER_REGEX:
        return grammar_text_regex(b, c->value->text, next);
    case GRAMMAR_ANSWER_CHOICE:
        return grammar_text_choice(b, c->value, next);
    case GRAMMAR_ANSWER_GRAMMAR:
        return grammar_text_gbnf(b, c->value->text, next);
    case GRAMMAR_ANSWER_FREE: /* next: the stop token, which the step takes itself */
        return grammar_step(b, GRAMMAR_FREE, b->program->steps[next].next, 0);
    default:
        return text_until(b, next);
    }
}

/* After the channel: nothing, or a content type for JSON in the forms that the model uses. */
static uint32_t json_type(struct grammar_build *b, bool plain_word, uint32_t body)
{
    uint32_t message = grammar_token(b, GRAMMAR_MESSAGE, body);
    uint32_t json = grammar_literal(b, LR_STR_LIT("json"), message);
    uint32_t marked = grammar_token(b, GRAMMAR_CONSTRAIN, json);
    uint32_t blank =
        grammar_byte(b, ' ', ' ', plain_word ? grammar_fork(b, marked, json) : marked);
    return grammar_fork(b, message, grammar_fork(b, marked, blank));
}

uint32_t grammar_output_arguments(struct grammar_build *b, const struct grammar_tool *tool,
                                  uint32_t next)
{
    const struct lr_json *schema = tool->schema;
    uint32_t mark = grammar_enter(b, "", tool->name);
    uint32_t at;
    b->lenient = !tool->strict;
    b->strict = tool->strict;
    /* Arguments are an object whatever a schema says or leaves out. */
    if (schema == NULL || schema->type != LR_JSON_OBJECT || schema->count == 0)
        at = grammar_any_object(b, next);
    else
        at = grammar_schema_whole(b, schema, true, next);
    b->lenient = false;
    grammar_leave(b, mark);
    return at;
}

/* A call's recipient is after the channel or after the role. */
struct calls {
    uint32_t in_channel; /* after <|channel|> */
    uint32_t in_role;    /* after "assistant" */
};

static struct calls compile_calls(struct grammar_build *b, const struct grammar_constraint *c,
                                  uint32_t end)
{
    struct grammar_choice channel[TOOLS_MAX], role[TOOLS_MAX];
    uint32_t over = grammar_token(b, GRAMMAR_TOOL_CALL, end);
    for (uint32_t i = 0; i < c->tool_count; i++) {
        uint32_t type = json_type(b, true, grammar_output_arguments(b, &c->tools[i], over));
        uint32_t commentary = grammar_literal(b, LR_STR_LIT("commentary"), type);
        channel[i] = (struct grammar_choice){c->tools[i].name, type};
        role[i] = (struct grammar_choice){c->tools[i].name,
                                          grammar_token(b, GRAMMAR_CHANNEL, commentary)};
    }
    struct calls calls = {0};
    calls.in_channel = grammar_literal(b, LR_STR_LIT("commentary to=functions."),
                                       grammar_choose(b, channel, c->tool_count));
    calls.in_role = grammar_literal(b, LR_STR_LIT(" to=functions."),
                                    grammar_choose(b, role, c->tool_count));
    return calls;
}

/* A free message, followed by another message. */
static uint32_t free_message(struct grammar_build *b, struct lr_str channel, uint32_t again)
{
    uint32_t role = grammar_literal(b, LR_STR_LIT("assistant"), again);
    uint32_t over =
        grammar_token(b, GRAMMAR_MESSAGE_END, grammar_token(b, GRAMMAR_START, role));
    return grammar_literal(b, channel, grammar_token(b, GRAMMAR_MESSAGE, text_until(b, over)));
}

/* The prompt ended with <|start|>assistant.  Reasoning is free and may repeat.  A preamble on
 * the commentary channel is content, so it is allowed only where content is free. */
static uint32_t compile_harmony(struct grammar_build *b, const struct grammar_constraint *c,
                                uint32_t end)
{
    uint32_t start = grammar_fork(b, 0, 0);
    uint32_t channel = free_message(b, LR_STR_LIT("analysis"), start);
    if (c->answer != GRAMMAR_ANSWER_NONE) {
        uint32_t body = grammar_output_answer(b, c, grammar_token(b, GRAMMAR_ANSWER_END, end));
        bool is_json = c->answer == GRAMMAR_ANSWER_SCHEMA || c->answer == GRAMMAR_ANSWER_OBJECT;
        uint32_t type =
            is_json ? json_type(b, false, body) : grammar_token(b, GRAMMAR_MESSAGE, body);
        channel = grammar_fork(b, channel, grammar_literal(b, LR_STR_LIT("final"), type));
    }
    if (c->answer == GRAMMAR_ANSWER_TEXT)
        channel = grammar_fork(b, channel, free_message(b, LR_STR_LIT("commentary"), start));
    if (c->tool_count == 0) {
        uint32_t only = grammar_token(b, GRAMMAR_CHANNEL, channel);
        grammar_patch(b, start, only, only);
        return start;
    }
    struct calls calls = compile_calls(b, c, end);
    channel = grammar_fork(b, channel, calls.in_channel);
    grammar_patch(b, start, grammar_token(b, GRAMMAR_CHANNEL, channel), calls.in_role);
    return start;
}

static lr_code output_compile(struct grammar_build *b, const struct grammar_constraint *c)
{
    uint32_t end = grammar_step(b, GRAMMAR_END, 0, 0);
    if (c->format == GRAMMAR_HARMONY)
        b->program->start = compile_harmony(b, c, end);
    else
        b->program->start = grammar_form_output(b, c, grammar_token(b, GRAMMAR_STOP, end));
    return grammar_finish(b);
}

static lr_code compile_new(const struct grammar_constraint *c, uint32_t *work,
                           struct grammar_program **out, struct lr_error *err)
{
    struct lr_error ignored;
    struct grammar_build b = {
        .program = calloc(1, sizeof(*b.program)),
        .work = work,
        .err = err != NULL ? err : &ignored,
        .subject = "schema",
        .rule_any = GRAMMAR_NO_RULE,
        .rule_number = GRAMMAR_NO_RULE,
        .rule_integer = GRAMMAR_NO_RULE,
    };
    *out = NULL;
    if (b.program == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a grammar");
    lr_arena_init(&b.arena, ARENA_BYTES);
    lr_arena_init(&b.program->arena, ARENA_BYTES);
    lr_code code = output_compile(&b, c);
    free(b.rule_slots);
    lr_arena_free(&b.arena);
    if (code != LR_OK)
        grammar_program_free(b.program);
    else
        *out = b.program;
    return code;
}

lr_code grammar_compile(struct lr_str constraint, struct grammar_program **out,
                        struct lr_error *err)
{
    struct lr_json_limits limits = {.max_bytes = GRAMMAR_CONSTRAINT_MAX};
    struct lr_arena arena;
    const struct lr_json *root;
    struct reading r = {0};
    uint32_t work = GRAMMAR_WORK_MAX;
    *out = NULL;
    lr_arena_init(&arena, ARENA_BYTES);
    lr_code code = lr_json_parse(&arena, constraint, &limits, &root, err);
    if (code == LR_OK)
        code = read_constraint(root, &r, err);
    if (code == LR_OK)
        code = compile_new(&r.c, &work, out, err);
    lr_arena_free(&arena);
    return code;
}

static lr_code output_check(const struct grammar_constraint *c, uint32_t *work,
                            struct lr_error *err)
{
    struct grammar_program *program;
    lr_code code = compile_new(c, work, &program, err);
    grammar_program_free(program);
    return code;
}

lr_code grammar_check_answer(enum grammar_answer answer, const struct lr_json *value,
                             uint32_t *work, struct lr_error *err)
{
    const struct grammar_constraint c = {.answer = answer, .value = value};
    return is_right(answer, value) ? output_check(&c, work, err)
                                   : malformed(err, answers[answer]);
}

lr_code grammar_check_lenient(const struct lr_json *schema, uint32_t *work,
                              struct lr_error *err)
{
    const struct grammar_tool tool = {.name = LR_STR_LIT("f"), .schema = schema};
    const struct grammar_constraint c = {
        .format = GRAMMAR_HARMONY, .tools = &tool, .tool_count = 1};
    return output_check(&c, work, err);
}
