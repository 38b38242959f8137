/* jinja/value.c - truth, equality, order, and the containers. */
#include "jinja/value.h"

#include <math.h>
#include <stdlib.h>

#include "jinja/iter.h"
#include "jinja/run.h"

const char *jinja_type_name(struct value v)
{
    switch ((enum kind)v.kind) {
    case K_NONE:
        return "NoneType";
    case K_BOOL:
        return "bool";
    case K_INT:
    case K_BIG:
        return "int";
    case K_FLOAT:
        return "float";
    case K_TEXT:
        return "str";
    case K_LIST:
        return "list";
    case K_TUPLE:
        return "tuple";
    case K_DICT:
        return "dict";
    case K_VIEW:
        return v.view == 'k' ? "dict_keys" : v.view == 'v' ? "dict_values" : "dict_items";
    case K_RANGE:
        return "range";
    case K_SLICE:
        return "slice";
    case K_NAMESPACE:
        return "Namespace";
    case K_ITERATOR:
        return "generator";
    case K_LOOP:
        return "LoopContext";
    case K_MACRO:
        return "Macro";
    case K_FUNCTION:
        return "function";
    case K_METHOD:
        return "builtin_function_or_method";
    case K_CYCLER:
        return "Cycler";
    case K_JOINER:
        return "Joiner";
    case K_BLOCKS:
        return "TemplateReference";
    case K_FAIL:
    case K_MISSING:
    case K_UNDEFINED:
        break;
    }
    return "Undefined";
}

bool jinja_truth_of(struct value v)
{
    switch ((enum kind)v.kind) {
    case K_FAIL:
    case K_MISSING:
    case K_UNDEFINED:
    case K_NONE:
        return false;
    case K_BOOL:
        return v.boolean;
    case K_INT:
        return v.integer != 0;
    case K_FLOAT:
        return v.real != 0;
    case K_TEXT:
        return v.text->len != 0;
    case K_LIST:
    case K_TUPLE:
        return v.list->count != 0;
    case K_DICT:
    case K_VIEW:
        return v.dict->count != 0;
    case K_RANGE:
        return v.range->count != 0;
    case K_BIG:
    case K_SLICE:
    case K_NAMESPACE:
    case K_ITERATOR:
    case K_LOOP:
    case K_MACRO:
    case K_FUNCTION:
    case K_METHOD:
    case K_CYCLER:
    case K_JOINER:
    case K_BLOCKS:
        break;
    }
    return true;
}

static bool equal_lists(struct run *run, const struct list *a, const struct list *b, bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++)
        if (!jinja_equal(run, a->items[i], b->items[i], out))
            return false;
    return true;
}

static bool equal_dicts(struct run *run, const struct dict *a, const struct dict *b, bool *out)
{
    *out = a->count == b->count;
    for (size_t i = 0; *out && i < a->count; i++) {
        const struct value *other;
        if (!jinja_dict_get(run, b, a->entries[i].key, &other))
            return false;
        *out = other != NULL;
        if (*out && !jinja_equal(run, a->entries[i].value, *other, out))
            return false;
    }
    return true;
}

static bool equal_ranges(const struct range *a, const struct range *b)
{
    if (a->count != b->count || a->count == 0)
        return a->count == b->count;
    return a->start == b->start && (a->count == 1 || a->step == b->step);
}

/* Containers: comparisons that may take long. */
static bool equal_deep(struct run *run, struct value a, struct value b, bool *out)
{
    if (!jinja_enter(run))
        return false;
    bool ok = true;
    switch ((enum kind)a.kind) {
    case K_LIST:
    case K_TUPLE:
        ok = equal_lists(run, a.list, b.list, out);
        break;
    case K_DICT:
        ok = equal_dicts(run, a.dict, b.dict, out);
        break;
    case K_RANGE:
        *out = equal_ranges(a.range, b.range);
        break;
    case K_METHOD: {
        *out = a.method->row == b.method->row;
        ok = !*out || jinja_equal(run, a.method->self, b.method->self, out);
        break;
    }
    default:
        *out = a.dict == b.dict; /* the same object */
        break;
    }
    jinja_leave(run);
    return ok;
}

bool jinja_equal(struct run *run, struct value a, struct value b, bool *out)
{
    if (is_number(a) && is_number(b)) {
        if (a.kind == K_FLOAT || b.kind == K_FLOAT)
            *out = real_of(a) == real_of(b);
        else
            *out = integer_of(a) == integer_of(b);
        return true;
    }
    if (a.kind != b.kind) {
        *out = false;
        return true;
    }
    switch ((enum kind)a.kind) {
    case K_NONE:
    case K_UNDEFINED:
    case K_MISSING:
        *out = true;
        return true;
    case K_TEXT:
    case K_BIG:
        *out = jinja_text_eq(a.text, b.text);
        return true;
    default:
        return equal_deep(run, a, b, out);
    }
}

static int order_texts(const struct text *a, const struct text *b)
{
    int c = lr_str_cmp(text_str(a), text_str(b)); /* UTF-8 sorts as code points do */
    return (c > 0) - (c < 0);                     /* 2 would mean "no order" */
}

static bool order_lists(struct run *run, const char *op, const struct list *a,
                        const struct list *b, int *out)
{
    if (!jinja_enter(run))
        return false;
    size_t shorter = a->count < b->count ? a->count : b->count;
    bool ok = true, same = true;
    size_t i = 0;
    for (; ok && i < shorter; i++) {
        ok = jinja_equal(run, a->items[i], b->items[i], &same);
        if (!same)
            break;
    }
    if (ok && i < shorter)
        ok = jinja_order(run, op, a->items[i], b->items[i], out);
    else if (ok)
        *out = a->count == b->count ? 0 : a->count < b->count ? -1 : 1;
    jinja_leave(run);
    return ok;
}

bool jinja_order(struct run *run, const char *op, struct value a, struct value b, int *out)
{
    if (a.kind == K_UNDEFINED || b.kind == K_UNDEFINED)
        return !is_fail(jinja_error_undefined(run, a.kind == K_UNDEFINED ? a : b));
    if (is_number(a) && is_number(b)) {
        if (a.kind == K_FLOAT || b.kind == K_FLOAT) {
            double x = real_of(a), y = real_of(b);
            /* NaN has no order: 2 makes <, <=, > and >= all false. */
            *out = x < y ? -1 : x > y ? 1 : x == y ? 0 : 2;
        } else {
            int64_t x = integer_of(a), y = integer_of(b);
            *out = x < y ? -1 : x > y;
        }
        return true;
    }
    if (a.kind == K_TEXT && b.kind == K_TEXT) {
        *out = order_texts(a.text, b.text);
        return true;
    }
    if (a.kind == b.kind && (a.kind == K_LIST || a.kind == K_TUPLE))
        return order_lists(run, op, a.list, b.list, out);
    (void)jinja_error(run, "'%s' not supported between instances of '%s' and '%s'", op,
                      jinja_type_name(a), jinja_type_name(b));
    return false;
}

static bool contains_item(struct run *run, struct value container, struct value item, bool *out)
{
    struct iterator it;
    *out = false;
    if (!jinja_iterate(run, container, &it))
        return false;
    for (;;) {
        struct value v = jinja_next(run, &it);
        if (is_fail(v) || v.kind == K_MISSING)
            return !is_fail(v);
        if (!jinja_charge(run, 1) || !jinja_equal(run, v, item, out))
            return false;
        if (*out)
            return true;
    }
}

bool jinja_contains(struct run *run, struct value container, struct value item, bool *out)
{
    switch ((enum kind)container.kind) {
    case K_TEXT:
        if (item.kind != K_TEXT) {
            (void)jinja_error(run, "'in <string>' requires string as left operand, not %s",
                              jinja_type_name(item));
            return false;
        }
        *out = jinja_find(text_str(container.text), text_str(item.text)) != LR_STR_NONE;
        return jinja_charge_bytes(run, container.text->len);
    case K_DICT: {
        const struct value *found;
        bool ok = jinja_dict_get(run, container.dict, item, &found);
        *out = ok && found != NULL;
        return ok;
    }
    case K_RANGE: {
        const struct range *r = container.range;
        *out = false;
        if (item.kind == K_FLOAT && item.real == floor(item.real) && fabs(item.real) < 1e18)
            item = value_int((int64_t)item.real);
        if (is_integral(item)) {
            int64_t i = integer_of(item);
            bool inside =
                r->step > 0 ? i >= r->start && i < r->stop : i <= r->start && i > r->stop;
            *out = inside && (i - r->start) % r->step == 0;
        }
        return true;
    }
    case K_UNDEFINED:
        *out = false;
        return true;
    case K_LIST:
    case K_TUPLE:
    case K_VIEW:
    case K_ITERATOR:
    case K_LOOP:
        return contains_item(run, container, item, out);
    default:
        (void)jinja_error(run, "argument of type '%s' is not iterable",
                          jinja_type_name(container));
        return false;
    }
}

bool jinja_length(struct run *run, struct value v, size_t *out)
{
    switch ((enum kind)v.kind) {
    case K_TEXT:
        *out = jinja_text_chars(v.text);
        return jinja_charge_bytes(run, v.text->len);
    case K_LIST:
    case K_TUPLE:
        *out = v.list->count;
        return true;
    case K_DICT:
    case K_VIEW:
        *out = v.dict->count;
        return true;
    case K_RANGE:
        *out = (size_t)v.range->count;
        return true;
    case K_UNDEFINED:
        *out = 0;
        return true;
    case K_LOOP:
        return jinja_loop_length(run, v.loop, out);
    default:
        (void)jinja_error(run, "object of type '%s' has no len()", jinja_type_name(v));
        return false;
    }
}

/* ---- lists ---- */

struct list *jinja_list_new(struct run *run, size_t capacity)
{
    struct list *list = jinja_alloc(run, sizeof(*list));
    struct list_store *store = list != NULL ? jinja_alloc(run, sizeof(*store)) : NULL;
    struct value *items =
        store != NULL ? jinja_array(run, capacity, sizeof(struct value)) : NULL;
    if (items == NULL)
        return NULL;
    *store = (struct list_store){.items = items, .capacity = capacity};
    *list = (struct list){.items = items, .store = store};
    return list;
}

/* Makes room after list->items[count], so that the list owns the end of its store. */
static bool list_room(struct run *run, struct list *list, size_t more)
{
    struct list_store *store = list->store;
    if (store != NULL && list->items + list->count == store->items + store->used &&
        store->capacity - store->used >= more)
        return true;
    size_t capacity = list->count + more;
    capacity += store != NULL ? capacity : 4;
    struct value *items = jinja_array(run, capacity, sizeof(*items));
    store = items != NULL ? jinja_alloc(run, sizeof(*store)) : NULL;
    if (store == NULL || !jinja_charge(run, list->count / 8))
        return false;
    if (list->count > 0)
        memcpy(items, list->items, list->count * sizeof(*items));
    *store = (struct list_store){.items = items, .used = list->count, .capacity = capacity};
    list->items = items;
    list->store = store;
    return true;
}

bool jinja_list_push(struct run *run, struct list *list, struct value v)
{
    if (is_fail(v) || !list_room(run, list, 1))
        return false;
    list->items[list->count++] = v;
    list->store->used++;
    return true;
}

struct value jinja_list_concat(struct run *run, enum kind kind, const struct list *a,
                               const struct list *b)
{
    struct list *out = jinja_alloc(run, sizeof(*out));
    if (out == NULL)
        return V_FAIL;
    *out = *a;
    out->is_given = false;
    if (b->count == 0)
        return value_list(kind, out);
    if (!list_room(run, out, b->count) || !jinja_charge(run, b->count / 8))
        return V_FAIL;
    memcpy(out->items + out->count, b->items, b->count * sizeof(*b->items));
    out->count += b->count;
    out->store->used += b->count;
    return value_list(kind, out);
}

struct value jinja_tuple2(struct run *run, struct value a, struct value b)
{
    struct list *list = jinja_alloc(run, sizeof(*list));
    struct value *items = list != NULL ? jinja_array(run, 2, sizeof(*items)) : NULL;
    if (items == NULL)
        return V_FAIL;
    items[0] = a;
    items[1] = b;
    *list = (struct list){.items = items, .count = 2};
    return value_list(K_TUPLE, list);
}
