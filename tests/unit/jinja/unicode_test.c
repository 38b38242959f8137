/* tests/unit/jinja/unicode_test.c - classes and case of code points, compared with Python.
 *
 * The rows are code points for which a library's general category or simple case differs from
 * Python's answer, and neighbours for which it does not.
 */
#include "tests/unit/jinja/support.h"

#include "jinja/unicode.h"

/* Letters of `classes`: printable, alpha, decimal (9), digit, numeric (#), upper, lower, title
 */
struct class_row {
    uint32_t c;
    const char *classes;
};

static const struct class_row class_rows[] = {
    {'a', "pal"},     {'Z', "pau"},     {'7', "p9d#"},   {' ', "p"},       {0x7F, ""},
    {0xA0, ""},       {0xAA, "pal"},    {0xAD, ""},      {0xB2, "pd#"},    {0xBD, "p#"},
    {0xDF, "pal"},    {0x130, "pau"},   {0x1C5, "pat"},  {0x2B0, "pal"},   {0x345, "pl"},
    {0x378, ""},      {0x3C2, "pal"},   {0x660, "p9d#"}, {0x1371, "pd#"},  {0x1372, "p#"},
    {0x1FB3, "pal"},  {0x1FBC, "pat"},  {0x200B, ""},    {0x2028, ""},     {0x2160, "p#u"},
    {0x2170, "p#l"},  {0x2460, "pd#"},  {0x2469, "p#"},  {0x24B6, "pu"},   {0x24D0, "pl"},
    {0x3000, ""},     {0x3007, "p#"},   {0x3041, "pa"},  {0x4E00, "pa#"},  {0x4E01, "pa"},
    {0x4E09, "pa#"},  {0xD800, ""},     {0xE000, ""},    {0xFF15, "p9d#"}, {0x107BA, "pal"},
    {0x1D400, "pau"}, {0x1F100, "pd#"}, {0x1F130, "pu"}, {0x1F389, "p"},   {0x2F890, "pa#"},
    {0x110000, ""},
};

static void each_code_point_is_in_pythons_classes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(class_rows) / sizeof(class_rows[0]); i++) {
        uint32_t c = class_rows[i].c;
        char got[9];
        size_t n = 0;
        if (jinja_is_printable(c))
            got[n++] = 'p';
        if (jinja_is_alpha(c))
            got[n++] = 'a';
        if (jinja_is_decimal(c))
            got[n++] = '9';
        if (jinja_is_digit(c))
            got[n++] = 'd';
        if (jinja_is_numeric(c))
            got[n++] = '#';
        if (jinja_is_upper(c))
            got[n++] = 'u';
        if (jinja_is_lower(c))
            got[n++] = 'l';
        if (jinja_is_title(c))
            got[n++] = 't';
        got[n] = 0;
        if (strcmp(got, class_rows[i].classes) != 0)
            fail_msg("U+%04X is \"%s\", wanted \"%s\"", c, got, class_rows[i].classes);
    }
}

/* The results of Python's upper(), lower(), title(), casefold(); unused places are 0. */
struct case_row {
    uint32_t c, to[4][3];
};

static const struct case_row case_rows[] = {
    {'q', {{'Q'}, {'q'}, {'Q'}, {'q'}}},
    {'Q', {{'Q'}, {'q'}, {'Q'}, {'q'}}},
    {0xB5, {{0x39C}, {0xB5}, {0x39C}, {0x3BC}}},
    {0xDF, {{'S', 'S'}, {0xDF}, {'S', 's'}, {'s', 's'}}},
    {0xE9, {{0xC9}, {0xE9}, {0xC9}, {0xE9}}},
    {0x130, {{0x130}, {'i', 0x307}, {0x130}, {'i', 0x307}}},
    {0x149, {{0x2BC, 'N'}, {0x149}, {0x2BC, 'N'}, {0x2BC, 'n'}}},
    {0x1C6, {{0x1C4}, {0x1C6}, {0x1C5}, {0x1C6}}},
    {0x1C5, {{0x1C4}, {0x1C6}, {0x1C5}, {0x1C6}}},
    {0x345, {{0x399}, {0x345}, {0x399}, {0x3B9}}},
    {0x390, {{0x399, 0x308, 0x301}, {0x390}, {0x399, 0x308, 0x301}, {0x3B9, 0x308, 0x301}}},
    {0x3A3, {{0x3A3}, {0x3C3}, {0x3A3}, {0x3C3}}},
    {0x3C2, {{0x3A3}, {0x3C2}, {0x3A3}, {0x3C3}}},
    {0x10D0, {{0x1C90}, {0x10D0}, {0x10D0}, {0x10D0}}}, /* Georgian has no title case */
    {0x13A0, {{0x13A0}, {0xAB70}, {0x13A0}, {0x13A0}}}, /* Cherokee folds to capitals */
    {0x1E9E, {{0x1E9E}, {0xDF}, {0x1E9E}, {'s', 's'}}},
    {0x1F80, {{0x1F08, 0x399}, {0x1F80}, {0x1F88}, {0x1F00, 0x3B9}}},
    {0x1F88, {{0x1F08, 0x399}, {0x1F80}, {0x1F88}, {0x1F00, 0x3B9}}},
    {0x1FB2, {{0x1FBA, 0x399}, {0x1FB2}, {0x1FBA, 0x345}, {0x1F70, 0x3B9}}},
    {0x1FB7, {{0x391, 0x342, 0x399}, {0x1FB7}, {0x391, 0x342, 0x345}, {0x3B1, 0x342, 0x3B9}}},
    {0xFB03, {{'F', 'F', 'I'}, {0xFB03}, {'F', 'f', 'i'}, {'f', 'f', 'i'}}},
    {0x10400, {{0x10400}, {0x10428}, {0x10400}, {0x10428}}},
    {0xD800, {{0xD800}, {0xD800}, {0xD800}, {0xD800}}},
    {0x110000, {{0x110000}, {0x110000}, {0x110000}, {0x110000}}},
};

static void each_case_is_pythons_also_where_it_takes_several_code_points(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(case_rows) / sizeof(case_rows[0]); i++) {
        for (int kind = CASE_UPPER; kind <= CASE_FOLD; kind++) {
            uint32_t got[3] = {0};
            size_t n = jinja_map_case(case_rows[i].c, (enum case_kind)kind, got);
            for (size_t j = n; j < 3; j++)
                got[j] = 0;
            if (memcmp(got, case_rows[i].to[kind], sizeof(got)) != 0)
                fail_msg("U+%04X, case %d: %X %X %X", case_rows[i].c, kind, got[0], got[1],
                         got[2]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_code_point_is_in_pythons_classes),
        cmocka_unit_test(each_case_is_pythons_also_where_it_takes_several_code_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
