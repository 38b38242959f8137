/* grammar/object.c - see grammar/program.h: objects and arrays of a schema.
 *
 * Properties come in the schema's order, optional ones may be left out, and other properties do
 * not come.  This is a subset of the valid objects: the described ones.
 */
#include <stdlib.h>

#include "grammar/program.h"

struct property {
    struct lr_str key;
    const struct lr_json *schema; /* NULL: any value */
    bool required;
};

/* "key": value */
static uint32_t compile_property(struct grammar_build *b, const struct property *p,
                                 uint32_t next)
{
    struct lr_buf key;
    uint32_t mark = grammar_enter(b, "properties.", p->key);
    uint32_t value =
        p->schema != NULL ? grammar_schema(b, p->schema, next) : grammar_any(b, next);
    uint32_t at = grammar_byte(b, ':', ':', grammar_space(b, value));
    grammar_leave(b, mark);
    lr_buf_init(&key, 6 * p->key.len + 16);
    lr_json_quote(&key, p->key);
    if (key.failed)
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    at = grammar_literal(b, lr_buf_str(&key), at);
    lr_buf_free(&key);
    return at;
}

/* From the last property to the first.  `more` is where another property may begin, `after` is
 * what may follow a value. */
static uint32_t compile_properties(struct grammar_build *b, const struct property *list,
                                   size_t count, uint32_t next)
{
    uint32_t close = grammar_byte(b, '}', '}', next);
    uint32_t after = grammar_space(b, close), more = 0;
    bool can_close = true;
    for (size_t i = count; i-- > 0 && b->code == LR_OK;) {
        uint32_t this_one = compile_property(b, &list[i], after);
        more = list[i].required || i + 1 == count ? this_one : grammar_fork(b, this_one, more);
        can_close = can_close && !list[i].required;
        uint32_t comma = grammar_byte(b, ',', ',', grammar_space(b, more));
        after = can_close ? grammar_fork(b, comma, grammar_space(b, close)) : comma;
    }
    uint32_t inside = count == 0 ? close : can_close ? grammar_fork(b, more, close) : more;
    return grammar_byte(b, '{', '{', grammar_space(b, inside));
}

static size_t gather(struct grammar_build *b, const struct lr_json *schema,
                     struct property *list)
{
    const struct lr_json *properties = lr_json_get(schema, "properties");
    const struct lr_json *required = lr_json_get(schema, "required");
    struct lr_json_set names;
    size_t count = 0;
    if (!lr_json_set_init(&names, required))
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    for (uint32_t i = 0; properties != NULL && i < properties->count; i++) {
        const struct lr_json_member *m = &properties->members[i];
        list[count++] = (struct property){m->key, &m->value, lr_json_set_has(&names, m->key)};
    }
    lr_json_set_free(&names);
    for (uint32_t i = 0; required != NULL && i < required->count; i++) {
        struct lr_str key;
        if (!lr_json_str(&required->items[i], &key)) {
            grammar_fail(b, LR_INVALID_ARGUMENT, "\"required\" must be a list of names");
            return 0;
        }
        if (lr_json_get_str(properties, key) == NULL)
            list[count++] = (struct property){key, NULL, true};
    }
    return count;
}

/* Any names, and values of one schema. */
static uint32_t compile_map(struct grammar_build *b, const struct lr_json *values,
                            uint32_t next)
{
    if (values == NULL || values->type == LR_JSON_BOOL)
        return grammar_any_object(b, next);
    return grammar_map(b, grammar_rule_add(b, values), next);
}

uint32_t grammar_object(struct grammar_build *b, const struct lr_json *schema, uint32_t next)
{
    const struct lr_json *properties = lr_json_get(schema, "properties");
    const struct lr_json *required = lr_json_get(schema, "required");
    const struct lr_json *others = lr_json_get(schema, "additionalProperties");
    bool closed = lr_json_is(others, LR_JSON_BOOL) && !others->boolean;
    if ((properties != NULL && properties->type != LR_JSON_OBJECT) ||
        (required != NULL && required->type != LR_JSON_ARRAY)) {
        grammar_fail(b, LR_INVALID_ARGUMENT,
                     "\"properties\" must be an object and \"required\" a list");
        return 0;
    }
    uint64_t room = (properties != NULL ? (uint64_t)properties->count : 0) +
                    (required != NULL ? required->count : 0);
    if (room > 2 * GRAMMAR_PROPERTIES_MAX) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "an object may have %d properties",
                     GRAMMAR_PROPERTIES_MAX);
        return 0;
    }
    if (room == 0 && !closed)
        return compile_map(b, others, next);
    struct property *list = calloc(room + 1, sizeof(*list));
    if (list == NULL) {
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
        return 0;
    }
    size_t count = gather(b, schema, list);
    if (closed && properties != NULL && count > properties->count)
        grammar_fail(b, LR_INVALID_ARGUMENT,
                     "\"required\" names a property that \"properties\" lacks and "
                     "\"additionalProperties\" forbids");
    uint32_t at = compile_properties(b, list, count, next);
    free(list);
    return at;
}

/* ---- arrays ---- */

static uint32_t count_of(struct grammar_build *b, const struct lr_json *schema, const char *key,
                         uint32_t otherwise)
{
    const struct lr_json *v = lr_json_get(schema, key);
    uint64_t n;
    if (v == NULL)
        return otherwise;
    if (!lr_json_u64(v, &n)) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"%s\" must be a whole number, 0 or more", key);
        return otherwise;
    }
    return n < GRAMMAR_STEPS_MAX ? (uint32_t)n : GRAMMAR_STEPS_MAX;
}

/* Any number of items: one copy of the item, in a loop. */
static uint32_t compile_list(struct grammar_build *b, const struct lr_json *items,
                             bool at_least, uint32_t next)
{
    uint32_t end = grammar_byte(b, ']', ']', next);
    uint32_t loop = grammar_fork(b, 0, 0);
    uint32_t mark = grammar_enter(b, "items", lr_str(NULL, 0));
    uint32_t item = items != NULL ? grammar_schema(b, items, loop) : grammar_any(b, loop);
    grammar_leave(b, mark);
    grammar_patch(b, loop, grammar_byte(b, ',', ',', grammar_space(b, item)),
                  grammar_space(b, end));
    if (!at_least)
        item = grammar_fork(b, item, end);
    return grammar_byte(b, '[', '[', grammar_space(b, item));
}

/* min to max items, each a call of one rule, from the last to the first. */
static uint32_t compile_counted(struct grammar_build *b, uint32_t rule, uint32_t min,
                                uint32_t max, uint32_t next)
{
    uint32_t close = grammar_byte(b, ']', ']', next);
    uint32_t end = grammar_space(b, close), after = end, item = 0;
    uint32_t last = max;
    if (max == GRAMMAR_UNBOUNDED) {
        last = min;
        after = grammar_fork(b, 0, 0);
        item = grammar_call(b, rule, after);
        grammar_patch(b, after, grammar_byte(b, ',', ',', grammar_space(b, item)), end);
    }
    for (uint32_t i = last; i > 0 && b->code == LR_OK; i--) {
        item = grammar_call(b, rule, after); /* item number i */
        uint32_t comma = grammar_byte(b, ',', ',', grammar_space(b, item));
        after = i > min ? grammar_fork(b, comma, end) : comma;
    }
    uint32_t inside = last == 0 ? close : min == 0 ? grammar_fork(b, item, close) : item;
    return grammar_byte(b, '[', '[', grammar_space(b, inside));
}

uint32_t grammar_array(struct grammar_build *b, const struct lr_json *schema, uint32_t next)
{
    static const struct lr_json anything = {.type = LR_JSON_BOOL, .boolean = true};
    const struct lr_json *items = lr_json_get(schema, "items");
    uint32_t min = count_of(b, schema, "minItems", 0);
    uint32_t max = count_of(b, schema, "maxItems", GRAMMAR_UNBOUNDED);
    if (max < min) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"maxItems\" is less than \"minItems\"");
        return 0;
    }
    if (max == GRAMMAR_UNBOUNDED && min <= 1)
        return compile_list(b, items, min == 1, next);
    return compile_counted(b, grammar_rule_add(b, items != NULL ? items : &anything), min, max,
                           next);
}
