/* grammar/formats.c - see grammar/program.h: string formats known by name.
 *
 * Dates and times as in RFC 3339, and UUIDs.  Days are limited by their month; February has 29.
 */
#include "grammar/program.h"

static uint32_t digits(struct grammar_build *b, uint32_t count, uint32_t next)
{
    while (count-- > 0)
        next = grammar_byte(b, '0', '9', next);
    return next;
}

static uint32_t one(struct grammar_build *b, char c, uint32_t next)
{
    return grammar_byte(b, c, c, next);
}

/* Two digits, from `from` (00 or 01) to `to`. */
static uint32_t pair(struct grammar_build *b, uint32_t from, uint32_t to, uint32_t next)
{
    char tens = (char)('0' + to / 10), ones = (char)('0' + to % 10);
    uint32_t last = one(b, tens, grammar_byte(b, '0', ones, next));
    uint32_t first = one(b, '0', grammar_byte(b, from == 0 ? '0' : '1', '9', next));
    uint32_t result = grammar_fork(b, first, last);
    if (tens > '1')
        result =
            grammar_fork(b, result, grammar_byte(b, '1', (char)(tens - 1), digits(b, 1, next)));
    return result;
}

static uint32_t date(struct grammar_build *b, uint32_t next)
{
    uint32_t long_month = one(b, '-', pair(b, 1, 31, next));
    uint32_t short_month = one(b, '-', pair(b, 1, 30, next));
    uint32_t february = one(b, '-', pair(b, 1, 29, next));
    struct grammar_choice months[] = {
        {LR_STR_LIT("01"), long_month},  {LR_STR_LIT("02"), february},
        {LR_STR_LIT("03"), long_month},  {LR_STR_LIT("04"), short_month},
        {LR_STR_LIT("05"), long_month},  {LR_STR_LIT("06"), short_month},
        {LR_STR_LIT("07"), long_month},  {LR_STR_LIT("08"), long_month},
        {LR_STR_LIT("09"), short_month}, {LR_STR_LIT("10"), long_month},
        {LR_STR_LIT("11"), short_month}, {LR_STR_LIT("12"), long_month},
    };
    uint32_t month = grammar_choose(b, months, sizeof(months) / sizeof(months[0]));
    return digits(b, 4, one(b, '-', month));
}

/* hh:mm:ss, up to nine digits of a second, and Z or an offset. */
static uint32_t time_of_day(struct grammar_build *b, uint32_t next)
{
    uint32_t distance = pair(b, 0, 23, one(b, ':', pair(b, 0, 59, next)));
    uint32_t zone = grammar_fork(b, one(b, 'Z', next),
                                 grammar_fork(b, one(b, '+', distance), one(b, '-', distance)));
    uint32_t part = zone;
    for (int i = 0; i < 9; i++) {
        part = grammar_byte(b, '0', '9', part);
        if (i < 8)
            part = grammar_fork(b, part, zone);
    }
    uint32_t second = pair(b, 0, 59, grammar_fork(b, one(b, '.', part), zone));
    return pair(b, 0, 23, one(b, ':', pair(b, 0, 59, one(b, ':', second))));
}

static uint32_t uuid(struct grammar_build *b, uint32_t next)
{
    static const uint32_t groups[] = {12, 4, 4, 4, 8}; /* from the last */
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++) {
        if (i > 0)
            next = one(b, '-', next);
        for (uint32_t k = 0; k < groups[i]; k++)
            next = grammar_fork(b, grammar_byte(b, '0', '9', next),
                                grammar_byte(b, 'a', 'f', next));
    }
    return next;
}

bool grammar_format(struct grammar_build *b, struct lr_str name, uint32_t next, uint32_t *out)
{
    static const struct {
        const char *name;
        uint32_t (*compile)(struct grammar_build *b, uint32_t next);
    } formats[] = {{"date", date}, {"time", time_of_day}, {"uuid", uuid}};
    if (lr_str_eq_z(name, "date-time")) {
        uint32_t end = grammar_byte(b, '"', '"', next);
        *out = one(b, '"', date(b, one(b, 'T', time_of_day(b, end))));
        return true;
    }
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
        if (lr_str_eq_z(name, formats[i].name)) {
            *out = one(b, '"', formats[i].compile(b, grammar_byte(b, '"', '"', next)));
            return true;
        }
    return false;
}
