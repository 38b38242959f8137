/* base/settings_value.c - one setting's text to its value, and what a row allows. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/settings_internal.h"

bool lr_setting_applies(const struct lr_setting *row, const char *command)
{
    if (row->commands == NULL || command == NULL)
        return true;
    struct lr_str rest = lr_str_z(row->commands), word;
    while (lr_str_split(&rest, ' ', &word))
        if (lr_str_eq_z(word, command))
            return true;
    return false;
}

/* A limit as the operator would write it. */
static void add_limit(const struct lr_setting *row, int64_t limit, struct lr_buf *out)
{
    static const struct {
        int64_t scale;
        const char *name;
    } sizes[] = {{(int64_t)1 << 40, "TiB"},
                 {1 << 30, "GiB"},
                 {1 << 20, "MiB"},
                 {1 << 10, "KiB"}},
      times[] = {{86400000, "d"}, {3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
    size_t count = 0;
    if (row->type == LR_SETTING_SIZE)
        count = sizeof(sizes) / sizeof(sizes[0]);
    else if (row->type == LR_SETTING_DURATION)
        count = sizeof(times) / sizeof(times[0]);
    for (size_t i = 0; i < count && limit != 0; i++) {
        int64_t scale = row->type == LR_SETTING_SIZE ? sizes[i].scale : times[i].scale;
        const char *name = row->type == LR_SETTING_SIZE ? sizes[i].name : times[i].name;
        if (limit % scale == 0) {
            lr_buf_addf(out, "%lld%s", (long long)(limit / scale), name);
            return;
        }
    }
    lr_buf_addf(out, "%lld", (long long)limit);
}

static void settings_add_range(const struct lr_setting *row, struct lr_buf *out)
{
    if (row->max != 0) {
        add_limit(row, row->min, out);
        lr_buf_add_z(out, " to ");
        add_limit(row, row->max, out);
    } else {
        add_limit(row, row->min, out);
        lr_buf_add_z(out, " or more");
    }
}

void lr_setting_allowed(const struct lr_setting *row, struct lr_buf *out)
{
    struct lr_str rest, word;
    switch (row->type) {
    case LR_SETTING_STRING:
        lr_buf_add_z(out, "text");
        break;
    case LR_SETTING_PATH:
        lr_buf_add_z(out, "a path");
        break;
    case LR_SETTING_LIST:
        lr_buf_add_z(out, "a list with commas");
        break;
    case LR_SETTING_BOOL:
        lr_buf_add_z(out, "true or false");
        break;
    case LR_SETTING_CHOICE:
        lr_buf_add_z(out, "one of ");
        rest = lr_str_z(row->choices);
        for (bool first = true; lr_str_split(&rest, '|', &word); first = false) {
            lr_buf_add_z(out, first ? "" : ", ");
            lr_buf_add_str(out, word);
        }
        break;
    case LR_SETTING_INT:
        lr_buf_add_z(out, "a whole number, ");
        settings_add_range(row, out);
        break;
    case LR_SETTING_FLOAT:
        lr_buf_add_z(out, "a number, ");
        settings_add_range(row, out);
        break;
    case LR_SETTING_SIZE:
        lr_buf_add_z(out, "a size such as 65536, 64KiB or 4GiB, ");
        settings_add_range(row, out);
        break;
    case LR_SETTING_DURATION:
        lr_buf_add_z(out, "a duration such as 250ms, 30s or 5m, ");
        settings_add_range(row, out);
        break;
    }
}

static lr_code settings_value_refuse(const struct lr_setting *row, struct lr_str text,
                                     const char *where, struct lr_error *err)
{
    struct lr_buf allowed;
    lr_buf_init(&allowed, 400);
    lr_setting_allowed(row, &allowed);
    if (row->secret)
        (void)lr_fail(err, LR_INVALID_ARGUMENT, "%s: not allowed; it takes %s", where,
                      lr_buf_z(&allowed));
    else
        (void)lr_fail(err, LR_INVALID_ARGUMENT, "%s: \"%.*s\" is not allowed; it takes %s",
                      where, (int)(text.len < 80 ? text.len : 80), text.len ? text.ptr : "",
                      lr_buf_z(&allowed));
    lr_buf_free(&allowed);
    return LR_INVALID_ARGUMENT;
}

static bool parse_bool(struct lr_str text, bool *out)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (int i = 0; i < 4; i++) {
        if (lr_str_eq_nocase(text, lr_str_z(yes[i])) ||
            lr_str_eq_nocase(text, lr_str_z(no[i]))) {
            *out = lr_str_eq_nocase(text, lr_str_z(yes[i]));
            return true;
        }
    }
    return false;
}

/* "cuda[:N]" allows "cuda" and "cuda:" with a number, "vulkan[:NAME]" "vulkan:" with any text.
 */
static bool fits_choice(struct lr_str word, struct lr_str text)
{
    size_t bracket = lr_str_find_char(word, '[');
    uint64_t number;
    if (bracket == LR_STR_NONE)
        return lr_str_eq(word, text);
    struct lr_str head = lr_str_sub(word, 0, bracket);
    struct lr_str tail = lr_str_sub(text, head.len + 1, text.len);
    bool is_text = lr_str_eq_z(lr_str_sub(word, bracket, word.len), "[:NAME]");
    return lr_str_eq(head, lr_str_sub(text, 0, head.len)) &&
           (text.len == head.len || (text.ptr[head.len] == ':' &&
                                     (is_text ? tail.len != 0 : lr_str_u64(tail, &number))));
}

static bool is_choice(const struct lr_setting *row, struct lr_str text)
{
    struct lr_str rest = lr_str_z(row->choices), word;
    while (lr_str_split(&rest, '|', &word))
        if (fits_choice(word, text))
            return true;
    return false;
}

static bool parse_real(const char *text, double *out)
{
    char *end;
    *out = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*out) && strpbrk(text, "xX \t\n") == NULL;
}

static bool in_range(const struct lr_setting *row, double value)
{
    return value >= (double)row->min && (row->max == 0 || value <= (double)row->max);
}

static bool amount_in_range(const struct lr_setting *row, uint64_t value)
{
    return value <= INT64_MAX && (int64_t)value >= row->min &&
           (row->max == 0 || (int64_t)value <= row->max);
}

/* Blanks around items are dropped, and so are empty items. */
static bool parse_list(struct lr_arena *arena, struct lr_str text, struct lr_setting_value *out)
{
    size_t most = 1;
    for (size_t i = 0; i < text.len; i++)
        most += text.ptr[i] == ',';
    out->items = lr_arena_array(arena, most, sizeof(*out->items));
    out->item_count = 0;
    if (out->items == NULL)
        return false;
    struct lr_str part;
    while (lr_str_split(&text, ',', &part)) {
        part = lr_str_trim(part);
        if (part.len == 0)
            continue;
        char *item = lr_arena_copy(arena, part);
        if (item == NULL)
            return false;
        out->items[out->item_count++] = item;
    }
    return true;
}

static const char *expand_home(struct lr_arena *arena, const char *text)
{
    bool home_itself = strcmp(text, "~") == 0;
    const char *home = home_itself || strncmp(text, "~/", 2) == 0 ? lr_home_dir() : NULL;
    return home != NULL ? lr_arena_printf(arena, "%s%s", home, text + 1) : text;
}

lr_code lr_setting_parse(const struct lr_setting *row, struct lr_arena *arena,
                         struct lr_str text, const char *where, struct lr_setting_value *out,
                         struct lr_error *err)
{
    bool ok = memchr(text.len ? text.ptr : "", '\0', text.len) == NULL;
    bool memory = true;
    *out = (struct lr_setting_value){.text = lr_arena_copy(arena, text)};
    if (out->text == NULL)
        return lr_fail(err, LR_TOO_LARGE, "%s: the settings together are too long", where);
    switch (row->type) {
    case LR_SETTING_STRING:
        break;
    case LR_SETTING_PATH:
        out->text = expand_home(arena, out->text);
        memory = out->text != NULL;
        break;
    case LR_SETTING_LIST:
        memory = parse_list(arena, text, out);
        break;
    case LR_SETTING_BOOL:
        ok = ok && parse_bool(text, &out->boolean);
        break;
    case LR_SETTING_CHOICE:
        ok = ok && is_choice(row, text);
        break;
    case LR_SETTING_INT:
        ok = ok && lr_str_i64(text, &out->integer) && out->integer >= row->min &&
             (row->max == 0 || out->integer <= row->max);
        break;
    case LR_SETTING_FLOAT:
        ok = ok && parse_real(out->text, &out->real) && in_range(row, out->real);
        break;
    case LR_SETTING_SIZE:
        ok = ok && lr_parse_size(text, &out->amount) && amount_in_range(row, out->amount);
        break;
    case LR_SETTING_DURATION:
        ok = ok && lr_parse_duration(text, &out->amount) && amount_in_range(row, out->amount);
        break;
    }
    if (!memory)
        return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory for its value", where);
    return ok ? LR_OK : settings_value_refuse(row, text, where, err);
}
