/* grammar/words.c - see grammar/schema.h: the keywords of JSON Schema. */
#include "grammar/schema.h"

static const char *const names[WORD_COUNT] = {
    "$dynamicRef",
    "$recursiveRef",
    "$ref",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "const",
    "contains",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "else",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "if",
    "items",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "required",
    "then",
    "type",
    "unevaluatedItems",
    "unevaluatedProperties",
    "uniqueItems",
};

static const struct {
    const char *name;
    uint32_t bits;
} type_names[] = {
    {"null", TYPE_NULL},       {"boolean", TYPE_FALSE | TYPE_TRUE},
    {"integer", TYPE_INTEGER}, {"number", TYPE_NUMBER},
    {"string", TYPE_STRING},   {"array", TYPE_ARRAY},
    {"object", TYPE_OBJECT},
};

const char *grammar_schema_word_name(enum schema_word word)
{
    return names[word];
}

void grammar_schema_words_of(const struct lr_json *node, struct schema_words *out)
{
    memset(out, 0, sizeof(*out));
    for (uint32_t i = 0; i < node->count; i++) {
        const struct lr_json_member *m = &node->members[i];
        uint32_t low = 0, high = WORD_COUNT;
        while (low < high) {
            uint32_t middle = (low + high) / 2;
            int order = lr_str_cmp(lr_str_z(names[middle]), m->key);
            if (order == 0) {
                out->at[middle] = &m->value;
                out->count++;
                break;
            }
            if (order < 0)
                low = middle + 1;
            else
                high = middle;
        }
    }
}

uint32_t grammar_schema_type_of(const struct lr_json *value)
{
    switch (value->type) {
    case LR_JSON_NULL:
        return TYPE_NULL;
    case LR_JSON_BOOL:
        return value->boolean ? TYPE_TRUE : TYPE_FALSE;
    case LR_JSON_STRING:
        return TYPE_STRING;
    case LR_JSON_ARRAY:
        return TYPE_ARRAY;
    case LR_JSON_OBJECT:
        return TYPE_OBJECT;
    case LR_JSON_NUMBER:
        break;
    }
    return grammar_decimal_is_whole(value->text) ? TYPE_INTEGER : TYPE_FRACTION;
}

static uint32_t type_bits(struct grammar_build *b, const struct lr_json *name)
{
    struct lr_str text = {0};
    if (lr_json_str(name, &text))
        for (size_t i = 0; i < sizeof(type_names) / sizeof(type_names[0]); i++)
            if (lr_str_eq_z(text, type_names[i].name))
                return type_names[i].bits;
    grammar_fail(
        b, LR_INVALID_ARGUMENT,
        "\"type\" must be one of null, boolean, integer, number, string, array, object, "
        "or a list of them");
    return 0;
}

uint32_t grammar_schema_types(struct grammar_build *b, const struct schema_words *w)
{
    const struct lr_json *type = w->at[WORD_TYPE], *list = w->at[WORD_ENUM];
    uint32_t bits = TYPE_ANY, values = 0;
    if (type != NULL && type->type != LR_JSON_ARRAY)
        bits = type_bits(b, type);
    else if (type != NULL) {
        bits = 0;
        for (uint32_t i = 0; i < type->count; i++)
            bits |= type_bits(b, &type->items[i]);
        if (type->count == 0)
            grammar_fail(b, LR_INVALID_ARGUMENT, "\"type\" is an empty list");
    }
    if (list != NULL && (list->type != LR_JSON_ARRAY || list->count == 0)) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"enum\" must be a list of values");
        return 0;
    }
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        values |= grammar_schema_type_of(&list->items[i]);
    if (list != NULL)
        bits &= values;
    if (w->at[WORD_CONST] != NULL)
        bits &= grammar_schema_type_of(w->at[WORD_CONST]);
    return bits;
}

uint32_t grammar_schema_count(struct grammar_build *b, const struct schema_words *w,
                              enum schema_word word, uint32_t otherwise)
{
    const struct lr_json *v = w->at[word];
    double d;
    if (v == NULL)
        return otherwise;
    if (!lr_json_double(v, &d) || d < 0 || !grammar_decimal_is_whole(v->text)) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"%s\" must be a whole number, 0 or more",
                     names[word]);
        return otherwise;
    }
    return d < 4e9 ? (uint32_t)d : GRAMMAR_UNBOUNDED - 1;
}

uint32_t grammar_schema_draft(const struct lr_json *root)
{
    struct lr_str name;
    if (!lr_json_str(lr_json_get(root, "$schema"), &name))
        return 2020;
    if (lr_str_find(name, LR_STR_LIT("draft-03")) != LR_STR_NONE ||
        lr_str_find(name, LR_STR_LIT("draft-04")) != LR_STR_NONE)
        return 4;
    if (lr_str_find(name, LR_STR_LIT("draft-06")) != LR_STR_NONE)
        return 6;
    if (lr_str_find(name, LR_STR_LIT("draft-07")) != LR_STR_NONE)
        return 7;
    return lr_str_find(name, LR_STR_LIT("2019-09")) != LR_STR_NONE ? 2019 : 2020;
}

bool grammar_schema_is_only_ref(const struct grammar_build *b, const struct schema_words *w)
{
    return b->draft <= 7 && w->at[WORD_REF] != NULL;
}

const struct lr_json *grammar_schema_prefix(const struct schema_words *w)
{
    if (w->at[WORD_PREFIX_ITEMS] != NULL)
        return w->at[WORD_PREFIX_ITEMS];
    return lr_json_is(w->at[WORD_ITEMS], LR_JSON_ARRAY) ? w->at[WORD_ITEMS] : NULL;
}

const struct lr_json *grammar_schema_rest(const struct schema_words *w)
{
    return lr_json_is(w->at[WORD_ITEMS], LR_JSON_ARRAY) ? w->at[WORD_ADDITIONAL_ITEMS]
                                                        : w->at[WORD_ITEMS];
}
