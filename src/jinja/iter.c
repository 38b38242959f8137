/* jinja/iter.c - iterators and the loop object. */
#include "jinja/iter.h"

#include "jinja/ast.h"
#include "jinja/exec.h"
#include "jinja/run.h"

bool jinja_can_iterate(struct value v)
{
    switch ((enum kind)v.kind) {
    case K_TEXT:
    case K_LIST:
    case K_TUPLE:
    case K_DICT:
    case K_VIEW:
    case K_RANGE:
    case K_ITERATOR:
    case K_UNDEFINED:
    case K_LOOP:
        return true;
    default:
        return false;
    }
}

bool jinja_iterate(struct run *run, struct value v, struct iterator *out)
{
    *out = (struct iterator){.source = v};
    switch ((enum kind)v.kind) {
    case K_TEXT:
        out->kind = ITER_TEXT;
        return true;
    case K_LIST:
    case K_TUPLE:
        out->kind = ITER_ITEMS;
        return true;
    case K_DICT:
        out->source.view = 'k';
        out->kind = ITER_DICT;
        return true;
    case K_VIEW:
        out->kind = ITER_DICT;
        return true;
    case K_RANGE:
        out->kind = ITER_RANGE;
        return true;
    case K_ITERATOR:
        out->kind = ITER_OTHER;
        out->inner = v.iterator;
        return true;
    case K_UNDEFINED:
        out->kind = ITER_EMPTY;
        return true;
    default:
        (void)jinja_error(run, "'%s' object is not iterable", jinja_type_name(v));
        return false;
    }
}

static struct value next_char(struct run *run, struct iterator *it)
{
    const struct text *t = it->source.text;
    if (it->at >= t->len)
        return V_MISSING;
    size_t end = it->at + 1;
    while (end < t->len && ((unsigned char)t->ptr[end] & 0xC0) == 0x80)
        end++;
    struct text *c = jinja_text_sub(run, t, it->at, end);
    it->at = end;
    return value_text(jinja_with_markup(run, c, false));
}

static struct value next_entry(struct run *run, struct iterator *it)
{
    const struct dict *dict = it->source.dict;
    if (it->at >= dict->count)
        return V_MISSING;
    const struct dict_entry *e = &dict->entries[it->at++];
    if (it->source.view == 'k')
        return e->key;
    if (it->source.view == 'v')
        return e->value;
    return jinja_tuple2(run, e->key, e->value);
}

/* Applies the filter, test or attribute of a lazy filter to an item. */
static struct value iter_apply(struct run *run, struct lazy *lazy, struct value item, bool test)
{
    if (is_given(lazy->attribute))
        item = jinja_get_path(run, item, lazy->attribute, lazy->fallback);
    if (is_fail(item) || !is_given(lazy->name))
        return item;
    return test ? jinja_call_test(run, lazy->name, item, &lazy->call)
                : jinja_call_filter(run, lazy->name, item, &lazy->call);
}

static struct value next_lazy(struct run *run, struct iterator *it)
{
    struct lazy *lazy = it->lazy;
    if (!lazy->started) {
        lazy->started = true;
        /* As in Python (`if value:`): an empty value need not be iterable. */
        if (!jinja_truth(lazy->source))
            lazy->inner = (struct iterator){.kind = ITER_EMPTY};
        else if (!jinja_iterate(run, lazy->source, &lazy->inner))
            return V_FAIL;
    }
    for (;;) {
        struct value item = jinja_next(run, &lazy->inner);
        if (is_fail(item) || !is_given(item))
            return item;
        struct value v = iter_apply(run, lazy, item, it->kind == ITER_SELECT);
        if (is_fail(v) || it->kind == ITER_MAP)
            return v;
        if (jinja_truth(v) != lazy->negated)
            return item;
        if (!jinja_charge(run, 1))
            return V_FAIL;
    }
}

static struct value next_deferred(struct run *run, struct iterator *it)
{
    struct lazy *lazy = it->lazy;
    if (!lazy->started) {
        lazy->started = true;
        struct value made = lazy->make(run, lazy);
        if (is_fail(made) || !jinja_iterate(run, made, &lazy->inner))
            return V_FAIL;
    }
    return jinja_next(run, &lazy->inner);
}

static struct value next_chosen(struct run *run, struct iterator *it)
{
    struct lazy *lazy = it->lazy;
    for (;;) {
        struct value item = jinja_next(run, &lazy->inner);
        bool chosen = false;
        if (is_fail(item) || !is_given(item))
            return item;
        if (!jinja_choose(run, lazy->scope, lazy->node, item, &chosen))
            return V_FAIL;
        if (chosen)
            return item;
    }
}

struct value jinja_next(struct run *run, struct iterator *it)
{
    switch (it->kind) {
    case ITER_EMPTY:
        return V_MISSING;
    case ITER_ITEMS:
        return it->at < it->source.list->count ? it->source.list->items[it->at++] : V_MISSING;
    case ITER_BACKWARDS: {
        size_t count = it->source.list->count;
        return it->at < count ? it->source.list->items[count - ++it->at] : V_MISSING;
    }
    case ITER_TEXT:
        return next_char(run, it);
    case ITER_DICT:
        return next_entry(run, it);
    case ITER_RANGE: {
        const struct range *r = it->source.range;
        if (it->at >= (size_t)r->count)
            return V_MISSING;
        return tainted(value_int(r->start + (int64_t)it->at++ * r->step), it->source.untrusted);
    }
    case ITER_OTHER:
        return jinja_next(run, it->inner);
    case ITER_MAP:
    case ITER_SELECT:
    case ITER_DEFERRED:
    case ITER_CHOSEN: {
        if (!jinja_enter(run))
            return V_FAIL;
        struct value v = it->kind == ITER_DEFERRED ? next_deferred(run, it)
                         : it->kind == ITER_CHOSEN ? next_chosen(run, it)
                                                   : next_lazy(run, it);
        jinja_leave(run);
        return v;
    }
    }
    return V_MISSING;
}

struct list *jinja_to_list(struct run *run, struct value v)
{
    struct iterator it;
    size_t expected = v.kind == K_LIST || v.kind == K_TUPLE  ? v.list->count
                      : v.kind == K_DICT || v.kind == K_VIEW ? v.dict->count
                                                             : 4;
    struct list *list = jinja_list_new(run, expected);
    if (list == NULL || !jinja_iterate(run, v, &it))
        return NULL;
    for (;;) {
        struct value item = jinja_next(run, &it);
        if (item.kind == K_MISSING)
            return list;
        if (!jinja_charge(run, 1) || !jinja_list_push(run, list, item))
            return NULL;
    }
}

struct value jinja_lazy(struct run *run, enum iterator_kind kind, const struct lazy *lazy)
{
    struct iterator *it = jinja_alloc(run, sizeof(*it));
    struct lazy *copy = it != NULL ? jinja_alloc(run, sizeof(*copy)) : NULL;
    if (copy == NULL)
        return V_FAIL;
    *copy = *lazy;
    *it = (struct iterator){.kind = kind, .lazy = copy};
    return (struct value){.kind = K_ITERATOR, .iterator = it};
}

/* ---- loop ---- */

struct value jinja_loop_next(struct run *run, struct loop *loop)
{
    struct value v = loop->after;
    if (is_given(v))
        loop->after = V_MISSING;
    else
        v = jinja_next(run, &loop->it);
    if (is_fail(v) || !is_given(v))
        return v;
    loop->index0++;
    loop->before = loop->current;
    loop->current = v;
    return v;
}

static struct value iter_peek(struct run *run, struct loop *loop)
{
    if (!is_given(loop->after))
        loop->after = jinja_next(run, &loop->it);
    return loop->after;
}

bool jinja_loop_length(struct run *run, struct loop *loop, size_t *out)
{
    if (!loop->has_length) {
        enum iterator_kind kind = loop->it.kind;
        if (kind == ITER_OTHER || kind == ITER_CHOSEN) {
            /* The size is unknown: collect the remaining items and iterate over those. */
            struct value rest = {.kind = K_ITERATOR, .iterator = &loop->it};
            struct list *list = jinja_to_list(run, rest);
            if (list == NULL)
                return false;
            loop->it =
                (struct iterator){.kind = ITER_ITEMS, .source = value_list(K_LIST, list)};
            loop->length =
                list->count + (size_t)(loop->index0 + 1) + (is_given(loop->after) ? 1 : 0);
        } else if (!jinja_length(run, loop->source, &loop->length)) {
            return false;
        }
        loop->has_length = true;
    }
    *out = loop->length;
    return true;
}

static struct value neighbour(struct run *run, struct loop *loop, bool next)
{
    struct value v = next ? iter_peek(run, loop) : loop->before;
    if (is_fail(v))
        return v;
    if (next ? is_given(v) : loop->index0 > 0)
        return v;
    return jinja_undefined_hint(run,
                                next ? "there is no next item" : "there is no previous item");
}

struct value jinja_loop_attr(struct run *run, struct loop *loop, struct lr_str name)
{
    size_t length = 0;
    if (lr_str_eq_z(name, "index"))
        return value_int(loop->index0 + 1);
    if (lr_str_eq_z(name, "index0"))
        return value_int(loop->index0);
    if (lr_str_eq_z(name, "first"))
        return value_bool(loop->index0 == 0);
    if (lr_str_eq_z(name, "last")) {
        struct value next = iter_peek(run, loop);
        return is_fail(next) ? next : value_bool(!is_given(next));
    }
    if (lr_str_eq_z(name, "previtem"))
        return neighbour(run, loop, false);
    if (lr_str_eq_z(name, "nextitem"))
        return neighbour(run, loop, true);
    if (lr_str_eq_z(name, "depth"))
        return value_int(loop->depth0 + 1);
    if (lr_str_eq_z(name, "depth0"))
        return value_int(loop->depth0);
    bool revindex = lr_str_eq_z(name, "revindex");
    if (revindex || lr_str_eq_z(name, "revindex0") || lr_str_eq_z(name, "length")) {
        if (!jinja_loop_length(run, loop, &length))
            return V_FAIL;
        if (lr_str_eq_z(name, "length"))
            return value_int((int64_t)length);
        return value_int((int64_t)length - loop->index0 - (revindex ? 0 : 1));
    }
    return V_MISSING;
}

void jinja_write_macro_name(struct run *run, const struct macro *macro)
{
    const struct macro_info *info = macro->node->macro;
    if (info->name == NULL)
        jinja_write_z(run, "anonymous", true);
    else
        (void)jinja_write_repr(run, value_text(info->name));
}
