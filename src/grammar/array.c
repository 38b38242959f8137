/* grammar/array.c - see grammar/schema.h: arrays of an alternative.
 *
 * The first items have schemas of their own, those after them share one.  Counts that matter
 * are kept in the set of the array, so bounds cost no steps.
 */
#include <stdlib.h>

#include "grammar/schema.h"

enum { PREFIX_MAX = 1024, CONTAINS_MAX = 64 };

struct array {
    struct grammar_build *b;
    const struct schema_alternative *a;
    uint32_t min, max;
    uint32_t prefix; /* items with a schema of their own */
    bool unique;
    bool has_contains;
    struct schema_part contains;
    uint32_t min_contains, max_contains;
};

static void set_contains(struct array *r, struct schema_part part, uint32_t min, uint32_t max)
{
    if (r->has_contains)
        grammar_schema_unsupported(r->b, "more than one \"contains\" for an array");
    r->has_contains = true;
    r->contains = part;
    r->min_contains = min;
    r->max_contains = max;
}

static void read_contains(struct array *r, const struct schema_words *w)
{
    if (w->at[WORD_CONTAINS] == NULL)
        return;
    uint32_t min = grammar_schema_count(r->b, w, WORD_MIN_CONTAINS, 1);
    uint32_t max = grammar_schema_count(r->b, w, WORD_MAX_CONTAINS, GRAMMAR_UNBOUNDED);
    if (min != 0 || max != GRAMMAR_UNBOUNDED)
        set_contains(r, (struct schema_part){.kind = PART_IS, .node = w->at[WORD_CONTAINS]},
                     min, max);
}

static void array_read_part(struct array *r, const struct schema_part *p)
{
    struct grammar_build *b = r->b;
    struct schema_words w;
    uint32_t n;
    if (p->kind == PART_ITEM_NOT) {
        r->min = p->place + 1 > r->min ? p->place + 1 : r->min;
        r->prefix = p->place + 1 > r->prefix ? p->place + 1 : r->prefix;
    }
    if (p->kind == PART_SOME_NOT)
        set_contains(r, (struct schema_part){.kind = PART_NOT, .node = p->node}, 1,
                     GRAMMAR_UNBOUNDED);
    if (p->kind != PART_IS && p->kind != PART_BREAKS)
        return;
    grammar_schema_words_of(p->node, &w);
    if (p->kind == PART_BREAKS) {
        bool counts = p->word == WORD_MIN_ITEMS || p->word == WORD_MAX_ITEMS;
        n = counts ? grammar_schema_count(b, &w, p->word, 0) : 0;
        if (p->word == WORD_MIN_ITEMS && n == 0)
            r->min = GRAMMAR_UNBOUNDED; /* nothing has fewer */
        else if (p->word == WORD_MIN_ITEMS)
            r->max = n - 1 < r->max ? n - 1 : r->max;
        else if (p->word == WORD_MAX_ITEMS)
            r->min = n + 1 > r->min ? n + 1 : r->min;
        else
            grammar_schema_refuse_values(b, p, TYPE_ARRAY);
        return;
    }
    n = grammar_schema_count(b, &w, WORD_MIN_ITEMS, 0);
    r->min = n > r->min ? n : r->min;
    n = grammar_schema_count(b, &w, WORD_MAX_ITEMS, GRAMMAR_UNBOUNDED);
    r->max = n < r->max ? n : r->max;
    const struct lr_json *prefix = grammar_schema_prefix(&w);
    if (prefix != NULL && (prefix->type != LR_JSON_ARRAY || prefix->count > PREFIX_MAX))
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"prefixItems\" must be a list of up to %d",
                     PREFIX_MAX);
    else if (prefix != NULL && prefix->count > r->prefix)
        r->prefix = prefix->count;
    bool unique = false;
    r->unique = r->unique || (lr_json_bool(w.at[WORD_UNIQUE_ITEMS], &unique) && unique);
    read_contains(r, &w);
}

static const struct lr_json *schema_at(const struct schema_words *w, uint32_t place)
{
    const struct lr_json *prefix = grammar_schema_prefix(w);
    return lr_json_is(prefix, LR_JSON_ARRAY) && place < prefix->count ? &prefix->items[place]
                                                                      : grammar_schema_rest(w);
}

/* No other schema that part number i sees says something about the item at this place. */
static bool is_unevaluated(const struct array *r, uint32_t i, uint32_t place)
{
    for (uint32_t k = 0; k < r->a->count; k++) {
        struct schema_words w;
        if (r->a->parts[k].kind != PART_IS || !grammar_schema_is_below(r->a, k, i))
            continue;
        grammar_schema_words_of(r->a->parts[k].node, &w);
        if (w.at[WORD_CONTAINS] != NULL)
            grammar_schema_unsupported(r->b, "\"unevaluatedItems\" beside \"contains\"");
        if (schema_at(&w, place) != NULL || (k != i && w.at[WORD_UNEVALUATED_ITEMS] != NULL))
            return false;
    }
    return true;
}

/* Parts of the item at this place; false: no item may be there. */
static bool item_parts(const struct array *r, uint32_t place, struct schema_part *out,
                       uint32_t *count)
{
    *count = 0;
    for (uint32_t i = 0; i < r->a->count; i++) {
        const struct schema_part *p = &r->a->parts[i];
        struct schema_words w;
        if (p->kind == PART_ITEM_NOT && p->place == place)
            out[(*count)++] = (struct schema_part){.kind = PART_NOT, .node = p->node};
        if (p->kind != PART_IS)
            continue;
        grammar_schema_words_of(p->node, &w);
        const struct lr_json *schema = schema_at(&w, place);
        if (w.at[WORD_UNEVALUATED_ITEMS] != NULL && is_unevaluated(r, i, place))
            schema = w.at[WORD_UNEVALUATED_ITEMS];
        if (schema == NULL)
            continue;
        if (schema->type == LR_JSON_BOOL && !schema->boolean)
            return false;
        out[(*count)++] = (struct schema_part){.kind = PART_IS, .node = schema};
    }
    return true;
}

static uint32_t comma(struct grammar_build *b, uint32_t item)
{
    return grammar_byte(b, ',', ',', grammar_space(b, item));
}

/* Items that differ are strings here, so that they can be told apart by their texts. */
static uint32_t unique_item(struct array *r, const struct schema_part *parts, uint32_t count,
                            uint32_t next, uint32_t *most)
{
    struct grammar_build *b = r->b;
    struct schema_alternatives all;
    struct dfa_text *t = grammar_schema_alloc(b, 1, sizeof(*t));
    grammar_schema_expand(b, parts, count, TYPE_ANY, &all);
    if (t == NULL || b->code != LR_OK)
        return 0;
    if (all.count != 1 || all.items[0].types != TYPE_STRING) {
        grammar_schema_unsupported(
            b, "\"uniqueItems\" where items may be something else than strings "
               "of one kind");
        return 0;
    }
    if (!grammar_schema_text_with_values(b, &all.items[0], t))
        return 0;
    const struct dfa *d = t->count != 0 || t->min != 0 || t->max != DFA_UNBOUNDED
                              ? grammar_schema_dfa(b, t)
                              : grammar_schema_any_dfa(b);
    if (d == NULL)
        return 0;
    *most = d->states == 0 ? 0 : d->words[0];
    return grammar_byte(b, '"', '"', grammar_key(b, d, NULL, 0, next));
}

/* The items that share a schema, from the first of them on; min, max: how many of them. */
static uint32_t loop(struct array *r, const struct schema_part *parts, uint32_t count,
                     uint32_t min, uint32_t max, uint32_t end)
{
    struct grammar_build *b = r->b;
    uint32_t most = GRAMMAR_UNBOUNDED, item, after = grammar_fork(b, 0, 0), counted = after;
    bool counts = !r->unique && (min > 1 || max != GRAMMAR_UNBOUNDED);
    if (counts) {
        counted = grammar_step(b, GRAMMAR_COUNT, after, max != GRAMMAR_UNBOUNDED ? max : min);
    }
    item = r->unique ? unique_item(r, parts, count, counted, &most)
                     : grammar_call(b, grammar_schema_rule(b, parts, count), counted);
    if (most < max)
        max = most;
    if (max < min || max == 0)
        return grammar_never(b);
    struct grammar_check more = {.max = max - 1, .rule = GRAMMAR_NO_RULE};
    struct grammar_check enough = {.min = min, .max = max, .rule = GRAMMAR_NO_RULE};
    uint32_t again = comma(b, item), close = end;
    if (max != GRAMMAR_UNBOUNDED)
        again = grammar_check(b, &more, again);
    if (min > 1)
        close = grammar_check(b, &enough, end);
    grammar_patch(b, after, again, close);
    return item;
}

/* ---- contains ---- */

/* Stage s: s items that fit "contains" have come.  From the last stage to the first. */
static uint32_t containing(struct array *r, struct schema_part *parts, uint32_t count,
                           uint32_t end)
{
    struct grammar_build *b = r->b;
    bool bounded = r->max_contains != GRAMMAR_UNBOUNDED;
    uint32_t last = bounded ? r->max_contains : r->min_contains;
    bool counts = r->min > 1 || r->max != GRAMMAR_UNBOUNDED;
    uint32_t cap = r->max != GRAMMAR_UNBOUNDED ? r->max : r->min;
    if (last > CONTAINS_MAX || r->prefix != 0 || r->unique) {
        grammar_schema_unsupported(
            b, "\"contains\" with such bounds, or beside \"prefixItems\" or "
               "\"uniqueItems\"");
        return 0;
    }
    if (last < r->min_contains || r->min_contains > r->max)
        return grammar_never(b);
    parts[count] = r->contains;
    uint32_t match = grammar_schema_rule(b, parts, count + 1);
    parts[count].kind = PART_NOT; /* needed for "contains" itself only */
    uint32_t other = bounded ? grammar_schema_rule(b, parts, count + 1)
                             : grammar_schema_rule(b, parts, count);
    uint32_t first = 0, next_after = 0;
    for (uint32_t s = last + 1; s-- > 0 && b->code == LR_OK;) {
        uint32_t needed = s < r->min_contains ? r->min_contains - s : 0;
        uint32_t after = grammar_fork(b, 0, 0), begin;
        uint32_t counted = counts ? grammar_step(b, GRAMMAR_COUNT, after, cap) : after;
        uint32_t one = grammar_call(b, other, counted);
        struct grammar_check room = {.rule = GRAMMAR_NO_RULE};
        if (r->max != GRAMMAR_UNBOUNDED) {
            room.max = r->max - needed - 1;
            one = r->max > needed ? grammar_check(b, &room, one) : grammar_never(b);
        }
        begin = one;
        if (s < last) {
            uint32_t to = counts ? grammar_step(b, GRAMMAR_COUNT, next_after, cap) : next_after;
            uint32_t hit = grammar_call(b, match, to);
            struct grammar_check left = {.max = r->max - (needed > 1 ? needed : 1),
                                         .rule = GRAMMAR_NO_RULE};
            if (r->max != GRAMMAR_UNBOUNDED)
                hit = grammar_check(b, &left, hit);
            begin = grammar_fork(b, one, hit);
        }
        struct grammar_check enough = {
            .min = r->min, .max = GRAMMAR_UNBOUNDED, .rule = GRAMMAR_NO_RULE};
        uint32_t close = needed != 0  ? grammar_never(b)
                         : r->min > 1 ? grammar_check(b, &enough, end)
                                      : end;
        struct grammar_check again = {.max = r->max - 1, .rule = GRAMMAR_NO_RULE};
        uint32_t more = comma(b, begin);
        if (r->max != GRAMMAR_UNBOUNDED)
            more = grammar_check(b, &again, more);
        grammar_patch(b, after, more, close);
        next_after = after;
        first = begin;
    }
    return first;
}

/* ---- the whole ---- */

static uint32_t array_compile(struct array *r, uint32_t next)
{
    struct grammar_build *b = r->b;
    struct schema_part *parts = grammar_schema_alloc(b, r->a->count + 2, sizeof(*parts));
    uint32_t count, close = grammar_byte(b, ']', ']', next), end = grammar_space(b, close);
    if (parts == NULL)
        return 0;
    uint32_t prefix = r->prefix < r->max ? r->prefix : r->max;
    /* Where the first place that takes no item is. */
    for (uint32_t i = 0; i < prefix; i++)
        if (!item_parts(r, i, parts, &count))
            prefix = r->max = i;
    bool rest = item_parts(r, r->prefix, parts, &count) && r->max > r->prefix;
    if (!rest && r->max > prefix)
        r->max = prefix;
    if (r->max < r->min)
        return grammar_never(b);
    if (r->max == 0 || (prefix == 0 && !rest)) {
        if (r->min > 0 || (r->has_contains && r->min_contains > 0))
            return grammar_never(b);
        return grammar_byte(b, '[', '[', grammar_space(b, close));
    }
    if (r->unique && r->max <= 1)
        r->unique = false;
    if (r->unique && prefix != 0)
        grammar_schema_unsupported(b, "\"uniqueItems\" beside \"prefixItems\"");
    if (r->has_contains) {
        uint32_t items = containing(r, parts, count, end);
        if (r->min == 0 && r->min_contains == 0)
            items = grammar_fork(b, items, close);
        return grammar_byte(b, '[', '[', grammar_space(b, items));
    }
    uint32_t more = 0;
    bool has_more = false;
    if (rest && r->max > prefix) {
        more = loop(r, parts, count, r->min > prefix ? r->min - prefix : 0,
                    r->max == GRAMMAR_UNBOUNDED ? r->max : r->max - prefix, end);
        has_more = true;
    }
    for (uint32_t i = prefix; i-- > 0 && b->code == LR_OK;) {
        bool may_end = i + 1 >= r->min;
        uint32_t after = has_more ? comma(b, more) : end;
        if (has_more && may_end)
            after = grammar_fork(b, after, end);
        (void)item_parts(r, i, parts, &count);
        more = grammar_call(b, grammar_schema_rule(b, parts, count), after);
        has_more = true;
    }
    if (r->min == 0)
        more = grammar_fork(b, more, close);
    return grammar_byte(b, '[', '[', grammar_space(b, more));
}

uint32_t grammar_schema_array(struct grammar_build *b, const struct schema_alternative *a,
                              uint32_t next)
{
    struct array r = {.b = b, .a = a, .max = GRAMMAR_UNBOUNDED};
    for (uint32_t i = 0; i < a->count && b->code == LR_OK; i++)
        array_read_part(&r, &a->parts[i]);
    return b->code == LR_OK ? array_compile(&r, next) : 0;
}
