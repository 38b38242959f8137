/* jinja/functions.c - the global functions, and the lookup of all built-ins. */
#include "jinja/ast.h"
#include "jinja/builtins.h"
#include "jinja/iter.h"

enum { MAX_RANGE = 100000 }; /* the limit of Jinja2's sandbox */

static struct value fn_range(struct run *run, struct value self, const struct value *args)
{
    (void)self;
    int64_t n[3] = {0, 0, 1};
    size_t given = 0;
    bool untrusted = false;
    for (size_t i = 0; i < 3 && is_given(args[i]); i++) {
        if (args[i].kind == K_UNDEFINED || !is_integral(args[i]))
            return jinja_error(run, "'%s' object cannot be interpreted as an integer",
                               jinja_type_name(args[i]));
        n[i] = integer_of(args[i]);
        untrusted = untrusted || args[i].untrusted;
        given++;
    }
    if (given == 1) {
        n[1] = n[0];
        n[0] = 0;
    }
    if (n[2] == 0)
        return jinja_error(run, "range() arg 3 must not be zero");
    /* Unsigned: the distance of any two int64_t fits. */
    bool up = n[2] > 0;
    uint64_t length = 0;
    if (up ? n[0] < n[1] : n[0] > n[1]) {
        uint64_t distance =
            up ? (uint64_t)n[1] - (uint64_t)n[0] : (uint64_t)n[0] - (uint64_t)n[1];
        uint64_t step = up ? (uint64_t)n[2] : -(uint64_t)n[2];
        length = (distance - 1) / step + 1;
    }
    if (length > MAX_RANGE)
        return jinja_error(run, "range too big: the sandbox blocks ranges of more than %d",
                           MAX_RANGE);
    struct range *r = jinja_alloc(run, sizeof(*r));
    if (r == NULL)
        return V_FAIL;
    *r = (struct range){.start = n[0], .stop = n[1], .step = n[2], .count = (int64_t)length};
    return (struct value){.kind = K_RANGE, .untrusted = untrusted, .range = r};
}

static bool fill_from_pairs(struct run *run, struct dict *dict, struct value pairs)
{
    struct iterator it, pair;
    if (!jinja_iterate(run, pairs, &it))
        return false;
    for (;;) {
        struct value item = jinja_next(run, &it);
        if (is_fail(item) || !is_given(item))
            return !is_fail(item);
        if (!jinja_iterate(run, item, &pair))
            return false;
        struct value key = jinja_next(run, &pair);
        struct value value = is_fail(key) ? key : jinja_next(run, &pair);
        struct value more = is_fail(value) ? value : jinja_next(run, &pair);
        if (!is_fail(more) && (!is_given(value) || is_given(more)))
            more = jinja_error(run, "dictionary update sequence needs elements of length 2");
        if (is_fail(more) || !jinja_charge(run, 1) || !jinja_dict_set(run, dict, key, value))
            return false;
    }
}

static struct dict *make_dict(struct run *run, const struct call *call)
{
    struct dict *dict = jinja_dict_new(run, call->keyword_count);
    if (dict == NULL)
        return NULL;
    if (call->positional_count > 1) {
        (void)jinja_error(run, "dict expected at most 1 argument, got %zu",
                          call->positional_count);
        return NULL;
    }
    if (call->positional_count == 1) {
        struct value from = call->positional[0];
        if (from.kind == K_DICT) {
            for (size_t i = 0; i < from.dict->count; i++)
                if (!jinja_dict_set(run, dict, from.dict->entries[i].key,
                                    from.dict->entries[i].value))
                    return NULL;
        } else if (!fill_from_pairs(run, dict, from)) {
            return NULL;
        }
    }
    for (size_t i = 0; i < call->keyword_count; i++)
        if (!jinja_dict_set(run, dict, value_text(call->keyword_names[i]), call->keyword[i]))
            return NULL;
    return dict;
}

static struct value fn_dict(struct run *run, struct value self, const struct call *call)
{
    (void)self;
    return value_dict(make_dict(run, call));
}

static struct value fn_namespace(struct run *run, struct value self, const struct call *call)
{
    (void)self;
    struct value v = value_dict(make_dict(run, call));
    if (!is_fail(v))
        v.kind = K_NAMESPACE;
    return v;
}

static struct value new_cycler(struct run *run, enum kind kind, const struct value *items,
                               size_t count)
{
    struct cycler *c = jinja_alloc(run, sizeof(*c));
    struct value *copy = c != NULL ? jinja_array(run, count, sizeof(*copy)) : NULL;
    if (copy == NULL)
        return V_FAIL;
    memcpy(copy, items, count * sizeof(*copy));
    *c = (struct cycler){.items = {.items = copy, .count = count}};
    return (struct value){.kind = (uint8_t)kind, .cycler = c};
}

static struct value fn_cycler(struct run *run, struct value self, const struct call *call)
{
    (void)self;
    if (call->positional_count == 0 || call->keyword_count > 0)
        return jinja_error(run, "cycler: at least one item has to be provided");
    return new_cycler(run, K_CYCLER, call->positional, call->positional_count);
}

static struct value fn_joiner(struct run *run, struct value self, const struct value *args)
{
    (void)self;
    struct value sep = is_given(args[0]) ? args[0] : value_text(jinja_text_z(run, ", "));
    return is_fail(sep) ? sep : new_cycler(run, K_JOINER, &sep, 1);
}

static struct value fn_raise_exception(struct run *run, struct value self,
                                       const struct value *args)
{
    (void)self;
    struct text *message = jinja_str(run, args[0]);
    if (message == NULL)
        return V_FAIL;
    return jinja_error(run, LR_STR_FMT, LR_STR_ARG(lr_str_sub(text_str(message), 0, 380)));
}

static struct value fn_strftime_now(struct run *run, struct value self,
                                    const struct value *args)
{
    (void)self;
    struct text *format;
    if (!jinja_arg_text(run, args[0], "strftime_now() argument", &format))
        return V_FAIL;
    return jinja_strftime(run, format);
}

static struct value fn_lipsum(struct run *run, struct value self, const struct call *call)
{
    (void)self;
    (void)call;
    return jinja_error(run, "lipsum is random and not available in chat templates");
}

static const struct builtin_row functions[] = {
    {"range", {.fn = fn_range, .required = 1, .params = {"start", "stop", "step"}}},
    {"dict", {.variadic = fn_dict}},
    {"namespace", {.variadic = fn_namespace}},
    {"cycler", {.variadic = fn_cycler}},
    {"joiner", {.fn = fn_joiner, .params = {"sep"}}},
    {"raise_exception", {.fn = fn_raise_exception, .required = 1, .params = {"message"}}},
    {"strftime_now", {.fn = fn_strftime_now, .required = 1, .params = {"format"}}},
    {"lipsum", {.variadic = fn_lipsum}},
};

const struct builtin_row *jinja_find_function(struct lr_str name)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
        if (lr_str_eq_z(name, functions[i].name))
            return &functions[i];
    return NULL;
}

/* ---- lookup ---- */

const struct builtin_row *jinja_find_filter(struct lr_str name)
{
    static const struct builtin_row *const tables[] = {
        jinja_filters_text, jinja_filters_list,  jinja_filters_number,
        jinja_filters_lazy, jinja_filters_order, jinja_filters_wrap};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
        for (const struct builtin_row *row = tables[i]; row->name != NULL; row++)
            if (lr_str_eq_z(name, row->name))
                return row;
    return NULL;
}

static const struct builtin_row *find_row(const struct builtin_row *table, struct lr_str name)
{
    for (; table->name != NULL; table++)
        if (lr_str_eq_z(name, table->name))
            return table;
    return NULL;
}

static struct value cycler_next(struct run *run, struct value self, const struct value *args)
{
    (void)run;
    (void)args;
    struct cycler *c = self.cycler;
    struct value v = c->items.items[c->at];
    c->at = (c->at + 1) % c->items.count;
    return v;
}

static struct value cycler_reset(struct run *run, struct value self, const struct value *args)
{
    (void)run;
    (void)args;
    self.cycler->at = 0;
    return V_NONE;
}

static struct value loop_cycle(struct run *run, struct value self, const struct call *call)
{
    if (call->positional_count == 0 || call->keyword_count > 0)
        return jinja_error(run, "no items for cycling given");
    return call->positional[(size_t)self.loop->index0 % call->positional_count];
}

static struct value loop_changed(struct run *run, struct value self, const struct call *call)
{
    struct list *list = jinja_list_new(run, call->positional_count);
    for (size_t i = 0; list != NULL && i < call->positional_count; i++)
        if (!jinja_list_push(run, list, call->positional[i]))
            return V_FAIL;
    struct value now = value_list(K_TUPLE, list);
    bool same = false;
    if (is_fail(now) ||
        (is_given(self.loop->changed) && !jinja_equal(run, self.loop->changed, now, &same)))
        return V_FAIL;
    if (!same)
        self.loop->changed = now;
    return value_bool(!same);
}

static struct value int_bit_length(struct run *run, struct value self, const struct value *args)
{
    (void)run;
    (void)args;
    int64_t i = integer_of(self);
    uint64_t u = i < 0 ? -(uint64_t)i : (uint64_t)i;
    return value_int(u == 0 ? 0 : 64 - __builtin_clzll(u));
}

static struct value float_is_integer(struct run *run, struct value self,
                                     const struct value *args)
{
    (void)run;
    (void)args;
    return value_bool(self.real == (double)(int64_t)self.real);
}

static const struct builtin_row of_cycler[] = {
    {"next", {.fn = cycler_next}}, {"reset", {.fn = cycler_reset}}, {NULL, {0}}};
static const struct builtin_row of_loop[] = {
    {"cycle", {.variadic = loop_cycle}}, {"changed", {.variadic = loop_changed}}, {NULL, {0}}};
static const struct builtin_row of_int[] = {{"bit_length", {.fn = int_bit_length}},
                                            {NULL, {0}}};
static const struct builtin_row of_float[] = {{"is_integer", {.fn = float_is_integer}},
                                              {NULL, {0}}};

const struct builtin_row *jinja_find_method(struct value object, struct lr_str name)
{
    const struct builtin_row *row;
    switch ((enum kind)object.kind) {
    case K_TEXT:
        row = find_row(jinja_methods_text, name);
        if (row == NULL)
            row = find_row(jinja_methods_text_split, name);
        return row != NULL ? row : find_row(jinja_methods_text_test, name);
    case K_LIST:
    case K_TUPLE:
    case K_RANGE:
        row = find_row(jinja_methods_list, name);
        if (object.kind != K_LIST && (lr_str_eq_z(name, "copy") || lr_str_eq_z(name, "append")))
            return NULL;
        return row;
    case K_DICT:
        return find_row(jinja_methods_dict, name);
    case K_CYCLER:
        return find_row(of_cycler, name);
    case K_LOOP:
        return find_row(of_loop, name);
    case K_INT:
    case K_BOOL:
        return find_row(of_int, name);
    case K_FLOAT:
        return find_row(of_float, name);
    default:
        return NULL;
    }
}

/* ---- by name ---- */

struct value jinja_call_filter(struct run *run, struct value name, struct value subject,
                               const struct call *call)
{
    struct text *text;
    if (!jinja_arg_text(run, name, "the name of a filter", &text))
        return V_FAIL;
    const struct builtin_row *row = jinja_find_filter(text_str(text));
    if (row == NULL)
        return jinja_error(run, "no filter named '" LR_STR_FMT "'",
                           LR_STR_ARG(lr_str_sub(text_str(text), 0, 80)));
    return jinja_invoke(run, row->name, &row->sig, subject, call);
}

struct value jinja_call_test(struct run *run, struct value name, struct value subject,
                             const struct call *call)
{
    struct text *text;
    if (!jinja_arg_text(run, name, "the name of a test", &text))
        return V_FAIL;
    const struct builtin_row *row = jinja_find_test(text_str(text));
    if (row == NULL)
        return jinja_error(run, "no test named '" LR_STR_FMT "'",
                           LR_STR_ARG(lr_str_sub(text_str(text), 0, 80)));
    return jinja_invoke(run, row->name, &row->sig, subject, call);
}

bool jinja_arg_text(struct run *run, struct value v, const char *what, struct text **out)
{
    if (v.kind != K_TEXT) {
        (void)jinja_error(run, "%s must be str, not %s", what, jinja_type_name(v));
        return false;
    }
    *out = v.text;
    return true;
}

bool jinja_arg_int(struct run *run, struct value v, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (!is_given(v))
        return true;
    if (!is_integral(v)) {
        (void)jinja_error(run, "'%s' object cannot be interpreted as an integer",
                          jinja_type_name(v));
        return false;
    }
    *out = integer_of(v);
    return true;
}
