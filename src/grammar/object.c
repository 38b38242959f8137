/* grammar/object.c - see grammar/schema.h: objects of an alternative.
 *
 * Declared properties come in the order of the schema, optional ones may be left out; after
 * them come others, as far as they are allowed.  Names are told apart by the schemas they have
 * to fit: each pattern that a name matches adds one.  No name comes twice: those that were not
 * declared are kept in the set of the object.
 */
#include <stdlib.h>

#include "base/strmap.h"
#include "grammar/schema.h"

enum { PATTERNS_MAX = 12 };

struct property {
    struct lr_str key;
    bool required;
    bool forbidden;
    bool declared;  /* has its place in the order */
    uint32_t index; /* among those that come in any order, or GRAMMAR_NO_INDEX */
    uint32_t rule;
};

/* A pattern of "patternProperties", and the schema of each part that has it. */
struct pattern {
    struct lr_str text;
    const struct lr_json **schemas; /* by part; NULL: it does not have the pattern */
};

/* Names that are not declared and share a schema. */
struct cell {
    const struct dfa *dfa;
    uint32_t labels; /* the patterns that match */
    uint32_t rule;
};

struct object {
    struct grammar_build *b;
    const struct schema_alternative *a;
    struct schema_words *words; /* by part */
    struct property *list;
    uint32_t count, room;
    uint32_t *slots; /* of properties by name */
    uint32_t slot_count;
    struct pattern patterns[PATTERNS_MAX];
    uint32_t pattern_count;
    struct cell cells[DFA_RESULTS_MAX];
    uint32_t cell_count;
    bool names; /* "propertyNames" says something */
    uint32_t min, max;
    uint64_t open_names;       /* how many there are that are not declared; UNBOUNDED or more */
    struct schema_part *parts; /* scratch */
};

/* ---- names ---- */

static struct property *property_of(struct object *o, struct lr_str key, bool declared)
{
    uint32_t at = (uint32_t)lr_hash(key) & (o->slot_count - 1);
    for (; o->slots[at] != 0; at = (at + 1) & (o->slot_count - 1))
        if (lr_str_eq(o->list[o->slots[at] - 1].key, key))
            return &o->list[o->slots[at] - 1];
    o->list[o->count] =
        (struct property){.key = key, .declared = declared, .index = GRAMMAR_NO_INDEX};
    o->slots[at] = ++o->count;
    return &o->list[o->count - 1];
}

static bool grammar_object_make_room(struct object *o)
{
    uint64_t room = 1;
    for (uint32_t i = 0; i < o->a->count; i++) {
        const struct lr_json *properties = o->words[i].at[WORD_PROPERTIES];
        const struct lr_json *required = o->words[i].at[WORD_REQUIRED];
        if (properties != NULL && properties->type != LR_JSON_OBJECT)
            grammar_fail(o->b, LR_INVALID_ARGUMENT, "\"properties\" must be an object");
        if (required != NULL && required->type != LR_JSON_ARRAY &&
            required->type != LR_JSON_BOOL)
            grammar_fail(o->b, LR_INVALID_ARGUMENT, "\"required\" must be a list of names");
        room += 1 + (lr_json_is(properties, LR_JSON_OBJECT) ? properties->count : 0) +
                (lr_json_is(required, LR_JSON_ARRAY) ? required->count : 0);
    }
    if (room > 4 * GRAMMAR_PROPERTIES_MAX)
        grammar_fail(o->b, LR_INVALID_ARGUMENT, "an object may have %d properties",
                     GRAMMAR_PROPERTIES_MAX);
    if (o->b->code != LR_OK || !grammar_charge(o->b, (uint32_t)room))
        return false;
    o->room = (uint32_t)room;
    o->slot_count = 16;
    while (o->slot_count < 2 * o->room)
        o->slot_count *= 2;
    o->list = grammar_schema_alloc(o->b, o->room, sizeof(*o->list));
    o->slots = grammar_schema_alloc(o->b, o->slot_count, sizeof(*o->slots));
    return o->b->code == LR_OK;
}

static void read_names(struct object *o)
{
    for (uint32_t i = 0; i < o->a->count; i++) {
        const struct lr_json *properties = o->words[i].at[WORD_PROPERTIES];
        for (uint32_t k = 0; properties != NULL && k < properties->count; k++)
            (void)property_of(o, properties->members[k].key, true);
    }
    for (uint32_t i = 0; i < o->a->count; i++) {
        const struct schema_part *p = &o->a->parts[i];
        const struct lr_json *required = o->words[i].at[WORD_REQUIRED];
        struct lr_str key;
        for (uint32_t k = 0; lr_json_is(required, LR_JSON_ARRAY) && k < required->count; k++) {
            if (!lr_json_str(&required->items[k], &key))
                grammar_fail(o->b, LR_INVALID_ARGUMENT, "\"required\" must be a list of names");
            else
                property_of(o, key, false)->required = true;
        }
        if (p->kind == PART_LACKS) {
            struct property *one = property_of(o, p->name, true);
            one->forbidden = one->declared = true;
        }
        if (p->kind == PART_NEEDS)
            property_of(o, p->name, false)->required = true;
        if (p->kind == PART_NEEDS_NOT) {
            struct property *one = property_of(o, p->name, true);
            one->required = one->declared = true;
        }
    }
}

static void read_counts(struct object *o)
{
    o->max = GRAMMAR_UNBOUNDED;
    for (uint32_t i = 0; i < o->a->count; i++) {
        const struct schema_part *p = &o->a->parts[i];
        const struct schema_words *w = &o->words[i];
        uint32_t min = 0, max = GRAMMAR_UNBOUNDED, n;
        if (p->kind == PART_IS) {
            min = grammar_schema_count(o->b, w, WORD_MIN_PROPERTIES, 0);
            max = grammar_schema_count(o->b, w, WORD_MAX_PROPERTIES, GRAMMAR_UNBOUNDED);
        } else if (p->kind == PART_BREAKS && p->word == WORD_MIN_PROPERTIES) {
            struct schema_words own;
            grammar_schema_words_of(p->node, &own);
            n = grammar_schema_count(o->b, &own, WORD_MIN_PROPERTIES, 0);
            min = n == 0 ? GRAMMAR_UNBOUNDED : 0;
            max = n != 0 ? n - 1 : max;
        } else if (p->kind == PART_BREAKS && p->word == WORD_MAX_PROPERTIES) {
            struct schema_words own;
            grammar_schema_words_of(p->node, &own);
            min = grammar_schema_count(o->b, &own, WORD_MAX_PROPERTIES, 0) + 1;
        } else if (p->kind == PART_BREAKS && (p->word == WORD_ENUM || p->word == WORD_CONST)) {
            grammar_schema_refuse_values(o->b, p, TYPE_OBJECT);
        }
        o->min = min > o->min ? min : o->min;
        o->max = max < o->max ? max : o->max;
    }
}

/* ---- patterns ---- */

static void read_patterns(struct object *o)
{
    for (uint32_t i = 0; i < o->a->count && o->b->code == LR_OK; i++) {
        const struct lr_json *map = o->words[i].at[WORD_PATTERN_PROPERTIES];
        o->names = o->names || o->words[i].at[WORD_PROPERTY_NAMES] != NULL;
        for (uint32_t k = 0; lr_json_is(map, LR_JSON_OBJECT) && k < map->count; k++) {
            uint32_t at = 0;
            while (at < o->pattern_count &&
                   !lr_str_eq(o->patterns[at].text, map->members[k].key))
                at++;
            if (at == PATTERNS_MAX) {
                grammar_schema_unsupported(o->b, "\"patternProperties\" of so many patterns");
                return;
            }
            if (at == o->pattern_count) {
                o->patterns[at].text = map->members[k].key;
                o->patterns[at].schemas =
                    grammar_schema_alloc(o->b, o->a->count, sizeof(*o->patterns[at].schemas));
                if (o->patterns[at].schemas == NULL)
                    return;
                o->pattern_count++;
            }
            o->patterns[at].schemas[i] = &map->members[k].value;
        }
    }
}

static uint32_t labels_of(struct object *o, struct lr_str key)
{
    uint32_t labels = 0;
    for (uint32_t i = 0; i < o->pattern_count && o->b->code == LR_OK; i++)
        labels |= grammar_schema_finds(o->b, o->patterns[i].text, key) ? 1u << i : 0;
    return labels;
}

/* ---- the schemas of a name ---- */

/* A part says something about the name: its neighbours' "unevaluatedProperties" does not. */
static bool says(const struct object *o, uint32_t part, const struct lr_str *key,
                 uint32_t labels)
{
    const struct schema_words *w = &o->words[part];
    if ((key != NULL && lr_json_get_str(w->at[WORD_PROPERTIES], *key) != NULL) ||
        w->at[WORD_ADDITIONAL_PROPERTIES] != NULL)
        return true;
    for (uint32_t i = 0; i < o->pattern_count; i++)
        if ((labels >> i & 1) != 0 && o->patterns[i].schemas[part] != NULL)
            return true;
    return false;
}

static bool grammar_object_add(struct object *o, const struct lr_json *schema, uint32_t *count)
{
    if (schema->type == LR_JSON_BOOL && !schema->boolean)
        return false;
    for (uint32_t i = 0; i < *count; i++)
        if (o->parts[i].node == schema)
            return true;
    o->parts[(*count)++] = (struct schema_part){.kind = PART_IS, .node = schema};
    return true;
}

static bool add_unevaluated(struct object *o, uint32_t part, const struct lr_str *key,
                            uint32_t labels, uint32_t *count)
{
    const struct lr_json *schema = o->words[part].at[WORD_UNEVALUATED_PROPERTIES];
    for (uint32_t i = 0; i < o->a->count; i++)
        if (o->a->parts[i].kind == PART_IS && grammar_schema_is_below(o->a, i, part) &&
            (says(o, i, key, labels) ||
             (i != part && o->words[i].at[WORD_UNEVALUATED_PROPERTIES] != NULL)))
            return true;
    return grammar_object_add(o, schema, count);
}

/* All that the value of a name has to fit; false: the name must not come.  key is NULL for a
 * name that is not declared. */
static bool value_parts(struct object *o, const struct lr_str *key, uint32_t labels,
                        uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < o->a->count; i++) {
        const struct schema_part *p = &o->a->parts[i];
        const struct schema_words *w = &o->words[i];
        bool known = false, ok = true;
        if (p->kind == PART_NEEDS_NOT && key != NULL && lr_str_eq(p->name, *key))
            o->parts[(*count)++] = (struct schema_part){.kind = PART_NOT, .node = p->node};
        if (p->kind != PART_IS)
            continue;
        const struct lr_json *own =
            key != NULL ? lr_json_get_str(w->at[WORD_PROPERTIES], *key) : NULL;
        if (own != NULL) {
            known = true;
            ok = grammar_object_add(o, own, count);
        }
        for (uint32_t k = 0; k < o->pattern_count && ok; k++)
            if ((labels >> k & 1) != 0 && o->patterns[k].schemas[i] != NULL) {
                known = true;
                ok = grammar_object_add(o, o->patterns[k].schemas[i], count);
            }
        if (!known && ok && w->at[WORD_ADDITIONAL_PROPERTIES] != NULL)
            ok = grammar_object_add(o, w->at[WORD_ADDITIONAL_PROPERTIES], count);
        if (ok && w->at[WORD_UNEVALUATED_PROPERTIES] != NULL)
            ok = add_unevaluated(o, i, key, labels, count);
        if (!ok)
            return false;
    }
    return true;
}

static bool is_good_name(struct object *o, struct lr_str key)
{
    const struct lr_json name = {.type = LR_JSON_STRING, .text = key};
    for (uint32_t i = 0; i < o->a->count && o->b->code == LR_OK; i++)
        if (o->words[i].at[WORD_PROPERTY_NAMES] != NULL &&
            !grammar_schema_fits(o->b, o->words[i].at[WORD_PROPERTY_NAMES], &name))
            return false;
    return true;
}

/* ---- names that are not declared ---- */

/* "strict" closes objects whose schemas do not speak about other names. */
static bool is_closed(const struct object *o)
{
    if (!o->b->strict)
        return false;
    for (uint32_t i = 0; i < o->a->count; i++)
        if (o->words[i].at[WORD_ADDITIONAL_PROPERTIES] != NULL ||
            o->words[i].at[WORD_PATTERN_PROPERTIES] != NULL ||
            o->words[i].at[WORD_UNEVALUATED_PROPERTIES] != NULL)
            return false;
    return true;
}

static bool add_name_demands(struct object *o, struct dfa_text *t)
{
    struct grammar_build *b = o->b;
    struct schema_alternatives all;
    uint32_t count = 0;
    for (uint32_t i = 0; i < o->a->count; i++)
        if (o->words[i].at[WORD_PROPERTY_NAMES] != NULL)
            o->parts[count++] = (struct schema_part){
                .kind = PART_IS, .node = o->words[i].at[WORD_PROPERTY_NAMES]};
    grammar_schema_expand(b, o->parts, count, TYPE_STRING, &all);
    if (all.count > 1)
        grammar_schema_unsupported(b, "alternatives in \"propertyNames\"");
    if (all.count == 0) {
        t->max = 0;
        t->min = 1; /* no name is good */
    }
    return b->code == LR_OK &&
           (all.count == 0 || grammar_schema_text_with_values(b, &all.items[0], t));
}

static void find_cells(struct object *o)
{
    struct grammar_build *b = o->b;
    struct dfa_text *t = grammar_schema_alloc(b, 1, sizeof(*t));
    struct dfa_result results[DFA_RESULTS_MAX];
    struct lr_error err = {0};
    uint32_t count = 0, labels = 0;
    if (t == NULL)
        return;
    t->max = DFA_UNBOUNDED;
    if (o->names && !add_name_demands(o, t))
        return;
    if (t->count + o->pattern_count + 1 > DFA_DEMANDS_MAX) {
        grammar_schema_unsupported(b, "so many patterns for the names of an object");
        return;
    }
    uint32_t first = t->count;
    for (uint32_t i = 0; i < o->pattern_count; i++) {
        lr_code code = grammar_regex_parse(&b->arena, o->patterns[i].text,
                                           &t->demands[t->count].pattern, &err);
        if (code != LR_OK) {
            grammar_fail(b, code, "\"patternProperties\": %s", err.text);
            return;
        }
        labels |= 1u << t->count;
        t->demands[t->count++].negative = false;
    }
    struct lr_str *taken = grammar_schema_alloc(b, o->count, sizeof(*taken));
    uint32_t used = 0;
    for (uint32_t i = 0; taken != NULL && i < o->count; i++)
        if (o->list[i].declared || o->list[i].forbidden)
            taken[used++] = o->list[i].key;
    if (used != 0) {
        t->demands[t->count].negative = true;
        t->demands[t->count].pattern =
            (struct regex_pattern){.tree = grammar_regex_of_texts(&b->arena, taken, used)};
        if (t->demands[t->count++].pattern.tree == NULL)
            grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    }
    if (b->code != LR_OK)
        return;
    if (t->min > t->max)
        return;
    lr_code code =
        grammar_dfa_build(&b->program->arena, t, labels, b->work, results, &count, &err);
    if (code != LR_OK) {
        grammar_fail(b, code, "%s", err.text);
        return;
    }
    for (uint32_t i = 0; i < count; i++)
        if (results[i].dfa->states != 0)
            o->cells[o->cell_count++] =
                (struct cell){.dfa = results[i].dfa, .labels = results[i].labels >> first};
}

/* Names and the rules of their values. */
static void open_up(struct object *o)
{
    struct grammar_build *b = o->b;
    uint32_t kept = 0, count;
    if (is_closed(o))
        return;
    if (o->pattern_count != 0 || o->names) {
        find_cells(o);
    } else {
        o->cells[0] = (struct cell){.dfa = grammar_schema_any_dfa(b)};
        o->cell_count = o->cells[0].dfa != NULL;
    }
    for (uint32_t i = 0; i < o->cell_count && b->code == LR_OK; i++) {
        struct cell c = o->cells[i];
        if (!value_parts(o, NULL, c.labels, &count))
            continue;
        c.rule = grammar_schema_rule(b, o->parts, count);
        o->open_names += c.dfa->words[0];
        o->cells[kept++] = c;
    }
    o->cell_count = kept;
}

/* The properties with a place in the order; false: a required one cannot come. */
static bool settle_properties(struct object *o)
{
    struct grammar_build *b = o->b;
    bool ordered = o->max != GRAMMAR_UNBOUNDED || is_closed(o);
    for (uint32_t i = 0; i < o->count && b->code == LR_OK; i++) {
        struct property *p = &o->list[i];
        uint32_t count;
        p->declared = p->declared || ordered;
        if (!p->declared)
            continue;
        if (!p->forbidden)
            p->forbidden = !value_parts(o, &p->key, labels_of(o, p->key), &count) ||
                           (o->names && !is_good_name(o, p->key));
        if (p->forbidden && p->required)
            return false;
        if (!p->forbidden)
            p->rule = grammar_schema_rule(b, o->parts, count);
    }
    return b->code == LR_OK;
}

/* ---- steps ---- */

/* As it is written between quotes; of the program's memory. */
static struct lr_str written(struct grammar_build *b, struct lr_str key)
{
    struct lr_buf text;
    lr_buf_init(&text, 6 * key.len + 16);
    lr_json_quote(&text, key);
    char *copy = text.failed ? NULL : lr_arena_copy(&b->program->arena, lr_buf_str(&text));
    struct lr_str result = copy != NULL ? lr_str(copy + 1, text.len - 2) : (struct lr_str){0};
    if (copy == NULL)
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    lr_buf_free(&text);
    return result;
}

static uint32_t colon(struct grammar_build *b, uint32_t value)
{
    return grammar_byte(b, ':', ':', grammar_space(b, value));
}

static uint32_t comma(struct grammar_build *b, uint32_t more)
{
    return grammar_byte(b, ',', ',', grammar_space(b, more));
}

static struct grammar_name grammar_object_name_of(struct grammar_build *b,
                                                  const struct property *p)
{
    struct lr_str text = written(b, p->key);
    return (struct grammar_name){text, grammar_name_hash(text), p->index, p->rule, NULL};
}

/* The names that are not declared. */
static struct grammar_name name_of_cell(const struct cell *c)
{
    return (struct grammar_name){.index = GRAMMAR_NO_INDEX, .rule = c->rule, .dfa = c->dfa};
}

/* What an object needs before it may end. */
static uint32_t check_end(struct object *o, bool counted, bool any_order, uint32_t close)
{
    struct grammar_build *b = o->b;
    struct grammar_check end = {.max = GRAMMAR_UNBOUNDED, .rule = GRAMMAR_NO_RULE};
    struct grammar_name *names =
        lr_arena_array(&b->program->arena, o->count + 1, sizeof(*names));
    bool needed = counted;
    if (names == NULL) {
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
        return 0;
    }
    end.names = names;
    for (uint32_t i = 0; i < o->count; i++) {
        const struct property *p = &o->list[i];
        if ((p->declared && !any_order) || p->forbidden || !p->required)
            continue;
        names[end.name_count++] = grammar_object_name_of(b, p);
        needed = true;
        struct grammar_check height = {.max = GRAMMAR_UNBOUNDED, .rule = p->rule};
        close = grammar_check(b, &height, close);
    }
    if (counted) {
        end.min = o->min;
        end.max = o->max;
        for (uint32_t i = 0; i < o->cell_count && o->min > 1; i++) {
            struct grammar_check height = {.max = GRAMMAR_UNBOUNDED, .rule = o->cells[i].rule};
            close = grammar_check(b, &height, close);
        }
    }
    return needed ? grammar_check(b, &end, close) : close;
}

static int grammar_object_by_text(const void *a, const void *b)
{
    return lr_str_cmp(*(const struct lr_str *)a, *(const struct lr_str *)b);
}

static const struct lr_str *list_taken(struct object *o, uint32_t *count)
{
    struct grammar_build *b = o->b;
    struct lr_str *list = lr_arena_array(&b->program->arena, o->count + 1, sizeof(*list));
    *count = 0;
    if (list == NULL) {
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
        return NULL;
    }
    for (uint32_t i = 0; i < o->count; i++)
        if (o->list[i].declared || o->list[i].forbidden)
            list[(*count)++] = written(b, o->list[i].key);
    qsort(list, *count, sizeof(*list), grammar_object_by_text);
    return list;
}

/* Where a property may begin: as the first one, or after the value of another one, with the
 * comma.  Conditions stand before the comma, because a comma needs a property after it. */
struct begin {
    uint32_t first, next;
};

/* A name that is not declared and its value; *after: what may follow the value. */
static struct begin compile_open(struct object *o, uint32_t end, uint32_t *after)
{
    struct grammar_build *b = o->b;
    uint32_t keys = 0, taken_count = 0;
    bool by_list = o->pattern_count == 0 && !o->names;
    const struct lr_str *taken = by_list ? list_taken(o, &taken_count) : NULL;
    struct grammar_name *left =
        lr_arena_array(&b->program->arena, o->cell_count, sizeof(*left));
    if (left == NULL)
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    *after = grammar_fork(b, 0, 0);
    for (uint32_t i = 0; i < o->cell_count && b->code == LR_OK; i++) {
        left[i] = name_of_cell(&o->cells[i]);
        uint32_t value = colon(b, grammar_call(b, o->cells[i].rule, *after));
        uint32_t key = grammar_key(b, o->cells[i].dfa, taken, taken_count, value);
        keys = i == 0 ? key : grammar_fork(b, keys, key);
    }
    keys = grammar_byte(b, '"', '"', keys);
    const struct grammar_check room = {.max = o->max != GRAMMAR_UNBOUNDED ? o->max - 1 : o->max,
                                       .left = left,
                                       .left_count = o->cell_count,
                                       .rule = GRAMMAR_NO_RULE};
    struct begin open = {grammar_check(b, &room, keys),
                         grammar_check(b, &room, comma(b, keys))};
    grammar_patch(b, *after, open.next, end);
    return open;
}

static uint32_t compile_property(struct object *o, const struct property *p, bool counted,
                                 uint32_t after)
{
    struct grammar_build *b = o->b;
    uint32_t cap = o->max != GRAMMAR_UNBOUNDED ? o->max : o->min;
    if (counted)
        after = grammar_step(b, GRAMMAR_COUNT, after, cap);
    struct lr_buf key;
    lr_buf_init(&key, 6 * p->key.len + 16);
    lr_json_quote(&key, p->key);
    if (key.failed)
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    uint32_t at =
        grammar_literal(b, lr_buf_str(&key), colon(b, grammar_call(b, p->rule, after)));
    lr_buf_free(&key);
    return at;
}

/* The beginning of a property where counts matter: those before it leave it room, together with
 * `required` ones after it, and the `possible` ones from it on are enough. */
static struct begin begin_counted(struct object *o, uint32_t property, uint32_t required,
                                  uint64_t possible)
{
    struct grammar_build *b = o->b;
    uint64_t need = (uint64_t)required + 1;
    struct grammar_check room = {.max = GRAMMAR_UNBOUNDED, .rule = GRAMMAR_NO_RULE};
    if (o->max < need)
        return (struct begin){grammar_never(b), grammar_never(b)};
    if (o->max != GRAMMAR_UNBOUNDED)
        room.max = (uint32_t)(o->max - need);
    room.min = o->min > possible ? (uint32_t)(o->min - possible) : 0;
    return (struct begin){grammar_check(b, &room, property),
                          grammar_check(b, &room, comma(b, property))};
}

/* From the last property to the first.  `more` is where a further property may begin, `after`
 * what may follow a value. */
static uint32_t compile_ordered(struct object *o, struct property *const *list, uint32_t count,
                                bool counted, uint32_t next)
{
    struct grammar_build *b = o->b;
    uint32_t close = check_end(o, counted, false, grammar_byte(b, '}', '}', next));
    uint32_t spaced =
        check_end(o, counted, false, grammar_space(b, grammar_byte(b, '}', '}', next)));
    uint32_t after = spaced, required = 0;
    struct begin more = {0}, one;
    bool has_more = o->cell_count != 0, can_close = true;
    uint64_t possible = o->open_names;
    if (has_more)
        more = compile_open(o, spaced, &after);
    for (uint32_t i = count; i-- > 0 && b->code == LR_OK;) {
        uint32_t property = compile_property(o, list[i], counted, after);
        bool alone = list[i]->required || !has_more;
        possible++;
        if (counted) {
            one = begin_counted(o, property, required, possible);
            more.first = alone ? one.first : grammar_fork(b, one.first, more.first);
            more.next = alone ? one.next : grammar_fork(b, one.next, more.next);
        } else {
            more.first = alone ? property : grammar_fork(b, property, more.first);
            more.next = comma(b, more.first);
        }
        has_more = true;
        can_close = can_close && !list[i]->required;
        required += list[i]->required;
        after = can_close ? grammar_fork(b, more.next, spaced) : more.next;
    }
    uint32_t inside = !has_more   ? close
                      : can_close ? grammar_fork(b, more.first, close)
                                  : more.first;
    return grammar_byte(b, '{', '{', grammar_space(b, inside));
}

/* ---- properties in any order ---- */

/* A property that has not come yet, and its value. */
static uint32_t compile_unordered(struct object *o, const struct property *p,
                                  const struct grammar_name *name, uint32_t after)
{
    struct grammar_build *b = o->b;
    const struct grammar_check absent = {
        .max = GRAMMAR_UNBOUNDED, .absent = name, .rule = GRAMMAR_NO_RULE};
    struct lr_buf key;
    lr_buf_init(&key, 6 * p->key.len + 16);
    lr_json_quote(&key, p->key);
    if (key.failed)
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    uint32_t value = colon(b, grammar_call(b, p->rule, after));
    uint32_t at = grammar_literal(b, lr_buf_str(&key), grammar_add(b, name, value));
    lr_buf_free(&key);
    return grammar_check(b, &absent, at);
}

static uint32_t compile_any_order(struct object *o, struct property *const *list,
                                  uint32_t count, uint32_t next)
{
    struct grammar_build *b = o->b;
    struct grammar_name *names =
        lr_arena_array(&b->program->arena, (size_t)count + o->cell_count, sizeof(*names));
    for (uint32_t i = 0; i < count; i++)
        list[i]->index = i;
    uint32_t close = check_end(o, false, true, grammar_byte(b, '}', '}', next));
    uint32_t spaced =
        check_end(o, false, true, grammar_space(b, grammar_byte(b, '}', '}', next)));
    uint32_t after = grammar_fork(b, 0, 0), keys = 0, taken_count = 0;
    if (names == NULL)
        grammar_fail(b, LR_OUT_OF_RAM, "no memory for a grammar");
    bool by_list = o->pattern_count == 0 && !o->names;
    const struct lr_str *taken = by_list ? list_taken(o, &taken_count) : NULL;
    if (b->code != LR_OK)
        return 0;
    for (uint32_t i = 0; i < o->cell_count; i++) {
        uint32_t value = colon(b, grammar_call(b, o->cells[i].rule, after));
        uint32_t key = grammar_byte(b, '"', '"',
                                    grammar_key(b, o->cells[i].dfa, taken, taken_count, value));
        names[i] = name_of_cell(&o->cells[i]);
        keys = i == 0 ? key : grammar_fork(b, keys, key);
    }
    for (uint32_t i = count; i-- > 0 && b->code == LR_OK;) {
        struct grammar_name *name = &names[o->cell_count + i];
        *name = grammar_object_name_of(b, list[i]);
        uint32_t key = compile_unordered(o, list[i], name, after);
        keys = i + 1 == count && o->cell_count == 0 ? key : grammar_fork(b, key, keys);
    }
    const struct grammar_check left = {.max = GRAMMAR_UNBOUNDED,
                                       .left = names,
                                       .left_count = count + o->cell_count,
                                       .rule = GRAMMAR_NO_RULE};
    grammar_patch(b, after, grammar_check(b, &left, comma(b, keys)), spaced);
    return grammar_byte(b, '{', '{', grammar_space(b, grammar_fork(b, keys, close)));
}

/* Whether counts say more than the order does; the bounds are narrowed to what can be. */
static bool must_count(struct object *o, uint32_t count, uint32_t required, bool *never)
{
    uint64_t possible = count + o->open_names;
    if (o->open_names >= GRAMMAR_UNBOUNDED)
        possible = GRAMMAR_UNBOUNDED;
    *never = o->min > o->max || required > o->max || o->min > possible;
    if (o->min <= required)
        o->min = 0;
    if (o->max >= possible)
        o->max = GRAMMAR_UNBOUNDED;
    return o->min != 0 || o->max != GRAMMAR_UNBOUNDED;
}

static uint32_t grammar_object_compile(struct object *o, uint32_t next)
{
    struct grammar_build *b = o->b;
    struct property **list = grammar_schema_alloc(b, o->count, sizeof(*list));
    uint32_t count = 0, required = 0;
    bool never;
    for (uint32_t i = 0; list != NULL && i < o->count; i++) {
        struct property *p = &o->list[i];
        if (!p->declared && p->required && !p->forbidden) { /* some cell takes it */
            uint32_t k = 0;
            while (k < o->cell_count && !grammar_dfa_accepts(o->cells[k].dfa, DFA_RAW, p->key))
                k++;
            if (k == o->cell_count)
                return grammar_never(b);
            p->rule = o->cells[k].rule;
        }
        if (p->declared && !p->forbidden) {
            list[count++] = p;
            required += p->required;
        }
    }
    if (list == NULL || b->code != LR_OK)
        return 0;
    bool counted = must_count(o, count, required, &never);
    if (never)
        return grammar_never(b);
    if (o->max == 0) { /* only {} */
        o->cell_count = count = 0;
        counted = false;
    }
    if (counted && o->open_names != 0 && o->open_names < GRAMMAR_UNBOUNDED && count != 0) {
        grammar_schema_unsupported(
            b, "\"minProperties\" or \"maxProperties\" beside so few names");
        return 0;
    }
    bool endless = o->cell_count == 0 || o->open_names >= GRAMMAR_UNBOUNDED;
    if (!b->strict && !counted && count != 0 && endless)
        return compile_any_order(o, list, count, next);
    return compile_ordered(o, list, count, counted, next);
}

uint32_t grammar_schema_object(struct grammar_build *b, const struct schema_alternative *a,
                               uint32_t next)
{
    struct object *o = grammar_schema_alloc(b, 1, sizeof(*o));
    if (o == NULL)
        return 0;
    o->b = b;
    o->a = a;
    o->words = grammar_schema_alloc(b, a->count, sizeof(*o->words));
    o->parts = grammar_schema_alloc(
        b, 4 * (size_t)a->count + PATTERNS_MAX * (size_t)a->count + 4, sizeof(*o->parts));
    for (uint32_t i = 0; o->words != NULL && i < a->count; i++)
        if (a->parts[i].kind == PART_IS)
            grammar_schema_words_of(a->parts[i].node, &o->words[i]);
    if (b->code != LR_OK || !grammar_object_make_room(o))
        return 0;
    read_names(o);
    read_counts(o);
    read_patterns(o);
    if (b->code != LR_OK)
        return 0;
    if (!settle_properties(o))
        return b->code == LR_OK ? grammar_never(b) : 0;
    open_up(o);
    return b->code == LR_OK ? grammar_object_compile(o, next) : 0;
}
