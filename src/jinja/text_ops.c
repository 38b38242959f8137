/* jinja/text_ops.c - strip, replace, pad, lines. */
#include "jinja/text_ops.h"

#include "base/utf8.h"
#include "jinja/unicode.h"

static size_t char_len(struct lr_str s, size_t at)
{
    size_t end = at + 1;
    while (end < s.len && ((unsigned char)s.ptr[end] & 0xC0) == 0x80)
        end++;
    return end - at;
}

static bool text_ops_is_one_of(struct lr_str c, struct lr_str chars)
{
    for (size_t at = 0, len; at < chars.len; at += len) {
        len = char_len(chars, at);
        if (len == c.len && memcmp(chars.ptr + at, c.ptr, len) == 0)
            return true;
    }
    return false;
}

struct text *jinja_strip(struct run *run, struct text *t, const struct text *chars,
                         unsigned sides)
{
    struct lr_str s = text_str(t);
    size_t from = 0, to = s.len;
    if (!jinja_charge_bytes(run, s.len))
        return NULL;
    if (chars == NULL) {
        if ((sides & STRIP_RIGHT) != 0)
            to = jinja_rstrip_len(s);
        if ((sides & STRIP_LEFT) != 0)
            from = jinja_lstrip_len(lr_str(s.ptr, to));
        return jinja_text_sub(run, t, from, to);
    }
    struct lr_str set = text_str(chars);
    while ((sides & STRIP_LEFT) != 0 && from < to) {
        size_t len = char_len(s, from);
        if (!text_ops_is_one_of(lr_str(s.ptr + from, len), set) ||
            !jinja_charge(run, 1 + set.len / 64))
            break;
        from += len;
    }
    while ((sides & STRIP_RIGHT) != 0 && to > from) {
        size_t start = to - 1;
        while (start > from && ((unsigned char)s.ptr[start] & 0xC0) == 0x80)
            start--;
        if (!text_ops_is_one_of(lr_str(s.ptr + start, to - start), set) ||
            !jinja_charge(run, 1 + set.len / 64))
            break;
        to = start;
    }
    return jinja_text_sub(run, t, from, to);
}

/* Python puts `to` before every character and at the end. */
static struct text *replace_empty(struct run *run, struct text *t, struct text *to,
                                  int64_t count)
{
    struct lr_str s = text_str(t);
    struct mark mark = jinja_mark(run);
    size_t at = 0;
    while (count != 0 && !run->failed) {
        jinja_write_text(run, to);
        count--;
        if (at >= s.len)
            break;
        size_t len = char_len(s, at);
        jinja_write_part(run, t, at, at + len);
        at += len;
        if (!jinja_charge(run, 1))
            return NULL;
    }
    jinja_write_part(run, t, at, s.len);
    return jinja_with_markup(run, jinja_take(run, mark), t->markup);
}

struct text *jinja_replace(struct run *run, struct text *t, struct text *from, struct text *to,
                           int64_t count)
{
    struct lr_str s = text_str(t), what = text_str(from);
    if (what.len == 0)
        return replace_empty(run, t, to, count);
    size_t found = count != 0 ? jinja_find(s, what) : LR_STR_NONE;
    if (!jinja_charge_bytes(run, s.len))
        return NULL;
    if (found == LR_STR_NONE)
        return t;
    struct mark mark = jinja_mark(run);
    size_t at = 0;
    while (found != LR_STR_NONE && count != 0 && !run->failed) {
        jinja_write_part(run, t, at, at + found);
        jinja_write_text(run, to);
        at += found + what.len;
        count--;
        found = jinja_find(lr_str(s.ptr + at, s.len - at), what);
        if (!jinja_charge(run, 1))
            return NULL;
    }
    jinja_write_part(run, t, at, s.len);
    return jinja_with_markup(run, jinja_take(run, mark), t->markup);
}

static void escape_part(void *ctx, struct lr_str part, bool trusted)
{
    struct run *run = ctx;
    size_t plain = 0;
    for (size_t i = 0; i < part.len && !run->failed; i++) {
        const char *entity = NULL;
        switch (part.ptr[i]) {
        case '&':
            entity = "&amp;";
            break;
        case '<':
            entity = "&lt;";
            break;
        case '>':
            entity = "&gt;";
            break;
        case '\'':
            entity = "&#39;";
            break;
        case '"':
            entity = "&#34;";
            break;
        default:
            continue;
        }
        jinja_write(run, lr_str(part.ptr + plain, i - plain), trusted);
        jinja_write_z(run, entity, trusted);
        plain = i + 1;
    }
    jinja_write(run, lr_str(part.ptr + plain, part.len - plain), trusted);
}

struct text *jinja_escape(struct run *run, struct value v)
{
    struct text *t = jinja_soft_str(run, v);
    if (t == NULL || t->markup)
        return t;
    if (!jinja_charge_bytes(run, t->len * 4))
        return NULL;
    struct mark mark = jinja_mark(run);
    jinja_text_runs(t, 0, t->len, escape_part, run);
    return jinja_with_markup(run, jinja_take(run, mark), true);
}

static void write_fill(struct run *run, struct lr_str fill, int64_t times)
{
    for (int64_t i = 0; i < times && !run->failed; i++)
        if (jinja_charge(run, 1))
            jinja_write(run, fill, true);
}

struct text *jinja_pad(struct run *run, struct text *t, int64_t width, enum pad pad,
                       struct lr_str fill)
{
    int64_t missing = width - (int64_t)jinja_text_chars(t);
    if (missing <= 0)
        return t;
    if ((uint64_t)missing > run->max_memory) {
        (void)jinja_error_memory(run);
        return NULL;
    }
    int64_t left = pad == PAD_LEFT_SIDE ? missing
                   : pad == PAD_BOTH    ? missing / 2 + (missing & width & 1)
                                        : 0;
    struct mark mark = jinja_mark(run);
    write_fill(run, fill, left);
    jinja_write_text(run, t);
    write_fill(run, fill, missing - left);
    return jinja_with_markup(run, jinja_take(run, mark), t->markup);
}

/* Length of the line break at `at`, 0 when there is none. */
static size_t break_len(struct lr_str s, size_t at)
{
    unsigned char c = (unsigned char)s.ptr[at];
    if (c == '\r')
        return at + 1 < s.len && s.ptr[at + 1] == '\n' ? 2 : 1;
    if ((c >= 0x0A && c <= 0x0C) || (c >= 0x1C && c <= 0x1E))
        return 1;
    if (c == 0xC2)
        return at + 1 < s.len && (unsigned char)s.ptr[at + 1] == 0x85 ? 2 : 0;
    if (c != 0xE2 || at + 2 >= s.len || (unsigned char)s.ptr[at + 1] != 0x80)
        return 0;
    unsigned char last = (unsigned char)s.ptr[at + 2];
    return last == 0xA8 || last == 0xA9 ? 3 : 0;
}

bool jinja_next_line(const struct text *t, struct line *line)
{
    struct lr_str s = text_str(t);
    size_t at = line->next;
    if (at >= s.len)
        return false;
    line->start = at;
    for (; at < s.len; at++) {
        size_t len = break_len(s, at);
        if (len > 0) {
            line->end = at;
            line->next = at + len;
            return true;
        }
    }
    line->end = line->next = s.len;
    return true;
}
