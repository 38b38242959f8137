/* jinja/methods_container.c - methods of list, tuple, range and dict that do not modify. */
#include "jinja/builtins.h"
#include "jinja/iter.h"

METHOD(list_count)
{
    struct iterator it;
    int64_t count = 0;
    if (!jinja_iterate(run, self, &it))
        return V_FAIL;
    for (;;) {
        struct value item = jinja_next(run, &it);
        bool same = false;
        if (!is_given(item))
            return tainted(value_int(count), self.untrusted);
        if (is_fail(item) || !jinja_charge(run, 1) || !jinja_equal(run, item, args[0], &same))
            return V_FAIL;
        count += same;
    }
}

METHOD(list_index)
{
    struct list *list = jinja_to_list(run, self);
    int64_t from, to;
    if (list == NULL || !jinja_arg_int(run, args[1], 0, &from) ||
        !jinja_arg_int(run, args[2], (int64_t)list->count, &to))
        return V_FAIL;
    int64_t count = (int64_t)list->count;
    from = from < 0 ? (from + count < 0 ? 0 : from + count) : from;
    to = to < 0 ? to + count : to > count ? count : to;
    for (int64_t i = from; i < to; i++) {
        bool same = false;
        if (!jinja_charge(run, 1) || !jinja_equal(run, list->items[i], args[0], &same))
            return V_FAIL;
        if (same)
            return tainted(value_int(i), self.untrusted);
    }
    return jinja_error(run, "the value is not in the %s", jinja_type_name(self));
}

/* Only of lists that the template made (access.c).  What it takes counts as work and memory of
 * the run, so that a loop that feeds itself ends. */
METHOD(list_append)
{
    if (!jinja_charge(run, 1) || !jinja_list_push(run, self.list, args[0]))
        return V_FAIL;
    return V_NONE;
}

METHOD(list_copy)
{
    struct list *list = jinja_alloc(run, sizeof(*list));
    (void)args;
    if (list == NULL)
        return V_FAIL;
    *list = (struct list){.items = self.list->items, .count = self.list->count};
    return tainted(value_list(K_LIST, list), self.untrusted);
}

METHOD(copy)
{
    (void)run;
    (void)args;
    return self; /* a copy is not needed: dictionaries are immutable */
}

const struct builtin_row jinja_methods_list[] = {
    {"count", {.fn = list_count, .required = 1, .positional_only = true, .params = {"value"}}},
    {"index",
     {.fn = list_index,
      .required = 1,
      .positional_only = true,
      .params = {"value", "start", "stop"}}},
    {"append",
     {.fn = list_append, .required = 1, .positional_only = true, .params = {"value"}}},
    {"copy", {.fn = list_copy}},
    {NULL, {0}},
};

/* ---- dict ---- */

METHOD(dict_get)
{
    const struct value *found;
    if (!jinja_dict_get(run, self.dict, args[0], &found))
        return V_FAIL;
    if (found != NULL)
        return *found;
    return is_given(args[1]) ? args[1] : V_NONE;
}

static struct value view(struct value self, uint8_t kind)
{
    self.kind = K_VIEW;
    self.view = kind;
    return self;
}

METHOD_IS(dict_keys, view(self, 'k'))
METHOD_IS(dict_values, view(self, 'v'))
METHOD_IS(dict_items, view(self, 'i'))

const struct builtin_row jinja_methods_dict[] = {
    {"get",
     {.fn = dict_get, .required = 1, .positional_only = true, .params = {"key", "default"}}},
    {"keys", {.fn = dict_keys}},
    {"values", {.fn = dict_values}},
    {"items", {.fn = dict_items}},
    {"copy", {.fn = copy}},
    {NULL, {0}},
};
