/* jinja/filters_text.c - filters from text to text. */
#include "base/utf8.h"
#include "jinja/builtins.h"
#include "jinja/iter.h"
#include "jinja/text_case.h"
#include "jinja/text_ops.h"
#include "jinja/unicode.h"

static struct value filters_text_change(struct run *run, struct value v, uint8_t kind)
{
    struct text *t = jinja_soft_str(run, v);
    return t != NULL ? jinja_change_case(run, t, kind) : V_FAIL;
}

BUILTIN_IS(filter_upper, filters_text_change(run, v, CHANGE_UPPER))
BUILTIN_IS(filter_lower, filters_text_change(run, v, CHANGE_LOWER))
BUILTIN_IS(filter_capitalize, filters_text_change(run, v, CHANGE_CAPITALIZE))

static bool separates_words(const struct text *t, size_t at, size_t *len)
{
    char c = t->ptr[at];
    *len = 1;
    if (c == '-' || c == '(' || c == '{' || c == '[' || c == '<')
        return true;
    *len = jinja_space_len(t->ptr + at, t->len - at);
    return *len > 0;
}

/* Words begin after spaces and after - ( { [ <, not after every non-letter. */
BUILTIN(filter_title)
{
    (void)args;
    struct text *t = jinja_str(run, v);
    if (t == NULL || !jinja_charge_bytes(run, t->len * 8))
        return V_FAIL;
    struct mark mark = jinja_mark(run);
    for (size_t at = 0, len; at < t->len && !run->failed;) {
        size_t word = at;
        while (word < t->len && separates_words(t, word, &len))
            word += len;
        jinja_write(run, lr_str(t->ptr + at, word - at), t->trust == TRUSTED);
        size_t end = word;
        while (end < t->len && !separates_words(t, end, &len))
            end++;
        size_t first = word + (word < end);
        while (first < end && ((unsigned char)t->ptr[first] & 0xC0) == 0x80)
            first++;
        jinja_write_case(run, t, word, first, CHANGE_UPPER);
        jinja_write_case(run, t, first, end, CHANGE_LOWER);
        at = end;
    }
    return value_text(jinja_take(run, mark));
}

BUILTIN(filter_trim)
{
    struct text *t = jinja_soft_str(run, v), *chars = NULL;
    if (t == NULL)
        return V_FAIL;
    if (is_given(args[0]) && args[0].kind != K_NONE &&
        !jinja_arg_text(run, args[0], "strip arg", &chars))
        return V_FAIL;
    return value_text(jinja_strip(run, t, chars, STRIP_LEFT | STRIP_RIGHT));
}

BUILTIN(filter_replace)
{
    struct text *t = jinja_str(run, v);
    struct text *from = t != NULL ? jinja_str(run, args[0]) : NULL;
    struct text *to = from != NULL ? jinja_str(run, args[1]) : NULL;
    int64_t count = -1;
    if (to == NULL || (args[2].kind != K_NONE && !jinja_arg_int(run, args[2], -1, &count)))
        return V_FAIL;
    return value_text(jinja_replace(run, t, from, to, count));
}

BUILTIN_IS(filter_string, value_text(jinja_soft_str(run, v)))

/* ---- lines ---- */

static struct text *indentation(struct run *run, struct value width)
{
    int64_t n = 4;
    if (width.kind == K_TEXT)
        return width.text;
    if (!jinja_arg_int(run, width, 4, &n))
        return NULL;
    struct text *empty = jinja_text_z(run, "");
    return empty != NULL ? jinja_pad(run, empty, n, PAD_LEFT_SIDE, LR_STR_LIT(" ")) : NULL;
}

BUILTIN(filter_indent)
{
    struct text *t, *indent = indentation(run, args[0]);
    bool first = jinja_arg_bool(args[1], false), blank = jinja_arg_bool(args[2], false);
    if (indent == NULL)
        return V_FAIL;
    if (v.kind == K_UNDEFINED)
        return jinja_error_undefined(run, v);
    if (!jinja_arg_text(run, v, "indent() subject", &t))
        return V_FAIL;
    struct mark mark = jinja_mark(run);
    struct line line = {0};
    bool any = false;
    if (first)
        jinja_write_text(run, indent);
    while (jinja_next_line(t, &line) && !run->failed) {
        if (any) {
            jinja_write_z(run, "\n", true);
            if (blank || line.end > line.start)
                jinja_write_text(run, indent);
        }
        jinja_write_part(run, t, line.start, line.end);
        any = true;
        if (!jinja_charge(run, 1))
            return V_FAIL;
    }
    /* Python appends a newline before it splits, so a final line break begins another line. */
    if (any && line.next > line.end) {
        jinja_write_z(run, "\n", true);
        if (blank)
            jinja_write_text(run, indent);
    }
    return value_text(jinja_with_markup(run, jinja_take(run, mark), t->markup));
}

BUILTIN(filter_truncate)
{
    struct text *t, *end = NULL;
    int64_t length, leeway;
    size_t chars;
    if (!jinja_arg_int(run, args[0], 255, &length) ||
        !jinja_arg_int(run, args[3].kind == K_NONE ? V_MISSING : args[3], 5, &leeway))
        return V_FAIL;
    if (!is_given(args[2]))
        end = jinja_text_z(run, "...");
    else if (!jinja_arg_text(run, args[2], "truncate() end", &end))
        return V_FAIL;
    if (end == NULL)
        return V_FAIL;
    int64_t end_chars = (int64_t)jinja_text_chars(end);
    if (length < end_chars || leeway < 0)
        return jinja_error(run, "truncate: expected length >= %lld and leeway >= 0",
                           (long long)end_chars);
    if (!jinja_length(run, v, &chars))
        return V_FAIL;
    if ((int64_t)chars <= length + leeway)
        return v; /* any other value is returned unchanged */
    if (!jinja_arg_text(run, v, "truncate() subject", &t))
        return V_FAIL;
    size_t cut = jinja_text_offset(t, (size_t)(length - end_chars));
    if (!jinja_arg_bool(args[1], false))
        for (size_t i = cut; i-- > 0;)
            if (t->ptr[i] == ' ') {
                cut = i;
                break;
            }
    struct mark mark = jinja_mark(run);
    jinja_write_part(run, t, 0, cut);
    jinja_write_text(run, end);
    return value_text(jinja_with_markup(run, jinja_take(run, mark), t->markup));
}

BUILTIN(filter_center)
{
    struct text *t = jinja_soft_str(run, v);
    int64_t width;
    if (t == NULL || !jinja_arg_int(run, args[0], 80, &width))
        return V_FAIL;
    return value_text(jinja_pad(run, t, width, PAD_BOTH, LR_STR_LIT(" ")));
}

/* ---- HTML and URLs ---- */

BUILTIN_IS(filter_escape, value_text(jinja_escape(run, v)))

BUILTIN(filter_forceescape)
{
    (void)args;
    struct text *t = jinja_str(run, v);
    return t != NULL ? value_text(jinja_escape(run, value_text(t))) : V_FAIL;
}

BUILTIN_IS(filter_safe, value_text(jinja_with_markup(run, jinja_soft_str(run, v), true)))

static void quote_url(struct run *run, const struct text *t, bool query)
{
    bool trusted = t->trust == TRUSTED;
    for (size_t i = 0; i < t->len && !run->failed; i++) {
        unsigned char c = (unsigned char)t->ptr[i];
        char out[4];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     (c >= '0' && c <= '9') || strchr("_.-~", c) != NULL ||
                     (c == '/' && !query);
        if (c != 0 && plain)
            jinja_write(run, lr_str(t->ptr + i, 1), trusted);
        else if (c == ' ' && query)
            jinja_write_z(run, "+", trusted);
        else {
            static const char hex[] = "0123456789ABCDEF";
            out[0] = '%';
            out[1] = hex[c >> 4];
            out[2] = hex[c & 15];
            jinja_write(run, lr_str(out, 3), trusted);
        }
    }
}

static bool quote_pair(struct run *run, struct value key, struct value value, bool first)
{
    struct text *k = jinja_str(run, key);
    struct text *v = k != NULL ? jinja_str(run, value) : NULL;
    if (v == NULL || !jinja_charge_bytes(run, (k->len + v->len) * 8))
        return false;
    if (!first)
        jinja_write_z(run, "&", true);
    quote_url(run, k, true);
    jinja_write_z(run, "=", true);
    quote_url(run, v, true);
    return !run->failed;
}

/* A text is quoted; a mapping or a list of pairs becomes a query string. */
BUILTIN(filter_urlencode)
{
    (void)args;
    struct mark mark = jinja_mark(run);
    if (v.kind == K_TEXT || !jinja_can_iterate(v)) {
        struct text *t = jinja_str(run, v);
        if (t == NULL || !jinja_charge_bytes(run, t->len * 8))
            return V_FAIL;
        quote_url(run, t, false);
        return value_text(jinja_take(run, mark));
    }
    if (v.kind == K_DICT) {
        v.kind = K_VIEW;
        v.view = 'i';
    }
    struct list *pairs = jinja_to_list(run, v);
    for (size_t i = 0; pairs != NULL && i < pairs->count; i++) {
        struct list *pair = jinja_to_list(run, pairs->items[i]);
        if (pair != NULL && pair->count != 2)
            return jinja_error(run, "urlencode: expected pairs of a key and a value");
        if (pair == NULL || !quote_pair(run, pair->items[0], pair->items[1], i == 0))
            return V_FAIL;
    }
    return pairs != NULL ? value_text(jinja_take(run, mark)) : V_FAIL;
}

BUILTIN(filter_xmlattr)
{
    if (v.kind != K_DICT)
        return jinja_error(run, "xmlattr takes a mapping, not %s", jinja_type_name(v));
    struct mark mark = jinja_mark(run);
    bool any = false, autospace = jinja_arg_bool(args[0], true);
    for (size_t i = 0; i < v.dict->count && !run->failed; i++) {
        const struct dict_entry *e = &v.dict->entries[i];
        struct text *key;
        if (e->value.kind == K_NONE || e->value.kind == K_UNDEFINED)
            continue;
        if (!jinja_arg_text(run, e->key, "an attribute name", &key))
            return V_FAIL;
        for (size_t j = 0; j < key->len; j++)
            if (memchr(" \t\n\r\f\v/>=", key->ptr[j], 9) != NULL)
                return jinja_error(run, "invalid character in attribute name");
        if (any || autospace)
            jinja_write_z(run, " ", true);
        any = true;
        struct text *safe_key = jinja_escape(run, e->key);
        struct text *safe = safe_key != NULL ? jinja_escape(run, e->value) : NULL;
        if (safe == NULL)
            return V_FAIL;
        jinja_write_text(run, safe_key);
        jinja_write_z(run, "=\"", true);
        jinja_write_text(run, safe);
        jinja_write_z(run, "\"", true);
    }
    return value_text(jinja_take(run, mark));
}

/* Removes tags and comments; runs of white space become one blank. */
BUILTIN(filter_striptags)
{
    (void)args;
    struct text *t = jinja_str(run, v);
    if (t == NULL || !jinja_charge_bytes(run, t->len * 4))
        return V_FAIL;
    struct mark mark = jinja_mark(run);
    bool blank = false, any = false, open[2] = {true, true}; /* may a tag, a comment close? */
    for (size_t at = 0; at < t->len && !run->failed;) {
        struct lr_str rest = lr_str(t->ptr + at, t->len - at);
        bool comment = lr_str_starts(rest, "<!--") && open[1];
        struct lr_str close = comment ? LR_STR_LIT("-->") : LR_STR_LIT(">");
        size_t end =
            rest.ptr[0] == '<' && open[comment] ? jinja_find(rest, close) : LR_STR_NONE;
        size_t space = jinja_space_len(rest.ptr, rest.len);
        if (rest.ptr[0] == '<' && end == LR_STR_NONE)
            open[comment] = false; /* no end of this kind follows: do not search again */
        if (end != LR_STR_NONE) {
            at += end + close.len;
        } else if (space > 0) {
            blank = any;
            at += space;
        } else {
            if (blank)
                jinja_write_z(run, " ", t->trust == TRUSTED);
            blank = false;
            any = true;
            jinja_write_part(run, t, at, at + 1);
            at++;
        }
    }
    return value_text(jinja_take(run, mark));
}

/* ---- others ---- */

BUILTIN_IS(filter_tojson, jinja_tojson(run, v, args))

static struct value filter_format(struct run *run, struct value v, const struct call *call)
{
    struct text *t = jinja_soft_str(run, v);
    if (t == NULL)
        return V_FAIL;
    if (call->positional_count > 0 && call->keyword_count > 0)
        return jinja_error(run,
                           "cannot handle positional and keyword arguments at the same time");
    if (call->keyword_count > 0) {
        struct dict *dict = jinja_dict_new(run, call->keyword_count);
        for (size_t i = 0; dict != NULL && i < call->keyword_count; i++)
            if (!jinja_dict_set(run, dict, value_text(call->keyword_names[i]),
                                call->keyword[i]))
                return V_FAIL;
        return dict != NULL ? jinja_percent_format(run, t, value_dict(dict)) : V_FAIL;
    }
    struct list *list = jinja_list_new(run, call->positional_count);
    for (size_t i = 0; list != NULL && i < call->positional_count; i++)
        if (!jinja_list_push(run, list, call->positional[i]))
            return V_FAIL;
    return list != NULL ? jinja_percent_format(run, t, value_list(K_TUPLE, list)) : V_FAIL;
}

static bool is_word(uint32_t c)
{
    return c == '_' || jinja_is_alpha(c) || jinja_is_numeric(c);
}

BUILTIN(filter_wordcount)
{
    (void)args;
    struct text *t = jinja_str(run, v);
    if (t == NULL || !jinja_charge_bytes(run, t->len * 4))
        return V_FAIL;
    int64_t words = 0;
    bool inside = false;
    for (size_t at = 0; at < t->len;) {
        uint32_t c;
        int len = lr_utf8_decode(t->ptr + at, t->len - at, &c);
        bool word = len > 0 && is_word(c);
        words += word && !inside;
        inside = word;
        at += len > 0 ? (size_t)len : 1;
    }
    return tainted(value_int(words), v.untrusted);
}

BUILTIN_IS(filter_pprint, value_text(jinja_repr(run, v)))
BUILTIN_IS(filter_urlize,
           jinja_error(run, "urlize makes web pages and is not available in chat templates"))

const struct builtin_row jinja_filters_text[] = {
    {"upper", {.fn = filter_upper}},
    {"lower", {.fn = filter_lower}},
    {"capitalize", {.fn = filter_capitalize}},
    {"title", {.fn = filter_title}},
    {"trim", {.fn = filter_trim, .params = {"chars"}}},
    {"replace", {.fn = filter_replace, .required = 2, .params = {"old", "new", "count"}}},
    {"string", {.fn = filter_string}},
    {"safe", {.fn = filter_safe}},
    {"indent", {.fn = filter_indent, .params = {"width", "first", "blank"}}},
    {"truncate", {.fn = filter_truncate, .params = {"length", "killwords", "end", "leeway"}}},
    {"center", {.fn = filter_center, .params = {"width"}}},
    {"e", {.fn = filter_escape}},
    {"escape", {.fn = filter_escape}},
    {"forceescape", {.fn = filter_forceescape}},
    {"urlencode", {.fn = filter_urlencode}},
    {"urlize", {.fn = filter_urlize}},
    {"xmlattr", {.fn = filter_xmlattr, .params = {"autospace"}}},
    {"striptags", {.fn = filter_striptags}},
    {"tojson",
     {.fn = filter_tojson, .params = {"ensure_ascii", "indent", "separators", "sort_keys"}}},
    {"format", {.variadic = filter_format}},
    {"wordcount", {.fn = filter_wordcount}},
    {"pprint", {.fn = filter_pprint}},
    {NULL, {0}},
};
