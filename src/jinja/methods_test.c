/* jinja/methods_test.c - methods of str that return a bool. */
#include "base/utf8.h"
#include "jinja/builtins.h"
#include "jinja/unicode.h"

static struct value all_chars(struct run *run, struct value self, bool (*test)(uint32_t c),
                              bool when_empty)
{
    const struct text *t = self.text;
    if (!jinja_charge_bytes(run, t->len * 4))
        return V_FAIL;
    if (t->len == 0)
        return value_bool(when_empty);
    for (size_t at = 0; at < t->len;) {
        uint32_t c;
        int len = lr_utf8_decode(t->ptr + at, t->len - at, &c);
        if (len <= 0 || !test(c))
            return value_bool(false);
        at += (size_t)len;
    }
    return value_bool(true);
}

static bool is_alnum(uint32_t c)
{
    return jinja_is_alpha(c) || jinja_is_decimal(c) || jinja_is_digit(c) || jinja_is_numeric(c);
}

static bool is_ascii(uint32_t c)
{
    return c < 0x80;
}

METHOD_IS(method_isalpha, all_chars(run, self, jinja_is_alpha, false))
METHOD_IS(method_isalnum, all_chars(run, self, is_alnum, false))
METHOD_IS(method_isdigit, all_chars(run, self, jinja_is_digit, false))
METHOD_IS(method_isdecimal, all_chars(run, self, jinja_is_decimal, false))
METHOD_IS(method_isnumeric, all_chars(run, self, jinja_is_numeric, false))
METHOD_IS(method_isspace, all_chars(run, self, jinja_is_space, false))
METHOD_IS(method_isprintable, all_chars(run, self, jinja_is_printable, true))
METHOD_IS(method_isascii, all_chars(run, self, is_ascii, true))

METHOD(method_isidentifier)
{
    (void)args;
    const struct text *t = self.text;
    uint32_t c;
    if (lr_utf8_decode(t->ptr, t->len, &c) <= 0 || !(c == '_' || jinja_is_alpha(c)))
        return value_bool(false);
    for (size_t at = 0; at < t->len;) {
        int len = lr_utf8_decode(t->ptr + at, t->len - at, &c);
        if (len <= 0 || !(c == '_' || jinja_is_alpha(c) || jinja_is_decimal(c)))
            return value_bool(false);
        at += (size_t)len;
    }
    return jinja_charge_bytes(run, t->len * 4) ? value_bool(true) : V_FAIL;
}

/* True when no letter has the other case and at least one has this case. */
static struct value all_cased(struct run *run, struct value self, bool upper)
{
    const struct text *t = self.text;
    bool any = false;
    if (!jinja_charge_bytes(run, t->len * 4))
        return V_FAIL;
    for (size_t at = 0; at < t->len;) {
        uint32_t c;
        int len = lr_utf8_decode(t->ptr + at, t->len - at, &c);
        if (len <= 0)
            break;
        if (jinja_is_title(c) || (upper ? jinja_is_lower(c) : jinja_is_upper(c)))
            return value_bool(false);
        any = any || (upper ? jinja_is_upper(c) : jinja_is_lower(c));
        at += (size_t)len;
    }
    return value_bool(any);
}

METHOD_IS(method_isupper, all_cased(run, self, true))
METHOD_IS(method_islower, all_cased(run, self, false))

METHOD(method_istitle)
{
    (void)args;
    const struct text *t = self.text;
    bool any = false, after = false;
    if (!jinja_charge_bytes(run, t->len * 4))
        return V_FAIL;
    for (size_t at = 0; at < t->len;) {
        uint32_t c;
        int len = lr_utf8_decode(t->ptr + at, t->len - at, &c);
        if (len <= 0)
            break;
        bool upper = jinja_is_upper(c) || jinja_is_title(c), lower = jinja_is_lower(c);
        if ((upper && after) || (lower && !after))
            return value_bool(false);
        after = upper || lower;
        any = any || after;
        at += (size_t)len;
    }
    return value_bool(any);
}

const struct builtin_row jinja_methods_text_test[] = {
    {"isalpha", {.fn = method_isalpha}},
    {"isalnum", {.fn = method_isalnum}},
    {"isdigit", {.fn = method_isdigit}},
    {"isdecimal", {.fn = method_isdecimal}},
    {"isnumeric", {.fn = method_isnumeric}},
    {"isspace", {.fn = method_isspace}},
    {"isprintable", {.fn = method_isprintable}},
    {"isascii", {.fn = method_isascii}},
    {"isidentifier", {.fn = method_isidentifier}},
    {"isupper", {.fn = method_isupper}},
    {"islower", {.fn = method_islower}},
    {"istitle", {.fn = method_istitle}},
    {NULL, {0}},
};
