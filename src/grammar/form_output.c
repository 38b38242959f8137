/* grammar/form_output.c - see grammar/form_output.h: the shapes of grammar/calls.h. */
#include "grammar/form_output.h"

#define MINIMAX "]<]minimax[>["
#define DSML                                                                                   \
    "\xEF\xBD\x9C"                                                                             \
    "DSML"                                                                                     \
    "\xEF\xBD\x9C"

/* ---- marks ---- */

/* The length of what may be one control token at the front; 0: it is text. */
static size_t token_at(struct lr_str s)
{
    size_t end = 1;
    if (lr_str_starts(s, MINIMAX))
        return sizeof(MINIMAX) - 1;
    if (lr_str_starts(s, DSML))
        return sizeof(DSML) - 1;
    if (s.len == 0 || (s.ptr[0] != '<' && s.ptr[0] != '['))
        return 0;
    if (lr_str_starts(lr_str_sub(s, 1, s.len), DSML) ||
        (s.len > 2 && s.ptr[1] == '/' && lr_str_starts(lr_str_sub(s, 2, s.len), DSML)))
        return 0;
    char close = s.ptr[0] == '<' ? '>' : ']';
    while (end < s.len && s.ptr[end] != close && s.ptr[end] != '"' && s.ptr[end] != '=')
        end++;
    return end < s.len && s.ptr[end] == close ? end + 1 : 0;
}

uint32_t grammar_form_mark(struct grammar_build *b, struct lr_str mark, uint32_t next)
{
    size_t n = token_at(mark);
    if (mark.len == 0 || b->code != LR_OK)
        return next;
    if (n == 0) {
        n = 1;
        while (n < mark.len && token_at(lr_str_sub(mark, n, mark.len)) == 0)
            n++;
        next = grammar_form_mark(b, lr_str_sub(mark, n, mark.len), next);
        return grammar_literal(b, lr_str_sub(mark, 0, n), next);
    }
    struct lr_str token = lr_str_sub(mark, 0, n);
    next = grammar_form_mark(b, lr_str_sub(mark, n, mark.len), next);
    return grammar_fork(b, grammar_literal(b, token, next), grammar_named(b, token, next));
}

/* The mark, if it begins with a control token of the vocabulary. */
static uint32_t as_token(struct grammar_build *b, struct lr_str mark, uint32_t next)
{
    size_t n = token_at(mark);
    if (n == 0)
        return grammar_never(b);
    return grammar_named(b, lr_str_sub(mark, 0, n),
                         grammar_form_mark(b, lr_str_sub(mark, n, mark.len), next));
}

uint32_t grammar_form_text(struct grammar_build *b, struct lr_str mark, uint32_t found)
{
    return grammar_until(b, mark, '\0', as_token(b, mark, found), found);
}

uint32_t grammar_form_line(struct grammar_build *b, uint32_t next)
{
    return grammar_fork(
        b, next,
        grammar_fork(b, grammar_byte(b, '\n', '\n', next), grammar_byte(b, ' ', ' ', next)));
}

static uint32_t lines(struct grammar_build *b, uint32_t next)
{
    return grammar_form_line(b, grammar_form_line(b, next));
}

/* ---- JSON with a name in it ---- */

static uint32_t form_quoted(struct grammar_build *b, struct lr_str key, uint32_t value)
{
    uint32_t colon = grammar_literal(b, LR_STR_LIT("\":"), grammar_space(b, value));
    return grammar_byte(b, '"', '"', grammar_literal(b, key, colon));
}

/* The object of a call, after its opening brace. */
static uint32_t call_members(struct grammar_build *b, const struct grammar_constraint *c,
                             uint32_t next)
{
    const struct grammar_form *form = grammar_form_of(c->format);
    struct grammar_choice names[GRAMMAR_TOOLS_MAX];
    uint32_t over = grammar_space(b, grammar_byte(b, '}', '}', next));
    for (uint32_t i = 0; i < c->tool_count; i++) {
        uint32_t value = grammar_output_arguments(b, &c->tools[i], over);
        names[i].text = c->tools[i].name;
        if (form->name_is_key)
            names[i].next = grammar_literal(b, LR_STR_LIT("\":"), grammar_space(b, value));
        else
            names[i].next = grammar_literal(
                b, LR_STR_LIT("\","), grammar_space(b, form_quoted(b, form->arguments, value)));
    }
    uint32_t name = grammar_byte(b, '"', '"', grammar_choose(b, names, c->tool_count));
    if (form->name_is_key)
        return grammar_space(b, name);
    uint32_t key = grammar_literal(b, LR_STR_LIT("\":"), grammar_space(b, name));
    key = grammar_byte(b, '"', '"', grammar_literal(b, form->name_key, key));
    return grammar_space(b, key);
}

static uint32_t after_object(struct grammar_build *b, const struct grammar_form *form,
                             uint32_t next)
{
    return form->end.len == 0 ? next
                              : grammar_form_line(b, grammar_form_mark(b, form->end, next));
}

/* [{...}, {...}] */
static uint32_t array_of_calls(struct grammar_build *b, const struct grammar_constraint *c,
                               uint32_t next)
{
    uint32_t over = grammar_space(
        b, grammar_byte(b, ']', ']', after_object(b, grammar_form_of(c->format), next)));
    uint32_t after = c->one_call ? over : grammar_fork(b, 0, 0);
    uint32_t object = grammar_byte(b, '{', '{', call_members(b, c, after));
    if (!c->one_call)
        grammar_patch(b, after, over, grammar_byte(b, ',', ',', grammar_space(b, object)));
    uint32_t list = grammar_byte(b, '[', '[', grammar_space(b, object));
    return grammar_form_of(c->format)->begin.len != 0 ? grammar_space(b, list) : list;
}

/* ---- names outside of JSON ---- */

static uint32_t form_digits(struct grammar_build *b, uint32_t next)
{
    uint32_t more = grammar_fork(b, next, grammar_byte(b, '0', '9', next));
    return grammar_byte(b, '0', '9', more);
}

static uint32_t named_call(struct grammar_build *b, const struct grammar_constraint *c,
                           uint32_t next)
{
    const struct grammar_form *form = grammar_form_of(c->format);
    struct grammar_choice names[GRAMMAR_TOOLS_MAX];
    bool is_fenced = lr_str_find(form->name_end, LR_STR_LIT("```")) != LR_STR_NONE;
    uint32_t over = form->end.len != 0 ? grammar_form_mark(b, form->end, next) : next;
    if (is_fenced)
        over = grammar_literal(b, LR_STR_LIT("\n```"), over);
    for (uint32_t i = 0; i < c->tool_count; i++) {
        uint32_t at = grammar_output_arguments(b, &c->tools[i], over);
        at = grammar_form_mark(b, form->name_end, at);
        if (form->name_is_id)
            at = grammar_byte(b, ':', ':', form_digits(b, at));
        names[i] = (struct grammar_choice){c->tools[i].name, at};
    }
    uint32_t start = grammar_choose(b, names, c->tool_count);
    if (form->id_end.len != 0)
        start = form_digits(b, grammar_form_mark(b, form->id_end, start));
    return grammar_form_mark(b, form->prefix, start);
}

static struct form_params params_of(const struct grammar_form *form)
{
    struct form_params s = {
        .form = form, .open = form->key, .close = form->end, .value_end = form->value_end};
    if (form->shape == GRAMMAR_SHAPE_PYTHON)
        s = (struct form_params){.form = form,
                                 .between = LR_STR_LIT(", "),
                                 .close = LR_STR_LIT(")"),
                                 .quotes_values = true};
    if (form->shape == GRAMMAR_SHAPE_GEMMA)
        s = (struct form_params){.form = form,
                                 .between = LR_STR_LIT(","),
                                 .close = LR_STR_LIT("}"),
                                 .text_open = form->quote};
    if (form->shape == GRAMMAR_SHAPE_NESTED)
        s = (struct form_params){
            .form = form, .open = LR_STR_LIT(MINIMAX "<"), .close = form->end};
    return s;
}

/* A call whose parameters are not one JSON object. */
static uint32_t params_call(struct grammar_build *b, const struct grammar_constraint *c,
                            uint32_t next)
{
    const struct grammar_form *form = grammar_form_of(c->format);
    struct grammar_choice names[GRAMMAR_TOOLS_MAX];
    struct form_params s = params_of(form);
    if (form->shape == GRAMMAR_SHAPE_GEMMA)
        next = grammar_form_mark(b, form->end, next);
    for (uint32_t i = 0; i < c->tool_count; i++) {
        uint32_t at = grammar_form_params(b, &s, &c->tools[i], next);
        if (form->shape == GRAMMAR_SHAPE_PYTHON || form->shape == GRAMMAR_SHAPE_GEMMA) {
            char open = form->shape == GRAMMAR_SHAPE_PYTHON ? '(' : '{';
            at = grammar_byte(b, open, open, at);
        } else if (form->has_index) {
            at = grammar_form_mark(b, form->name_close, at);
            at = grammar_literal(b, LR_STR_LIT("\" index=\""),
                                 form_digits(b, grammar_byte(b, '"', '"', at)));
        } else {
            at = grammar_form_mark(b, form->name_close, at);
            at = grammar_form_mark(b, form->name_end, at);
        }
        names[i] = (struct grammar_choice){c->tools[i].name, at};
    }
    return grammar_choose(b, names, c->tool_count);
}

/* [N(), N()] or N() in lines */
static uint32_t python_calls(struct grammar_build *b, const struct grammar_constraint *c,
                             uint32_t next)
{
    const struct grammar_form *form = grammar_form_of(c->format);
    bool has_brackets = !form->is_lines;
    uint32_t over = form->end.len != 0 ? grammar_form_mark(b, form->end, next) : next;
    if (has_brackets)
        over = grammar_byte(b, ']', ']', over);
    uint32_t after = c->one_call ? over : grammar_fork(b, 0, 0);
    uint32_t call = params_call(b, c, after);
    if (!c->one_call)
        grammar_patch(b, after, over,
                      has_brackets ? grammar_literal(b, LR_STR_LIT(", "), call)
                                   : grammar_byte(b, '\n', '\n', call));
    return has_brackets ? grammar_byte(b, '[', '[', call) : call;
}

/* ---- calls ---- */

/* One call after the form's `begin`, or all of them where they share it. */
static uint32_t call_body(struct grammar_build *b, const struct grammar_constraint *c,
                          uint32_t next)
{
    const struct grammar_form *form = grammar_form_of(c->format);
    switch (form->shape) {
    case GRAMMAR_SHAPE_OBJECT:
        next = grammar_byte(b, '{', '{', call_members(b, c, after_object(b, form, next)));
        return form->begin.len == 0 ? next : grammar_space(b, next);
    case GRAMMAR_SHAPE_ARRAY:
        return array_of_calls(b, c, next);
    case GRAMMAR_SHAPE_PYTHON:
        return python_calls(b, c, next);
    case GRAMMAR_SHAPE_NAMED:
        return named_call(b, c, next);
    default:
        return params_call(b, c, next);
    }
}

static bool shares_begin(const struct grammar_form *form)
{
    return form->shape == GRAMMAR_SHAPE_ARRAY || form->shape == GRAMMAR_SHAPE_PYTHON;
}

/* What follows the trigger (grammar_form_trigger): the first call and those after it. */
static uint32_t form_calls(struct grammar_build *b, const struct grammar_constraint *c,
                           uint32_t stop)
{
    const struct grammar_form *form = grammar_form_of(c->format);
    bool has_section = form->section.len != 0;
    uint32_t over = stop;
    if (has_section)
        over = grammar_form_line(b, grammar_form_mark(b, form->section_end, stop));
    bool is_single = c->one_call || shares_begin(form);
    uint32_t next = is_single ? over : grammar_fork(b, 0, 0);
    uint32_t body = call_body(b, c, next);
    uint32_t begun = form->begin.len != 0 ? grammar_form_mark(b, form->begin, body) : body;
    if (!is_single) {
        uint32_t more =
            form->begin.len != 0 ? grammar_form_line(b, begun) : grammar_space(b, body);
        if (form->between != '\0')
            more = grammar_byte(b, form->between, form->between, more);
        grammar_patch(b, next, over, more);
    }
    return has_section ? grammar_form_line(b, begun) : body;
}

/* ---- the answer ---- */

/* The marks around content that some forms have. */
static uint32_t content(struct grammar_build *b, const struct grammar_constraint *c,
                        uint32_t stop)
{
    const struct grammar_form *form = grammar_form_of(c->format);
    bool is_wrapped =
        form->drops[0].len != 0 && form->drops[1].len != 0 && c->answer != GRAMMAR_ANSWER_FREE;
    uint32_t end =
        is_wrapped ? grammar_fork(b, stop, grammar_form_mark(b, form->drops[1], stop)) : stop;
    uint32_t answer = grammar_output_answer(b, c, end);
    return is_wrapped ? grammar_fork(b, answer, grammar_form_mark(b, form->drops[0], answer))
                      : answer;
}

/* What comes after the reasoning. */
static uint32_t answer_or_calls(struct grammar_build *b, const struct grammar_constraint *c,
                                uint32_t stop)
{
    const struct grammar_form *form = grammar_form_of(c->format);
    struct lr_str trigger = grammar_form_trigger(form);
    if (c->tool_count == 0)
        return content(b, c, stop);
    uint32_t calls = form_calls(b, c, stop);
    uint32_t begin = grammar_form_mark(b, trigger, calls);
    uint32_t start;
    if (c->answer == GRAMMAR_ANSWER_NONE)
        start = form->is_begun && c->thought.end.len == 0 ? calls : begin;
    else if (c->answer != GRAMMAR_ANSWER_TEXT)
        start = grammar_fork(b, begin, content(b, c, stop));
    else if (trigger.len != 0)
        start = grammar_until(b, trigger, '\0',
                              grammar_fork(b, stop, as_token(b, trigger, calls)), calls);
    else /* the byte that tells is taken already */
        start = grammar_until(b, trigger, form->shape == GRAMMAR_SHAPE_OBJECT ? '{' : '[', stop,
                              b->program->steps[calls].next);
    /* Kimi K3 does so also where there is no content. */
    if (form->ends_content && c->answer == GRAMMAR_ANSWER_NONE) {
        uint32_t ended = grammar_form_mark(b, form->drops[1], start);
        start = grammar_fork(b, start, ended);
        start = grammar_fork(b, start, grammar_form_mark(b, form->drops[0], ended));
    }
    if (form->lead.len != 0)
        start = grammar_fork(b, start, grammar_named(b, form->lead, begin));
    return start;
}

uint32_t grammar_form_output(struct grammar_build *b, const struct grammar_constraint *c,
                             uint32_t stop)
{
    uint32_t start = answer_or_calls(b, c, stop);
    if (c->thought.end.len == 0)
        return start;
    uint32_t thought = grammar_form_text(b, c->thought.end, lines(b, start));
    if (c->budget != 0) {
        b->program->thought = thought;
        b->program->thought_end = grammar_form_mark(b, c->thought.end, lines(b, start));
        b->program->thought_budget = c->budget;
    }
    if (c->is_opened)
        return thought;
    if (c->thought.begin.len == 0)
        return start;
    return grammar_fork(b, start, grammar_form_mark(b, c->thought.begin, thought));
}
