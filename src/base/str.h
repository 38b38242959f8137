/* base/str.h - borrowed byte slices.
 *
 * A struct lr_str never owns its bytes and need not be terminated.  A struct that keeps a slice
 * documents who owns the bytes and how long they live.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct lr_str {
    const char *ptr; /* may be NULL when len is 0 */
    size_t len;
};

#define LR_STR_LIT(literal) ((struct lr_str){(literal), sizeof(literal) - 1})
#define LR_STR_FMT          "%.*s"
#define LR_STR_ARG(s)       (int)(s).len, (s).ptr != NULL ? (s).ptr : ""

static inline struct lr_str lr_str(const char *ptr, size_t len)
{
    return (struct lr_str){ptr, len};
}

static inline struct lr_str lr_str_z(const char *text)
{
    return (struct lr_str){text, text != NULL ? strlen(text) : 0};
}

/* Copies s into a buffer of `size` bytes, terminated; what does not fit is cut. */
void lr_str_copy(char *out, size_t size, struct lr_str s);
#define LR_COPY(array, s) lr_str_copy(array, sizeof(array), s)

bool lr_str_eq(struct lr_str a, struct lr_str b);
bool lr_str_eq_z(struct lr_str a, const char *b);

/* The value of a hexadecimal digit in either case, or -1. */
static inline int lr_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}
/* Only ASCII letters, digits, and characters of `others`. */
bool lr_str_is_plain(struct lr_str s, const char *others);
bool lr_str_eq_nocase(struct lr_str a, struct lr_str b); /* ASCII only */
int lr_str_cmp(struct lr_str a, struct lr_str b);        /* by bytes, as qsort wants it */
bool lr_str_starts(struct lr_str s, const char *prefix);
bool lr_str_ends(struct lr_str s, const char *suffix);

#define LR_STR_NONE SIZE_MAX
size_t lr_str_find(struct lr_str s, struct lr_str part); /* LR_STR_NONE when absent */
size_t lr_str_find_char(struct lr_str s, char c);

struct lr_str lr_str_sub(struct lr_str s, size_t from, size_t to); /* clamped */
struct lr_str lr_str_trim(struct lr_str s);                        /* ASCII blanks */

/* Takes the part before `sep` off the front of *rest; false once *rest is used up. */
bool lr_str_split(struct lr_str *rest, char sep, struct lr_str *part);

/* Whole string, no blanks, no sign for the unsigned one, no overflow. */
bool lr_str_u64(struct lr_str s, uint64_t *out);
bool lr_str_i64(struct lr_str s, int64_t *out);

/* Constant-time comparison for secrets of equal length. */
bool lr_str_eq_secret(struct lr_str a, struct lr_str b);

#endif
