/* grammar/regex.c - see grammar/regex.h. */
#include "grammar/regex.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANGES_MAX = 4096, DEPTH_MAX = 100 };

/* The ranges of a class while it is read. */
struct ranges {
    struct regex_range items[RANGES_MAX];
    uint32_t count;
};

struct parser {
    struct lr_arena *arena;
    const uint32_t *codes; /* the pattern, code point by code point */
    size_t count, at;
    struct ranges *ranges; /* owned scratch */
    struct regex_pattern *pattern;
    struct lr_error *err;
    lr_code code;
    uint32_t depth;
};

static const struct regex_range digits[] = {{'0', '9'}};
static const struct regex_range words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
static const struct regex_range blanks[] = {
    {9, 13},          {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
    {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
static const struct regex_range line_ends[] = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};

static void regex_fail(struct parser *p, lr_code code, const char *what)
{
    if (p->code != LR_OK)
        return;
    p->code = code;
    if (code == LR_UNSUPPORTED)
        (void)lr_fail(p->err, code, "%s in a regular expression is not supported", what);
    else
        (void)lr_fail(p->err, code, "a regular expression %s (near character %zu)", what,
                      p->at);
}

static bool more(const struct parser *p)
{
    return p->code == LR_OK && p->at < p->count;
}

static bool is_at(const struct parser *p, size_t ahead, uint32_t code)
{
    return p->at + ahead < p->count && p->codes[p->at + ahead] == code;
}

static bool skip(struct parser *p, uint32_t code)
{
    bool is = is_at(p, 0, code);
    p->at += is;
    return is;
}

/* ---- trees ---- */

static const struct regex *regex_make(struct parser *p, struct regex node)
{
    struct regex *copy = lr_arena_alloc(p->arena, sizeof(*copy));
    if (copy == NULL) {
        regex_fail(p, LR_INVALID_ARGUMENT, "is too large");
        return NULL;
    }
    *copy = node;
    return copy;
}

static const struct regex *leaf(struct parser *p, enum regex_op op)
{
    return regex_make(p, (struct regex){.op = op});
}

static const struct regex *regex_join(struct parser *p, enum regex_op op, const struct regex *a,
                                      const struct regex *b)
{
    return regex_make(p, (struct regex){.op = op, .a = a, .b = b});
}

/* ---- sets ---- */

static void add_range(struct parser *p, uint32_t low, uint32_t high)
{
    if (p->ranges->count == RANGES_MAX)
        regex_fail(p, LR_INVALID_ARGUMENT, "has a class of too many characters");
    else
        p->ranges->items[p->ranges->count++] = (struct regex_range){low, high};
}

static void add_ranges(struct parser *p, const struct regex_range *list, size_t count,
                       bool others)
{
    uint32_t from = 0;
    for (size_t i = 0; i < count; i++) {
        if (!others)
            add_range(p, list[i].low, list[i].high);
        else if (list[i].low > from)
            add_range(p, from, list[i].low - 1);
        from = list[i].high + 1;
    }
    if (others)
        add_range(p, from, REGEX_CODE_MAX);
}

static int by_low(const void *a, const void *b)
{
    const struct regex_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* The set of what was gathered, or of everything else. */
static const struct regex *take_set(struct parser *p, bool others)
{
    struct ranges *r = p->ranges;
    uint32_t count = 0, from = 0;
    qsort(r->items, r->count, sizeof(*r->items), by_low);
    for (uint32_t i = 0; i < r->count; i++) {
        if (count > 0 && r->items[i].low <= r->items[count - 1].high + 1) {
            if (r->items[i].high > r->items[count - 1].high)
                r->items[count - 1].high = r->items[i].high;
        } else {
            r->items[count++] = r->items[i];
        }
    }
    struct regex_range *list = lr_arena_array(p->arena, (size_t)count + 2, sizeof(*list));
    if (list == NULL) {
        regex_fail(p, LR_INVALID_ARGUMENT, "is too large");
        return NULL;
    }
    uint32_t used = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!others)
            list[used++] = r->items[i];
        else if (r->items[i].low > from)
            list[used++] = (struct regex_range){from, r->items[i].low - 1};
        from = r->items[i].high + 1;
    }
    if (others && from <= REGEX_CODE_MAX)
        list[used++] = (struct regex_range){from, REGEX_CODE_MAX};
    r->count = 0;
    return regex_make(p, (struct regex){.op = REGEX_SET, .set = {list, used}});
}

/* ---- escapes ---- */

static bool regex_read_hex(struct parser *p, uint32_t count, uint32_t *out)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < count; i++) {
        int digit = p->at + i < p->count && p->codes[p->at + i] < 128
                        ? lr_hex_digit((char)p->codes[p->at + i])
                        : -1;
        if (digit < 0)
            return false;
        value = value * 16 + (uint32_t)digit;
    }
    p->at += count;
    *out = value;
    return true;
}

/* After \u. */
static uint32_t read_unicode(struct parser *p)
{
    uint32_t code = 0, low;
    if (skip(p, '{')) {
        int digit = 0;
        while (more(p) && !is_at(p, 0, '}') && digit >= 0 && code <= REGEX_CODE_MAX) {
            uint32_t c = p->codes[p->at++];
            digit = c < 128 ? lr_hex_digit((char)c) : -1;
            code = code * 16 + (uint32_t)(digit >= 0 ? digit : 0);
        }
        if (!skip(p, '}') || digit < 0 || code > REGEX_CODE_MAX)
            regex_fail(p, LR_INVALID_ARGUMENT, "has a wrong \\u{...}");
        return code;
    }
    if (!regex_read_hex(p, 4, &code))
        return 'u';
    size_t back = p->at;
    if (code >= 0xD800 && code < 0xDC00 && skip(p, '\\') && skip(p, 'u') &&
        regex_read_hex(p, 4, &low) && low >= 0xDC00 && low < 0xE000)
        return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    p->at = back;
    return code;
}

/* After a backslash, one character; a class escape adds its ranges and returns false. */
static bool regex_read_escape(struct parser *p, bool in_class, uint32_t *code)
{
    uint32_t c = more(p) ? p->codes[p->at++] : 0, hex;
    switch (c) {
    case 'd':
    case 'D':
        add_ranges(p, digits, 1, c == 'D');
        return false;
    case 'w':
    case 'W':
        add_ranges(p, words, 4, c == 'W');
        return false;
    case 's':
    case 'S':
        add_ranges(p, blanks, sizeof(blanks) / sizeof(blanks[0]), c == 'S');
        return false;
    case 'p':
    case 'P':
        regex_fail(p, LR_UNSUPPORTED, "\\p");
        return true;
    case 'b':
    case 'B':
        if (!in_class || c == 'B')
            regex_fail(p, LR_UNSUPPORTED, "the word boundary \\b");
        *code = 8;
        return true;
    case 'k':
        regex_fail(p, LR_UNSUPPORTED, "a reference to a group");
        return true;
    case 't':
        *code = 9;
        return true;
    case 'n':
        *code = 10;
        return true;
    case 'v':
        *code = 11;
        return true;
    case 'f':
        *code = 12;
        return true;
    case 'r':
        *code = 13;
        return true;
    case 'c':
        *code = more(p) ? p->codes[p->at++] % 32 : 0;
        return true;
    case 'x':
        *code = regex_read_hex(p, 2, &hex) ? hex : 'x';
        return true;
    case 'u':
        *code = read_unicode(p);
        return true;
    case '0':
        *code = 0;
        return true;
    default:
        if (c >= '1' && c <= '9')
            regex_fail(p, LR_UNSUPPORTED, "a reference to a group");
        *code = c;
        return true;
    }
}

/* After [ */
static const struct regex *read_class(struct parser *p)
{
    bool others = skip(p, '^');
    while (more(p) && !is_at(p, 0, ']')) {
        uint32_t low = p->codes[p->at++], high;
        if (low == '\\' && !regex_read_escape(p, true, &low))
            continue;
        high = low;
        if (is_at(p, 0, '-') && p->at + 1 < p->count && !is_at(p, 1, ']')) {
            size_t back = p->at++;
            high = p->codes[p->at++];
            if (high == '\\' && !regex_read_escape(p, true, &high)) {
                add_range(p, low, low); /* [a-\d]: the hyphen is one of the characters */
                add_range(p, '-', '-');
                continue;
            }
            if (high < low) {
                p->at = back;
                regex_fail(p, LR_INVALID_ARGUMENT,
                           "has a range of characters that is out of order");
            }
        }
        add_range(p, low, high);
    }
    if (!skip(p, ']'))
        regex_fail(p, LR_INVALID_ARGUMENT, "has a [ without a ]");
    return take_set(p, others);
}

/* ---- the grammar of patterns ---- */

static const struct regex *read_any_of(struct parser *p);

static const struct regex *read_group(struct parser *p)
{
    if (skip(p, '?')) {
        if (skip(p, '<')) {
            if (is_at(p, 0, '=') || is_at(p, 0, '!'))
                regex_fail(p, LR_UNSUPPORTED, "look-behind");
            while (more(p) && !skip(p, '>'))
                p->at++;
        } else if (is_at(p, 0, '=') || is_at(p, 0, '!')) {
            regex_fail(p, LR_UNSUPPORTED, "look-ahead that is not at the beginning");
        } else if (!skip(p, ':')) {
            regex_fail(p, LR_UNSUPPORTED, "(?");
        }
    }
    const struct regex *inside = read_any_of(p);
    if (!skip(p, ')'))
        regex_fail(p, LR_INVALID_ARGUMENT, "has a ( without a )");
    return inside;
}

static const struct regex *read_atom(struct parser *p)
{
    uint32_t c = p->codes[p->at++];
    switch (c) {
    case '(':
        return read_group(p);
    case '[':
        return read_class(p);
    case '.':
        add_ranges(p, line_ends, sizeof(line_ends) / sizeof(line_ends[0]), false);
        return take_set(p, true);
    case '^':
        return leaf(p, REGEX_BEGIN);
    case '$':
        return leaf(p, REGEX_END);
    case '*':
    case '+':
    case '?':
        regex_fail(p, LR_INVALID_ARGUMENT, "repeats nothing");
        return NULL;
    case '\\':
        if (!more(p))
            regex_fail(p, LR_INVALID_ARGUMENT, "ends with a backslash");
        if (regex_read_escape(p, false, &c))
            add_range(p, c, c);
        return take_set(p, false);
    default:
        add_range(p, c, c);
        return take_set(p, false);
    }
}

static bool regex_read_number(struct parser *p, uint32_t *out)
{
    size_t begin = p->at;
    uint32_t n = 0;
    while (p->at < p->count && p->codes[p->at] >= '0' && p->codes[p->at] <= '9') {
        n = n * 10 + (p->codes[p->at++] - '0');
        if (n > REGEX_COUNT_MAX)
            n = REGEX_COUNT_MAX;
    }
    *out = n;
    return p->at > begin;
}

/* {2}, {2,} or {2,5}; what is not one of them is taken as it stands. */
static bool read_braces(struct parser *p, uint32_t *min, uint32_t *max)
{
    size_t back = p->at++;
    if (regex_read_number(p, min)) {
        *max = *min;
        if (skip(p, ',') && !regex_read_number(p, max))
            *max = REGEX_ENDLESS;
        if (skip(p, '}'))
            return true;
    }
    p->at = back;
    return false;
}

static const struct regex *read_term(struct parser *p)
{
    const struct regex *atom = read_atom(p);
    while (more(p)) {
        uint32_t min = 0, max = REGEX_ENDLESS, c = p->codes[p->at];
        if (c == '{' && read_braces(p, &min, &max)) {
            if (max < min)
                regex_fail(p, LR_INVALID_ARGUMENT, "has a {n,m} with m below n");
        } else if (c == '*' || c == '+' || c == '?') {
            p->at++;
            min = c == '+';
            max = c == '?' ? 1 : REGEX_ENDLESS;
        } else {
            break;
        }
        (void)skip(p, '?'); /* which match is found does not matter here */
        atom = regex_make(
            p, (struct regex){.op = REGEX_REPEAT, .a = atom, .min = min, .max = max});
    }
    return atom;
}

static const struct regex *read_sequence(struct parser *p)
{
    const struct regex *all = NULL;
    while (more(p) && !is_at(p, 0, '|') && !is_at(p, 0, ')')) {
        const struct regex *term = read_term(p);
        all = all == NULL ? term : regex_join(p, REGEX_CAT, all, term);
    }
    return all != NULL ? all : leaf(p, REGEX_EMPTY);
}

static const struct regex *read_any_of(struct parser *p)
{
    if (++p->depth > DEPTH_MAX)
        regex_fail(p, LR_INVALID_ARGUMENT, "nests too deeply");
    const struct regex *all = read_sequence(p);
    while (more(p) && skip(p, '|'))
        all = regex_join(p, REGEX_ALT, all, read_sequence(p));
    p->depth--;
    return all;
}

/* ^(?!a)(?=b)rest: what the beginning has to look like are demands of their own. */
static void read_looks(struct parser *p)
{
    (void)skip(p, '^');
    while (more(p) && is_at(p, 0, '(') && is_at(p, 1, '?') &&
           (is_at(p, 2, '=') || is_at(p, 2, '!'))) {
        bool negative = is_at(p, 2, '!');
        p->at += 3;
        const struct regex *inside = read_any_of(p);
        if (!skip(p, ')'))
            regex_fail(p, LR_INVALID_ARGUMENT, "has a ( without a )");
        if (p->pattern->look_count == REGEX_LOOKS_MAX)
            regex_fail(p, LR_UNSUPPORTED, "look-ahead as often as this");
        if (p->code != LR_OK)
            return;
        p->pattern->looks[p->pattern->look_count].negative = negative;
        p->pattern->looks[p->pattern->look_count++].tree =
            regex_join(p, REGEX_CAT, leaf(p, REGEX_BEGIN), inside);
    }
}

static bool has_looks(const struct parser *p)
{
    return is_at(p, 0, '^') && is_at(p, 1, '(') && is_at(p, 2, '?') &&
           (is_at(p, 3, '=') || is_at(p, 3, '!'));
}

static uint32_t *regex_decode(struct lr_arena *arena, struct lr_str text, size_t *count)
{
    uint32_t *codes = lr_arena_array(arena, text.len + 1, sizeof(*codes));
    *count = 0;
    for (size_t i = 0; codes != NULL && i < text.len;) {
        unsigned char c = (unsigned char)text.ptr[i];
        uint32_t len = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
        uint32_t code = len == 1 ? c : c & (0xFFu >> (len + 1));
        for (uint32_t k = 1; k < len && i + k < text.len; k++)
            code = code << 6 | ((unsigned char)text.ptr[i + k] & 0x3F);
        codes[(*count)++] = code;
        i += len;
    }
    return codes;
}

lr_code grammar_regex_parse(struct lr_arena *arena, struct lr_str text,
                            struct regex_pattern *out, struct lr_error *err)
{
    struct parser p = {.arena = arena, .pattern = out, .err = err};
    *out = (struct regex_pattern){0};
    p.codes = regex_decode(arena, text, &p.count);
    p.ranges = calloc(1, sizeof(*p.ranges));
    if (p.codes == NULL || p.ranges == NULL) {
        free(p.ranges);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a regular expression");
    }
    bool anchored = has_looks(&p);
    if (anchored)
        read_looks(&p);
    out->tree = anchored ? read_sequence(&p) : read_any_of(&p);
    if (anchored && more(&p) && is_at(&p, 0, '|'))
        regex_fail(&p, LR_UNSUPPORTED, "look-ahead beside alternatives");
    if (anchored && p.code == LR_OK)
        out->tree = regex_join(&p, REGEX_CAT, leaf(&p, REGEX_BEGIN), out->tree);
    if (p.code == LR_OK && p.at < p.count)
        regex_fail(&p, LR_INVALID_ARGUMENT, "has a ) without a (");
    free(p.ranges);
    return p.code;
}

/* ---- given texts ---- */

const struct regex *grammar_regex_of_texts(struct lr_arena *arena, const struct lr_str *texts,
                                           size_t count)
{
    struct lr_error ignored;
    struct ranges *ranges = calloc(1, sizeof(*ranges));
    struct parser p = {.arena = arena, .err = &ignored, .ranges = ranges};
    const struct regex *all = NULL;
    for (size_t i = 0; ranges != NULL && i < count && p.code == LR_OK; i++) {
        p.codes = regex_decode(arena, texts[i], &p.count);
        const struct regex *one = leaf(&p, REGEX_BEGIN);
        for (size_t k = 0; p.codes != NULL && k < p.count && p.code == LR_OK; k++) {
            add_range(&p, p.codes[k], p.codes[k]);
            one = regex_join(&p, REGEX_CAT, one, take_set(&p, false));
        }
        one = regex_join(&p, REGEX_CAT, one, leaf(&p, REGEX_END));
        all = all == NULL ? one : regex_join(&p, REGEX_ALT, all, one);
        if (p.codes == NULL)
            p.code = LR_OUT_OF_RAM;
    }
    free(ranges);
    return p.code == LR_OK && ranges != NULL ? all : NULL;
}
