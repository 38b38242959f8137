/* grammar/schema.c - see grammar/program.h: JSON Schema to steps.
 *
 * There are three kinds of keywords: those compiled here, annotations, which are skipped, and
 * keywords that restrict values but are not supported.  The last are refused by name, unless
 * the schema is lenient.  As in JSON Schema, an unknown keyword is an annotation.
 */
#include <math.h>
#include <stdlib.h>

#include "grammar/program.h"

enum { ALTERNATIVES_MAX = 1024 };

static const struct {
    const char *name;
    uint32_t bit;
} type_names[] = {
    {"null", GRAMMAR_NULL},     {"boolean", GRAMMAR_BOOL},  {"integer", GRAMMAR_INTEGER},
    {"number", GRAMMAR_NUMBER}, {"string", GRAMMAR_STRING}, {"array", GRAMMAR_ARRAY},
    {"object", GRAMMAR_OBJECT},
};

/* Keywords that restrict values of some type and are not supported; hint may be empty. */
static const struct {
    const char *name;
    const char *hint;
} refused[] = {
    {"allOf", "; write the parts as one schema"},
    {"not", ""},
    {"if", ""},
    {"then", ""},
    {"else", ""},
    {"dependentRequired", ""},
    {"dependentSchemas", ""},
    {"dependencies", ""},
    {"pattern", ""},
    {"multipleOf", ""},
    {"uniqueItems", ""},
    {"prefixItems", ""},
    {"additionalItems", ""},
    {"unevaluatedItems", ""},
    {"contains", ""},
    {"minContains", ""},
    {"maxContains", ""},
    {"patternProperties", ""},
    {"propertyNames", ""},
    {"unevaluatedProperties", ""},
    {"minProperties", ""},
    {"maxProperties", ""},
    {"$dynamicRef", "; use \"$ref\""},
    {"$recursiveRef", "; use \"$ref\""},
};

/* True for a value without effect: false, an empty list, "any string" for names. */
static bool is_idle(const struct lr_json_member *m)
{
    const struct lr_json *v = &m->value;
    struct lr_str type;
    if (lr_str_eq_z(m->key, "uniqueItems"))
        return v->type == LR_JSON_BOOL && !v->boolean;
    if (lr_str_eq_z(m->key, "unevaluatedProperties"))
        return v->type == LR_JSON_BOOL;
    if (lr_str_eq_z(m->key, "propertyNames"))
        return v->type == LR_JSON_OBJECT && v->count == 1 &&
               lr_json_str(lr_json_get(v, "type"), &type) && lr_str_eq_z(type, "string");
    return false;
}

static void check_keywords(struct grammar_build *b, const struct lr_json *schema)
{
    for (uint32_t i = 0; i < schema->count && !b->lenient; i++) {
        const struct lr_json_member *m = &schema->members[i];
        for (size_t k = 0; k < sizeof(refused) / sizeof(refused[0]); k++)
            if (lr_str_eq_z(m->key, refused[k].name) && !is_idle(m))
                grammar_fail(b, LR_UNSUPPORTED, "the keyword \"%s\" is not supported%s",
                             refused[k].name, refused[k].hint);
    }
}

/* ---- $ref ---- */

/* A schema that is used in several places or within itself becomes a rule. */
static uint32_t compile_ref(struct grammar_build *b, struct lr_str ref, uint32_t next)
{
    const struct lr_json *target = grammar_resolve(b, ref);
    return target != NULL ? grammar_call(b, grammar_rule_of(b, target), next) : 0;
}

/* ---- enum, const, anyOf ---- */

static uint32_t type_of(const struct lr_json *v)
{
    switch (v->type) {
    case LR_JSON_NULL:
        return GRAMMAR_NULL;
    case LR_JSON_BOOL:
        return GRAMMAR_BOOL;
    case LR_JSON_STRING:
        return GRAMMAR_STRING;
    case LR_JSON_ARRAY:
        return GRAMMAR_ARRAY;
    case LR_JSON_OBJECT:
        return GRAMMAR_OBJECT;
    case LR_JSON_NUMBER:
        break;
    }
    return lr_str_find_char(v->text, '.') == LR_STR_NONE &&
                   lr_str_find_char(v->text, 'e') == LR_STR_NONE &&
                   lr_str_find_char(v->text, 'E') == LR_STR_NONE
               ? GRAMMAR_INTEGER | GRAMMAR_NUMBER
               : GRAMMAR_NUMBER;
}

/* One of the given values, written as compact JSON. */
static uint32_t compile_values(struct grammar_build *b, const struct lr_json *values,
                               uint32_t count, uint32_t types, uint32_t next)
{
    struct grammar_choice *list = calloc(count != 0 ? count : 1, sizeof(*list));
    struct lr_buf text;
    size_t used = 0, from = 0;
    uint32_t result = 0;
    lr_buf_init(&text, GRAMMAR_CONSTRAINT_MAX * 2);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        struct lr_json_writer w;
        if ((type_of(&values[i]) & types) == 0)
            continue;
        lr_json_writer_init(&w, &text);
        lr_json_put_value(&w, &values[i]);
        list[used++] = (struct grammar_choice){{NULL, text.len - from}, next};
        from = text.len;
    }
    if (list == NULL || text.failed)
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for %u values", count);
    else if (used == 0)
        grammar_fail(b, LR_INVALID_ARGUMENT, "no value is left to choose from");
    from = 0;
    for (size_t i = 0; b->code == LR_OK && i < used; i++) {
        list[i].text.ptr = text.data + from; /* the buffer no longer moves */
        from += list[i].text.len;
    }
    if (b->code == LR_OK)
        result = grammar_choose(b, list, used);
    free(list);
    lr_buf_free(&text);
    return result;
}

static uint32_t compile_enum(struct grammar_build *b, const struct lr_json *list,
                             uint32_t types, uint32_t next)
{
    if (list->type != LR_JSON_ARRAY || list->count == 0) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"enum\" must be a list of values");
        return 0;
    }
    return compile_values(b, list->items, list->count, types, next);
}

/* key: "anyOf" or "oneOf" */
static uint32_t compile_any_of(struct grammar_build *b, const char *key,
                               const struct lr_json *list, uint32_t next)
{
    uint32_t result = 0;
    if (list->type != LR_JSON_ARRAY || list->count == 0 || list->count > ALTERNATIVES_MAX) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"%s\" must be a list of 1 to %d schemas", key,
                     ALTERNATIVES_MAX);
        return 0;
    }
    for (uint32_t i = 0; i < list->count; i++) {
        uint32_t mark = grammar_enter(b, key, lr_str(NULL, 0));
        uint32_t one = grammar_schema(b, &list->items[i], next);
        grammar_leave(b, mark);
        result = i == 0 ? one : grammar_fork(b, result, one);
    }
    return result;
}

/* ---- types ---- */

static uint32_t type_bit(struct grammar_build *b, const struct lr_json *name)
{
    struct lr_str text = {0};
    if (lr_json_str(name, &text))
        for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++)
            if (lr_str_eq_z(text, type_names[i].name))
                return type_names[i].bit;
    grammar_fail(
        b, LR_INVALID_ARGUMENT,
        "\"type\" must be one of null, boolean, integer, number, string, array, object, "
        "or a list of them");
    return 0;
}

uint32_t grammar_types_of(struct grammar_build *b, const struct lr_json *schema)
{
    const struct lr_json *type = lr_json_get(schema, "type");
    uint32_t bits = 0;
    if (type == NULL) {
        if (lr_json_get(schema, "properties") != NULL)
            return GRAMMAR_OBJECT;
        return lr_json_get(schema, "items") != NULL ? GRAMMAR_ARRAY : GRAMMAR_ANY;
    }
    if (type->type != LR_JSON_ARRAY)
        return type_bit(b, type);
    for (uint32_t i = 0; i < type->count; i++)
        bits |= type_bit(b, &type->items[i]);
    if (bits == 0)
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"type\" is an empty list");
    return bits;
}

static uint32_t length_of(struct grammar_build *b, const struct lr_json *schema,
                          const char *key, uint32_t otherwise)
{
    const struct lr_json *v = lr_json_get(schema, key);
    uint64_t n;
    if (v == NULL)
        return otherwise;
    if (!lr_json_u64(v, &n)) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"%s\" must be a whole number, 0 or more", key);
        return 0;
    }
    return n < GRAMMAR_STEPS_MAX ? (uint32_t)n : GRAMMAR_STEPS_MAX;
}

static uint32_t compile_string(struct grammar_build *b, const struct lr_json *schema,
                               uint32_t next)
{
    uint32_t min = length_of(b, schema, "minLength", 0);
    uint32_t max = length_of(b, schema, "maxLength", GRAMMAR_UNBOUNDED);
    struct lr_str format;
    uint32_t at;
    if (max < min)
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"maxLength\" is less than \"minLength\"");
    /* A format is an annotation by default.  A known format is enforced if nothing else
     * restricts the string. */
    if (min == 0 && max == GRAMMAR_UNBOUNDED &&
        lr_json_str(lr_json_get(schema, "format"), &format) &&
        grammar_format(b, format, next, &at))
        return at;
    return grammar_string(b, min, max, next);
}

/* A bound as a whole number: exact, or (for integers) rounded into the range. */
static bool read_bound(struct grammar_build *b, const struct lr_json *schema, const char *key,
                       bool is_integer, bool is_low, int64_t *out, bool *exact)
{
    const struct lr_json *v = lr_json_get(schema, key);
    double d;
    *exact = true;
    if (v == NULL)
        return false;
    if (lr_json_i64(v, out))
        return true;
    if (!lr_json_double(v, &d)) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"%s\" must be a number", key);
        return false;
    }
    double rounded = is_low ? ceil(d) : floor(d);
    *exact = !(rounded < d) && !(rounded > d);
    if (!is_integer && !*exact && !b->lenient)
        grammar_fail(b, LR_UNSUPPORTED, "\"%s\" of a number must be whole here", key);
    if (fabs(rounded) >= 9e18)
        return false; /* beyond the numbers that are generated */
    *out = (int64_t)rounded;
    return is_integer || *exact;
}

static void read_bounds(struct grammar_build *b, const struct lr_json *schema, bool is_integer,
                        struct grammar_bounds *out)
{
    int64_t n;
    bool exact;
    *out = (struct grammar_bounds){0};
    out->has_low = read_bound(b, schema, "minimum", is_integer, true, &out->low, &exact);
    out->has_high = read_bound(b, schema, "maximum", is_integer, false, &out->high, &exact);
    if (read_bound(b, schema, "exclusiveMinimum", is_integer, true, &n, &exact)) {
        if (is_integer && exact && n < INT64_MAX)
            n++;
        if (!out->has_low || n >= out->low) {
            out->low = n;
            out->low_open = !is_integer;
        }
        out->has_low = true;
    }
    if (read_bound(b, schema, "exclusiveMaximum", is_integer, false, &n, &exact)) {
        if (is_integer && exact && n > INT64_MIN)
            n--;
        if (!out->has_high || n <= out->high) {
            out->high = n;
            out->high_open = !is_integer;
        }
        out->has_high = true;
    }
}

static uint32_t compile_number(struct grammar_build *b, const struct lr_json *schema,
                               bool is_integer, uint32_t next)
{
    struct grammar_bounds bounds;
    read_bounds(b, schema, is_integer, &bounds);
    if (!bounds.has_low && !bounds.has_high)
        return is_integer ? grammar_integer(b, next) : grammar_number(b, next);
    return is_integer ? grammar_integer_within(b, &bounds, next)
                      : grammar_number_within(b, &bounds, next);
}

static uint32_t compile_type(struct grammar_build *b, const struct lr_json *schema,
                             uint32_t type, uint32_t next)
{
    struct grammar_choice words[] = {{LR_STR_LIT("true"), next}, {LR_STR_LIT("false"), next}};
    switch (type) {
    case GRAMMAR_NULL:
        return grammar_literal(b, LR_STR_LIT("null"), next);
    case GRAMMAR_BOOL:
        return grammar_choose(b, words, 2);
    case GRAMMAR_INTEGER:
    case GRAMMAR_NUMBER:
        return compile_number(b, schema, type == GRAMMAR_INTEGER, next);
    case GRAMMAR_STRING:
        return compile_string(b, schema, next);
    case GRAMMAR_ARRAY:
        return grammar_array(b, schema, next);
    default:
        return grammar_object(b, schema, next);
    }
}

static uint32_t compile_types(struct grammar_build *b, const struct lr_json *schema,
                              uint32_t types, uint32_t next)
{
    uint32_t result = 0;
    bool has = false;
    if ((types & GRAMMAR_NUMBER) != 0)
        types &= ~(uint32_t)GRAMMAR_INTEGER; /* every integer is a number */
    for (uint32_t bit = GRAMMAR_NULL; bit <= GRAMMAR_OBJECT; bit <<= 1) {
        if ((types & bit) == 0)
            continue;
        uint32_t one = compile_type(b, schema, bit, next);
        result = has ? grammar_fork(b, result, one) : one;
        has = true;
    }
    return result;
}

/* ---- a schema ---- */

/* True for a schema with annotations only. */
static bool is_open(const struct lr_json *schema)
{
    static const char *const words[] = {"type",
                                        "properties",
                                        "required",
                                        "additionalProperties",
                                        "items",
                                        "minItems",
                                        "maxItems",
                                        "minLength",
                                        "maxLength",
                                        "minimum",
                                        "maximum",
                                        "exclusiveMinimum",
                                        "exclusiveMaximum",
                                        NULL};
    for (size_t i = 0; words[i] != NULL; i++)
        if (lr_json_get(schema, words[i]) != NULL)
            return false;
    return true;
}

/* A keyword that decides alone must not be combined with others that restrict. */
static void alone(struct grammar_build *b, const struct lr_json *schema, const char *key)
{
    if (!is_open(schema) && !b->lenient)
        grammar_fail(b, LR_UNSUPPORTED,
                     "\"%s\" beside other keywords is not supported; put them into it", key);
}

/* Only one keyword may decide alone; const beside enum is accepted, because some tools write
 * it. */
static void check_deciders(struct grammar_build *b, const struct lr_json *schema)
{
    static const char *const words[] = {"$ref", "const", "enum", "anyOf", "oneOf"};
    const char *first = NULL;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && !b->lenient; i++) {
        if (lr_json_get(schema, words[i]) == NULL)
            continue;
        if (first != NULL && !(strcmp(first, "const") == 0 && strcmp(words[i], "enum") == 0))
            grammar_fail(b, LR_UNSUPPORTED, "\"%s\" beside \"%s\" is not supported", words[i],
                         first);
        first = words[i];
    }
}

static uint32_t compile(struct grammar_build *b, const struct lr_json *schema, uint32_t next)
{
    const struct lr_json *v;
    struct lr_str ref;
    if (schema->type == LR_JSON_BOOL && schema->boolean)
        return grammar_any(b, next);
    if (schema->type != LR_JSON_OBJECT) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "a schema must be an object, not %s",
                     lr_json_type_name(schema->type));
        return 0;
    }
    if ((v = lr_json_get(schema, "allOf")) != NULL && v->type == LR_JSON_ARRAY &&
        v->count == 1 && is_open(schema))
        return grammar_schema(b, &v->items[0], next); /* some tools write a $ref like this */
    check_keywords(b, schema);
    check_deciders(b, schema);
    if (lr_json_str(lr_json_get(schema, "$ref"), &ref)) {
        alone(b, schema, "$ref");
        return compile_ref(b, ref, next);
    }
    if ((v = lr_json_get(schema, "const")) != NULL)
        return compile_values(b, v, 1, grammar_types_of(b, schema), next);
    if ((v = lr_json_get(schema, "enum")) != NULL)
        return compile_enum(b, v, grammar_types_of(b, schema), next);
    if ((v = lr_json_get(schema, "anyOf")) != NULL) {
        alone(b, schema, "anyOf");
        return compile_any_of(b, "anyOf", v, next);
    }
    if ((v = lr_json_get(schema, "oneOf")) != NULL) {
        alone(b, schema, "oneOf");
        if (!b->lenient)
            grammar_check_exclusive(b, v);
        return compile_any_of(b, "oneOf", v, next);
    }
    return is_open(schema) ? grammar_any(b, next)
                           : compile_types(b, schema, grammar_types_of(b, schema), next);
}

uint32_t grammar_schema(struct grammar_build *b, const struct lr_json *schema, uint32_t next)
{
    return b->code == LR_OK ? compile(b, schema, next) : 0;
}

uint32_t grammar_schema_whole(struct grammar_build *b, const struct lr_json *schema,
                              uint32_t next)
{
    uint32_t rule = b->program->rule_count;
    b->root = schema;
    uint32_t entry = grammar_schema(b, schema, next);
    for (; b->code == LR_OK && rule < b->program->rule_count; rule++) {
        const struct lr_json *of = b->program->rules[rule].schema;
        if (of == NULL)
            continue;
        uint32_t at = grammar_schema(b, of, grammar_step(b, GRAMMAR_RETURN, 0, 0));
        if (b->code == LR_OK)
            b->program->rules[rule].entry = at;
    }
    return entry;
}
