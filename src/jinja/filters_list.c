/* jinja/filters_list.c - filters over sequences that return a result at once. */
#include "jinja/ast.h"
#include "jinja/builtins.h"
#include "jinja/iter.h"

BUILTIN(filter_length)
{
    (void)args;
    size_t length;
    if (!jinja_length(run, v, &length))
        return V_FAIL;
    return tainted(value_int((int64_t)length), v.untrusted);
}

BUILTIN(filter_default)
{
    bool missing = v.kind == K_UNDEFINED || (jinja_arg_bool(args[1], false) && !jinja_truth(v));
    if (!missing)
        return v;
    return is_given(args[0]) ? args[0] : value_text(jinja_text_z(run, ""));
}

BUILTIN_IS(filter_list, tainted(value_list(K_LIST, jinja_to_list(run, v)), v.untrusted))

BUILTIN(filter_first)
{
    (void)args;
    struct iterator it;
    if (!jinja_iterate(run, v, &it))
        return V_FAIL;
    struct value first = jinja_next(run, &it);
    return is_given(first) ? first
                           : jinja_undefined_hint(run, "no first item, sequence was empty");
}

BUILTIN(filter_last)
{
    (void)args;
    if (v.kind == K_ITERATOR || v.kind == K_LOOP)
        return jinja_error(run, "'%s' object is not reversible", jinja_type_name(v));
    if (v.kind == K_TEXT) {
        struct value last = jinja_getitem(run, v, value_int(-1));
        return v.text->len > 0 ? last
                               : jinja_undefined_hint(run, "no last item, sequence was empty");
    }
    struct list *list = jinja_to_list(run, v);
    if (list == NULL)
        return V_FAIL;
    return list->count > 0 ? list->items[list->count - 1]
                           : jinja_undefined_hint(run, "no last item, sequence was empty");
}

BUILTIN_IS(filter_random,
           jinja_error(run, "random is not available: a prompt must be reproducible"))

BUILTIN(filter_reverse)
{
    (void)args;
    if (v.kind == K_TEXT)
        return jinja_slice(run, v, V_NONE, V_NONE, value_int(-1));
    struct list *list = jinja_to_list(run, v);
    struct iterator *it = list != NULL ? jinja_alloc(run, sizeof(*it)) : NULL;
    if (it == NULL)
        return V_FAIL;
    if (v.kind == K_ITERATOR) {
        for (size_t i = 0; i < list->count / 2; i++) {
            struct value other = list->items[list->count - 1 - i];
            list->items[list->count - 1 - i] = list->items[i];
            list->items[i] = other;
        }
        return value_list(K_LIST, list);
    }
    *it = (struct iterator){.kind = ITER_BACKWARDS, .source = value_list(K_LIST, list)};
    return (struct value){.kind = K_ITERATOR, .iterator = it};
}

BUILTIN(filter_join)
{
    struct text *sep = is_given(args[0]) ? jinja_str(run, args[0]) : jinja_text_z(run, "");
    struct iterator it;
    if (sep == NULL || !jinja_iterate(run, v, &it))
        return V_FAIL;
    struct mark mark = jinja_mark(run);
    for (bool any = false;; any = true) {
        struct value item = jinja_next(run, &it);
        if (!is_given(item))
            break;
        if (!is_fail(item))
            item = jinja_get_path(run, item, args[1], V_MISSING);
        if (any)
            jinja_write_text(run, sep);
        if (is_fail(item) || !jinja_write_value(run, item) || !jinja_charge(run, 1))
            return V_FAIL;
    }
    return value_text(jinja_take(run, mark));
}

BUILTIN(filter_sum)
{
    struct iterator it;
    struct value total = is_given(args[1]) ? args[1] : value_int(0);
    if (total.kind == K_TEXT)
        return jinja_error(run, "sum() can't sum strings [use ''.join(seq) instead]");
    if (!jinja_iterate(run, v, &it))
        return V_FAIL;
    for (;;) {
        struct value item = jinja_next(run, &it);
        if (!is_given(item))
            return total;
        if (!is_fail(item))
            item = jinja_get_path(run, item, args[0], V_MISSING);
        if (is_fail(item) || !jinja_charge(run, 1))
            return V_FAIL;
        total = jinja_binary(run, N_ADD, total, item);
        if (is_fail(total))
            return total;
    }
}

BUILTIN(filter_attr)
{
    struct text *name = jinja_str(run, args[0]);
    if (name == NULL)
        return V_FAIL;
    if (v.kind == K_DICT) { /* attributes only, never items */
        const struct builtin_row *row = jinja_find_method(v, text_str(name));
        if (row == NULL)
            return jinja_undefined_attr(run, v, value_text(name));
    }
    return jinja_getattr(run, v, name);
}

const struct builtin_row jinja_filters_list[] = {
    {"length", {.fn = filter_length}},
    {"count", {.fn = filter_length}},
    {"default", {.fn = filter_default, .params = {"default_value", "boolean"}}},
    {"d", {.fn = filter_default, .params = {"default_value", "boolean"}}},
    {"list", {.fn = filter_list}},
    {"first", {.fn = filter_first}},
    {"last", {.fn = filter_last}},
    {"random", {.fn = filter_random}},
    {"reverse", {.fn = filter_reverse}},
    {"join", {.fn = filter_join, .params = {"d", "attribute"}}},
    {"sum", {.fn = filter_sum, .params = {"attribute", "start"}}},
    {"attr", {.fn = filter_attr, .required = 1, .params = {"name"}}},
    {NULL, {0}},
};
