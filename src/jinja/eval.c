/* jinja/eval.c - expressions. */
#include "jinja/exec.h"
#include "jinja/iter.h"

/* Keeps the locals of rare cases out of the stack frame of every evaluation. */
#define COLD_FRAME __attribute__((noinline))

static COLD_FRAME struct value undefined_name(struct run *run, struct text *name)
{
    struct undefined *u = jinja_alloc(run, sizeof(*u));
    if (u == NULL)
        return V_FAIL;
    *u = (struct undefined){.name = value_text(name)};
    return (struct value){.kind = K_UNDEFINED, .undefined = u};
}

static inline struct value *eval_slot_of(struct activation *act, struct ref ref)
{
    for (uint32_t up = ref.up; up > 0; up--)
        act = act->parent;
    return &act->slots[ref.slot];
}

/* Most operands are constants, variables that are set, and keys of a dict in a variable: these
 * need no recursion. */
static inline bool is_quick(struct activation *act, const struct node *n, struct value *out)
{
    if (n->kind == N_CONST) {
        *out = n->value;
        return true;
    }
    if (n->kind == N_NAME) {
        *out = *eval_slot_of(act, n->ref);
        return out->kind != K_MISSING;
    }
    if (n->kind != N_ATTR || !n->plain || n->a->kind != N_NAME)
        return false;
    struct value object = *eval_slot_of(act, n->a->ref);
    if (object.kind != K_DICT)
        return false;
    const struct value *found = jinja_dict_find_text(object.dict, n->value);
    if (found == NULL)
        return false;
    *out = *found;
    return true;
}

/* == and != of two texts, and `in` a dict, when both sides need no evaluation. */
static inline bool is_quick_compare(struct activation *act, const struct node *n,
                                    struct value *out)
{
    struct value a, b;
    if (n->kind != N_COMPARE || n->count != 1 || !is_quick(act, n->a, &a) ||
        !is_quick(act, n->b, &b) || a.kind != K_TEXT)
        return false;
    bool result, negated = n->op == CMP_NE || n->op == CMP_NOT_IN;
    if (n->op <= CMP_NE && b.kind == K_TEXT)
        result = a.tag == b.tag && jinja_text_eq(a.text, b.text);
    else if (n->op >= CMP_IN && b.kind == K_DICT)
        result = jinja_dict_find_text(b.dict, a) != NULL;
    else
        return false;
    *out = value_bool(result != negated);
    return true;
}

static inline struct value operand(struct run *run, struct activation *act,
                                   const struct node *n)
{
    struct value v;
    return is_quick(act, n, &v) || is_quick_compare(act, n, &v) ? v : jinja_eval(run, act, n);
}

struct value jinja_eval_test(struct run *run, struct activation *act, const struct node *n)
{
    struct value v;
    if ((n->kind == N_AND || n->kind == N_OR) &&
        (is_quick_compare(act, n->a, &v) || is_quick(act, n->a, &v))) {
        if (jinja_truth(v) != (n->kind == N_AND))
            return v;
        n = n->b;
    }
    return operand(run, act, n);
}

static COLD_FRAME struct value eval_sequence(struct run *run, struct activation *act,
                                             const struct node *n)
{
    struct list *list = jinja_alloc(run, sizeof(*list));
    struct value *items = list != NULL ? jinja_array(run, n->count, sizeof(*items)) : NULL;
    if (items == NULL)
        return V_FAIL;
    for (size_t i = 0; i < n->count; i++) {
        items[i] = jinja_eval(run, act, n->list[i]);
        if (is_fail(items[i]))
            return V_FAIL;
    }
    *list = (struct list){.items = items, .count = n->count};
    return value_list(n->kind == N_TUPLE ? K_TUPLE : K_LIST, list);
}

static COLD_FRAME struct value eval_dict(struct run *run, struct activation *act,
                                         const struct node *n)
{
    struct dict *dict = jinja_dict_new(run, n->count / 2);
    for (size_t i = 0; dict != NULL && i + 1 < n->count; i += 2) {
        struct value key = jinja_eval(run, act, n->list[i]);
        struct value value = is_fail(key) ? key : jinja_eval(run, act, n->list[i + 1]);
        if (!jinja_dict_set(run, dict, key, value))
            return V_FAIL;
    }
    return value_dict(dict);
}

static COLD_FRAME struct value eval_compare(struct run *run, struct activation *act,
                                            const struct node *n)
{
    struct value left = jinja_eval(run, act, n->a);
    bool result = true;
    for (size_t i = 0; result && i < n->count; i++) {
        if (is_fail(left))
            return V_FAIL;
        struct value right = jinja_eval(run, act, n->list[i]);
        if (is_fail(right))
            return V_FAIL;
        run->line = n->line;
        if (!jinja_compare(run, n->ops[i], left, right, &result))
            return V_FAIL;
        left = right;
    }
    return is_fail(left) ? left : value_bool(result);
}

/* Nearly all comparisons have one pair of operands, and most are == of two texts. */
static struct value eval_compare_one(struct run *run, struct activation *act,
                                     const struct node *n)
{
    struct value a = operand(run, act, n->a);
    struct value b = is_fail(a) ? a : operand(run, act, n->b);
    bool result = false;
    if (is_fail(b))
        return V_FAIL;
    if (n->op <= CMP_NE && a.kind == K_TEXT && b.kind == K_TEXT)
        return value_bool((a.tag == b.tag && jinja_text_eq(a.text, b.text)) ==
                          (n->op == CMP_EQ));
    run->line = n->line;
    return jinja_compare(run, n->op, a, b, &result) ? value_bool(result) : V_FAIL;
}

static struct value eval_attr(struct run *run, struct activation *act, const struct node *n)
{
    struct value v = operand(run, act, n->a);
    if (is_fail(v))
        return v;
    if (v.kind == K_DICT && n->plain) {
        const struct value *found = jinja_dict_find_text(v.dict, n->value);
        if (found != NULL)
            return *found;
    }
    run->line = n->line;
    return jinja_getattr(run, v, n->name);
}

static COLD_FRAME struct value eval_concat(struct run *run, struct activation *act,
                                           const struct node *n)
{
    struct mark mark = jinja_mark(run);
    for (size_t i = 0; i < n->count; i++)
        if (!jinja_emit(run, act, n->list[i]))
            return V_FAIL;
    return value_text(jinja_take(run, mark));
}

static COLD_FRAME struct value eval_item(struct run *run, struct activation *act,
                                         const struct node *n)
{
    struct value object = operand(run, act, n->a);
    if (is_fail(object))
        return object;
    if (n->b->kind != N_SLICE) {
        struct value key = operand(run, act, n->b);
        run->line = n->line;
        return is_fail(key) ? key : jinja_getitem(run, object, key);
    }
    const struct node *parts[3] = {n->b->a, n->b->b, n->b->c};
    struct value at[3];
    for (size_t i = 0; i < 3; i++) {
        at[i] = parts[i] != NULL ? jinja_eval(run, act, parts[i]) : V_NONE;
        if (is_fail(at[i]))
            return V_FAIL;
    }
    run->line = n->line;
    return jinja_slice(run, object, at[0], at[1], at[2]);
}

static COLD_FRAME struct value eval_call(struct run *run, struct activation *act,
                                         const struct node *n)
{
    struct value callee = jinja_eval(run, act, n->a);
    struct call_room room;
    struct call call;
    if (is_fail(callee) || !jinja_eval_args(run, act, n->args, V_MISSING, &room, &call))
        return V_FAIL;
    run->line = n->line;
    return jinja_call_value(run, callee, &call);
}

/* A filter or a test; row NULL: there is none of this name. */
static COLD_FRAME struct value eval_builtin(struct run *run, struct activation *act,
                                            const struct node *n, const struct builtin_row *row,
                                            const char *what)
{
    run->line = n->line;
    if (row == NULL)
        return jinja_error(run, "no %s named '" LR_STR_FMT "'", what,
                           LR_STR_ARG(text_str(n->name)));
    struct value subject = operand(run, act, n->a);
    struct call_room room;
    struct call call;
    if (is_fail(subject) || !jinja_eval_args(run, act, n->args, V_MISSING, &room, &call))
        return V_FAIL;
    run->line = n->line;
    return jinja_invoke(run, row->name, &row->sig, subject, &call);
}

static COLD_FRAME struct value eval_cond(struct run *run, struct activation *act,
                                         const struct node *n)
{
    struct value test = jinja_eval(run, act, n->a);
    if (is_fail(test))
        return test;
    if (jinja_truth(test))
        return jinja_eval(run, act, n->b);
    if (n->c != NULL)
        return jinja_eval(run, act, n->c);
    return jinja_undefined_hint(
        run, "the inline if-expression evaluated to false and no else section was defined");
}

static COLD_FRAME struct value eval_binary(struct run *run, struct activation *act,
                                           const struct node *n)
{
    struct value a = operand(run, act, n->a);
    struct value b = is_fail(a) ? a : operand(run, act, n->b);
    run->line = n->line;
    return is_fail(b) ? b : jinja_binary(run, n->kind, a, b);
}

static COLD_FRAME struct value eval_unary(struct run *run, struct activation *act,
                                          const struct node *n)
{
    struct value v = jinja_eval(run, act, n->a);
    run->line = n->line;
    return is_fail(v) ? v : jinja_negate(run, v, n->kind == N_NEG);
}

static COLD_FRAME struct value eval_rare(struct run *run, struct activation *act,
                                         const struct node *n)
{
    switch ((enum node_kind)n->kind) {
    case N_TUPLE:
    case N_LIST:
        return eval_sequence(run, act, n);
    case N_DICT:
        return eval_dict(run, act, n);
    case N_NEG:
    case N_POS:
        return eval_unary(run, act, n);
    case N_CONCAT:
        return eval_concat(run, act, n);
    case N_COMPARE:
        return eval_compare(run, act, n);
    case N_COND:
        return eval_cond(run, act, n);
    case N_ITEM:
        return eval_item(run, act, n);
    case N_CALL:
        return eval_call(run, act, n);
    case N_FILTER:
        return eval_builtin(run, act, n, n->filter, "filter");
    case N_TEST:
        return eval_builtin(run, act, n, n->test, "test");
    case N_SLICE:
        return jinja_error(run, "a slice is only possible as the whole subscript");
    default:
        return eval_binary(run, act, n);
    }
}

static inline struct value eval_node(struct run *run, struct activation *act,
                                     const struct node *n)
{
    struct value v;
    switch ((enum node_kind)n->kind) {
    case N_NOT:
        v = operand(run, act, n->a);
        return is_fail(v) ? v : value_bool(!jinja_truth(v));
    case N_AND:
    case N_OR:
        v = operand(run, act, n->a);
        if (is_fail(v) || jinja_truth(v) != (n->kind == N_AND))
            return v;
        return operand(run, act, n->b);
    case N_COMPARE:
        return n->count == 1 ? eval_compare_one(run, act, n) : eval_rare(run, act, n);
    case N_ATTR:
        return eval_attr(run, act, n);
    default:
        return eval_rare(run, act, n);
    }
}

struct value jinja_eval(struct run *run, struct activation *act, const struct node *n)
{
    struct value v;
    if (n->kind == N_CONST)
        return n->value;
    if (n->kind == N_NAME) {
        v = *eval_slot_of(act, n->ref);
        return v.kind != K_MISSING ? v : undefined_name(run, n->name);
    }
    if (!jinja_enter(run))
        return V_FAIL;
    v = eval_node(run, act, n);
    jinja_leave(run);
    return v;
}

/* ---- writing ---- */

enum { LONGEST_SUM = 16 };

/* Writes a + b + ... one by one if all are texts, instead of building the sum.  At the first
 * part that is no plain text, the written part becomes the left side of an ordinary sum. */
static COLD_FRAME bool emit_sum(struct run *run, struct activation *act, const struct node *n)
{
    const struct node *parts[LONGEST_SUM];
    size_t count = 0;
    while (n->kind == N_ADD && count + 1 < LONGEST_SUM) {
        parts[count++] = n->b;
        n = n->a;
    }
    parts[count++] = n;
    struct mark mark = jinja_mark(run);
    struct value sum = V_MISSING; /* missing: the sum is the text above the mark */
    for (size_t i = count; i-- > 0;) {
        struct value v = operand(run, act, parts[i]);
        if (is_fail(v))
            return false;
        run->line = parts[i]->line;
        if (!is_given(sum) && v.kind == K_TEXT && !v.text->markup) {
            jinja_write_text(run, v.text);
            continue;
        }
        if (!is_given(sum) && i + 1 < count)
            sum = value_text(jinja_take(run, mark));
        if (is_given(sum) && !is_fail(sum))
            sum = jinja_binary(run, N_ADD, sum, v);
        else if (!is_fail(sum))
            sum = v;
        if (is_fail(sum))
            return false;
    }
    return is_given(sum) ? jinja_write_value(run, sum) : !run->failed;
}

static COLD_FRAME bool emit_call(struct run *run, struct activation *act, const struct node *n)
{
    struct value callee = jinja_eval(run, act, n->a);
    struct call_room room;
    struct call call;
    if (is_fail(callee) || !jinja_eval_args(run, act, n->args, V_MISSING, &room, &call))
        return false;
    run->line = n->line;
    if (callee.kind == K_MACRO)
        return jinja_run_macro(run, callee.macro, &call);
    struct value v = jinja_call_value(run, callee, &call);
    return !is_fail(v) && jinja_write_value(run, v);
}

static bool emit_node(struct run *run, struct activation *act, const struct node *n)
{
    if (n->kind == N_ADD)
        return emit_sum(run, act, n);
    if (n->kind == N_CALL)
        return emit_call(run, act, n);
    for (size_t i = 0; i < n->count; i++)
        if (!jinja_emit(run, act, n->list[i]))
            return false;
    return true;
}

bool jinja_emit(struct run *run, struct activation *act, const struct node *n)
{
    if (n->kind != N_ADD && n->kind != N_CALL && n->kind != N_CONCAT) {
        struct value v = operand(run, act, n);
        return !is_fail(v) && jinja_write_value(run, v);
    }
    if (!jinja_enter(run))
        return false;
    bool ok = emit_node(run, act, n);
    jinja_leave(run);
    return ok;
}

/* ---- assignment ---- */

static bool assign_tuple(struct run *run, struct activation *act, const struct node *target,
                         struct value v)
{
    struct iterator it;
    if (!jinja_can_iterate(v))
        return !is_fail(
            jinja_error(run, "cannot unpack non-iterable %s object", jinja_type_name(v)));
    if (!jinja_iterate(run, v, &it))
        return false;
    for (size_t i = 0; i < target->count; i++) {
        struct value item = jinja_next(run, &it);
        if (is_fail(item))
            return false;
        if (!is_given(item))
            return !is_fail(jinja_error(
                run, "not enough values to unpack (expected %u, got %zu)", target->count, i));
        if (!jinja_assign(run, act, target->list[i], item))
            return false;
    }
    struct value more = jinja_next(run, &it);
    if (is_given(more) && !is_fail(more))
        (void)jinja_error(run, "too many values to unpack (expected %u)", target->count);
    return !is_given(more);
}

bool jinja_assign(struct run *run, struct activation *act, const struct node *target,
                  struct value v)
{
    if (target->kind == N_NAME) {
        *eval_slot_of(act, target->ref) = v;
        return true;
    }
    if (target->kind == N_TUPLE)
        return assign_tuple(run, act, target, v);
    struct value ns = *eval_slot_of(act, target->ref);
    if (ns.kind != K_NAMESPACE)
        return !is_fail(jinja_error(run, "cannot assign attribute on non-namespace object"));
    return jinja_dict_set(run, ns.dict, target->value, v);
}
