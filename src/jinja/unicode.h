/* jinja/unicode.h - the parts of Unicode that Python's str methods need.
 *
 * Follows the Unicode version of libutf8proc (15 on Debian 12; Python 3.11 has 14).
 */
#ifndef JINJA_UNICODE_H
#define JINJA_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

/* Length of the white-space character at text[0..len), 0 when it is none. */
size_t jinja_space_len(const char *text, size_t len);
size_t jinja_rstrip_len(struct lr_str s); /* length without trailing white space */
size_t jinja_lstrip_len(struct lr_str s); /* bytes of leading white space */
bool jinja_is_space(uint32_t c);

bool jinja_is_printable(uint32_t c);
bool jinja_is_alpha(uint32_t c);
bool jinja_is_decimal(uint32_t c);
bool jinja_is_digit(uint32_t c);
bool jinja_is_numeric(uint32_t c);
bool jinja_is_upper(uint32_t c);
bool jinja_is_lower(uint32_t c);
bool jinja_is_title(uint32_t c);
bool jinja_is_cased(uint32_t c);

enum case_kind {
    CASE_UPPER,
    CASE_LOWER,
    CASE_TITLE,
    CASE_FOLD,
};

/* Writes up to three code points; returns how many. */
size_t jinja_map_case(uint32_t c, enum case_kind kind, uint32_t out[3]);

#endif
