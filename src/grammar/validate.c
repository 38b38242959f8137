/* grammar/validate.c - see grammar/schema.h: whether a value that a schema gives ("enum",
 * "const", the name of a property) fits other schemas.
 */
#include <math.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "grammar/schema.h"

enum { DEPTH_MAX = 64, WORK = 2 };

/* ---- equality ---- */

static bool equal_numbers(struct lr_str a, struct lr_str b)
{
    struct decimal x, y;
    if (grammar_decimal_of(a, &x) && grammar_decimal_of(b, &y))
        return grammar_decimal_compare(&x, &y) == 0;
    return lr_str_eq(a, b);
}

bool grammar_schema_equal(const struct lr_json *a, const struct lr_json *b)
{
    if (a->type != b->type)
        return false;
    switch (a->type) {
    case LR_JSON_NULL:
        return true;
    case LR_JSON_BOOL:
        return a->boolean == b->boolean;
    case LR_JSON_NUMBER:
        return equal_numbers(a->text, b->text);
    case LR_JSON_STRING:
        return lr_str_eq(a->text, b->text);
    case LR_JSON_ARRAY:
        for (uint32_t i = 0; a->count == b->count && i < a->count; i++)
            if (!grammar_schema_equal(&a->items[i], &b->items[i]))
                return false;
        return a->count == b->count;
    case LR_JSON_OBJECT:
        for (uint32_t i = 0; a->count == b->count && i < a->count; i++) {
            const struct lr_json *other = lr_json_get_str(b, a->members[i].key);
            if (other == NULL || !grammar_schema_equal(&a->members[i].value, other))
                return false;
        }
        return a->count == b->count;
    }
    return false;
}

/* ---- strings and numbers ---- */

static bool accepts(struct grammar_build *b, struct lr_str pattern, struct lr_str text)
{
    struct dfa_text wanted = {.count = 1, .max = DFA_UNBOUNDED};
    struct lr_error err = {0};
    lr_code code = grammar_regex_parse(&b->arena, pattern, &wanted.demands[0].pattern, &err);
    if (code != LR_OK) {
        grammar_fail(b, code, "%s", err.text);
        return false;
    }
    const struct dfa *d = grammar_schema_dfa(b, &wanted);
    return d != NULL && grammar_dfa_accepts(d, DFA_RAW, text);
}

bool grammar_schema_finds(struct grammar_build *b, struct lr_str pattern, struct lr_str text)
{
    return accepts(b, pattern, text);
}

static uint32_t length_of(struct lr_str text)
{
    uint32_t count = 0;
    for (size_t i = 0; i < text.len; i++)
        count += ((uint8_t)text.ptr[i] & 0xC0) != 0x80;
    return count;
}

static bool fits_string(struct grammar_build *b, const struct schema_words *w,
                        struct lr_str text)
{
    struct lr_str word;
    uint32_t len = length_of(text);
    if (len < grammar_schema_count(b, w, WORD_MIN_LENGTH, 0) ||
        len > grammar_schema_count(b, w, WORD_MAX_LENGTH, GRAMMAR_UNBOUNDED))
        return false;
    if (w->at[WORD_PATTERN] != NULL && lr_json_str(w->at[WORD_PATTERN], &word) &&
        !accepts(b, word, text))
        return false;
    if (w->at[WORD_FORMAT] != NULL && lr_json_str(w->at[WORD_FORMAT], &word)) {
        const char *pattern = grammar_schema_format(b, word);
        const struct dfa *d = pattern != NULL ? grammar_schema_format_dfa(b, pattern) : NULL;
        return pattern == NULL || (d != NULL && grammar_dfa_accepts(d, DFA_RAW, text));
    }
    return true;
}

/* a compared with the number of a keyword; 0 where there is none. */
static bool is_beyond(const struct schema_words *w, enum schema_word word, struct lr_str text,
                      int wrong, bool equal_is_wrong)
{
    struct decimal a, bound;
    if (!lr_json_is(w->at[word], LR_JSON_NUMBER) || !grammar_decimal_of(text, &a) ||
        !grammar_decimal_of(w->at[word]->text, &bound))
        return false;
    int order = grammar_decimal_compare(&a, &bound);
    return order == wrong || (order == 0 && equal_is_wrong);
}

static bool fits_number(struct grammar_build *b, const struct schema_words *w,
                        struct lr_str text)
{
    bool low_open = false, high_open = false;
    double value, of;
    (void)lr_json_bool(w->at[WORD_EXCLUSIVE_MINIMUM], &low_open);
    (void)lr_json_bool(w->at[WORD_EXCLUSIVE_MAXIMUM], &high_open);
    if (is_beyond(w, WORD_MINIMUM, text, -1, low_open) ||
        is_beyond(w, WORD_MAXIMUM, text, 1, high_open) ||
        is_beyond(w, WORD_EXCLUSIVE_MINIMUM, text, -1, true) ||
        is_beyond(w, WORD_EXCLUSIVE_MAXIMUM, text, 1, true))
        return false;
    if (w->at[WORD_MULTIPLE_OF] == NULL)
        return true;
    struct lr_json number = {.type = LR_JSON_NUMBER, .text = text};
    if (!lr_json_double(&number, &value) || !lr_json_double(w->at[WORD_MULTIPLE_OF], &of) ||
        of <= 0) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"multipleOf\" must be a number above 0");
        return false;
    }
    double times = value / of;
    return fabs(times - round(times)) < 1e-9 * (fabs(times) + 1);
}

/* ---- arrays and objects ---- */

static bool fits_array(struct grammar_build *b, const struct schema_words *w,
                       const struct lr_json *v)
{
    const struct lr_json *prefix = grammar_schema_prefix(w), *rest = grammar_schema_rest(w);
    uint32_t first = lr_json_is(prefix, LR_JSON_ARRAY) ? prefix->count : 0, found = 0;
    bool unique = false;
    if (v->count < grammar_schema_count(b, w, WORD_MIN_ITEMS, 0) ||
        v->count > grammar_schema_count(b, w, WORD_MAX_ITEMS, GRAMMAR_UNBOUNDED))
        return false;
    for (uint32_t i = 0; i < v->count; i++) {
        const struct lr_json *schema = i < first ? &prefix->items[i] : rest;
        if (schema != NULL && !grammar_schema_fits(b, schema, &v->items[i]))
            return false;
        if (w->at[WORD_CONTAINS] != NULL)
            found += grammar_schema_fits(b, w->at[WORD_CONTAINS], &v->items[i]);
    }
    if (w->at[WORD_CONTAINS] != NULL &&
        (found < grammar_schema_count(b, w, WORD_MIN_CONTAINS, 1) ||
         found > grammar_schema_count(b, w, WORD_MAX_CONTAINS, GRAMMAR_UNBOUNDED)))
        return false;
    if (lr_json_bool(w->at[WORD_UNIQUE_ITEMS], &unique) && unique)
        for (uint32_t i = 0; i < v->count && grammar_charge(b, i); i++)
            for (uint32_t k = 0; k < i; k++)
                if (grammar_schema_equal(&v->items[i], &v->items[k]))
                    return false;
    return true;
}

static bool fits_member(struct grammar_build *b, const struct schema_words *w,
                        const struct lr_json_member *m)
{
    const struct lr_json *patterns = w->at[WORD_PATTERN_PROPERTIES];
    const struct lr_json *own = lr_json_get_str(w->at[WORD_PROPERTIES], m->key);
    bool known = own != NULL;
    struct lr_json name = {.type = LR_JSON_STRING, .text = m->key};
    if (own != NULL && !grammar_schema_fits(b, own, &m->value))
        return false;
    for (uint32_t i = 0; lr_json_is(patterns, LR_JSON_OBJECT) && i < patterns->count; i++) {
        if (!accepts(b, patterns->members[i].key, m->key))
            continue;
        known = true;
        if (!grammar_schema_fits(b, &patterns->members[i].value, &m->value))
            return false;
    }
    if (!known && w->at[WORD_ADDITIONAL_PROPERTIES] != NULL &&
        !grammar_schema_fits(b, w->at[WORD_ADDITIONAL_PROPERTIES], &m->value))
        return false;
    return w->at[WORD_PROPERTY_NAMES] == NULL ||
           grammar_schema_fits(b, w->at[WORD_PROPERTY_NAMES], &name);
}

static bool has_all(const struct lr_json *names, const struct lr_json *v)
{
    struct lr_str name;
    for (uint32_t i = 0; lr_json_is(names, LR_JSON_ARRAY) && i < names->count; i++)
        if (lr_json_str(&names->items[i], &name) && lr_json_get_str(v, name) == NULL)
            return false;
    return true;
}

static bool fits_dependents(struct grammar_build *b, const struct lr_json *map,
                            const struct lr_json *v)
{
    for (uint32_t i = 0; lr_json_is(map, LR_JSON_OBJECT) && i < map->count; i++) {
        const struct lr_json *what = &map->members[i].value;
        if (lr_json_get_str(v, map->members[i].key) == NULL)
            continue;
        if (what->type == LR_JSON_ARRAY ? !has_all(what, v) : !grammar_schema_fits(b, what, v))
            return false;
    }
    return true;
}

static bool fits_object(struct grammar_build *b, const struct schema_words *w,
                        const struct lr_json *v)
{
    if (v->count < grammar_schema_count(b, w, WORD_MIN_PROPERTIES, 0) ||
        v->count > grammar_schema_count(b, w, WORD_MAX_PROPERTIES, GRAMMAR_UNBOUNDED) ||
        !has_all(w->at[WORD_REQUIRED], v))
        return false;
    for (uint32_t i = 0; i < v->count; i++)
        if (!fits_member(b, w, &v->members[i]))
            return false;
    return fits_dependents(b, w->at[WORD_DEPENDENCIES], v) &&
           fits_dependents(b, w->at[WORD_DEPENDENT_REQUIRED], v) &&
           fits_dependents(b, w->at[WORD_DEPENDENT_SCHEMAS], v);
}

/* ---- a schema ---- */

static uint32_t count_fits(struct grammar_build *b, const struct lr_json *list,
                           const struct lr_json *value)
{
    uint32_t count = 0;
    for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++)
        count += grammar_schema_fits(b, &list->items[i], value);
    return count;
}

static bool fits_applied(struct grammar_build *b, const struct schema_words *w,
                         const struct lr_json *value)
{
    if (w->at[WORD_REF] != NULL) {
        const struct lr_json *target = grammar_resolve(b, w->at[WORD_REF]);
        if (target == NULL || !grammar_schema_fits(b, target, value))
            return false;
    }
    if (grammar_schema_is_only_ref(b, w))
        return true;
    if (w->at[WORD_ALL_OF] != NULL &&
        count_fits(b, w->at[WORD_ALL_OF], value) != w->at[WORD_ALL_OF]->count)
        return false;
    if ((w->at[WORD_ANY_OF] != NULL && count_fits(b, w->at[WORD_ANY_OF], value) == 0) ||
        (w->at[WORD_ONE_OF] != NULL && count_fits(b, w->at[WORD_ONE_OF], value) != 1) ||
        (w->at[WORD_NOT] != NULL && grammar_schema_fits(b, w->at[WORD_NOT], value)))
        return false;
    if (w->at[WORD_IF] == NULL)
        return true;
    const struct lr_json *more =
        w->at[grammar_schema_fits(b, w->at[WORD_IF], value) ? WORD_THEN : WORD_ELSE];
    return more == NULL || grammar_schema_fits(b, more, value);
}

static bool is_among(const struct schema_words *w, const struct lr_json *value)
{
    const struct lr_json *list = w->at[WORD_ENUM];
    if (w->at[WORD_CONST] != NULL && !grammar_schema_equal(w->at[WORD_CONST], value))
        return false;
    if (!lr_json_is(list, LR_JSON_ARRAY))
        return true;
    for (uint32_t i = 0; i < list->count; i++)
        if (grammar_schema_equal(&list->items[i], value))
            return true;
    return false;
}

static bool fits_keywords(struct grammar_build *b, const struct schema_words *w,
                          const struct lr_json *value)
{
    struct schema_words only_type = {0};
    only_type.at[WORD_TYPE] = w->at[WORD_TYPE];
    if ((grammar_schema_types(b, &only_type) & grammar_schema_type_of(value)) == 0 ||
        !is_among(w, value))
        return false;
    if (w->at[WORD_UNEVALUATED_ITEMS] != NULL || w->at[WORD_UNEVALUATED_PROPERTIES] != NULL)
        if (value->type >= LR_JSON_ARRAY)
            grammar_schema_unsupported(
                b, "\"unevaluatedProperties\" and \"unevaluatedItems\" beside "
                   "given values");
    switch (value->type) {
    case LR_JSON_STRING:
        return fits_string(b, w, value->text);
    case LR_JSON_NUMBER:
        return fits_number(b, w, value->text);
    case LR_JSON_ARRAY:
        return fits_array(b, w, value);
    case LR_JSON_OBJECT:
        return fits_object(b, w, value);
    default:
        return true;
    }
}

bool grammar_schema_fits(struct grammar_build *b, const struct lr_json *node,
                         const struct lr_json *value)
{
    struct schema_words w;
    if (node->type == LR_JSON_BOOL)
        return node->boolean;
    if (node->type != LR_JSON_OBJECT || !grammar_charge(b, WORK) || b->fit_depth > DEPTH_MAX) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "a schema must be an object, not %s",
                     lr_json_type_name(node->type));
        return false;
    }
    grammar_schema_words_of(node, &w);
    if (w.count == 0)
        return true;
    b->fit_depth++;
    bool fits = fits_applied(b, &w, value) &&
                (grammar_schema_is_only_ref(b, &w) || fits_keywords(b, &w, value));
    b->fit_depth--;
    return fits && b->code == LR_OK;
}

bool grammar_schema_fits_part(struct grammar_build *b, const struct schema_part *part,
                              const struct lr_json *value)
{
    struct schema_words w, one = {0};
    const struct lr_json *member;
    switch (part->kind) {
    case PART_IS:
        return grammar_schema_fits(b, part->node, value);
    case PART_NOT:
        return !grammar_schema_fits(b, part->node, value);
    case PART_BREAKS:
        grammar_schema_words_of(part->node, &w);
        one.at[part->word] = w.at[part->word];
        if (part->word == WORD_MINIMUM)
            one.at[WORD_EXCLUSIVE_MINIMUM] = w.at[WORD_EXCLUSIVE_MINIMUM];
        if (part->word == WORD_MAXIMUM)
            one.at[WORD_EXCLUSIVE_MAXIMUM] = w.at[WORD_EXCLUSIVE_MAXIMUM];
        return !fits_keywords(b, &one, value);
    case PART_NEEDS:
        return value->type == LR_JSON_OBJECT && lr_json_get_str(value, part->name) != NULL;
    case PART_LACKS:
        return value->type != LR_JSON_OBJECT || lr_json_get_str(value, part->name) == NULL;
    case PART_NEEDS_NOT:
        member = lr_json_get_str(value, part->name);
        return member != NULL && !grammar_schema_fits(b, part->node, member);
    case PART_ITEM_NOT:
        return value->type == LR_JSON_ARRAY && value->count > part->place &&
               !grammar_schema_fits(b, part->node, &value->items[part->place]);
    case PART_SOME_NOT:
        for (uint32_t i = 0; value->type == LR_JSON_ARRAY && i < value->count; i++)
            if (!grammar_schema_fits(b, part->node, &value->items[i]))
                return true;
        return false;
    case PART_TRACE:
        break;
    }
    return true;
}
