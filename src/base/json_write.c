/* base/json_write.c - the JSON writer. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/json_scan.h"
#include "base/utf8.h"

void lr_json_writer_init(struct lr_json_writer *w, struct lr_buf *buf)
{
    *w = (struct lr_json_writer){.buf = buf};
}

/* The bit of the innermost open level; 0 outside all levels. */
static uint64_t level_bit(const struct lr_json_writer *w)
{
    return w->depth != 0 ? (uint64_t)1 << (w->depth - 1) : 0;
}

/* Writes the comma before a value or a key, if needed. */
static void separate(struct lr_json_writer *w)
{
    if (w->after_key) {
        w->after_key = false;
        return;
    }
    if (w->depth == 0 && w->has_value)
        w->buf->failed = true; /* a second value would not be JSON */
    w->has_value = true;
    if ((w->has_items & level_bit(w)) != 0)
        lr_buf_add_char(w->buf, ',');
    w->has_items |= level_bit(w);
}

static void json_write_begin(struct lr_json_writer *w, char bracket)
{
    separate(w);
    if (w->depth == LR_JSON_DEPTH) {
        w->buf->failed = true;
        return;
    }
    lr_buf_add_char(w->buf, bracket);
    w->depth++;
    w->has_items &= ~level_bit(w);
}

static void json_write_end(struct lr_json_writer *w, char bracket)
{
    if (w->depth == 0 || w->after_key) {
        w->buf->failed = true;
        return;
    }
    w->depth--;
    lr_buf_add_char(w->buf, bracket);
}

void lr_json_begin_object(struct lr_json_writer *w)
{
    json_write_begin(w, '{');
}

void lr_json_end_object(struct lr_json_writer *w)
{
    json_write_end(w, '}');
}

void lr_json_begin_array(struct lr_json_writer *w)
{
    json_write_begin(w, '[');
}

void lr_json_end_array(struct lr_json_writer *w)
{
    json_write_end(w, ']');
}

/* Writes the escape of one byte below 0x20, of '"' or of '\\'. */
static void add_escape(struct lr_buf *buf, unsigned char c)
{
    static const char short_form[] = "btn\0fr"; /* for 0x08..0x0d; 0x0b has none */
    if (c == '"' || c == '\\') {
        lr_buf_add_char(buf, '\\');
        lr_buf_add_char(buf, (char)c);
    } else if (c >= 8 && c <= 13 && c != 11) {
        lr_buf_add_char(buf, '\\');
        lr_buf_add_char(buf, short_form[c - 8]);
    } else {
        lr_buf_addf(buf, "\\u%04x", c);
    }
}

/* Copies plain runs whole; handles quotes, control characters and invalid UTF-8 one at a
 * time. */
void lr_json_quote(struct lr_buf *buf, struct lr_str s)
{
    size_t at = 0, plain = 0;
    lr_buf_add_char(buf, '"');
    while (at < s.len) {
        at += lr_json_plain_len(s.ptr + at, s.len - at);
        if (at == s.len)
            break;
        unsigned char c = (unsigned char)s.ptr[at];
        size_t step = c >= 0x80 ? lr_utf8_step(s.ptr + at, s.len - at) : 0;
        if (step != 0) {
            at += step;
            continue;
        }
        lr_buf_add(buf, s.ptr + plain, at - plain);
        if (c < 0x80) {
            add_escape(buf, c);
            at++;
        } else {
            lr_buf_add(buf, "\xEF\xBF\xBD", 3);
            at += lr_utf8_invalid_len(s.ptr + at, s.len - at);
        }
        plain = at;
    }
    if (at != plain)
        lr_buf_add(buf, s.ptr + plain, at - plain);
    lr_buf_add_char(buf, '"');
}

void lr_json_key_str(struct lr_json_writer *w, struct lr_str key)
{
    if (w->after_key || w->depth == 0)
        w->buf->failed = true;
    separate(w);
    lr_json_quote(w->buf, key);
    lr_buf_add_char(w->buf, ':');
    w->after_key = true;
}

void lr_json_key(struct lr_json_writer *w, const char *key)
{
    lr_json_key_str(w, lr_str_z(key));
}

void lr_json_put_str(struct lr_json_writer *w, struct lr_str s)
{
    separate(w);
    lr_json_quote(w->buf, s);
}

void lr_json_put_z(struct lr_json_writer *w, const char *text)
{
    if (text == NULL)
        lr_json_put_null(w);
    else
        lr_json_put_str(w, lr_str_z(text));
}

void lr_json_put_i64(struct lr_json_writer *w, int64_t value)
{
    separate(w);
    lr_buf_addf(w->buf, "%" PRId64, value);
}

void lr_json_put_u64(struct lr_json_writer *w, uint64_t value)
{
    separate(w);
    lr_buf_addf(w->buf, "%" PRIu64, value);
}

void lr_json_put_double(struct lr_json_writer *w, double value)
{
    if (!isfinite(value)) {
        lr_json_put_null(w);
        return;
    }
    /* %.15g is the shortest form where it reads back as the same number; %.17g always does. %g
     * drops trailing zeros, so the first of the three that reads back is the shortest. */
    char text[40];
    (void)snprintf(text, sizeof(text), "%.15g", value);
    if (strtod(text, NULL) != value)
        (void)snprintf(text, sizeof(text), "%.16g", value);
    if (strtod(text, NULL) != value)
        (void)snprintf(text, sizeof(text), "%.17g", value);
    separate(w);
    lr_buf_add_z(w->buf, text);
}

void lr_json_put_bool(struct lr_json_writer *w, bool value)
{
    separate(w);
    lr_buf_add_z(w->buf, value ? "true" : "false");
}

void lr_json_put_null(struct lr_json_writer *w)
{
    separate(w);
    lr_buf_add_z(w->buf, "null");
}

void lr_json_put_raw(struct lr_json_writer *w, struct lr_str json)
{
    separate(w);
    lr_buf_add_str(w->buf, json);
}

void lr_json_put_value(struct lr_json_writer *w, const struct lr_json *value)
{
    switch (value->type) {
    case LR_JSON_NULL:
        lr_json_put_null(w);
        break;
    case LR_JSON_BOOL:
        lr_json_put_bool(w, value->boolean);
        break;
    case LR_JSON_NUMBER:
        lr_json_put_raw(w, value->text);
        break;
    case LR_JSON_STRING:
        lr_json_put_str(w, value->text);
        break;
    case LR_JSON_ARRAY:
        lr_json_begin_array(w);
        for (uint32_t i = 0; i < value->count && !w->buf->failed; i++)
            lr_json_put_value(w, &value->items[i]);
        lr_json_end_array(w);
        break;
    case LR_JSON_OBJECT:
        lr_json_begin_object(w);
        for (uint32_t i = 0; i < value->count && !w->buf->failed; i++) {
            lr_json_key_str(w, value->members[i].key);
            lr_json_put_value(w, &value->members[i].value);
        }
        lr_json_end_object(w);
        break;
    }
}

void lr_json_member_str(struct lr_json_writer *w, const char *key, struct lr_str s)
{
    lr_json_key(w, key);
    lr_json_put_str(w, s);
}

void lr_json_member_z(struct lr_json_writer *w, const char *key, const char *text)
{
    lr_json_key(w, key);
    lr_json_put_z(w, text);
}

void lr_json_member_i64(struct lr_json_writer *w, const char *key, int64_t value)
{
    lr_json_key(w, key);
    lr_json_put_i64(w, value);
}

void lr_json_member_u64(struct lr_json_writer *w, const char *key, uint64_t value)
{
    lr_json_key(w, key);
    lr_json_put_u64(w, value);
}

void lr_json_member_double(struct lr_json_writer *w, const char *key, double value)
{
    lr_json_key(w, key);
    lr_json_put_double(w, value);
}

void lr_json_member_float(struct lr_json_writer *w, const char *key, float value)
{
    enum { FLOAT_DIGITS = 9 }; /* every float reads as itself with 9 digits */
    char text[32];
    for (int digits = 1; digits <= FLOAT_DIGITS; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, (double)value);
        if (strtof(text, NULL) == value)
            break;
    }
    lr_json_key(w, key);
    lr_json_put_raw(w, lr_str_z(text));
}

void lr_json_member_bool(struct lr_json_writer *w, const char *key, bool value)
{
    lr_json_key(w, key);
    lr_json_put_bool(w, value);
}

void lr_json_member_null(struct lr_json_writer *w, const char *key)
{
    lr_json_key(w, key);
    lr_json_put_null(w);
}

void lr_json_member_array(struct lr_json_writer *w, const char *key)
{
    lr_json_key(w, key);
    lr_json_begin_array(w);
}

void lr_json_member_object(struct lr_json_writer *w, const char *key)
{
    lr_json_key(w, key);
    lr_json_begin_object(w);
}

static void put_field(struct lr_json_writer *w, const struct lr_json_field *f)
{
    lr_json_key(w, f->key);
    switch (f->type) {
    case LR_FIELD_TEXT:
        lr_json_put_z(w, f->text);
        break;
    case LR_FIELD_STR:
        lr_json_put_str(w, f->str);
        break;
    case LR_FIELD_U64:
        lr_json_put_u64(w, f->u64);
        break;
    case LR_FIELD_I64:
        lr_json_put_i64(w, f->i64);
        break;
    case LR_FIELD_REAL:
        lr_json_put_double(w, f->real);
        break;
    case LR_FIELD_BOOL:
        lr_json_put_bool(w, f->flag);
        break;
    }
}

void lr_json_put_fields(struct lr_json_writer *w, const struct lr_json_field *fields,
                        size_t count)
{
    for (size_t i = 0; i < count; i++)
        put_field(w, &fields[i]);
}
