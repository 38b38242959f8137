/* grammar/expand.c - see grammar/schema.h: the ways through a schema.
 *
 * What is certain is done first, choices are kept for the end; so a way that contradicts itself
 * ends early.  Lists are shared between ways and never changed.
 */
#include <stdlib.h>

#include "grammar/schema.h"

enum {
    ALTERNATIVES_MAX = 1024,
    DEPTH_MAX = 100,
    ONE_OF_MAX = 16,
    LIST_MAX = 1024,
    NUMBERS_MAX = 16,
    WATCHED_MAX = 4,
};

/* Something that has to hold, and what it came from. */
struct todo {
    const struct todo *next;
    struct schema_part part;
    const struct cell *above;
    uint32_t depth;
};

/* A part that is settled. */
struct cell {
    const struct cell *next;
    const struct cell *above;
    struct schema_part part;
    uint32_t index;
    bool watched; /* an "unevaluated..." keyword, here or above, sees which schemas fit */
};

/* One way of a choice: of these types, with more that has to hold. */
struct branch {
    uint32_t types;
    uint32_t count;
    struct schema_part *parts;
};

struct choice {
    const struct choice *next;
    struct branch *branches;
    uint32_t count;
    const struct cell *above;
    uint32_t depth;
    const struct lr_json *one_of; /* decided when the types are known; else NULL */
};

struct way {
    const struct todo *todo;
    const struct choice *choices;
    const struct cell *cells;
    uint32_t types;
};

struct expanding {
    struct grammar_build *b;
    struct schema_alternatives *out;
};

static void expand_walk(struct expanding *x, struct way w);

static struct schema_part expand_is(const struct lr_json *node)
{
    return (struct schema_part){.kind = PART_IS, .node = node};
}

static struct schema_part is_not(const struct lr_json *node)
{
    return (struct schema_part){.kind = PART_NOT, .node = node};
}

static void add_todo(struct expanding *x, struct way *w, struct schema_part part,
                     const struct cell *above, uint32_t depth)
{
    struct todo *t = grammar_schema_alloc(x->b, 1, sizeof(*t));
    if (t == NULL)
        return;
    *t = (struct todo){w->todo, part, above, depth};
    w->todo = t;
}

static bool is_watched(const struct cell *c)
{
    return c != NULL && c->watched;
}

static struct cell *add_cell(struct expanding *x, struct way *w, struct schema_part part,
                             const struct cell *above)
{
    struct cell *c = grammar_schema_alloc(x->b, 1, sizeof(*c));
    if (c == NULL)
        return NULL;
    *c = (struct cell){.next = w->cells,
                       .above = above,
                       .part = part,
                       .index = w->cells != NULL ? w->cells->index + 1 : 0,
                       .watched = is_watched(above)};
    w->cells = c;
    return c;
}

/* ---- choices ---- */

static struct choice *add_choice(struct expanding *x, struct way *w, uint32_t room,
                                 const struct cell *above, uint32_t depth)
{
    struct choice *c = grammar_schema_alloc(x->b, 1, sizeof(*c));
    if (c == NULL)
        return NULL;
    *c = (struct choice){.next = w->choices, .above = above, .depth = depth};
    c->branches = grammar_schema_alloc(x->b, room, sizeof(*c->branches));
    if (c->branches != NULL)
        w->choices = c;
    return c->branches != NULL ? c : NULL;
}

static struct branch *add_branch(struct expanding *x, struct choice *c, uint32_t types,
                                 uint32_t room)
{
    struct branch *one = &c->branches[c->count];
    *one = (struct branch){.types = types};
    one->parts = grammar_schema_alloc(x->b, room, sizeof(*one->parts));
    if (one->parts == NULL)
        return NULL;
    c->count++;
    return one;
}

/* A branch of one part. */
static void add_way(struct expanding *x, struct choice *c, uint32_t types,
                    struct schema_part part)
{
    struct branch *one = add_branch(x, c, types, 1);
    if (one != NULL)
        one->parts[one->count++] = part;
}

static bool is_list(struct grammar_build *b, const struct lr_json *list, const char *word)
{
    if (list->type == LR_JSON_ARRAY && list->count > 0 && list->count <= LIST_MAX)
        return true;
    grammar_fail(b, LR_INVALID_ARGUMENT, "\"%s\" must be a list of 1 to %d schemas", word,
                 LIST_MAX);
    return false;
}

/* Where it matters which of the schemas fit: those of each subset, and none of the others. */
static void choose_subset(struct expanding *x, struct way *w, const struct lr_json *list,
                          const struct cell *above, uint32_t depth)
{
    struct choice *c;
    if (list->count > WATCHED_MAX) {
        grammar_schema_unsupported(x->b, "\"anyOf\" of so many schemas beside "
                                         "\"unevaluatedProperties\" or \"unevaluatedItems\"");
        return;
    }
    if ((c = add_choice(x, w, 1u << list->count, above, depth)) == NULL)
        return;
    for (uint32_t subset = 1; subset < 1u << list->count; subset++) {
        struct branch *one = add_branch(x, c, TYPE_ANY, list->count);
        for (uint32_t i = 0; one != NULL && i < list->count; i++)
            one->parts[one->count++] =
                (subset >> i & 1) != 0 ? expand_is(&list->items[i]) : is_not(&list->items[i]);
    }
}

static void choose_any_of(struct expanding *x, struct way *w, const struct lr_json *list,
                          const struct cell *above, uint32_t depth)
{
    struct choice *c;
    if (!is_list(x->b, list, "anyOf"))
        return;
    if (is_watched(above) && !x->b->lenient) {
        choose_subset(x, w, list, above, depth);
        return;
    }
    if ((c = add_choice(x, w, list->count, above, depth)) == NULL)
        return;
    for (uint32_t i = 0; i < list->count; i++)
        add_way(x, c, TYPE_ANY, expand_is(&list->items[i]));
}

/* Item i, and none of the others unless they exclude each other anyway. */
static void settle_one_of(struct expanding *x, struct choice *c, uint32_t types)
{
    const struct lr_json *list = c->one_of;
    uint32_t first = 0, second = 0;
    bool excludes = grammar_schema_excludes(x->b, list, types, &first, &second);
    if (!excludes && list->count > ONE_OF_MAX && !x->b->lenient) {
        grammar_fail(x->b, LR_UNSUPPORTED,
                     "\"oneOf\" of more than %d schemas is supported where they exclude each "
                     "other by type, or by different constants of a property that both "
                     "require; numbers %u and %u may overlap: use \"anyOf\"",
                     ONE_OF_MAX, first + 1, second + 1);
        return;
    }
    c->branches = grammar_schema_alloc(x->b, list->count, sizeof(*c->branches));
    for (uint32_t i = 0; c->branches != NULL && i < list->count; i++) {
        struct branch *one = add_branch(x, c, TYPE_ANY, list->count);
        if (one == NULL)
            return;
        one->parts[one->count++] = expand_is(&list->items[i]);
        for (uint32_t k = 0; k < list->count && !excludes && !x->b->lenient; k++)
            if (k != i)
                one->parts[one->count++] = is_not(&list->items[k]);
    }
}

static void choose_one_of(struct expanding *x, struct way *w, const struct lr_json *list,
                          const struct cell *above, uint32_t depth)
{
    struct choice *c;
    if (is_list(x->b, list, "oneOf") && (c = add_choice(x, w, 1, above, depth)) != NULL)
        c->one_of = list;
}

static void choose_if(struct expanding *x, struct way *w, const struct schema_words *words,
                      const struct cell *above, uint32_t depth)
{
    const struct lr_json *then = words->at[WORD_THEN], *otherwise = words->at[WORD_ELSE];
    struct choice *c;
    bool matters = then != NULL || otherwise != NULL || is_watched(above);
    if (!matters || (c = add_choice(x, w, 2, above, depth)) == NULL)
        return;
    for (int yes = 1; yes >= 0; yes--) {
        const struct lr_json *more = yes ? then : otherwise;
        struct branch *one = add_branch(x, c, TYPE_ANY, 2);
        if (one == NULL)
            return;
        one->parts[one->count++] =
            yes ? expand_is(words->at[WORD_IF]) : is_not(words->at[WORD_IF]);
        if (more != NULL)
            one->parts[one->count++] = expand_is(more);
    }
}

/* The property is not there, or it is and what depends on it holds. */
static void choose_dependent(struct expanding *x, struct way *w, struct lr_str name,
                             const struct lr_json *what, const struct cell *above,
                             uint32_t depth)
{
    struct choice *c = add_choice(x, w, 2, above, depth);
    struct branch *one;
    bool names = what->type == LR_JSON_ARRAY;
    if (c == NULL)
        return;
    add_way(x, c, TYPE_ANY, (struct schema_part){.kind = PART_LACKS, .name = name});
    if ((one = add_branch(x, c, TYPE_OBJECT, 2 + (names ? what->count : 0))) == NULL)
        return;
    one->parts[one->count++] = (struct schema_part){.kind = PART_NEEDS, .name = name};
    if (!names)
        one->parts[one->count++] = expand_is(what);
    for (uint32_t i = 0; names && i < what->count; i++) {
        struct schema_part part = {.kind = PART_NEEDS};
        if (lr_json_str(&what->items[i], &part.name))
            one->parts[one->count++] = part;
    }
}

static void choose_dependents(struct expanding *x, struct way *w,
                              const struct schema_words *words, const struct cell *above,
                              uint32_t depth)
{
    static const enum schema_word from[] = {WORD_DEPENDENCIES, WORD_DEPENDENT_REQUIRED,
                                            WORD_DEPENDENT_SCHEMAS};
    for (size_t k = 0; k < sizeof(from) / sizeof(from[0]); k++) {
        const struct lr_json *map = words->at[from[k]];
        if (map == NULL)
            continue;
        if (map->type != LR_JSON_OBJECT) {
            grammar_fail(x->b, LR_INVALID_ARGUMENT, "\"%s\" must be an object",
                         grammar_schema_word_name(from[k]));
            return;
        }
        for (uint32_t i = map->count; i-- > 0;)
            choose_dependent(x, w, map->members[i].key, &map->members[i].value, above, depth);
    }
}

/* ---- what must not hold ---- */

static struct schema_part breaks(const struct lr_json *node, enum schema_word word)
{
    return (struct schema_part){.kind = PART_BREAKS, .node = node, .word = word};
}

/* Types that a list of values does not use up. */
static uint32_t types_beside(const struct lr_json *list, uint32_t count)
{
    uint32_t types = TYPE_ANY;
    for (uint32_t i = 0; i < count; i++)
        types &= ~(grammar_schema_type_of(&list[i]) & (TYPE_NULL | TYPE_TRUE | TYPE_FALSE));
    return types;
}

static int by_number(const void *a, const void *b)
{
    struct decimal x = {0}, y = {0};
    (void)grammar_decimal_of(((const struct lr_json *)a)->text, &x);
    (void)grammar_decimal_of(((const struct lr_json *)b)->text, &y);
    return grammar_decimal_compare(&x, &y);
}

/* A schema of ours: above one number, below the other, or both. */
static const struct lr_json *between(struct expanding *x, const struct lr_json *low,
                                     const struct lr_json *high)
{
    struct lr_json *node = grammar_schema_alloc(x->b, 1, sizeof(*node));
    struct lr_json_member *members = grammar_schema_alloc(x->b, 2, sizeof(*members));
    if (node == NULL || members == NULL)
        return NULL;
    *node = (struct lr_json){.type = LR_JSON_OBJECT, .members = members};
    if (low != NULL)
        members[node->count++] = (struct lr_json_member){LR_STR_LIT("exclusiveMinimum"), *low};
    if (high != NULL)
        members[node->count++] = (struct lr_json_member){LR_STR_LIT("exclusiveMaximum"), *high};
    return node;
}

/* Numbers that must not come leave the gaps between them. */
static void not_numbers(struct expanding *x, struct choice *c, const struct lr_json *list,
                        uint32_t count)
{
    struct lr_json *numbers = grammar_schema_alloc(x->b, count, sizeof(*numbers));
    uint32_t used = 0;
    for (uint32_t i = 0; numbers != NULL && i < count; i++)
        if (list[i].type == LR_JSON_NUMBER)
            numbers[used++] = list[i];
    if (numbers == NULL)
        return;
    if (used > NUMBERS_MAX) {
        grammar_schema_unsupported(x->b, "so many numbers that must not come (\"not\")");
        return;
    }
    qsort(numbers, used, sizeof(*numbers), by_number);
    for (uint32_t i = 0; i <= used; i++) {
        const struct lr_json *node =
            between(x, i > 0 ? &numbers[i - 1] : NULL, i < used ? &numbers[i] : NULL);
        if (node != NULL)
            add_way(x, c, TYPE_NUMBER, expand_is(node));
    }
}

static void not_list(struct expanding *x, struct choice *c, const struct lr_json *node,
                     enum schema_word word, const struct lr_json *list, uint32_t count)
{
    bool numbers = false;
    for (uint32_t i = 0; i < count; i++)
        numbers = numbers || list[i].type == LR_JSON_NUMBER;
    uint32_t types = types_beside(list, count);
    add_way(x, c, numbers ? types & ~(uint32_t)TYPE_NUMBER : types, breaks(node, word));
    if (numbers)
        not_numbers(x, c, list, count);
}

static void not_values(struct expanding *x, struct choice *c, const struct lr_json *node,
                       const struct schema_words *words)
{
    const struct lr_json *one = words->at[WORD_CONST], *list = words->at[WORD_ENUM];
    if (one != NULL)
        not_list(x, c, node, WORD_CONST, one, 1);
    if (lr_json_is(list, LR_JSON_ARRAY))
        not_list(x, c, node, WORD_ENUM, list->items, list->count);
}

static void not_counts(struct expanding *x, struct choice *c, const struct lr_json *node,
                       const struct schema_words *words)
{
    static const struct {
        enum schema_word word;
        uint32_t types;
    } list[] = {
        {WORD_MINIMUM, TYPE_NUMBER},           {WORD_MAXIMUM, TYPE_NUMBER},
        {WORD_EXCLUSIVE_MINIMUM, TYPE_NUMBER}, {WORD_EXCLUSIVE_MAXIMUM, TYPE_NUMBER},
        {WORD_MIN_LENGTH, TYPE_STRING},        {WORD_MAX_LENGTH, TYPE_STRING},
        {WORD_PATTERN, TYPE_STRING},           {WORD_FORMAT, TYPE_STRING},
        {WORD_MIN_ITEMS, TYPE_ARRAY},          {WORD_MAX_ITEMS, TYPE_ARRAY},
        {WORD_MIN_PROPERTIES, TYPE_OBJECT},    {WORD_MAX_PROPERTIES, TYPE_OBJECT},
    };
    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        const struct lr_json *v = words->at[list[i].word];
        struct lr_str name;
        if (v == NULL || v->type == LR_JSON_BOOL)
            continue;
        if (list[i].word == WORD_FORMAT &&
            (!lr_json_str(v, &name) || grammar_schema_format(x->b, name) == NULL))
            continue; /* always holds */
        add_way(x, c, list[i].types, breaks(node, list[i].word));
    }
}

static void not_properties(struct expanding *x, struct choice *c,
                           const struct schema_words *words)
{
    const struct lr_json *required = words->at[WORD_REQUIRED];
    const struct lr_json *properties = words->at[WORD_PROPERTIES];
    for (uint32_t i = 0; lr_json_is(required, LR_JSON_ARRAY) && i < required->count; i++) {
        struct schema_part part = {.kind = PART_LACKS};
        if (lr_json_str(&required->items[i], &part.name))
            add_way(x, c, TYPE_OBJECT, part);
    }
    for (uint32_t i = 0; lr_json_is(properties, LR_JSON_OBJECT) && i < properties->count; i++)
        add_way(x, c, TYPE_OBJECT,
                (struct schema_part){.kind = PART_NEEDS_NOT,
                                     .name = properties->members[i].key,
                                     .node = &properties->members[i].value});
}

static void not_items(struct expanding *x, struct choice *c, const struct schema_words *words)
{
    const struct lr_json *prefix = grammar_schema_prefix(words);
    const struct lr_json *rest = grammar_schema_rest(words);
    struct schema_part part = {.kind = PART_ITEM_NOT};
    for (; lr_json_is(prefix, LR_JSON_ARRAY) && part.place < prefix->count; part.place++) {
        part.node = &prefix->items[part.place];
        add_way(x, c, TYPE_ARRAY, part);
    }
    if (rest == NULL || (rest->type == LR_JSON_BOOL && rest->boolean))
        return;
    part.node = rest;
    if (rest->type != LR_JSON_BOOL && part.place != 0)
        grammar_schema_unsupported(x->b, "schemas for the first items and for those after them "
                                         "where the schema must not fit");
    else if (rest->type != LR_JSON_BOOL)
        part.kind = PART_SOME_NOT;
    add_way(x, c, TYPE_ARRAY, part);
}

static void not_all(struct expanding *x, struct choice *c, const struct lr_json *list)
{
    struct branch *one = add_branch(x, c, TYPE_ANY, list->count);
    for (uint32_t i = 0; one != NULL && i < list->count; i++)
        one->parts[one->count++] = is_not(&list->items[i]);
}

static void not_applied(struct expanding *x, struct choice *c, const struct schema_words *words)
{
    const struct lr_json *v;
    uint32_t first, second;
    if ((v = words->at[WORD_REF]) != NULL) {
        const struct lr_json *target = grammar_resolve(x->b, v);
        if (target != NULL)
            add_way(x, c, TYPE_ANY, is_not(target));
    }
    if ((v = words->at[WORD_NOT]) != NULL)
        add_way(x, c, TYPE_ANY, expand_is(v));
    if ((v = words->at[WORD_ANY_OF]) != NULL && is_list(x->b, v, "anyOf"))
        not_all(x, c, v);
    if ((v = words->at[WORD_ALL_OF]) != NULL && is_list(x->b, v, "allOf"))
        for (uint32_t i = 0; i < v->count; i++)
            add_way(x, c, TYPE_ANY, is_not(&v->items[i]));
    if ((v = words->at[WORD_ONE_OF]) != NULL && is_list(x->b, v, "oneOf")) {
        if (!grammar_schema_excludes(x->b, v, TYPE_ANY, &first, &second))
            grammar_schema_unsupported(x->b,
                                       "\"not\" around a \"oneOf\" whose schemas may overlap");
        else
            not_all(x, c, v);
    }
    for (int yes = 1; words->at[WORD_IF] != NULL && yes >= 0; yes--) {
        v = words->at[yes ? WORD_THEN : WORD_ELSE];
        struct branch *one = v != NULL ? add_branch(x, c, TYPE_ANY, 2) : NULL;
        if (one == NULL)
            continue;
        one->parts[one->count++] =
            yes ? expand_is(words->at[WORD_IF]) : is_not(words->at[WORD_IF]);
        one->parts[one->count++] = is_not(v);
    }
}

/* Keywords whose opposite is not supported. */
static void check_not(struct expanding *x, const struct schema_words *words)
{
    static const enum schema_word refused[] = {
        WORD_CONTAINS,          WORD_PATTERN_PROPERTIES,     WORD_ADDITIONAL_PROPERTIES,
        WORD_PROPERTY_NAMES,    WORD_UNIQUE_ITEMS,           WORD_DEPENDENCIES,
        WORD_MULTIPLE_OF,       WORD_DEPENDENT_REQUIRED,     WORD_DEPENDENT_SCHEMAS,
        WORD_UNEVALUATED_ITEMS, WORD_UNEVALUATED_PROPERTIES, WORD_DYNAMIC_REF,
        WORD_RECURSIVE_REF};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        const struct lr_json *v = words->at[refused[i]];
        if (v == NULL ||
            (v->type == LR_JSON_BOOL && v->boolean && refused[i] != WORD_UNIQUE_ITEMS))
            continue;
        grammar_fail(x->b, LR_UNSUPPORTED,
                     "\"%s\" where the schema must not fit (\"not\", \"if\", or a \"oneOf\" "
                     "that may overlap) is not supported",
                     grammar_schema_word_name(refused[i]));
    }
}

static bool forbid(struct expanding *x, struct way *w, const struct todo *t)
{
    const struct lr_json *node = t->part.node;
    struct schema_words words;
    if (node->type == LR_JSON_BOOL)
        return !node->boolean;
    if (node->type != LR_JSON_OBJECT) {
        grammar_fail(x->b, LR_INVALID_ARGUMENT, "a schema must be an object, not %s",
                     lr_json_type_name(node->type));
        return false;
    }
    grammar_schema_words_of(node, &words);
    if (grammar_schema_is_only_ref(x->b, &words)) {
        const struct lr_json *ref = words.at[WORD_REF];
        memset(&words, 0, sizeof(words));
        words.at[WORD_REF] = ref;
    }
    check_not(x, &words);
    uint32_t room = 40;
    for (uint32_t i = 0; i < WORD_COUNT; i++)
        room +=
            words.at[i] != NULL && words.at[i]->type >= LR_JSON_ARRAY ? words.at[i]->count : 0;
    /* What comes of a "not" tells "unevaluatedProperties" nothing: it is below nothing. */
    struct choice *c = add_choice(x, w, room, NULL, t->depth);
    if (c == NULL)
        return false;
    if (words.at[WORD_TYPE] != NULL) {
        struct schema_words only = {0};
        only.at[WORD_TYPE] = words.at[WORD_TYPE];
        (void)add_branch(x, c, TYPE_ANY & ~grammar_schema_types(x->b, &only), 1);
    }
    not_values(x, c, node, &words);
    not_counts(x, c, node, &words);
    not_properties(x, c, &words);
    not_items(x, c, &words);
    not_applied(x, c, &words);
    return x->b->code == LR_OK;
}

/* ---- what must hold ---- */

static bool is_above(const struct cell *c, const struct lr_json *node)
{
    for (; c != NULL; c = c->above)
        if (c->part.node == node)
            return true;
    return false;
}

static bool expand_is_settled(const struct way *w, const struct lr_json *node)
{
    for (const struct cell *c = w->cells; c != NULL; c = c->next)
        if (c->part.node == node && (c->part.kind == PART_IS || c->part.kind == PART_TRACE))
            return true;
    return false;
}

static void follow_ref(struct expanding *x, struct way *w, const struct lr_json *v,
                       const struct cell *above, uint32_t depth)
{
    const struct lr_json *target = grammar_resolve(x->b, v);
    if (target != NULL)
        add_todo(x, w, expand_is(target), above, depth);
}

static void add_applied(struct expanding *x, struct way *w, const struct schema_words *words,
                        const struct cell *cell, uint32_t depth)
{
    const struct lr_json *all = words->at[WORD_ALL_OF];
    if (words->at[WORD_NOT] != NULL)
        add_todo(x, w, is_not(words->at[WORD_NOT]), cell, depth);
    if (all != NULL && is_list(x->b, all, "allOf"))
        for (uint32_t i = all->count; i-- > 0;)
            add_todo(x, w, expand_is(&all->items[i]), cell, depth);
    if (words->at[WORD_REF] != NULL)
        follow_ref(x, w, words->at[WORD_REF], cell, depth);
    if (words->at[WORD_DEPENDENCIES] != NULL || words->at[WORD_DEPENDENT_REQUIRED] != NULL ||
        words->at[WORD_DEPENDENT_SCHEMAS] != NULL)
        choose_dependents(x, w, words, cell, depth);
    if (words->at[WORD_IF] != NULL)
        choose_if(x, w, words, cell, depth);
    if (words->at[WORD_ONE_OF] != NULL)
        choose_one_of(x, w, words->at[WORD_ONE_OF], cell, depth);
    if (words->at[WORD_ANY_OF] != NULL)
        choose_any_of(x, w, words->at[WORD_ANY_OF], cell, depth);
}

static bool demand(struct expanding *x, struct way *w, const struct todo *t)
{
    const struct lr_json *node = t->part.node;
    struct schema_words words;
    if (node->type == LR_JSON_BOOL)
        return node->boolean;
    if (node->type != LR_JSON_OBJECT) {
        grammar_fail(x->b, LR_INVALID_ARGUMENT, "a schema must be an object, not %s",
                     lr_json_type_name(node->type));
        return false;
    }
    if (is_above(t->above, node)) {
        grammar_fail(x->b, LR_INVALID_ARGUMENT,
                     "a $ref leads back to itself with nothing in between");
        return false;
    }
    if (expand_is_settled(w, node) && !is_watched(t->above))
        return true;
    grammar_schema_words_of(node, &words);
    if (words.count == 0)
        return true; /* annotations only */
    if (words.at[WORD_DYNAMIC_REF] != NULL || words.at[WORD_RECURSIVE_REF] != NULL)
        grammar_schema_unsupported(x->b, "\"$dynamicRef\"");
    struct schema_part part = t->part;
    if (grammar_schema_is_only_ref(x->b, &words)) {
        part.kind = PART_TRACE;
        const struct cell *cell = add_cell(x, w, part, t->above);
        follow_ref(x, w, words.at[WORD_REF], cell, t->depth + 1);
        return x->b->code == LR_OK;
    }
    struct cell *cell = add_cell(x, w, part, t->above);
    if (cell != NULL && (words.at[WORD_UNEVALUATED_PROPERTIES] != NULL ||
                         words.at[WORD_UNEVALUATED_ITEMS] != NULL))
        cell->watched = true;
    w->types &= grammar_schema_types(x->b, &words);
    add_applied(x, w, &words, cell, t->depth + 1);
    return x->b->code == LR_OK && w->types != 0;
}

/* ---- the way ---- */

static void emit(struct expanding *x, const struct way *w)
{
    struct schema_alternatives *out = x->out;
    struct grammar_build *b = x->b;
    if (out->count == ALTERNATIVES_MAX) {
        grammar_fail(b, LR_INVALID_ARGUMENT,
                     "the alternatives of a schema and those beside it combine in more than %d "
                     "ways",
                     ALTERNATIVES_MAX);
        return;
    }
    if (out->count == out->capacity) {
        uint32_t capacity = out->capacity != 0 ? 4 * out->capacity : 4;
        struct schema_alternative *grown = grammar_schema_alloc(b, capacity, sizeof(*grown));
        if (grown == NULL)
            return;
        if (out->count != 0)
            memcpy(grown, out->items, out->count * sizeof(*grown));
        out->items = grown;
        out->capacity = capacity;
    }
    struct schema_alternative *a = &out->items[out->count];
    a->types = w->types;
    a->count = w->cells != NULL ? w->cells->index + 1 : 0;
    a->parts = grammar_schema_alloc(b, a->count, sizeof(*a->parts));
    if (a->parts == NULL)
        return;
    for (const struct cell *c = w->cells; c != NULL; c = c->next) {
        a->parts[c->index] = c->part;
        a->parts[c->index].above = c->above != NULL ? c->above->index + 1 : 0;
    }
    out->count++;
}

static void branch(struct expanding *x, struct way w)
{
    struct choice c = *w.choices;
    w.choices = c.next;
    if (c.one_of != NULL)
        settle_one_of(x, &c, w.types);
    for (uint32_t i = 0; i < c.count && x->b->code == LR_OK; i++) {
        struct way one = w;
        const struct branch *way = &c.branches[i];
        one.types &= way->types;
        if (one.types == 0)
            continue;
        for (uint32_t k = way->count; k-- > 0;)
            add_todo(x, &one, way->parts[k], c.above, c.depth + 1);
        expand_walk(x, one);
    }
}

static void expand_walk(struct expanding *x, struct way w)
{
    while (w.todo != NULL && w.types != 0) {
        const struct todo *t = w.todo;
        w.todo = t->next;
        if (!grammar_charge(x->b, 4))
            return;
        if (t->depth > DEPTH_MAX) {
            grammar_fail(x->b, LR_INVALID_ARGUMENT,
                         "a $ref leads back to itself with nothing in between");
            return;
        }
        if (t->part.kind == PART_IS) {
            if (!demand(x, &w, t))
                return;
        } else if (t->part.kind == PART_NOT) {
            if (!x->b->lenient && !forbid(x, &w, t))
                return;
        } else {
            (void)add_cell(x, &w, t->part, t->above);
        }
    }
    if (w.types == 0 || x->b->code != LR_OK)
        return;
    if (w.choices != NULL)
        branch(x, w);
    else
        emit(x, &w);
}

bool grammar_schema_is_below(const struct schema_alternative *a, uint32_t part, uint32_t above)
{
    for (uint32_t at = part + 1; at != 0; at = a->parts[at - 1].above)
        if (at == above + 1)
            return true;
    return false;
}

void grammar_schema_expand(struct grammar_build *b, const struct schema_part *parts,
                           uint32_t count, uint32_t types, struct schema_alternatives *out)
{
    struct expanding x = {b, out};
    struct way w = {.types = types};
    *out = (struct schema_alternatives){0};
    for (uint32_t i = count; i-- > 0;)
        add_todo(&x, &w, parts[i], NULL, 0);
    if (b->code == LR_OK)
        expand_walk(&x, w);
}
