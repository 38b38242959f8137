/* jinja/unicode.c - classes and case of code points. */
#include "jinja/unicode.h"

#include "base/utf8.h"
#include "jinja/unicode_tables.h"

static bool in_ranges(const struct unicode_range *table, size_t count, uint32_t c)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (c > table[middle].last)
            low = middle + 1;
        else if (c < table[middle].first)
            high = middle;
        else
            return true;
    }
    return false;
}

bool jinja_is_space(uint32_t c)
{
    return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 ||
           c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

size_t jinja_space_len(const char *text, size_t len)
{
    if (len == 0)
        return 0;
    unsigned char first = (unsigned char)text[0];
    if (first < 0x80)
        return jinja_is_space(first);
    uint32_t c;
    int n = lr_utf8_decode(text, len, &c);
    return n > 0 && jinja_is_space(c) ? (size_t)n : 0;
}

size_t jinja_rstrip_len(struct lr_str s)
{
    while (s.len > 0) {
        size_t start = s.len - 1;
        while (start > 0 && s.len - start < 4 && ((unsigned char)s.ptr[start] & 0xC0) == 0x80)
            start--;
        size_t n = jinja_space_len(s.ptr + start, s.len - start);
        if (n == 0 || start + n != s.len)
            break;
        s.len = start;
    }
    return s.len;
}

size_t jinja_lstrip_len(struct lr_str s)
{
    size_t at = 0;
    for (size_t n; at < s.len && (n = jinja_space_len(s.ptr + at, s.len - at)) > 0;)
        at += n;
    return at;
}

static bool ascii_upper(uint32_t c)
{
    return c >= 'A' && c <= 'Z';
}

static bool ascii_lower(uint32_t c)
{
    return c >= 'a' && c <= 'z';
}

static bool ascii_digit(uint32_t c)
{
    return c >= '0' && c <= '9';
}

bool jinja_is_printable(uint32_t c)
{
    if (c < 0x80)
        return c >= 0x20 && c < 0x7F;
    return c < 0x110000 && !in_ranges(jinja_unprintable, jinja_unprintable_count, c);
}

bool jinja_is_alpha(uint32_t c)
{
    if (c < 0x80)
        return ascii_upper(c) || ascii_lower(c);
    return in_ranges(jinja_alpha, jinja_alpha_count, c);
}

bool jinja_is_decimal(uint32_t c)
{
    return c < 0x80 ? ascii_digit(c) : in_ranges(jinja_decimal, jinja_decimal_count, c);
}

bool jinja_is_digit(uint32_t c)
{
    return c < 0x80 ? ascii_digit(c) : in_ranges(jinja_digit, jinja_digit_count, c);
}

bool jinja_is_numeric(uint32_t c)
{
    return c < 0x80 ? ascii_digit(c) : in_ranges(jinja_numeric, jinja_numeric_count, c);
}

bool jinja_is_upper(uint32_t c)
{
    return c < 0x80 ? ascii_upper(c) : in_ranges(jinja_upper, jinja_upper_count, c);
}

bool jinja_is_lower(uint32_t c)
{
    return c < 0x80 ? ascii_lower(c) : in_ranges(jinja_lower, jinja_lower_count, c);
}

bool jinja_is_title(uint32_t c)
{
    return c >= 0x80 && in_ranges(jinja_title, jinja_title_count, c);
}

bool jinja_is_cased(uint32_t c)
{
    return jinja_is_upper(c) || jinja_is_lower(c) || jinja_is_title(c);
}

static size_t map_special(const struct unicode_special *table, size_t count, uint32_t c,
                          uint32_t out[3])
{
    for (size_t i = 0; i < count; i++) {
        if (table[i].from != c)
            continue;
        size_t n = 0;
        while (n < 3 && table[i].to[n] != 0) {
            out[n] = table[i].to[n];
            n++;
        }
        return n;
    }
    return 0;
}

static bool map_simple(const struct unicode_case *table, size_t count, uint32_t c,
                       uint32_t *out)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct unicode_case *row = &table[middle];
        if (c > row->last) {
            low = middle + 1;
        } else if (c < row->first) {
            high = middle;
        } else {
            if ((c - row->first) % row->step != 0)
                return false;
            *out = (uint32_t)((int32_t)c + row->delta);
            return true;
        }
    }
    return false;
}

size_t jinja_map_case(uint32_t c, enum case_kind kind, uint32_t out[3])
{
    out[0] = c;
    if (c < 0x80) {
        bool up = kind == CASE_UPPER || kind == CASE_TITLE;
        if (up && ascii_lower(c))
            out[0] = c - 32;
        else if (!up && ascii_upper(c))
            out[0] = c + 32;
        return 1;
    }
    static const struct {
        const struct unicode_case *simple;
        const size_t *simple_count;
        const struct unicode_special *special;
        const size_t *special_count;
    } tables[] = {
        [CASE_UPPER] = {jinja_to_upper, &jinja_to_upper_count, jinja_to_upper_special,
                        &jinja_to_upper_special_count},
        [CASE_LOWER] = {jinja_to_lower, &jinja_to_lower_count, jinja_to_lower_special,
                        &jinja_to_lower_special_count},
        [CASE_TITLE] = {jinja_to_title, &jinja_to_title_count, jinja_to_title_special,
                        &jinja_to_title_special_count},
        [CASE_FOLD] = {jinja_to_fold, &jinja_to_fold_count, jinja_to_fold_special,
                       &jinja_to_fold_special_count},
    };
    size_t n = map_special(tables[kind].special, *tables[kind].special_count, c, out);
    if (n > 0)
        return n;
    (void)map_simple(tables[kind].simple, *tables[kind].simple_count, c, &out[0]);
    return 1;
}
