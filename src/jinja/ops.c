/* jinja/ops.c - arithmetic and comparison with Python's rules.
 *
 * Integers have 64 bits; a result that does not fit is an error.
 */
#include <math.h>

#include "jinja/ast.h"
#include "jinja/builtins.h"
#include "jinja/text_ops.h"

static struct value too_big(struct run *run)
{
    return jinja_error(run, "an integer result does not fit into 64 bits");
}

static const char *symbol(uint8_t kind)
{
    switch (kind) {
    case N_ADD:
        return "+";
    case N_SUB:
        return "-";
    case N_MUL:
        return "*";
    case N_DIV:
        return "/";
    case N_FLOORDIV:
        return "//";
    case N_MOD:
        return "%";
    default:
        return "** or pow()";
    }
}

static struct value power(struct run *run, int64_t base, int64_t exponent)
{
    if (exponent < 0) {
        if (base == 0)
            return jinja_error(run, "0.0 cannot be raised to a negative power");
        return value_float(pow((double)base, (double)exponent));
    }
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result))
            return too_big(run);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base))
            return too_big(run);
    }
    return value_int(result);
}

static struct value integers(struct run *run, uint8_t kind, int64_t a, int64_t b)
{
    int64_t out = 0;
    bool overflow = false;
    switch (kind) {
    case N_ADD:
        overflow = __builtin_add_overflow(a, b, &out);
        break;
    case N_SUB:
        overflow = __builtin_sub_overflow(a, b, &out);
        break;
    case N_MUL:
        overflow = __builtin_mul_overflow(a, b, &out);
        break;
    case N_POW:
        return power(run, a, b);
    case N_DIV:
        if (b == 0)
            return jinja_error(run, "division by zero");
        return value_float((double)a / (double)b);
    default:
        if (b == 0)
            return jinja_error(run, "integer division or modulo by zero");
        if (a == INT64_MIN && b == -1)
            return kind == N_MOD ? value_int(0) : too_big(run);
        out = kind == N_MOD ? a % b : a / b;
        if (a % b != 0 && (a % b < 0) != (b < 0))
            out += kind == N_MOD ? b : -1;
        break;
    }
    return overflow ? too_big(run) : value_int(out);
}

static struct value reals(struct run *run, uint8_t kind, double a, double b)
{
    double mod;
    switch (kind) {
    case N_ADD:
        return value_float(a + b);
    case N_SUB:
        return value_float(a - b);
    case N_MUL:
        return value_float(a * b);
    case N_POW:
        if (a == 0 && b < 0)
            return jinja_error(run, "0.0 cannot be raised to a negative power");
        if (a < 0 && b != floor(b))
            return jinja_error(run, "a negative number raised to a fraction is complex");
        return value_float(pow(a, b));
    default:
        if (b == 0)
            return jinja_error(run, "float division by zero");
        if (kind == N_DIV)
            return value_float(a / b);
        mod = fmod(a, b);
        if (mod != 0 && (mod < 0) != (b < 0))
            mod += b;
        if (kind == N_MOD)
            return value_float(mod == 0 ? copysign(0.0, b) : mod);
        return value_float(floor((a - mod) / b + 0.5));
    }
}

/* `text * n` and `list * n`; the size is checked before anything is written. */
static struct value repeat(struct run *run, struct value v, int64_t times)
{
    size_t n = times > 0 ? (size_t)times : 0;
    if (v.kind == K_TEXT) {
        if (v.text->len != 0 && n > run->max_memory / v.text->len)
            return jinja_error_memory(run);
        struct mark mark = jinja_mark(run);
        for (size_t i = 0; i < n && v.text->len != 0 && !run->failed; i++) {
            jinja_write_text(run, v.text);
            if (!jinja_charge(run, 1))
                return V_FAIL;
        }
        return value_text(jinja_with_markup(run, jinja_take(run, mark), v.text->markup));
    }
    size_t count = v.list->count;
    if (count != 0 && n > run->max_memory / sizeof(struct value) / count)
        return jinja_error_memory(run);
    struct list *list = jinja_list_new(run, count * n);
    if (list == NULL)
        return V_FAIL;
    for (size_t i = 0; i < n && count != 0; i++) {
        memcpy(list->items + i * count, v.list->items, count * sizeof(struct value));
        if (!jinja_charge(run, 1 + count / 8))
            return V_FAIL;
    }
    list->count = list->store->used = count * n;
    return value_list((enum kind)v.kind, list);
}

/* Text that is added to markup is escaped first, on either side. */
static struct value add_markup(struct run *run, struct value a, struct value b)
{
    struct text *left = jinja_escape(run, a);
    struct text *right = left != NULL ? jinja_escape(run, b) : NULL;
    struct text *sum = right != NULL ? jinja_text_concat(run, left, right) : NULL;
    return value_text(jinja_with_markup(run, sum, true));
}

static bool is_repeatable(struct value v)
{
    return v.kind == K_TEXT || v.kind == K_LIST || v.kind == K_TUPLE;
}

struct value jinja_binary(struct run *run, uint8_t kind, struct value a, struct value b)
{
    bool untrusted = a.untrusted || b.untrusted;
    if (is_integral(a) && is_integral(b))
        return tainted(integers(run, kind, integer_of(a), integer_of(b)), untrusted);
    if (is_number(a) && is_number(b))
        return tainted(reals(run, kind, real_of(a), real_of(b)), untrusted);
    /* '%' formats before the right side is checked, even if that is undefined. */
    if (kind == N_MOD && a.kind == K_TEXT)
        return jinja_percent_format(run, a.text, b);
    if (a.kind == K_UNDEFINED || b.kind == K_UNDEFINED)
        return jinja_error_undefined(run, a.kind == K_UNDEFINED ? a : b);
    if (kind == N_ADD && a.kind == b.kind) {
        if (a.kind == K_TEXT && (a.text->markup || b.text->markup))
            return add_markup(run, a, b);
        if (a.kind == K_TEXT)
            return value_text(jinja_text_concat(run, a.text, b.text));
        if (a.kind == K_LIST || a.kind == K_TUPLE)
            return jinja_list_concat(run, (enum kind)a.kind, a.list, b.list);
    }
    if (kind == N_MUL && is_repeatable(a) && is_integral(b))
        return repeat(run, a, integer_of(b));
    if (kind == N_MUL && is_repeatable(b) && is_integral(a))
        return repeat(run, b, integer_of(a));
    if (kind == N_ADD && a.kind == K_TEXT)
        return jinja_error(run, "can only concatenate str (not \"%s\") to str",
                           jinja_type_name(b));
    if (a.kind == K_BIG || b.kind == K_BIG)
        return too_big(run);
    return jinja_error(run, "unsupported operand type(s) for %s: '%s' and '%s'", symbol(kind),
                       jinja_type_name(a), jinja_type_name(b));
}

struct value jinja_negate(struct run *run, struct value v, bool minus)
{
    if (v.kind == K_UNDEFINED)
        return jinja_error_undefined(run, v);
    if (v.kind == K_FLOAT)
        return tainted(value_float(minus ? -v.real : v.real), v.untrusted);
    if (is_integral(v)) {
        if (minus && integer_of(v) == INT64_MIN)
            return too_big(run);
        return tainted(value_int(minus ? -integer_of(v) : integer_of(v)), v.untrusted);
    }
    return jinja_error(run, "bad operand type for unary %c: '%s'", minus ? '-' : '+',
                       jinja_type_name(v));
}

bool jinja_compare(struct run *run, uint8_t op, struct value a, struct value b, bool *out)
{
    static const char *const names[] = {"==", "!=", "<", "<=", ">", ">="};
    int order = 0;
    switch ((enum compare_op)op) {
    case CMP_EQ:
    case CMP_NE:
        if (!jinja_equal(run, a, b, out))
            return false;
        *out = *out == (op == CMP_EQ);
        return true;
    case CMP_IN:
    case CMP_NOT_IN:
        if (!jinja_contains(run, b, a, out))
            return false;
        *out = *out == (op == CMP_IN);
        return true;
    case CMP_LT:
    case CMP_LE:
    case CMP_GT:
    case CMP_GE:
        break;
    }
    if (!jinja_order(run, names[op], a, b, &order))
        return false;
    if (order == 2)
        *out = false;
    else if (op == CMP_LT)
        *out = order < 0;
    else if (op == CMP_LE)
        *out = order <= 0;
    else if (op == CMP_GT)
        *out = order > 0;
    else
        *out = order >= 0;
    return true;
}
