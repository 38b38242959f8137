/* base/units.c - sizes and durations as people type them, and "did you mean". */
#include <stdio.h>

#include "base/settings.h"

struct unit {
    const char *name;
    uint64_t scale;
};

/* "1.5" + "GiB": decimal digits with an optional fraction, then one of the units.
 * Integers throughout, so that 0.1GB is exact; digits past the ninth are cut off. */
static bool parse_scaled(struct lr_str text, const struct unit *units, uint64_t *out)
{
    size_t at = 0;
    while (at < text.len &&
           ((text.ptr[at] >= '0' && text.ptr[at] <= '9') || text.ptr[at] == '.'))
        at++;
    struct lr_str number = lr_str(text.ptr, at), whole_text,
                  unit = lr_str_sub(text, at, text.len);
    uint64_t whole, scale = 0;
    if (!lr_str_split(&number, '.', &whole_text) || !lr_str_u64(whole_text, &whole))
        return false;
    for (; units->name != NULL && scale == 0; units++)
        if (lr_str_eq_nocase(unit, lr_str_z(units->name)))
            scale = units->scale;
    if (scale == 0 || whole > UINT64_MAX / scale)
        return false;
    uint64_t value = whole * scale, part = 0;
    if (number.ptr != NULL) {
        uint64_t digits, weight = 1;
        number = lr_str_sub(number, 0, 9);
        if (!lr_str_u64(number, &digits))
            return false;
        for (size_t i = 0; i < number.len; i++)
            weight *= 10;
        /* scale / weight * digits, in two steps so that nothing overflows */
        part = scale / weight * digits + scale % weight * digits / weight;
    }
    if (part > UINT64_MAX - value)
        return false;
    *out = value + part;
    return true;
}

bool lr_parse_size(struct lr_str text, uint64_t *bytes)
{
    static const struct unit units[] = {
        {"", 1},
        {"B", 1},
        {"KiB", 1 << 10},
        {"MiB", 1 << 20},
        {"GiB", 1 << 30},
        {"TiB", (uint64_t)1 << 40},
        {"K", 1 << 10},
        {"M", 1 << 20},
        {"G", 1 << 30},
        {"T", (uint64_t)1 << 40},
        {"KB", 1000},
        {"MB", 1000000},
        {"GB", 1000000000},
        {"TB", 1000000000000},
        {NULL, 0},
    };
    return parse_scaled(text, units, bytes);
}

bool lr_parse_duration(struct lr_str text, uint64_t *ms)
{
    static const struct unit units[] = {
        {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}, {NULL, 0},
    };
    if (lr_str_eq_z(text, "0")) {
        *ms = 0;
        return true;
    }
    return parse_scaled(text, units, ms);
}

void lr_format_size(uint64_t bytes, char out[32])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1024 && unit < 4) {
        value /= 1024;
        unit++;
    }
    (void)snprintf(out, 32, unit == 0 ? "%.0f %s" : "%.1f %s", value, names[unit]);
}

enum { LONGEST_WORD = 63 };

/* Edit distance: insertions, deletions, substitutions and swaps of neighbours (optimal string
 * alignment), in three rolling rows. */
static size_t distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
    size_t rows[3][LONGEST_WORD + 1];
    for (size_t j = 0; j <= b_len; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= a_len; i++) {
        size_t *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best)
                best = above[j] + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                two_above[j - 2] + 1 < best)
                best = two_above[j - 2] + 1;
            row[j] = best;
        }
    }
    return rows[a_len % 3][b_len];
}

const char *lr_closest(const char *word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    size_t len = strlen(word), best_distance = SIZE_MAX;
    if (len == 0 || len > LONGEST_WORD)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t other = strlen(candidates[i]);
        if (other > LONGEST_WORD)
            continue;
        size_t d = distance(word, len, candidates[i], other);
        /* Up to a third of the letters may be wrong; a truncated word counts as close. */
        bool close = d <= (len < 3 ? 1 : len / 3) ||
                     (len >= 3 && strncmp(word, candidates[i], len) == 0);
        if (close && d < best_distance) {
            best = candidates[i];
            best_distance = d;
        }
    }
    return best;
}
