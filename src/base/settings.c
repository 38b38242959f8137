/* base/settings.c - collects values from flags, environment and file, and answers.
 *
 * One entry per row that applies to the command.  Everything is copied into one arena
 * that lives as long as the settings.
 */
#include "base/settings.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/settings_internal.h"

enum { MEMORY_LIMIT = 8 << 20, FILE_LIMIT = 1 << 20, MOST_ROWS = 512 };

struct entry {
    const struct lr_setting *row;
    struct lr_setting_value value;
    enum lr_setting_source source;
    size_t line; /* of the file, to report a key that stands there twice */
};

struct lr_settings {
    struct lr_arena arena;
    const char *command; /* borrowed; NULL: all rows */
    struct entry *entries;
    size_t entry_count;
    const struct lr_setting **foreign; /* rows of other commands */
    size_t foreign_count;
    const char **positional;
    size_t positional_count;
    bool is_help;
};

static struct entry *find(const struct lr_settings *s, struct lr_str name)
{
    for (size_t i = 0; i < s->entry_count; i++)
        if (lr_str_eq_z(name, s->entries[i].row->name))
            return &s->entries[i];
    return NULL;
}

static const struct lr_setting *find_foreign(const struct lr_settings *s, struct lr_str name)
{
    for (size_t i = 0; i < s->foreign_count; i++)
        if (lr_str_eq_z(name, s->foreign[i]->name))
            return s->foreign[i];
    return NULL;
}

/* Sorts the rows into ours and those of other commands. */
static void sort_rows(struct lr_settings *s, const struct lr_setting_table *tables,
                      size_t table_count)
{
    for (size_t t = 0; t < table_count; t++) {
        for (size_t i = 0; i < tables[t].count; i++) {
            const struct lr_setting *row = &tables[t].rows[i];
            if (!lr_setting_applies(row, s->command))
                s->foreign[s->foreign_count++] = row;
            else if (find(s, lr_str_z(row->name)) == NULL)
                s->entries[s->entry_count++] = (struct entry){.row = row};
        }
    }
}

lr_code lr_settings_create(const struct lr_setting_table *tables, size_t table_count,
                           const char *command, struct lr_settings **out, struct lr_error *err)
{
    *out = NULL;
    size_t count = 0;
    for (size_t t = 0; t < table_count; t++)
        count += tables[t].count;
    struct lr_settings *s = count <= MOST_ROWS ? calloc(1, sizeof(*s)) : NULL;
    if (s == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu settings", count);
    lr_arena_init(&s->arena, MEMORY_LIMIT);
    s->command = command;
    s->entries = lr_arena_array(&s->arena, count + 1, sizeof(*s->entries));
    s->foreign = lr_arena_array(&s->arena, count + 1, sizeof(*s->foreign));
    if (s->entries == NULL || s->foreign == NULL) {
        lr_settings_destroy(s);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu settings", count);
    }
    sort_rows(s, tables, table_count);
    for (size_t i = 0; i < s->entry_count; i++) {
        struct entry *entry = &s->entries[i];
        if (entry->row->fallback == NULL)
            continue;
        lr_code code = lr_setting_parse(entry->row, &s->arena, lr_str_z(entry->row->fallback),
                                        entry->row->name, &entry->value, err);
        if (code != LR_OK) {
            lr_settings_destroy(s);
            return lr_fail_prefix(err, "default of a setting");
        }
    }
    *out = s;
    return LR_OK;
}

void lr_settings_destroy(struct lr_settings *s)
{
    if (s == NULL)
        return;
    lr_arena_free(&s->arena);
    free(s);
}

/* A second flag adds to a list; anything else replaces what a lower source gave. */
static lr_code append_items(struct lr_settings *s, struct entry *entry,
                            struct lr_setting_value *added, struct lr_error *err)
{
    size_t count = entry->value.item_count + added->item_count;
    const char **items = lr_arena_array(&s->arena, count + 1, sizeof(*items));
    char *text = lr_arena_printf(&s->arena, "%s,%s", entry->value.text, added->text);
    if (items == NULL || text == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the values of %s", entry->row->name);
    for (size_t i = 0; i < count; i++)
        items[i] = i < entry->value.item_count ? entry->value.items[i]
                                               : added->items[i - entry->value.item_count];
    *added = (struct lr_setting_value){.text = text, .items = items, .item_count = count};
    return LR_OK;
}

static lr_code assign(struct lr_settings *s, struct entry *entry, struct lr_str text,
                      enum lr_setting_source source, const char *where, struct lr_error *err)
{
    struct lr_setting_value value;
    lr_code code = lr_setting_parse(entry->row, &s->arena, text, where, &value, err);
    if (code != LR_OK || source < entry->source)
        return code;
    if (entry->row->type == LR_SETTING_LIST && source == LR_FROM_FLAG &&
        entry->source == LR_FROM_FLAG)
        code = append_items(s, entry, &value, err);
    if (code == LR_OK) {
        entry->value = value;
        entry->source = source;
    }
    return code;
}

static const char *closest_name(const struct lr_settings *s, const char *word)
{
    const char *names[MOST_ROWS];
    for (size_t i = 0; i < s->entry_count; i++)
        names[i] = s->entries[i].row->name;
    return lr_closest(word, names, s->entry_count);
}

/* "unknown setting X; did you mean Y?" with the prefix the place uses. */
static lr_code fail_unknown(const struct lr_settings *s, struct lr_str name, const char *where,
                            const char *prefix, struct lr_error *err)
{
    char word[64];
    (void)snprintf(word, sizeof(word), LR_STR_FMT, LR_STR_ARG(lr_str_sub(name, 0, 63)));
    const char *near = closest_name(s, word);
    const struct lr_setting *foreign = find_foreign(s, name);
    if (foreign != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "%s%s%s is not a setting of %s; it belongs to: %s", where, prefix, word,
                       s->command, foreign->commands);
    if (near != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%sunknown setting %s%s; did you mean %s%s?",
                       where, prefix, word, prefix, near);
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "%sunknown setting %s%s; --help lists the ones there are", where, prefix,
                   word);
}

static lr_code read_flag(struct lr_settings *s, struct lr_str flag, const char *next,
                         bool *used_next, struct lr_error *err)
{
    struct lr_str value = flag, name;
    char where[80];
    (void)lr_str_split(&value, '=', &name);
    struct entry *entry = find(s, name);
    *used_next = false;
    if (entry == NULL && lr_str_starts(name, "no-")) {
        entry = find(s, lr_str_sub(name, 3, name.len));
        if (entry != NULL && entry->row->type == LR_SETTING_BOOL && value.ptr == NULL)
            return assign(s, entry, LR_STR_LIT("false"), LR_FROM_FLAG, entry->row->name, err);
        entry = NULL;
    }
    if (entry == NULL)
        return fail_unknown(s, name, "", "--", err);
    (void)snprintf(where, sizeof(where), "--%s", entry->row->name);
    if (value.ptr == NULL && entry->row->type == LR_SETTING_BOOL)
        value = LR_STR_LIT("true");
    if (value.ptr == NULL) {
        if (next == NULL || strncmp(next, "--", 2) == 0) {
            struct lr_buf allowed;
            lr_buf_init(&allowed, 400);
            lr_setting_allowed(entry->row, &allowed);
            (void)lr_fail(err, LR_INVALID_ARGUMENT, "%s needs a value; it takes %s", where,
                          lr_buf_z(&allowed));
            lr_buf_free(&allowed);
            return LR_INVALID_ARGUMENT;
        }
        value = lr_str_z(next);
        *used_next = true;
    }
    return assign(s, entry, value, LR_FROM_FLAG, where, err);
}

lr_code lr_settings_read_args(struct lr_settings *s, int argc, const char *const *argv,
                              struct lr_error *err)
{
    bool only_positional = false;
    s->positional = lr_arena_array(&s->arena, (size_t)argc + 1, sizeof(*s->positional));
    s->positional_count = 0;
    if (s->positional == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %d arguments", argc);
    for (int i = 0; i < argc; i++) {
        const char *arg = argv[i];
        if (only_positional || arg[0] != '-' || arg[1] == '\0') {
            s->positional[s->positional_count++] = lr_arena_copy(&s->arena, lr_str_z(arg));
            if (s->positional[s->positional_count - 1] == NULL)
                return lr_fail(err, LR_TOO_LARGE, "the arguments together are too long");
        } else if (strcmp(arg, "--") == 0) {
            only_positional = true;
        } else if (strcmp(arg, "--help") == 0 || strcmp(arg, "-h") == 0) {
            s->is_help = true;
        } else if (arg[1] != '-') {
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "unknown flag %.40s; flags are written --name", arg);
        } else {
            bool used_next;
            lr_code code = read_flag(s, lr_str_z(arg + 2), i + 1 < argc ? argv[i + 1] : NULL,
                                     &used_next, err);
            if (code != LR_OK)
                return code;
            i += used_next;
        }
    }
    return LR_OK;
}

void lr_setting_env_name(const char *name, char out[64])
{
    int len = snprintf(out, 64, "LLM_ROUTER_%s", name);
    for (int i = 0; i < len && i < 63; i++) {
        if (out[i] == '-')
            out[i] = '_';
        else if (out[i] >= 'a' && out[i] <= 'z')
            out[i] = (char)(out[i] - 'a' + 'A');
    }
}

/* "MAX_BODY_BYTES" to "max-body-bytes". */
static void name_from_env(struct lr_str env, char out[64])
{
    size_t len = env.len < 63 ? env.len : 63;
    for (size_t i = 0; i < len; i++) {
        char c = env.ptr[i];
        out[i] = (char)(c == '_' ? '-' : c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    out[len] = '\0';
}

/* A value for a row of another command: checked, so that a mistake in a shared file is
 * seen wherever the file is read first, and dropped. */
static lr_code check_foreign(struct lr_settings *s, const struct lr_setting *row,
                             struct lr_str text, const char *where, struct lr_error *err)
{
    struct lr_setting_value ignored;
    return lr_setting_parse(row, &s->arena, text, where, &ignored, err);
}

/* Not an error: Kubernetes gives every container LLM_ROUTER_PORT and the like when a
 * service is called llm-router.  A near miss is worth a line. */
static void warn_unknown_env(const struct lr_settings *s, struct lr_str variable,
                             const char *name)
{
    const char *near = closest_name(s, name);
    char meant[64];
    if (near == NULL)
        return;
    lr_setting_env_name(near, meant);
    lr_log_warn(NULL, "settings.unknown_env name=" LR_STR_FMT " did_you_mean=%s",
                LR_STR_ARG(variable), meant);
}

lr_code lr_settings_read_env(struct lr_settings *s, const char *const *env,
                             struct lr_error *err)
{
    for (; env != NULL && *env != NULL; env++) {
        struct lr_str value = lr_str_z(*env), variable;
        char name[64], where[80];
        if (!lr_str_starts(value, "LLM_ROUTER_") || !lr_str_split(&value, '=', &variable) ||
            value.len == 0)
            continue;
        name_from_env(lr_str_sub(variable, strlen("LLM_ROUTER_"), variable.len), name);
        (void)snprintf(where, sizeof(where), LR_STR_FMT,
                       LR_STR_ARG(lr_str_sub(variable, 0, 79)));
        struct entry *entry = find(s, lr_str_z(name));
        const struct lr_setting *foreign = find_foreign(s, lr_str_z(name));
        lr_code code = LR_OK;
        if (entry != NULL && !entry->row->flag_only)
            code = assign(s, entry, value, LR_FROM_ENV, where, err);
        else if (foreign != NULL)
            code = check_foreign(s, foreign, value, where, err);
        else
            warn_unknown_env(s, variable, name);
        if (code != LR_OK)
            return code;
    }
    return LR_OK;
}

/* The value part of a line: quoted with escapes, or bare up to a comment. */
static bool read_file_value(struct lr_arena *arena, struct lr_str raw, struct lr_str *out)
{
    raw = lr_str_trim(raw);
    if (raw.len == 0 || raw.ptr[0] != '"') {
        for (size_t i = 0; i < raw.len; i++)
            if (raw.ptr[i] == '#' &&
                (i == 0 || raw.ptr[i - 1] == ' ' || raw.ptr[i - 1] == '\t'))
                raw.len = i;
        *out = lr_str_trim(raw);
        return true;
    }
    char *text = lr_arena_alloc(arena, raw.len);
    size_t len = 0, at = 1;
    if (text == NULL)
        return false;
    for (; at < raw.len && raw.ptr[at] != '"'; at++) {
        if (raw.ptr[at] == '\\' &&
            (++at == raw.len || (raw.ptr[at] != '"' && raw.ptr[at] != '\\')))
            return false;
        text[len++] = raw.ptr[at];
    }
    struct lr_str after = lr_str_trim(lr_str_sub(raw, at + 1, raw.len));
    *out = lr_str(text, len);
    return at < raw.len && (after.len == 0 || after.ptr[0] == '#');
}

static lr_code read_line(struct lr_settings *s, struct lr_str line, size_t number,
                         const char *file, struct lr_error *err)
{
    char where[512];
    struct lr_str value = line, key, text;
    (void)lr_str_split(&value, '=', &key);
    key = lr_str_trim(key);
    (void)snprintf(where, sizeof(where), "%.300s line %zu: ", file, number);
    if (value.ptr == NULL || key.len == 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%sexpected \"name = value\"", where);
    if (!read_file_value(&s->arena, value, &text))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "%sbad quoting: \"...\" with \\\" and \\\\ inside, then nothing", where);
    struct entry *entry = find(s, key);
    const struct lr_setting *foreign = find_foreign(s, key);
    const struct lr_setting *row = entry != NULL ? entry->row : foreign;
    if (row == NULL)
        return fail_unknown(s, key, where, "", err);
    if (row->flag_only)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%s%s can only be given as a flag", where,
                       row->name);
    size_t used = strlen(where);
    (void)snprintf(where + used, sizeof(where) - used, "%s", row->name);
    if (entry == NULL)
        return check_foreign(s, foreign, text, where, err);
    if (entry->line != 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%s was set in line %zu already", where,
                       entry->line);
    entry->line = number;
    return assign(s, entry, text, LR_FROM_FILE, where, err);
}

lr_code lr_settings_read_text(struct lr_settings *s, struct lr_str text, const char *file_name,
                              struct lr_error *err)
{
    struct lr_str rest = text, line;
    size_t number = 0;
    while (lr_str_split(&rest, '\n', &line)) {
        number++;
        line = lr_str_trim(line);
        if (line.len == 0 || line.ptr[0] == '#')
            continue;
        lr_code code = read_line(s, line, number, file_name, err);
        if (code != LR_OK)
            return code;
    }
    return LR_OK;
}

lr_code lr_settings_read_file(struct lr_settings *s, const char *path, struct lr_error *err)
{
    struct lr_buf text;
    lr_buf_init(&text, FILE_LIMIT);
    lr_code code = lr_file_read_buf(path, &text, err);
    if (code == LR_OK)
        code = lr_settings_read_text(s, lr_buf_str(&text), path, err);
    lr_buf_free(&text);
    return code;
}

lr_code lr_settings_load(struct lr_settings *s, int argc, const char *const *argv,
                         const char *const *env, struct lr_error *err)
{
    lr_code code = lr_settings_read_args(s, argc, argv, err);
    if (code != LR_OK || s->is_help)
        return code;
    code = lr_settings_read_env(s, env, err);
    struct entry *config = find(s, LR_STR_LIT("config"));
    if (code == LR_OK && config != NULL && config->value.text != NULL)
        code = lr_settings_read_file(s, config->value.text, err);
    return code;
}

lr_code lr_settings_set(struct lr_settings *s, const char *name, const char *value,
                        struct lr_error *err)
{
    struct entry *entry = find(s, lr_str_z(name));
    if (entry == NULL)
        return fail_unknown(s, lr_str_z(name), "", "", err);
    return assign(s, entry, lr_str_z(value), LR_FROM_FLAG, name, err);
}

size_t lr_settings_positional_count(const struct lr_settings *s)
{
    return s->positional_count;
}

const char *lr_settings_positional(const struct lr_settings *s, size_t index)
{
    return index < s->positional_count ? s->positional[index] : NULL;
}

bool lr_settings_is_help(const struct lr_settings *s)
{
    return s->is_help;
}

/* The table is fixed at build time, so a miss here is a defect, not an input. */
static const struct entry *demand(const struct lr_settings *s, const char *name)
{
    const struct entry *entry = find(s, lr_str_z(name));
    if (entry == NULL) {
        (void)fprintf(stderr, "defect: no setting \"%s\" for command \"%s\"\n", name,
                      s->command != NULL ? s->command : "(any)");
        abort();
    }
    return entry;
}

static const struct entry *demand_type(const struct lr_settings *s, const char *name,
                                       enum lr_setting_type type)
{
    const struct entry *entry = demand(s, name);
    if (entry->row->type != type) {
        (void)fprintf(stderr, "defect: setting \"%s\" is asked for as another type\n", name);
        abort();
    }
    return entry;
}

bool lr_settings_has(const struct lr_settings *s, const char *name)
{
    return demand(s, name)->value.text != NULL;
}

const char *lr_settings_str(const struct lr_settings *s, const char *name)
{
    return demand(s, name)->value.text;
}

int64_t lr_settings_int(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_INT)->value.integer;
}

double lr_settings_float(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_FLOAT)->value.real;
}

uint64_t lr_settings_size(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_SIZE)->value.amount;
}

uint64_t lr_settings_ms(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_DURATION)->value.amount;
}

bool lr_settings_bool(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_BOOL)->value.boolean;
}

size_t lr_settings_list_count(const struct lr_settings *s, const char *name)
{
    return demand_type(s, name, LR_SETTING_LIST)->value.item_count;
}

const char *lr_settings_list_item(const struct lr_settings *s, const char *name, size_t i)
{
    const struct entry *entry = demand_type(s, name, LR_SETTING_LIST);
    return i < entry->value.item_count ? entry->value.items[i] : NULL;
}

enum lr_setting_source lr_settings_source(const struct lr_settings *s, const char *name)
{
    return demand(s, name)->source;
}
