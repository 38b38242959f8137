/* grammar/call_depth.c - see grammar/program.h: the least call depth that each step needs.
 *
 * Heights are computed from the lowest up, each step once: a fork has the lower height of its
 * branches, a call needs its rule and what follows.  So the time is linear in the number of
 * steps, however the rules refer to each other.
 */
#include <stdlib.h>

#include "grammar/program.h"

enum { INFINITE = UINT8_MAX };

struct measuring {
    struct grammar_program *p;
    uint32_t *before; /* owned: the steps that lead to step i are before[begins[i]..] */
    uint32_t *begins; /* owned */
    uint32_t *queue;  /* owned: finished steps whose predecessors are not checked yet */
    uint32_t head, tail;
    uint32_t *later; /* owned: calls that are one level higher */
    uint32_t later_count;
};

static uint32_t ways(const struct grammar_program *p, const struct grammar_step *s,
                     uint32_t out[2])
{
    out[0] = s->next;
    switch ((enum grammar_op)s->op) {
    case GRAMMAR_RETURN:
    case GRAMMAR_END:
    case GRAMMAR_NEVER:
        return 0;
    case GRAMMAR_FORK:
    case GRAMMAR_UNTIL:
        out[1] = s->other;
        return 2;
    case GRAMMAR_CALL:
        out[1] = p->rules[s->other].entry;
        return 2;
    case GRAMMAR_CHECK:
        if (p->checks[s->other].rule == GRAMMAR_NO_RULE)
            return 1;
        out[1] = p->rules[p->checks[s->other].rule].entry;
        return 2;
    default:
        return 1;
    }
}

static void link_back(struct measuring *m)
{
    const struct grammar_program *p = m->p;
    uint32_t to[2];
    for (uint32_t i = 0; i < p->count; i++)
        for (uint32_t k = ways(p, &p->steps[i], to); k > 0; k--)
            m->begins[to[k - 1]]++;
    for (uint32_t i = 0; i < p->count; i++) /* ends of ranges; begins after the next loop */
        m->begins[i + 1] += m->begins[i];
    for (uint32_t i = 0; i < p->count; i++)
        for (uint32_t k = ways(p, &p->steps[i], to); k > 0; k--)
            m->before[--m->begins[to[k - 1]]] = i;
}

static void call_depth_settle(struct measuring *m, uint32_t step, uint8_t height)
{
    if (m->p->steps[step].height != INFINITE)
        return;
    m->p->steps[step].height = height;
    m->queue[m->tail++] = step;
}

/* The rule that has to fit on top of a step. */
static uint32_t called_by(const struct grammar_program *p, const struct grammar_step *s)
{
    if (s->op == GRAMMAR_CHECK)
        return p->checks[s->other].rule;
    return s->op == GRAMMAR_CALL ? s->other : GRAMMAR_NO_RULE;
}

/* `step` has been settled at `height`, the highest so far: so may be what leads to it. */
static void look_back(struct measuring *m, uint32_t step, uint8_t height)
{
    const struct grammar_program *p = m->p;
    for (uint32_t i = m->begins[step]; i < m->begins[step + 1]; i++) {
        const struct grammar_step *s = &p->steps[m->before[i]];
        uint32_t called = called_by(p, s);
        if (called == GRAMMAR_NO_RULE) {
            call_depth_settle(m, m->before[i], height);
            continue;
        }
        uint8_t rule = p->steps[p->rules[called].entry].height;
        if (rule >= GRAMMAR_CALLS_MAX || p->steps[s->next].height == INFINITE)
            continue;
        if (rule < height)
            call_depth_settle(m, m->before[i], height);
        else
            m->later[m->later_count++] = m->before[i];
    }
}

static void settle_all(struct measuring *m)
{
    struct grammar_program *p = m->p;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->steps[i].op == GRAMMAR_RETURN || p->steps[i].op == GRAMMAR_END)
            call_depth_settle(m, i, 0);
    for (uint8_t height = 0; m->head < m->tail; height++) {
        while (m->head < m->tail)
            look_back(m, m->queue[m->head++], height);
        for (uint32_t i = 0; i < m->later_count; i++)
            call_depth_settle(m, m->later[i], (uint8_t)(height + 1));
        m->later_count = 0;
    }
}

bool grammar_measure(struct grammar_program *p)
{
    struct measuring m = {.p = p};
    size_t n = (size_t)p->count + 1;
    m.before = malloc(2 * n * sizeof(*m.before));
    m.begins = calloc(n, sizeof(*m.begins));
    m.queue = malloc(n * sizeof(*m.queue));
    m.later = malloc(2 * n * sizeof(*m.later));
    bool ok = m.before != NULL && m.begins != NULL && m.queue != NULL && m.later != NULL;
    for (uint32_t i = 0; i < p->count; i++)
        p->steps[i].height = INFINITE;
    if (ok) {
        link_back(&m);
        settle_all(&m);
    }
    free(m.before);
    free(m.begins);
    free(m.queue);
    free(m.later);
    return ok;
}
