/* jinja/parse_operand.c - operands: names, literals, calls, filters. */
#include "jinja/builtins.h"
#include "jinja/parse.h"

static struct node *const_node(struct parser *p, struct value value, uint32_t line)
{
    struct node *n = jinja_node(p, N_CONST, line);
    if (n != NULL)
        n->value = value;
    return n;
}

struct node *jinja_binary_node(struct parser *p, enum node_kind kind, struct node *a,
                               struct node *b, uint32_t line)
{
    if (a == NULL || b == NULL)
        return NULL;
    struct node *n = jinja_node(p, kind, line);
    if (n != NULL) {
        n->a = a;
        n->b = b;
    }
    return n;
}

/* ---- primary ---- */

static struct node *parse_list(struct parser *p)
{
    struct node *n = jinja_node(p, N_LIST, p->current.line);
    struct node_list items = {0};
    jinja_advance(p);
    while (n != NULL && p->current.kind != T_RBRACKET) {
        if (items.count > 0 && !jinja_expect(p, T_COMMA, "','"))
            return NULL;
        if (p->current.kind == T_RBRACKET)
            break;
        if (!jinja_push_node(p, &items, jinja_parse_expression(p, true)))
            return NULL;
    }
    if (n == NULL || !jinja_expect(p, T_RBRACKET, "']'"))
        return NULL;
    n->list = items.items;
    n->count = (uint32_t)items.count;
    return n;
}

static struct node *parse_dict(struct parser *p)
{
    struct node *n = jinja_node(p, N_DICT, p->current.line);
    struct node_list items = {0};
    jinja_advance(p);
    while (n != NULL && p->current.kind != T_RBRACE) {
        if (items.count > 0 && !jinja_expect(p, T_COMMA, "','"))
            return NULL;
        if (p->current.kind == T_RBRACE)
            break;
        if (!jinja_push_node(p, &items, jinja_parse_expression(p, true)) ||
            !jinja_expect(p, T_COLON, "':'") ||
            !jinja_push_node(p, &items, jinja_parse_expression(p, true)))
            return NULL;
    }
    if (n == NULL || !jinja_expect(p, T_RBRACE, "'}'"))
        return NULL;
    n->list = items.items;
    n->count = (uint32_t)items.count;
    return n;
}

/* Joins adjacent string literals. */
static struct node *parse_string(struct parser *p)
{
    uint32_t line = p->current.line;
    struct mark mark = jinja_mark(p->run);
    while (p->current.kind == T_STRING) {
        jinja_write(p->run, p->current.text, true);
        jinja_advance(p);
    }
    struct text *whole = jinja_take(p->run, mark);
    struct value v = whole != NULL ? value_text(jinja_token_text(p, text_str(whole))) : V_FAIL;
    return is_fail(v) ? NULL : const_node(p, v, line);
}

static void count_load(struct parser *p, struct lr_str name)
{
    p->loop_loads += lr_str_eq_z(name, "loop");
    p->caller_loads += lr_str_eq_z(name, "caller");
    p->kwargs_loads += lr_str_eq_z(name, "kwargs");
    p->varargs_loads += lr_str_eq_z(name, "varargs");
}

static struct node *parse_name(struct parser *p, unsigned flags)
{
    struct lr_str name = p->current.text;
    uint32_t line = p->current.line;
    jinja_advance(p);
    if (lr_str_eq_z(name, "true") || lr_str_eq_z(name, "True"))
        return const_node(p, value_bool(true), line);
    if (lr_str_eq_z(name, "false") || lr_str_eq_z(name, "False"))
        return const_node(p, value_bool(false), line);
    if (lr_str_eq_z(name, "none") || lr_str_eq_z(name, "None"))
        return const_node(p, V_NONE, line);
    bool nsref = (flags & TUPLE_NAMESPACE) != 0 && p->current.kind == T_DOT;
    struct node *n = jinja_node(p, nsref ? N_NSREF : N_NAME, line);
    if (n == NULL)
        return NULL;
    n->name = jinja_token_text(p, name);
    if (nsref) {
        jinja_advance(p);
        if (p->current.kind != T_NAME)
            return jinja_syntax_error(p, "a name");
        n->value = value_text(jinja_token_text(p, p->current.text));
        jinja_advance(p);
    } else if ((flags & TUPLE_TARGETS) == 0) {
        count_load(p, name);
    }
    return p->run->failed ? NULL : n;
}

static struct node *parse_primary(struct parser *p, unsigned flags)
{
    uint32_t line = p->current.line;
    struct node *n = NULL;
    switch (p->current.kind) {
    case T_NAME:
        return parse_name(p, flags);
    case T_STRING:
        return parse_string(p);
    case T_INTEGER:
        n = const_node(p, value_int(p->current.integer), line);
        jinja_advance(p);
        return n;
    case T_FLOAT:
        n = const_node(p, value_float(p->current.real), line);
        jinja_advance(p);
        return n;
    case T_LPAREN:
        jinja_advance(p);
        n = jinja_parse_tuple(p, TUPLE_PARENTHESES | (flags & TUPLE_TARGETS));
        return n != NULL && jinja_expect(p, T_RPAREN, "')'") ? n : NULL;
    case T_LBRACKET:
        return parse_list(p);
    case T_LBRACE:
        return parse_dict(p);
    default:
        return jinja_syntax_error(p, "an expression");
    }
}

static bool tuple_ends(const struct parser *p, unsigned flags)
{
    if (p->current.kind == T_VARIABLE_END || p->current.kind == T_BLOCK_END ||
        p->current.kind == T_RPAREN)
        return true;
    if ((flags & TUPLE_END_IN) != 0 && jinja_at_name(p, "in"))
        return true;
    return (flags & TUPLE_END_RECURSIVE) != 0 && jinja_at_name(p, "recursive");
}

struct node *jinja_parse_tuple(struct parser *p, unsigned flags)
{
    uint32_t line = p->current.line;
    struct node_list items = {0};
    bool is_tuple = false;
    for (;;) {
        if (items.count > 0 && !jinja_expect(p, T_COMMA, "','"))
            return NULL;
        if (tuple_ends(p, flags))
            break;
        struct node *item = (flags & TUPLE_TARGETS) != 0
                                ? parse_primary(p, flags)
                                : jinja_parse_expression(p, (flags & TUPLE_NO_COND) == 0);
        if (!jinja_push_node(p, &items, item))
            return NULL;
        if (p->current.kind != T_COMMA)
            break;
        is_tuple = true;
    }
    if (!is_tuple && items.count > 0)
        return items.items[0];
    if (!is_tuple && (flags & TUPLE_PARENTHESES) == 0)
        return jinja_syntax_error(p, "an expression");
    struct node *n = jinja_node(p, N_TUPLE, line);
    if (n != NULL) {
        n->list = items.items;
        n->count = (uint32_t)items.count;
    }
    return n;
}

/* ---- targets ---- */

static bool can_assign(struct parser *p, const struct node *n)
{
    switch ((enum node_kind)n->kind) {
    case N_NAME:
        p->loop_stores += lr_str_eq_z(text_str(n->name), "loop");
        return true;
    case N_NSREF:
        return true;
    case N_TUPLE:
        for (size_t i = 0; i < n->count; i++)
            if (!can_assign(p, n->list[i]))
                return false;
        return true;
    default:
        return false;
    }
}

struct node *jinja_parse_target(struct parser *p, unsigned flags)
{
    struct node *n = jinja_parse_tuple(p, flags | TUPLE_TARGETS);
    if (n != NULL && !can_assign(p, n)) {
        p->run->line = n->line;
        (void)jinja_error(p->run, "cannot assign to this expression");
        return NULL;
    }
    return n;
}

struct node *jinja_parse_name_target(struct parser *p)
{
    if (p->current.kind != T_NAME)
        return jinja_syntax_error(p, "a name");
    struct node *n = jinja_node(p, N_NAME, p->current.line);
    if (n == NULL)
        return NULL;
    n->name = jinja_token_text(p, p->current.text);
    jinja_advance(p);
    return n->name != NULL && can_assign(p, n) ? n : NULL;
}

/* ---- postfix ---- */

static struct node *parse_slice(struct parser *p)
{
    uint32_t line = p->current.line;
    struct node *part[3] = {NULL, NULL, NULL};
    if (p->current.kind != T_COLON) {
        part[0] = jinja_parse_expression(p, true);
        if (part[0] == NULL || p->current.kind != T_COLON)
            return part[0];
    }
    jinja_advance(p);
    for (size_t i = 1; i < 3; i++) {
        enum token_kind kind = p->current.kind;
        if (kind != T_COLON && kind != T_RBRACKET && kind != T_COMMA) {
            part[i] = jinja_parse_expression(p, true);
            if (part[i] == NULL)
                return NULL;
        }
        if (i == 1 && !jinja_skip_kind(p, T_COLON))
            break;
    }
    struct node *n = jinja_node(p, N_SLICE, line);
    if (n != NULL) {
        n->a = part[0];
        n->b = part[1];
        n->c = part[2];
    }
    return n;
}

static struct node *parse_subscript(struct parser *p, struct node *object, uint32_t line)
{
    struct node_list items = {0};
    jinja_advance(p);
    while (p->current.kind != T_RBRACKET) {
        if (items.count > 0 && !jinja_expect(p, T_COMMA, "','"))
            return NULL;
        if (!jinja_push_node(p, &items, parse_slice(p)))
            return NULL;
    }
    jinja_advance(p);
    struct node *index;
    if (items.count == 1) {
        index = items.items[0];
    } else {
        index = jinja_node(p, N_TUPLE, line);
        if (index != NULL) {
            index->list = items.items;
            index->count = (uint32_t)items.count;
        }
    }
    return jinja_binary_node(p, N_ITEM, object, index, line);
}

static struct node *parse_attribute(struct parser *p, struct node *object, uint32_t line)
{
    jinja_advance(p);
    if (p->current.kind == T_INTEGER) {
        struct node *index = const_node(p, value_int(p->current.integer), line);
        jinja_advance(p);
        return jinja_binary_node(p, N_ITEM, object, index, line);
    }
    if (p->current.kind != T_NAME)
        return jinja_syntax_error(p, "a name or a number");
    struct node *n = jinja_node(p, N_ATTR, line);
    if (n == NULL)
        return NULL;
    n->a = object;
    n->name = jinja_token_text(p, p->current.text);
    n->value = value_text(n->name);
    n->plain = jinja_is_plain_key(p->current.text);
    jinja_advance(p);
    return n->name != NULL ? n : NULL;
}

static bool push_keyword(struct parser *p, struct args *args, struct node_list *names,
                         struct node_list *values)
{
    struct node *name = jinja_node(p, N_NAME, p->current.line);
    if (name == NULL)
        return false;
    name->name = jinja_token_text(p, p->current.text);
    if (names->count == MAX_NAMED_ARGS) {
        (void)jinja_error(p->run, "more than %d keyword arguments", MAX_NAMED_ARGS);
        return false;
    }
    for (size_t i = 0; i < names->count; i++) {
        if (name->name != NULL && jinja_text_eq(names->items[i]->name, name->name)) {
            (void)jinja_error(p->run, "keyword argument repeated: " LR_STR_FMT,
                              LR_STR_ARG(text_str(name->name)));
            return false;
        }
    }
    jinja_advance(p);
    jinja_advance(p);
    args->keyword_count++;
    return name->name != NULL && jinja_push_node(p, names, name) &&
           jinja_push_node(p, values, jinja_parse_expression(p, true));
}

static bool push_argument(struct parser *p, struct args *args, struct node_list *positional,
                          struct node_list *names, struct node_list *values)
{
    if (p->current.kind == T_MUL || p->current.kind == T_POW) {
        bool star = p->current.kind == T_MUL;
        if (args->double_star != NULL || (star && args->star != NULL))
            return jinja_syntax_error(p, "a valid call") != NULL;
        jinja_advance(p);
        struct node *value = jinja_parse_expression(p, true);
        *(star ? &args->star : &args->double_star) = value;
        return value != NULL;
    }
    if (p->current.kind == T_NAME && jinja_look(p)->kind == T_ASSIGN) {
        if (args->double_star != NULL)
            return jinja_syntax_error(p, "a valid call") != NULL;
        return push_keyword(p, args, names, values);
    }
    if (args->star != NULL || args->double_star != NULL || args->keyword_count > 0)
        return jinja_syntax_error(p, "a valid call") != NULL;
    args->positional_count++;
    return jinja_push_node(p, positional, jinja_parse_expression(p, true));
}

static struct args *parse_args(struct parser *p)
{
    struct args *args = jinja_alloc(p->run, sizeof(*args));
    struct node_list positional = {0}, names = {0}, values = {0};
    if (args == NULL)
        return NULL;
    *args = (struct args){0};
    jinja_advance(p);
    bool comma = false;
    while (p->current.kind != T_RPAREN) {
        if (comma && !jinja_expect(p, T_COMMA, "','"))
            return NULL;
        if (comma && p->current.kind == T_RPAREN)
            break;
        if (!push_argument(p, args, &positional, &names, &values))
            return NULL;
        comma = true;
    }
    jinja_advance(p);
    args->positional = positional.items;
    args->keyword = values.items;
    args->keyword_names = jinja_array(p->run, names.count + 1, sizeof(struct text *));
    if (args->keyword_names == NULL)
        return NULL;
    for (size_t i = 0; i < names.count; i++)
        args->keyword_names[i] = names.items[i]->name;
    return args;
}

static struct node *parse_call(struct parser *p, struct node *callee)
{
    struct node *n = jinja_node(p, N_CALL, p->current.line);
    if (n == NULL)
        return NULL;
    n->a = callee;
    n->args = parse_args(p);
    return n->args != NULL ? n : NULL;
}

static struct node *parse_postfix(struct parser *p, struct node *n)
{
    while (n != NULL) {
        uint32_t line = p->current.line;
        if (p->current.kind == T_DOT)
            n = parse_attribute(p, n, line);
        else if (p->current.kind == T_LBRACKET)
            n = parse_subscript(p, n, line);
        else if (p->current.kind == T_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

/* a.b.c after `|` or `is` is one dotted name. */
static struct text *parse_dotted(struct parser *p)
{
    struct mark mark = jinja_mark(p->run);
    for (;;) {
        if (p->current.kind != T_NAME) {
            (void)jinja_syntax_error(p, "a name");
            return NULL;
        }
        jinja_write(p->run, p->current.text, true);
        jinja_advance(p);
        if (p->current.kind != T_DOT)
            return jinja_take(p->run, mark);
        jinja_write_z(p->run, ".", true);
        jinja_advance(p);
    }
}

static struct args *no_args(struct parser *p)
{
    struct args *args = jinja_alloc(p->run, sizeof(*args));
    if (args != NULL)
        *args = (struct args){0};
    return args;
}

struct node *jinja_parse_filter(struct parser *p, struct node *object, bool start_inline)
{
    while (start_inline || p->current.kind == T_PIPE) {
        if (!start_inline)
            jinja_advance(p);
        start_inline = false;
        struct node *n = jinja_node(p, N_FILTER, p->current.line);
        if (n == NULL)
            return NULL;
        n->a = object;
        n->name = parse_dotted(p);
        if (n->name == NULL)
            return NULL;
        n->filter = jinja_find_filter(text_str(n->name));
        n->args = p->current.kind == T_LPAREN ? parse_args(p) : no_args(p);
        if (n->args == NULL)
            return NULL;
        object = n;
    }
    return object;
}

static bool starts_test_argument(struct parser *p)
{
    switch (p->current.kind) {
    case T_NAME:
        return !jinja_at_name(p, "else") && !jinja_at_name(p, "or") && !jinja_at_name(p, "and");
    case T_STRING:
    case T_INTEGER:
    case T_FLOAT:
    case T_LBRACKET:
    case T_LBRACE:
        return true;
    default:
        return false;
    }
}

static struct node *parse_test(struct parser *p, struct node *object)
{
    struct node *n = jinja_node(p, N_TEST, p->current.line);
    if (n == NULL)
        return NULL;
    jinja_advance(p);
    bool negated = jinja_skip_name(p, "not");
    n->a = object;
    n->name = parse_dotted(p);
    if (n->name == NULL)
        return NULL;
    n->test = jinja_find_test(text_str(n->name));
    n->args = p->current.kind == T_LPAREN ? parse_args(p) : no_args(p);
    if (n->args == NULL)
        return NULL;
    if (n->args->positional_count == 0 && n->args->keyword_count == 0 &&
        n->args->star == NULL && starts_test_argument(p)) {
        if (jinja_at_name(p, "is"))
            return jinja_syntax_error(p, "no second test: tests cannot be chained");
        struct node_list arg = {0};
        if (!jinja_push_node(p, &arg, parse_postfix(p, parse_primary(p, 0))))
            return NULL;
        n->args->positional = arg.items;
        n->args->positional_count = 1;
    }
    if (!negated)
        return n;
    struct node *not_node = jinja_node(p, N_NOT, n->line);
    if (not_node != NULL)
        not_node->a = n;
    return not_node;
}

static struct node *parse_filters(struct parser *p, struct node *n)
{
    while (n != NULL) {
        if (p->current.kind == T_PIPE)
            n = jinja_parse_filter(p, n, false);
        else if (jinja_at_name(p, "is"))
            n = parse_test(p, n);
        else if (p->current.kind == T_LPAREN)
            n = parse_call(p, n);
        else
            break;
    }
    return n;
}

struct node *jinja_parse_unary(struct parser *p, bool with_filter)
{
    uint32_t line = p->current.line;
    struct node *n;
    if (!jinja_enter(p->run))
        return NULL;
    if (p->current.kind == T_SUB || p->current.kind == T_ADD) {
        n = jinja_node(p, p->current.kind == T_SUB ? N_NEG : N_POS, line);
        jinja_advance(p);
        if (n != NULL)
            n->a = jinja_parse_unary(p, false);
        if (n != NULL && n->a == NULL)
            n = NULL;
    } else {
        n = parse_primary(p, 0);
    }
    n = parse_postfix(p, n);
    if (with_filter)
        n = parse_filters(p, n);
    jinja_leave(p->run);
    return n;
}
