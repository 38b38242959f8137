/* jinja/unicode.c - classes and case of code points, like Python's str methods.
 *
 * libutf8proc knows general categories, simple case and full case folding.  Python also uses a
 * few properties that libutf8proc does not have.  The short tables here hold those (from the
 * named files of the Unicode database).  ASCII needs no table.
 */
#include "jinja/unicode.h"

#include <utf8proc.h>

#include "base/utf8.h"

struct unicode_range {
    uint32_t first, last;
};

/* clang-format off */
/* Other_Lowercase (PropList.txt): ordinal signs, modifier letters, small numerals, circled. */
static const struct unicode_range other_lower[] = {
    {0xAA, 0xAA}, {0xBA, 0xBA}, {0x2B0, 0x2B8}, {0x2C0, 0x2C1}, {0x2E0, 0x2E4}, {0x345, 0x345},
    {0x37A, 0x37A}, {0x1D2C, 0x1D6A}, {0x1D78, 0x1D78}, {0x1D9B, 0x1DBF}, {0x2071, 0x2071},
    {0x207F, 0x207F}, {0x2090, 0x209C}, {0x2170, 0x217F}, {0x24D0, 0x24E9}, {0x2C7C, 0x2C7D},
    {0xA69C, 0xA69D}, {0xA770, 0xA770}, {0xA7F8, 0xA7F9}, {0xAB5C, 0xAB5F}, {0x10780, 0x10780},
    {0x10783, 0x10785}, {0x10787, 0x107B0}, {0x107B2, 0x107BA}, {0x1E030, 0x1E06D},
};
/* Other_Uppercase (PropList.txt): Roman numerals, circled and squared letters. */
static const struct unicode_range other_upper[] = {
    {0x2160, 0x216F}, {0x24B6, 0x24CF}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169},
    {0x1F170, 0x1F189},
};
/* Numeric_Type=Digit (UnicodeData.txt, field 7): superscripts, circled digits and their like. */
static const struct unicode_range other_digit[] = {
    {0xB2, 0xB3}, {0xB9, 0xB9}, {0x1369, 0x1371}, {0x19DA, 0x19DA}, {0x2070, 0x2070},
    {0x2074, 0x2079}, {0x2080, 0x2089}, {0x2460, 0x2468}, {0x2474, 0x247C}, {0x2488, 0x2490},
    {0x24EA, 0x24EA}, {0x24F5, 0x24FD}, {0x24FF, 0x24FF}, {0x2776, 0x277E}, {0x2780, 0x2788},
    {0x278A, 0x2792}, {0x10A40, 0x10A43}, {0x10E60, 0x10E68}, {0x11052, 0x1105A},
    {0x1F100, 0x1F10A},
};
/* Ideographs that are numbers (kPrimaryNumeric, kAccountingNumeric, kOtherNumeric of Unihan). */
static const struct unicode_range number_letters[] = {
    {0x3405, 0x3405}, {0x3483, 0x3483}, {0x382A, 0x382A}, {0x3B4D, 0x3B4D}, {0x4E00, 0x4E00},
    {0x4E03, 0x4E03}, {0x4E07, 0x4E07}, {0x4E09, 0x4E09}, {0x4E5D, 0x4E5D}, {0x4E8C, 0x4E8C},
    {0x4E94, 0x4E94}, {0x4E96, 0x4E96}, {0x4EBF, 0x4EC0}, {0x4EDF, 0x4EDF}, {0x4EE8, 0x4EE8},
    {0x4F0D, 0x4F0D}, {0x4F70, 0x4F70}, {0x5104, 0x5104}, {0x5146, 0x5146}, {0x5169, 0x5169},
    {0x516B, 0x516B}, {0x516D, 0x516D}, {0x5341, 0x5341}, {0x5343, 0x5345}, {0x534C, 0x534C},
    {0x53C1, 0x53C4}, {0x56DB, 0x56DB}, {0x58F1, 0x58F1}, {0x58F9, 0x58F9}, {0x5E7A, 0x5E7A},
    {0x5EFE, 0x5EFF}, {0x5F0C, 0x5F0E}, {0x5F10, 0x5F10}, {0x62FE, 0x62FE}, {0x634C, 0x634C},
    {0x67D2, 0x67D2}, {0x6F06, 0x6F06}, {0x7396, 0x7396}, {0x767E, 0x767E}, {0x8086, 0x8086},
    {0x842C, 0x842C}, {0x8CAE, 0x8CAE}, {0x8CB3, 0x8CB3}, {0x8D30, 0x8D30}, {0x9621, 0x9621},
    {0x9646, 0x9646}, {0x964C, 0x964C}, {0x9678, 0x9678}, {0x96F6, 0x96F6}, {0xF96B, 0xF96B},
    {0xF973, 0xF973}, {0xF978, 0xF978}, {0xF9B2, 0xF9B2}, {0xF9D1, 0xF9D1}, {0xF9D3, 0xF9D3},
    {0xF9FD, 0xF9FD}, {0x20001, 0x20001}, {0x20064, 0x20064}, {0x200E2, 0x200E2},
    {0x20121, 0x20121}, {0x2092A, 0x2092A}, {0x20983, 0x20983}, {0x2098C, 0x2098C},
    {0x2099C, 0x2099C}, {0x20AEA, 0x20AEA}, {0x20AFD, 0x20AFD}, {0x20B19, 0x20B19},
    {0x22390, 0x22390}, {0x22998, 0x22998}, {0x23B1B, 0x23B1B}, {0x2626D, 0x2626D},
    {0x2F890, 0x2F890},
};
/* clang-format on */

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

#define IN_RANGES(table, c) in_ranges(table, sizeof(table) / sizeof((table)[0]), c)

static utf8proc_category_t category(uint32_t c)
{
    return utf8proc_category((utf8proc_int32_t)c); /* CN for a number that is no code point */
}

bool jinja_is_printable(uint32_t c)
{
    if (c < 0x80)
        return c >= 0x20 && c < 0x7F;
    switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
        return false;
    default:
        return true;
    }
}

bool jinja_is_alpha(uint32_t c)
{
    if (c < 0x80)
        return ascii_upper(c) || ascii_lower(c);
    utf8proc_category_t kind = category(c);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LO;
}

bool jinja_is_decimal(uint32_t c)
{
    return c < 0x80 ? ascii_digit(c) : category(c) == UTF8PROC_CATEGORY_ND;
}

bool jinja_is_digit(uint32_t c)
{
    return jinja_is_decimal(c) || (c >= 0x80 && IN_RANGES(other_digit, c));
}

bool jinja_is_numeric(uint32_t c)
{
    if (c < 0x80)
        return ascii_digit(c);
    utf8proc_category_t kind = category(c);
    return (kind >= UTF8PROC_CATEGORY_ND && kind <= UTF8PROC_CATEGORY_NO) ||
           (kind == UTF8PROC_CATEGORY_LO && IN_RANGES(number_letters, c));
}

bool jinja_is_upper(uint32_t c)
{
    if (c < 0x80)
        return ascii_upper(c);
    return category(c) == UTF8PROC_CATEGORY_LU || IN_RANGES(other_upper, c);
}

bool jinja_is_lower(uint32_t c)
{
    if (c < 0x80)
        return ascii_lower(c);
    return category(c) == UTF8PROC_CATEGORY_LL || IN_RANGES(other_lower, c);
}

bool jinja_is_title(uint32_t c)
{
    return c >= 0x80 && category(c) == UTF8PROC_CATEGORY_LT;
}

bool jinja_is_cased(uint32_t c)
{
    return jinja_is_upper(c) || jinja_is_lower(c) || jinja_is_title(c);
}

enum {
    SHARP_S = 0xDF,
    SMALL_N_AFTER_APOSTROPHE = 0x149,
    CAPITAL_I_WITH_DOT = 0x130,
    SMALL_IOTA = 0x3B9,
    IOTA_BELOW = 0x345, /* what remains of an iota subscript below a capital letter */
};

static size_t unicode_fold(uint32_t c, uint32_t out[3])
{
    utf8proc_int32_t folded[3];
    utf8proc_ssize_t n =
        utf8proc_decompose_char((utf8proc_int32_t)c, folded, 3, UTF8PROC_CASEFOLD, NULL);
    if (n < 1 || n > 3) { /* no code point: unchanged */
        out[0] = c;
        return 1;
    }
    for (utf8proc_ssize_t i = 0; i < n; i++)
        out[i] = (uint32_t)folded[i];
    return (size_t)n;
}

static uint32_t simple_upper(uint32_t c)
{
    return (uint32_t)utf8proc_toupper((utf8proc_int32_t)c);
}

static uint32_t simple_title(uint32_t c)
{
    return (uint32_t)utf8proc_totitle((utf8proc_int32_t)c);
}

/* Full case mapping as in SpecialCasing.txt: a small letter with a capital of several code
 * points folds to several code points, whose capitals are the result. */
static size_t map_upper(uint32_t c, uint32_t out[3])
{
    size_t n = category(c) == UTF8PROC_CATEGORY_LU ? 1 : unicode_fold(c, out);
    if (n == 1)
        out[0] = simple_upper(c);
    for (size_t i = 0; n > 1 && i < n; i++)
        out[i] = simple_upper(out[i]);
    return n;
}

/* The same with a capital first letter and small letters after it; most letters have a single
 * title form.  For sharp s libutf8proc gives U+1E9E, which Unicode's mapping does not use. */
static size_t map_title(uint32_t c, uint32_t out[3])
{
    out[0] = simple_title(c);
    if (category(c) != UTF8PROC_CATEGORY_LL || (out[0] != c && c != SHARP_S))
        return 1;
    size_t n = unicode_fold(c, out);
    if (n == 1) {
        out[0] = c;
        return 1;
    }
    out[0] = simple_title(out[0]);
    for (size_t i = 1; i < n; i++) {
        if (out[i] == SMALL_IOTA)
            out[i] = IOTA_BELOW;
    }
    if (c == SMALL_N_AFTER_APOSTROPHE)
        out[1] = 'N';
    return n;
}

size_t jinja_map_case(uint32_t c, enum case_kind kind, uint32_t out[3])
{
    if (c < 0x80) {
        bool up = kind == CASE_UPPER || kind == CASE_TITLE;
        out[0] = c;
        if (up && ascii_lower(c))
            out[0] = c - 32;
        else if (!up && ascii_upper(c))
            out[0] = c + 32;
        return 1;
    }
    switch (kind) {
    case CASE_UPPER:
        return map_upper(c, out);
    case CASE_TITLE:
        return map_title(c, out);
    case CASE_LOWER:
        if (c !=
            CAPITAL_I_WITH_DOT) { /* the only letter whose lower case has two code points */
            out[0] = (uint32_t)utf8proc_tolower((utf8proc_int32_t)c);
            return 1;
        }
        return unicode_fold(c, out);
    case CASE_FOLD:
        break;
    }
    return unicode_fold(c, out);
}
