/* grammar/schema.c - see grammar/schema.h: rules, alternatives and values that are given. */
#include "grammar/schema.h"

#include <stdlib.h>

enum { VALUE_MAX = 1 << 20 };

void *grammar_schema_alloc(struct grammar_build *b, size_t count, size_t size)
{
    if (b->code != LR_OK)
        return NULL;
    void *p = lr_arena_array(&b->arena, count != 0 ? count : 1, size);
    if (p == NULL)
        grammar_fail(b, LR_INVALID_ARGUMENT, "the schema is too large: it needs too much room");
    else
        memset(p, 0, (count != 0 ? count : 1) * size);
    return p;
}

void grammar_schema_unsupported(struct grammar_build *b, const char *what)
{
    grammar_fail(b, LR_UNSUPPORTED, "%s: this is not supported", what);
}

void grammar_schema_refuse_values(struct grammar_build *b, const struct schema_part *part,
                                  uint32_t types)
{
    struct schema_words w;
    if (part->word != WORD_ENUM && part->word != WORD_CONST)
        return;
    grammar_schema_words_of(part->node, &w);
    const struct lr_json *list = w.at[part->word];
    const struct lr_json *items = part->word == WORD_ENUM ? list->items : list;
    for (uint32_t i = 0; i < (part->word == WORD_ENUM ? list->count : 1); i++)
        if ((grammar_schema_type_of(&items[i]) & types) != 0)
            grammar_schema_unsupported(
                b, "numbers, arrays or objects that must not come (\"not\")");
}

/* ---- rules ---- */

static bool same_parts(const struct grammar_rule *r, const struct schema_part *parts,
                       uint32_t count)
{
    if (r->parts == NULL || r->part_count != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (r->parts[i].node != parts[i].node || r->parts[i].kind != parts[i].kind)
            return false;
    return true;
}

/* The slot of the rule with these parts, or the free slot for it. */
static uint32_t *grammar_schema_slot_of(const struct grammar_build *b,
                                        const struct schema_part *parts, uint32_t count)
{
    uint64_t hash = count;
    for (uint32_t i = 0; i < count; i++)
        hash = (hash ^ ((uint64_t)(uintptr_t)parts[i].node + (uint64_t)parts[i].kind)) *
               UINT64_C(0x9E3779B97F4A7C15);
    uint32_t mask = b->rule_slot_count - 1, at = (uint32_t)(hash >> 40) & mask;
    while (b->rule_slots[at] != 0 &&
           !same_parts(&b->program->rules[b->rule_slots[at] - 1], parts, count))
        at = (at + 1) & mask;
    return &b->rule_slots[at];
}

static void grow_slots(struct grammar_build *b)
{
    const struct grammar_program *p = b->program;
    if (2 * (p->rule_count + 1) < b->rule_slot_count)
        return;
    uint32_t count = b->rule_slot_count != 0 ? 4 * b->rule_slot_count : 256;
    uint32_t *slots = calloc(count, sizeof(*slots));
    if (slots == NULL) {
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
        return;
    }
    free(b->rule_slots);
    b->rule_slots = slots;
    b->rule_slot_count = count;
    for (uint32_t i = 0; i < p->rule_count; i++)
        if (p->rules[i].parts != NULL)
            *grammar_schema_slot_of(b, p->rules[i].parts, p->rules[i].part_count) = i + 1;
}

uint32_t grammar_schema_rule(struct grammar_build *b, const struct schema_part *parts,
                             uint32_t count)
{
    grow_slots(b);
    if (b->code != LR_OK || !grammar_charge(b, count))
        return 0;
    if (count == 0)
        return grammar_any_rule(b);
    uint32_t *slot = grammar_schema_slot_of(b, parts, count);
    if (*slot != 0)
        return *slot - 1;
    struct schema_part *copy = grammar_schema_alloc(b, count, sizeof(*copy));
    if (copy == NULL)
        return 0;
    memcpy(copy, parts, count * sizeof(*copy));
    uint32_t rule = grammar_rule_add(b, copy, count);
    if (b->code == LR_OK)
        *slot = rule + 1;
    return rule;
}

/* ---- automata ---- */

/* An automaton that was built, by what it was built from. */
struct built_dfa {
    struct built_dfa *next;
    const struct dfa_text *text;
    const struct dfa *dfa;
};

/* Trees of the same pattern differ, so they are compared. */
static bool same_tree(const struct regex *a, const struct regex *b)
{
    if (a == b)
        return true;
    if (a == NULL || b == NULL || a->op != b->op || a->min != b->min || a->max != b->max ||
        a->set.count != b->set.count)
        return false;
    for (uint32_t i = 0; i < a->set.count; i++)
        if (a->set.ranges[i].low != b->set.ranges[i].low ||
            a->set.ranges[i].high != b->set.ranges[i].high)
            return false;
    return same_tree(a->b, b->b) && same_tree(a->a, b->a);
}

static bool same_text(const struct dfa_text *a, const struct dfa_text *b)
{
    if (a->count != b->count || a->min != b->min || a->max != b->max)
        return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const struct dfa_demand *x = &a->demands[i], *y = &b->demands[i];
        if (x->negative != y->negative || x->format != y->format ||
            x->pattern.look_count != y->pattern.look_count ||
            !same_tree(x->pattern.tree, y->pattern.tree))
            return false;
        for (uint32_t k = 0; k < x->pattern.look_count; k++)
            if (x->pattern.looks[k].negative != y->pattern.looks[k].negative ||
                !same_tree(x->pattern.looks[k].tree, y->pattern.looks[k].tree))
                return false;
    }
    return true;
}

static bool is_format_alone(const struct dfa_text *t)
{
    return t->count == 1 && t->demands[0].format != NULL && !t->demands[0].negative &&
           t->min == 0 && t->max == DFA_UNBOUNDED;
}

static const struct dfa *build_dfa(struct grammar_build *b, const struct dfa_text *text)
{
    struct lr_error err = {0};
    struct dfa_result result[DFA_RESULTS_MAX];
    uint32_t count;
    if (is_format_alone(text))
        return grammar_schema_format_dfa(b, text->demands[0].format);
    lr_code code =
        grammar_dfa_build(&b->program->arena, text, 0, b->work, result, &count, &err);
    if (code != LR_OK)
        grammar_fail(b, code, "%s", err.text);
    return code == LR_OK ? result[0].dfa : NULL;
}

const struct dfa *grammar_schema_dfa(struct grammar_build *b, const struct dfa_text *text)
{
    for (const struct built_dfa *d = b->dfas; d != NULL; d = d->next)
        if (same_text(d->text, text))
            return d->dfa;
    struct built_dfa *built = grammar_schema_alloc(b, 1, sizeof(*built));
    struct dfa_text *copy = grammar_schema_alloc(b, 1, sizeof(*copy));
    const struct dfa *dfa = built != NULL && copy != NULL ? build_dfa(b, text) : NULL;
    if (dfa == NULL)
        return NULL;
    *copy = *text;
    *built = (struct built_dfa){b->dfas, copy, dfa};
    b->dfas = built;
    return built->dfa;
}

const struct dfa *grammar_schema_any_dfa(struct grammar_build *b)
{
    if (b->any_dfa == NULL)
        b->any_dfa = grammar_dfa_any(&b->program->arena);
    if (b->any_dfa == NULL)
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    return b->any_dfa;
}

/* ---- values that are given ---- */

/* A list of values and their types, and nothing else. */
static bool is_plain_list(const struct lr_json *node)
{
    struct schema_words w;
    grammar_schema_words_of(node, &w);
    return w.count == 1u + (w.at[WORD_TYPE] != NULL);
}

const struct lr_json *grammar_schema_values(struct grammar_build *b,
                                            const struct schema_alternative *a, uint32_t *count)
{
    const struct lr_json *list = NULL;
    uint32_t from = 0;
    *count = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        struct schema_words w;
        if (a->parts[i].kind != PART_IS)
            continue;
        grammar_schema_words_of(a->parts[i].node, &w);
        if (w.at[WORD_CONST] != NULL) {
            list = w.at[WORD_CONST];
            from = 1;
        } else if (w.at[WORD_ENUM] != NULL && (list == NULL || w.at[WORD_ENUM]->count < from)) {
            list = w.at[WORD_ENUM]->items;
            from = w.at[WORD_ENUM]->count;
        }
    }
    if (list == NULL)
        return NULL;
    struct lr_json *left = grammar_schema_alloc(b, from, sizeof(*left));
    bool plain = a->count == 1 && is_plain_list(a->parts[0].node);
    for (uint32_t i = 0; left != NULL && i < from && b->code == LR_OK; i++) {
        bool fits = (grammar_schema_type_of(&list[i]) & a->types) != 0;
        for (uint32_t k = 0; k < a->count && fits; k++)
            fits = plain || grammar_schema_fits_part(b, &a->parts[k], &list[i]);
        if (fits)
            left[(*count)++] = list[i];
    }
    return left;
}

static uint32_t given(struct grammar_build *b, const struct lr_json *value, uint32_t next);

/* Items or members from the last to the first, with blanks where blanks may be. */
static uint32_t given_parts(struct grammar_build *b, const struct lr_json *value, uint32_t next)
{
    bool object = value->type == LR_JSON_OBJECT;
    char close = object ? '}' : ']', open = object ? '{' : '[';
    uint32_t at = grammar_space(b, grammar_byte(b, close, close, next));
    for (uint32_t i = value->count; i-- > 0 && b->code == LR_OK;) {
        if (object) {
            struct lr_buf key;
            uint32_t member = given(b, &value->members[i].value, at);
            lr_buf_init(&key, VALUE_MAX);
            lr_json_quote(&key, value->members[i].key);
            at = grammar_literal(b, lr_buf_str(&key),
                                 grammar_byte(b, ':', ':', grammar_space(b, member)));
            lr_buf_free(&key);
        } else {
            at = given(b, &value->items[i], at);
        }
        if (i > 0)
            at = grammar_byte(b, ',', ',', grammar_space(b, at));
    }
    if (value->count != 0)
        at = grammar_space(b, at);
    return grammar_byte(b, open, open, at);
}

static uint32_t given(struct grammar_build *b, const struct lr_json *value, uint32_t next)
{
    struct lr_json_writer w;
    struct lr_buf text;
    if (value->type >= LR_JSON_ARRAY)
        return given_parts(b, value, next);
    lr_buf_init(&text, VALUE_MAX);
    lr_json_writer_init(&w, &text);
    lr_json_put_value(&w, value);
    if (text.failed)
        grammar_fail(b, LR_INVALID_ARGUMENT, "a value has more than %d bytes", VALUE_MAX);
    uint32_t at = grammar_literal(b, lr_buf_str(&text), next);
    lr_buf_free(&text);
    return at;
}

/* One of the given values; texts that begin alike share their steps. */
static uint32_t compile_values(struct grammar_build *b, const struct lr_json *values,
                               uint32_t count, uint32_t next)
{
    struct grammar_choice *list = grammar_schema_alloc(b, count, sizeof(*list));
    uint32_t used = 0, result = 0;
    bool has = false;
    for (uint32_t i = 0; list != NULL && i < count && b->code == LR_OK; i++) {
        struct lr_buf text;
        struct lr_json_writer w;
        if (values[i].type >= LR_JSON_ARRAY) {
            uint32_t one = given(b, &values[i], next);
            result = has ? grammar_fork(b, result, one) : one;
            has = true;
            continue;
        }
        lr_buf_init(&text, VALUE_MAX);
        lr_json_writer_init(&w, &text);
        lr_json_put_value(&w, &values[i]);
        char *copy = text.failed ? NULL : lr_arena_copy(&b->arena, lr_buf_str(&text));
        if (copy == NULL)
            grammar_fail(b, LR_INVALID_ARGUMENT, "the values of \"enum\" are too large");
        list[used++] = (struct grammar_choice){lr_str(copy, text.len), next};
        lr_buf_free(&text);
    }
    if (b->code != LR_OK)
        return 0;
    if (used != 0) {
        uint32_t texts = grammar_choose(b, list, used);
        result = has ? grammar_fork(b, result, texts) : texts;
        has = true;
    }
    return has ? result : grammar_never(b);
}

/* ---- alternatives ---- */

static uint32_t compile_type(struct grammar_build *b, const struct schema_alternative *a,
                             uint32_t type, uint32_t next)
{
    switch (type) {
    case TYPE_NULL:
        return grammar_literal(b, LR_STR_LIT("null"), next);
    case TYPE_FALSE:
        return grammar_literal(b, LR_STR_LIT("false"), next);
    case TYPE_TRUE:
        return grammar_literal(b, LR_STR_LIT("true"), next);
    case TYPE_INTEGER:
        return grammar_schema_number(b, a, next);
    case TYPE_STRING:
        return grammar_schema_string(b, a, next);
    case TYPE_ARRAY:
        return grammar_schema_array(b, a, next);
    default:
        return grammar_schema_object(b, a, next);
    }
}

/* What advice that cannot be followed leaves: any value of the type. */
static uint32_t any_of_type(struct grammar_build *b, uint32_t type, uint32_t next)
{
    const struct schema_alternative plain = {.types = type};
    return compile_type(b, &plain, type, next);
}

static bool forgive(struct grammar_build *b)
{
    if (!b->lenient || b->code != LR_UNSUPPORTED)
        return false;
    b->code = LR_OK;
    return true;
}

static uint32_t compile_alternative(struct grammar_build *b, const struct schema_alternative *a,
                                    uint32_t next)
{
    uint32_t types = a->types, result = 0, count;
    bool has = false;
    const struct lr_json *values = grammar_schema_values(b, a, &count);
    if (b->code != LR_OK && !forgive(b))
        return 0;
    if (values != NULL)
        return compile_values(b, values, count, next);
    if ((types & TYPE_NUMBER) == TYPE_FRACTION)
        types |= TYPE_INTEGER; /* where numbers are compiled */
    types &= ~(uint32_t)TYPE_FRACTION;
    for (uint32_t bit = TYPE_NULL; bit <= TYPE_OBJECT; bit <<= 1) {
        if ((types & bit) == 0)
            continue;
        uint32_t one = compile_type(b, a, bit, next);
        if (forgive(b))
            one = any_of_type(b, bit == TYPE_INTEGER ? a->types & TYPE_NUMBER : bit, next);
        result = has ? grammar_fork(b, result, one) : one;
        has = true;
    }
    return has ? result : grammar_never(b);
}

/* Nothing is said: any value. */
static bool grammar_schema_is_open(const struct schema_alternative *a)
{
    return a->types == TYPE_ANY && a->count == 0;
}

static uint32_t compile_rule(struct grammar_build *b, const struct schema_part *parts,
                             uint32_t count, uint32_t next)
{
    struct schema_alternatives all;
    uint32_t result = 0;
    grammar_schema_expand(b, parts, count, TYPE_ANY, &all);
    if (forgive(b)) {
        static const struct schema_alternative any = {.types = TYPE_ANY};
        return compile_alternative(b, &any, next);
    }
    if (b->code != LR_OK)
        return 0;
    if (all.count == 0)
        return grammar_never(b);
    for (uint32_t i = 0; i < all.count && b->code == LR_OK; i++) {
        uint32_t one = grammar_schema_is_open(&all.items[i])
                           ? grammar_any(b, next)
                           : compile_alternative(b, &all.items[i], next);
        result = i == 0 ? one : grammar_fork(b, result, one);
    }
    return result;
}

/* A value that all the parts hold for, with the rules that are still to be made. */
static uint32_t compile_parts(struct grammar_build *b, const struct schema_part *parts,
                              uint32_t count, uint32_t next)
{
    uint32_t first = b->program->rule_count;
    uint32_t entry = grammar_call(b, grammar_schema_rule(b, parts, count), next);
    for (uint32_t i = first; b->code == LR_OK && i < b->program->rule_count; i++) {
        struct grammar_rule rule = b->program->rules[i];
        if (rule.parts == NULL)
            continue;
        b->place = rule.parts[0].node;
        uint32_t at =
            compile_rule(b, rule.parts, rule.part_count, grammar_step(b, GRAMMAR_RETURN, 0, 0));
        if (b->code == LR_OK)
            b->program->rules[i].entry = at;
    }
    b->place = NULL;
    return entry;
}

uint32_t grammar_schema_value(struct grammar_build *b, const struct lr_json *root,
                              const struct lr_json *schema, uint32_t next)
{
    const struct schema_part part = {.kind = PART_IS, .node = schema};
    b->root = root;
    b->draft = grammar_schema_draft(root);
    return compile_parts(b, &part, 1, next);
}

uint32_t grammar_schema_whole(struct grammar_build *b, const struct lr_json *schema,
                              bool object, uint32_t next)
{
    static const struct lr_json_member type = {{"type", 4},
                                               {.type = LR_JSON_STRING, .text = {"object", 6}}};
    static const struct lr_json an_object = {
        .type = LR_JSON_OBJECT, .count = 1, .members = &type};
    const struct schema_part whole[] = {{.kind = PART_IS, .node = schema},
                                        {.kind = PART_IS, .node = &an_object}};
    b->root = schema;
    b->draft = grammar_schema_draft(schema);
    return compile_parts(b, whole, object ? 2 : 1, next);
}
