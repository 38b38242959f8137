/* jinja/parse_expr.c - operators, with Jinja2's precedence. */
#include "jinja/parse.h"

static struct node *parse_pow(struct parser *p)
{
    uint32_t line = p->current.line;
    struct node *left = jinja_parse_unary(p, true);
    while (left != NULL && jinja_skip_kind(p, T_POW))
        left = jinja_binary_node(p, N_POW, left, jinja_parse_unary(p, true), line);
    return left;
}

static struct node *parse_product(struct parser *p)
{
    uint32_t line = p->current.line;
    struct node *left = parse_pow(p);
    while (left != NULL) {
        enum node_kind kind;
        switch (p->current.kind) {
        case T_MUL:
            kind = N_MUL;
            break;
        case T_DIV:
            kind = N_DIV;
            break;
        case T_FLOORDIV:
            kind = N_FLOORDIV;
            break;
        case T_MOD:
            kind = N_MOD;
            break;
        default:
            return left;
        }
        jinja_advance(p);
        left = jinja_binary_node(p, kind, left, parse_pow(p), line);
    }
    return left;
}

static struct node *parse_concat(struct parser *p)
{
    uint32_t line = p->current.line;
    struct node_list items = {0};
    if (!jinja_push_node(p, &items, parse_product(p)))
        return NULL;
    while (jinja_skip_kind(p, T_TILDE))
        if (!jinja_push_node(p, &items, parse_product(p)))
            return NULL;
    if (items.count == 1)
        return items.items[0];
    struct node *n = jinja_node(p, N_CONCAT, line);
    if (n != NULL) {
        n->list = items.items;
        n->count = (uint32_t)items.count;
    }
    return n;
}

static struct node *parse_sum(struct parser *p)
{
    uint32_t line = p->current.line;
    struct node *left = parse_concat(p);
    while (left != NULL && (p->current.kind == T_ADD || p->current.kind == T_SUB)) {
        enum node_kind kind = p->current.kind == T_ADD ? N_ADD : N_SUB;
        jinja_advance(p);
        left = jinja_binary_node(p, kind, left, parse_concat(p), line);
    }
    return left;
}

static bool compare_op(struct parser *p, uint8_t *op)
{
    if (p->current.kind >= T_EQ && p->current.kind <= T_GE) {
        static const uint8_t ops[] = {CMP_EQ, CMP_NE, CMP_LT, CMP_LE, CMP_GT, CMP_GE};
        *op = ops[p->current.kind - T_EQ];
        jinja_advance(p);
        return true;
    }
    if (jinja_skip_name(p, "in")) {
        *op = CMP_IN;
        return true;
    }
    if (jinja_at_name(p, "not") && jinja_look(p)->kind == T_NAME &&
        lr_str_eq_z(jinja_look(p)->text, "in")) {
        jinja_advance(p);
        jinja_advance(p);
        *op = CMP_NOT_IN;
        return true;
    }
    return false;
}

static struct node *parse_compare(struct parser *p)
{
    uint32_t line = p->current.line;
    struct node *left = parse_sum(p);
    struct node_list right = {0};
    uint8_t *ops = NULL;
    uint8_t op;
    while (left != NULL && compare_op(p, &op)) {
        if ((right.count & (right.count + 1)) == 0) { /* 0, 1, 3, 7...: full */
            uint8_t *more = jinja_alloc(p->run, right.count * 2 + 1);
            if (more == NULL)
                return NULL;
            if (right.count > 0)
                memcpy(more, ops, right.count);
            ops = more;
        }
        ops[right.count] = op;
        if (!jinja_push_node(p, &right, parse_sum(p)))
            return NULL;
    }
    if (left == NULL || right.count == 0)
        return left;
    struct node *n = jinja_node(p, N_COMPARE, line);
    if (n == NULL)
        return NULL;
    n->a = left;
    n->b = right.items[0];
    n->op = ops[0];
    n->ops = ops;
    n->list = right.items;
    n->count = (uint32_t)right.count;
    return n;
}

static struct node *parse_not(struct parser *p)
{
    if (!jinja_at_name(p, "not"))
        return parse_compare(p);
    struct node *n = jinja_node(p, N_NOT, p->current.line);
    if (n == NULL || !jinja_enter(p->run))
        return NULL;
    jinja_advance(p);
    n->a = parse_not(p);
    jinja_leave(p->run);
    return n->a != NULL ? n : NULL;
}

static struct node *parse_and(struct parser *p)
{
    uint32_t line = p->current.line;
    struct node *left = parse_not(p);
    while (left != NULL && jinja_skip_name(p, "and"))
        left = jinja_binary_node(p, N_AND, left, parse_not(p), line);
    return left;
}

static struct node *parse_or(struct parser *p)
{
    uint32_t line = p->current.line;
    struct node *left = parse_and(p);
    while (left != NULL && jinja_skip_name(p, "or"))
        left = jinja_binary_node(p, N_OR, left, parse_and(p), line);
    return left;
}

static struct node *parse_condition(struct parser *p)
{
    uint32_t line = p->current.line;
    struct node *value = parse_or(p);
    while (value != NULL && jinja_skip_name(p, "if")) {
        struct node *test = parse_or(p);
        struct node *n = jinja_binary_node(p, N_COND, test, value, line);
        if (n == NULL)
            return NULL;
        if (jinja_skip_name(p, "else")) {
            n->c = jinja_parse_expression(p, true);
            if (n->c == NULL)
                return NULL;
        }
        value = n;
    }
    return value;
}

struct node *jinja_parse_expression(struct parser *p, bool with_condition)
{
    if (!jinja_enter(p->run))
        return NULL;
    struct node *n = with_condition ? parse_condition(p) : parse_or(p);
    jinja_leave(p->run);
    return n;
}
