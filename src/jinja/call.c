/* jinja/call.c - calls: evaluating arguments, binding them, running macros. */
#include "jinja/exec.h"
#include "jinja/iter.h"

/* ---- arguments ---- */

static bool spread_positional(struct run *run, struct value star, struct call *out,
                              struct value *positional)
{
    struct list *more = jinja_to_list(run, star);
    if (more == NULL)
        return false;
    size_t count = out->positional_count + more->count;
    struct value *all = jinja_array(run, count, sizeof(*all));
    if (all == NULL)
        return false;
    memcpy(all, positional, out->positional_count * sizeof(*all));
    memcpy(all + out->positional_count, more->items, more->count * sizeof(*all));
    out->positional = all;
    out->positional_count = count;
    return true;
}

static bool add_keyword(struct run *run, struct call *out, struct value *values,
                        struct text **names, struct text *name, struct value v)
{
    if (!jinja_charge(run, out->keyword_count / 4))
        return false;
    for (size_t i = 0; i < out->keyword_count; i++)
        if (jinja_text_eq(names[i], name))
            return !is_fail(
                jinja_error(run, "got multiple values for keyword argument '" LR_STR_FMT "'",
                            LR_STR_ARG(lr_str_sub(text_str(name), 0, 80))));
    names[out->keyword_count] = name;
    values[out->keyword_count++] = v;
    return true;
}

static bool spread_keywords(struct run *run, struct value v, struct call *out,
                            struct value *values, struct text **names)
{
    for (size_t i = 0; i < v.dict->count; i++) {
        const struct dict_entry *e = &v.dict->entries[i];
        if (e->key.kind != K_TEXT)
            return !is_fail(jinja_error(run, "keywords must be strings"));
        if (!add_keyword(run, out, values, names, e->key.text, e->value))
            return false;
    }
    return true;
}

bool jinja_eval_args(struct run *run, struct activation *act, const struct args *args,
                     struct value caller, struct call_room *room, struct call *out)
{
    *out = (struct call){0};
    if (args->positional_count == 0 && args->keyword_count == 0 && args->star == NULL &&
        args->double_star == NULL && !is_given(caller))
        return true;
    struct value *positional = room->positional, *keyword = room->keyword;
    struct text **names = room->names;
    if (args->positional_count > SMALL_CALL) {
        positional = jinja_array(run, args->positional_count, sizeof(*positional));
        if (positional == NULL)
            return false;
    }
    for (size_t i = 0; i < args->positional_count; i++) {
        positional[i] = jinja_eval(run, act, args->positional[i]);
        if (is_fail(positional[i]))
            return false;
    }
    out->positional = positional;
    out->positional_count = args->positional_count;
    if (args->star != NULL) {
        struct value star = jinja_eval(run, act, args->star);
        if (is_fail(star) || !spread_positional(run, star, out, positional))
            return false;
    }
    struct value spread = V_MISSING;
    size_t room_needed = args->keyword_count + (is_given(caller) ? 1 : 0);
    struct value given[SMALL_CALL], *evaluated = given;
    if (args->keyword_count > SMALL_CALL) {
        evaluated = jinja_array(run, args->keyword_count, sizeof(*evaluated));
        if (evaluated == NULL)
            return false;
    }
    for (size_t i = 0; i < args->keyword_count; i++) {
        evaluated[i] = jinja_eval(run, act, args->keyword[i]);
        if (is_fail(evaluated[i]))
            return false;
    }
    if (args->double_star != NULL) {
        spread = jinja_eval(run, act, args->double_star);
        if (is_fail(spread))
            return false;
        if (spread.kind != K_DICT)
            return !is_fail(jinja_error(run, "argument after ** must be a mapping, not %s",
                                        jinja_type_name(spread)));
        room_needed += spread.dict->count;
    }
    if (room_needed > SMALL_CALL) {
        keyword = jinja_array(run, room_needed, sizeof(*keyword));
        names = keyword != NULL ? jinja_array(run, room_needed, sizeof(*names)) : NULL;
        if (names == NULL)
            return false;
    }
    out->keyword = keyword;
    out->keyword_names = names;
    for (size_t i = 0; i < args->keyword_count; i++)
        if (!add_keyword(run, out, keyword, names, args->keyword_names[i], evaluated[i]))
            return false;
    if (is_given(caller)) {
        struct text *name = jinja_text_z(run, "caller");
        if (name == NULL || !add_keyword(run, out, keyword, names, name, caller))
            return false;
    }
    return spread.kind != K_DICT || spread_keywords(run, spread, out, keyword, names);
}

/* ---- builtins ---- */

static bool bind_keyword(struct run *run, const char *name, const struct signature *sig,
                         const struct call *call, size_t i, size_t params, struct value *bound)
{
    struct lr_str keyword = text_str(call->keyword_names[i]);
    for (size_t j = 0; j < params && !sig->positional_only; j++) {
        if (!lr_str_eq_z(keyword, sig->params[j]))
            continue;
        if (is_given(bound[j]))
            return !is_fail(jinja_error(run, "%s() got multiple values for argument '%s'", name,
                                        sig->params[j]));
        bound[j] = call->keyword[i];
        return true;
    }
    return !is_fail(jinja_error(run, "%s() got an unexpected keyword argument '" LR_STR_FMT "'",
                                name, LR_STR_ARG(lr_str_sub(keyword, 0, 80))));
}

struct value jinja_invoke(struct run *run, const char *name, const struct signature *sig,
                          struct value subject, const struct call *call)
{
    if (!jinja_charge(run, 1))
        return V_FAIL;
    if (sig->variadic != NULL)
        return sig->variadic(run, subject, call);
    size_t params = 0;
    while (params < JINJA_MAX_PARAMS && sig->params[params] != NULL)
        params++;
    if (call->positional_count > params)
        return jinja_error(run, "%s() takes at most %zu argument%s (%zu given)", name, params,
                           params == 1 ? "" : "s", call->positional_count);
    struct value bound[JINJA_MAX_PARAMS];
    for (size_t i = 0; i < JINJA_MAX_PARAMS; i++)
        bound[i] = i < call->positional_count ? call->positional[i] : V_MISSING;
    for (size_t i = 0; i < call->keyword_count; i++)
        if (!bind_keyword(run, name, sig, call, i, params, bound))
            return V_FAIL;
    for (size_t i = 0; i < sig->required; i++)
        if (!is_given(bound[i]))
            return jinja_error(run, "%s() misses the required argument '%s'", name,
                               sig->params[i]);
    return sig->fn(run, subject, bound);
}

/* ---- macros ---- */

static struct value take_keyword(const struct call *call, struct lr_str name, bool *used)
{
    for (size_t i = 0; i < call->keyword_count; i++) {
        if (!used[i] && lr_str_eq(text_str(call->keyword_names[i]), name)) {
            used[i] = true;
            return call->keyword[i];
        }
    }
    return V_MISSING;
}

static struct value rest_as_dict(struct run *run, const struct call *call, const bool *used)
{
    struct dict *dict = jinja_dict_new(run, call->keyword_count);
    for (size_t i = 0; dict != NULL && i < call->keyword_count; i++)
        if (!used[i] &&
            !jinja_dict_set(run, dict, value_text(call->keyword_names[i]), call->keyword[i]))
            return V_FAIL;
    return value_dict(dict);
}

static struct value rest_as_tuple(struct run *run, const struct call *call, size_t from)
{
    struct list *list = jinja_list_new(run, call->positional_count);
    for (size_t i = from; list != NULL && i < call->positional_count; i++)
        if (!jinja_list_push(run, list, call->positional[i]))
            return V_FAIL;
    return value_list(K_TUPLE, list);
}

static bool macro_error(struct run *run, const struct macro_info *m, const char *what,
                        struct lr_str arg)
{
    struct lr_str name = m->name != NULL ? text_str(m->name) : LR_STR_LIT("caller");
    (void)jinja_error(run, "macro '" LR_STR_FMT "' %s" LR_STR_FMT, LR_STR_ARG(name), what,
                      LR_STR_ARG(lr_str_sub(arg, 0, 80)));
    return false;
}

/* Positional, then by name, then the special ones: as jinja2.runtime.Macro does. */
static bool bind_macro(struct run *run, const struct macro_info *m, struct activation *act,
                       const struct call *call, bool *used)
{
    for (size_t i = 0; i < m->param_count; i++) {
        struct value v = i < call->positional_count
                             ? call->positional[i]
                             : take_keyword(call, text_str(m->params[i]->name), used);
        act->slots[m->params[i]->ref.slot] = v;
    }
    if (m->uses_caller && !m->has_caller_param) {
        struct value caller = take_keyword(call, LR_STR_LIT("caller"), used);
        if (!is_given(caller) || caller.kind == K_NONE)
            caller = jinja_undefined_hint(run, "no caller defined");
        if (is_fail(caller))
            return false;
        act->slots[m->caller_slot] = caller;
    }
    if (m->uses_kwargs) {
        act->slots[m->kwargs_slot] = rest_as_dict(run, call, used);
        if (run->failed)
            return false;
    } else {
        for (size_t i = 0; i < call->keyword_count; i++)
            if (!used[i])
                return macro_error(run, m, "takes no keyword argument ",
                                   text_str(call->keyword_names[i]));
    }
    if (m->uses_varargs)
        act->slots[m->varargs_slot] = rest_as_tuple(run, call, m->param_count);
    else if (call->positional_count > m->param_count)
        return macro_error(run, m, "was given too many arguments", lr_str("", 0));
    return !run->failed;
}

static bool fill_defaults(struct run *run, const struct macro_info *m, struct activation *act)
{
    size_t first = m->param_count - m->default_count;
    for (size_t i = 0; i < m->param_count; i++) {
        struct value *slot = &act->slots[m->params[i]->ref.slot];
        if (is_given(*slot))
            continue;
        struct value v = i >= first ? jinja_eval(run, act, m->defaults[i - first])
                                    : jinja_undefined_hint(run, "a parameter was not provided");
        if (is_fail(v))
            return false;
        *slot = v;
    }
    return true;
}

bool jinja_run_macro(struct run *run, const struct macro *macro, const struct call *call)
{
    const struct macro_info *m = macro->node->macro;
    struct activation *act = jinja_new_activation(run, macro->scope, m->slot_count);
    if (act == NULL || !jinja_enter(run))
        return false;
    bool small[SMALL_CALL] = {false}, *used = small;
    if (call->keyword_count > SMALL_CALL) {
        used = jinja_alloc(run, call->keyword_count);
        if (used != NULL)
            memset(used, 0, call->keyword_count);
    }
    bool ok = used != NULL && bind_macro(run, m, act, call, used) &&
              jinja_enter_frame(run, act, &m->frame) && fill_defaults(run, m, act) &&
              jinja_exec(run, act, &m->body) == FLOW_ON;
    jinja_leave(run);
    return ok;
}

struct value jinja_call_macro(struct run *run, const struct macro *macro,
                              const struct call *call)
{
    struct mark mark = jinja_mark(run);
    if (!jinja_run_macro(run, macro, call))
        return V_FAIL;
    return value_text(jinja_take(run, mark));
}

/* ---- blocks ---- */

bool jinja_run_block(struct run *run, const struct block_info *block)
{
    struct activation *act = jinja_new_activation(run, NULL, block->slot_count);
    if (act == NULL || !jinja_enter(run))
        return false;
    bool ok = jinja_enter_frame(run, act, &block->frame) &&
              jinja_exec(run, act, &block->node->body) == FLOW_ON;
    jinja_leave(run);
    return ok;
}

/* ---- anything that can be called ---- */

struct value jinja_call_value(struct run *run, struct value callee, const struct call *call)
{
    switch ((enum kind)callee.kind) {
    case K_MACRO:
        return jinja_call_macro(run, callee.macro, call);
    case K_FUNCTION:
        return jinja_invoke(run, callee.function->name, &callee.function->sig, V_NONE, call);
    case K_METHOD:
        return jinja_invoke(run, callee.method->row->name, &callee.method->row->sig,
                            callee.method->self, call);
    case K_LOOP:
        if (callee.loop->node == NULL)
            return jinja_error(
                run, "the loop must have the 'recursive' marker to be called recursively");
        if (call->positional_count != 1 || call->keyword_count != 0)
            return jinja_error(run, "loop() takes exactly one argument");
        return jinja_recurse(run, callee.loop->scope, callee.loop->node, call->positional[0],
                             callee.loop->depth0 + 1);
    case K_JOINER:
        return callee.cycler->at++ == 0 ? value_text(jinja_text_z(run, ""))
                                        : callee.cycler->items.items[0];
    case K_BLOCKS: {
        struct mark mark = jinja_mark(run);
        if (callee.integer == 0)
            return jinja_error(run, "'TemplateReference' object is not callable");
        if (!jinja_run_block(run, &run->tmpl->blocks[callee.integer - 1]))
            return V_FAIL;
        return value_text(jinja_take(run, mark));
    }
    case K_UNDEFINED:
        return jinja_error_undefined(run, callee);
    default:
        return jinja_error(run, "'%s' object is not callable", jinja_type_name(callee));
    }
}
