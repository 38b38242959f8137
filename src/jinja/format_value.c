/* jinja/format_value.c - formatting one value. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "jinja/format.h"

enum { MAX_WIDTH = 1000, MAX_DIGITS = 700 };

static void format_value_fill(struct run *run, const struct format_spec *spec, int64_t times,
                              bool trusted)
{
    struct lr_str c = spec->fill.len > 0 ? spec->fill : LR_STR_LIT(" ");
    for (int64_t i = 0; i < times && !run->failed; i++)
        jinja_write(run, c, trusted);
}

static bool format_value_check(struct run *run, const struct format_spec *spec)
{
    if (spec->width > MAX_WIDTH || spec->precision > 300)
        return !is_fail(jinja_error(run, "a format wider than %d characters", MAX_WIDTH));
    return true;
}

/* Writes sign, prefix and digits; `=` pads between prefix and digits. */
static bool format_value_put_number(struct run *run, const struct format_spec *spec,
                                    const char *head, const char *digits, bool trusted)
{
    int64_t len = (int64_t)(strlen(head) + strlen(digits));
    int64_t missing = spec->width > len ? spec->width - len : 0;
    char align = spec->align != 0 ? spec->align : '>';
    int64_t left = align == '>' ? missing : align == '^' ? missing / 2 : 0;
    format_value_fill(run, spec, left, trusted);
    jinja_write_z(run, head, trusted);
    if (align == '=')
        format_value_fill(run, spec, missing, trusted);
    jinja_write_z(run, digits, trusted);
    if (align == '<' || align == '^')
        format_value_fill(run, spec, missing - left, trusted);
    return !run->failed;
}

/* 1234567 to 1,234,567; only digits before a point or exponent */
static void group_digits(char *digits, size_t room, char separator, size_t every)
{
    size_t whole = 0, len = strlen(digits);
    while (isxdigit((unsigned char)digits[whole]))
        whole++;
    for (size_t at = whole; at > every && len + 1 < room;) {
        at -= every;
        memmove(digits + at + 1, digits + at, len - at + 1);
        digits[at] = separator;
        len++;
    }
}

static size_t print_digits(char *out, size_t room, uint64_t u, char type)
{
    if (type == 'x')
        return (size_t)snprintf(out, room, "%llx", (unsigned long long)u);
    if (type == 'X')
        return (size_t)snprintf(out, room, "%llX", (unsigned long long)u);
    if (type == 'o')
        return (size_t)snprintf(out, room, "%llo", (unsigned long long)u);
    if (type != 'b')
        return (size_t)snprintf(out, room, "%llu", (unsigned long long)u);
    size_t n = 0;
    for (int bit = 63; bit >= 0; bit--)
        if (n > 0 || (u >> bit & 1) != 0 || bit == 0)
            out[n++] = (char)('0' + (u >> bit & 1));
    out[n] = '\0';
    return n;
}

bool jinja_format_int(struct run *run, const struct format_spec *spec, int64_t i, bool trusted)
{
    char digits[MAX_DIGITS], head[8];
    if (!format_value_check(run, spec))
        return false;
    uint64_t u = i < 0 ? -(uint64_t)i : (uint64_t)i;
    size_t len = print_digits(digits, sizeof(digits), u, spec->type);
    /* The precision of %d is the minimum number of digits. */
    if (spec->precision > (int64_t)len) {
        size_t zeros = (size_t)spec->precision - len;
        memmove(digits + zeros, digits, len + 1);
        memset(digits, '0', zeros);
    }
    if (spec->group != 0)
        group_digits(digits, sizeof(digits), spec->group,
                     spec->type == 0 || spec->type == 'd' ? 3 : 4);
    size_t n = 0;
    if (i < 0)
        head[n++] = '-';
    else if (spec->sign != 0)
        head[n++] = spec->sign;
    if (spec->alternate && spec->type != 0 && strchr("xXob", spec->type) != NULL) {
        head[n++] = '0';
        head[n++] = spec->type;
    }
    head[n] = '\0';
    return format_value_put_number(run, spec, head, digits, trusted);
}

/* Without a type: repr, or 'g' digits that always keep the point. */
static void general_digits(char *out, size_t room, double d, int64_t precision)
{
    if (precision < 0) {
        out[jinja_float_repr(d, out)] = '\0';
        return;
    }
    int p = precision == 0 ? 1 : (int)precision;
    (void)snprintf(out, room, "%.*g", p, d);
    if (strpbrk(out, ".en") == NULL) {
        int exponent = d != 0 ? (int)floor(log10(d)) : 0;
        if (exponent < p - 1 || d == 0)
            (void)snprintf(out + strlen(out), room - strlen(out), ".0");
        else
            (void)snprintf(out, room, "%.*e", p - 1, d);
    }
}

bool jinja_format_float(struct run *run, const struct format_spec *spec, double d, bool trusted)
{
    char digits[MAX_DIGITS], c_format[8], head[2] = {0};
    if (!format_value_check(run, spec))
        return false;
    double magnitude = fabs(d);
    char type = spec->type;
    int precision = spec->precision >= 0 ? (int)spec->precision : 6;
    if (signbit(d) && !isnan(d))
        head[0] = '-';
    else
        head[0] = spec->sign;
    bool percent = type == '%';
    if (percent) {
        magnitude *= 100;
        type = 'f';
    }
    if (type == 0) {
        general_digits(digits, sizeof(digits), magnitude, spec->precision);
    } else {
        (void)snprintf(c_format, sizeof(c_format), "%%%s.*%c", spec->alternate ? "#" : "",
                       type == 'n' ? 'g' : type);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(digits, sizeof(digits) - 2, c_format, precision, magnitude);
#pragma GCC diagnostic pop
    }
    if (percent)
        strcat(digits, "%");
    if (spec->group != 0 && !isinf(d) && !isnan(d))
        group_digits(digits, sizeof(digits), spec->group, 3);
    return format_value_put_number(run, spec, head, digits, trusted);
}

bool jinja_format_text(struct run *run, const struct format_spec *spec, struct text *t)
{
    if (!format_value_check(run, spec))
        return false;
    size_t chars = jinja_text_chars(t), bytes = t->len;
    if (spec->precision >= 0 && (uint64_t)spec->precision < chars) {
        chars = (size_t)spec->precision;
        bytes = jinja_text_offset(t, chars);
    }
    int64_t missing = spec->width > (int64_t)chars ? spec->width - (int64_t)chars : 0;
    int64_t left = spec->align == '>' ? missing : spec->align == '^' ? missing / 2 : 0;
    format_value_fill(run, spec, left, true);
    jinja_write_part(run, t, 0, bytes);
    format_value_fill(run, spec, missing - left, true);
    return !run->failed;
}
