/* grammar/dfa_settle.c - see grammar/dfa.h: an automaton without dead ends, and its measures.
 *
 * All measures are made along the moves backwards, each state once, so the time grows with the
 * number of moves alone.
 */
#include <stdlib.h>

#include "grammar/dfa_internal.h"

/* Moves backwards: the states before state i are before[begins[i]..begins[i + 1]). */
struct backwards {
    uint32_t *begins;
    uint32_t *before;
    uint32_t *queue;
};

/* only: of these classes; NULL: of all. */
static void link_back(struct backwards *b, const uint32_t *next, uint32_t states,
                      uint32_t classes, const uint8_t *only)
{
    for (uint32_t i = 0; i < states; i++)
        for (uint32_t c = 0; c < classes; c++) {
            uint32_t to = next[(size_t)i * classes + c];
            if (to != DFA_DEAD && (only == NULL || only[c]))
                b->begins[to]++;
        }
    for (uint32_t i = 0; i < states; i++)
        b->begins[i + 1] += b->begins[i];
    for (uint32_t i = 0; i < states; i++)
        for (uint32_t c = 0; c < classes; c++) {
            uint32_t to = next[(size_t)i * classes + c];
            if (to != DFA_DEAD && (only == NULL || only[c]))
                b->before[--b->begins[to]] = i;
        }
}

static bool init_back(struct dfa_making *m, struct backwards *b, size_t states)
{
    b->begins = lr_arena_zalloc(&m->scratch, (states + 2) * sizeof(*b->begins));
    b->before = lr_arena_array(&m->scratch, states * m->classes + 1, sizeof(*b->before));
    b->queue = lr_arena_array(&m->scratch, states + 1, sizeof(*b->queue));
    if (b->begins == NULL || b->before == NULL || b->queue == NULL)
        grammar_dfa_too_large(m);
    return m->code == LR_OK;
}

/* Numbers the states from which a text can be accepted, in their order; DFA_DEAD: the others.
 */
static uint32_t number_live(const struct backwards *b, const uint8_t *accept, uint32_t states,
                            uint32_t *number)
{
    uint32_t tail = 0, count = 0;
    for (uint32_t i = 0; i < states; i++) {
        number[i] = accept[i] ? 0 : DFA_DEAD;
        if (accept[i])
            b->queue[tail++] = i;
    }
    for (uint32_t head = 0; head < tail; head++)
        for (uint32_t k = b->begins[b->queue[head]]; k < b->begins[b->queue[head] + 1]; k++)
            if (number[b->before[k]] == DFA_DEAD) {
                number[b->before[k]] = 0;
                b->queue[tail++] = b->before[k];
            }
    if (number[0] == DFA_DEAD)
        return 0;
    for (uint32_t i = 0; i < states; i++)
        if (number[i] != DFA_DEAD)
            number[i] = count++;
    return count;
}

/* Characters of a class; plain: those a token without escapes can have (see vocab.h). */
static void class_sizes(const struct dfa_making *m, uint32_t *sizes, uint8_t *plain)
{
    for (uint32_t i = 0; i < m->ranges; i++) {
        uint32_t low = m->starts[i];
        uint32_t high = i + 1 < m->ranges ? m->starts[i + 1] - 1 : REGEX_CODE_MAX;
        uint32_t size = high - low + 1;
        if (low <= 0xDFFF && high >= 0xD800)
            size -= (high < 0xDFFF ? high : 0xDFFF) - (low > 0xD800 ? low : 0xD800) + 1;
        sizes[m->range_class[i]] += size;
        for (uint32_t c = low; c <= high && c < 0x80; c++)
            plain[m->range_class[i]] |= c >= 0x20 && c != '"' && c != '\\' && c != 0x7F;
        plain[m->range_class[i]] |=
            size != 0 && high >= 0x80 && !(low >= 0x2028 && high <= 0x2029);
    }
}

/* words and most: states in the order in which all that follows is known; what is never
 * reached so is on a circle or leads to one. */
static void measure_ends(struct dfa *d, const struct backwards *b, const uint32_t *sizes,
                         uint32_t *open)
{
    uint32_t tail = 0;
    for (uint32_t i = 0; i < d->states; i++) {
        open[i] = 0;
        for (uint32_t c = 0; c < d->classes; c++)
            open[i] += d->next[(size_t)i * d->classes + c] != DFA_DEAD;
        d->words[i] = DFA_UNBOUNDED;
        d->most[i] = DFA_ENDLESS;
        if (open[i] == 0)
            b->queue[tail++] = i;
    }
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t at = b->queue[head], most = 0;
        uint64_t words = d->accept[at];
        for (uint32_t c = 0; c < d->classes; c++) {
            uint32_t to = d->next[(size_t)at * d->classes + c];
            if (to == DFA_DEAD)
                continue;
            words += (uint64_t)d->words[to] * sizes[c];
            if (words > UINT32_MAX)
                words = DFA_UNBOUNDED;
            if (d->most[to] + 1u > most)
                most = d->most[to] + 1u;
        }
        d->words[at] = (uint32_t)words;
        d->most[at] = (uint8_t)(most < DFA_ENDLESS ? most : DFA_ENDLESS);
        for (uint32_t k = b->begins[at]; k < b->begins[at + 1]; k++)
            if (--open[b->before[k]] == 0)
                b->queue[tail++] = b->before[k];
    }
}

/* b: the moves by plain characters. */
static void measure_least(struct dfa *d, const struct backwards *b, const uint8_t *plain)
{
    uint32_t tail = 0;
    for (uint32_t i = 0; i < d->states; i++) {
        d->least[i] = DFA_ENDLESS;
        for (uint32_t c = 0; c < d->classes && d->least[i] != 0; c++)
            if (plain[c] && d->next[(size_t)i * d->classes + c] == DFA_DEAD)
                d->least[i] = 0;
        if (d->least[i] == 0)
            b->queue[tail++] = i;
    }
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t at = b->queue[head];
        for (uint32_t k = b->begins[at]; k < b->begins[at + 1]; k++) {
            uint32_t from = b->before[k];
            if (d->least[from] != DFA_ENDLESS || d->least[at] >= DFA_ENDLESS - 2)
                continue;
            d->least[from] = d->least[at] + 1;
            b->queue[tail++] = from;
        }
    }
    /* Beyond what a byte holds the bound is only known to be far away. */
}

static void dfa_settle_measure(struct dfa_making *m, struct dfa *d)
{
    struct backwards b;
    uint32_t *sizes = lr_arena_zalloc(&m->scratch, d->classes * sizeof(*sizes));
    uint8_t *plain = lr_arena_zalloc(&m->scratch, d->classes);
    uint32_t *open = lr_arena_array(&m->scratch, (size_t)d->states + 1, sizeof(*open));
    if (sizes == NULL || plain == NULL || open == NULL || !init_back(m, &b, d->states)) {
        grammar_dfa_too_large(m);
        return;
    }
    class_sizes(m, sizes, plain);
    link_back(&b, d->next, d->states, d->classes, NULL);
    measure_ends(d, &b, sizes, open);
    memset(b.begins, 0, ((size_t)d->states + 2) * sizeof(*b.begins));
    link_back(&b, d->next, d->states, d->classes, plain);
    measure_least(d, &b, plain);
    d->tame = true;
    for (uint32_t i = 0; i < d->states; i++)
        d->tame = d->tame && d->words[i] == DFA_UNBOUNDED;
}

static void copy_classes(struct dfa_making *m, struct dfa *d)
{
    d->starts = lr_arena_array(m->arena, m->ranges, sizeof(*d->starts));
    d->range_class = lr_arena_array(m->arena, m->ranges, sizeof(*d->range_class));
    if (d->starts == NULL || d->range_class == NULL) {
        grammar_dfa_too_large(m);
        return;
    }
    memcpy(d->starts, m->starts, m->ranges * sizeof(*d->starts));
    memcpy(d->range_class, m->range_class, m->ranges * sizeof(*d->range_class));
    for (uint32_t i = 0; i < m->ranges; i++) {
        uint32_t end = i + 1 < m->ranges ? m->starts[i + 1] : REGEX_CODE_MAX + 1;
        for (uint32_t c = m->starts[i]; c < end && c < 128; c++)
            d->ascii[c] = m->range_class[i];
    }
}

struct dfa *grammar_dfa_settle(struct dfa_making *m, const uint32_t *next,
                               const uint8_t *accept, uint32_t states)
{
    static uint64_t last_id = DFA_ANY;
    struct backwards b;
    struct dfa *d = lr_arena_zalloc(m->arena, sizeof(*d));
    uint32_t *number = lr_arena_array(&m->scratch, (size_t)states + 1, sizeof(*number));
    if (d == NULL || number == NULL || !init_back(m, &b, states) ||
        !grammar_dfa_charge(m, (uint64_t)states * m->classes)) {
        grammar_dfa_too_large(m);
        return NULL;
    }
    link_back(&b, next, states, m->classes, NULL);
    d->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    d->states = number_live(&b, accept, states, number);
    d->classes = m->classes;
    d->ranges = m->ranges;
    size_t cells = (size_t)d->states * d->classes + 1;
    d->next = lr_arena_array(m->arena, cells, sizeof(*d->next));
    d->words = lr_arena_array(m->arena, (size_t)d->states + 1, sizeof(*d->words));
    d->accept = lr_arena_alloc(m->arena, 3 * ((size_t)d->states + 1));
    if (d->next == NULL || d->words == NULL || d->accept == NULL) {
        grammar_dfa_too_large(m);
        return NULL;
    }
    d->least = d->accept + d->states + 1;
    d->most = d->least + d->states + 1;
    for (uint32_t i = 0; i < states && d->states != 0; i++) {
        if (number[i] == DFA_DEAD)
            continue;
        d->accept[number[i]] = accept[i] != 0;
        for (uint32_t c = 0; c < d->classes; c++) {
            uint32_t to = next[(size_t)i * d->classes + c];
            d->next[(size_t)number[i] * d->classes + c] = to != DFA_DEAD ? number[to] : to;
        }
    }
    copy_classes(m, d);
    if (m->code == LR_OK)
        dfa_settle_measure(m, d);
    return m->code == LR_OK ? d : NULL;
}
