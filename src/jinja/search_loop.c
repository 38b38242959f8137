/* jinja/search_loop.c - recognises loops that only search for an item.
 *
 *   {% for m in messages[loop.index:] %}
 *     {% if m.role == 'assistant' and 'tool_calls' not in m %}
 *       {% set found.yes = true %}
 *     {% endif %}
 *   {% endfor %}
 *
 * Templates run such loops for every message, over all messages after it, which is quadratic.
 * Once an item is found the rest of the loop cannot change the result: the condition reads only
 * the loop variable and constants and cannot fail on a dict, and the assignment would only be
 * repeated.  So the loop stops there.
 */
#include "jinja/search_loop.h"

static bool is_target(const struct node *loop, const struct node *n)
{
    return n->kind == N_NAME && jinja_text_eq(n->name, loop->a->name);
}

/* A constant, the loop variable, or a plain key of the loop variable. */
static bool is_harmless(const struct node *loop, const struct node *n)
{
    if (n->kind == N_CONST || is_target(loop, n))
        return true;
    return n->kind == N_ATTR && n->plain && is_target(loop, n->a);
}

static bool is_harmless_test(const struct node *loop, const struct node *n, int depth)
{
    switch ((enum node_kind)n->kind) {
    case N_AND:
    case N_OR:
        return depth < 8 && is_harmless_test(loop, n->a, depth + 1) &&
               is_harmless_test(loop, n->b, depth + 1);
    case N_NOT:
        return depth < 8 && is_harmless_test(loop, n->a, depth + 1);
    case N_COMPARE:
        if (n->count != 1 || !is_harmless(loop, n->a))
            return false;
        if (n->op <= CMP_NE)
            return is_harmless(loop, n->b);
        return n->op >= CMP_IN && is_target(loop, n->b) && n->a->kind == N_CONST &&
               n->a->value.kind == K_TEXT;
    default:
        return is_harmless(loop, n);
    }
}

bool jinja_is_search_loop(const struct node *loop)
{
    if (loop->a->kind != N_NAME || loop->c != NULL || loop->other.count != 0 ||
        loop->loop->uses_loop || loop->loop->recursive || loop->body.count != 1)
        return false;
    const struct node *test = loop->body.items[0];
    if (test->kind != N_IF || test->other.count != 0 || test->body.count != 1)
        return false;
    const struct node *set = test->body.items[0];
    return set->kind == N_SET && set->a->kind == N_NSREF && set->b->kind == N_CONST &&
           !jinja_text_eq(set->a->name, loop->a->name) && is_harmless_test(loop, test->a, 0);
}
