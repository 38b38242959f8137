/* jinja/tests.c - the tests, which follow `is`. */
#include "jinja/ast.h"
#include "jinja/builtins.h"
#include "jinja/iter.h"
#include "jinja/unicode.h"

static struct value remainder_is(struct run *run, struct value v, struct value by,
                                 int64_t wanted)
{
    struct value rest = jinja_binary(run, N_MOD, v, by);
    bool same = false;
    if (is_fail(rest) || !jinja_equal(run, rest, value_int(wanted), &same))
        return V_FAIL;
    return value_bool(same);
}

BUILTIN_IS(test_odd, remainder_is(run, v, value_int(2), 1))
BUILTIN_IS(test_even, remainder_is(run, v, value_int(2), 0))
BUILTIN_IS(test_divisibleby, remainder_is(run, v, args[0], 0))
BUILTIN_IS(test_defined, value_bool(v.kind != K_UNDEFINED))
BUILTIN_IS(test_undefined, value_bool(v.kind == K_UNDEFINED))
BUILTIN_IS(test_filter,
           value_bool(v.kind == K_TEXT && jinja_find_filter(text_str(v.text)) != NULL))
BUILTIN_IS(test_test, value_bool(v.kind == K_TEXT && jinja_find_test(text_str(v.text)) != NULL))
BUILTIN_IS(test_none, value_bool(v.kind == K_NONE))
BUILTIN_IS(test_boolean, value_bool(v.kind == K_BOOL))
BUILTIN_IS(test_false, value_bool(v.kind == K_BOOL && !v.boolean))
BUILTIN_IS(test_true, value_bool(v.kind == K_BOOL && v.boolean))
BUILTIN_IS(test_integer, value_bool(v.kind == K_INT || v.kind == K_BIG))
BUILTIN_IS(test_float, value_bool(v.kind == K_FLOAT))
BUILTIN_IS(test_string, value_bool(v.kind == K_TEXT))
BUILTIN_IS(test_mapping, value_bool(v.kind == K_DICT))
BUILTIN_IS(test_number, value_bool(is_number(v) || v.kind == K_BIG))

BUILTIN(test_sequence)
{
    (void)run;
    (void)args;
    switch ((enum kind)v.kind) {
    case K_TEXT:
    case K_LIST:
    case K_TUPLE:
    case K_DICT:
    case K_RANGE:
    case K_UNDEFINED:
        return value_bool(true);
    default:
        return value_bool(false);
    }
}

BUILTIN_IS(test_iterable, value_bool(jinja_can_iterate(v)))

BUILTIN(test_callable)
{
    (void)run;
    (void)args;
    switch ((enum kind)v.kind) {
    case K_MACRO:
    case K_FUNCTION:
    case K_METHOD:
    case K_LOOP:
    case K_JOINER:
    case K_UNDEFINED: /* Undefined has __call__, which raises */
        return value_bool(true);
    default:
        return value_bool(false);
    }
}

/* Identity.  Python shares small numbers and texts of one character.  Here two values without
 * an address are the same if they are equal and of the same kind. */
BUILTIN(test_sameas)
{
    bool same = v.kind == args[0].kind;
    if (same && v.kind >= K_LIST)
        same = v.list == args[0].list;
    else if (same && !jinja_equal(run, v, args[0], &same))
        return V_FAIL;
    return value_bool(same);
}

BUILTIN_IS(test_escaped, value_bool(v.kind == K_TEXT && v.text->markup))

BUILTIN(test_in)
{
    bool found = false;
    return jinja_contains(run, args[0], v, &found) ? value_bool(found) : V_FAIL;
}

static struct value cased(struct run *run, struct value v, const char *method)
{
    struct text *t = jinja_str(run, v);
    struct call none = {0};
    if (t == NULL)
        return V_FAIL;
    const struct builtin_row *row = jinja_find_method(value_text(t), lr_str_z(method));
    return jinja_invoke(run, row->name, &row->sig, value_text(t), &none);
}

BUILTIN_IS(test_lower, cased(run, v, "islower"))
BUILTIN_IS(test_upper, cased(run, v, "isupper"))

static struct value tests_compare(struct run *run, enum compare_op op, struct value a,
                                  struct value b)
{
    bool result = false;
    return jinja_compare(run, (uint8_t)op, a, b, &result) ? value_bool(result) : V_FAIL;
}

BUILTIN_IS(test_eq, tests_compare(run, CMP_EQ, v, args[0]))
BUILTIN_IS(test_ne, tests_compare(run, CMP_NE, v, args[0]))
BUILTIN_IS(test_lt, tests_compare(run, CMP_LT, v, args[0]))
BUILTIN_IS(test_le, tests_compare(run, CMP_LE, v, args[0]))
BUILTIN_IS(test_gt, tests_compare(run, CMP_GT, v, args[0]))
BUILTIN_IS(test_ge, tests_compare(run, CMP_GE, v, args[0]))

#define ONE(fn_)                                                                               \
    {                                                                                          \
        .fn = fn_, .required = 1, .params = { "other" }                                        \
    }
#define OPERATOR(fn_)                                                                          \
    {                                                                                          \
        .fn = fn_, .required = 1, .positional_only = true, .params = { "b" }                   \
    }
#define NAMED(fn_, name_)                                                                      \
    {                                                                                          \
        .fn = fn_, .required = 1, .params = { name_ }                                          \
    }

static const struct builtin_row tests[] = {
    {"defined", {.fn = test_defined}},
    {"undefined", {.fn = test_undefined}},
    {"none", {.fn = test_none}},
    {"string", {.fn = test_string}},
    {"mapping", {.fn = test_mapping}},
    {"iterable", {.fn = test_iterable}},
    {"sequence", {.fn = test_sequence}},
    {"boolean", {.fn = test_boolean}},
    {"true", {.fn = test_true}},
    {"false", {.fn = test_false}},
    {"integer", {.fn = test_integer}},
    {"float", {.fn = test_float}},
    {"number", {.fn = test_number}},
    {"odd", {.fn = test_odd}},
    {"even", {.fn = test_even}},
    {"divisibleby", NAMED(test_divisibleby, "num")},
    {"filter", {.fn = test_filter}},
    {"test", {.fn = test_test}},
    {"lower", {.fn = test_lower}},
    {"upper", {.fn = test_upper}},
    {"callable", {.fn = test_callable}},
    {"sameas", ONE(test_sameas)},
    {"escaped", {.fn = test_escaped}},
    {"in", NAMED(test_in, "seq")},
    {"==", OPERATOR(test_eq)},
    {"eq", OPERATOR(test_eq)},
    {"equalto", OPERATOR(test_eq)},
    {"!=", OPERATOR(test_ne)},
    {"ne", OPERATOR(test_ne)},
    {">", OPERATOR(test_gt)},
    {"gt", OPERATOR(test_gt)},
    {"greaterthan", OPERATOR(test_gt)},
    {">=", OPERATOR(test_ge)},
    {"ge", OPERATOR(test_ge)},
    {"<", OPERATOR(test_lt)},
    {"lt", OPERATOR(test_lt)},
    {"lessthan", OPERATOR(test_lt)},
    {"<=", OPERATOR(test_le)},
    {"le", OPERATOR(test_le)},
};

const struct builtin_row *jinja_find_test(struct lr_str name)
{
    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (lr_str_eq_z(name, tests[i].name))
            return &tests[i];
    return NULL;
}
