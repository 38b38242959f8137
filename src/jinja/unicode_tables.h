/* jinja/unicode_tables.h - shape of the generated tables. */
#ifndef JINJA_UNICODE_TABLES_H
#define JINJA_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

struct unicode_range {
    uint32_t first, last;
};

/* first, first + step, ... last each map to themselves + delta. */
struct unicode_case {
    uint32_t first, last, step;
    int32_t delta;
};

/* One that maps to several; unused places are 0. */
struct unicode_special {
    uint32_t from;
    uint32_t to[3];
};

#define JINJA_RANGE_TABLE(name)                                                                \
    extern const struct unicode_range name[];                                                  \
    extern const size_t name##_count;
#define JINJA_CASE_TABLE(name)                                                                 \
    extern const struct unicode_case name[];                                                   \
    extern const size_t name##_count;                                                          \
    extern const struct unicode_special name##_special[];                                      \
    extern const size_t name##_special_count;

JINJA_RANGE_TABLE(jinja_unprintable)
JINJA_RANGE_TABLE(jinja_alpha)
JINJA_RANGE_TABLE(jinja_decimal)
JINJA_RANGE_TABLE(jinja_digit)
JINJA_RANGE_TABLE(jinja_numeric)
JINJA_RANGE_TABLE(jinja_upper)
JINJA_RANGE_TABLE(jinja_lower)
JINJA_RANGE_TABLE(jinja_title)
JINJA_CASE_TABLE(jinja_to_upper)
JINJA_CASE_TABLE(jinja_to_lower)
JINJA_CASE_TABLE(jinja_to_title)
JINJA_CASE_TABLE(jinja_to_fold)

#endif
