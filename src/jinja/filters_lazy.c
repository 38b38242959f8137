/* jinja/filters_lazy.c - filters that are generators in Jinja2: they compute nothing until they
 * are iterated, can be iterated once, and are always true. */
#include "jinja/builtins.h"
#include "jinja/iter.h"

/* Copies the arguments, which are on the caller's stack: a lazy filter outlives the call. */
static bool keep_call(struct run *run, const struct call *call, size_t from, struct call *out)
{
    size_t count = call->positional_count - from;
    struct value *positional = jinja_array(run, count, sizeof(*positional));
    struct value *keyword =
        positional != NULL ? jinja_array(run, call->keyword_count, sizeof(*keyword)) : NULL;
    struct text **names =
        keyword != NULL ? jinja_array(run, call->keyword_count, sizeof(*names)) : NULL;
    if (names == NULL)
        return false;
    if (count > 0)
        memcpy(positional, call->positional + from, count * sizeof(*positional));
    for (size_t i = 0; i < call->keyword_count; i++) {
        keyword[i] = call->keyword[i];
        names[i] = call->keyword_names[i];
    }
    *out = (struct call){positional, count, names, keyword, call->keyword_count};
    return true;
}

static struct value map_attribute(struct run *run, struct value v, const struct call *call)
{
    struct lazy lazy = {
        .source = v, .attribute = V_MISSING, .fallback = V_MISSING, .name = V_MISSING};
    for (size_t i = 0; i < call->keyword_count; i++) {
        struct lr_str name = text_str(call->keyword_names[i]);
        if (lr_str_eq_z(name, "attribute"))
            lazy.attribute = call->keyword[i];
        else if (lr_str_eq_z(name, "default"))
            lazy.fallback = call->keyword[i];
        else
            return jinja_error(run, "map: unexpected keyword argument '" LR_STR_FMT "'",
                               LR_STR_ARG(lr_str_sub(name, 0, 80)));
    }
    return jinja_lazy(run, ITER_MAP, &lazy);
}

static bool has_keyword(const struct call *call, const char *name)
{
    for (size_t i = 0; i < call->keyword_count; i++)
        if (lr_str_eq_z(text_str(call->keyword_names[i]), name))
            return true;
    return false;
}

static struct value filter_map(struct run *run, struct value v, const struct call *call)
{
    if (call->positional_count == 0 && has_keyword(call, "attribute"))
        return map_attribute(run, v, call);
    if (call->positional_count == 0)
        return jinja_error(run, "map requires a filter argument");
    struct lazy lazy = {.source = v,
                        .attribute = V_MISSING,
                        .fallback = V_MISSING,
                        .name = call->positional[0]};
    if (!keep_call(run, call, 1, &lazy.call))
        return V_FAIL;
    return jinja_lazy(run, ITER_MAP, &lazy);
}

static struct value filters_lazy_choose(struct run *run, struct value v,
                                        const struct call *call, bool negated,
                                        bool by_attribute)
{
    size_t used = by_attribute ? 1 : 0;
    struct lazy lazy = {.source = v,
                        .attribute = V_MISSING,
                        .fallback = V_MISSING,
                        .name = V_MISSING,
                        .negated = negated};
    if (by_attribute && call->positional_count == 0)
        return jinja_error(run, "missing parameter for attribute name");
    if (by_attribute)
        lazy.attribute = call->positional[0];
    if (call->positional_count > used)
        lazy.name = call->positional[used++];
    if (!keep_call(run, call, used, &lazy.call))
        return V_FAIL;
    return jinja_lazy(run, ITER_SELECT, &lazy);
}

static struct value filter_select(struct run *run, struct value v, const struct call *call)
{
    return filters_lazy_choose(run, v, call, false, false);
}

static struct value filter_reject(struct run *run, struct value v, const struct call *call)
{
    return filters_lazy_choose(run, v, call, true, false);
}

static struct value filter_selectattr(struct run *run, struct value v, const struct call *call)
{
    return filters_lazy_choose(run, v, call, false, true);
}

static struct value filter_rejectattr(struct run *run, struct value v, const struct call *call)
{
    return filters_lazy_choose(run, v, call, true, true);
}

/* ---- filters that build a list at the first step ---- */

static struct value defer(struct run *run, struct value v, const struct value *args,
                          struct value (*make)(struct run *run, struct lazy *lazy))
{
    struct lazy lazy = {.source = v, .make = make, .args = {args[0], args[1]}};
    return jinja_lazy(run, ITER_DEFERRED, &lazy);
}

static struct value make_items(struct run *run, struct lazy *lazy)
{
    struct value v = lazy->source;
    if (v.kind == K_UNDEFINED)
        return v;
    if (v.kind != K_DICT)
        return jinja_error(run, "can only get item pairs from a mapping");
    v.kind = K_VIEW;
    v.view = 'i';
    return v;
}

static struct value make_batch(struct run *run, struct lazy *lazy)
{
    struct list *all = jinja_to_list(run, lazy->source);
    struct list *out = all != NULL ? jinja_list_new(run, 4) : NULL;
    int64_t size;
    if (out == NULL || !jinja_arg_int(run, lazy->args[0], 0, &size))
        return V_FAIL;
    bool fill = is_given(lazy->args[1]) && lazy->args[1].kind != K_NONE;
    struct list *row = NULL;
    for (size_t i = 0; i < all->count; i++) {
        if (row == NULL || (int64_t)row->count == size) {
            row = jinja_list_new(run, 4);
            if (row == NULL || !jinja_list_push(run, out, value_list(K_LIST, row)))
                return V_FAIL;
        }
        if (!jinja_list_push(run, row, all->items[i]) || !jinja_charge(run, 1))
            return V_FAIL;
    }
    while (fill && row != NULL && (int64_t)row->count < size)
        if (!jinja_list_push(run, row, lazy->args[1]) || !jinja_charge(run, 1))
            return V_FAIL;
    return value_list(K_LIST, out);
}

static struct value make_slices(struct run *run, struct lazy *lazy)
{
    struct list *all = jinja_to_list(run, lazy->source);
    int64_t slices;
    if (all == NULL || !jinja_arg_int(run, lazy->args[0], 0, &slices))
        return V_FAIL;
    if (slices == 0)
        return jinja_error(run, "integer division or modulo by zero");
    struct list *out = jinja_list_new(run, 4);
    if (out == NULL || slices < 0)
        return value_list(K_LIST, out);
    size_t n = (size_t)slices, each = all->count / n, longer = all->count % n, at = 0;
    bool fill = is_given(lazy->args[1]) && lazy->args[1].kind != K_NONE;
    for (size_t i = 0; i < n; i++) {
        struct list *row = jinja_list_new(run, each + 1);
        size_t count = each + (i < longer ? 1 : 0);
        if (row == NULL || !jinja_charge(run, 1 + count))
            return V_FAIL;
        for (size_t j = 0; j < count; j++)
            if (!jinja_list_push(run, row, all->items[at++]))
                return V_FAIL;
        if (fill && i >= longer && !jinja_list_push(run, row, lazy->args[1]))
            return V_FAIL;
        if (!jinja_list_push(run, out, value_list(K_LIST, row)))
            return V_FAIL;
    }
    return value_list(K_LIST, out);
}

static struct value make_unique(struct run *run, struct lazy *lazy)
{
    struct iterator it;
    struct dict *seen = jinja_dict_new(run, 0);
    struct list *out = seen != NULL ? jinja_list_new(run, 4) : NULL;
    bool fold = !jinja_arg_bool(lazy->args[0], false);
    if (out == NULL || !jinja_iterate(run, lazy->source, &it))
        return V_FAIL;
    for (;;) {
        struct value item = jinja_next(run, &it);
        if (!is_given(item))
            return value_list(K_LIST, out);
        if (is_fail(item))
            return item;
        struct value key = jinja_get_path(run, item, lazy->args[1], V_MISSING);
        if (fold && !is_fail(key))
            key = jinja_fold_value(run, key);
        size_t before = seen->count;
        if (!jinja_dict_set(run, seen, key, V_NONE) || !jinja_charge(run, 1))
            return V_FAIL;
        if (seen->count > before && !jinja_list_push(run, out, item))
            return V_FAIL;
    }
}

static struct value filter_items(struct run *run, struct value v, const struct value *args)
{
    return defer(run, v, args, make_items);
}

static struct value filter_batch(struct run *run, struct value v, const struct value *args)
{
    return defer(run, v, args, make_batch);
}

static struct value filter_slice(struct run *run, struct value v, const struct value *args)
{
    return defer(run, v, args, make_slices);
}

static struct value filter_unique(struct run *run, struct value v, const struct value *args)
{
    return defer(run, v, args, make_unique);
}

const struct builtin_row jinja_filters_lazy[] = {
    {"map", {.variadic = filter_map}},
    {"select", {.variadic = filter_select}},
    {"reject", {.variadic = filter_reject}},
    {"selectattr", {.variadic = filter_selectattr}},
    {"rejectattr", {.variadic = filter_rejectattr}},
    {"items", {.fn = filter_items}},
    {"batch", {.fn = filter_batch, .required = 1, .params = {"linecount", "fill_with"}}},
    {"slice", {.fn = filter_slice, .required = 1, .params = {"slices", "fill_with"}}},
    {"unique", {.fn = filter_unique, .params = {"case_sensitive", "attribute"}}},
    {NULL, {0}},
};
