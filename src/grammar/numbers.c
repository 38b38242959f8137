/* grammar/numbers.c - see grammar/schema.h: numbers by bounds and multiples.
 *
 * Whole bounds alone are written digit by digit (ranges.c).  Everything else is an automaton
 * that knows how the digits so far compare with the bounds, and what they leave when divided.
 * Such numbers are written without an exponent.
 */
#include <stdlib.h>

#include "grammar/schema.h"

enum { WHOLE_MAX = 20, FRACTION_MAX = 20, DIVISOR_MAX = 1 << 17 };

/* ---- decimals ---- */

bool grammar_decimal_of(struct lr_str text, struct decimal *out)
{
    char digits[80];
    int64_t point = 0, exponent = 0;
    uint32_t count = 0;
    size_t i = 0;
    bool after_point = false;
    *out = (struct decimal){0};
    out->negative = text.len > 0 && text.ptr[0] == '-';
    for (i = out->negative; i < text.len && text.ptr[i] != 'e' && text.ptr[i] != 'E'; i++) {
        if (text.ptr[i] == '.') {
            after_point = true;
            continue;
        }
        point += !after_point && (count > 0 || text.ptr[i] != '0');
        point -= after_point && count == 0 && text.ptr[i] == '0';
        if (count == 0 && text.ptr[i] == '0')
            continue;
        if (count == sizeof(digits))
            return false;
        digits[count++] = text.ptr[i];
    }
    if (i < text.len) {
        struct lr_str power = lr_str_sub(text, i + 1, text.len);
        if (power.len > 0 && power.ptr[0] == '+')
            power = lr_str_sub(power, 1, power.len);
        if (!lr_str_i64(power, &exponent) || exponent > 400 || exponent < -400)
            return false;
    }
    while (count > 0 && digits[count - 1] == '0')
        count--;
    if (count == 0) {
        out->negative = false;
        return true;
    }
    point += exponent;
    int64_t whole = point > 0 ? point : 0;
    int64_t fraction = (int64_t)count - point > 0 ? (int64_t)count - point : 0;
    if (whole + fraction > (int64_t)sizeof(out->digits))
        return false;
    out->whole = (uint32_t)whole;
    out->fraction = (uint32_t)fraction;
    for (int64_t k = 0; k < whole + fraction; k++) {
        int64_t at = k - whole + point; /* the digit of this place */
        out->digits[k] = at >= 0 && at < count ? digits[at] : '0';
    }
    return true;
}

static int compare_magnitudes(const struct decimal *a, const struct decimal *b)
{
    if (a->whole != b->whole)
        return a->whole < b->whole ? -1 : 1;
    uint32_t fraction = a->fraction > b->fraction ? a->fraction : b->fraction;
    for (uint32_t i = 0; i < a->whole + fraction; i++) {
        char x = i < a->whole + a->fraction ? a->digits[i] : '0';
        char y = i < b->whole + b->fraction ? b->digits[i] : '0';
        if (x != y)
            return x < y ? -1 : 1;
    }
    return 0;
}

int grammar_decimal_compare(const struct decimal *a, const struct decimal *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    int order = compare_magnitudes(a, b);
    return a->negative ? -order : order;
}

bool grammar_decimal_is_whole(struct lr_str text)
{
    struct decimal d;
    if (lr_str_find_char(text, '.') == LR_STR_NONE &&
        lr_str_find_char(text, 'e') == LR_STR_NONE &&
        lr_str_find_char(text, 'E') == LR_STR_NONE)
        return true;
    if (grammar_decimal_of(text, &d))
        return d.fraction == 0;
    /* Beyond all digits: large ones are whole, small ones are not. */
    return lr_str_find(text, LR_STR_LIT("-")) == LR_STR_NONE ||
           lr_str_find(text, LR_STR_LIT("e-")) == LR_STR_NONE;
}

/* ---- what an alternative says about a number ---- */

struct bound {
    bool is_set, open;
    struct decimal value;
};

struct demands {
    struct bound low, high;
    uint64_t divisor; /* of the number times 10^scale; 0: none */
    uint32_t scale;
    bool whole, broken; /* integers only; only what is not whole */
    bool never;
};

/* 10^30 and more lie beyond what is written: 1 above, -1 below, 0 neither. */
static int is_huge(struct lr_str text)
{
    struct lr_json number = {.type = LR_JSON_NUMBER, .text = text};
    double d;
    if (!lr_json_double(&number, &d))
        return text.len > 0 && text.ptr[0] == '-' ? -1 : 1;
    return d >= 1e25 ? 1 : d <= -1e25 ? -1 : 0;
}

static void add_bound(struct grammar_build *b, struct demands *d, const struct lr_json *v,
                      bool is_low, bool open, enum schema_word word)
{
    struct bound *at = is_low ? &d->low : &d->high, one = {.is_set = true, .open = open};
    if (v->type != LR_JSON_NUMBER) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"%s\" must be a number",
                     grammar_schema_word_name(word));
        return;
    }
    int huge = is_huge(v->text);
    if (huge != 0) {
        d->never = d->never || (huge > 0) == is_low;
        return;
    }
    if (!grammar_decimal_of(v->text, &one.value)) {
        grammar_schema_unsupported(b, "a bound of so many digits");
        return;
    }
    int order = at->is_set ? grammar_decimal_compare(&one.value, &at->value) : is_low ? 1 : -1;
    if (order == 0)
        at->open = at->open || open;
    else if ((order > 0) == is_low)
        *at = one;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void add_multiple(struct grammar_build *b, struct demands *d, const struct lr_json *v)
{
    struct decimal of;
    uint64_t divisor = 0;
    if (v->type != LR_JSON_NUMBER || !grammar_decimal_of(v->text, &of) || of.negative ||
        of.whole + of.fraction == 0) {
        grammar_fail(b, LR_INVALID_ARGUMENT, "\"multipleOf\" must be a number above 0");
        return;
    }
    uint32_t scale = of.fraction > 1 ? of.fraction : 1;
    for (uint32_t i = 0; i < of.whole + scale && divisor < DIVISOR_MAX * 100ull; i++)
        divisor =
            divisor * 10 + (i < of.whole + of.fraction ? (uint64_t)(of.digits[i] - '0') : 0);
    for (; d->divisor != 0 && d->scale < scale; d->scale++)
        d->divisor *= 10;
    for (; scale < d->scale; scale++)
        divisor *= 10;
    d->divisor =
        d->divisor == 0 ? divisor : d->divisor / common_divisor(d->divisor, divisor) * divisor;
    d->scale = scale;
    if (d->divisor > DIVISOR_MAX)
        grammar_schema_unsupported(b, "a \"multipleOf\" this large or of so many digits");
}

static void numbers_add_part(struct grammar_build *b, struct demands *d,
                             const struct schema_part *p)
{
    struct schema_words w;
    bool open, negative = p->kind == PART_BREAKS;
    if (p->kind != PART_IS && !negative)
        return;
    grammar_schema_words_of(p->node, &w);
    if (negative && (p->word == WORD_CONST || p->word == WORD_ENUM)) {
        grammar_schema_refuse_values(b, p, TYPE_NUMBER);
        return;
    }
    static const struct {
        enum schema_word word, flag;
        bool is_low;
    } bounds[] = {{WORD_MINIMUM, WORD_EXCLUSIVE_MINIMUM, true},
                  {WORD_MAXIMUM, WORD_EXCLUSIVE_MAXIMUM, false}};
    for (int i = 0; i < 2; i++) {
        const struct lr_json *bound = w.at[bounds[i].word], *flag = w.at[bounds[i].flag];
        bool is_flag = lr_json_bool(flag, &open), is_low = bounds[i].is_low != negative;
        if (!is_flag)
            open = false;
        if (bound != NULL && (!negative || p->word == bounds[i].word))
            add_bound(b, d, bound, is_low, open != negative, bounds[i].word);
        if (flag != NULL && !is_flag && (!negative || p->word == bounds[i].flag))
            add_bound(b, d, flag, is_low, !negative, bounds[i].flag);
    }
    if (w.at[WORD_MULTIPLE_OF] != NULL && !negative)
        add_multiple(b, d, w.at[WORD_MULTIPLE_OF]);
}

/* ---- the automaton ---- */

/* Magnitudes of one sign: from low to high. */
struct interval {
    bool is_empty;
    struct bound low, high;
};

struct number {
    const struct demands *d;
    struct interval signs[2]; /* of what is positive, and negative */
};

enum phase { START, MINUS, ZERO, WHOLE, POINT, FRACTION };
enum order { LESS, EQUAL, MORE };

struct state {
    enum phase phase;
    uint32_t whole, fraction; /* digits so far */
    bool negative, rest;      /* rest: a digit after the point is not 0 */
    enum order low, high;     /* of the digits so far, against the bounds */
    uint32_t left;            /* of the division */
};

static uint64_t pack(const struct state *s)
{
    return (uint64_t)s->phase | (uint64_t)s->whole << 3 | (uint64_t)s->fraction << 8 |
           (uint64_t)s->negative << 13 | (uint64_t)s->rest << 14 | (uint64_t)s->low << 15 |
           (uint64_t)s->high << 17 | (uint64_t)s->left << 32;
}

static struct state unpack(uint64_t n)
{
    return (struct state){.phase = n & 7,
                          .whole = n >> 3 & 31,
                          .fraction = n >> 8 & 31,
                          .negative = n >> 13 & 1,
                          .rest = n >> 14 & 1,
                          .low = n >> 15 & 3,
                          .high = n >> 17 & 3,
                          .left = (uint32_t)(n >> 32)};
}

static enum order compare_digit(enum order so_far, const struct decimal *bound, uint32_t place,
                                char digit)
{
    char other = place < bound->whole + bound->fraction ? bound->digits[place] : '0';
    if (so_far != EQUAL || digit == other)
        return so_far;
    return digit < other ? LESS : MORE;
}

/* The whole part has ended with this number of digits. */
static enum order end_whole(enum order so_far, const struct bound *bound, uint32_t digits)
{
    if (digits != bound->value.whole)
        return digits < bound->value.whole ? LESS : MORE;
    return so_far;
}

static bool numbers_step(void *ctx, uint64_t from, uint8_t byte, uint64_t *to)
{
    const struct number *n = ctx;
    struct state s = unpack(from);
    bool digit = byte != '-' && byte != '.';
    if (byte == '-') {
        if (s.phase != START || n->signs[1].is_empty)
            return false;
        s.phase = MINUS;
        s.negative = true;
        *to = pack(&s);
        return true;
    }
    const struct interval *i = &n->signs[s.negative];
    if (i->is_empty)
        return false;
    if (byte == '.') {
        if ((s.phase != ZERO && s.phase != WHOLE) || n->d->whole)
            return false;
        s.low = end_whole(s.low, &i->low, s.whole);
        s.high = end_whole(s.high, &i->high, s.whole);
        s.phase = POINT;
    } else if (digit && s.phase <= MINUS && byte == '0') {
        s.phase = ZERO;
    } else if (digit && (s.phase <= MINUS || s.phase == WHOLE)) {
        if (s.whole == WHOLE_MAX)
            return false;
        s.low = compare_digit(s.low, &i->low.value, s.whole, (char)byte);
        s.high = compare_digit(s.high, &i->high.value, s.whole, (char)byte);
        s.whole++;
        s.phase = WHOLE;
    } else if (digit && s.phase >= POINT) {
        uint32_t most = n->d->divisor != 0 ? n->d->scale : FRACTION_MAX;
        if (s.fraction >= most || s.fraction >= FRACTION_MAX)
            return false;
        s.low =
            compare_digit(s.low, &i->low.value, i->low.value.whole + s.fraction, (char)byte);
        s.high =
            compare_digit(s.high, &i->high.value, i->high.value.whole + s.fraction, (char)byte);
        s.fraction++;
        s.rest = s.rest || byte != '0';
        s.phase = FRACTION;
    } else {
        return false;
    }
    if (n->d->divisor != 0 && digit)
        s.left = (uint32_t)(((uint64_t)s.left * 10 + (byte - '0')) % n->d->divisor);
    /* How many digits there were matters only as long as a bound or a count depends on it. */
    *to = pack(&s);
    return true;
}

static bool accepts(void *ctx, uint64_t packed)
{
    const struct number *n = ctx;
    struct state s = unpack(packed);
    if (s.phase != ZERO && s.phase != WHOLE && s.phase != FRACTION)
        return false;
    const struct interval *i = &n->signs[s.negative];
    if (s.phase != FRACTION) {
        s.low = end_whole(s.low, &i->low, s.whole);
        s.high = end_whole(s.high, &i->high, s.whole);
    }
    if (s.low == EQUAL && s.fraction < i->low.value.fraction)
        s.low = LESS;
    if (s.high == EQUAL && s.fraction < i->high.value.fraction)
        s.high = LESS;
    if (i->low.is_set && (s.low == LESS || (s.low == EQUAL && i->low.open)))
        return false;
    if (i->high.is_set && (s.high == MORE || (s.high == EQUAL && i->high.open)))
        return false;
    if (n->d->broken && !s.rest)
        return false;
    uint64_t left = s.left;
    for (uint32_t k = s.fraction; n->d->divisor != 0 && k < n->d->scale; k++)
        left = left * 10 % n->d->divisor;
    return left == 0;
}

static struct bound turned(struct bound b)
{
    b.value.negative = false;
    return b;
}

static uint32_t numbers_compile(struct grammar_build *b, const struct demands *d, uint32_t next)
{
    struct number n = {.d = d};
    const struct decimal zero = {0};
    int low = d->low.is_set ? grammar_decimal_compare(&d->low.value, &zero) : -1;
    int high = d->high.is_set ? grammar_decimal_compare(&d->high.value, &zero) : 1;
    n.signs[0].is_empty = high < 0;
    if (low >= 0)
        n.signs[0].low = d->low;
    n.signs[0].high = d->high;
    n.signs[1].is_empty = low >= 0;
    if (high < 0)
        n.signs[1].low = turned(d->high);
    else if (high == 0)
        n.signs[1].low = (struct bound){.is_set = true, .open = d->high.open};
    n.signs[1].high = turned(d->low);
    n.signs[1].high.is_set = d->low.is_set;
    struct state start = {.low = EQUAL, .high = EQUAL};
    struct dfa_moves moves = {.ctx = &n,
                              .start = pack(&start),
                              .step = numbers_step,
                              .accepts = accepts,
                              .bytes = "-.0123456789"};
    const struct dfa *dfa;
    struct lr_error err = {0};
    lr_code code = grammar_dfa_explore(&b->program->arena, &moves, b->work, &dfa, &err);
    if (code != LR_OK) {
        grammar_fail(b, code, "%s", err.text);
        return 0;
    }
    return grammar_dfa(b, dfa, DFA_RAW, next);
}

/* ---- whole bounds ---- */

/* As a whole number: rounded into the range (integers), or exactly. */
static bool as_whole(const struct bound *bound, bool is_low, bool integers, int64_t *out)
{
    const struct decimal *v = &bound->value;
    int64_t n = 0;
    if (v->whole > 18 || (v->fraction != 0 && !integers))
        return false;
    for (uint32_t i = 0; i < v->whole; i++)
        n = n * 10 + (v->digits[i] - '0');
    n = v->negative ? -n : n;
    if (v->fraction != 0)
        n += is_low ? !v->negative : -(int64_t)v->negative;
    else if (integers && bound->open)
        n += is_low ? 1 : -1;
    *out = n;
    return true;
}

uint32_t grammar_schema_number(struct grammar_build *b, const struct schema_alternative *a,
                               uint32_t next)
{
    struct demands d = {0};
    struct grammar_bounds bounds = {0};
    d.whole = (a->types & TYPE_FRACTION) == 0;
    d.broken = (a->types & TYPE_INTEGER) == 0;
    for (uint32_t i = 0; i < a->count && b->code == LR_OK; i++)
        numbers_add_part(b, &d, &a->parts[i]);
    if (b->code != LR_OK)
        return 0;
    if (d.never)
        return grammar_never(b);
    if (!d.low.is_set && !d.high.is_set && d.divisor == 0 && !d.broken)
        return d.whole ? grammar_integer(b, next) : grammar_number(b, next);
    bounds.has_low = d.low.is_set;
    bounds.has_high = d.high.is_set;
    bounds.low_open = d.low.open && !d.whole;
    bounds.high_open = d.high.open && !d.whole;
    if (d.divisor == 0 && !d.broken &&
        (!d.low.is_set || as_whole(&d.low, true, d.whole, &bounds.low)) &&
        (!d.high.is_set || as_whole(&d.high, false, d.whole, &bounds.high))) {
        bool empty = bounds.has_low && bounds.has_high &&
                     (bounds.low > bounds.high ||
                      (bounds.low == bounds.high && (bounds.low_open || bounds.high_open)));
        if (empty)
            return grammar_never(b);
        return d.whole ? grammar_integer_within(b, &bounds, next)
                       : grammar_number_within(b, &bounds, next);
    }
    return numbers_compile(b, &d, next);
}
