/* jinja/filters_order.c - sort, groupby, unique, min and max. */
#include "jinja/builtins.h"
#include "jinja/iter.h"

struct keyed {
    struct value key, item;
};

/* Stable merge sort, because a comparison may fail, which qsort cannot report. */
static bool merge_sort(struct run *run, struct keyed *items, struct keyed *spare, size_t count,
                       bool reverse)
{
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t low = 0; low < count; low += 2 * width) {
            size_t middle = low + width < count ? low + width : count;
            size_t high = low + 2 * width < count ? low + 2 * width : count;
            size_t a = low, b = middle, out = low;
            while (a < middle && b < high) {
                int c = 0;
                if (!jinja_charge(run, 1) ||
                    !jinja_order(run, "<", items[b].key, items[a].key, &c))
                    return false;
                /* reverse keeps the order of equal items, like Python */
                bool take_b = reverse ? c > 0 && c != 2 : c < 0;
                spare[out++] = take_b ? items[b++] : items[a++];
            }
            while (a < middle)
                spare[out++] = items[a++];
            while (b < high)
                spare[out++] = items[b++];
        }
        memcpy(items, spare, count * sizeof(*items));
    }
    return true;
}

static bool sort_keyed(struct run *run, struct keyed *items, size_t count, bool reverse)
{
    struct keyed *spare = jinja_array(run, count + 1, sizeof(*spare));
    return spare != NULL && merge_sort(run, items, spare, count, reverse);
}

static struct value filters_order_make_key(struct run *run, struct value item,
                                           struct value attribute, struct value fallback,
                                           bool fold)
{
    struct value key = jinja_get_path(run, item, attribute, fallback);
    return fold && !is_fail(key) ? jinja_fold_value(run, key) : key;
}

/* "a,b" sorts by a list of two keys, anything else by a list of one key.  Lists are compared
 * for equality first, so keys without an order are allowed if they are equal. */
static struct value make_sort_key(struct run *run, struct value item, struct value attribute,
                                  bool fold)
{
    struct list *keys = jinja_list_new(run, 1);
    size_t from = 0;
    if (attribute.kind != K_TEXT) {
        struct value key = filters_order_make_key(run, item, attribute, V_MISSING, fold);
        return keys != NULL && jinja_list_push(run, keys, key) ? value_list(K_LIST, keys)
                                                               : V_FAIL;
    }
    while (keys != NULL) {
        size_t to = from;
        while (to < attribute.text->len && attribute.text->ptr[to] != ',')
            to++;
        struct value part = value_text(jinja_text_sub(run, attribute.text, from, to));
        struct value key =
            is_fail(part) ? part : filters_order_make_key(run, item, part, V_MISSING, fold);
        if (!jinja_list_push(run, keys, key))
            return V_FAIL;
        if (to >= attribute.text->len)
            break;
        from = to + 1;
    }
    return value_list(K_LIST, keys);
}

static struct keyed *with_keys(struct run *run, struct value v, struct value attribute,
                               struct value fallback, bool fold, size_t *count)
{
    struct list *list = jinja_to_list(run, v);
    struct keyed *items =
        list != NULL ? jinja_array(run, list->count + 1, sizeof(*items)) : NULL;
    if (items == NULL)
        return NULL;
    for (size_t i = 0; i < list->count; i++) {
        items[i].item = list->items[i];
        items[i].key = is_given(fallback) ? filters_order_make_key(run, list->items[i],
                                                                   attribute, fallback, fold)
                                          : make_sort_key(run, list->items[i], attribute, fold);
        if (is_fail(items[i].key) || !jinja_charge(run, 1))
            return NULL;
    }
    *count = list->count;
    return items;
}

static struct value filters_order_list_of(struct run *run, const struct keyed *items,
                                          size_t count)
{
    struct list *list = jinja_list_new(run, count);
    for (size_t i = 0; list != NULL && i < count; i++)
        if (!jinja_list_push(run, list, items[i].item))
            return V_FAIL;
    return value_list(K_LIST, list);
}

BUILTIN(filter_sort)
{
    size_t count = 0;
    bool fold = !jinja_arg_bool(args[1], false);
    struct keyed *items = with_keys(run, v, args[2], V_MISSING, fold, &count);
    if (items == NULL || !sort_keyed(run, items, count, jinja_arg_bool(args[0], false)))
        return V_FAIL;
    return tainted(filters_order_list_of(run, items, count), v.untrusted);
}

BUILTIN(filter_dictsort)
{
    bool fold = !jinja_arg_bool(args[0], false), by_value = false;
    if (v.kind == K_UNDEFINED)
        return jinja_error_undefined(run, v);
    if (v.kind != K_DICT)
        return jinja_error(run, "'%s' object has no attribute 'items'", jinja_type_name(v));
    if (is_given(args[1])) {
        struct text *by = args[1].kind == K_TEXT ? args[1].text : NULL;
        by_value = by != NULL && lr_str_eq_z(text_str(by), "value");
        if (!by_value && (by == NULL || !lr_str_eq_z(text_str(by), "key")))
            return jinja_error(run, "dictsort: you can only sort by either 'key' or 'value'");
    }
    size_t count = v.dict->count;
    struct keyed *items = jinja_array(run, count + 1, sizeof(*items));
    for (size_t i = 0; items != NULL && i < count; i++) {
        const struct dict_entry *e = &v.dict->entries[i];
        struct value key = by_value ? e->value : e->key;
        items[i].key = fold ? jinja_fold_value(run, key) : key;
        items[i].item = jinja_tuple2(run, e->key, e->value);
        if (is_fail(items[i].key) || is_fail(items[i].item))
            return V_FAIL;
    }
    if (items == NULL || !sort_keyed(run, items, count, jinja_arg_bool(args[2], false)))
        return V_FAIL;
    return tainted(filters_order_list_of(run, items, count), v.untrusted);
}

BUILTIN(filter_groupby)
{
    size_t count = 0;
    bool fold = !jinja_arg_bool(args[2], false);
    struct value fallback = is_given(args[1]) ? args[1] : V_NONE;
    struct keyed *items = with_keys(run, v, args[0], fallback, fold, &count);
    struct list *out = items != NULL ? jinja_list_new(run, 4) : NULL;
    if (out == NULL || !sort_keyed(run, items, count, false))
        return V_FAIL;
    for (size_t i = 0; i < count;) {
        struct list *group = jinja_list_new(run, 4);
        size_t first = i;
        bool same = true;
        while (group != NULL && i < count && same) {
            if (!jinja_list_push(run, group, items[i].item))
                return V_FAIL;
            i++;
            if (i < count && !jinja_equal(run, items[first].key, items[i].key, &same))
                return V_FAIL;
        }
        /* The group's name is written as in its first item. */
        struct value name =
            fold ? filters_order_make_key(run, items[first].item, args[0], fallback, false)
                 : items[first].key;
        struct value pair = is_fail(name) || group == NULL
                                ? V_FAIL
                                : jinja_tuple2(run, name, value_list(K_LIST, group));
        pair.named = true;
        if (!jinja_list_push(run, out, pair))
            return V_FAIL;
    }
    return value_list(K_LIST, out);
}

static struct value extreme(struct run *run, struct value v, const struct value *args,
                            bool largest)
{
    struct iterator it;
    bool fold = !jinja_arg_bool(args[0], false);
    struct value best = V_MISSING, best_key = V_MISSING;
    if (!jinja_iterate(run, v, &it))
        return V_FAIL;
    for (;;) {
        struct value item = jinja_next(run, &it);
        if (is_fail(item))
            return item;
        if (!is_given(item))
            break;
        struct value key = filters_order_make_key(run, item, args[1], V_MISSING, fold);
        int c = 0;
        if (is_fail(key) || !jinja_charge(run, 1))
            return V_FAIL;
        if (is_given(best) && !jinja_order(run, largest ? ">" : "<", key, best_key, &c))
            return V_FAIL;
        if (!is_given(best) || (largest ? c == 1 || (c > 0 && c != 2) : c < 0)) {
            best = item;
            best_key = key;
        }
    }
    return is_given(best) ? best
                          : jinja_undefined_hint(run, "no aggregated item, sequence was empty");
}

BUILTIN_IS(filter_min, extreme(run, v, args, false))
BUILTIN_IS(filter_max, extreme(run, v, args, true))

const struct builtin_row jinja_filters_order[] = {
    {"sort", {.fn = filter_sort, .params = {"reverse", "case_sensitive", "attribute"}}},
    {"dictsort", {.fn = filter_dictsort, .params = {"case_sensitive", "by", "reverse"}}},
    {"groupby",
     {.fn = filter_groupby,
      .required = 1,
      .params = {"attribute", "default", "case_sensitive"}}},
    {"min", {.fn = filter_min, .params = {"case_sensitive", "attribute"}}},
    {"max", {.fn = filter_max, .params = {"case_sensitive", "attribute"}}},
    {NULL, {0}},
};
