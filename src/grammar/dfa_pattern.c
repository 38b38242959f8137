/* grammar/dfa_pattern.c - see grammar/dfa.h: a pattern as an automaton.
 *
 * Characters that no set tells apart are one class.  A pattern is laid out as places that are
 * waited at; a state of its automaton is a set of them.
 */
#include <stdlib.h>

#include "grammar/dfa_internal.h"

enum { PLACES_MAX = 1 << 15 };

/* ---- classes of characters ---- */

static uint32_t dfa_pattern_slot_of(const struct sets *s, const struct regex_set *set)
{
    uint64_t hash = (uint64_t)(uintptr_t)set->ranges * UINT64_C(0x9E3779B97F4A7C15);
    uint32_t at = (uint32_t)(hash >> 40) % (2 * s->max);
    while (s->slots[at] != 0 && s->items[s->slots[at] - 1]->ranges != set->ranges)
        at = (at + 1) % (2 * s->max);
    return at;
}

void grammar_dfa_gather(struct dfa_making *m, struct sets *s, const struct regex *r)
{
    for (; r != NULL && m->code == LR_OK; r = r->a) {
        if (r->op == REGEX_SET) {
            uint32_t at = dfa_pattern_slot_of(s, &r->set);
            if (s->slots[at] != 0)
                return;
            if (s->count == s->max) {
                grammar_dfa_too_large(m);
                return;
            }
            s->items[s->count++] = &r->set;
            s->slots[at] = s->count;
            return;
        }
        grammar_dfa_gather(m, s, r->b);
    }
}

static int by_code(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Ranges that every set has whole or not at all. */
static void cut_ranges(struct dfa_making *m, const struct sets *s)
{
    size_t total = 1;
    for (uint32_t i = 0; i < s->count; i++)
        total += 2 * (size_t)s->items[i]->count;
    uint32_t *cuts = grammar_dfa_scratch(m, total, sizeof(*cuts));
    if (cuts == NULL || !grammar_dfa_charge(m, total))
        return;
    size_t n = 0;
    cuts[n++] = 0;
    for (uint32_t i = 0; i < s->count; i++)
        for (uint32_t k = 0; k < s->items[i]->count; k++) {
            cuts[n++] = s->items[i]->ranges[k].low;
            if (s->items[i]->ranges[k].high < REGEX_CODE_MAX)
                cuts[n++] = s->items[i]->ranges[k].high + 1;
        }
    qsort(cuts, n, sizeof(*cuts), by_code);
    m->ranges = 0;
    for (size_t i = 0; i < n; i++)
        if (i == 0 || cuts[i] != cuts[i - 1])
            cuts[m->ranges++] = cuts[i];
    m->starts = cuts;
}

static uint32_t range_at(const struct dfa_making *m, uint32_t code)
{
    uint32_t low = 0, high = m->ranges;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (m->starts[middle] <= code)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Splits the classes by one set. */
static void dfa_pattern_split(struct dfa_making *m, const struct regex_set *set, uint8_t *in,
                              uint32_t *renamed)
{
    for (uint32_t i = 0; i < m->ranges; i++)
        in[i] = 0;
    for (uint32_t k = 0; k < set->count; k++)
        for (uint32_t i = range_at(m, set->ranges[k].low);
             i < m->ranges && m->starts[i] <= set->ranges[k].high; i++)
            in[i] = 1;
    uint32_t before = m->classes;
    for (uint32_t c = 0; c < before; c++)
        renamed[c] = UINT32_MAX;
    uint8_t *first = in + m->ranges; /* whether the first range of a class is in the set */
    for (uint32_t i = 0; i < m->ranges; i++) {
        uint32_t c = m->range_class[i];
        if (renamed[c] == UINT32_MAX) {
            renamed[c] = c;
            first[c] = in[i];
        } else if (in[i] != first[c]) {
            if (renamed[c] == c)
                renamed[c] = m->classes++;
            m->range_class[i] = (uint16_t)renamed[c];
        }
    }
}

void grammar_dfa_classify(struct dfa_making *m, struct sets *s)
{
    cut_ranges(m, s);
    if (m->code != LR_OK)
        return;
    m->range_class = grammar_dfa_scratch(m, m->ranges, sizeof(*m->range_class));
    uint8_t *in = grammar_dfa_scratch(m, 3 * (size_t)m->ranges, sizeof(*in));
    uint32_t *renamed = grammar_dfa_scratch(m, 2 * (size_t)m->ranges, sizeof(*renamed));
    if (m->code != LR_OK)
        return;
    memset(m->range_class, 0, m->ranges * sizeof(*m->range_class));
    m->classes = 1;
    for (uint32_t i = 0; i < s->count && grammar_dfa_charge(m, m->ranges); i++) {
        const struct regex_set *set = s->items[i];
        bool single = set->count == 1 && set->ranges[0].low == set->ranges[0].high &&
                      set->ranges[0].low < 128;
        if (!single || !s->single[set->ranges[0].low])
            dfa_pattern_split(m, set, in, renamed);
        if (single)
            s->single[set->ranges[0].low] = true;
    }
    for (uint32_t i = 0; i < s->count && grammar_dfa_charge(m, m->classes); i++) {
        const struct regex_set *set = s->items[i];
        uint8_t *has = grammar_dfa_scratch(m, m->classes, 1);
        if (has == NULL)
            return;
        memset(has, 0, m->classes);
        for (uint32_t k = 0; k < set->count; k++)
            for (uint32_t r = range_at(m, set->ranges[k].low);
                 r < m->ranges && m->starts[r] <= set->ranges[k].high; r++)
                has[m->range_class[r]] = 1;
        s->classes[i] = has;
    }
}

/* ---- a pattern as places ---- */

enum place_op { PLACE_SPLIT, PLACE_SET, PLACE_BEGIN, PLACE_END, PLACE_FOUND };

struct place {
    enum place_op op;
    uint32_t next, other;
    const uint8_t *classes;
};

struct places {
    struct dfa_making *m;
    const struct sets *sets;
    struct place *items;
    uint32_t count, capacity;
};

static uint32_t add_place(struct places *p, struct place place)
{
    if (p->count == p->capacity) {
        uint32_t capacity = p->capacity != 0 ? 2 * p->capacity : 64;
        struct place *grown =
            p->count < PLACES_MAX ? grammar_dfa_scratch(p->m, capacity, sizeof(*grown)) : NULL;
        if (grown == NULL) {
            grammar_dfa_too_large(p->m);
            return 0;
        }
        if (p->count != 0)
            memcpy(grown, p->items, p->count * sizeof(*grown));
        p->items = grown;
        p->capacity = capacity;
    }
    p->items[p->count] = place;
    return p->count++;
}

static uint32_t dfa_pattern_lay_out(struct places *p, const struct regex *r, uint32_t next);

static uint32_t lay_out_repeat(struct places *p, const struct regex *r, uint32_t next)
{
    uint32_t at = next;
    if (r->max == REGEX_ENDLESS) {
        at = add_place(p, (struct place){.op = PLACE_SPLIT, .other = next});
        uint32_t body = dfa_pattern_lay_out(p, r->a, at);
        if (p->m->code == LR_OK)
            p->items[at].next = body;
    }
    for (uint32_t i = r->min; r->max != REGEX_ENDLESS && i < r->max && p->m->code == LR_OK;
         i++) {
        uint32_t body = dfa_pattern_lay_out(p, r->a, at);
        at = add_place(p, (struct place){.op = PLACE_SPLIT, .next = body, .other = next});
    }
    for (uint32_t i = 0; i < r->min && p->m->code == LR_OK; i++)
        at = dfa_pattern_lay_out(p, r->a, at);
    return at;
}

static uint32_t split_place(struct places *p, uint32_t one, uint32_t two)
{
    return add_place(p, (struct place){.op = PLACE_SPLIT, .next = one, .other = two});
}

static uint32_t lay_out_one(struct places *p, const struct regex *r, uint32_t next)
{
    switch (r->op) {
    case REGEX_EMPTY:
        return next;
    case REGEX_REPEAT:
        return lay_out_repeat(p, r, next);
    case REGEX_SET: {
        const uint8_t *classes =
            p->sets->classes[p->sets->slots[dfa_pattern_slot_of(p->sets, &r->set)] - 1];
        return add_place(p, (struct place){.op = PLACE_SET, .next = next, .classes = classes});
    }
    case REGEX_BEGIN:
        return add_place(p, (struct place){.op = PLACE_BEGIN, .next = next});
    default:
        return add_place(p, (struct place){.op = PLACE_END, .next = next});
    }
}

/* Built from the end: gives the place to begin at.  Long sequences and lists of alternatives
 * lean to the left, where there is a loop and no recursion. */
static uint32_t dfa_pattern_lay_out(struct places *p, const struct regex *r, uint32_t next)
{
    while (r->op == REGEX_CAT && p->m->code == LR_OK) {
        next = dfa_pattern_lay_out(p, r->b, next);
        r = r->a;
    }
    if (p->m->code != LR_OK)
        return 0;
    if (r->op != REGEX_ALT)
        return lay_out_one(p, r, next);
    uint32_t all = dfa_pattern_lay_out(p, r->b, next);
    for (r = r->a; r->op == REGEX_ALT && p->m->code == LR_OK; r = r->a)
        all = split_place(p, dfa_pattern_lay_out(p, r->b, next), all);
    return split_place(p, dfa_pattern_lay_out(p, r, next), all);
}

/* ---- places to states: an automaton of one pattern ---- */

struct subsets {
    struct dfa_making *m;
    const struct places *places;
    uint32_t start;      /* the place a search begins at */
    struct automaton *a; /* the result */
    uint32_t *begins;    /* members of state i: lists[begins[i]..begins[i + 1]) */
    uint32_t *lists;     /* grows */
    size_t list_count, list_capacity;
    uint32_t *slots; /* of states by their members */
    uint32_t slot_count;
    uint32_t *mark; /* of places, by `epoch` */
    uint32_t epoch;
    uint32_t *stack;
    uint32_t *found; /* the members of the state in the making */
    uint32_t found_count;
    uint32_t *ends; /* ends of the text that were passed by */
    uint32_t end_count;
    bool accepts, always; /* where it ends, and whatever follows */
    /* The states of a search that begins at a later character are the same each time. */
    uint32_t *again;
    uint32_t again_count;
    bool again_accepts, again_always;
    uint64_t moves;
};

/* All places reached from `from` without a character. */
static void dfa_pattern_reach(struct subsets *s, uint32_t from, bool at_begin, bool at_end)
{
    const struct place *items = s->places->items;
    uint32_t count = 0;
    s->stack[count++] = from;
    while (count != 0) {
        uint32_t at = s->stack[--count];
        s->moves++;
        if (s->mark[at] == s->epoch)
            continue;
        s->mark[at] = s->epoch;
        switch (items[at].op) {
        case PLACE_SPLIT:
            s->stack[count++] = items[at].other;
            s->stack[count++] = items[at].next;
            break;
        case PLACE_SET:
            if (!at_end)
                s->found[s->found_count++] = at;
            break;
        case PLACE_BEGIN:
            if (at_begin)
                s->stack[count++] = items[at].next;
            break;
        case PLACE_END:
            if (at_end)
                s->stack[count++] = items[at].next;
            else
                s->ends[s->end_count++] = at;
            break;
        case PLACE_FOUND:
            s->accepts = true;
            s->always = s->always || !at_end;
            break;
        }
    }
}

/* The state whose members have been found. */
static uint32_t state_of(struct subsets *s)
{
    struct dfa_making *m = s->m;
    if (s->always)
        s->found_count = 0; /* found, whatever follows */
    qsort(s->found, s->found_count, sizeof(*s->found), by_code);
    /* A state that always accepts is told from one that accepts only here by `accept` 3. */
    uint8_t kind = s->always ? 3 : s->accepts ? 1 : 0;
    uint32_t at =
        grammar_dfa_hash_list(s->found, s->found_count, s->accepts) & (s->slot_count - 1);
    for (; s->slots[at] != 0; at = (at + 1) & (s->slot_count - 1)) {
        uint32_t i = s->slots[at] - 1;
        if (s->a->accept[i] == kind && s->begins[i + 1] - s->begins[i] == s->found_count &&
            (s->found_count == 0 || memcmp(s->lists + s->begins[i], s->found,
                                           s->found_count * sizeof(*s->found)) == 0))
            return i;
    }
    if (!grammar_dfa_reserve(m, s->a))
        return 0;
    s->lists = grammar_dfa_grow(m, s->lists, s->list_count, &s->list_capacity,
                                s->list_count + s->found_count);
    if (m->code != LR_OK)
        return 0;
    if (s->found_count != 0)
        memcpy(s->lists + s->list_count, s->found, s->found_count * sizeof(*s->found));
    s->list_count += s->found_count;
    uint32_t state = s->a->states++;
    s->begins[state + 1] = (uint32_t)s->list_count;
    s->a->accept[state] = kind;
    s->slots[at] = state + 1;
    return state;
}

/* Every end that was passed by is tried as the end of the text. */
static void end_of_text(struct subsets *s, bool at_begin)
{
    s->epoch++;
    for (uint32_t i = 0; i < s->end_count && !s->accepts; i++)
        dfa_pattern_reach(s, s->ends[i], at_begin, true);
    s->end_count = 0;
}

static void begin_again(struct subsets *s)
{
    for (uint32_t i = 0; i < s->again_count; i++)
        if (s->mark[s->again[i]] != s->epoch) {
            s->mark[s->again[i]] = s->epoch;
            s->found[s->found_count++] = s->again[i];
        }
    s->accepts = s->accepts || s->again_accepts;
    s->always = s->always || s->again_always;
}

static void fill_state(struct subsets *s, uint32_t state)
{
    struct dfa_making *m = s->m;
    uint32_t begin = s->begins[state], end = s->begins[state + 1];
    bool always = s->a->accept[state] == 3;
    for (uint32_t c = 0; c < m->classes && m->code == LR_OK; c++) {
        s->epoch += 2;
        s->found_count = 0;
        s->accepts = s->always = always;
        for (uint32_t i = begin; i < end && !always; i++) {
            const struct place *place = &s->places->items[s->lists[i]];
            if (place->classes[c])
                dfa_pattern_reach(s, place->next, false, false);
        }
        if (!always) {
            begin_again(s);
            end_of_text(s, false);
        }
        uint32_t to = state_of(s);
        s->a->next[(size_t)state * m->classes + c] = to;
    }
}

static void run_subsets(struct subsets *s)
{
    struct dfa_making *m = s->m;
    s->epoch = 2;
    dfa_pattern_reach(s, s->start, false, false);
    end_of_text(s, false);
    memcpy(s->again, s->found, s->found_count * sizeof(*s->again));
    s->again_count = s->found_count;
    s->again_accepts = s->accepts;
    s->again_always = s->always;
    s->found_count = 0;
    s->accepts = s->always = false;
    s->epoch += 2;
    dfa_pattern_reach(s, s->start, true, false);
    end_of_text(s, true);
    (void)state_of(s);
    for (uint32_t i = 0; i < s->a->states && m->code == LR_OK; i++) {
        if (!grammar_dfa_charge(
                m, (uint64_t)m->classes * (s->begins[i + 1] - s->begins[i] + 4) + s->moves))
            return;
        s->moves = 0;
        fill_state(s, i);
    }
}

struct automaton grammar_dfa_automaton(struct dfa_making *m, const struct sets *sets,
                                       const struct regex *tree)
{
    struct places places = {.m = m, .sets = sets};
    struct automaton a = {0};
    uint32_t found = add_place(&places, (struct place){.op = PLACE_FOUND});
    uint32_t start = dfa_pattern_lay_out(&places, tree, found);
    struct subsets s = {.m = m, .places = &places, .start = start, .a = &a};
    s.slot_count = 2 * m->states_max;
    s.begins = grammar_dfa_scratch(m, (size_t)m->states_max + 2, sizeof(*s.begins));
    s.slots = grammar_dfa_scratch(m, s.slot_count, sizeof(*s.slots));
    s.mark = grammar_dfa_scratch(m, places.count, sizeof(*s.mark));
    s.stack = grammar_dfa_scratch(m, 3 * (size_t)places.count + 4, sizeof(*s.stack));
    s.found = grammar_dfa_scratch(m, places.count, sizeof(*s.found));
    s.ends = grammar_dfa_scratch(m, places.count, sizeof(*s.ends));
    s.again = grammar_dfa_scratch(m, places.count, sizeof(*s.again));
    if (m->code != LR_OK)
        return a;
    memset(s.slots, 0, s.slot_count * sizeof(*s.slots));
    memset(s.mark, 0, places.count * sizeof(*s.mark));
    s.begins[0] = 0;
    run_subsets(&s);
    return a;
}
