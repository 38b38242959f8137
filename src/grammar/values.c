/* grammar/values.c - see grammar/program.h: JSON values as in RFC 8259.
 *
 * Endless runs without meaning are limited: blanks are allowed only after '{', '[', ',' and ':'
 * and before '}' and ']' (GRAMMAR_SPACE), a number has at most 20 digits before and 20 after
 * its point, an exponent two.
 */
#include "grammar/schema.h"

enum { DIGITS = 20, EXPONENT_DIGITS = 2 };

uint32_t grammar_string(struct grammar_build *b, uint32_t min, uint32_t max, uint32_t next)
{
    uint32_t end = grammar_byte(b, '"', '"', next);
    return grammar_byte(b, '"', '"', grammar_chars(b, min, max, end));
}

/* min to max digits. */
static uint32_t digits(struct grammar_build *b, uint32_t min, uint32_t max, uint32_t next)
{
    uint32_t at = next;
    for (uint32_t i = max; i > 0; i--) {
        at = grammar_byte(b, '0', '9', at);
        if (i > min)
            at = grammar_fork(b, at, next);
    }
    return at;
}

static uint32_t grammar_values_whole(struct grammar_build *b, uint32_t next)
{
    uint32_t rest = digits(b, 0, DIGITS - 1, next);
    uint32_t positive =
        grammar_fork(b, grammar_byte(b, '0', '0', next), grammar_byte(b, '1', '9', rest));
    return grammar_fork(b, positive, grammar_byte(b, '-', '-', positive));
}

static uint32_t real(struct grammar_build *b, uint32_t next)
{
    uint32_t power = digits(b, 1, EXPONENT_DIGITS, next);
    uint32_t sign = grammar_fork(
        b, power,
        grammar_fork(b, grammar_byte(b, '+', '+', power), grammar_byte(b, '-', '-', power)));
    uint32_t exponent =
        grammar_fork(b, grammar_byte(b, 'e', 'e', sign), grammar_byte(b, 'E', 'E', sign));
    uint32_t end = grammar_fork(b, exponent, next);
    uint32_t fraction = grammar_byte(b, '.', '.', digits(b, 1, DIGITS, end));
    return grammar_values_whole(b, grammar_fork(b, fraction, end));
}

uint32_t grammar_number(struct grammar_build *b, uint32_t next)
{
    if (b->rule_number == GRAMMAR_NO_RULE) {
        b->rule_number = grammar_rule_add(b, NULL, 0);
        uint32_t entry = real(b, grammar_step(b, GRAMMAR_RETURN, 0, 0));
        if (b->code == LR_OK)
            b->program->rules[b->rule_number].entry = entry;
    }
    return grammar_call(b, b->rule_number, next);
}

uint32_t grammar_integer(struct grammar_build *b, uint32_t next)
{
    if (b->rule_integer == GRAMMAR_NO_RULE) {
        b->rule_integer = grammar_rule_add(b, NULL, 0);
        uint32_t entry = grammar_values_whole(b, grammar_step(b, GRAMMAR_RETURN, 0, 0));
        if (b->code == LR_OK)
            b->program->rules[b->rule_integer].entry = entry;
    }
    return grammar_call(b, b->rule_integer, next);
}

/* item, then ", item" any number of times, then `close`. */
static uint32_t
grammar_values_list_of(struct grammar_build *b, char open, char close, uint32_t next,
                       uint32_t (*item)(struct grammar_build *, uint32_t rule, uint32_t next),
                       uint32_t rule)
{
    uint32_t end = grammar_byte(b, close, close, next);
    uint32_t loop = grammar_fork(b, 0, 0);
    uint32_t first = item(b, rule, loop);
    grammar_patch(b, loop, grammar_byte(b, ',', ',', grammar_space(b, first)),
                  grammar_space(b, end));
    return grammar_byte(b, open, open, grammar_space(b, grammar_fork(b, first, end)));
}

static uint32_t member(struct grammar_build *b, uint32_t rule, uint32_t next)
{
    uint32_t value = grammar_call(b, rule, next);
    uint32_t colon = grammar_byte(b, ':', ':', grammar_space(b, value));
    const struct dfa *any = grammar_schema_any_dfa(b);
    return any != NULL ? grammar_byte(b, '"', '"', grammar_key(b, any, NULL, 0, colon)) : 0;
}

/* "key": value, ... in braces; `value` is the rule of the values. */
static uint32_t map(struct grammar_build *b, uint32_t value, uint32_t next)
{
    return grammar_values_list_of(b, '{', '}', next, member, value);
}

static uint32_t any_body(struct grammar_build *b, uint32_t next)
{
    struct grammar_choice words[] = {
        {LR_STR_LIT("true"), next}, {LR_STR_LIT("false"), next}, {LR_STR_LIT("null"), next}};
    uint32_t at = grammar_choose(b, words, 3);
    at = grammar_fork(b, at, grammar_number(b, next));
    at = grammar_fork(b, at, grammar_string(b, 0, GRAMMAR_UNBOUNDED, next));
    at = grammar_fork(b, at,
                      grammar_values_list_of(b, '[', ']', next, grammar_call, b->rule_any));
    return grammar_fork(b, at, map(b, b->rule_any, next));
}

static uint32_t any_rule(struct grammar_build *b)
{
    if (b->rule_any == GRAMMAR_NO_RULE) {
        b->rule_any = grammar_rule_add(b, NULL, 0);
        uint32_t entry = any_body(b, grammar_step(b, GRAMMAR_RETURN, 0, 0));
        if (b->code == LR_OK)
            b->program->rules[b->rule_any].entry = entry;
    }
    return b->rule_any;
}

uint32_t grammar_any(struct grammar_build *b, uint32_t next)
{
    return grammar_call(b, any_rule(b), next);
}

/* In a rule of its own, as everything that keeps a set. */
uint32_t grammar_any_object(struct grammar_build *b, uint32_t next)
{
    uint32_t any = any_rule(b), rule = grammar_rule_add(b, NULL, 0);
    uint32_t entry = map(b, any, grammar_step(b, GRAMMAR_RETURN, 0, 0));
    if (b->code != LR_OK)
        return 0;
    b->program->rules[rule].entry = entry;
    return grammar_call(b, rule, next);
}

uint32_t grammar_any_rule(struct grammar_build *b)
{
    return any_rule(b);
}
