/* jinja/format_brace.c - str.format, with the sandbox's access to attributes. */
#include "jinja/builtins.h"
#include "jinja/format.h"
#include "jinja/text_ops.h"

struct brace {
    struct run *run;
    struct text *format;
    const struct call *call;
    size_t automatic; /* fields without a name so far */
    bool numbered;    /* fields with a number seen */
};

static bool format_brace_bad(struct brace *b, const char *what)
{
    return !is_fail(jinja_error(b->run, "%s", what));
}

static bool is_number_text(struct lr_str s, size_t *out)
{
    uint64_t n;
    if (!lr_str_u64(s, &n) || n > 100000)
        return false;
    *out = (size_t)n;
    return true;
}

static struct value first_value(struct brace *b, struct lr_str name)
{
    size_t index;
    if (name.len == 0) {
        if (b->numbered)
            return jinja_error(b->run, "cannot switch from manual field specification to "
                                       "automatic field numbering");
        index = b->automatic++;
    } else if (is_number_text(name, &index)) {
        if (b->automatic > 0)
            return jinja_error(b->run, "cannot switch from automatic field numbering to "
                                       "manual field specification");
        b->numbered = true;
    } else {
        for (size_t i = 0; i < b->call->keyword_count; i++)
            if (lr_str_eq(text_str(b->call->keyword_names[i]), name))
                return b->call->keyword[i];
        return jinja_error(b->run, "format: no argument named '" LR_STR_FMT "'",
                           LR_STR_ARG(lr_str_sub(name, 0, 80)));
    }
    if (index >= b->call->positional_count)
        return jinja_error(b->run, "format: replacement index %zu out of range", index);
    return b->call->positional[index];
}

/* name, then .attribute and [item] any number of times */
static struct value field_value(struct brace *b, struct lr_str field)
{
    size_t at = 0, index;
    while (at < field.len && field.ptr[at] != '.' && field.ptr[at] != '[')
        at++;
    struct value v = first_value(b, lr_str(field.ptr, at));
    while (!is_fail(v) && at < field.len) {
        bool attribute = field.ptr[at] == '.';
        size_t start = ++at;
        while (at < field.len && (attribute ? field.ptr[at] != '.' && field.ptr[at] != '['
                                            : field.ptr[at] != ']'))
            at++;
        struct lr_str part = lr_str(field.ptr + start, at - start);
        struct text *name = jinja_text_slice(b->run, part, true);
        if (name == NULL || part.len == 0)
            return jinja_error(b->run, "empty attribute in format string");
        if (attribute) {
            v = jinja_getattr(b->run, v, name);
        } else {
            if (at >= field.len)
                return jinja_error(b->run, "missing ']' in format string");
            at++;
            v = jinja_getitem(b->run, v,
                              is_number_text(part, &index) ? value_int((int64_t)index)
                                                           : value_text(name));
        }
    }
    return v;
}

static size_t char_len(struct lr_str s)
{
    size_t n = s.len > 0 ? 1 : 0;
    while (n < s.len && ((unsigned char)s.ptr[n] & 0xC0) == 0x80)
        n++;
    return n;
}

static int64_t format_brace_read_number(struct lr_str *s)
{
    int64_t n = 0;
    while (s->len > 0 && s->ptr[0] >= '0' && s->ptr[0] <= '9' && n < 100000) {
        n = n * 10 + (s->ptr[0] - '0');
        *s = lr_str_sub(*s, 1, s->len);
    }
    return n;
}

static bool skip(struct lr_str *s, char c)
{
    if (s->len == 0 || s->ptr[0] != c)
        return false;
    *s = lr_str_sub(*s, 1, s->len);
    return true;
}

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '^' || c == '=';
}

static bool parse_spec(struct brace *b, struct lr_str s, struct format_spec *out)
{
    *out = (struct format_spec){.precision = -1};
    size_t first = char_len(s);
    if (s.len > first && is_align(s.ptr[first])) {
        out->fill = lr_str(s.ptr, first);
        out->align = s.ptr[first];
        s = lr_str_sub(s, first + 1, s.len);
    } else if (s.len > 0 && is_align(s.ptr[0])) {
        out->align = s.ptr[0];
        s = lr_str_sub(s, 1, s.len);
    }
    if (skip(&s, '+'))
        out->sign = '+';
    else if (skip(&s, ' '))
        out->sign = ' ';
    else
        (void)skip(&s, '-');
    out->alternate = skip(&s, '#');
    out->zero = skip(&s, '0');
    if (out->zero && out->align == 0) {
        out->fill = LR_STR_LIT("0");
        out->align = '=';
    }
    out->width = format_brace_read_number(&s);
    if (skip(&s, ','))
        out->group = ',';
    else if (skip(&s, '_'))
        out->group = '_';
    if (skip(&s, '.')) {
        if (s.len == 0 || s.ptr[0] < '0' || s.ptr[0] > '9')
            return format_brace_bad(b, "format specifier missing precision");
        out->precision = format_brace_read_number(&s);
    }
    if (s.len > 1)
        return format_brace_bad(b, "invalid format specifier");
    out->type = s.len == 1 ? s.ptr[0] : '\0';
    return true;
}

static bool format_brace_put_value(struct brace *b, struct value v, struct lr_str spec_text)
{
    struct format_spec spec;
    if (b->format->markup) {
        v = value_text(jinja_escape(b->run, v));
        if (is_fail(v))
            return false;
    }
    if (spec_text.len == 0)
        return jinja_write_value(b->run, v);
    if (!parse_spec(b, spec_text, &spec))
        return false;
    if (v.kind == K_TEXT) {
        if (spec.align == '=' && !spec.zero)
            return format_brace_bad(b, "'=' alignment not allowed in string format specifier");
        if ((spec.type != 0 && spec.type != 's') || spec.sign != 0 || spec.group != 0)
            return format_brace_bad(b, "unknown format code for a string");
        if (spec.align == '=')
            spec.align = '<';
        return jinja_format_text(b->run, &spec, v.text);
    }
    if (is_integral(v) && (spec.type == 0 || strchr("dxXobn", spec.type) != NULL)) {
        if (spec.precision >= 0)
            return format_brace_bad(b, "precision not allowed in integer format specifier");
        return jinja_format_int(b->run, &spec, integer_of(v), !v.untrusted);
    }
    if (is_number(v) && (spec.type == 0 || strchr("eEfFgGn%", spec.type) != NULL))
        return jinja_format_float(b->run, &spec, real_of(v), !v.untrusted);
    return !is_fail(
        jinja_error(b->run, "unsupported format string for %s", jinja_type_name(v)));
}

static bool format_brace_expand(struct brace *b, struct text *format, int level);

/* A spec may hold fields of its own, one level deep. */
static struct text *expand_spec(struct brace *b, struct text *format, size_t from, size_t to,
                                int level)
{
    struct text *spec = jinja_text_sub(b->run, format, from, to);
    if (spec == NULL || memchr(spec->ptr, '{', spec->len) == NULL)
        return spec;
    if (level > 0) {
        (void)format_brace_bad(b, "max string recursion exceeded");
        return NULL;
    }
    struct mark mark = jinja_mark(b->run);
    return format_brace_expand(b, spec, level + 1) ? jinja_take(b->run, mark) : NULL;
}

/* The field that begins after '{' at *at; leaves *at after its '}'. */
static bool put_field(struct brace *b, struct text *format, size_t *at, int level)
{
    size_t start = *at, end = start, name_end = SIZE_MAX, spec_start = SIZE_MAX;
    int depth = 1;
    for (; end < format->len; end++) {
        char c = format->ptr[end];
        if (c == '{')
            depth++;
        else if (c == '}' && --depth == 0)
            break;
        else if (c == '[' && spec_start == SIZE_MAX)
            while (end < format->len && format->ptr[end] != ']')
                end++;
        else if ((c == ':' || c == '!') && name_end == SIZE_MAX)
            name_end = end;
        if (end < format->len && format->ptr[end] == ':' && spec_start == SIZE_MAX)
            spec_start = end + 1;
    }
    if (depth > 0 || end >= format->len)
        return format_brace_bad(b, "expected '}' before end of string");
    *at = end + 1;
    if (name_end == SIZE_MAX)
        name_end = end;
    struct value v = field_value(b, lr_str(format->ptr + start, name_end - start));
    if (is_fail(v))
        return false;
    if (name_end < end && format->ptr[name_end] == '!') {
        char conversion = name_end + 1 < end ? format->ptr[name_end + 1] : '\0';
        if (conversion != 'r' && conversion != 's' && conversion != 'a')
            return format_brace_bad(b, "unknown conversion specifier");
        v = value_text(conversion == 's' ? jinja_str(b->run, v) : jinja_repr(b->run, v));
        if (is_fail(v))
            return false;
    }
    if (spec_start == SIZE_MAX || spec_start > end)
        spec_start = end;
    struct text *spec = expand_spec(b, format, spec_start, end, level);
    return spec != NULL && format_brace_put_value(b, v, text_str(spec));
}

static bool format_brace_expand(struct brace *b, struct text *format, int level)
{
    size_t at = 0, plain = 0;
    while (at < format->len) {
        char c = format->ptr[at];
        if (c != '{' && c != '}') {
            at++;
            continue;
        }
        bool twice = at + 1 < format->len && format->ptr[at + 1] == c;
        if (!twice && c == '}')
            return format_brace_bad(b, "single '}' encountered in format string");
        jinja_write_part(b->run, format, plain, at + (twice ? 1 : 0));
        at += twice ? 2 : 1;
        if (!twice && (!put_field(b, format, &at, level) || !jinja_charge(b->run, 1)))
            return false;
        plain = at;
    }
    jinja_write_part(b->run, format, plain, format->len);
    return !b->run->failed;
}

struct value jinja_brace_format(struct run *run, struct text *format, const struct call *call)
{
    struct brace b = {.run = run, .format = format, .call = call};
    struct mark mark = jinja_mark(run);
    if (!format_brace_expand(&b, format, 0))
        return V_FAIL;
    return value_text(jinja_with_markup(run, jinja_take(run, mark), format->markup));
}
