/* grammar/gbnf_compile.c - see grammar/gbnf.h: from trees to steps.
 *
 * Neighbours without recursion become one automaton.  If the automaton would be too large, they
 * are taken apart.  A call at the end of a rule is a jump, so a list that is written with right
 * recursion does not nest.
 */
#include "grammar/gbnf.h"
#include "grammar/texts.h"

#include "base/utf8.h"

enum {
    INLINE_MAX = 32,      /* characters of a rule that is copied to where it is used */
    SHARED_MAX = 16,      /* parts at the beginning of alternatives that are looked at */
    AUTOMATON_WORK = 128, /* of the budget, besides what building it takes */
};

static uint32_t gbnf_compile_this(struct gbnf *g, uint32_t node, uint32_t next);

static bool ok(const struct gbnf *g)
{
    return g->b->code == LR_OK;
}

static void *alloc(struct gbnf *g, size_t count, size_t size)
{
    void *p = lr_arena_array(&g->b->arena, count + 1, size);
    if (p == NULL)
        grammar_fail(g->b, LR_OUT_OF_RAM, "no memory for a grammar");
    return p;
}

/* ---- automata ---- */

static const struct regex *make(struct gbnf *g, struct regex node)
{
    struct regex *copy = alloc(g, 1, sizeof(*copy));
    if (copy != NULL)
        *copy = node;
    return copy;
}

static const struct regex *gbnf_compile_join(struct gbnf *g, enum regex_op op,
                                             const struct regex *a, const struct regex *b)
{
    return make(g, (struct regex){.op = op, .a = a, .b = b});
}

static const struct regex *tree_of_text(struct gbnf *g, struct lr_str text)
{
    const struct regex *all = make(g, (struct regex){.op = REGEX_EMPTY});
    for (size_t i = 0; i < text.len && ok(g);) {
        struct regex_range *r = alloc(g, 1, sizeof(*r));
        uint32_t code = 0;
        int len = lr_utf8_decode(text.ptr + i, text.len - i, &code);
        if (r == NULL || len <= 0)
            break;
        *r = (struct regex_range){code, code};
        all = gbnf_compile_join(g, REGEX_CAT, all,
                                make(g, (struct regex){.op = REGEX_SET, .set = {r, 1}}));
        i += (size_t)len;
    }
    return all;
}

/* Sequences and alternatives lean to the left, as regex.c's do. */
static const struct regex *tree_of(struct gbnf *g, uint32_t node)
{
    struct gbnf_node *n = &g->nodes[node];
    const struct regex *all = NULL;
    if (n->tree != NULL || !ok(g))
        return n->tree;
    enum regex_op op = n->op == GBNF_ANY ? REGEX_ALT : REGEX_CAT;
    for (uint32_t i = n->below; i != 0 && n->op != GBNF_REPEAT; i = g->nodes[i].next) {
        const struct regex *one = tree_of(g, i);
        all = all == NULL ? one : gbnf_compile_join(g, op, all, one);
    }
    if (n->op == GBNF_TEXT)
        all = tree_of_text(g, n->text);
    else if (n->op == GBNF_SET)
        all = make(g, (struct regex){.op = REGEX_SET, .set = n->set});
    else if (n->op == GBNF_RULE)
        all = tree_of(g, g->rules[n->uses].node);
    else if (n->op == GBNF_REPEAT)
        all = make(g, (struct regex){.op = REGEX_REPEAT,
                                     .a = tree_of(g, n->below),
                                     .min = n->min,
                                     .max = n->max});
    else if (n->count == 0)
        all = make(g, (struct regex){.op = REGEX_EMPTY});
    n->tree = all;
    return all;
}

/* The automaton of some nodes one after the other as a step; false: it would be too large. */
static bool try_automaton(struct gbnf *g, const uint32_t *list, uint32_t count, uint32_t next,
                          uint32_t *out)
{
    const struct regex *all = tree_of(g, list[0]);
    for (uint32_t i = 1; i < count; i++)
        all = gbnf_compile_join(g, REGEX_CAT, all, tree_of(g, list[i]));
    if (!ok(g) || !grammar_charge(g->b, AUTOMATON_WORK)) {
        *out = 0;
        return true;
    }
    const struct dfa *d = grammar_text_small_dfa(g->b, all);
    if (d == NULL)
        return !ok(g);
    *out = grammar_text_dfa(g->b, d, next);
    return true;
}

/* ---- rules ---- */

static uint32_t call(struct gbnf *g, uint32_t rule, uint32_t next)
{
    struct gbnf_rule *r = &g->rules[rule];
    if (!r->is_called) {
        r->is_called = true;
        r->number = grammar_rule_add(g->b, NULL, 0);
        r->entry = grammar_fork(g->b, 0, 0);
        g->calls[g->call_count++] = rule;
        if (ok(g))
            g->b->program->rules[r->number].entry = r->entry;
    }
    return next == g->over ? r->entry : grammar_call(g->b, r->number, next);
}

/* ---- alternatives ---- */

static bool same_set(const struct regex_set *a, const struct regex_set *b)
{
    return a->count == b->count &&
           memcmp(a->ranges, b->ranges, a->count * sizeof(*a->ranges)) == 0;
}

static bool same(const struct gbnf *g, uint32_t one, uint32_t two)
{
    const struct gbnf_node *a = &g->nodes[one], *b = &g->nodes[two];
    if (a->op != b->op || a->count != b->count || a->min != b->min || a->max != b->max ||
        a->uses != b->uses)
        return false;
    if (a->op == GBNF_TEXT)
        return lr_str_eq(a->text, b->text);
    if (a->op == GBNF_SET)
        return same_set(&a->set, &b->set);
    uint32_t i = a->below, k = b->below;
    while (i != 0 && k != 0 && same(g, i, k)) {
        i = g->nodes[i].next;
        k = g->nodes[k].next;
    }
    return i == 0 && k == 0;
}

/* The rest of a sequence: a node and those after it, or (single) the node alone. */
struct rest {
    uint32_t node; /* 0: nothing is left */
    bool single;
};

static struct rest after(const struct gbnf *g, struct rest r)
{
    return (struct rest){r.single ? 0 : g->nodes[r.node].next, false};
}

/* Neighbours that are flat, up to list[end): as few automata as possible. */
static uint32_t compile_run(struct gbnf *g, const uint32_t *list, uint32_t count,
                            uint32_t next);

static uint32_t compile_rest(struct gbnf *g, struct rest r, uint32_t next)
{
    uint32_t count = 0, used = 0;
    for (struct rest i = r; i.node != 0; i = after(g, i))
        count++;
    uint32_t *list = alloc(g, count, sizeof(*list));
    if (list == NULL || !grammar_charge(g->b, count))
        return 0;
    for (struct rest i = r; i.node != 0; i = after(g, i))
        list[used++] = i.node;
    for (uint32_t end = count; end > 0 && ok(g);) {
        uint32_t begin = end, size = 0;
        while (begin > 0 && g->nodes[list[begin - 1]].is_flat &&
               size + g->nodes[list[begin - 1]].size <= GBNF_FLAT_MAX)
            size += g->nodes[list[--begin]].size;
        if (begin < end) {
            next = compile_run(g, list + begin, end - begin, next);
            end = begin;
        } else {
            next = gbnf_compile_this(g, list[--end], next);
        }
    }
    return next;
}

/* Alternatives beside each other that begin with the same parts share their steps: else every
 * way through a nested part would double the threads. */
static uint32_t compile_rests(struct gbnf *g, const struct rest *list, uint32_t count,
                              uint32_t depth, uint32_t next)
{
    uint32_t result = 0;
    for (uint32_t i = 0, end; i < count && ok(g); i = end) {
        uint32_t branch;
        end = i + 1;
        while (end < count && depth < SHARED_MAX && list[i].node != 0 && list[end].node != 0 &&
               same(g, list[i].node, list[end].node))
            end++;
        if (end == i + 1) {
            branch = compile_rest(g, list[i], next);
        } else {
            struct rest *rests = alloc(g, end - i, sizeof(*rests));
            if (rests == NULL)
                return 0;
            for (uint32_t k = i; k < end; k++)
                rests[k - i] = after(g, list[k]);
            branch = gbnf_compile_this(g, list[i].node,
                                       compile_rests(g, rests, end - i, depth + 1, next));
        }
        result = i == 0 ? branch : grammar_fork(g->b, branch, result);
    }
    return result;
}

static uint32_t compile_any(struct gbnf *g, const struct gbnf_node *n, uint32_t next)
{
    struct grammar_choice *texts = alloc(g, n->count, sizeof(*texts));
    struct rest *rests = alloc(g, n->count, sizeof(*rests));
    uint32_t text_count = 0, rest_count = 0;
    if (!ok(g) || !grammar_charge(g->b, n->count))
        return 0;
    for (uint32_t i = n->below; i != 0; i = g->nodes[i].next) {
        const struct gbnf_node *one = &g->nodes[i];
        if (one->op == GBNF_TEXT)
            texts[text_count++] = (struct grammar_choice){one->text, next};
        else if (one->op == GBNF_ALL && !one->is_flat)
            rests[rest_count++] = (struct rest){one->below, false};
        else
            rests[rest_count++] = (struct rest){i, true};
    }
    uint32_t result = text_count != 0 ? grammar_choose(g->b, texts, text_count) : 0;
    if (rest_count == 0)
        return result;
    uint32_t others = compile_rests(g, rests, rest_count, 0, next);
    return text_count != 0 ? grammar_fork(g->b, result, others) : others;
}

/* ---- repetitions ---- */

/* What is repeated, as a rule of the program that each repetition calls. */
static uint32_t add_body(struct gbnf *g, uint32_t node)
{
    uint32_t rule = grammar_rule_add(g->b, NULL, 0);
    uint32_t entry = gbnf_compile_this(g, node, g->over);
    if (ok(g))
        g->b->program->rules[rule].entry = entry;
    return rule;
}

static uint32_t compile_repeat(struct gbnf *g, const struct gbnf_node *n, uint32_t next)
{
    const struct gbnf_node *body = &g->nodes[n->below];
    bool is_endless = n->max == REGEX_ENDLESS;
    uint32_t copies = is_endless ? (n->min > 1 ? n->min : 1) : n->max;
    bool is_leaf = body->op == GBNF_TEXT || body->op == GBNF_SET ||
                   (body->op == GBNF_RULE && !body->is_flat);
    uint32_t rule = copies > 1 && !is_leaf ? add_body(g, n->below) : GRAMMAR_NO_RULE;
    uint32_t at = next;
    for (uint32_t i = 0; i < copies && ok(g); i++) {
        uint32_t loop = is_endless && i == 0 ? grammar_fork(g->b, 0, 0) : at;
        uint32_t one = rule != GRAMMAR_NO_RULE ? grammar_call(g->b, rule, loop)
                                               : gbnf_compile_this(g, n->below, loop);
        if (is_endless && i == 0) {
            grammar_patch(g->b, loop, one, next);
            at = n->min > 0 ? one : loop;
        } else {
            at = is_endless || i >= n->max - n->min ? one : grammar_fork(g->b, one, next);
        }
    }
    return at;
}

/* ---- nodes ---- */

static uint32_t compile_set(struct gbnf *g, uint32_t node, uint32_t next)
{
    const struct regex_set *set = &g->nodes[node].set;
    uint32_t result = 0;
    if (g->nodes[node].wants_dfa) {
        if (!try_automaton(g, &node, 1, next, &result))
            grammar_fail(g->b, LR_INVALID_ARGUMENT, "the grammar is too large");
        return result;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        uint32_t one =
            grammar_byte(g->b, (char)set->ranges[i].low, (char)set->ranges[i].high, next);
        result = i == 0 ? one : grammar_fork(g->b, one, result);
    }
    return result;
}

/* A node that is not one automaton. */
static uint32_t compile_apart(struct gbnf *g, uint32_t node, uint32_t next)
{
    const struct gbnf_node *n = &g->nodes[node];
    switch ((enum gbnf_op)n->op) {
    case GBNF_TEXT:
        return grammar_literal(g->b, n->text, next);
    case GBNF_SET:
        return compile_set(g, node, next);
    case GBNF_RULE:
        if (n->is_flat && !n->wants_dfa && n->size <= INLINE_MAX)
            return gbnf_compile_this(g, g->rules[n->uses].node, next);
        return call(g, n->uses, next);
    case GBNF_ALL:
        return compile_rest(g, (struct rest){n->below, false}, next);
    case GBNF_ANY:
        return compile_any(g, n, next);
    default:
        return compile_repeat(g, n, next);
    }
}

static uint32_t compile_run(struct gbnf *g, const uint32_t *list, uint32_t count, uint32_t next)
{
    bool wants = false;
    uint32_t result = 0;
    for (uint32_t i = 0; i < count; i++)
        wants = wants || g->nodes[list[i]].wants_dfa;
    if (wants && try_automaton(g, list, count, next, &result))
        return result;
    if (wants && count > 1) {
        uint32_t half = count / 2;
        return compile_run(g, list, half, compile_run(g, list + half, count - half, next));
    }
    for (uint32_t i = count; i > 0 && ok(g); i--)
        next = compile_apart(g, list[i - 1], next);
    return ok(g) ? next : 0;
}

static uint32_t gbnf_compile_this(struct gbnf *g, uint32_t node, uint32_t next)
{
    if (!ok(g))
        return 0;
    return g->nodes[node].is_flat ? compile_run(g, &node, 1, next)
                                  : compile_apart(g, node, next);
}

uint32_t grammar_text_gbnf(struct grammar_build *b, struct lr_str text, uint32_t next)
{
    struct gbnf g = {.b = b, .text = text};
    b->subject = "grammar";
    b->checked_from = b->program->count;
    if (!grammar_gbnf_parse(&g) || !grammar_gbnf_check(&g))
        return 0;
    g.calls = alloc(&g, g.rule_count, sizeof(*g.calls));
    g.over = grammar_step(b, GRAMMAR_RETURN, 0, 0);
    if (!ok(&g))
        return 0;
    uint32_t entry = gbnf_compile_this(&g, g.rules[g.root].node, next);
    for (uint32_t i = 0; i < g.call_count && ok(&g); i++) {
        struct gbnf_rule *r = &g.rules[g.calls[i]];
        uint32_t body = gbnf_compile_this(&g, r->node, g.over);
        grammar_patch(b, r->entry, body, body);
    }
    b->checked_to = b->program->count;
    return entry;
}
