/* jinja/access.c - attributes, items and slices, as the sandbox allows them.
 *
 * `a.b` looks for an attribute first and for an item second, `a['b']` the other way round.  The
 * only attributes are those of the method tables and of the table below: templates cannot reach
 * an object model, so `x.__class__` is undefined like any other unknown name.
 */
#include <stdio.h>

#include "jinja/ast.h"
#include "jinja/builtins.h"
#include "jinja/iter.h"

struct value jinja_undefined_hint(struct run *run, const char *hint)
{
    struct undefined *u = jinja_alloc(run, sizeof(*u));
    if (u == NULL)
        return V_FAIL;
    *u = (struct undefined){.hint = hint, .name = V_NONE};
    return (struct value){.kind = K_UNDEFINED, .undefined = u};
}

struct value jinja_undefined_attr(struct run *run, struct value object, struct value name)
{
    struct undefined *u = jinja_alloc(run, sizeof(*u));
    if (u == NULL)
        return V_FAIL;
    *u = (struct undefined){.object_type = jinja_type_name(object), .name = name};
    return (struct value){.kind = K_UNDEFINED, .undefined = u};
}

static struct value bind(struct run *run, struct value self, const struct builtin_row *row)
{
    struct method *m = jinja_alloc(run, sizeof(*m));
    if (m == NULL)
        return V_FAIL;
    *m = (struct method){.self = self, .row = row};
    return (struct value){.kind = K_METHOD, .untrusted = self.untrusted, .method = m};
}

static bool changes_its_object(struct value object, struct lr_str name)
{
    static const char *const of_dict[] = {"clear",      "pop",    "popitem",
                                          "setdefault", "update", NULL};
    static const char *const of_list[] = {"append", "clear",  "pop",    "reverse", "insert",
                                          "sort",   "extend", "remove", NULL};
    const char *const *names = object.kind == K_DICT   ? of_dict
                               : object.kind == K_LIST ? of_list
                                                       : NULL;
    if (object.kind == K_LIST && !object.list->is_given && lr_str_eq_z(name, "append"))
        return false;
    for (; names != NULL && *names != NULL; names++)
        if (lr_str_eq_z(name, *names))
            return true;
    return false;
}

static struct value number_attr(struct value v, struct lr_str name)
{
    if (lr_str_eq_z(name, "real"))
        return v.kind == K_BOOL ? tainted(value_int(v.boolean), v.untrusted) : v;
    if (lr_str_eq_z(name, "imag"))
        return v.kind == K_FLOAT ? value_float(0) : value_int(0);
    if (v.kind != K_FLOAT && lr_str_eq_z(name, "numerator"))
        return tainted(value_int(integer_of(v)), v.untrusted);
    if (v.kind != K_FLOAT && lr_str_eq_z(name, "denominator"))
        return value_int(1);
    return V_MISSING;
}

static struct value range_attr(const struct range *r, struct lr_str name)
{
    if (lr_str_eq_z(name, "start"))
        return value_int(r->start);
    if (lr_str_eq_z(name, "stop"))
        return value_int(r->stop);
    return lr_str_eq_z(name, "step") ? value_int(r->step) : V_MISSING;
}

static struct value cycler_attr(const struct cycler *c, struct lr_str name)
{
    return lr_str_eq_z(name, "current") ? c->items.items[c->at] : V_MISSING;
}

static struct value macro_attr(struct run *run, const struct macro *macro, struct lr_str name)
{
    const struct macro_info *m = macro->node->macro;
    if (lr_str_eq_z(name, "name"))
        return m->name != NULL ? value_text(m->name) : V_NONE;
    if (lr_str_eq_z(name, "catch_kwargs"))
        return value_bool(m->uses_kwargs);
    if (lr_str_eq_z(name, "catch_varargs"))
        return value_bool(m->uses_varargs);
    if (lr_str_eq_z(name, "caller"))
        return value_bool(m->uses_caller);
    if (!lr_str_eq_z(name, "arguments"))
        return V_MISSING;
    struct list *list = jinja_list_new(run, m->param_count);
    for (size_t i = 0; list != NULL && i < m->param_count; i++)
        if (!jinja_list_push(run, list, value_text(m->params[i]->name)))
            return V_FAIL;
    return value_list(K_TUPLE, list);
}

/* Python's getattr: K_MISSING where it raises AttributeError. */
static struct value attribute(struct run *run, struct value object, struct lr_str name)
{
    struct value v = V_MISSING;
    switch ((enum kind)object.kind) {
    case K_NAMESPACE: {
        const struct value *found = jinja_dict_find(object.dict, name);
        return found != NULL ? *found : V_MISSING;
    }
    case K_LOOP:
        v = jinja_loop_attr(run, object.loop, name);
        break;
    case K_INT:
    case K_BOOL:
    case K_FLOAT:
        v = number_attr(object, name);
        break;
    case K_RANGE:
        v = range_attr(object.range, name);
        break;
    case K_CYCLER:
        v = cycler_attr(object.cycler, name);
        break;
    case K_MACRO:
        return macro_attr(run, object.macro, name);
    case K_BLOCKS:
        for (size_t i = 0; object.integer == 0 && i < run->tmpl->block_count; i++)
            if (lr_str_eq(text_str(run->tmpl->blocks[i].name), name))
                return (struct value){.kind = K_BLOCKS, .integer = (int64_t)i + 1};
        break;
    case K_TUPLE:
        if (object.named && lr_str_eq_z(name, "grouper"))
            return object.list->items[0];
        if (object.named && lr_str_eq_z(name, "list"))
            return object.list->items[1];
        break;
    default:
        break;
    }
    if (is_given(v))
        return v;
    const struct builtin_row *row = jinja_find_method(object, name);
    return row != NULL ? bind(run, object, row) : V_MISSING;
}

static struct value unsafe(struct run *run, struct lr_str name)
{
    char hint[160];
    (void)snprintf(hint, sizeof(hint), "access to attribute '" LR_STR_FMT "' is unsafe",
                   LR_STR_ARG(lr_str_sub(name, 0, 80)));
    char *copy = jinja_alloc(run, strlen(hint) + 1);
    if (copy == NULL)
        return V_FAIL;
    memcpy(copy, hint, strlen(hint) + 1);
    return jinja_undefined_hint(run, copy);
}

static bool is_dunder(struct lr_str name)
{
    return name.len > 4 && lr_str_starts(name, "__") && lr_str_ends(name, "__");
}

bool jinja_is_plain_key(struct lr_str name)
{
    struct value dict = value_of_kind(K_DICT);
    return !is_dunder(name) && !changes_its_object(dict, name) &&
           jinja_find_method(dict, name) == NULL;
}

struct value jinja_getattr(struct run *run, struct value object, struct text *name)
{
    struct lr_str key = text_str(name);
    if (object.kind == K_UNDEFINED)
        return jinja_error_undefined(run, object);
    if (is_dunder(key) || changes_its_object(object, key))
        return unsafe(run, key);
    struct value v = attribute(run, object, key);
    if (is_given(v))
        return v;
    if (object.kind == K_DICT) {
        const struct value *found = jinja_dict_find(object.dict, key);
        if (found != NULL)
            return *found;
    }
    return jinja_undefined_attr(run, object, value_text(name));
}

static bool index_of(struct value key, size_t count, size_t *out)
{
    int64_t i = integer_of(key);
    if (i < 0)
        i += (int64_t)count;
    *out = (size_t)i;
    return i >= 0 && (uint64_t)i < count;
}

/* object[key]: K_MISSING where Python raises TypeError or LookupError. */
static struct value item(struct run *run, struct value object, struct value key)
{
    size_t i;
    switch ((enum kind)object.kind) {
    case K_DICT: {
        const struct value *found = NULL;
        if (key.kind == K_TEXT)
            found = jinja_dict_find(object.dict, text_str(key.text));
        else if (key.kind != K_LIST && key.kind != K_DICT &&
                 !jinja_dict_get(run, object.dict, key, &found))
            return V_FAIL;
        return found != NULL ? *found : V_MISSING;
    }
    case K_LIST:
    case K_TUPLE:
        if (!is_integral(key) || !index_of(key, object.list->count, &i))
            return V_MISSING;
        return object.list->items[i];
    case K_TEXT: {
        if (!is_integral(key) || !index_of(key, jinja_text_chars(object.text), &i))
            return V_MISSING;
        size_t from = jinja_text_offset(object.text, i);
        size_t to = from + 1;
        while (to < object.text->len && ((unsigned char)object.text->ptr[to] & 0xC0) == 0x80)
            to++;
        if (!jinja_charge_bytes(run, object.text->len))
            return V_FAIL;
        return value_text(jinja_text_sub(run, object.text, from, to));
    }
    case K_RANGE:
        if (!is_integral(key) || !index_of(key, (size_t)object.range->count, &i))
            return V_MISSING;
        return value_int(object.range->start + (int64_t)i * object.range->step);
    default:
        return V_MISSING;
    }
}

struct value jinja_getitem(struct run *run, struct value object, struct value key)
{
    if (object.kind == K_UNDEFINED)
        return jinja_error_undefined(run, object);
    struct value v = item(run, object, key);
    if (is_given(v))
        return v;
    if (key.kind == K_TEXT) {
        struct lr_str name = text_str(key.text);
        if (is_dunder(name) || changes_its_object(object, name))
            return unsafe(run, name);
        v = attribute(run, object, name);
        if (is_given(v))
            return v;
    }
    return jinja_undefined_attr(run, object, key);
}

/* ---- slices ---- */

static bool slice_index(struct run *run, struct value v, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (v.kind == K_NONE)
        return true;
    if (v.kind == K_UNDEFINED || !is_integral(v))
        return !is_fail(jinja_error(run, "slice indices must be integers or None, not %s",
                                    jinja_type_name(v)));
    *out = integer_of(v);
    return true;
}

static int64_t clamp(int64_t i, int64_t low, int64_t high)
{
    return i < low ? low : i > high ? high : i;
}

/* Python's slice.indices. */
static bool slice_bounds(struct run *run, struct value start, struct value stop,
                         struct value step, int64_t count, int64_t out[3])
{
    int64_t by;
    if (!slice_index(run, step, 1, &by))
        return false;
    if (by == 0)
        return !is_fail(jinja_error(run, "slice step cannot be zero"));
    if (by < -INT64_MAX)
        by = -INT64_MAX;
    int64_t low = by < 0 ? -1 : 0, high = by < 0 ? count - 1 : count;
    int64_t from, to;
    if (!slice_index(run, start, by < 0 ? high : low, &from) ||
        !slice_index(run, stop, by < 0 ? low : high, &to))
        return false;
    if (start.kind != K_NONE)
        from = clamp(from < 0 ? from + count : from, low, high);
    if (stop.kind != K_NONE)
        to = clamp(to < 0 ? to + count : to, low, high);
    out[0] = from;
    out[1] = to;
    out[2] = by;
    return true;
}

static int64_t slice_count(const int64_t b[3])
{
    if (b[2] > 0)
        return b[1] > b[0] ? (b[1] - b[0] - 1) / b[2] + 1 : 0;
    return b[0] > b[1] ? (b[0] - b[1] - 1) / -b[2] + 1 : 0;
}

static struct value slice_text(struct run *run, struct text *t, const int64_t b[3], int64_t n)
{
    if (!jinja_charge_bytes(run, t->len))
        return V_FAIL;
    if (b[2] == 1 || n == 0) {
        size_t from = n > 0 ? jinja_text_offset(t, (size_t)b[0]) : 0;
        size_t to = n > 0 ? jinja_text_offset(t, (size_t)b[1]) : 0;
        return value_text(jinja_text_sub(run, t, from, to));
    }
    /* Other steps jump between code points: an index of their offsets avoids a walk for
     * each. */
    size_t chars = jinja_text_chars(t);
    uint32_t *starts = jinja_array(run, chars + 1, sizeof(*starts));
    if (starts == NULL)
        return V_FAIL;
    size_t found = 0;
    for (size_t i = 0; i < t->len; i++)
        if (((unsigned char)t->ptr[i] & 0xC0) != 0x80 && found < chars)
            starts[found++] = (uint32_t)i;
    starts[found] = (uint32_t)t->len;
    struct mark mark = jinja_mark(run);
    int64_t at = b[0];
    for (int64_t i = 0; i < n && !run->failed; i++, at += b[2]) {
        jinja_write_part(run, t, starts[at], starts[at + 1]);
        if (!jinja_charge(run, 1))
            return V_FAIL;
    }
    return value_text(jinja_with_markup(run, jinja_take(run, mark), t->markup));
}

static struct value slice_list(struct run *run, struct value v, const int64_t b[3], int64_t n)
{
    struct list *list = jinja_alloc(run, sizeof(*list));
    if (list == NULL)
        return V_FAIL;
    if (b[2] == 1) { /* shares the items, because lists are immutable */
        *list = (struct list){.items = v.list->items + (n > 0 ? b[0] : 0), .count = (size_t)n};
        return tainted(value_list((enum kind)v.kind, list), v.untrusted);
    }
    struct value *items = jinja_array(run, (size_t)n, sizeof(*items));
    if (items == NULL || !jinja_charge(run, (uint64_t)n / 8))
        return V_FAIL;
    int64_t at = b[0];
    for (int64_t i = 0; i < n; i++, at += b[2])
        items[i] = v.list->items[at];
    *list = (struct list){.items = items, .count = (size_t)n};
    return tainted(value_list((enum kind)v.kind, list), v.untrusted);
}

struct value jinja_slice(struct run *run, struct value object, struct value start,
                         struct value stop, struct value step)
{
    size_t count = 0;
    int64_t b[3] = {0, 0, 1};
    if (object.kind == K_UNDEFINED)
        return jinja_error_undefined(run, object);
    bool text = object.kind == K_TEXT, range = object.kind == K_RANGE;
    if (!text && !range && object.kind != K_LIST && object.kind != K_TUPLE)
        return jinja_error(run, "'%s' object cannot be sliced", jinja_type_name(object));
    if (!jinja_length(run, object, &count) ||
        !slice_bounds(run, start, stop, step, (int64_t)count, b))
        return V_FAIL;
    int64_t n = slice_count(b);
    if (text)
        return slice_text(run, object.text, b, n);
    if (!range)
        return slice_list(run, object, b, n);
    struct range *r = jinja_alloc(run, sizeof(*r));
    if (r == NULL)
        return V_FAIL;
    const struct range *from = object.range;
    *r = (struct range){.start = from->start + b[0] * from->step,
                        .stop = from->start + b[1] * from->step,
                        .step = from->step * b[2],
                        .count = n};
    return (struct value){.kind = K_RANGE, .untrusted = object.untrusted, .range = r};
}

/* ---- paths ---- */

static bool all_digits(struct lr_str s)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
    return s.len > 0 && s.len < 18;
}

struct value jinja_get_path(struct run *run, struct value v, struct value attribute_path,
                            struct value fallback)
{
    if (attribute_path.kind == K_NONE || !is_given(attribute_path))
        return v;
    bool use_fallback = is_given(fallback) && fallback.kind != K_NONE;
    if (attribute_path.kind != K_TEXT) {
        v = jinja_getitem(run, v, attribute_path);
        return use_fallback && v.kind == K_UNDEFINED ? fallback : v;
    }
    const struct text *path = attribute_path.text;
    size_t from = 0;
    for (;;) {
        size_t to = from;
        while (to < path->len && path->ptr[to] != '.')
            to++;
        struct lr_str part = lr_str(path->ptr + from, to - from);
        int64_t number = 0;
        struct value key;
        if (all_digits(part) && lr_str_i64(part, &number))
            key = value_int(number);
        else
            key = value_text(jinja_text_sub(run, path, from, to));
        if (is_fail(key))
            return key;
        v = jinja_getitem(run, v, key);
        if (use_fallback && v.kind == K_UNDEFINED)
            v = fallback;
        if (is_fail(v) || to >= path->len)
            return v;
        from = to + 1;
    }
}
