/* jinja/methods_text.c - methods of str: search, strip, change. */
#include "jinja/builtins.h"
#include "jinja/iter.h"
#include "jinja/text_case.h"
#include "jinja/text_ops.h"

/* ---- case ---- */

METHOD_IS(method_upper, jinja_change_case(run, self.text, CHANGE_UPPER))
METHOD_IS(method_lower, jinja_change_case(run, self.text, CHANGE_LOWER))
METHOD_IS(method_title, jinja_change_case(run, self.text, CHANGE_TITLE))
METHOD_IS(method_capitalize, jinja_change_case(run, self.text, CHANGE_CAPITALIZE))
METHOD_IS(method_swapcase, jinja_change_case(run, self.text, CHANGE_SWAP))
METHOD_IS(method_casefold, jinja_change_case(run, self.text, CHANGE_FOLD))

/* ---- stripping ---- */

static struct value methods_text_strip(struct run *run, struct value self, struct value chars,
                                       unsigned sides)
{
    struct text *set = NULL;
    if (is_given(chars) && chars.kind != K_NONE &&
        !jinja_arg_text(run, chars, "strip arg", &set))
        return V_FAIL;
    return value_text(jinja_strip(run, self.text, set, sides));
}

METHOD_IS(method_strip, methods_text_strip(run, self, args[0], STRIP_LEFT | STRIP_RIGHT))
METHOD_IS(method_lstrip, methods_text_strip(run, self, args[0], STRIP_LEFT))
METHOD_IS(method_rstrip, methods_text_strip(run, self, args[0], STRIP_RIGHT))

METHOD(method_removeprefix)
{
    struct text *t = self.text, *prefix;
    if (!jinja_arg_text(run, args[0], "removeprefix() argument", &prefix))
        return V_FAIL;
    if (prefix->len > t->len || memcmp(t->ptr, prefix->ptr, prefix->len) != 0)
        return self;
    return value_text(jinja_text_sub(run, t, prefix->len, t->len));
}

METHOD(method_removesuffix)
{
    struct text *t = self.text, *suffix;
    if (!jinja_arg_text(run, args[0], "removesuffix() argument", &suffix))
        return V_FAIL;
    if (suffix->len > t->len ||
        memcmp(t->ptr + t->len - suffix->len, suffix->ptr, suffix->len) != 0)
        return self;
    return value_text(jinja_text_sub(run, t, 0, t->len - suffix->len));
}

/* ---- searching ---- */

/* The arguments start and end of find and similar methods, as byte offsets; false past the
 * end. */
static bool window(struct run *run, struct text *t, const struct value *bounds, size_t *from,
                   size_t *to, bool *inside)
{
    int64_t count, at[2];
    bool whole = (!is_given(bounds[0]) || bounds[0].kind == K_NONE) &&
                 (!is_given(bounds[1]) || bounds[1].kind == K_NONE);
    *from = 0;
    *to = t->len;
    *inside = true;
    if (whole)
        return true;
    count = (int64_t)jinja_text_chars(t);
    for (size_t i = 0; i < 2; i++) {
        struct value v = bounds[i].kind == K_NONE ? V_MISSING : bounds[i];
        if (!jinja_arg_int(run, v, i == 0 ? 0 : count, &at[i]))
            return false;
        if (at[i] < 0)
            at[i] = at[i] + count < 0 ? 0 : at[i] + count;
    }
    if (at[1] > count)
        at[1] = count;
    *inside = at[0] <= at[1];
    if (*inside) {
        *from = jinja_text_offset(t, (size_t)at[0]);
        *to = jinja_text_offset(t, (size_t)at[1]);
    }
    return jinja_charge_bytes(run, t->len);
}

/* Index in code points, or -1. */
static bool methods_text_find(struct run *run, struct value self, const struct value *args,
                              bool last, int64_t *out)
{
    struct text *t = self.text, *part;
    size_t from, to;
    bool inside;
    *out = -1;
    if (!jinja_arg_text(run, args[0], "find() argument", &part) ||
        !window(run, t, args + 1, &from, &to, &inside) || !jinja_charge_bytes(run, t->len))
        return false;
    if (!inside)
        return true;
    struct lr_str s = lr_str(t->ptr + from, to - from);
    size_t at = LR_STR_NONE;
    if (last) {
        struct backwards b;
        if (!jinja_backwards(run, s, text_str(part), &b))
            return false;
        at = jinja_find_before(&b) ? b.at : LR_STR_NONE;
    } else {
        at = jinja_find(s, text_str(part));
    }
    if (at == LR_STR_NONE)
        return true;
    *out = 0;
    for (size_t i = 0; i < from + at; i++)
        *out += ((unsigned char)t->ptr[i] & 0xC0) != 0x80;
    return true;
}

static struct value find_or_fail(struct run *run, struct value self, const struct value *args,
                                 bool last, bool must)
{
    int64_t at;
    if (!methods_text_find(run, self, args, last, &at))
        return V_FAIL;
    if (at < 0 && must)
        return jinja_error(run, "substring not found");
    return tainted(value_int(at), self.untrusted);
}

METHOD_IS(method_find, find_or_fail(run, self, args, false, false))
METHOD_IS(method_rfind, find_or_fail(run, self, args, true, false))
METHOD_IS(method_index, find_or_fail(run, self, args, false, true))
METHOD_IS(method_rindex, find_or_fail(run, self, args, true, true))

METHOD(method_count)
{
    struct text *t = self.text, *part;
    size_t from, to;
    bool inside;
    if (!jinja_arg_text(run, args[0], "count() argument", &part) ||
        !window(run, t, args + 1, &from, &to, &inside) || !jinja_charge_bytes(run, t->len))
        return V_FAIL;
    int64_t count = 0;
    struct lr_str s = lr_str(t->ptr + from, to - from);
    if (part->len == 0 && inside) {
        for (size_t i = 0; i < s.len; i++)
            count += ((unsigned char)s.ptr[i] & 0xC0) != 0x80;
        return tainted(value_int(count + 1), self.untrusted);
    }
    size_t at = inside ? jinja_find(s, text_str(part)) : LR_STR_NONE;
    while (at != LR_STR_NONE && jinja_charge(run, 1)) {
        count++;
        s = lr_str(s.ptr + at + part->len, s.len - at - part->len);
        at = jinja_find(s, text_str(part));
    }
    return tainted(value_int(count), self.untrusted);
}

static bool affix_matches(struct lr_str s, const struct text *affix, bool end)
{
    if (affix->len > s.len)
        return false;
    const char *at = end ? s.ptr + s.len - affix->len : s.ptr;
    return memcmp(at, affix->ptr, affix->len) == 0;
}

static struct value has_affix(struct run *run, struct value self, const struct value *args,
                              bool end)
{
    size_t from, to;
    bool inside;
    if (!window(run, self.text, args + 1, &from, &to, &inside))
        return V_FAIL;
    struct lr_str s = lr_str(self.text->ptr + from, to - from);
    const char *what = end ? "endswith first arg" : "startswith first arg";
    struct text *affix;
    if (args[0].kind != K_TUPLE) {
        if (!jinja_arg_text(run, args[0], what, &affix))
            return V_FAIL;
        return value_bool(inside && affix_matches(s, affix, end));
    }
    for (size_t i = 0; i < args[0].list->count; i++) {
        if (!jinja_arg_text(run, args[0].list->items[i], what, &affix))
            return V_FAIL;
        if (inside && affix_matches(s, affix, end))
            return value_bool(true);
    }
    return value_bool(false);
}

METHOD_IS(method_startswith, has_affix(run, self, args, false))
METHOD_IS(method_endswith, has_affix(run, self, args, true))

/* ---- building ---- */

METHOD(method_replace)
{
    struct text *from, *to;
    int64_t count;
    if (!jinja_arg_text(run, args[0], "replace() argument 1", &from) ||
        !jinja_arg_text(run, args[1], "replace() argument 2", &to) ||
        !jinja_arg_int(run, args[2], -1, &count))
        return V_FAIL;
    if (self.text->markup)
        to = jinja_escape(run, args[1]);
    return to != NULL ? value_text(jinja_replace(run, self.text, from, to, count)) : V_FAIL;
}

METHOD(method_join)
{
    struct iterator it;
    if (!jinja_iterate(run, args[0], &it))
        return V_FAIL;
    struct mark mark = jinja_mark(run);
    for (size_t i = 0;; i++) {
        struct value item = jinja_next(run, &it);
        if (!is_given(item))
            break;
        if (is_fail(item) || !jinja_charge(run, 1))
            return V_FAIL;
        if (self.text->markup && item.kind != K_FAIL)
            item = value_text(jinja_escape(run, item));
        if (is_fail(item))
            return item;
        if (item.kind != K_TEXT)
            return jinja_error(run, "sequence item %zu: expected str instance, %s found", i,
                               jinja_type_name(item));
        if (i > 0)
            jinja_write_text(run, self.text);
        jinja_write_text(run, item.text);
        if (run->failed)
            return V_FAIL;
    }
    return value_text(jinja_with_markup(run, jinja_take(run, mark), self.text->markup));
}

static struct value pad(struct run *run, struct value self, const struct value *args,
                        enum pad how)
{
    int64_t width;
    struct text *fill = NULL;
    if (!jinja_arg_int(run, args[0], 0, &width))
        return V_FAIL;
    if (is_given(args[1]) && !jinja_arg_text(run, args[1], "the fill character", &fill))
        return V_FAIL;
    if (fill != NULL && jinja_text_chars(fill) != 1)
        return jinja_error(run, "the fill character must be exactly one character long");
    struct lr_str with = fill != NULL ? text_str(fill) : LR_STR_LIT(" ");
    struct text *t = jinja_pad(run, self.text, width, how, with);
    if (t != NULL && fill != NULL && fill->trust != TRUSTED && t != self.text) {
        t->trust = UNTRUSTED;
        t->store = NULL;
    }
    return value_text(t);
}

METHOD_IS(method_center, pad(run, self, args, PAD_BOTH))
METHOD_IS(method_ljust, pad(run, self, args, PAD_RIGHT_SIDE))
METHOD_IS(method_rjust, pad(run, self, args, PAD_LEFT_SIDE))

METHOD(method_zfill)
{
    int64_t width;
    struct text *t = self.text;
    if (!jinja_arg_int(run, args[0], 0, &width))
        return V_FAIL;
    bool has_sign = t->len > 0 && (t->ptr[0] == '-' || t->ptr[0] == '+');
    if (!has_sign || width <= (int64_t)jinja_text_chars(t))
        return value_text(jinja_pad(run, t, width, PAD_LEFT_SIDE, LR_STR_LIT("0")));
    struct text *digits = jinja_text_sub(run, t, 1, t->len);
    struct text *sign = digits != NULL ? jinja_text_sub(run, t, 0, 1) : NULL;
    struct text *padded =
        sign != NULL ? jinja_pad(run, digits, width - 1, PAD_LEFT_SIDE, LR_STR_LIT("0")) : NULL;
    return padded != NULL ? value_text(jinja_text_concat(run, sign, padded)) : V_FAIL;
}

METHOD(method_expandtabs)
{
    int64_t size, column = 0;
    struct text *t = self.text;
    if (!jinja_arg_int(run, args[0], 8, &size) || !jinja_charge_bytes(run, t->len * 4))
        return V_FAIL;
    if (size > 1000)
        return jinja_error(run, "expandtabs: a tab of %lld columns is too wide",
                           (long long)size);
    struct mark mark = jinja_mark(run);
    for (size_t i = 0; i < t->len && !run->failed; i++) {
        char c = t->ptr[i];
        if (c == '\t') {
            int64_t blanks = size > 0 ? size - column % size : 0;
            column += blanks;
            for (; blanks > 0; blanks--)
                jinja_write_z(run, " ", t->trust == TRUSTED);
            continue;
        }
        column = c == '\n' || c == '\r' ? 0 : column + (((unsigned char)c & 0xC0) != 0x80);
        jinja_write_part(run, t, i, i + 1);
    }
    return value_text(jinja_with_markup(run, jinja_take(run, mark), t->markup));
}

static struct value method_format(struct run *run, struct value self, const struct call *call)
{
    return jinja_brace_format(run, self.text, call);
}

METHOD(method_format_map)
{
    if (args[0].kind != K_DICT)
        return jinja_error(run, "format_map() takes a mapping");
    struct call call = {.keyword_count = args[0].dict->count};
    struct value *values = jinja_array(run, call.keyword_count, sizeof(*values));
    struct text **names =
        values != NULL ? jinja_array(run, call.keyword_count, sizeof(*names)) : NULL;
    if (names == NULL)
        return V_FAIL;
    for (size_t i = 0; i < call.keyword_count; i++) {
        const struct dict_entry *e = &args[0].dict->entries[i];
        if (!jinja_arg_text(run, e->key, "a key of format_map()", &names[i]))
            return V_FAIL;
        values[i] = e->value;
    }
    call.keyword = values;
    call.keyword_names = names;
    return jinja_brace_format(run, self.text, &call);
}

#define SEARCH(fn_)                                                                            \
    {                                                                                          \
        .fn = fn_, .required = 1, .positional_only = true, .params = { "sub", "start", "end" } \
    }
#define POSITIONAL(fn_, required_, ...)                                                        \
    {                                                                                          \
        .fn = fn_, .required = required_, .positional_only = true, .params = { __VA_ARGS__ }   \
    }

const struct builtin_row jinja_methods_text[] = {
    {"upper", {.fn = method_upper}},
    {"lower", {.fn = method_lower}},
    {"title", {.fn = method_title}},
    {"capitalize", {.fn = method_capitalize}},
    {"swapcase", {.fn = method_swapcase}},
    {"casefold", {.fn = method_casefold}},
    {"strip", POSITIONAL(method_strip, 0, "chars")},
    {"lstrip", POSITIONAL(method_lstrip, 0, "chars")},
    {"rstrip", POSITIONAL(method_rstrip, 0, "chars")},
    {"removeprefix", POSITIONAL(method_removeprefix, 1, "prefix")},
    {"removesuffix", POSITIONAL(method_removesuffix, 1, "suffix")},
    {"find", SEARCH(method_find)},
    {"rfind", SEARCH(method_rfind)},
    {"index", SEARCH(method_index)},
    {"rindex", SEARCH(method_rindex)},
    {"count", SEARCH(method_count)},
    {"startswith", SEARCH(method_startswith)},
    {"endswith", SEARCH(method_endswith)},
    {"replace", POSITIONAL(method_replace, 2, "old", "new", "count")},
    {"join", POSITIONAL(method_join, 1, "iterable")},
    {"center", POSITIONAL(method_center, 1, "width", "fillchar")},
    {"ljust", POSITIONAL(method_ljust, 1, "width", "fillchar")},
    {"rjust", POSITIONAL(method_rjust, 1, "width", "fillchar")},
    {"zfill", POSITIONAL(method_zfill, 1, "width")},
    {"expandtabs", {.fn = method_expandtabs, .params = {"tabsize"}}},
    {"format", {.variadic = method_format}},
    {"format_map", POSITIONAL(method_format_map, 1, "mapping")},
    {NULL, {0}},
};
