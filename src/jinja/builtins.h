/* jinja/builtins.h - the tables of filters, tests, methods and global functions.
 *
 * Arguments are bound to the parameter names of the row; K_MISSING where not given.
 */
#ifndef JINJA_BUILTINS_H
#define JINJA_BUILTINS_H

#include "jinja/run.h"

enum { JINJA_MAX_PARAMS = 6 };

/* The arguments of one call, evaluated. */
struct call {
    const struct value *positional;
    size_t positional_count;
    struct text *const *keyword_names;
    const struct value *keyword;
    size_t keyword_count;
};

/* `subject` is the filtered value, the tested value, or the object of a method. */
typedef struct value (*builtin_fn)(struct run *run, struct value subject,
                                   const struct value *args);
/* For functions that take any arguments. */
typedef struct value (*variadic_fn)(struct run *run, struct value subject,
                                    const struct call *call);

struct signature {
    builtin_fn fn;
    variadic_fn variadic; /* instead of fn */
    uint8_t required;
    bool positional_only;
    const char *params[JINJA_MAX_PARAMS];
};

/* A filter, test, method or global function. */
struct builtin_row {
    const char *name;
    struct signature sig;
};

/* Defines a filter or a test of `v`, or a method of `self`; the second form is for those that
 * are one expression. */
#define BUILTIN(name)                                                                          \
    static struct value name(struct run *run, struct value v, const struct value *args)
#define METHOD(name)                                                                           \
    static struct value name(struct run *run, struct value self, const struct value *args)
#define BUILTIN_IS(name, ...)                                                                  \
    BUILTIN(name)                                                                              \
    {                                                                                          \
        (void)run;                                                                             \
        (void)v;                                                                               \
        (void)args;                                                                            \
        return __VA_ARGS__;                                                                    \
    }
#define METHOD_IS(name, ...)                                                                   \
    METHOD(name)                                                                               \
    {                                                                                          \
        (void)run;                                                                             \
        (void)self;                                                                            \
        (void)args;                                                                            \
        return __VA_ARGS__;                                                                    \
    }

const struct builtin_row *jinja_find_filter(struct lr_str name);
const struct builtin_row *jinja_find_test(struct lr_str name);
const struct builtin_row *jinja_find_function(struct lr_str name);
const struct builtin_row *jinja_find_method(struct value object, struct lr_str name);

/* Each file of filters ends its table with a row without a name. */
extern const struct builtin_row jinja_filters_text[], jinja_filters_list[],
    jinja_filters_number[], jinja_filters_lazy[], jinja_filters_order[], jinja_filters_wrap[];
extern const struct builtin_row jinja_methods_text[], jinja_methods_text_test[],
    jinja_methods_text_split[], jinja_methods_list[], jinja_methods_dict[];

/* Binds the arguments and calls the function. */
struct value jinja_invoke(struct run *run, const char *name, const struct signature *sig,
                          struct value subject, const struct call *call);
/* Calls a filter or test by its name, as map('upper') and select('odd') do. */
struct value jinja_call_filter(struct run *run, struct value name, struct value subject,
                               const struct call *call);
struct value jinja_call_test(struct run *run, struct value name, struct value subject,
                             const struct call *call);

/* ---- helpers for argument checking ---- */
bool jinja_arg_text(struct run *run, struct value v, const char *what, struct text **out);
bool jinja_arg_int(struct run *run, struct value v, int64_t fallback, int64_t *out);
static inline bool jinja_arg_bool(struct value v, bool fallback)
{
    return is_given(v) ? jinja_truth(v) : fallback;
}

/* ---- access.c ---- */
struct value jinja_getattr(struct run *run, struct value object, struct text *name);
struct value jinja_getitem(struct run *run, struct value object, struct value key);
/* True when `d.name` of a dict always means d['name']. */
bool jinja_is_plain_key(struct lr_str name);
struct value jinja_slice(struct run *run, struct value object, struct value start,
                         struct value stop, struct value step);
struct value jinja_undefined_attr(struct run *run, struct value object, struct value name);
struct value jinja_undefined_hint(struct run *run, const char *hint);
/* "a.b.0" as make_attrgetter reads it; attribute may be none: the item itself. */
struct value jinja_get_path(struct run *run, struct value item, struct value attribute,
                            struct value fallback);

/* ---- ops.c ---- */
struct value jinja_binary(struct run *run, uint8_t node_kind, struct value a, struct value b);
struct value jinja_negate(struct run *run, struct value v, bool minus);
bool jinja_compare(struct run *run, uint8_t op, struct value a, struct value b, bool *out);

/* ---- format.c, tojson.c, strftime.c ---- */
struct value jinja_percent_format(struct run *run, struct text *format, struct value args);
struct value jinja_brace_format(struct run *run, struct text *format, const struct call *call);
struct value jinja_tojson(struct run *run, struct value v, const struct value *args);
struct value jinja_strftime(struct run *run, struct text *format);

/* ---- text_case.c ---- */
struct value jinja_change_case(struct run *run, struct text *t, uint8_t kind);
struct value jinja_fold_value(struct run *run, struct value v); /* lower case when a text */

/* ---- call.c ---- */
struct value jinja_call_value(struct run *run, struct value callee, const struct call *call);

#endif
