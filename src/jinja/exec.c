/* jinja/exec.c - statements. */
#include "jinja/exec.h"

#include "jinja/iter.h"

struct activation *jinja_new_activation(struct run *run, struct activation *parent,
                                        uint32_t slot_count)
{
    struct activation *act = jinja_alloc(run, sizeof(*act));
    struct value *slots = act != NULL ? jinja_array(run, slot_count, sizeof(*slots)) : NULL;
    if (slots == NULL)
        return NULL;
    for (uint32_t i = 0; i < slot_count; i++)
        slots[i] = V_MISSING;
    *act = (struct activation){.parent = parent, .slots = slots};
    return act;
}

bool jinja_enter_frame(struct run *run, struct activation *act, const struct frame_plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        const struct load *load = &plan->loads[i];
        struct value v = V_MISSING;
        if (load->how == LOAD_RESOLVE) {
            v = jinja_resolve(run, load->name);
        } else if (load->how == LOAD_ALIAS) {
            struct activation *from = act;
            for (uint32_t up = load->outer.up; up > 0; up--)
                from = from->parent;
            v = from->slots[load->outer.slot];
        }
        if (is_fail(v))
            return false;
        act->slots[load->slot] = v;
    }
    return true;
}

bool jinja_choose(struct run *run, struct activation *act, const struct node *loop,
                  struct value item, bool *out)
{
    const struct for_info *info = loop->loop;
    if (!jinja_enter_frame(run, act, &info->test_frame) ||
        !jinja_assign(run, act, info->test_target, item))
        return false;
    struct value v = jinja_eval(run, act, loop->c);
    *out = jinja_truth(v);
    return !is_fail(v);
}

/* Iterates over elif chains instead of recursing. */
static enum flow exec_if(struct run *run, struct activation *act, const struct node *n)
{
    for (;;) {
        struct value test = jinja_eval_test(run, act, n->a);
        if (is_fail(test))
            return FLOW_FAIL;
        if (jinja_truth(test))
            return jinja_exec(run, act, &n->body);
        if (n->other.count != 1 || n->other.items[0]->kind != N_IF)
            return jinja_exec(run, act, &n->other);
        n = n->other.items[0];
        run->line = n->line;
    }
}

/* ---- loops ---- */

static bool start_loop(struct run *run, struct activation *act, const struct node *n,
                       struct value items, struct loop *loop)
{
    *loop = (struct loop){.source = items,
                          .index0 = -1,
                          .after = V_MISSING,
                          .current = V_MISSING,
                          .before = V_MISSING,
                          .changed = V_MISSING};
    if (!jinja_iterate(run, items, &loop->it))
        return false;
    if (n->c == NULL)
        return true;
    struct lazy *lazy = jinja_alloc(run, sizeof(*lazy));
    if (lazy == NULL)
        return false;
    *lazy = (struct lazy){.inner = loop->it, .node = n, .scope = act};
    loop->it = (struct iterator){.kind = ITER_CHOSEN, .lazy = lazy};
    return true;
}

/* A loop over a list whose body does not use `loop`. */
static enum flow plain_body(struct run *run, struct activation *act, const struct node *n,
                            const struct list *items, bool *completed)
{
    const struct frame_plan *frame = &n->loop->body_frame;
    struct value *target = n->a->kind == N_NAME ? &act->slots[n->a->ref.slot] : NULL;
    const struct node *only =
        n->body.count == 1 && n->body.items[0]->kind == N_IF ? n->body.items[0] : NULL;
    for (size_t i = 0; i < items->count; i++) {
        run->line = n->line;
        if (target != NULL)
            *target = items->items[i];
        else if (!jinja_assign(run, act, n->a, items->items[i]))
            return FLOW_FAIL;
        if (!jinja_charge(run, 1) || (frame->count > 0 && !jinja_enter_frame(run, act, frame)))
            return FLOW_FAIL;
        enum flow flow =
            only != NULL ? exec_if(run, act, only) : jinja_exec(run, act, &n->body);
        if (flow == FLOW_FAIL)
            return flow;
        if (flow == FLOW_BREAK)
            break;
        *completed = *completed || flow == FLOW_ON;
    }
    return FLOW_ON;
}

static bool all_dicts(const struct list *items, size_t from)
{
    for (size_t i = from; i < items->count; i++)
        if (items->items[i].kind != K_DICT)
            return false;
    return true;
}

/* Stops at the first item that satisfies the condition (search_loop.c). */
static enum flow search_body(struct run *run, struct activation *act, const struct node *n,
                             const struct list *items)
{
    const struct node *test = n->body.items[0];
    struct value *target = &act->slots[n->a->ref.slot];
    for (size_t i = 0; i < items->count; i++) {
        *target = items->items[i];
        run->line = test->line;
        struct value found = jinja_eval_test(run, act, test->a);
        if (is_fail(found) || !jinja_charge(run, 1))
            return FLOW_FAIL;
        if (!jinja_truth(found))
            continue;
        enum flow flow = jinja_exec(run, act, &test->body);
        if (flow != FLOW_ON || all_dicts(items, i + 1))
            return flow;
    }
    return FLOW_ON;
}

static enum flow loop_body(struct run *run, struct activation *act, const struct node *n,
                           struct loop *loop, bool *completed)
{
    const struct for_info *info = n->loop;
    for (;;) {
        run->line = n->line;
        struct value item = jinja_loop_next(run, loop);
        if (is_fail(item) || !jinja_charge(run, 1))
            return FLOW_FAIL;
        if (!is_given(item))
            return FLOW_ON;
        if (!jinja_assign(run, act, n->a, item) ||
            !jinja_enter_frame(run, act, &info->body_frame))
            return FLOW_FAIL;
        enum flow flow = jinja_exec(run, act, &n->body);
        if (flow == FLOW_FAIL)
            return flow;
        if (flow == FLOW_BREAK)
            return FLOW_ON;
        /* As in Jinja2: an iteration that was cut short does not count for else. */
        if (flow == FLOW_ON)
            *completed = true;
    }
}

static __attribute__((noinline)) enum flow run_loop(struct run *run, struct activation *act,
                                                    struct activation *scope,
                                                    const struct node *n, struct value items,
                                                    int64_t depth0)
{
    const struct for_info *info = n->loop;
    struct loop local, *loop = &local;
    if (info->uses_loop) {
        loop =
            jinja_alloc(run, sizeof(*loop)); /* on the heap, because a template may keep it */
        if (loop == NULL)
            return FLOW_FAIL;
    }
    if (!start_loop(run, act, n, items, loop))
        return FLOW_FAIL;
    if (info->uses_loop) {
        loop->depth0 = depth0;
        loop->node = info->recursive ? n : NULL;
        loop->scope = scope;
        act->slots[info->loop.slot] = (struct value){.kind = K_LOOP, .loop = loop};
    }
    bool completed = false;
    enum flow flow;
    if (info->uses_loop || loop->it.kind != ITER_ITEMS)
        flow = loop_body(run, act, n, loop, &completed);
    else if (info->search && info->body_frame.count == 0)
        flow = search_body(run, act, n, items.list);
    else
        flow = plain_body(run, act, n, items.list, &completed);
    if (flow == FLOW_FAIL || completed || n->other.count == 0)
        return flow;
    if (!jinja_enter_frame(run, act, &info->other_frame))
        return FLOW_FAIL;
    return jinja_exec(run, act, &n->other);
}

static bool run_recursive(struct run *run, struct activation *scope, const struct node *n,
                          struct value items, int64_t depth0)
{
    struct activation *act = jinja_new_activation(run, scope, n->loop->slot_count);
    if (act == NULL || !jinja_enter(run))
        return false;
    enum flow flow = run_loop(run, act, scope, n, items, depth0);
    jinja_leave(run);
    return flow != FLOW_FAIL;
}

struct value jinja_recurse(struct run *run, struct activation *scope, const struct node *loop,
                           struct value items, int64_t depth0)
{
    struct mark mark = jinja_mark(run);
    if (!run_recursive(run, scope, loop, items, depth0))
        return V_FAIL;
    return value_text(jinja_take(run, mark));
}

static __attribute__((noinline)) enum flow exec_for(struct run *run, struct activation *act,
                                                    const struct node *n)
{
    struct value items = jinja_eval(run, act, n->b);
    if (is_fail(items))
        return FLOW_FAIL;
    if (!n->loop->recursive)
        return run_loop(run, act, act, n, items, 0);
    return run_recursive(run, act, n, items, 0) ? FLOW_ON : FLOW_FAIL;
}

/* ---- the rest ---- */

/* Writes the result of a filter or call block.  In Jinja2 it must be a string. */
static bool write_result(struct run *run, struct value v)
{
    if (v.kind == K_TEXT)
        return jinja_write_value(run, v);
    return !is_fail(jinja_error(run, "expected str instance, %s found", jinja_type_name(v)));
}

/* Renders a block to a text, in its own frame.  A break or continue inside leaves the block,
 * and its text is lost, as in Jinja2. */
static enum flow capture(struct run *run, struct activation *act, const struct node *n,
                         struct value *out)
{
    struct mark mark = jinja_mark(run);
    if (!jinja_enter_frame(run, act, n->frame))
        return FLOW_FAIL;
    enum flow flow = jinja_exec(run, act, &n->body);
    if (flow != FLOW_ON) {
        jinja_drop(run, mark);
        return flow;
    }
    *out = value_text(jinja_take(run, mark));
    return is_fail(*out) ? FLOW_FAIL : FLOW_ON;
}

/* Applies a chain of filters to the captured text. */
static struct value filter_captured(struct run *run, struct activation *act,
                                    const struct node *n, struct value text)
{
    if (n == NULL)
        return text;
    if (!jinja_enter(run))
        return V_FAIL;
    struct value subject = filter_captured(run, act, n->a, text);
    jinja_leave(run);
    struct call_room room;
    struct call call;
    if (is_fail(subject))
        return subject;
    if (n->filter == NULL)
        return jinja_error(run, "no filter named '" LR_STR_FMT "'",
                           LR_STR_ARG(text_str(n->name)));
    if (!jinja_eval_args(run, act, n->args, V_MISSING, &room, &call))
        return V_FAIL;
    run->line = n->line;
    return jinja_invoke(run, n->filter->name, &n->filter->sig, subject, &call);
}

static __attribute__((noinline)) enum flow exec_capture(struct run *run, struct activation *act,
                                                        const struct node *n)
{
    struct value text = V_FAIL;
    enum flow flow = capture(run, act, n, &text);
    if (flow != FLOW_ON)
        return flow;
    bool set = n->kind == N_SET_BLOCK;
    struct value v = filter_captured(run, act, set ? n->b : n->a, text);
    if (is_fail(v))
        return FLOW_FAIL;
    bool ok = set ? jinja_assign(run, act, n->a, v) : write_result(run, v);
    return ok ? FLOW_ON : FLOW_FAIL;
}

static __attribute__((noinline)) enum flow exec_with(struct run *run, struct activation *act,
                                                     const struct node *n)
{
    if (!jinja_enter_frame(run, act, n->frame))
        return FLOW_FAIL;
    for (size_t i = 0; i + 1 < n->count; i += 2) {
        struct value v = jinja_eval(run, act, n->list[i + 1]);
        if (is_fail(v) || !jinja_assign(run, act, n->list[i], v))
            return FLOW_FAIL;
    }
    return jinja_exec(run, act, &n->body);
}

static struct value new_macro(struct run *run, struct activation *act, const struct node *n)
{
    struct macro *macro = jinja_alloc(run, sizeof(*macro));
    if (macro == NULL)
        return V_FAIL;
    *macro = (struct macro){.node = n, .scope = act};
    return (struct value){.kind = K_MACRO, .macro = macro};
}

static __attribute__((noinline)) bool exec_call_block(struct run *run, struct activation *act,
                                                      const struct node *n)
{
    struct value caller = new_macro(run, act, n);
    if (is_fail(caller))
        return false;
    if (n->a == NULL) { /* {% generation %} */
        struct call none = {0};
        return jinja_run_macro(run, caller.macro, &none);
    }
    struct value callee = jinja_eval(run, act, n->a->a);
    struct call_room room;
    struct call call;
    if (is_fail(callee) || !jinja_eval_args(run, act, n->a->args, caller, &room, &call))
        return false;
    run->line = n->line;
    if (callee.kind == K_MACRO)
        return jinja_run_macro(run, callee.macro, &call);
    struct value v = jinja_call_value(run, callee, &call);
    return !is_fail(v) && write_result(run, v);
}

static bool exec_set(struct run *run, struct activation *act, const struct node *n)
{
    struct value v = jinja_eval(run, act, n->b);
    run->line = n->line;
    return !is_fail(v) && jinja_assign(run, act, n->a, v);
}

static enum flow exec_node(struct run *run, struct activation *act, const struct node *n)
{
    bool ok = true;
    switch ((enum node_kind)n->kind) {
    case N_DATA:
        jinja_write_text(run, n->value.text);
        ok = !run->failed;
        break;
    case N_OUTPUT:
        ok = jinja_emit(run, act, n->a);
        break;
    case N_IF:
        return exec_if(run, act, n);
    case N_FOR:
        return exec_for(run, act, n);
    case N_SET:
        ok = exec_set(run, act, n);
        break;
    case N_SET_BLOCK:
    case N_FILTER_BLOCK:
        return exec_capture(run, act, n);
    case N_MACRO: {
        struct value macro = new_macro(run, act, n);
        ok = !is_fail(macro);
        if (ok)
            act->slots[n->ref.slot] = macro;
        break;
    }
    case N_CALL_BLOCK:
        ok = exec_call_block(run, act, n);
        break;
    case N_WITH:
        return exec_with(run, act, n);
    case N_SCOPE:
        ok = jinja_enter_frame(run, act, n->frame);
        return ok ? jinja_exec(run, act, &n->body) : FLOW_FAIL;
    case N_BLOCK:
        ok = jinja_run_block(run, &run->tmpl->blocks[n->count]);
        break;
    case N_BREAK:
        return FLOW_BREAK;
    case N_CONTINUE:
        return FLOW_CONTINUE;
    default:
        (void)jinja_error(
            run, LR_STR_FMT " is not available: a chat template cannot load another one",
            LR_STR_ARG(text_str(n->value.text)));
        ok = false;
        break;
    }
    return ok ? FLOW_ON : FLOW_FAIL;
}

enum flow jinja_exec(struct run *run, struct activation *act, const struct body *body)
{
    if (body->count == 0)
        return FLOW_ON;
    if (!jinja_enter(run))
        return FLOW_FAIL;
    enum flow flow = FLOW_ON;
    for (size_t i = 0; flow == FLOW_ON && i < body->count; i++) {
        const struct node *n = body->items[i];
        run->line = n->line;
        flow = exec_node(run, act, n);
        if (!jinja_charge(run, 1))
            flow = FLOW_FAIL;
    }
    jinja_leave(run);
    return flow;
}
