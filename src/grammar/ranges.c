/* grammar/ranges.c - see grammar/program.h: decimal numbers within whole bounds, digit by
 * digit.
 *
 * A bounded number is written without an exponent.
 */
#include <inttypes.h>
#include <stdio.h>

#include "grammar/program.h"

enum { DIGITS_MAX = 19, FRACTION_MAX = 20 };

#define LARGEST UINT64_C(9999999999999999999) /* of DIGITS_MAX digits */

/* The numbers of one length between two bounds of that length. */
struct span {
    const char *low;
    const char *high;
    uint32_t len;
    uint32_t next;
};

static uint32_t any_digits(struct grammar_build *b, uint32_t count, uint32_t next)
{
    while (count-- > 0)
        next = grammar_byte(b, '0', '9', next);
    return next;
}

/* From digit `at` on; on_low, on_high: all digits so far equal the bound's. */
static uint32_t span_from(struct grammar_build *b, const struct span *s, uint32_t at,
                          bool on_low, bool on_high)
{
    if (at == s->len || b->code != LR_OK)
        return s->next;
    if (!on_low && !on_high)
        return any_digits(b, s->len - at, s->next);
    char low = on_low ? s->low[at] : '0';
    char high = on_high ? s->high[at] : '9';
    if (low == high)
        return grammar_byte(b, low, low, span_from(b, s, at + 1, on_low, on_high));
    char first = (char)(low + (on_low ? 1 : 0)), last = (char)(high - (on_high ? 1 : 0));
    uint32_t result = 0;
    bool has = false;
    if (first <= last) {
        result = grammar_byte(b, first, last, any_digits(b, s->len - at - 1, s->next));
        has = true;
    }
    if (on_low) {
        uint32_t edge = grammar_byte(b, low, low, span_from(b, s, at + 1, true, false));
        result = has ? grammar_fork(b, result, edge) : edge;
        has = true;
    }
    if (on_high) {
        uint32_t edge = grammar_byte(b, high, high, span_from(b, s, at + 1, false, true));
        result = has ? grammar_fork(b, result, edge) : edge;
    }
    return result;
}

/* low <= high; both are not negative. */
static uint32_t between(struct grammar_build *b, uint64_t low, uint64_t high, uint32_t next)
{
    char first[24], last[24];
    uint32_t result = 0;
    bool has = false;
    uint64_t smallest = 0, largest = 9;
    for (uint32_t len = 1; len <= DIGITS_MAX && smallest <= high; len++) {
        if (largest >= low) {
            struct span s = {.low = first, .high = last, .len = len, .next = next};
            (void)snprintf(first, sizeof(first), "%" PRIu64, low > smallest ? low : smallest);
            (void)snprintf(last, sizeof(last), "%" PRIu64, high < largest ? high : largest);
            uint32_t branch = span_from(b, &s, 0, true, true);
            result = has ? grammar_fork(b, result, branch) : branch;
            has = true;
        }
        smallest = largest + 1;
        largest = largest >= LARGEST / 10 ? LARGEST : largest * 10 + 9;
    }
    return result;
}

static uint64_t magnitude(int64_t n)
{
    uint64_t m = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
    return m < LARGEST ? m : LARGEST;
}

static uint32_t either(struct grammar_build *b, bool has_one, uint32_t one, bool has_two,
                       uint32_t two)
{
    if (has_one && has_two)
        return grammar_fork(b, one, two);
    return has_one ? one : two;
}

uint32_t grammar_integer_within(struct grammar_build *b, const struct grammar_bounds *bounds,
                                uint32_t next)
{
    bool positive = !bounds->has_high || bounds->high >= 0;
    bool negative = !bounds->has_low || bounds->low < 0;
    uint32_t plus = 0, minus = 0;
    if (bounds->has_low && bounds->has_high && bounds->low > bounds->high) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "no integer lies within the bounds");
        return 0;
    }
    if (positive)
        plus = between(b, bounds->has_low && bounds->low > 0 ? magnitude(bounds->low) : 0,
                       bounds->has_high ? magnitude(bounds->high) : LARGEST, next);
    if (negative)
        minus = grammar_byte(
            b, '-', '-',
            between(b, bounds->has_high && bounds->high < 0 ? magnitude(bounds->high) : 1,
                    bounds->has_low ? magnitude(bounds->low) : LARGEST, next));
    return either(b, positive, plus, negative, minus);
}

/* ---- numbers ---- */

static uint32_t fraction_digits(struct grammar_build *b, uint32_t max, uint32_t next)
{
    uint32_t at = next;
    for (uint32_t i = 0; i < max; i++)
        at = grammar_fork(b, grammar_byte(b, '0', '9', at), next);
    return at;
}

/* "." and digits that are not all zero. */
static uint32_t some_fraction(struct grammar_build *b, uint32_t next)
{
    uint32_t at = grammar_byte(b, '1', '9', fraction_digits(b, FRACTION_MAX, next));
    for (uint32_t i = 0; i < FRACTION_MAX; i++)
        at = grammar_fork(b, grammar_byte(b, '0', '0', at), at);
    return grammar_byte(b, '.', '.', at);
}

struct magnitudes {
    uint64_t low, high;
    bool low_open, high_open;
};

/* Numbers without a sign.  A number whose whole part is the upper bound has no fraction; a
 * number whose whole part is an excluded lower bound needs one. */
static uint32_t unsigned_within(struct grammar_build *b, const struct magnitudes *m,
                                uint32_t next, bool *has)
{
    uint64_t from = m->low + (m->low_open ? 1 : 0);
    bool inner = m->high > from, edge = !m->high_open && m->high >= from;
    bool start = m->low_open && m->high > m->low;
    uint32_t one = 0, two = 0, three = 0;
    if (inner) {
        uint32_t digits = grammar_byte(b, '0', '9', fraction_digits(b, FRACTION_MAX - 1, next));
        uint32_t tail = grammar_fork(b, grammar_byte(b, '.', '.', digits), next);
        one = between(b, from, m->high - 1, tail);
    }
    if (edge)
        two = between(b, m->high, m->high, next);
    if (start)
        three = between(b, m->low, m->low, some_fraction(b, next));
    *has = inner || edge || start;
    return either(b, inner || edge, either(b, inner, one, edge, two), start, three);
}

uint32_t grammar_number_within(struct grammar_build *b, const struct grammar_bounds *bounds,
                               uint32_t next)
{
    bool has_plus = !bounds->has_high || bounds->high >= 0;
    bool has_minus = !bounds->has_low || bounds->low < 0;
    uint32_t plus = 0, minus = 0;
    if (has_plus) {
        bool low = bounds->has_low && bounds->low >= 0;
        struct magnitudes m = {.low = low ? magnitude(bounds->low) : 0,
                               .low_open = low && bounds->low_open,
                               .high = bounds->has_high ? magnitude(bounds->high) : LARGEST,
                               .high_open = bounds->has_high && bounds->high_open};
        plus = unsigned_within(b, &m, next, &has_plus);
    }
    if (has_minus) {
        bool high = bounds->has_high && bounds->high <= 0;
        struct magnitudes m = {.low = high ? magnitude(bounds->high) : 0,
                               .low_open = high && bounds->high_open,
                               .high = bounds->has_low ? magnitude(bounds->low) : LARGEST,
                               .high_open = bounds->has_low && bounds->low_open};
        minus = grammar_byte(b, '-', '-', unsigned_within(b, &m, next, &has_minus));
    }
    if (!has_plus && !has_minus)
        grammar_fail(b, LR_INVALID_ARGUMENT, "no number lies within the bounds");
    return either(b, has_plus, plus, has_minus, minus);
}
