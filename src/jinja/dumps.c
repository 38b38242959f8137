/* jinja/dumps.c - a JSON tree as Python's json.dumps writes it. */
#include <math.h>
#include <stdlib.h>

#include "jinja/jinja.h"
#include "jinja/text.h"

static void put_string(struct lr_buf *out, struct lr_str s)
{
    size_t plain = 0;
    lr_buf_add_char(out, '"');
    for (size_t i = 0; i < s.len; i++) {
        static const char special[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
        unsigned char c = (unsigned char)s.ptr[i];
        if (c >= 0x20 && c != '"' && c != '\\')
            continue;
        lr_buf_add(out, s.ptr + plain, i - plain);
        const char *known = memchr(special, c, sizeof(special) - 1);
        if (known != NULL)
            lr_buf_addf(out, "\\%c", letters[known - special]);
        else
            lr_buf_addf(out, "\\u%04x", c);
        plain = i + 1;
    }
    lr_buf_add(out, s.ptr + plain, s.len - plain);
    lr_buf_add_char(out, '"');
}

/* Integers keep their digits; the rest is printed as Python prints a float. */
static void put_number(struct lr_buf *out, struct lr_str text)
{
    char digits[64], repr[JINJA_FLOAT_CHARS];
    bool whole = true;
    for (size_t i = 0; i < text.len; i++)
        whole = whole && text.ptr[i] != '.' && text.ptr[i] != 'e' && text.ptr[i] != 'E';
    if (whole || text.len >= sizeof(digits)) {
        lr_buf_add_str(out, lr_str_eq_z(text, "-0") ? LR_STR_LIT("0") : text);
        return;
    }
    memcpy(digits, text.ptr, text.len);
    digits[text.len] = '\0';
    double d = strtod(digits, NULL);
    if (isinf(d))
        lr_buf_add_z(out, d < 0 ? "-Infinity" : "Infinity");
    else
        lr_buf_add(out, repr, jinja_float_repr(d, repr));
}

/* The parser bounds the depth of a tree, so this recursion is bounded too. */
void jinja_dumps(struct lr_buf *out, const struct lr_json *v)
{
    switch (v->type) {
    case LR_JSON_NULL:
        lr_buf_add_z(out, "null");
        break;
    case LR_JSON_BOOL:
        lr_buf_add_z(out, v->boolean ? "true" : "false");
        break;
    case LR_JSON_NUMBER:
        put_number(out, v->text);
        break;
    case LR_JSON_STRING:
        put_string(out, v->text);
        break;
    case LR_JSON_ARRAY:
        lr_buf_add_char(out, '[');
        for (uint32_t i = 0; i < v->count; i++) {
            if (i > 0)
                lr_buf_add_z(out, ", ");
            jinja_dumps(out, &v->items[i]);
        }
        lr_buf_add_char(out, ']');
        break;
    case LR_JSON_OBJECT:
        lr_buf_add_char(out, '{');
        for (uint32_t i = 0; i < v->count; i++) {
            if (i > 0)
                lr_buf_add_z(out, ", ");
            put_string(out, v->members[i].key);
            lr_buf_add_z(out, ": ");
            jinja_dumps(out, &v->members[i].value);
        }
        lr_buf_add_char(out, '}');
        break;
    }
}
