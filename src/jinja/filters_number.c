/* jinja/filters_number.c - numbers, and text read as numbers. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja/builtins.h"
#include "jinja/unicode.h"

BUILTIN(filter_abs)
{
    (void)args;
    if (v.kind == K_UNDEFINED)
        return jinja_error_undefined(run, v);
    if (v.kind == K_FLOAT)
        return tainted(value_float(fabs(v.real)), v.untrusted);
    if (!is_integral(v))
        return jinja_error(run, "bad operand type for abs(): '%s'", jinja_type_name(v));
    return integer_of(v) < 0 ? jinja_negate(run, v, true)
                             : tainted(value_int(integer_of(v)), v.untrusted);
}

/* Copies the number without surrounding white space and without single underscores between
 * digits; false when it cannot be a number. */
static bool clean_number(struct lr_str s, char out[128])
{
    size_t from = jinja_lstrip_len(s), to = jinja_rstrip_len(s), n = 0;
    if (from >= to || to - from >= 100)
        return false;
    for (size_t i = from; i < to; i++) {
        char c = s.ptr[i];
        if (c == '_') {
            bool between = i > from && i + 1 < to && s.ptr[i - 1] != '_' && s.ptr[i + 1] != '_';
            if (!between)
                return false;
            continue;
        }
        out[n++] = c;
    }
    out[n] = '\0';
    return true;
}

static bool parse_int(struct lr_str s, int64_t base, int64_t *out)
{
    char text[128], *end;
    if (!clean_number(s, text))
        return false;
    char *digits = text + (text[0] == '-' || text[0] == '+');
    char prefix = digits[0] == '0' ? (char)(digits[1] | 0x20) : '\0';
    int64_t implied = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 0;
    if (implied != 0 && (base == implied || base == 0)) {
        memmove(digits, digits + 2, strlen(digits + 2) + 1);
        base = implied;
    } else if (base == 0) {
        base = 10;
    }
    /* strtoll would accept blanks and another sign */
    if (digits[0] == '\0' || digits[0] == '-' || digits[0] == '+' || digits[0] == ' ' ||
        (base == 16 && (digits[1] | 0x20) == 'x'))
        return false;
    errno = 0;
    long long value = strtoll(text, &end, (int)base);
    *out = value;
    return *end == '\0' && errno == 0;
}

static bool parse_float(struct lr_str s, double *out)
{
    char text[128], *end;
    if (!clean_number(s, text))
        return false;
    const char *digits = text + (text[0] == '-' || text[0] == '+');
    for (const char *p = digits; *p != '\0'; p++)
        if (*p == 'x' || *p == 'X' || *p == '(')
            return false; /* C accepts hexadecimal and nan(...), Python does not */
    if (digits[0] == '\0' || digits[0] == ' ' || digits[0] == '-' || digits[0] == '+')
        return false;
    *out = strtod(text, &end);
    return *end == '\0';
}

static bool float_of(struct value v, double *out)
{
    if (v.kind == K_TEXT)
        return parse_float(text_str(v.text), out);
    if (v.kind == K_BIG) {
        *out = 0;
        return parse_float(text_str(v.text), out);
    }
    if (!is_number(v))
        return false;
    *out = real_of(v);
    return true;
}

/* Integers over 64 bits keep their digits and can only be printed. */
static bool int_of(struct run *run, struct value v, int64_t base, struct value *out)
{
    int64_t i;
    double d;
    if (v.kind == K_TEXT && parse_int(text_str(v.text), base, &i)) {
        *out = value_int(i);
        return true;
    }
    if (is_integral(v) || v.kind == K_BIG) {
        *out = v.kind == K_BIG ? v : value_int(integer_of(v));
        return true;
    }
    if (!float_of(v, &d) || isnan(d) || isinf(d))
        return false;
    if (fabs(d) < 9.2e18) {
        *out = value_int((int64_t)d);
        return true;
    }
    char digits[320];
    int len = snprintf(digits, sizeof(digits), "%.0f", d);
    *out = value_text(jinja_text_copy(run, lr_str(digits, (size_t)len), !v.untrusted));
    out->kind = is_fail(*out) ? K_FAIL : K_BIG;
    return true;
}

BUILTIN(filter_int)
{
    int64_t base;
    struct value out;
    if (!jinja_arg_int(run, args[1], 10, &base))
        return V_FAIL;
    if (v.kind == K_UNDEFINED)
        return jinja_error_undefined(run, v);
    if (v.kind == K_TEXT && base != 0 && (base < 2 || base > 36))
        base = 10;
    if (int_of(run, v, base, &out))
        return is_fail(out) ? out : tainted(out, v.untrusted);
    return is_given(args[0]) ? args[0] : value_int(0);
}

BUILTIN(filter_float)
{
    double d;
    if (v.kind == K_UNDEFINED)
        return jinja_error_undefined(run, v);
    if (float_of(v, &d))
        return tainted(value_float(d), v.untrusted);
    return is_given(args[0]) ? args[0] : value_float(0);
}

/* Python rounds the decimal expansion half to even, so rounding goes through the text. */
static double round_half_even(double d, int64_t places)
{
    char text[400];
    if (places > 22 || isnan(d) || isinf(d))
        return d;
    if (places >= 0) {
        (void)snprintf(text, sizeof(text), "%.*f", (int)places, d);
        return strtod(text, NULL);
    }
    if (places < -308)
        return copysign(0.0, d);
    double scale = pow(10.0, (double)-places);
    return nearbyint(d / scale) * scale;
}

static struct value round_int(struct run *run, int64_t i, int64_t places)
{
    if (places >= 0)
        return value_int(i);
    if (places < -18)
        return value_int(0);
    int64_t scale = 1;
    for (int64_t p = places; p < 0; p++)
        scale *= 10;
    int64_t rest = ((i % scale) + scale) % scale, low = i - rest;
    bool up = rest * 2 > scale || (rest * 2 == scale && (low / scale) % 2 != 0);
    int64_t out = low;
    if (up && __builtin_add_overflow(low, scale, &out))
        return jinja_error(run, "an integer result does not fit into 64 bits");
    return value_int(out);
}

BUILTIN(filter_round)
{
    int64_t places;
    if (!jinja_arg_int(run, args[0], 0, &places))
        return V_FAIL;
    struct lr_str method = LR_STR_LIT("common");
    if (is_given(args[1]))
        method = args[1].kind == K_TEXT ? text_str(args[1].text) : LR_STR_LIT("");
    bool ceil_it = lr_str_eq_z(method, "ceil"), floor_it = lr_str_eq_z(method, "floor");
    if (!ceil_it && !floor_it && !lr_str_eq_z(method, "common"))
        return jinja_error(run, "round: method must be common, ceil or floor");
    if (v.kind == K_UNDEFINED)
        return jinja_error_undefined(run, v);
    if (!is_number(v))
        return jinja_error(run, "type %s doesn't define __round__ method", jinja_type_name(v));
    if (!ceil_it && !floor_it) {
        if (is_integral(v))
            return tainted(round_int(run, integer_of(v), places), v.untrusted);
        return tainted(value_float(round_half_even(v.real, places)), v.untrusted);
    }
    double scale = pow(10.0, (double)places), scaled = real_of(v) * scale;
    return tainted(value_float((ceil_it ? ceil(scaled) : floor(scaled)) / scale), v.untrusted);
}

BUILTIN(filter_filesizeformat)
{
    static const char *const decimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
    static const char *const binary[] = {"KiB", "MiB", "GiB", "TiB",
                                         "PiB", "EiB", "ZiB", "YiB"};
    double bytes;
    if (!float_of(v, &bytes))
        return jinja_error(run, "filesizeformat: could not convert to a number");
    bool two = jinja_arg_bool(args[0], false);
    double base = two ? 1024 : 1000, unit = base;
    char out[64];
    if (bytes == 1) {
        (void)snprintf(out, sizeof(out), "1 Byte");
    } else if (bytes < base) {
        (void)snprintf(out, sizeof(out), "%lld Bytes", (long long)bytes);
    } else {
        size_t i = 0;
        for (unit = base * base; i < 7 && bytes >= unit; i++)
            unit *= base;
        (void)snprintf(out, sizeof(out), "%.1f %s", base * bytes / unit,
                       two ? binary[i] : decimal[i]);
    }
    return value_text(jinja_text_copy(run, lr_str_z(out), !v.untrusted));
}

const struct builtin_row jinja_filters_number[] = {
    {"abs", {.fn = filter_abs}},
    {"int", {.fn = filter_int, .params = {"default", "base"}}},
    {"float", {.fn = filter_float, .params = {"default"}}},
    {"round", {.fn = filter_round, .params = {"precision", "method"}}},
    {"filesizeformat", {.fn = filter_filesizeformat, .params = {"binary"}}},
    {NULL, {0}},
};
