/* grammar/gbnf.c - see grammar/gbnf.h: from text to trees.
 *
 * As in llama.cpp a rule ends with its line.  Line breaks are white space inside of
 * parentheses, after "::=" and after "|".  Here they are also before "|".
 */
#include "grammar/gbnf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/utf8.h"

enum { RANGES_MAX = 1024, TEXT_MAX = 1 << 16, STACKED_MAX = 4 };

struct parser {
    struct gbnf *g;
    const char *text;
    size_t len, at;
    uint32_t rule; /* that is being read */
    uint32_t depth;
    struct regex_range ranges[RANGES_MAX]; /* of a class */
    uint32_t range_count;
};

void grammar_gbnf_fail(struct gbnf *g, uint32_t at, lr_code code, const char *fmt, ...)
{
    char text[300];
    uint32_t line = 1, column = 1;
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    for (uint32_t i = 0; i < at && i < g->text.len; i++) {
        bool is_end = g->text.ptr[i] == '\n';
        line += is_end;
        if (is_end)
            column = 1;
        else
            column += (g->text.ptr[i] & 0xC0) != 0x80; /* a character has one first byte */
    }
    grammar_fail(g->b, code, "line %u, column %u: %s", line, column, text);
}

static void wrong(struct parser *p, const char *what)
{
    grammar_gbnf_fail(p->g, (uint32_t)p->at, LR_INVALID_ARGUMENT, "%s", what);
}

static bool ok(const struct parser *p)
{
    return p->g->b->code == LR_OK;
}

static char gbnf_peek(const struct parser *p)
{
    return p->at < p->len ? p->text[p->at] : '\0';
}

static bool begins(const struct parser *p, const char *word)
{
    size_t n = strlen(word);
    return p->len - p->at >= n && memcmp(p->text + p->at, word, n) == 0;
}

static bool is_line_end(char c)
{
    return c == '\n' || c == '\r';
}

static void skip_space(struct parser *p, bool lines)
{
    while (p->at < p->len) {
        char c = p->text[p->at];
        if (c == '#')
            while (p->at < p->len && !is_line_end(p->text[p->at]))
                p->at++;
        else if (c == ' ' || c == '\t' || (lines && is_line_end(c)))
            p->at++;
        else
            break;
    }
}

/* ---- nodes and rules ---- */

static void *gbnf_grow(struct gbnf *g, void *old, uint32_t used, uint32_t *capacity,
                       size_t size)
{
    if (used < *capacity)
        return old;
    uint32_t wanted = *capacity != 0 ? 2 * *capacity : 64;
    void *grown = lr_arena_array(&g->b->arena, wanted, size);
    if (grown == NULL) {
        grammar_fail(g->b, LR_OUT_OF_RAM, "no memory for a grammar");
        return old;
    }
    if (used != 0)
        memcpy(grown, old, used * size);
    *capacity = wanted;
    return grown;
}

static uint32_t gbnf_add_node(struct parser *p, enum gbnf_op op, size_t at)
{
    struct gbnf *g = p->g;
    if (g->count == GBNF_NODES_MAX)
        grammar_gbnf_fail(g, (uint32_t)at, LR_INVALID_ARGUMENT,
                          "the grammar is too large: it has more than %d parts",
                          GBNF_NODES_MAX);
    if (!grammar_charge(g->b, 1))
        return 0;
    g->nodes = gbnf_grow(g, g->nodes, g->count, &g->capacity, sizeof(*g->nodes));
    if (!ok(p))
        return 0;
    g->nodes[g->count] =
        (struct gbnf_node){.op = (uint8_t)op, .rule = p->rule, .at = (uint32_t)at};
    return g->count++;
}

/* A node around those of a list that are linked by `next`.  A single one needs none. */
static uint32_t around(struct parser *p, enum gbnf_op op, uint32_t first, uint32_t count,
                       size_t at)
{
    if (count == 1)
        return first;
    uint32_t node = gbnf_add_node(p, op, at);
    if (!ok(p))
        return 0;
    p->g->nodes[node].below = first;
    p->g->nodes[node].count = count;
    for (uint32_t i = first; i != 0; i = p->g->nodes[i].next)
        p->g->nodes[i].above = node;
    return node;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '-' || c == '_';
}

static uint32_t find_rule(struct parser *p, struct lr_str name)
{
    struct gbnf *g = p->g;
    uint32_t at = grammar_name_hash(name) % GRAMMAR_RULE_SLOTS;
    for (; g->slots[at] != 0; at = (at + 1) % GRAMMAR_RULE_SLOTS)
        if (lr_str_eq(g->rules[g->slots[at] - 1].name, name))
            return g->slots[at] - 1;
    if (g->rule_count == GRAMMAR_RULES_MAX - 2) {
        grammar_gbnf_fail(g, (uint32_t)p->at, LR_INVALID_ARGUMENT,
                          "the grammar has more than %d rules", GRAMMAR_RULES_MAX - 2);
        return 0;
    }
    g->rules = gbnf_grow(g, g->rules, g->rule_count, &g->rule_capacity, sizeof(*g->rules));
    if (!ok(p))
        return 0;
    g->rules[g->rule_count] =
        (struct gbnf_rule){.name = name, .at = (uint32_t)(p->at - name.len)};
    g->slots[at] = ++g->rule_count;
    return g->rule_count - 1;
}

static uint32_t read_name(struct parser *p)
{
    size_t begin = p->at;
    while (p->at < p->len && is_name(p->text[p->at]))
        p->at++;
    return find_rule(p, lr_str(p->text + begin, p->at - begin));
}

/* ---- characters ---- */

static uint32_t gbnf_read_hex(struct parser *p, uint32_t digits)
{
    uint32_t code = 0;
    for (uint32_t i = 0; i < digits; i++) {
        int digit = lr_hex_digit(gbnf_peek(p));
        if (digit < 0) {
            wrong(p, "an escape has 2 hexadecimal digits after \\x, 4 after \\u, 8 after \\U");
            return 0;
        }
        code = code > REGEX_CODE_MAX ? code : code * 16 + (uint32_t)digit;
        p->at++;
    }
    if (code > REGEX_CODE_MAX || (code >= 0xD800 && code < 0xE000))
        wrong(p, "an escape is not a character of Unicode");
    return code;
}

static uint32_t gbnf_read_escape(struct parser *p)
{
    char c = gbnf_peek(p);
    p->at++;
    switch (c) {
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    case 't':
        return '\t';
    case '\\':
    case '"':
    case '[':
    case ']':
    case '-':
    case '^':
        return (unsigned char)c;
    case 'x':
        return gbnf_read_hex(p, 2);
    case 'u':
        return gbnf_read_hex(p, 4);
    case 'U':
        return gbnf_read_hex(p, 8);
    default:
        p->at--;
        wrong(p, "an escape is one of \\n \\r \\t \\\\ \\\" \\[ \\] \\- \\^ \\xHH \\uHHHH "
                 "\\UHHHHHHHH");
        return 0;
    }
}

/* The next character of a text or a class that `end` ends. */
static uint32_t read_char(struct parser *p, const char *unended)
{
    uint32_t code = 0;
    if (p->at >= p->len) {
        wrong(p, unended);
        return 0;
    }
    if (p->text[p->at] == '\\') {
        p->at++;
        return gbnf_read_escape(p);
    }
    int len = lr_utf8_decode(p->text + p->at, p->len - p->at, &code);
    if (len <= 0)
        wrong(p, "the grammar is not valid UTF-8");
    else
        p->at += (size_t)len;
    return code;
}

/* After the opening quote. */
static uint32_t gbnf_read_text(struct parser *p)
{
    size_t begin = p->at - 1;
    struct lr_buf text;
    lr_buf_init(&text, TEXT_MAX);
    while (ok(p) && gbnf_peek(p) != '"') {
        char bytes[4];
        size_t len = lr_utf8_encode(read_char(p, "a text has no closing quote"), bytes);
        if (ok(p))
            lr_buf_add(&text, bytes, len);
    }
    p->at++;
    uint32_t node = gbnf_add_node(p, GBNF_TEXT, begin);
    const char *copy =
        ok(p) && !text.failed ? lr_arena_copy(&p->g->b->arena, lr_buf_str(&text)) : NULL;
    if (ok(p) && text.failed)
        grammar_gbnf_fail(p->g, (uint32_t)begin, LR_INVALID_ARGUMENT,
                          "a text has more than %d bytes", TEXT_MAX);
    else if (ok(p) && copy == NULL)
        grammar_fail(p->g->b, LR_OUT_OF_RAM, "no memory for a grammar");
    if (ok(p))
        p->g->nodes[node].text = lr_str(copy, text.len);
    lr_buf_free(&text);
    return node;
}

static int by_low(const void *a, const void *b)
{
    const struct regex_range *x = a, *y = b;
    return x->low < y->low ? -1 : x->low > y->low;
}

/* Sorts the ranges of a class, and joins those that meet. */
static void tidy(struct parser *p)
{
    struct regex_range *r = p->ranges;
    uint32_t count = 0;
    qsort(r, p->range_count, sizeof(*r), by_low);
    for (uint32_t i = 0; i < p->range_count; i++) {
        if (count > 0 && r[i].low <= r[count - 1].high + 1)
            r[count - 1].high = r[i].high > r[count - 1].high ? r[i].high : r[count - 1].high;
        else
            r[count++] = r[i];
    }
    p->range_count = count;
}

/* Adds a range without the surrogates, which are no characters. */
static uint32_t put_range(struct regex_range *list, uint32_t count, uint32_t low, uint32_t high)
{
    uint32_t first_high = high < 0xD7FF ? high : 0xD7FF;
    uint32_t last_low = low > 0xE000 ? low : 0xE000;
    if (low <= first_high)
        list[count++] = (struct regex_range){low, first_high};
    if (last_low <= high)
        list[count++] = (struct regex_range){last_low, high};
    return count;
}

/* A node for the ranges that were gathered, or for all other characters. */
static uint32_t take_set(struct parser *p, bool others, size_t begin)
{
    uint32_t node = gbnf_add_node(p, GBNF_SET, begin), used = 0, from = 0;
    tidy(p);
    struct regex_range *list =
        lr_arena_array(&p->g->b->arena, p->range_count + 2, 2 * sizeof(*list));
    if (ok(p) && list == NULL)
        grammar_fail(p->g->b, LR_OUT_OF_RAM, "no memory for a grammar");
    if (!ok(p))
        return 0;
    for (uint32_t i = 0; i < p->range_count; i++) {
        const struct regex_range *r = &p->ranges[i];
        if (!others)
            used = put_range(list, used, r->low, r->high);
        else if (r->low > from)
            used = put_range(list, used, from, r->low - 1);
        from = r->high + 1;
    }
    if (others && from <= REGEX_CODE_MAX)
        used = put_range(list, used, from, REGEX_CODE_MAX);
    p->range_count = 0;
    if (used == 0)
        grammar_gbnf_fail(p->g, (uint32_t)begin, LR_INVALID_ARGUMENT,
                          "a class of characters has none");
    p->g->nodes[node].set = (struct regex_set){list, used};
    return node;
}

/* After the opening bracket. */
static uint32_t read_class(struct parser *p)
{
    static const char unended[] = "a class of characters has no closing bracket";
    size_t begin = p->at - 1;
    bool others = gbnf_peek(p) == '^';
    p->at += others;
    while (ok(p) && gbnf_peek(p) != ']') {
        size_t at = p->at;
        uint32_t low = read_char(p, unended), high = low;
        if (ok(p) && gbnf_peek(p) == '-' && p->at + 1 < p->len && p->text[p->at + 1] != ']') {
            p->at++;
            high = read_char(p, unended);
        }
        if (ok(p) && (high < low || p->range_count == RANGES_MAX)) {
            p->at = at;
            wrong(p, high < low ? "a range of characters is out of order"
                                : "a class has too many ranges of characters");
        }
        if (ok(p))
            p->ranges[p->range_count++] = (struct regex_range){low, high};
    }
    p->at++;
    return ok(p) ? take_set(p, others, begin) : 0;
}

/* ---- sequences and alternatives ---- */

static uint32_t read_any_of(struct parser *p, bool nested);

static bool read_count(struct parser *p, uint32_t *out)
{
    size_t begin = p->at;
    *out = 0;
    for (; gbnf_peek(p) >= '0' && gbnf_peek(p) <= '9'; p->at++)
        *out = *out <= REGEX_COUNT_MAX ? *out * 10 + (uint32_t)(gbnf_peek(p) - '0') : *out;
    if (*out > REGEX_COUNT_MAX) {
        p->at = begin;
        grammar_gbnf_fail(p->g, (uint32_t)begin, LR_INVALID_ARGUMENT,
                          "a repetition goes up to %d times", REGEX_COUNT_MAX);
    }
    return p->at > begin;
}

/* After the opening brace: {2}, {2,} or {2,5}. */
static void read_braces(struct parser *p, bool nested, uint32_t *min, uint32_t *max)
{
    size_t begin = p->at - 1;
    skip_space(p, nested);
    bool is_right = read_count(p, min);
    *max = *min;
    skip_space(p, nested);
    if (is_right && gbnf_peek(p) == ',') {
        p->at++;
        skip_space(p, nested);
        if (!read_count(p, max))
            *max = REGEX_ENDLESS;
        skip_space(p, nested);
    }
    if (!ok(p))
        return;
    is_right = is_right && gbnf_peek(p) == '}' && *max >= *min;
    p->at++;
    if (!is_right)
        grammar_gbnf_fail(p->g, (uint32_t)begin, LR_INVALID_ARGUMENT,
                          "a repetition is {n}, {n,} or {n,m} with m not below n");
}

/* What the character at hand says about the node before it; false: nothing. */
static bool read_repeat(struct parser *p, bool nested, uint32_t *node)
{
    size_t begin = p->at;
    uint32_t min = 0, max = REGEX_ENDLESS;
    char c = gbnf_peek(p);
    if (c != '*' && c != '+' && c != '?' && c != '{')
        return false;
    if (*node == 0) {
        wrong(p, "a repetition has nothing before it");
        return false;
    }
    p->at++;
    if (c == '{')
        read_braces(p, nested, &min, &max);
    else
        min = c == '+', max = c == '?' ? 1 : REGEX_ENDLESS;
    uint32_t around_it = gbnf_add_node(p, GBNF_REPEAT, begin);
    if (!ok(p))
        return false;
    struct gbnf_node *r = &p->g->nodes[around_it];
    r->min = min;
    r->max = max;
    r->below = *node;
    r->count = 1;
    p->g->nodes[*node].above = around_it;
    *node = around_it;
    return true;
}

static uint32_t read_group(struct parser *p)
{
    size_t begin = p->at++;
    if (++p->depth > GBNF_DEPTH_MAX) {
        grammar_gbnf_fail(p->g, (uint32_t)begin, LR_INVALID_ARGUMENT,
                          "parentheses nest deeper than %d", GBNF_DEPTH_MAX);
        return 0;
    }
    skip_space(p, true);
    uint32_t node = read_any_of(p, true);
    if (ok(p) && gbnf_peek(p) != ')')
        grammar_gbnf_fail(p->g, (uint32_t)begin, LR_INVALID_ARGUMENT, "a ( has no )");
    p->at++;
    p->depth--;
    return node;
}

static uint32_t read_use(struct parser *p)
{
    size_t begin = p->at;
    uint32_t rule = read_name(p), node = gbnf_add_node(p, GBNF_RULE, begin);
    if (!ok(p))
        return 0;
    p->g->nodes[node].uses = rule;
    p->g->nodes[node].again = p->g->rules[rule].used;
    p->g->rules[rule].used = node;
    return node;
}

/* One part of a sequence; 0: the sequence is over. */
static uint32_t gbnf_read_part(struct parser *p)
{
    size_t begin = p->at;
    char c = gbnf_peek(p);
    if (p->at >= p->len)
        return 0;
    if (c == '<' || begins(p, "!<")) {
        grammar_gbnf_fail(p->g, (uint32_t)p->at, LR_UNSUPPORTED,
                          "a reference to a token (<...>) is not supported; write its text");
        return 0;
    }
    switch (c) {
    case '"':
        p->at++;
        return gbnf_read_text(p);
    case '[':
        p->at++;
        return read_class(p);
    case '.':
        p->at++;
        return take_set(p, true, begin);
    case '(':
        return read_group(p);
    default:
        return is_name(c) ? read_use(p) : 0;
    }
}

static uint32_t read_sequence(struct parser *p, bool nested)
{
    size_t begin = p->at;
    uint32_t first = 0, last = 0, count = 0;
    while (ok(p)) {
        uint32_t node = gbnf_read_part(p), stacked = 0;
        skip_space(p, nested);
        while (ok(p) && read_repeat(p, nested, &node)) {
            skip_space(p, nested);
            if (++stacked > STACKED_MAX)
                wrong(p, "too many repetitions of a repetition");
        }
        if (node == 0 || !ok(p))
            break;
        if (last != 0)
            p->g->nodes[last].next = node;
        else
            first = node;
        last = node;
        count++;
    }
    return ok(p) ? around(p, GBNF_ALL, first, count, begin) : 0;
}

/* Moves to the "|" that goes on with the alternatives; false: there is none. */
static bool find_bar(struct parser *p)
{
    size_t back = p->at;
    skip_space(p, true);
    if (gbnf_peek(p) == '|')
        return true;
    p->at = back;
    return false;
}

static uint32_t read_any_of(struct parser *p, bool nested)
{
    size_t begin = p->at;
    uint32_t first = read_sequence(p, nested), last = first, count = 1;
    while (ok(p) && find_bar(p)) {
        p->at++;
        skip_space(p, true);
        uint32_t node = read_sequence(p, nested);
        if (!ok(p))
            return 0;
        p->g->nodes[last].next = node;
        last = node;
        count++;
    }
    return ok(p) ? around(p, GBNF_ANY, first, count, begin) : 0;
}

static void read_rule(struct parser *p)
{
    struct gbnf *g = p->g;
    size_t begin = p->at;
    if (!is_name(gbnf_peek(p))) {
        wrong(p, "expected the name of a rule");
        return;
    }
    p->rule = read_name(p);
    skip_space(p, false);
    if (ok(p) && !begins(p, "::="))
        wrong(p, "expected \"::=\" after the name of a rule");
    if (ok(p) && g->rules[p->rule].node != 0)
        grammar_gbnf_fail(g, (uint32_t)begin, LR_INVALID_ARGUMENT,
                          "rule '" LR_STR_FMT "' is defined twice",
                          LR_STR_ARG(lr_str_sub(g->rules[p->rule].name, 0, 64)));
    if (!ok(p))
        return;
    p->at += 3;
    skip_space(p, true);
    uint32_t node = read_any_of(p, false);
    if (ok(p) && p->at < p->len && !is_line_end(p->text[p->at]))
        wrong(p,
              "expected a text, a class, a rule, a repetition, \"|\" or the end of the line");
    if (!ok(p))
        return;
    g->rules[p->rule].node = node;
    g->rules[p->rule].at = (uint32_t)begin;
    skip_space(p, true);
}

/* Every rule that is used has to be defined. */
static void find_undefined(struct gbnf *g)
{
    for (uint32_t i = 0; i < g->rule_count; i++) {
        const struct gbnf_rule *r = &g->rules[i];
        if (r->node == 0)
            grammar_gbnf_fail(g, r->at, LR_INVALID_ARGUMENT,
                              "rule '" LR_STR_FMT "' is not defined",
                              LR_STR_ARG(lr_str_sub(r->name, 0, 64)));
    }
}

bool grammar_gbnf_parse(struct gbnf *g)
{
    struct lr_arena *arena = &g->b->arena;
    struct parser *p = lr_arena_zalloc(arena, sizeof(*p));
    g->slots = lr_arena_zalloc(arena, GRAMMAR_RULE_SLOTS * sizeof(*g->slots));
    if (p == NULL || g->slots == NULL) {
        grammar_fail(g->b, LR_OUT_OF_RAM, "no memory for a grammar");
        return false;
    }
    *p = (struct parser){.g = g, .text = g->text.ptr, .len = g->text.len};
    (void)gbnf_add_node(p, GBNF_NONE, 0);
    skip_space(p, true);
    while (ok(p) && p->at < p->len)
        read_rule(p);
    if (ok(p))
        find_undefined(g);
    g->root = g->rule_count;
    for (uint32_t i = 0; i < g->rule_count; i++)
        if (lr_str_eq_z(g->rules[i].name, "root"))
            g->root = i;
    if (ok(p) && g->root == g->rule_count)
        grammar_gbnf_fail(g, (uint32_t)g->text.len, LR_INVALID_ARGUMENT,
                          "the grammar has no rule 'root'");
    return ok(p);
}
