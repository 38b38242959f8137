/* grammar/exclusive.c - see grammar/program.h: schemas of which a value fits one at most.
 *
 * "oneOf" is "anyOf" where the schemas exclude each other.  They are seen to do so by their
 * types, by their constants, or by the constants of a property that both require: how tools
 * write tagged unions.
 */
#include "grammar/program.h"

enum { EXCLUSIVE_MAX = 64, HOPS_MAX = 16 };

/* What a chain of $ref ends in. */
static const struct lr_json *target_of(struct grammar_build *b, const struct lr_json *schema)
{
    struct lr_str ref;
    for (int hops = 0; hops < HOPS_MAX && b->code == LR_OK; hops++) {
        if (schema == NULL || schema->type != LR_JSON_OBJECT ||
            !lr_json_str(lr_json_get(schema, "$ref"), &ref))
            return schema;
        schema = grammar_resolve(b, ref);
    }
    return NULL;
}

/* The strings a schema is one of, by const or enum; 0: it does not say. */
static uint32_t strings_of(const struct lr_json *schema, const struct lr_json **out)
{
    const struct lr_json *one = lr_json_get(schema, "const"),
                         *list = lr_json_get(schema, "enum");
    if (lr_json_is(one, LR_JSON_STRING)) {
        *out = one;
        return 1;
    }
    if (one != NULL || !lr_json_is(list, LR_JSON_ARRAY))
        return 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].type != LR_JSON_STRING)
            return 0;
    *out = list->items;
    return list->count;
}

static bool have_other_strings(const struct lr_json *a, const struct lr_json *b)
{
    const struct lr_json *x, *y;
    uint32_t xs = strings_of(a, &x), ys = strings_of(b, &y);
    for (uint32_t i = 0; i < xs; i++)
        for (uint32_t k = 0; k < ys; k++)
            if (lr_str_eq(x[i].text, y[k].text))
                return false;
    return xs != 0 && ys != 0;
}

static bool requires(const struct lr_json *schema, struct lr_str name)
{
    const struct lr_json *list = lr_json_get(schema, "required");
    struct lr_str one;
    for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++)
        if (lr_json_str(&list->items[i], &one) && lr_str_eq(one, name))
            return true;
    return false;
}

static bool are_tagged(struct grammar_build *b, const struct lr_json *one,
                       const struct lr_json *two)
{
    const struct lr_json *of_one = lr_json_get(one, "properties");
    const struct lr_json *of_two = lr_json_get(two, "properties");
    if (!lr_json_is(of_one, LR_JSON_OBJECT) || !lr_json_is(of_two, LR_JSON_OBJECT))
        return false;
    for (uint32_t i = 0; i < of_one->count; i++) {
        struct lr_str name = of_one->members[i].key;
        const struct lr_json *x = target_of(b, &of_one->members[i].value);
        const struct lr_json *y = target_of(b, lr_json_get_str(of_two, name));
        if (x != NULL && y != NULL && requires(one, name) && requires(two, name) &&
            have_other_strings(x, y))
            return true;
    }
    return false;
}

static bool are_exclusive(struct grammar_build *b, const struct lr_json *one,
                          const struct lr_json *two)
{
    uint32_t x, y;
    if (!lr_json_is(one, LR_JSON_OBJECT) || !lr_json_is(two, LR_JSON_OBJECT))
        return false;
    x = grammar_types_of(b, one);
    y = grammar_types_of(b, two);
    x |= (x & GRAMMAR_NUMBER) != 0 ? GRAMMAR_INTEGER : 0; /* every integer is a number */
    y |= (y & GRAMMAR_NUMBER) != 0 ? GRAMMAR_INTEGER : 0;
    return (x & y) == 0 || have_other_strings(one, two) ||
           ((x & y) == GRAMMAR_OBJECT && are_tagged(b, one, two));
}

void grammar_check_exclusive(struct grammar_build *b, const struct lr_json *list)
{
    if (list->type != LR_JSON_ARRAY)
        return; /* refused by who compiles it */
    if (list->count > EXCLUSIVE_MAX)
        grammar_fail(b, LR_UNSUPPORTED, "\"oneOf\" of more than %d schemas is not offered",
                     EXCLUSIVE_MAX);
    for (uint32_t i = 0; i < list->count && b->code == LR_OK; i++)
        for (uint32_t k = 0; k < i && b->code == LR_OK; k++)
            if (!are_exclusive(b, target_of(b, &list->items[k]), target_of(b, &list->items[i])))
                grammar_fail(
                    b, LR_UNSUPPORTED,
                    "\"oneOf\" is offered where its schemas exclude each other by type, "
                    "or by different constants of a property that both require; numbers "
                    "%u and %u may overlap: use \"anyOf\"",
                    k + 1, i + 1);
}
