/* jinja/tojson.c - json.dumps with Hugging Face's defaults: text unescaped, ", " and ": " as
 * separators, keys in their order. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "jinja/builtins.h"
#include "jinja/iter.h"

struct json_style {
    struct run *run;
    bool ascii, sort;
    struct text *indent; /* NULL: one line */
    struct lr_str comma, colon;
};

static void tojson_put(struct json_style *s, struct lr_str text)
{
    jinja_write(s->run, text, true);
}

/* Writes the escape of one code point and returns its length, at most 12. */
static size_t tojson_escape(uint32_t c, char out[13])
{
    static const char from[] = "\n\"\\\t\r\f\b", to[] = "n\"\\trfb";
    const char *known = c < 0x80 && c != 0 ? memchr(from, (int)c, sizeof(from) - 1) : NULL;
    if (known != NULL) {
        out[0] = '\\';
        out[1] = to[known - from];
        return 2;
    }
    if (c < 0x10000)
        return (size_t)snprintf(out, 13, "\\u%04x", c);
    return (size_t)snprintf(out, 13, "\\u%04x\\u%04x", 0xD800 + ((c - 0x10000) >> 10),
                            0xDC00 + ((c - 0x10000) & 0x3FF));
}

/* Writes byte by byte, so that only bytes over the limit fail. */
static void put_near_limit(struct json_style *s, struct lr_str text)
{
    for (size_t at = 0; at < text.len && !s->run->failed;) {
        unsigned char c = (unsigned char)text.ptr[at];
        uint32_t code = c;
        char out[13];
        int len = c >= 0x80 ? lr_utf8_decode(text.ptr + at, text.len - at, &code) : 1;
        size_t n = len > 0 ? (size_t)len : 1;
        if (c < 0x20 || c == '"' || c == '\\' || (s->ascii && c >= 0x7F))
            tojson_put(s, lr_str(out, tojson_escape(code, out)));
        else
            tojson_put(s, lr_str(text.ptr + at, n));
        at += n;
    }
}

/* Writes directly into the sink's memory, a chunk at a time, because prompts consist mostly of
 * text. */
static void tojson_put_string(struct json_style *s, struct lr_str text)
{
    enum { CHUNK = 2048, ROOM = CHUNK * 6 + 16 };
    tojson_put(s, LR_STR_LIT("\"")); /* also opens the span */
    struct lr_buf *bytes = &s->run->sink.bytes;
    for (size_t at = 0; at < text.len && !s->run->failed;) {
        size_t end = text.len - at > CHUNK ? at + CHUNK : text.len;
        if (bytes->limit - bytes->len < ROOM) {
            put_near_limit(s, lr_str_sub(text, at, text.len));
            break;
        }
        char *out = lr_buf_reserve(bytes, ROOM);
        size_t n = 0;
        if (out == NULL || !jinja_charge_bytes(s->run, end - at)) {
            (void)jinja_error_memory(s->run);
            return;
        }
        while (at < end) {
            unsigned char c = (unsigned char)text.ptr[at];
            if (c >= 0x20 && c != '"' && c != '\\' && !(s->ascii && c >= 0x7F)) {
                out[n++] = (char)c;
                at++;
                continue;
            }
            uint32_t code = c;
            int len = c >= 0x80 ? lr_utf8_decode(text.ptr + at, text.len - at, &code) : 1;
            n += tojson_escape(code, out + n);
            at += len > 0 ? (size_t)len : 1;
        }
        lr_buf_commit(bytes, n);
    }
    tojson_put(s, LR_STR_LIT("\""));
}

static void put_newline(struct json_style *s, size_t level)
{
    if (s->indent == NULL)
        return;
    tojson_put(s, LR_STR_LIT("\n"));
    for (size_t i = 0; i < level && !s->run->failed; i++)
        tojson_put(s, text_str(s->indent));
}

static void tojson_put_number(struct json_style *s, struct value v)
{
    char out[JINJA_FLOAT_CHARS];
    if (v.kind == K_BIG) {
        tojson_put(s, text_str(v.text));
    } else if (v.kind == K_INT) {
        (void)snprintf(out, sizeof(out), "%lld", (long long)v.integer);
        tojson_put(s, lr_str_z(out));
    } else if (isnan(v.real) || isinf(v.real)) {
        tojson_put(s, lr_str_z(isnan(v.real) ? "NaN" : v.real < 0 ? "-Infinity" : "Infinity"));
    } else {
        tojson_put(s, lr_str(out, jinja_float_repr(v.real, out)));
    }
}

static bool tojson_put_value(struct json_style *s, struct value v, size_t level,
                             bool *untrusted);

static bool tojson_put_list(struct json_style *s, const struct list *list, size_t level,
                            bool *untrusted)
{
    tojson_put(s, LR_STR_LIT("["));
    for (size_t i = 0; i < list->count; i++) {
        if (i > 0)
            tojson_put(s, s->comma);
        put_newline(s, level + 1);
        if (!tojson_put_value(s, list->items[i], level + 1, untrusted))
            return false;
    }
    if (list->count > 0)
        put_newline(s, level);
    tojson_put(s, LR_STR_LIT("]"));
    return !s->run->failed;
}

static bool put_key(struct json_style *s, struct value key, bool *untrusted)
{
    *untrusted = *untrusted || key.untrusted;
    switch ((enum kind)key.kind) {
    case K_TEXT:
        tojson_put_string(s, text_str(key.text));
        return !s->run->failed;
    case K_NONE:
        tojson_put(s, LR_STR_LIT("\"null\""));
        return true;
    case K_BOOL:
        tojson_put(s, lr_str_z(key.boolean ? "\"true\"" : "\"false\""));
        return true;
    case K_INT:
    case K_BIG:
    case K_FLOAT:
        tojson_put(s, LR_STR_LIT("\""));
        tojson_put_number(s, key);
        tojson_put(s, LR_STR_LIT("\""));
        return true;
    default:
        return !is_fail(jinja_error(s->run,
                                    "keys must be str, int, float, bool or None, not %s",
                                    jinja_type_name(key)));
    }
}

/* The order of the entries when keys are sorted.  Insertion sort: schemas are small, and the
 * work counts as steps. */
static uint32_t *sorted_keys(struct json_style *s, const struct dict *dict)
{
    uint32_t *order = jinja_array(s->run, dict->count + 1, sizeof(*order));
    for (size_t i = 0; order != NULL && i < dict->count; i++) {
        size_t at = i;
        for (; at > 0; at--) {
            int c = 0;
            if (!jinja_charge(s->run, 1) || !jinja_order(s->run, "<", dict->entries[i].key,
                                                         dict->entries[order[at - 1]].key, &c))
                return NULL;
            if (c >= 0)
                break;
            order[at] = order[at - 1];
        }
        order[at] = (uint32_t)i;
    }
    return order;
}

static bool put_dict(struct json_style *s, const struct dict *dict, size_t level,
                     bool *untrusted)
{
    const uint32_t *order = s->sort ? sorted_keys(s, dict) : NULL;
    if (s->sort && order == NULL)
        return false;
    tojson_put(s, LR_STR_LIT("{"));
    for (size_t i = 0; i < dict->count; i++) {
        const struct dict_entry *e = &dict->entries[order != NULL ? order[i] : i];
        if (i > 0)
            tojson_put(s, s->comma);
        put_newline(s, level + 1);
        if (!put_key(s, e->key, untrusted))
            return false;
        tojson_put(s, s->colon);
        if (!tojson_put_value(s, e->value, level + 1, untrusted))
            return false;
    }
    if (dict->count > 0)
        put_newline(s, level);
    tojson_put(s, LR_STR_LIT("}"));
    return !s->run->failed;
}

static bool tojson_put_value(struct json_style *s, struct value v, size_t level,
                             bool *untrusted)
{
    *untrusted = *untrusted || v.untrusted;
    switch ((enum kind)v.kind) {
    case K_NONE:
        tojson_put(s, LR_STR_LIT("null"));
        return true;
    case K_BOOL:
        tojson_put(s, lr_str_z(v.boolean ? "true" : "false"));
        return true;
    case K_INT:
    case K_BIG:
    case K_FLOAT:
        tojson_put_number(s, v);
        return true;
    case K_TEXT:
        tojson_put_string(s, text_str(v.text));
        return !s->run->failed;
    case K_LIST:
    case K_TUPLE:
    case K_DICT: {
        if (!jinja_enter(s->run))
            return false;
        bool ok = v.kind == K_DICT ? put_dict(s, v.dict, level, untrusted)
                                   : tojson_put_list(s, v.list, level, untrusted);
        jinja_leave(s->run);
        return ok;
    }
    case K_ITERATOR: { /* "|map(...)|tojson": a list for the engines templates are written for
                        */
        struct list *list = jinja_to_list(s->run, v);
        if (list == NULL || !jinja_enter(s->run))
            return false;
        bool ok = tojson_put_list(s, list, level, untrusted);
        jinja_leave(s->run);
        return ok;
    }
    case K_UNDEFINED:
        return !is_fail(
            jinja_error(s->run, "Object of type Undefined is not JSON serializable"));
    default:
        return !is_fail(jinja_error(s->run, "Object of type %s is not JSON serializable",
                                    jinja_type_name(v)));
    }
}

static bool set_indent(struct json_style *s, struct value indent)
{
    if (!is_given(indent) || indent.kind == K_NONE)
        return true;
    if (indent.kind == K_TEXT) {
        s->indent = indent.text;
        return true;
    }
    int64_t width;
    if (!jinja_arg_int(s->run, indent, 0, &width))
        return false;
    if (width > 1000)
        return !is_fail(
            jinja_error(s->run, "tojson: an indent of %lld is too wide", (long long)width));
    struct mark mark = jinja_mark(s->run);
    for (int64_t i = 0; i < width; i++)
        jinja_write_z(s->run, " ", true);
    s->indent = jinja_take(s->run, mark);
    return s->indent != NULL;
}

static bool set_separators(struct json_style *s, struct value v)
{
    s->comma = s->indent != NULL ? LR_STR_LIT(",") : LR_STR_LIT(", ");
    s->colon = LR_STR_LIT(": ");
    if (!is_given(v) || v.kind == K_NONE)
        return true;
    if ((v.kind != K_LIST && v.kind != K_TUPLE) || v.list->count != 2 ||
        v.list->items[0].kind != K_TEXT || v.list->items[1].kind != K_TEXT)
        return !is_fail(jinja_error(s->run, "tojson: separators must be two strings"));
    s->comma = text_str(v.list->items[0].text);
    s->colon = text_str(v.list->items[1].text);
    return true;
}

/* args: ensure_ascii, indent, separators, sort_keys */
struct value jinja_tojson(struct run *run, struct value v, const struct value *args)
{
    struct json_style s = {.run = run,
                           .ascii = jinja_arg_bool(args[0], false),
                           .sort = jinja_arg_bool(args[3], false)};
    if (!set_indent(&s, args[1]) || !set_separators(&s, args[2]))
        return V_FAIL;
    bool untrusted = args[1].untrusted || args[2].untrusted;
    struct mark mark = jinja_mark(run);
    if (!tojson_put_value(&s, v, 0, &untrusted))
        return V_FAIL;
    struct text *t = jinja_take(run, mark);
    if (t != NULL && untrusted)
        t->trust = UNTRUSTED;
    return value_text(t);
}
