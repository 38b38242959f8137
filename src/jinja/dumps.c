/* jinja/dumps.c - writes a JSON tree like Python's json.dumps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "jinja/jinja.h"
#include "jinja/text.h"

/* The escape of a byte that a JSON string cannot contain; at most 6 bytes. */
static size_t dumps_escape(unsigned char c, char out[7])
{
    static const char from[] = "\n\"\\\t\r\f\b", to[] = "n\"\\trfb";
    const char *known = c != 0 ? memchr(from, c, sizeof(from) - 1) : NULL;
    if (known == NULL)
        return (size_t)snprintf(out, 7, "\\u%04x", c);
    out[0] = '\\';
    out[1] = to[known - from];
    return 2;
}

/* Writes a chunk at a time into the buffer.  Near the buffer's limit it writes small pieces, so
 * that only bytes over the limit fail. */
static void dumps_put_string(struct lr_buf *out, struct lr_str s)
{
    enum { CHUNK = 2048 };
    lr_buf_add_char(out, '"');
    for (size_t at = 0; at < s.len && !out->failed;) {
        char pieces[CHUNK * 6 + 8];
        size_t end = s.len - at > CHUNK ? at + CHUNK : s.len, n = 0;
        bool direct = out->limit - out->len >= (end - at) * 6 + 8;
        char *to = direct ? lr_buf_reserve(out, (end - at) * 6 + 8) : pieces;
        if (to == NULL)
            return;
        for (; at < end; at++) {
            unsigned char c = (unsigned char)s.ptr[at];
            if (c >= 0x20 && c != '"' && c != '\\')
                to[n++] = (char)c;
            else
                n += dumps_escape(c, to + n);
        }
        if (direct)
            lr_buf_commit(out, n);
        else
            lr_buf_add(out, pieces, n);
    }
    lr_buf_add_char(out, '"');
}

/* Integers keep their digits; other numbers are printed like Python's float. */
static void dumps_put_number(struct lr_buf *out, struct lr_str text)
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
        dumps_put_number(out, v->text);
        break;
    case LR_JSON_STRING:
        dumps_put_string(out, v->text);
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
            dumps_put_string(out, v->members[i].key);
            lr_buf_add_z(out, ": ");
            jinja_dumps(out, &v->members[i].value);
        }
        lr_buf_add_char(out, '}');
        break;
    }
}
