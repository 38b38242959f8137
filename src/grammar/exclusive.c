/* grammar/exclusive.c - see grammar/program.h: checks that a value matches at most one of
 * several schemas.
 *
 * "oneOf" equals "anyOf" if the schemas exclude each other.  Schemas are recognised as
 * exclusive by their types, by their constants, or by the constants of a property that both
 * require, as in tagged unions.  All schemas are checked together: each constant keeps the set
 * of schemas that allow it, so no pairs are compared.
 */
#include <stdlib.h>

#include "base/strmap.h"
#include "grammar/schema.h"

enum {
    EXCLUSIVE_MAX = 64, /* one bit each in a word */
    HOPS_MAX = 16,
    VALUE_WORK = 4, /* cost of a constant compared with a step: it is hashed twice */
};

/* The end of a chain of $ref. */
static const struct lr_json *target_of(struct grammar_build *b, const struct lr_json *schema)
{
    const struct lr_json *ref;
    for (int hops = 0; hops < HOPS_MAX && b->code == LR_OK; hops++) {
        if (schema == NULL || schema->type != LR_JSON_OBJECT ||
            (ref = lr_json_get(schema, "$ref")) == NULL)
            return schema;
        schema = grammar_resolve(b, ref);
    }
    return NULL;
}

/* The strings that a schema allows by const or enum; 0: not restricted to strings. */
static uint32_t strings_of(struct grammar_build *b, const struct lr_json *schema,
                           const struct lr_json **out)
{
    const struct lr_json *one = lr_json_get(schema, "const"),
                         *list = lr_json_get(schema, "enum");
    if (lr_json_is(one, LR_JSON_STRING)) {
        *out = one;
        return grammar_charge(b, VALUE_WORK) ? 1 : 0;
    }
    if (one != NULL || !lr_json_is(list, LR_JSON_ARRAY) || list->count > GRAMMAR_WORK_MAX ||
        !grammar_charge(b, VALUE_WORK * list->count))
        return 0;
    for (uint32_t i = 0; i < list->count; i++)
        if (list->items[i].type != LR_JSON_STRING)
            return 0;
    *out = list->items;
    return list->count;
}

/* ---- the schemas of one "oneOf" ---- */

struct union_of {
    struct grammar_build *b;
    uint32_t count;
    const struct lr_json *schemas[EXCLUSIVE_MAX]; /* after following $ref */
    uint32_t types[EXCLUSIVE_MAX];
    struct lr_json_set required[EXCLUSIVE_MAX];
    uint64_t objects[EXCLUSIVE_MAX]; /* bit k of [i]: only objects can match both schemas */
    uint64_t others[EXCLUSIVE_MAX];  /* bit k of [i]: the two schemas exclude each other */
};

/* A constant, and the schemas that allow it. */
struct constant {
    struct lr_str text;
    uint64_t schemas;
};

static struct constant *constant_of(struct constant *table, size_t size, struct lr_str text)
{
    size_t at = lr_hash(text) & (size - 1);
    while (table[at].schemas != 0 && !lr_str_eq(table[at].text, text))
        at = (at + 1) & (size - 1);
    table[at].text = text;
    return &table[at];
}

/* Separates schemas by the strings of `parts`, one for each schema; NULL: the schema has no
 * strings. among: which schemas to separate from schema i; NULL: all. */
static void by_strings(struct union_of *u, const struct lr_json *const *parts,
                       const uint64_t *among)
{
    const struct lr_json *strings[EXCLUSIVE_MAX];
    uint32_t counts[EXCLUSIVE_MAX] = {0}, total = 0;
    uint64_t have = 0;
    for (uint32_t i = 0; i < u->count; i++) {
        if (parts[i] != NULL)
            counts[i] = strings_of(u->b, parts[i], &strings[i]);
        total += counts[i];
        have |= counts[i] != 0 ? UINT64_C(1) << i : 0;
    }
    if ((have & (have - 1)) == 0 || u->b->code != LR_OK)
        return; /* fewer than two schemas have strings */
    size_t size = lr_json_slots(total);
    struct constant *table = calloc(size, sizeof(*table));
    if (table == NULL) {
        grammar_fail(u->b, LR_OUT_OF_RAM, "no memory for a grammar");
        return;
    }
    for (uint32_t i = 0; i < u->count; i++)
        for (uint32_t k = 0; k < counts[i]; k++)
            constant_of(table, size, strings[i][k].text)->schemas |= UINT64_C(1) << i;
    for (uint32_t i = 0; i < u->count; i++) {
        uint64_t shared = 0;
        for (uint32_t k = 0; k < counts[i]; k++)
            shared |= constant_of(table, size, strings[i][k].text)->schemas;
        if (counts[i] != 0)
            u->others[i] |= have & ~shared & (among != NULL ? among[i] : UINT64_MAX);
    }
    free(table);
}

static void by_types(struct union_of *u)
{
    for (uint32_t i = 0; i < u->count; i++)
        for (uint32_t k = 0; k < u->count; k++) {
            uint32_t both = u->types[i] & u->types[k];
            u->others[i] |= both == 0 ? UINT64_C(1) << k : 0;
            u->objects[i] |= both == TYPE_OBJECT ? UINT64_C(1) << k : 0;
        }
}

/* Separates schemas by a property that several objects require. */
static void by_tag(struct union_of *u, struct lr_str name)
{
    const struct lr_json *parts[EXCLUSIVE_MAX] = {NULL};
    for (uint32_t i = 0; i < u->count; i++) {
        const struct lr_json *properties = lr_json_get(u->schemas[i], "properties");
        if (u->objects[i] == 0 || !lr_json_set_has(&u->required[i], name))
            continue;
        parts[i] = target_of(u->b, lr_json_get_str(properties, name));
        parts[i] = lr_json_is(parts[i], LR_JSON_OBJECT) ? parts[i] : NULL;
    }
    if (grammar_charge(u->b, u->count))
        by_strings(u, parts, u->objects);
}

/* The first schema before schema i that may overlap it, else u->count. */
static uint32_t overlapped(const struct union_of *u, uint32_t i)
{
    uint64_t left = ~u->others[i] & ((UINT64_C(1) << i) - 1);
    for (uint32_t k = 0; k < i; k++)
        if ((left >> k & 1) != 0)
            return k;
    return u->count;
}

/* Tries the properties of schema i until it is separated from all schemas before it. */
static void by_tags_of(struct union_of *u, uint32_t i)
{
    const struct lr_json *properties = lr_json_get(u->schemas[i], "properties");
    if (u->objects[i] == 0 || !lr_json_is(properties, LR_JSON_OBJECT))
        return;
    for (uint32_t m = 0; m < properties->count && overlapped(u, i) != u->count; m++)
        if (u->b->code == LR_OK && lr_json_set_has(&u->required[i], properties->members[m].key))
            by_tag(u, properties->members[m].key);
}

static bool gather(struct union_of *u, const struct lr_json *list, uint32_t types)
{
    struct grammar_build *b = u->b;
    for (; u->count < list->count && b->code == LR_OK; u->count++) {
        const struct lr_json *schema = target_of(b, &list->items[u->count]);
        struct schema_words words;
        u->types[u->count] = types;
        if (lr_json_is(schema, LR_JSON_BOOL) && !schema->boolean)
            u->types[u->count] = 0;
        if (!lr_json_is(schema, LR_JSON_OBJECT))
            continue;
        grammar_schema_words_of(schema, &words);
        u->schemas[u->count] = schema;
        u->types[u->count] &= grammar_schema_types(b, &words);
        if (!lr_json_set_init(&u->required[u->count], words.at[WORD_REQUIRED]))
            grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    }
    return b->code == LR_OK;
}

static bool exclusive_check(struct union_of *u, uint32_t *first, uint32_t *second)
{
    by_types(u);
    by_strings(u, u->schemas, NULL);
    for (uint32_t i = 1; i < u->count && u->b->code == LR_OK; i++) {
        by_tags_of(u, i);
        *first = overlapped(u, i);
        *second = i;
        if (*first != u->count)
            return false;
    }
    return true;
}

bool grammar_schema_excludes(struct grammar_build *b, const struct lr_json *list,
                             uint32_t types, uint32_t *first, uint32_t *second)
{
    bool excludes = false;
    *first = *second = 0;
    if (list->type != LR_JSON_ARRAY || list->count > EXCLUSIVE_MAX)
        return false;
    struct union_of *u = calloc(1, sizeof(*u));
    if (u == NULL) {
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
        return false;
    }
    u->b = b;
    if (gather(u, list, types))
        excludes = exclusive_check(u, first, second);
    for (uint32_t i = 0; i < u->count; i++)
        lr_json_set_free(&u->required[i]);
    free(u);
    return excludes;
}
