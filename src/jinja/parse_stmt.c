/* jinja/parse_stmt.c - statements and the text between them. */
#include <stdio.h>

#include "jinja/parse.h"
#include "jinja/search_loop.h"

/* ---- helpers ---- */

void jinja_advance(struct parser *p)
{
    if (p->has_ahead) {
        p->current = p->ahead;
        p->has_ahead = false;
    } else {
        p->current = jinja_lexer_next(&p->lexer);
    }
}

struct token *jinja_look(struct parser *p)
{
    if (!p->has_ahead) {
        p->ahead = jinja_lexer_next(&p->lexer);
        p->has_ahead = true;
    }
    return &p->ahead;
}

bool jinja_at_name(const struct parser *p, const char *name)
{
    return p->current.kind == T_NAME && lr_str_eq_z(p->current.text, name);
}

bool jinja_skip_kind(struct parser *p, enum token_kind kind)
{
    if (p->current.kind != kind)
        return false;
    jinja_advance(p);
    return true;
}

bool jinja_skip_name(struct parser *p, const char *name)
{
    if (!jinja_at_name(p, name))
        return false;
    jinja_advance(p);
    return true;
}

struct node *jinja_syntax_error(struct parser *p, const char *what)
{
    char buf[80];
    p->run->line = p->current.line;
    (void)jinja_error(p->run, "expected %s, got %s", what, jinja_token_name(&p->current, buf));
    return NULL;
}

bool jinja_expect(struct parser *p, enum token_kind kind, const char *what)
{
    if (jinja_skip_kind(p, kind))
        return true;
    (void)jinja_syntax_error(p, what);
    return false;
}

struct node *jinja_node(struct parser *p, enum node_kind kind, uint32_t line)
{
    struct node *n = jinja_alloc(p->run, sizeof(*n));
    if (n == NULL)
        return NULL;
    memset(n, 0, sizeof(*n));
    n->kind = (uint8_t)kind;
    n->line = line;
    return n;
}

bool jinja_push_node(struct parser *p, struct node_list *list, struct node *node)
{
    if (node == NULL)
        return false;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 2 : list->capacity * 2;
        struct node **items = jinja_array(p->run, capacity, sizeof(struct node *));
        if (items == NULL)
            return false;
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof(struct node *));
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = node;
    return true;
}

/* Cached properties of constants are computed now, because many threads read them later. */
struct text *jinja_token_text(struct parser *p, struct lr_str s)
{
    struct text **slot = text_table_slot(p->names, s);
    if (slot != NULL && *slot != NULL && lr_str_eq(text_str(*slot), s))
        return *slot;
    struct text *t = jinja_text_slice(p->run, s, true);
    if (t == NULL)
        return NULL;
    (void)jinja_text_chars(t);
    (void)jinja_text_hash(t);
    if (slot != NULL && *slot == NULL)
        *slot = t;
    return t;
}

/* ---- bodies ---- */

static struct node *parse_statement(struct parser *p);

static bool at_any(const struct parser *p, const char *const *names)
{
    for (; *names != NULL; names++)
        if (jinja_at_name(p, *names))
            return true;
    return false;
}

/* Parses text and statements up to one of the end tags, whose name is then the current token;
 * without end tags, up to the end of the template. */
static bool parse_until(struct parser *p, const char *const *ends, struct body *out)
{
    struct node_list list = {0};
    for (;;) {
        struct node *n = NULL;
        if (p->current.kind == T_DATA) {
            n = jinja_node(p, N_DATA, p->current.line);
            if (n != NULL)
                n->value = value_text(jinja_token_text(p, p->current.text));
            jinja_advance(p);
        } else if (p->current.kind == T_VARIABLE_BEGIN) {
            n = jinja_node(p, N_OUTPUT, p->current.line);
            jinja_advance(p);
            if (n != NULL)
                n->a = jinja_parse_tuple(p, 0);
            if (n == NULL || n->a == NULL ||
                !jinja_expect(p, T_VARIABLE_END, "end of print statement"))
                return false;
        } else if (p->current.kind == T_BLOCK_BEGIN) {
            jinja_advance(p);
            if (ends != NULL && at_any(p, ends))
                break;
            n = parse_statement(p);
            if (n == NULL || !jinja_expect(p, T_BLOCK_END, "end of statement block"))
                return false;
        } else if (p->current.kind == T_EOF && ends == NULL) {
            break;
        } else {
            if (p->current.kind == T_EOF) {
                p->run->line = p->current.line;
                (void)jinja_error(p->run, "unexpected end of template, looking for '%s'",
                                  ends[0]);
            }
            return jinja_syntax_error(p, "template text") != NULL;
        }
        if (!jinja_push_node(p, &list, n))
            return false;
    }
    out->items = list.items;
    out->count = list.count;
    return true;
}

bool jinja_parse_body(struct parser *p, struct body *out)
{
    return parse_until(p, NULL, out);
}

/* The body of a statement, from the end of its opening tag. */
static bool parse_block_body(struct parser *p, const char *const *ends, struct body *out)
{
    (void)jinja_skip_kind(p, T_COLON);
    if (!jinja_expect(p, T_BLOCK_END, "end of statement block") || !jinja_enter(p->run))
        return false;
    bool ok = parse_until(p, ends, out);
    jinja_leave(p->run);
    return ok;
}

static bool parse_to_end(struct parser *p, const char *end, struct body *out)
{
    const char *ends[] = {end, NULL};
    if (!parse_block_body(p, ends, out))
        return false;
    jinja_advance(p);
    return true;
}

/* ---- statements ---- */

/* An elif becomes an if in the else branch. */
static struct node *parse_if(struct parser *p)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node *first = NULL, *n = NULL;
    for (;;) {
        struct node *next = jinja_node(p, N_IF, p->current.line);
        if (next == NULL)
            return NULL;
        jinja_advance(p);
        next->a = jinja_parse_tuple(p, TUPLE_NO_COND);
        if (next->a == NULL || !parse_block_body(p, ends, &next->body))
            return NULL;
        if (n != NULL) {
            struct node_list other = {0};
            if (!jinja_push_node(p, &other, next))
                return NULL;
            n->other = (struct body){other.items, 1};
        } else {
            first = next;
        }
        n = next;
        if (!jinja_at_name(p, "elif"))
            break;
    }
    if (jinja_skip_name(p, "else"))
        return parse_to_end(p, "endif", &n->other) ? first : NULL;
    jinja_advance(p);
    return first;
}

static struct node *parse_for(struct parser *p)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct node *n = jinja_node(p, N_FOR, p->current.line);
    struct for_info *info = n != NULL ? jinja_alloc(p->run, sizeof(*info)) : NULL;
    if (info == NULL)
        return NULL;
    *info = (struct for_info){0};
    n->loop = info;
    size_t stores = p->loop_stores;
    jinja_advance(p);
    n->a = jinja_parse_target(p, TUPLE_END_IN);
    if (n->a == NULL)
        return NULL;
    if (!jinja_skip_name(p, "in"))
        return jinja_syntax_error(p, "'in'");
    n->b = jinja_parse_tuple(p, TUPLE_NO_COND | TUPLE_END_RECURSIVE);
    if (n->b == NULL)
        return NULL;
    if (jinja_skip_name(p, "if")) {
        n->c = jinja_parse_expression(p, true);
        if (n->c == NULL)
            return NULL;
    }
    info->recursive = jinja_skip_name(p, "recursive");
    size_t loads = p->loop_loads;
    p->loop_depth++;
    bool ok = parse_block_body(p, ends, &n->body);
    p->loop_depth--;
    if (!ok)
        return NULL;
    info->uses_loop = info->recursive || p->loop_loads > loads;
    if (jinja_skip_name(p, "else")) {
        if (!parse_to_end(p, "endfor", &n->other))
            return NULL;
    } else {
        jinja_advance(p);
    }
    if (p->loop_stores > stores) {
        p->run->line = n->line;
        (void)jinja_error(p->run, "cannot assign to the special variable 'loop' in a loop");
        return NULL;
    }
    info->search = jinja_is_search_loop(n);
    return n;
}

static struct node *parse_set(struct parser *p)
{
    uint32_t line = p->current.line;
    jinja_advance(p);
    struct node *target = jinja_parse_target(p, TUPLE_NAMESPACE);
    if (target == NULL)
        return NULL;
    bool block = !jinja_skip_kind(p, T_ASSIGN);
    struct node *n = jinja_node(p, block ? N_SET_BLOCK : N_SET, line);
    if (n == NULL)
        return NULL;
    n->a = target;
    if (!block) {
        n->b = jinja_parse_tuple(p, 0);
        return n->b != NULL ? n : NULL;
    }
    n->b = jinja_parse_filter(p, NULL, false);
    return !p->run->failed && parse_to_end(p, "endset", &n->body) ? n : NULL;
}

static bool parse_signature(struct parser *p, struct macro_info *m)
{
    struct node_list params = {0}, defaults = {0};
    if (!jinja_expect(p, T_LPAREN, "'('"))
        return false;
    while (p->current.kind != T_RPAREN) {
        if (params.count > 0 && !jinja_expect(p, T_COMMA, "','"))
            return false;
        struct node *param = jinja_parse_name_target(p);
        if (!jinja_push_node(p, &params, param))
            return false;
        if (params.count > MAX_NAMED_ARGS) {
            (void)jinja_error(p->run, "more than %d parameters", MAX_NAMED_ARGS);
            return false;
        }
        for (size_t i = 0; i + 1 < params.count; i++) {
            if (jinja_text_eq(params.items[i]->name, param->name)) {
                (void)jinja_error(p->run, "duplicate argument '" LR_STR_FMT "'",
                                  LR_STR_ARG(text_str(param->name)));
                return false;
            }
        }
        m->has_caller_param |= lr_str_eq_z(text_str(param->name), "caller");
        if (jinja_skip_kind(p, T_ASSIGN)) {
            if (!jinja_push_node(p, &defaults, jinja_parse_expression(p, true)))
                return false;
        } else if (defaults.count > 0) {
            p->run->line = p->current.line;
            (void)jinja_error(p->run, "non-default argument follows default argument");
            return false;
        }
    }
    jinja_advance(p);
    m->params = params.items;
    m->param_count = (uint32_t)params.count;
    m->defaults = defaults.items;
    m->default_count = (uint32_t)defaults.count;
    return true;
}

static bool has_param(const struct macro_info *m, const char *name)
{
    for (size_t i = 0; i < m->param_count; i++)
        if (lr_str_eq_z(text_str(m->params[i]->name), name))
            return true;
    return false;
}

/* The body of a macro or call block; break and continue cannot leave it. */
static bool parse_macro_body(struct parser *p, struct macro_info *m, const char *end)
{
    size_t caller = p->caller_loads, kwargs = p->kwargs_loads, varargs = p->varargs_loads;
    size_t loops = p->loop_depth;
    p->loop_depth = 0;
    bool ok = parse_to_end(p, end, &m->body);
    p->loop_depth = loops;
    m->uses_caller = p->caller_loads > caller;
    m->uses_kwargs = p->kwargs_loads > kwargs && !has_param(m, "kwargs");
    m->uses_varargs = p->varargs_loads > varargs && !has_param(m, "varargs");
    if (ok && m->uses_caller && m->has_caller_param) {
        size_t plain = m->param_count - m->default_count;
        for (size_t i = 0; i < plain; i++) {
            if (lr_str_eq_z(text_str(m->params[i]->name), "caller")) {
                (void)jinja_error(p->run, "the special argument 'caller' needs a default");
                return false;
            }
        }
    }
    return ok;
}

static struct macro_info *new_macro(struct parser *p, struct node *n)
{
    struct macro_info *m = n != NULL ? jinja_alloc(p->run, sizeof(*m)) : NULL;
    if (m != NULL) {
        *m = (struct macro_info){0};
        n->macro = m;
    }
    return m;
}

static struct node *parse_macro(struct parser *p)
{
    struct node *n = jinja_node(p, N_MACRO, p->current.line);
    struct macro_info *m = new_macro(p, n);
    if (m == NULL)
        return NULL;
    jinja_advance(p);
    struct node *name = jinja_parse_name_target(p);
    if (name == NULL || !parse_signature(p, m))
        return NULL;
    n->name = m->name = name->name;
    return parse_macro_body(p, m, "endmacro") ? n : NULL;
}

static struct node *parse_call_block(struct parser *p)
{
    struct node *n = jinja_node(p, N_CALL_BLOCK, p->current.line);
    struct macro_info *m = new_macro(p, n);
    if (m == NULL)
        return NULL;
    jinja_advance(p);
    if (p->current.kind == T_LPAREN && !parse_signature(p, m))
        return NULL;
    n->a = jinja_parse_expression(p, true);
    if (n->a != NULL && n->a->kind != N_CALL)
        return jinja_syntax_error(p, "a call");
    return n->a != NULL && parse_macro_body(p, m, "endcall") ? n : NULL;
}

/* {% generation %}: a call block whose callee returns what its caller renders. */
static struct node *parse_generation(struct parser *p)
{
    struct node *n = jinja_node(p, N_CALL_BLOCK, p->current.line);
    struct macro_info *m = new_macro(p, n);
    if (m == NULL)
        return NULL;
    jinja_advance(p);
    return parse_macro_body(p, m, "endgeneration") ? n : NULL;
}

static struct node *parse_filter_block(struct parser *p)
{
    struct node *n = jinja_node(p, N_FILTER_BLOCK, p->current.line);
    if (n == NULL)
        return NULL;
    jinja_advance(p);
    n->a = jinja_parse_filter(p, NULL, true);
    return n->a != NULL && parse_to_end(p, "endfilter", &n->body) ? n : NULL;
}

static struct node *parse_with(struct parser *p)
{
    struct node *n = jinja_node(p, N_WITH, p->current.line);
    struct node_list pairs = {0};
    if (n == NULL)
        return NULL;
    jinja_advance(p);
    while (p->current.kind != T_BLOCK_END) {
        if (pairs.count > 0 && !jinja_expect(p, T_COMMA, "','"))
            return NULL;
        if (!jinja_push_node(p, &pairs, jinja_parse_target(p, 0)) ||
            !jinja_expect(p, T_ASSIGN, "'='") ||
            !jinja_push_node(p, &pairs, jinja_parse_expression(p, true)))
            return NULL;
    }
    n->list = pairs.items;
    n->count = (uint32_t)pairs.count;
    return parse_to_end(p, "endwith", &n->body) ? n : NULL;
}

static struct node *parse_autoescape(struct parser *p)
{
    struct node *n = jinja_node(p, N_SCOPE, p->current.line);
    if (n == NULL)
        return NULL;
    jinja_advance(p);
    struct node *value = jinja_parse_expression(p, true);
    if (value == NULL)
        return NULL;
    if (value->kind != N_CONST || jinja_truth(value->value)) {
        p->run->line = n->line;
        (void)jinja_error(p->run, "autoescape is not available in chat templates");
        return NULL;
    }
    return parse_to_end(p, "endautoescape", &n->body) ? n : NULL;
}

static struct node *parse_block(struct parser *p)
{
    struct node *n = jinja_node(p, N_BLOCK, p->current.line);
    if (n == NULL)
        return NULL;
    jinja_advance(p);
    if (p->current.kind != T_NAME)
        return jinja_syntax_error(p, "a name");
    n->name = jinja_token_text(p, p->current.text);
    jinja_advance(p);
    size_t loops = p->loop_depth;
    if (jinja_skip_name(p, "scoped") && loops > 0) {
        (void)jinja_error(p->run, "a scoped block inside a loop is not available");
        return NULL;
    }
    (void)jinja_skip_name(p, "required");
    p->loop_depth = 0;
    bool ok = n->name != NULL && parse_to_end(p, "endblock", &n->body);
    p->loop_depth = loops;
    if (!ok)
        return NULL;
    if (p->current.kind == T_NAME && lr_str_eq(p->current.text, text_str(n->name)))
        jinja_advance(p);
    if (p->block_count == MAX_BLOCKS) {
        (void)jinja_error(p->run, "more than %d blocks", MAX_BLOCKS);
        return NULL;
    }
    for (size_t i = 0; i < p->block_count; i++) {
        if (jinja_text_eq(p->blocks[i]->name, n->name)) {
            (void)jinja_error(p->run, "block '" LR_STR_FMT "' defined twice",
                              LR_STR_ARG(text_str(n->name)));
            return NULL;
        }
    }
    struct node_list blocks = {p->blocks, p->block_count, p->block_capacity};
    if (!jinja_push_node(p, &blocks, n))
        return NULL;
    p->blocks = blocks.items;
    p->block_count = blocks.count;
    p->block_capacity = blocks.capacity;
    return n;
}

static struct node *parse_print(struct parser *p)
{
    struct node *n = jinja_node(p, N_SCOPE, p->current.line);
    struct node_list outputs = {0};
    if (n == NULL)
        return NULL;
    jinja_advance(p);
    while (p->current.kind != T_BLOCK_END) {
        if (outputs.count > 0 && !jinja_expect(p, T_COMMA, "','"))
            return NULL;
        struct node *output = jinja_node(p, N_OUTPUT, p->current.line);
        if (output != NULL)
            output->a = jinja_parse_expression(p, true);
        if (output == NULL || output->a == NULL || !jinja_push_node(p, &outputs, output))
            return NULL;
    }
    n->body = (struct body){outputs.items, outputs.count};
    return n;
}

static struct node *parse_loop_control(struct parser *p, enum node_kind kind)
{
    struct node *n = jinja_node(p, kind, p->current.line);
    if (p->loop_depth == 0) {
        p->run->line = p->current.line;
        (void)jinja_error(p->run, "'%s' outside of a loop",
                          kind == N_BREAK ? "break" : "continue");
        return NULL;
    }
    jinja_advance(p);
    return n;
}

/* Other templates cannot be loaded.  Like Jinja2 without a loader, this fails only when it is
 * reached. */
static struct node *parse_refused(struct parser *p, const char *what)
{
    struct node *n = jinja_node(p, N_REFUSED, p->current.line);
    if (n == NULL)
        return NULL;
    n->value = value_text(jinja_text_z(p->run, what));
    while (p->current.kind != T_BLOCK_END && p->current.kind != T_EOF &&
           p->current.kind != T_ERROR)
        jinja_advance(p);
    return p->run->failed ? NULL : n;
}

static struct node *parse_statement(struct parser *p)
{
    static const struct {
        const char *name;
        struct node *(*parse)(struct parser *p);
    } table[] = {
        {"if", parse_if},
        {"for", parse_for},
        {"set", parse_set},
        {"macro", parse_macro},
        {"call", parse_call_block},
        {"filter", parse_filter_block},
        {"with", parse_with},
        {"autoescape", parse_autoescape},
        {"block", parse_block},
        {"print", parse_print},
        {"generation", parse_generation},
    };
    if (p->current.kind != T_NAME)
        return jinja_syntax_error(p, "a tag name");
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (jinja_at_name(p, table[i].name))
            return table[i].parse(p);
    if (jinja_at_name(p, "break"))
        return parse_loop_control(p, N_BREAK);
    if (jinja_at_name(p, "continue"))
        return parse_loop_control(p, N_CONTINUE);
    if (jinja_at_name(p, "include"))
        return parse_refused(p, "include");
    if (jinja_at_name(p, "import") || jinja_at_name(p, "from"))
        return parse_refused(p, "import");
    if (jinja_at_name(p, "extends"))
        return parse_refused(p, "extends");
    return jinja_syntax_error(p, "a known tag");
}
