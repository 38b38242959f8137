/* jinja/format_percent.c - text % values. */
#include <math.h>

#include "base/utf8.h"
#include "jinja/builtins.h"
#include "jinja/format.h"
#include "jinja/text_ops.h"

struct percent {
    struct run *run;
    struct text *format;
    size_t at;
    struct value args;
    size_t next;  /* next value of a tuple */
    bool mapping; /* %(name)s is allowed, unused values are no error */
};

static bool format_percent_bad(struct percent *p, const char *what)
{
    return !is_fail(jinja_error(p->run, "%s", what));
}

static bool next_arg(struct percent *p, struct value *out)
{
    if (p->args.kind == K_TUPLE) {
        if (p->next >= p->args.list->count)
            return format_percent_bad(p, "not enough arguments for format string");
        *out = p->args.list->items[p->next++];
        return true;
    }
    if (p->next++ > 0)
        return format_percent_bad(p, "not enough arguments for format string");
    *out = p->args;
    return true;
}

static char format_percent_peek(const struct percent *p)
{
    return p->at < p->format->len ? p->format->ptr[p->at] : '\0';
}

static bool format_percent_read_number(struct percent *p, int64_t *out)
{
    if (format_percent_peek(p) == '*') {
        struct value v;
        p->at++;
        if (!next_arg(p, &v))
            return false;
        if (!is_integral(v))
            return format_percent_bad(p, "* wants int");
        *out = integer_of(v);
        return true;
    }
    while (format_percent_peek(p) >= '0' && format_percent_peek(p) <= '9' && *out < 100000)
        *out = *out * 10 + (p->format->ptr[p->at++] - '0');
    return true;
}

static bool format_percent_read_key(struct percent *p, struct value *out)
{
    size_t start = ++p->at;
    int depth = 1;
    while (p->at < p->format->len && depth > 0) {
        depth += format_percent_peek(p) == '(' ? 1 : format_percent_peek(p) == ')' ? -1 : 0;
        p->at++;
    }
    if (depth > 0)
        return format_percent_bad(p, "incomplete format key");
    if (!p->mapping || p->args.kind != K_DICT)
        return format_percent_bad(p, "format requires a mapping");
    struct lr_str key = lr_str(p->format->ptr + start, p->at - 1 - start);
    const struct value *found = jinja_dict_find(p->args.dict, key);
    if (found == NULL)
        return format_percent_bad(p, "a key of the format string is not in the mapping");
    *out = *found;
    return true;
}

static bool read_spec(struct percent *p, struct format_spec *spec)
{
    *spec = (struct format_spec){.precision = -1};
    bool left = false;
    for (;; p->at++) {
        char c = format_percent_peek(p);
        if (c == '-')
            left = true;
        else if (c == '+' || (c == ' ' && spec->sign == 0))
            spec->sign = c;
        else if (c == '#')
            spec->alternate = true;
        else if (c == '0')
            spec->zero = true;
        else if (c != ' ')
            break;
    }
    if (!format_percent_read_number(p, &spec->width))
        return false;
    if (spec->width < 0) {
        left = true;
        spec->width = -spec->width;
    }
    if (format_percent_peek(p) == '.') {
        p->at++;
        spec->precision = 0;
        if (!format_percent_read_number(p, &spec->precision))
            return false;
    }
    while (format_percent_peek(p) == 'h' || format_percent_peek(p) == 'l' ||
           format_percent_peek(p) == 'L')
        p->at++;
    spec->align = left ? '<' : '>';
    return true;
}

static bool put_char(struct percent *p, struct format_spec *spec, struct value v)
{
    char utf8[4];
    struct text *t = NULL;
    if (v.kind == K_TEXT && jinja_text_chars(v.text) == 1)
        t = v.text;
    else if (is_integral(v) && integer_of(v) >= 0 && integer_of(v) < 0x110000)
        t = jinja_text_copy(p->run, lr_str(utf8, lr_utf8_encode((uint32_t)integer_of(v), utf8)),
                            !v.untrusted);
    else
        return format_percent_bad(p, "%c requires int or char");
    spec->precision = -1;
    return t != NULL && jinja_format_text(p->run, spec, t);
}

static bool put_integer(struct percent *p, struct format_spec *spec, struct value v, char type)
{
    if (v.kind == K_FLOAT && (type == 'd' || type == 'i' || type == 'u') && !isnan(v.real) &&
        fabs(v.real) < 9.2e18)
        v = tainted(value_int((int64_t)v.real), v.untrusted);
    if (!is_integral(v))
        return !is_fail(jinja_error(p->run, "%%%c format: a real number is required, not %s",
                                    type, jinja_type_name(v)));
    if (spec->zero && spec->align == '>') {
        spec->align = '=';
        spec->fill = LR_STR_LIT("0");
    }
    spec->type = type == 'i' || type == 'u' ? 'd' : type;
    return jinja_format_int(p->run, spec, integer_of(v), !v.untrusted);
}

static bool put_real(struct percent *p, struct format_spec *spec, struct value v, char type)
{
    if (!is_number(v))
        return !is_fail(jinja_error(p->run, "must be real number, not %s", jinja_type_name(v)));
    if (spec->zero && spec->align == '>') {
        spec->align = '=';
        spec->fill = LR_STR_LIT("0");
    }
    spec->type = type;
    return jinja_format_float(p->run, spec, real_of(v), !v.untrusted);
}

static bool put_conversion(struct percent *p)
{
    struct value v = V_MISSING;
    struct format_spec spec;
    p->at++;
    if (format_percent_peek(p) == '(' && !format_percent_read_key(p, &v))
        return false;
    if (!read_spec(p, &spec))
        return false;
    char type = format_percent_peek(p);
    if (p->at >= p->format->len)
        return format_percent_bad(p, "incomplete format");
    p->at++;
    if (type == '%') {
        jinja_write_z(p->run, "%", p->format->trust == TRUSTED);
        return !p->run->failed;
    }
    if (!is_given(v) && !next_arg(p, &v))
        return false;
    switch (type) {
    case 's':
    case 'r':
    case 'a': {
        struct text *t = type != 's'         ? jinja_repr(p->run, v)
                         : p->format->markup ? jinja_escape(p->run, v)
                                             : jinja_str(p->run, v);
        if (t != NULL && type != 's' && p->format->markup)
            t = jinja_escape(p->run, value_text(t));
        return t != NULL && jinja_format_text(p->run, &spec, t);
    }
    case 'c':
        return put_char(p, &spec, v);
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        return put_integer(p, &spec, v, type);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        return put_real(p, &spec, v, type);
    default:
        return format_percent_bad(p, "unsupported format character");
    }
}

struct value jinja_percent_format(struct run *run, struct text *format, struct value args)
{
    struct percent p = {.run = run,
                        .format = format,
                        .args = args,
                        .mapping = args.kind == K_DICT || args.kind == K_LIST ||
                                   args.kind == K_UNDEFINED || args.kind == K_RANGE};
    struct mark mark = jinja_mark(run);
    while (p.at < format->len && !run->failed) {
        struct lr_str rest = lr_str(format->ptr + p.at, format->len - p.at);
        size_t plain = lr_str_find_char(rest, '%');
        if (plain == LR_STR_NONE)
            plain = rest.len;
        jinja_write_part(run, format, p.at, p.at + plain);
        p.at += plain;
        if (p.at < format->len && !put_conversion(&p))
            return V_FAIL;
    }
    size_t count = args.kind == K_TUPLE ? args.list->count : 1;
    if (p.next < count && !p.mapping)
        return jinja_error(run, "not all arguments converted during string formatting");
    return value_text(jinja_with_markup(run, jinja_take(run, mark), format->markup));
}
