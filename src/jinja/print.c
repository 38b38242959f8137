/* jinja/print.c - str() and repr() in Python's format. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "jinja/iter.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

/* The shortest digits that read back as d, in Python's notation: with an exponent below -4 and
 * from 16 on. */
size_t jinja_float_repr(double d, char out[JINJA_FLOAT_CHARS])
{
    if (isnan(d) || isinf(d)) {
        const char *name = isnan(d) ? "nan" : d < 0 ? "-inf" : "inf";
        size_t len = strlen(name);
        memcpy(out, name, len);
        return len;
    }
    char digits[JINJA_FLOAT_CHARS];
    /* Fifteen digits always survive, except for subnormal numbers. */
    for (int precision = fabs(d) < DBL_MIN ? 1 : 15; precision <= 17; precision++) {
        (void)snprintf(digits, sizeof(digits), "%.*e", precision - 1, d);
        if (strtod(digits, NULL) == d)
            break;
    }
    char *e = strchr(digits, 'e');
    int exponent = atoi(e + 1);
    char mantissa[24];
    size_t count = 0;
    const char *p = digits;
    bool negative = *p == '-';
    for (; p < e; p++)
        if (*p >= '0' && *p <= '9')
            mantissa[count++] = *p;
    while (count > 1 && mantissa[count - 1] == '0')
        count--;

    size_t n = 0;
    if (negative)
        out[n++] = '-';
    if (exponent < -4 || exponent >= 16) {
        out[n++] = mantissa[0];
        if (count > 1) {
            out[n++] = '.';
            memcpy(out + n, mantissa + 1, count - 1);
            n += count - 1;
        }
        n += (size_t)snprintf(out + n, JINJA_FLOAT_CHARS - n, "e%c%02d",
                              exponent < 0 ? '-' : '+', abs(exponent));
        return n;
    }
    if (exponent < 0) {
        out[n++] = '0';
        out[n++] = '.';
        for (int i = -1; i > exponent; i--)
            out[n++] = '0';
        memcpy(out + n, mantissa, count);
        return n + count;
    }
    for (size_t i = 0; i <= (size_t)exponent; i++)
        out[n++] = i < count ? mantissa[i] : '0';
    out[n++] = '.';
    if (count <= (size_t)exponent + 1) {
        out[n++] = '0';
    } else {
        memcpy(out + n, mantissa + exponent + 1, count - (size_t)exponent - 1);
        n += count - (size_t)exponent - 1;
    }
    return n;
}

static void write_escaped(struct run *run, uint32_t c, bool trusted)
{
    char escape[12];
    if (c == '\n' || c == '\r' || c == '\t')
        (void)snprintf(escape, sizeof(escape), "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
    else if (c < 0x100)
        (void)snprintf(escape, sizeof(escape), "\\x%02x", c);
    else if (c < 0x10000)
        (void)snprintf(escape, sizeof(escape), "\\u%04x", c);
    else
        (void)snprintf(escape, sizeof(escape), "\\U%08x", c);
    jinja_write_z(run, escape, trusted);
}

static void repr_text(struct run *run, const struct text *t)
{
    bool trusted = t->trust == TRUSTED;
    bool single = memchr(t->ptr, '\'', t->len) != NULL;
    bool twice = memchr(t->ptr, '"', t->len) != NULL;
    char quote = single && !twice ? '"' : '\'';
    jinja_write(run, lr_str(&quote, 1), trusted);
    size_t plain = 0, at = 0;
    while (at < t->len && !run->failed) {
        uint32_t c = 0;
        int len = lr_utf8_decode(t->ptr + at, t->len - at, &c);
        if (len <= 0) {
            len = 1;
            c = (unsigned char)t->ptr[at];
        }
        bool quoted = c == (uint32_t)quote || c == '\\';
        if (quoted || !jinja_is_printable(c)) {
            jinja_write(run, lr_str(t->ptr + plain, at - plain), trusted);
            if (quoted) {
                char pair[2] = {'\\', (char)c};
                jinja_write(run, lr_str(pair, 2), trusted);
            } else {
                write_escaped(run, c, trusted);
            }
            plain = at + (size_t)len;
        }
        at += (size_t)len;
    }
    jinja_write(run, lr_str(t->ptr + plain, t->len - plain), trusted);
    jinja_write(run, lr_str(&quote, 1), trusted);
}

static void repr_items(struct run *run, const struct list *list)
{
    for (size_t i = 0; i < list->count && !run->failed; i++) {
        if (i > 0)
            jinja_write_z(run, ", ", true);
        (void)jinja_write_repr(run, list->items[i]);
    }
}

static void repr_dict(struct run *run, const struct dict *dict)
{
    jinja_write_z(run, "{", true);
    for (size_t i = 0; i < dict->count && !run->failed; i++) {
        if (i > 0)
            jinja_write_z(run, ", ", true);
        (void)jinja_write_repr(run, dict->entries[i].key);
        jinja_write_z(run, ": ", true);
        (void)jinja_write_repr(run, dict->entries[i].value);
    }
    jinja_write_z(run, "}", true);
}

static void repr_view(struct run *run, struct value v)
{
    jinja_write_z(run, jinja_type_name(v), true);
    jinja_write_z(run, "([", true);
    for (size_t i = 0; i < v.dict->count && !run->failed; i++) {
        const struct dict_entry *e = &v.dict->entries[i];
        if (i > 0)
            jinja_write_z(run, ", ", true);
        if (v.view == 'i')
            jinja_write_z(run, "(", true);
        if (v.view != 'v')
            (void)jinja_write_repr(run, e->key);
        if (v.view == 'i')
            jinja_write_z(run, ", ", true);
        if (v.view != 'k')
            (void)jinja_write_repr(run, e->value);
        if (v.view == 'i')
            jinja_write_z(run, ")", true);
    }
    jinja_write_z(run, "])", true);
}

static void repr_range(struct run *run, const struct range *r, bool trusted)
{
    char text[100];
    int len = snprintf(text, sizeof(text), "range(%lld, %lld", (long long)r->start,
                       (long long)r->stop);
    if (r->step != 1)
        len += snprintf(text + len, sizeof(text) - (size_t)len, ", %lld", (long long)r->step);
    jinja_write(run, lr_str(text, (size_t)len), trusted);
    jinja_write_z(run, ")", trusted);
}

/* Where Python prints an address, this prints only the type. */
static void repr_object(struct run *run, struct value v)
{
    jinja_write_z(run, "<", true);
    jinja_write_z(run, jinja_type_name(v), true);
    if (v.kind == K_MACRO) {
        jinja_write_z(run, " ", true);
        jinja_write_macro_name(run, v.macro);
    } else if (v.kind == K_LOOP) {
        size_t length = 0;
        if (!jinja_loop_length(run, v.loop, &length))
            return;
        char text[64];
        (void)snprintf(text, sizeof(text), " %lld/%zu", (long long)v.loop->index0 + 1, length);
        jinja_write_z(run, text, true);
    } else if (v.kind == K_BLOCKS) {
        jinja_write_z(run, " None", true);
    } else if (v.kind == K_NAMESPACE) {
        jinja_write_z(run, " ", true);
        repr_dict(run, v.dict);
    }
    jinja_write_z(run, ">", true);
}

static void repr_container(struct run *run, struct value v)
{
    switch ((enum kind)v.kind) {
    case K_LIST:
        jinja_write_z(run, "[", true);
        repr_items(run, v.list);
        jinja_write_z(run, "]", true);
        break;
    case K_TUPLE:
        jinja_write_z(run, "(", true);
        repr_items(run, v.list);
        jinja_write_z(run, v.list->count == 1 ? ",)" : ")", true);
        break;
    case K_DICT:
        repr_dict(run, v.dict);
        break;
    case K_VIEW:
        repr_view(run, v);
        break;
    case K_RANGE:
        repr_range(run, v.range, !v.untrusted);
        break;
    default:
        repr_object(run, v);
        break;
    }
}

bool jinja_write_repr(struct run *run, struct value v)
{
    char number[JINJA_FLOAT_CHARS];
    bool trusted = !v.untrusted;
    switch ((enum kind)v.kind) {
    case K_FAIL:
        return false;
    case K_MISSING:
    case K_UNDEFINED:
        jinja_write_z(run, "Undefined", true);
        break;
    case K_NONE:
        jinja_write_z(run, "None", trusted);
        break;
    case K_BOOL:
        jinja_write_z(run, v.boolean ? "True" : "False", trusted);
        break;
    case K_INT: {
        int len = snprintf(number, sizeof(number), "%lld", (long long)v.integer);
        jinja_write(run, lr_str(number, (size_t)len), trusted);
        break;
    }
    case K_BIG:
        jinja_write_text(run, v.text);
        break;
    case K_FLOAT:
        jinja_write(run, lr_str(number, jinja_float_repr(v.real, number)), trusted);
        break;
    case K_TEXT:
        if (v.text->markup)
            jinja_write_z(run, "Markup(", trusted);
        repr_text(run, v.text);
        if (v.text->markup)
            jinja_write_z(run, ")", trusted);
        break;
    default:
        if (!jinja_enter(run))
            return false;
        repr_container(run, v);
        jinja_leave(run);
        break;
    }
    return !run->failed;
}

/* A container's text is untrusted as a whole if anything in it is. */
static bool write_container(struct run *run, struct value v)
{
    struct text *t = jinja_repr(run, v);
    if (t == NULL)
        return false;
    jinja_write_text(run, t);
    return !run->failed;
}

bool jinja_write_value(struct run *run, struct value v)
{
    switch ((enum kind)v.kind) {
    case K_TEXT:
        jinja_write_text(run, v.text);
        return !run->failed;
    case K_UNDEFINED:
    case K_MISSING:
        return true;
    case K_LIST:
    case K_TUPLE:
    case K_DICT:
    case K_VIEW:
    case K_NAMESPACE:
        return write_container(run, v);
    default:
        return jinja_write_repr(run, v);
    }
}

struct text *jinja_repr(struct run *run, struct value v)
{
    struct mark mark = jinja_mark(run);
    if (!jinja_write_repr(run, v))
        return NULL;
    return jinja_take_whole(run, mark);
}

struct text *jinja_soft_str(struct run *run, struct value v)
{
    return v.kind == K_TEXT ? v.text : jinja_str(run, v);
}

struct text *jinja_str(struct run *run, struct value v)
{
    if (v.kind == K_TEXT)
        return jinja_with_markup(run, v.text, false);
    struct mark mark = jinja_mark(run);
    if (!jinja_write_value(run, v))
        return NULL;
    return jinja_take(run, mark);
}
