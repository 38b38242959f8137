/* grammar/dfa_step.c - see grammar/dfa.h: characters from bytes.
 *
 * Within a JSON string a character has one spelling here: itself, or the short escape of
 * quotes, backslashes and controls.  So texts are equal when their bytes are.  A byte is taken
 * only if some character that begins so can follow.
 */
#include "grammar/dfa.h"

/* part: what is known of a character that has begun.
 *   bits 28..30  kind
 *   UTF-8: bits 24..25 bytes in all - 1, bits 22..23 bytes left, below the bits so far
 *   UNIT:  bits 24..25 hexadecimal digits so far, below their value */
enum { KIND_SHIFT = 28, LEN_SHIFT = 24, LEFT_SHIFT = 22 };
enum { BETWEEN, MULTI, ESCAPE, UNIT };

static uint32_t class_of(const struct dfa *d, uint32_t code)
{
    if (code < 128)
        return d->ascii[code];
    uint32_t low = 0, high = d->ranges;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (d->starts[middle] <= code)
            low = middle;
        else
            high = middle;
    }
    return d->range_class[low];
}

static uint32_t dfa_step_move(const struct dfa *d, uint32_t state, uint32_t code)
{
    return d->next[(size_t)state * d->classes + class_of(d, code)];
}

static bool dfa_step_take(const struct dfa *d, uint32_t *state, uint32_t *part, uint32_t code)
{
    uint32_t to = dfa_step_move(d, *state, code);
    *state = to;
    *part = 0;
    return to != DFA_DEAD;
}

/* Some character from low to high can follow. */
static bool any_within(const struct dfa *d, uint32_t state, uint32_t low, uint32_t high)
{
    uint32_t from = 0, to = d->ranges;
    while (to - from > 1) {
        uint32_t middle = (from + to) / 2;
        if (d->starts[middle] <= low)
            from = middle;
        else
            to = middle;
    }
    for (uint32_t i = from; i < d->ranges && d->starts[i] <= high; i++)
        if (d->next[(size_t)state * d->classes + d->range_class[i]] != DFA_DEAD)
            return true;
    return false;
}

/* ---- UTF-8 ---- */

/* The characters of len + 1 bytes that begin with these bits, if `left` bytes are still to
 * come.
 */
static void begin_with(uint32_t len, uint32_t left, uint32_t bits, uint32_t *low,
                       uint32_t *high)
{
    static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    *low = bits << (6 * left);
    *high = *low | ((1u << (6 * left)) - 1);
    *low = *low < least[len] ? least[len] : *low;
    *high = *high > REGEX_CODE_MAX ? REGEX_CODE_MAX : *high;
}

static bool go_on(const struct dfa *d, uint32_t *state, uint32_t *part, uint32_t len,
                  uint32_t left, uint32_t bits)
{
    uint32_t low, high;
    begin_with(len, left, bits, &low, &high);
    if (low > high || (low >= 0xD800 && high <= 0xDFFF))
        return false;
    if (left == 0)
        return dfa_step_take(d, state, part, bits);
    *part = (uint32_t)MULTI << KIND_SHIFT | len << LEN_SHIFT | left << LEFT_SHIFT | bits;
    if (d->least[*state] != 0)
        return true; /* any plain character can follow, and some begin so */
    if (low <= 0xD7FF && high >= 0xE000)
        return any_within(d, *state, low, 0xD7FF) || any_within(d, *state, 0xE000, high);
    if (high >= 0xD800 && high <= 0xDFFF)
        high = 0xD7FF;
    return any_within(d, *state, low, high);
}

static bool dfa_step_begin(const struct dfa *d, uint32_t *state, uint32_t *part, uint8_t byte)
{
    if (byte < 0xC2 || byte > 0xF4)
        return false;
    uint32_t len = byte < 0xE0 ? 1 : byte < 0xF0 ? 2 : 3;
    return go_on(d, state, part, len, len, byte & (0x3Fu >> len));
}

/* ---- escapes ---- */

static bool has_short(uint32_t code)
{
    return code == 8 || code == 9 || code == 10 || code == 12 || code == 13;
}

/* Some control from low to high without a short escape can follow. */
static bool any_control(const struct dfa *d, uint32_t state, uint32_t low, uint32_t high)
{
    for (uint32_t c = low; c <= high; c++)
        if (!has_short(c) && dfa_step_move(d, state, c) != DFA_DEAD)
            return true;
    return false;
}

static bool any_escape(const struct dfa *d, uint32_t state)
{
    return dfa_step_move(d, state, '"') != DFA_DEAD ||
           dfa_step_move(d, state, '\\') != DFA_DEAD || any_within(d, state, 0, 0x1F);
}

static bool unit(const struct dfa *d, uint32_t *state, uint32_t *part, uint8_t byte)
{
    uint32_t count = *part >> LEN_SHIFT & 3, value = *part & 0xFF;
    int digit = byte >= 'A' && byte <= 'F' ? -1 : lr_hex_digit((char)byte);
    if (digit < 0 || (count < 2 && digit != 0) || (count == 2 && digit > 1))
        return false;
    value = value * 16 + (uint32_t)digit;
    if (count == 3)
        return !has_short(value) && dfa_step_take(d, state, part, value);
    *part = (uint32_t)UNIT << KIND_SHIFT | (count + 1) << LEN_SHIFT | value;
    return count < 2 || any_control(d, *state, value * 16, value * 16 + 15);
}

static bool dfa_step_escape(const struct dfa *d, uint32_t *state, uint32_t *part, uint8_t byte)
{
    switch (byte) {
    case '"':
    case '\\':
        return dfa_step_take(d, state, part, byte);
    case 'b':
        return dfa_step_take(d, state, part, 8);
    case 't':
        return dfa_step_take(d, state, part, 9);
    case 'n':
        return dfa_step_take(d, state, part, 10);
    case 'f':
        return dfa_step_take(d, state, part, 12);
    case 'r':
        return dfa_step_take(d, state, part, 13);
    case 'u':
        *part = (uint32_t)UNIT << KIND_SHIFT;
        return any_control(d, *state, 0, 0x1F);
    default:
        return false;
    }
}

bool grammar_dfa_step(const struct dfa *d, enum dfa_spelling spelling, uint32_t *state,
                      uint32_t *part, uint8_t byte)
{
    switch (*part >> KIND_SHIFT) {
    case BETWEEN:
        if (byte >= 0x80)
            return dfa_step_begin(d, state, part, byte);
        if (spelling == DFA_JSON && byte == '\\') {
            *part = (uint32_t)ESCAPE << KIND_SHIFT;
            return any_escape(d, *state);
        }
        if (spelling == DFA_JSON && (byte < 0x20 || byte == '"'))
            return false;
        *state = d->next[(size_t)*state * d->classes + d->ascii[byte]];
        return *state != DFA_DEAD;
    case MULTI:
        if ((byte & 0xC0) != 0x80)
            return false;
        return go_on(d, state, part, *part >> LEN_SHIFT & 3, (*part >> LEFT_SHIFT & 3) - 1,
                     (*part & 0x3FFFFF) << 6 | (byte & 0x3F));
    case ESCAPE:
        return dfa_step_escape(d, state, part, byte);
    default:
        return unit(d, state, part, byte);
    }
}

bool grammar_dfa_accepts(const struct dfa *d, enum dfa_spelling spelling, struct lr_str text)
{
    uint32_t state = 0, part = 0;
    if (d->states == 0)
        return false;
    for (size_t i = 0; i < text.len; i++)
        if (!grammar_dfa_step(d, spelling, &state, &part, (uint8_t)text.ptr[i]))
            return false;
    return part == 0 && d->accept[state];
}

/* ---- counting ---- */

/* Texts that go on from a state with one of `count` characters that lead to state `to`. */
static uint64_t words_by(const struct dfa *d, uint32_t to, uint32_t count)
{
    return to == DFA_DEAD                  ? 0
           : d->words[to] == DFA_UNBOUNDED ? DFA_UNBOUNDED
                                           : (uint64_t)d->words[to] * count;
}

static uint64_t words_within(const struct dfa *d, uint32_t state, uint32_t low, uint32_t high)
{
    uint64_t words = 0;
    for (uint32_t i = 0; i < d->ranges && d->starts[i] <= high; i++) {
        uint32_t from = d->starts[i] > low ? d->starts[i] : low;
        uint32_t to = i + 1 < d->ranges ? d->starts[i + 1] - 1 : REGEX_CODE_MAX;
        to = to < high ? to : high;
        if (from <= to)
            words += words_by(d, d->next[(size_t)state * d->classes + d->range_class[i]],
                              to - from + 1);
    }
    return words;
}

/* Controls that are written with digits: of those from low to high. */
static uint64_t words_by_unit(const struct dfa *d, uint32_t state, uint32_t low, uint32_t high)
{
    uint64_t words = 0;
    for (uint32_t c = low; c <= high && c < 0x20; c++)
        words += has_short(c) ? 0 : words_by(d, dfa_step_move(d, state, c), 1);
    return words;
}

uint32_t grammar_dfa_words(const struct dfa *d, uint32_t state, uint32_t part)
{
    uint32_t count = part >> LEN_SHIFT & 3, low, high;
    uint64_t words;
    switch (part >> KIND_SHIFT) {
    case BETWEEN:
        return d->words[state];
    case MULTI:
        begin_with(count, part >> LEFT_SHIFT & 3, part & 0x3FFFFF, &low, &high);
        words = words_within(d, state, low, high);
        break;
    case ESCAPE:
        words = words_by(d, dfa_step_move(d, state, '"'), 1) +
                words_by(d, dfa_step_move(d, state, '\\'), 1) + words_within(d, state, 0, 0x1F);
        break;
    default:
        low = count < 3 ? 0 : (part & 0xFF) * 16;
        words = words_by_unit(d, state, low, count < 3 ? 0x1F : low + 15);
    }
    return words < DFA_UNBOUNDED ? (uint32_t)words : DFA_UNBOUNDED;
}
