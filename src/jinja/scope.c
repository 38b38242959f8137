/* jinja/scope.c - which variable a name means.
 *
 * Jinja2 decides this at compile time, in two passes per frame (the template, a loop body, a
 * macro...).  The first pass records what the frame reads and sets, in order, without looking
 * into inner frames.  The second pass compiles the frame with its inner frames.  The initial
 * value of a variable depends on its first use.  Read first: looked up in the context.  Set
 * first: undefined until then.  Set in an inner frame: starts with the outer value.  Set in one
 * branch of an if only: falls back to the outer value or the context.  The same two passes are
 * made here.
 *
 * Every name has a stack of bindings, innermost frame on top, so that a lookup is one load.
 */
#include "jinja/scope.h"

struct function_scope {
    uint32_t depth; /* number of outer activations */
    uint32_t slot_count;
};

struct frame;

struct binding {
    struct binding *below; /* the same name in an outer frame */
    struct symbol *symbol;
    struct frame *frame;
    uint32_t slot;
    enum load_how how;
    bool stored;
};

struct symbol {
    struct symbol *next; /* in its hash bucket */
    const struct text *name;
    struct binding *top;
};

struct binding_list {
    struct binding **items;
    size_t count, capacity;
};

struct frame {
    struct function_scope *function;
    struct binding_list bindings;
    struct binding_list stores; /* in the order of their first store */
};

enum { BUCKETS = 256 };

struct scope {
    struct run *run;
    struct symbol *buckets[BUCKETS];
    struct frame *frame;
    bool soft; /* inside an if or an inline if: an unknown filter is an error only when reached
                */
};

static void analyze_body(struct scope *s, const struct body *body);
static void resolve_body(struct scope *s, const struct body *body);

static struct symbol *intern(struct scope *s, struct text *name)
{
    struct symbol **bucket = &s->buckets[jinja_text_hash(name) % BUCKETS];
    for (struct symbol *sym = *bucket; sym != NULL; sym = sym->next)
        if (jinja_text_eq(sym->name, name))
            return sym;
    struct symbol *sym = jinja_alloc(s->run, sizeof(*sym));
    if (sym == NULL)
        return NULL;
    *sym = (struct symbol){.next = *bucket, .name = name};
    *bucket = sym;
    return sym;
}

static bool push(struct scope *s, struct binding_list *list, struct binding *b)
{
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 8 : list->capacity * 2;
        struct binding **items = jinja_array(s->run, capacity, sizeof(struct binding *));
        if (items == NULL)
            return false;
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof(struct binding *));
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = b;
    return true;
}

static struct binding *define(struct scope *s, struct symbol *sym, enum load_how how)
{
    struct binding *b = jinja_alloc(s->run, sizeof(*b));
    if (b == NULL || !push(s, &s->frame->bindings, b))
        return NULL;
    *b = (struct binding){.below = sym->top,
                          .symbol = sym,
                          .frame = s->frame,
                          .slot = s->frame->function->slot_count++,
                          .how = how};
    sym->top = b;
    return b;
}

static void load_name(struct scope *s, struct text *name)
{
    struct symbol *sym = intern(s, name);
    if (sym != NULL && sym->top == NULL)
        (void)define(s, sym, LOAD_RESOLVE);
}

static void store_name(struct scope *s, struct text *name)
{
    struct symbol *sym = intern(s, name);
    if (sym == NULL)
        return;
    struct binding *b = sym->top;
    if (b == NULL || b->frame != s->frame)
        b = define(s, sym, b != NULL ? LOAD_ALIAS : LOAD_UNDEFINED);
    if (b != NULL && !b->stored) {
        b->stored = true;
        (void)push(s, &s->frame->stores, b);
    }
}

static struct binding *declare_parameter(struct scope *s, struct text *name)
{
    struct symbol *sym = intern(s, name);
    if (sym == NULL)
        return NULL;
    struct binding *b = sym->top;
    if (b == NULL || b->frame != s->frame)
        b = define(s, sym, LOAD_PARAMETER);
    if (b != NULL) {
        b->how = LOAD_PARAMETER;
        b->stored = true;
    }
    return b;
}

/* ---- first pass: names that a frame reads and sets ---- */

static void analyze_expression(struct scope *s, const struct node *n);

static void analyze_list(struct scope *s, struct node *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        analyze_expression(s, list[i]);
}

static void analyze_args(struct scope *s, const struct args *args)
{
    analyze_list(s, args->positional, args->positional_count);
    analyze_list(s, args->keyword, args->keyword_count);
    analyze_expression(s, args->star);
    analyze_expression(s, args->double_star);
}

static void analyze_expression(struct scope *s, const struct node *n)
{
    if (n == NULL || s->run->failed || !jinja_enter(s->run))
        return;
    switch ((enum node_kind)n->kind) {
    case N_NAME:
        load_name(s, n->name);
        break;
    case N_COMPARE:
        analyze_expression(s, n->a);
        analyze_list(s, n->list, n->count);
        break;
    case N_CALL:
    case N_FILTER:
    case N_TEST:
        analyze_expression(s, n->a);
        analyze_args(s, n->args);
        break;
    default:
        analyze_expression(s, n->a);
        analyze_expression(s, n->b);
        analyze_expression(s, n->c);
        analyze_list(s, n->list, n->count);
        break;
    }
    jinja_leave(s->run);
}

static void analyze_target(struct scope *s, const struct node *n, bool parameter)
{
    if (n->kind == N_NAME) {
        if (parameter)
            (void)declare_parameter(s, n->name);
        else
            store_name(s, n->name);
    } else if (n->kind == N_NSREF) {
        load_name(s, n->name);
    } else {
        for (size_t i = 0; i < n->count; i++)
            analyze_target(s, n->list[i], parameter);
    }
}

static void analyze_if(struct scope *s, const struct node *n)
{
    analyze_expression(s, n->a);
    size_t before = s->frame->stores.count;
    analyze_body(s, &n->body);
    analyze_body(s, &n->other);
    for (size_t i = before; i < s->frame->stores.count; i++) {
        struct binding *b = s->frame->stores.items[i];
        if (b->how != LOAD_PARAMETER)
            b->how = b->below != NULL ? LOAD_ALIAS : LOAD_RESOLVE;
    }
}

static void analyze_statement(struct scope *s, const struct node *n)
{
    switch ((enum node_kind)n->kind) {
    case N_IF:
        analyze_if(s, n);
        break;
    case N_FOR:
        analyze_expression(s, n->b);
        break;
    case N_SET:
        analyze_expression(s, n->b);
        analyze_target(s, n->a, false);
        break;
    case N_SET_BLOCK:
        analyze_expression(s, n->b);
        analyze_target(s, n->a, false);
        break;
    case N_MACRO:
        store_name(s, n->name);
        break;
    case N_WITH:
        for (size_t i = 1; i < n->count; i += 2)
            analyze_expression(s, n->list[i]);
        break;
    case N_OUTPUT:
    case N_CALL_BLOCK:
    case N_FILTER_BLOCK:
        analyze_expression(s, n->a);
        break;
    default:
        break;
    }
}

static void analyze_body(struct scope *s, const struct body *body)
{
    if (!jinja_enter(s->run))
        return;
    for (size_t i = 0; i < body->count && !s->run->failed; i++)
        analyze_statement(s, body->items[i]);
    jinja_leave(s->run);
}

/* ---- frames ---- */

struct saved {
    struct frame *frame;
    bool soft;
};

static struct saved begin_frame(struct scope *s, struct frame *frame,
                                struct function_scope *function)
{
    struct saved saved = {s->frame, s->soft};
    *frame = (struct frame){.function = function};
    s->frame = frame;
    s->soft = false;
    return saved;
}

static struct ref ref_to(const struct scope *s, const struct binding *b)
{
    return (struct ref){s->frame->function->depth - b->frame->function->depth, b->slot};
}

/* Removes the frame's names and records their initial values. */
static void end_frame(struct scope *s, struct saved saved, struct frame_plan *plan)
{
    struct binding_list *list = &s->frame->bindings;
    plan->loads = jinja_array(s->run, list->count, sizeof(struct load));
    plan->count = 0;
    for (size_t i = list->count; i-- > 0;) {
        struct binding *b = list->items[i];
        b->symbol->top = b->below;
        if (b->how == LOAD_PARAMETER || plan->loads == NULL)
            continue;
        struct load *load = &plan->loads[plan->count++];
        *load = (struct load){.how = b->how, .slot = b->slot, .name = b->symbol->name};
        if (b->how == LOAD_ALIAS)
            load->outer = ref_to(s, b->below);
    }
    s->frame = saved.frame;
    s->soft = saved.soft;
}

/* ---- second pass ---- */

static void resolve_expression(struct scope *s, struct node *n);

static void resolve_list(struct scope *s, struct node **list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        resolve_expression(s, list[i]);
}

static void resolve_name(struct scope *s, struct node *n)
{
    struct symbol *sym = intern(s, n->name);
    if (sym == NULL)
        return;
    struct binding *b = sym->top != NULL ? sym->top : define(s, sym, LOAD_RESOLVE);
    if (b != NULL)
        n->ref = ref_to(s, b);
}

static void check_known(struct scope *s, const struct node *n)
{
    bool filter = n->kind == N_FILTER;
    bool known = filter ? n->filter != NULL : n->test != NULL;
    if (known || s->soft)
        return;
    s->run->line = n->line;
    (void)jinja_error(s->run, "no %s named '" LR_STR_FMT "'", filter ? "filter" : "test",
                      LR_STR_ARG(text_str(n->name)));
}

static void resolve_children(struct scope *s, struct node *n)
{
    switch ((enum node_kind)n->kind) {
    case N_NAME:
    case N_NSREF:
        resolve_name(s, n);
        break;
    case N_COMPARE:
        resolve_expression(s, n->a);
        resolve_list(s, n->list, n->count);
        break;
    case N_FILTER:
    case N_TEST:
    case N_CALL:
        if (n->kind != N_CALL)
            check_known(s, n);
        resolve_expression(s, n->a);
        resolve_list(s, n->args->positional, n->args->positional_count);
        resolve_list(s, n->args->keyword, n->args->keyword_count);
        resolve_expression(s, n->args->star);
        resolve_expression(s, n->args->double_star);
        break;
    default:
        resolve_expression(s, n->a);
        resolve_expression(s, n->b);
        resolve_expression(s, n->c);
        resolve_list(s, n->list, n->count);
        break;
    }
}

static void resolve_expression(struct scope *s, struct node *n)
{
    if (n == NULL || s->run->failed || !jinja_enter(s->run))
        return;
    bool soft = s->soft;
    s->soft = soft || n->kind == N_COND;
    resolve_children(s, n);
    s->soft = soft;
    jinja_leave(s->run);
}

static struct node *copy_target(struct scope *s, const struct node *n)
{
    struct node *copy = jinja_alloc(s->run, sizeof(*copy));
    if (copy == NULL)
        return NULL;
    *copy = *n;
    if (n->kind == N_TUPLE && n->count > 0) {
        copy->list = jinja_array(s->run, n->count, sizeof(struct node *));
        if (copy->list == NULL)
            return NULL;
        for (size_t i = 0; i < n->count; i++) {
            copy->list[i] = copy_target(s, n->list[i]);
            if (copy->list[i] == NULL)
                return NULL;
        }
    }
    return copy;
}

static void resolve_for(struct scope *s, struct node *n)
{
    struct for_info *info = n->loop;
    struct function_scope own = {.depth = s->frame->function->depth + 1};
    struct function_scope *function = info->recursive ? &own : s->frame->function;
    struct frame frame;

    resolve_expression(s, n->b);
    if (n->c != NULL) {
        info->test_target = copy_target(s, n->a);
        if (info->test_target == NULL)
            return;
        struct saved saved = begin_frame(s, &frame, function);
        analyze_target(s, info->test_target, true);
        analyze_expression(s, n->c);
        resolve_expression(s, info->test_target);
        resolve_expression(s, n->c);
        end_frame(s, saved, &info->test_frame);
    }
    struct saved saved = begin_frame(s, &frame, function);
    if (info->uses_loop) {
        struct text *name = jinja_text_z(s->run, "loop");
        struct binding *b = name != NULL ? declare_parameter(s, name) : NULL;
        if (b != NULL)
            info->loop = ref_to(s, b);
    }
    analyze_target(s, n->a, true);
    analyze_body(s, &n->body);
    resolve_expression(s, n->a);
    resolve_body(s, &n->body);
    end_frame(s, saved, &info->body_frame);
    if (n->other.count > 0) {
        saved = begin_frame(s, &frame, function);
        analyze_body(s, &n->other);
        resolve_body(s, &n->other);
        end_frame(s, saved, &info->other_frame);
    }
    info->slot_count = own.slot_count;
}

static void declare_special(struct scope *s, bool used, const char *name, uint32_t *slot)
{
    struct text *text = used ? jinja_text_z(s->run, name) : NULL;
    struct binding *b = text != NULL ? declare_parameter(s, text) : NULL;
    if (b != NULL)
        *slot = b->slot;
}

static void resolve_macro(struct scope *s, struct macro_info *m)
{
    struct function_scope own = {.depth = s->frame->function->depth + 1};
    struct frame frame;
    struct saved saved = begin_frame(s, &frame, &own);
    for (size_t i = 0; i < m->param_count; i++)
        analyze_target(s, m->params[i], true);
    declare_special(s, m->uses_caller && !m->has_caller_param, "caller", &m->caller_slot);
    declare_special(s, m->uses_kwargs, "kwargs", &m->kwargs_slot);
    declare_special(s, m->uses_varargs, "varargs", &m->varargs_slot);
    analyze_list(s, m->defaults, m->default_count);
    analyze_body(s, &m->body);
    resolve_list(s, m->params, m->param_count);
    resolve_list(s, m->defaults, m->default_count);
    resolve_body(s, &m->body);
    end_frame(s, saved, &m->frame);
    m->slot_count = own.slot_count;
}

static struct frame_plan *new_plan(struct scope *s)
{
    struct frame_plan *plan = jinja_alloc(s->run, sizeof(*plan));
    if (plan != NULL)
        *plan = (struct frame_plan){0};
    return plan;
}

/* with, set blocks, filter blocks, scopes: a frame within the same activation. */
static void resolve_inner(struct scope *s, struct node *n)
{
    struct frame frame;
    n->frame = new_plan(s);
    if (n->frame == NULL)
        return;
    if (n->kind == N_WITH)
        for (size_t i = 1; i < n->count; i += 2)
            resolve_expression(s, n->list[i]);
    if (n->kind == N_SET_BLOCK)
        resolve_expression(s, n->a);
    struct saved saved = begin_frame(s, &frame, s->frame->function);
    if (n->kind == N_WITH)
        for (size_t i = 0; i < n->count; i += 2)
            analyze_target(s, n->list[i], true);
    analyze_body(s, &n->body);
    if (n->kind == N_FILTER_BLOCK)
        analyze_expression(s, n->a);
    if (n->kind == N_WITH)
        for (size_t i = 0; i < n->count; i += 2)
            resolve_expression(s, n->list[i]);
    resolve_body(s, &n->body);
    if (n->kind == N_FILTER_BLOCK)
        resolve_expression(s, n->a);
    if (n->kind == N_SET_BLOCK)
        resolve_expression(s, n->b);
    end_frame(s, saved, n->frame);
}

static void resolve_if(struct scope *s, struct node *n)
{
    bool soft = s->soft;
    s->soft = true;
    resolve_expression(s, n->a);
    resolve_body(s, &n->body);
    resolve_body(s, &n->other);
    s->soft = soft;
}

static void resolve_statement(struct scope *s, struct node *n)
{
    switch ((enum node_kind)n->kind) {
    case N_IF:
        resolve_if(s, n);
        break;
    case N_FOR:
        resolve_for(s, n);
        break;
    case N_SET:
        resolve_expression(s, n->b);
        resolve_expression(s, n->a);
        break;
    case N_MACRO:
        resolve_name(s, n);
        resolve_macro(s, n->macro);
        break;
    case N_CALL_BLOCK:
        resolve_expression(s, n->a);
        resolve_macro(s, n->macro);
        break;
    case N_SET_BLOCK:
    case N_FILTER_BLOCK:
    case N_WITH:
    case N_SCOPE:
        resolve_inner(s, n);
        break;
    case N_OUTPUT:
        resolve_expression(s, n->a);
        break;
    default:
        break;
    }
}

static void resolve_body(struct scope *s, const struct body *body)
{
    if (!jinja_enter(s->run))
        return;
    for (size_t i = 0; i < body->count && !s->run->failed; i++)
        resolve_statement(s, body->items[i]);
    jinja_leave(s->run);
}

static void collect_exports(struct scope *s, struct jinja_template *tmpl)
{
    const struct binding_list *list = &s->frame->bindings;
    tmpl->exports = jinja_array(s->run, list->count, sizeof(*tmpl->exports));
    for (size_t i = 0; tmpl->exports != NULL && i < list->count; i++)
        if (list->items[i]->stored)
            tmpl->exports[tmpl->export_count++] =
                (struct export){list->items[i]->symbol->name, list->items[i]->slot};
}

bool jinja_resolve_names(struct run *run, struct jinja_template *tmpl, struct node **blocks,
                         size_t block_count)
{
    struct scope s = {.run = run};
    struct function_scope root = {0};
    struct frame frame;
    struct saved saved = begin_frame(&s, &frame, &root);
    analyze_body(&s, &tmpl->body);
    resolve_body(&s, &tmpl->body);
    if (block_count > 0)
        collect_exports(&s, tmpl);
    end_frame(&s, saved, &tmpl->frame);
    tmpl->slot_count = root.slot_count;

    tmpl->blocks = jinja_array(run, block_count, sizeof(*tmpl->blocks));
    for (size_t i = 0; i < block_count && !run->failed; i++) {
        struct block_info *block = &tmpl->blocks[i];
        struct function_scope own = {0};
        saved = begin_frame(&s, &frame, &own);
        analyze_body(&s, &blocks[i]->body);
        resolve_body(&s, &blocks[i]->body);
        *block = (struct block_info){.name = blocks[i]->name, .node = blocks[i]};
        end_frame(&s, saved, &block->frame);
        block->slot_count = own.slot_count;
        blocks[i]->count = (uint32_t)i;
    }
    tmpl->block_count = block_count;
    return !run->failed;
}
