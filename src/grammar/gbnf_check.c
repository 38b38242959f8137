/* grammar/gbnf_check.c - see grammar/gbnf.h: what holds for rules together.
 *
 * A property spreads from the leaves of the trees upwards, and from a rule to the places that
 * use it, each node once.  So the time is linear in the size of the grammar.
 */
#include "grammar/gbnf.h"

#include <stdio.h>

enum { SIMPLE_RANGES = 4 }; /* of a class that is as well written byte by byte */

struct spreading {
    struct gbnf *g;
    uint32_t *queue; /* nodes that have the property, and whose neighbours are not told yet */
    uint32_t head, tail;
    uint32_t *open; /* by node: nodes below that do not have it yet */
};

static void init_spreading(struct spreading *s)
{
    s->head = s->tail = 0;
    for (uint32_t i = 0; i < s->g->count; i++)
        s->open[i] = s->g->nodes[i].count;
}

/* ---- nodes that may be empty ---- */

static void mark_empty(struct spreading *s, uint32_t node)
{
    if (s->g->nodes[node].may_be_empty)
        return;
    s->g->nodes[node].may_be_empty = true;
    s->queue[s->tail++] = node;
}

static bool is_empty_leaf(const struct gbnf_node *n)
{
    return (n->op == GBNF_TEXT && n->text.len == 0) || (n->op == GBNF_ALL && n->count == 0) ||
           (n->op == GBNF_REPEAT && n->min == 0);
}

static void find_empty(struct spreading *s)
{
    const struct gbnf_node *nodes = s->g->nodes;
    init_spreading(s);
    for (uint32_t i = 1; i < s->g->count; i++)
        if (is_empty_leaf(&nodes[i]))
            mark_empty(s, i);
    while (s->head < s->tail) {
        uint32_t node = s->queue[s->head++], above = nodes[node].above;
        if (above == 0)
            for (uint32_t u = s->g->rules[nodes[node].rule].used; u != 0; u = nodes[u].again)
                mark_empty(s, u);
        else if (nodes[above].op != GBNF_ALL || --s->open[above] == 0)
            mark_empty(s, above);
    }
}

/* ---- flat nodes ---- */

/* A few ranges of ASCII. */
static bool is_simple(const struct regex_set *set)
{
    return set->count <= SIMPLE_RANGES && set->ranges[set->count - 1].high < 0x80;
}

static uint64_t size_of(const struct gbnf *g, const struct gbnf_node *n)
{
    uint64_t sum = 0;
    for (uint32_t i = n->below; i != 0; i = g->nodes[i].next)
        sum += g->nodes[i].size;
    switch ((enum gbnf_op)n->op) {
    case GBNF_TEXT:
        return n->text.len;
    case GBNF_SET:
        return 1;
    case GBNF_RULE: /* 1 more, so that a chain of rules is not deep without being large */
        return 1 + (uint64_t)g->nodes[g->rules[n->uses].node].size;
    case GBNF_REPEAT:
        return (sum + 1) * (n->max == REGEX_ENDLESS ? (uint64_t)n->min + 1 : n->max);
    default:
        return sum + n->count;
    }
}

static bool wants_dfa(const struct gbnf *g, const struct gbnf_node *n)
{
    bool wants = (n->op == GBNF_REPEAT && n->max > 1) ||
                 (n->op == GBNF_SET && !is_simple(&n->set)) ||
                 (n->op == GBNF_RULE && g->nodes[g->rules[n->uses].node].wants_dfa);
    for (uint32_t i = n->below; i != 0 && !wants; i = g->nodes[i].next)
        wants = g->nodes[i].wants_dfa;
    return wants;
}

/* All below is flat: so is the node, if it is small. */
static void mark_flat(struct spreading *s, uint32_t node)
{
    struct gbnf_node *n = &s->g->nodes[node];
    uint64_t size = size_of(s->g, n);
    if (size > GBNF_FLAT_MAX)
        return;
    n->size = (uint32_t)size;
    n->wants_dfa = wants_dfa(s->g, n);
    n->is_flat = true;
    s->queue[s->tail++] = node;
}

static void find_flat(struct spreading *s)
{
    const struct gbnf_node *nodes = s->g->nodes;
    init_spreading(s);
    for (uint32_t i = 1; i < s->g->count; i++)
        if (nodes[i].count == 0 && nodes[i].op != GBNF_RULE)
            mark_flat(s, i);
    while (s->head < s->tail) {
        uint32_t node = s->queue[s->head++], above = nodes[node].above;
        if (above == 0)
            for (uint32_t u = s->g->rules[nodes[node].rule].used; u != 0; u = nodes[u].again)
                mark_flat(s, u);
        else if (--s->open[above] == 0)
            mark_flat(s, above);
    }
}

/* ---- left recursion ---- */

/* Marks the rules that the rule around a node may begin with; returns how many. */
static uint32_t mark_left(struct gbnf *g, uint32_t node)
{
    struct gbnf_node *n = &g->nodes[node];
    uint32_t count = 0;
    if (n->op == GBNF_RULE) {
        n->is_left = true;
        return 1;
    }
    for (uint32_t i = n->below; i != 0; i = g->nodes[i].next) {
        count += mark_left(g, i);
        if (n->op == GBNF_ALL && !g->nodes[i].may_be_empty)
            break;
    }
    return count;
}

/* `open` says which rules lead back to themselves: names a circle of them. */
static void refuse_circle(struct gbnf *g, const uint32_t *open, uint32_t *after)
{
    uint32_t at = 0;
    char names[200] = "";
    size_t len = 0;
    for (uint32_t i = 1; i < g->count; i++) {
        const struct gbnf_node *n = &g->nodes[i];
        if (n->op == GBNF_RULE && n->is_left && open[n->rule] != 0 && open[n->uses] != 0)
            after[n->rule] = n->uses;
    }
    while (open[at] == 0)
        at++;
    for (uint32_t i = 0; i < g->rule_count; i++) /* from there on it is on the circle */
        at = after[at];
    uint32_t first = at;
    do {
        at = after[at];
        int n = snprintf(names + len, sizeof(names) - len, ", " LR_STR_FMT,
                         LR_STR_ARG(lr_str_sub(g->rules[at].name, 0, 40)));
        len += n > 0 && len + (size_t)n < sizeof(names) ? (size_t)n : 0;
    } while (at != first && len < sizeof(names) - 50);
    grammar_gbnf_fail(g, g->rules[first].at, LR_UNSUPPORTED,
                      "rule '" LR_STR_FMT "' may begin with itself (" LR_STR_FMT
                      "%s): left recursion is not supported; write a repetition",
                      LR_STR_ARG(lr_str_sub(g->rules[first].name, 0, 40)),
                      LR_STR_ARG(lr_str_sub(g->rules[first].name, 0, 40)), names);
}

/* Removes rules that cannot begin with another remaining rule, one after the other.  Each
 * rule that stays may begin with another rule that stays, so there is a circle. */
static void find_circle(struct spreading *s)
{
    struct gbnf *g = s->g;
    uint32_t *open = s->open; /* by rule: rules it may begin with that are still there */
    s->head = s->tail = 0;
    for (uint32_t i = 0; i < g->rule_count; i++) {
        open[i] = mark_left(g, g->rules[i].node);
        if (open[i] == 0)
            s->queue[s->tail++] = i;
    }
    while (s->head < s->tail)
        for (uint32_t u = g->rules[s->queue[s->head++]].used; u != 0; u = g->nodes[u].again)
            if (g->nodes[u].is_left && --open[g->nodes[u].rule] == 0)
                s->queue[s->tail++] = g->nodes[u].rule;
    if (s->tail < g->rule_count)
        refuse_circle(g, open, s->queue);
}

bool grammar_gbnf_check(struct gbnf *g)
{
    size_t room = (size_t)g->count + g->rule_count + 1;
    struct spreading s = {.g = g,
                          .queue = lr_arena_array(&g->b->arena, room, sizeof(*s.queue)),
                          .open = lr_arena_array(&g->b->arena, room, sizeof(*s.open))};
    if (s.queue == NULL || s.open == NULL) {
        grammar_fail(g->b, LR_OUT_OF_RAM, "no memory for a grammar");
        return false;
    }
    find_empty(&s);
    find_circle(&s);
    if (g->b->code == LR_OK)
        find_flat(&s);
    return g->b->code == LR_OK;
}
