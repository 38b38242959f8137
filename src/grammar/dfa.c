/* grammar/dfa.c - see grammar/dfa.h: from demands to one automaton.
 *
 * Each demand becomes an automaton of its own (the sets of places its pattern may be at), all
 * over the same classes of characters; then they run side by side, and combinations of states
 * are numbered as they are reached.  Lengths are one more thing that is counted beside.
 */
#include "grammar/dfa.h"

#include <stdlib.h>

#include "grammar/dfa_internal.h"

enum { WORK_SHARE = 16 };

/* ---- scratch that dies with one build ---- */

void *grammar_dfa_scratch(struct dfa_making *m, size_t count, size_t size)
{
    void *p = lr_arena_array(&m->scratch, count != 0 ? count : 1, size);
    if (p == NULL)
        grammar_dfa_too_large(m);
    return p;
}

void grammar_dfa_too_large(struct dfa_making *m)
{
    if (m->code == LR_OK)
        m->code = lr_fail(m->err, LR_INVALID_ARGUMENT,
                          "the patterns and lengths of a string need more than %d states "
                          "together; make them simpler or the bounds smaller",
                          DFA_STATES_MAX);
}

bool grammar_dfa_charge(struct dfa_making *m, uint64_t work)
{
    work = work / WORK_SHARE + 1;
    if (m->code == LR_OK && *m->work < work)
        m->code = lr_fail(m->err, LR_INVALID_ARGUMENT,
                          "the patterns of this request need too much work together; make "
                          "them simpler or the bounds smaller");
    if (m->code != LR_OK)
        return false;
    *m->work -= (uint32_t)work;
    return true;
}

uint32_t *grammar_dfa_grow(struct dfa_making *m, uint32_t *old, size_t used, size_t *capacity,
                           size_t need)
{
    if (need <= *capacity)
        return old;
    size_t wanted = 2 * need;
    uint32_t *grown = grammar_dfa_scratch(m, wanted, sizeof(*grown));
    if (grown == NULL)
        return old;
    if (used != 0)
        memcpy(grown, old, used * sizeof(*grown));
    *capacity = wanted;
    return grown;
}

uint32_t grammar_dfa_hash_list(const uint32_t *list, uint32_t count, bool accepts)
{
    uint64_t h = count * 2 + accepts;
    for (uint32_t i = 0; i < count; i++)
        h = (h ^ list[i]) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32);
}

bool grammar_dfa_reserve(struct dfa_making *m, struct automaton *a)
{
    if (a->states < a->capacity)
        return true;
    if (a->states >= m->states_max || (uint64_t)a->states * m->classes > DFA_CELLS_MAX) {
        grammar_dfa_too_large(m);
        return false;
    }
    uint32_t capacity = a->capacity != 0 ? 2 * a->capacity : 32;
    uint32_t *next = grammar_dfa_scratch(m, (size_t)capacity * m->classes, sizeof(*next));
    uint8_t *accept = grammar_dfa_scratch(m, capacity, 1);
    if (m->code != LR_OK)
        return false;
    if (a->states != 0) {
        memcpy(next, a->next, (size_t)a->states * m->classes * sizeof(*next));
        memcpy(accept, a->accept, a->states);
    }
    a->next = next;
    a->accept = accept;
    a->capacity = capacity;
    return true;
}

/* ---- all demands side by side ---- */

struct component {
    struct automaton a;
    bool negative;
    uint32_t demand; /* which it belongs to: the parts of a pattern are decided together */
};

enum { COMPONENTS_MAX = DFA_DEMANDS_MAX * 2 };

struct product {
    struct dfa_making *m;
    const struct dfa_text *text;
    struct component parts[COMPONENTS_MAX];
    uint32_t count;
    uint32_t *tuples; /* grows: count + 1 words for each state; the last is the length */
    size_t tuple_capacity;
    uint32_t *slots;
    struct automaton a;
};

static uint32_t tuple_state(struct product *p, const uint32_t *tuple)
{
    size_t width = p->count + 1;
    uint32_t mask = 2 * p->m->states_max - 1;
    uint32_t at = grammar_dfa_hash_list(tuple, (uint32_t)width, false) & mask;
    for (; p->slots[at] != 0; at = (at + 1) & mask)
        if (memcmp(p->tuples + (p->slots[at] - 1) * width, tuple, width * sizeof(*tuple)) == 0)
            return p->slots[at] - 1;
    if (!grammar_dfa_reserve(p->m, &p->a))
        return 0;
    p->tuples = grammar_dfa_grow(p->m, p->tuples, p->a.states * width, &p->tuple_capacity,
                                 ((size_t)p->a.states + 1) * width);
    if (p->m->code != LR_OK)
        return 0;
    memcpy(p->tuples + p->a.states * width, tuple, width * sizeof(*tuple));
    p->slots[at] = p->a.states + 1;
    return p->a.states++;
}

/* The demands that hold where a text ends in this state. */
static uint32_t holding(const struct product *p, const uint32_t *tuple)
{
    uint32_t holds = UINT32_MAX;
    for (uint32_t i = 0; i < p->count; i++) {
        bool accepted = p->parts[i].a.accept[tuple[i]] != 0;
        if (accepted == p->parts[i].negative)
            holds &= ~(1u << p->parts[i].demand);
    }
    for (uint32_t d = 0; d < p->text->count; d++)
        if (p->text->demands[d].negative)
            holds ^= 1u << d;
    return holds & ((1u << p->text->count) - 1);
}

/* Which classes have a character that is no surrogate: no text has one. */
static const uint8_t *real_classes(struct dfa_making *m)
{
    uint8_t *real = grammar_dfa_scratch(m, m->classes, 1);
    if (real == NULL)
        return NULL;
    memset(real, 0, m->classes);
    for (uint32_t i = 0; i < m->ranges; i++) {
        uint32_t end = i + 1 < m->ranges ? m->starts[i + 1] : REGEX_CODE_MAX + 1;
        if (m->starts[i] < 0xD800 || end > 0xE000)
            real[m->range_class[i]] = 1;
    }
    return real;
}

static void run_product(struct product *p)
{
    struct dfa_making *m = p->m;
    const struct dfa_text *t = p->text;
    bool counts = t->min > 0 || t->max != DFA_UNBOUNDED;
    uint32_t tuple[COMPONENTS_MAX + 1] = {0};
    const uint8_t *real = real_classes(m);
    if (real == NULL)
        return;
    (void)tuple_state(p, tuple);
    for (uint32_t i = 0; i < p->a.states && m->code == LR_OK; i++) {
        size_t width = p->count + 1;
        if (!grammar_dfa_charge(m, (uint64_t)m->classes * width))
            return;
        for (uint32_t c = 0; c < m->classes && m->code == LR_OK; c++) {
            const uint32_t *from = p->tuples + i * width;
            uint32_t len = from[p->count], to = DFA_DEAD;
            if (real[c] && (t->max == DFA_UNBOUNDED || len < t->max)) {
                for (uint32_t k = 0; k < p->count; k++)
                    tuple[k] = p->parts[k].a.next[(size_t)from[k] * m->classes + c];
                bool stands = t->max == DFA_UNBOUNDED && len >= t->min;
                tuple[p->count] = counts && !stands ? len + 1 : len;
                to = tuple_state(p, tuple);
            }
            p->a.next[(size_t)i * m->classes + c] = to;
        }
    }
}

/* One automaton for each combination of labels. */
static void give_out(struct product *p, uint32_t labels, struct dfa_result *out,
                     uint32_t *count)
{
    struct dfa_making *m = p->m;
    size_t width = p->count + 1;
    uint32_t *holds = grammar_dfa_scratch(m, p->a.states, sizeof(*holds));
    uint32_t all = (1u << p->text->count) - 1;
    if (holds == NULL)
        return;
    for (uint32_t i = 0; i < p->a.states; i++) {
        const uint32_t *tuple = p->tuples + i * width;
        uint32_t h = holding(p, tuple);
        bool fits = (h | labels) == all && tuple[p->count] >= p->text->min;
        holds[i] = fits ? h & labels : UINT32_MAX;
    }
    *count = 0;
    for (uint32_t i = 0; i < p->a.states && m->code == LR_OK; i++) {
        uint32_t k = 0;
        if (holds[i] == UINT32_MAX)
            continue;
        while (k < *count && out[k].labels != holds[i])
            k++;
        if (k < *count)
            continue;
        if (*count == DFA_RESULTS_MAX) {
            grammar_dfa_too_large(m);
            return;
        }
        for (uint32_t s = 0; s < p->a.states; s++)
            p->a.accept[s] = holds[s] == holds[i];
        out[(*count)++] = (struct dfa_result){
            grammar_dfa_settle(m, p->a.next, p->a.accept, p->a.states), holds[i]};
    }
    if (*count == 0 && labels == 0) {
        memset(p->a.accept, 0, p->a.states);
        out[(*count)++] =
            (struct dfa_result){grammar_dfa_settle(m, p->a.next, p->a.accept, p->a.states), 0};
    }
}

static void add_component(struct product *p, const struct sets *sets, const struct regex *tree,
                          bool negative, uint32_t demand)
{
    struct component *c = &p->parts[p->count++];
    c->negative = negative;
    c->demand = demand;
    c->a = grammar_dfa_automaton(p->m, sets, tree);
}

/* Room for as many sets as an automaton of this size may have use for. */
static struct sets *make_sets(struct dfa_making *m)
{
    uint32_t max = m->states_max < DFA_SETS_MAX / 2 ? 2 * m->states_max : DFA_SETS_MAX;
    struct sets *s = grammar_dfa_scratch(m, 1, sizeof(*s));
    if (s == NULL)
        return NULL;
    *s = (struct sets){.max = max,
                       .items = grammar_dfa_scratch(m, max, sizeof(*s->items)),
                       .classes = grammar_dfa_scratch(m, max, sizeof(*s->classes)),
                       .slots = grammar_dfa_scratch(m, 2 * (size_t)max, sizeof(*s->slots))};
    if (m->code != LR_OK)
        return NULL;
    memset(s->slots, 0, 2 * (size_t)max * sizeof(*s->slots));
    return s;
}

static void dfa_build(struct dfa_making *m, const struct dfa_text *text, uint32_t labels,
                      struct dfa_result *out, uint32_t *count)
{
    struct sets *sets = make_sets(m);
    struct product *p = grammar_dfa_scratch(m, 1, sizeof(*p));
    if (sets == NULL || p == NULL)
        return;
    memset(p, 0, sizeof(*p));
    uint32_t parts = 0;
    for (uint32_t i = 0; i < text->count; i++) {
        const struct regex_pattern *pattern = &text->demands[i].pattern;
        grammar_dfa_gather(m, sets, pattern->tree);
        for (uint32_t k = 0; k < pattern->look_count; k++)
            grammar_dfa_gather(m, sets, pattern->looks[k].tree);
        parts += 1 + pattern->look_count;
    }
    if (parts > COMPONENTS_MAX)
        grammar_dfa_too_large(m);
    if (m->code == LR_OK)
        grammar_dfa_classify(m, sets);
    p->m = m;
    p->text = text;
    for (uint32_t i = 0; i < text->count && m->code == LR_OK; i++) {
        const struct regex_pattern *pattern = &text->demands[i].pattern;
        add_component(p, sets, pattern->tree, false, i);
        for (uint32_t k = 0; k < pattern->look_count && m->code == LR_OK; k++)
            add_component(p, sets, pattern->looks[k].tree, pattern->looks[k].negative, i);
    }
    p->slots =
        m->code == LR_OK ? grammar_dfa_scratch(m, 2 * m->states_max, sizeof(*p->slots)) : NULL;
    if (p->slots != NULL) {
        memset(p->slots, 0, 2 * m->states_max * sizeof(*p->slots));
        run_product(p);
    }
    if (m->code == LR_OK)
        give_out(p, labels, out, count);
}

lr_code grammar_dfa_build(struct lr_arena *arena, const struct dfa_text *text, uint32_t labels,
                          uint32_t *work, struct dfa_result *out, uint32_t *count,
                          struct lr_error *err)
{
    struct dfa_making m = {.arena = arena,
                           .work = work,
                           .err = err,
                           .states_max =
                               text->states_max != 0 ? text->states_max : DFA_STATES_MAX};
    lr_arena_init(&m.scratch, DFA_SCRATCH_BYTES);
    *count = 0;
    dfa_build(&m, text, labels, out, count);
    lr_arena_free(&m.scratch);
    return m.code;
}

/* ---- automata by their moves ---- */

static uint32_t dfa_number_of(struct dfa_making *m, uint64_t *states, uint32_t *slots,
                              struct automaton *a, uint64_t state)
{
    uint32_t mask = 2 * DFA_STATES_MAX - 1;
    uint32_t at = (uint32_t)((state * UINT64_C(0x9E3779B97F4A7C15)) >> 40) & mask;
    for (; slots[at] != 0; at = (at + 1) & mask)
        if (states[slots[at] - 1] == state)
            return slots[at] - 1;
    if (!grammar_dfa_reserve(m, a))
        return 0;
    states[a->states] = state;
    slots[at] = a->states + 1;
    return a->states++;
}

static const struct dfa *explore(struct dfa_making *m, const struct dfa_moves *moves)
{
    struct automaton a = {0};
    size_t bytes = strlen(moves->bytes);
    m->classes = (uint32_t)bytes + 1; /* class 0: every other character */
    m->ranges = 129;
    m->starts = grammar_dfa_scratch(m, m->ranges, sizeof(*m->starts));
    m->range_class = grammar_dfa_scratch(m, m->ranges, sizeof(*m->range_class));
    uint64_t *states = grammar_dfa_scratch(m, DFA_STATES_MAX + 1, sizeof(*states));
    uint32_t *slots = grammar_dfa_scratch(m, 2 * DFA_STATES_MAX, sizeof(*slots));
    if (m->code != LR_OK)
        return NULL;
    memset(slots, 0, 2 * DFA_STATES_MAX * sizeof(*slots));
    for (uint32_t i = 0; i < m->ranges; i++) {
        const char *found = i > 0 && i < 128 ? strchr(moves->bytes, (int)i) : NULL;
        m->starts[i] = i;
        m->range_class[i] = found != NULL ? (uint16_t)(found - moves->bytes + 1) : 0;
    }
    (void)dfa_number_of(m, states, slots, &a, moves->start);
    for (uint32_t i = 0; i < a.states && grammar_dfa_charge(m, m->classes * 2); i++) {
        a.accept[i] = moves->accepts(moves->ctx, states[i]);
        a.next[(size_t)i * m->classes] = DFA_DEAD;
        for (size_t k = 0; k < bytes && m->code == LR_OK; k++) {
            uint64_t to;
            uint32_t n = DFA_DEAD;
            if (moves->step(moves->ctx, states[i], (uint8_t)moves->bytes[k], &to))
                n = dfa_number_of(m, states, slots, &a, to);
            a.next[(size_t)i * m->classes + k + 1] = n;
        }
    }
    return m->code == LR_OK ? grammar_dfa_settle(m, a.next, a.accept, a.states) : NULL;
}

lr_code grammar_dfa_explore(struct lr_arena *arena, const struct dfa_moves *moves,
                            uint32_t *work, const struct dfa **out, struct lr_error *err)
{
    struct dfa_making m = {
        .arena = arena, .work = work, .err = err, .states_max = DFA_STATES_MAX};
    lr_arena_init(&m.scratch, DFA_SCRATCH_BYTES);
    *out = explore(&m, moves);
    lr_arena_free(&m.scratch);
    return m.code;
}

const struct dfa *grammar_dfa_any(struct lr_arena *arena)
{
    uint32_t starts[1] = {0}, next[1] = {0}, work = UINT32_MAX;
    uint16_t classes[1] = {0};
    uint8_t accept[1] = {1};
    struct lr_error ignored;
    struct dfa_making m = {.arena = arena,
                           .work = &work,
                           .err = &ignored,
                           .starts = starts,
                           .range_class = classes,
                           .ranges = 1,
                           .classes = 1};
    lr_arena_init(&m.scratch, DFA_SCRATCH_BYTES);
    struct dfa *d = grammar_dfa_settle(&m, next, accept, 1);
    lr_arena_free(&m.scratch);
    if (m.code != LR_OK)
        return NULL;
    d->id = DFA_ANY; /* all of them are the same */
    return d;
}
