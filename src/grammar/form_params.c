/* grammar/form_params.c - see grammar/form_output.h: parameters that are tags, or K=V.
 *
 * A rule of its own keeps the set of the names that have come, as objects do (object.c).  So
 * the program is linear in the number of parameters, whatever their order. */
#include "grammar/form_output.h"

#include "grammar/schema.h"

struct param {
    struct lr_str key;
    const struct lr_json *schema;
    bool required;
};

/* ---- values ---- */

static bool is_type(const struct lr_json *schema, const char *type)
{
    const struct lr_json *v = lr_json_get(schema, "type");
    if (lr_json_is(v, LR_JSON_STRING))
        return lr_str_eq_z(v->text, type);
    for (uint32_t i = 0; lr_json_is(v, LR_JSON_ARRAY) && i < v->count; i++)
        if (v->items[i].type == LR_JSON_STRING && lr_str_eq_z(v->items[i].text, type))
            return true;
    return false;
}

/* The reader takes a value as a text where its schema has the type (chat/dialect/values.h). */
static bool is_text(const struct lr_json *schema)
{
    static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
    const struct lr_json *values = lr_json_get(schema, "enum");
    const struct lr_json *only = lr_json_get(schema, "const");
    if (is_type(schema, "string"))
        return true;
    for (size_t k = 0; k < 3; k++) {
        const struct lr_json *list = lr_json_get(schema, unions[k]);
        for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++)
            if (is_text(&list->items[i]))
                return true;
    }
    if (lr_json_get(schema, "type") != NULL)
        return false;
    for (uint32_t i = 0; lr_json_is(values, LR_JSON_ARRAY) && i < values->count; i++)
        if (values->items[i].type == LR_JSON_STRING)
            return true;
    return lr_json_is(only, LR_JSON_STRING);
}

/* JSON of a part of a tool's schema, whose references lead into the whole. */
static uint32_t json_value(struct grammar_build *b, const struct grammar_tool *tool,
                           const struct lr_json *schema, uint32_t next)
{
    bool is_open = !lr_json_is(schema, LR_JSON_OBJECT) || schema->count == 0;
    b->lenient = !tool->strict;
    b->strict = tool->strict;
    uint32_t at =
        is_open ? grammar_any(b, next) : grammar_schema_value(b, tool->schema, schema, next);
    b->lenient = false;
    return at;
}

/* The strings of "enum" or "const"; false: the schema has none. */
static bool enumerated(struct grammar_build *b, const struct lr_json *schema, uint32_t end,
                       uint32_t *out)
{
    const struct lr_json *values = lr_json_get(schema, "enum");
    const struct lr_json *only = lr_json_get(schema, "const");
    const struct lr_json *list = lr_json_is(values, LR_JSON_ARRAY) ? values->items : only;
    uint32_t count = lr_json_is(values, LR_JSON_ARRAY) ? values->count : only != NULL, used = 0;
    if (count == 0)
        return false;
    struct grammar_choice *choices = lr_arena_array(&b->arena, count, sizeof(*choices));
    for (uint32_t i = 0; choices != NULL && i < count; i++)
        if (list[i].type == LR_JSON_STRING)
            choices[used++] = (struct grammar_choice){list[i].text, end};
    if (used == 0)
        return false;
    *out = grammar_choose(b, choices, used);
    return true;
}

/* "a|b" as a pattern that finds these very characters. */
static struct lr_str escaped(struct grammar_build *b, struct lr_str text)
{
    char *out = lr_arena_alloc(&b->arena, 2 * text.len + 1);
    size_t len = 0;
    for (size_t i = 0; out != NULL && i < text.len; i++) {
        if (strchr("|[](){}.*+?^$\\/", text.ptr[i]) != NULL)
            out[len++] = '\\';
        out[len++] = text.ptr[i];
    }
    return lr_str(out, len);
}

/* A text with a pattern or a length, in which the end mark does not come. */
static bool demanding(struct grammar_build *b, const struct grammar_tool *tool,
                      const struct lr_json *schema, struct lr_str end_mark, uint32_t end,
                      uint32_t *out)
{
    const struct schema_part part = {.kind = PART_IS, .node = schema};
    struct dfa_text *text = grammar_schema_alloc(b, 1, sizeof(*text));
    struct lr_error err;
    b->lenient = !tool->strict;
    bool good = text != NULL && grammar_schema_text(b, &part, 1, text);
    b->lenient = false;
    if (!good || (text->count == 0 && text->min == 0 && text->max == DFA_UNBOUNDED) ||
        text->count == DFA_DEMANDS_MAX)
        return false;
    struct dfa_demand *d = &text->demands[text->count++];
    *d = (struct dfa_demand){.negative = true};
    if (grammar_regex_parse(&b->arena, escaped(b, end_mark), &d->pattern, &err) != LR_OK) {
        grammar_fail(b, LR_UNSUPPORTED, "%s", err.text);
        return false;
    }
    const struct dfa *dfa = grammar_schema_dfa(b, text);
    if (dfa == NULL)
        return false;
    *out = grammar_dfa(b, dfa, DFA_RAW, end);
    if (b->code == LR_OK && dfa->states != 0)
        b->program->steps[*out].high = GRAMMAR_DFA_OF_TEXT;
    return true;
}

/* A text up to `bound`, which is the beginning of its end mark; `rest` is what is left of it.
 */
static uint32_t text_value(struct grammar_build *b, const struct grammar_tool *tool,
                           const struct lr_json *schema, struct lr_str bound,
                           struct lr_str rest, bool has_lines, uint32_t after)
{
    after = grammar_literal(b, rest, after);
    uint32_t value, end = grammar_form_mark(b, bound, after);
    if (has_lines)
        end = grammar_byte(b, '\n', '\n', end);
    if (!enumerated(b, schema, end, &value) &&
        !demanding(b, tool, schema, bound, end, &value)) {
        if (b->code != LR_OK)
            return 0;
        value = grammar_form_text(b, bound, after);
    }
    return has_lines ? grammar_byte(b, '\n', '\n', value) : value;
}

/* ---- a parameter ---- */

static struct lr_str join(struct grammar_build *b, struct lr_str a, struct lr_str c)
{
    char *out = lr_arena_printf(&b->arena, LR_STR_FMT LR_STR_FMT, LR_STR_ARG(a), LR_STR_ARG(c));
    return lr_str(out, out != NULL ? a.len + c.len : 0);
}

/* The word for the type in Kimi K3's tags. */
static const char *type_word(const struct lr_json *schema)
{
    static const char *const words[] = {"boolean", "object", "array", "null"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (is_type(schema, words[i]))
            return words[i];
    return "number";
}

/* After the key: what closes its tag, and opens the value. */
static struct lr_str tag_end(struct grammar_build *b, const struct form_params *s,
                             const struct lr_json *schema, bool is_string)
{
    const struct grammar_form *f = s->form;
    struct lr_str end = f->key_end;
    if (f->shape == GRAMMAR_SHAPE_PYTHON)
        return LR_STR_LIT("=");
    if (f->shape == GRAMMAR_SHAPE_GEMMA)
        return LR_STR_LIT(":");
    if (f->shape == GRAMMAR_SHAPE_NESTED)
        return LR_STR_LIT(">");
    if (f->has_attributes && lr_str_starts(f->string_attribute, "type="))
        end =
            join(b, LR_STR_LIT("\" type=\""),
                 join(b, lr_str_z(is_string ? "string" : type_word(schema)), LR_STR_LIT("\"")));
    else if (f->has_attributes)
        end = is_string ? LR_STR_LIT("\" string=\"true\"") : LR_STR_LIT("\" string=\"false\"");
    return join(b, join(b, end, f->key_close), f->value);
}

static uint32_t param_value(struct grammar_build *b, const struct form_params *s,
                            const struct grammar_tool *tool, const struct param *p,
                            uint32_t after)
{
    bool is_string = is_text(p->schema) && !s->quotes_values,
         has_lines = s->form->strips_newline;
    struct lr_str end = s->value_end, rest = {0}, open = tag_end(b, s, p->schema, is_string);
    uint32_t value;
    if (s->form->shape == GRAMMAR_SHAPE_NESTED) { /* the token before a tag bounds a text */
        end = LR_STR_LIT("]<]minimax[>[");
        rest = join(b, LR_STR_LIT("</"), join(b, p->key, LR_STR_LIT(">")));
    }
    if (is_string && s->text_open.len != 0) {
        value = grammar_form_mark(
            b, s->text_open, text_value(b, tool, p->schema, s->text_open, rest, false, after));
    } else if (is_string) {
        value = text_value(b, tool, p->schema, end, rest, has_lines, after);
    } else {
        uint32_t over = grammar_form_mark(b, end, grammar_literal(b, rest, after));
        if (has_lines)
            over = grammar_byte(b, '\n', '\n', over);
        value = json_value(b, tool, p->schema, over);
        if (has_lines)
            value = grammar_byte(b, '\n', '\n', value);
    }
    return grammar_form_mark(b, open, value);
}

/* ---- all of them ---- */

static bool is_required(const struct lr_json *schema, struct lr_str key)
{
    const struct lr_json *list = lr_json_get(schema, "required");
    for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++)
        if (list->items[i].type == LR_JSON_STRING && lr_str_eq(list->items[i].text, key))
            return true;
    return false;
}

/* The declared parameters; those that are required but not declared take any text. */
static uint32_t list_params(struct grammar_build *b, const struct lr_json *schema,
                            struct param **out)
{
    static const struct lr_json any = {.type = LR_JSON_OBJECT};
    const struct lr_json *properties = lr_json_get(schema, "properties");
    const struct lr_json *required = lr_json_get(schema, "required");
    uint32_t declared = lr_json_is(properties, LR_JSON_OBJECT) ? properties->count : 0;
    uint32_t more = lr_json_is(required, LR_JSON_ARRAY) ? required->count : 0, count = 0;
    *out = grammar_schema_alloc(b, declared + more + 1, sizeof(**out));
    if (*out == NULL)
        return 0;
    for (uint32_t i = 0; i < declared; i++) {
        const struct lr_json_member *m = &properties->members[i];
        (*out)[count++] = (struct param){m->key, &m->value, is_required(schema, m->key)};
    }
    for (uint32_t i = 0; i < more; i++)
        if (required->items[i].type == LR_JSON_STRING &&
            (declared == 0 || lr_json_get_str(properties, required->items[i].text) == NULL))
            (*out)[count++] = (struct param){required->items[i].text, &any, true};
    return count;
}

static uint32_t in_rule(struct grammar_build *b, const struct form_params *s,
                        const struct grammar_tool *tool, const struct param *list,
                        uint32_t count)
{
    struct grammar_name *names =
        lr_arena_array(&b->program->arena, 2 * (size_t)count + 1, sizeof(*names));
    struct grammar_name *needed = names + count;
    uint32_t keys = 0, keys_next = 0, needs = 0;
    if (names == NULL) {
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
        return 0;
    }
    bool has_lines = s->between.len == 0;
    uint32_t end = grammar_form_mark(b, s->close, grammar_step(b, GRAMMAR_RETURN, 0, 0));
    if (has_lines)
        end = grammar_form_line(b, end);
    uint32_t after = grammar_fork(b, 0, 0);
    for (uint32_t i = 0; i < count; i++) {
        const char *copy = lr_arena_copy(&b->program->arena, list[i].key);
        struct lr_str text = lr_str(copy, copy != NULL ? list[i].key.len : 0);
        names[i] =
            (struct grammar_name){text, grammar_name_hash(text), i, GRAMMAR_NO_RULE, NULL};
        if (list[i].required)
            needed[needs++] = names[i];
    }
    for (uint32_t i = count; i-- > 0 && b->code == LR_OK;) {
        const struct grammar_check absent = {
            .max = GRAMMAR_UNBOUNDED, .absent = &names[i], .rule = GRAMMAR_NO_RULE};
        uint32_t at = param_value(b, s, tool, &list[i], after);
        at = grammar_form_mark(b, s->open,
                               grammar_literal(b, list[i].key, grammar_add(b, &names[i], at)));
        uint32_t first = grammar_check(b, &absent, has_lines ? grammar_form_line(b, at) : at);
        uint32_t later =
            has_lines ? first : grammar_check(b, &absent, grammar_literal(b, s->between, at));
        keys = keys == 0 ? first : grammar_fork(b, first, keys);
        keys_next = keys_next == 0 ? later : grammar_fork(b, later, keys_next);
    }
    const struct grammar_check all = {.max = GRAMMAR_UNBOUNDED,
                                      .names = needed,
                                      .name_count = needs,
                                      .rule = GRAMMAR_NO_RULE};
    uint32_t close = needs != 0 ? grammar_check(b, &all, end) : end;
    grammar_patch(b, after, count != 0 ? keys_next : close, close);
    return count != 0 ? grammar_fork(b, keys, close) : close;
}

uint32_t grammar_form_params(struct grammar_build *b, const struct form_params *s,
                             const struct grammar_tool *tool, uint32_t next)
{
    struct param *list;
    uint32_t mark = grammar_enter(b, "", tool->name);
    uint32_t count = list_params(b, tool->schema, &list);
    uint32_t rule = grammar_rule_add(b, NULL, 0);
    uint32_t entry = b->code == LR_OK ? in_rule(b, s, tool, list, count) : 0;
    if (b->code == LR_OK)
        b->program->rules[rule].entry = entry;
    grammar_leave(b, mark);
    return grammar_call(b, rule, next);
}
