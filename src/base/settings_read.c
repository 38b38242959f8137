/* base/settings_read.c - values from flags, environment and file. */
#include <stdio.h>

#include "base/file.h"
#include "base/log.h"
#include "base/settings_internal.h"

enum { FILE_LIMIT = 1 << 20 };

static const char *closest_name(const struct lr_settings *s, const char *word)
{
    const char *names[LR_SETTINGS_MOST];
    for (size_t i = 0; i < s->entry_count; i++)
        names[i] = s->entries[i].row->name;
    return lr_closest(word, names, s->entry_count);
}

/* The new name of a renamed setting; NULL: no setting had this name. */
static const char *find_renamed(const struct lr_settings *s, struct lr_str name)
{
    for (size_t i = 0; i < s->entry_count + s->foreign_count; i++) {
        const struct lr_setting *row =
            i < s->entry_count ? s->entries[i].row : s->foreign[i - s->entry_count];
        if (row->was != NULL && lr_str_eq_z(name, row->was))
            return row->name;
    }
    return NULL;
}

lr_code lr_settings_fail_unknown(const struct lr_settings *s, struct lr_str name,
                                 const char *where, const char *prefix, struct lr_error *err)
{
    char word[64];
    (void)snprintf(word, sizeof(word), LR_STR_FMT, LR_STR_ARG(lr_str_sub(name, 0, 63)));
    const char *near = closest_name(s, word);
    const struct lr_setting *foreign = lr_settings_find_foreign(s, name);
    const char *no = lr_str_starts(name, "no-") ? "no-" : "";
    const char *renamed = find_renamed(s, lr_str_sub(name, strlen(no), name.len));
    if (renamed != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%s%s%s was renamed to %s%s%s", where, prefix,
                       word, prefix, no, renamed);
    if (foreign != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "%s%s%s is not a setting of %s; it belongs to: %s", where, prefix, word,
                       s->command, foreign->commands);
    if (near != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%sunknown setting %s%s; did you mean %s%s?",
                       where, prefix, word, prefix, near);
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "%sunknown setting %s%s; --help lists all settings", where, prefix, word);
}

static lr_code settings_read_flag(struct lr_settings *s, struct lr_str flag, const char *next,
                                  bool *used_next, struct lr_error *err)
{
    struct lr_str value = flag, name;
    char where[80];
    (void)lr_str_split(&value, '=', &name);
    struct lr_settings_entry *entry = lr_settings_find(s, name);
    *used_next = false;
    if (entry == NULL && lr_str_starts(name, "no-")) {
        entry = lr_settings_find(s, lr_str_sub(name, 3, name.len));
        if (entry != NULL && entry->row->type == LR_SETTING_BOOL && value.ptr == NULL)
            return lr_settings_assign(s, entry, LR_STR_LIT("false"), LR_FROM_FLAG,
                                      entry->row->name, err);
        entry = NULL;
    }
    if (entry == NULL)
        return lr_settings_fail_unknown(s, name, "", "--", err);
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
    return lr_settings_assign(s, entry, value, LR_FROM_FLAG, where, err);
}

/* -f: a bool with that letter; NULL: none. */
static struct lr_settings_entry *find_letter(const struct lr_settings *s, const char *arg)
{
    for (size_t i = 0; i < s->entry_count; i++)
        if (s->entries[i].row->letter == arg[1] && arg[2] == '\0')
            return &s->entries[i];
    return NULL;
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
        } else if (find_letter(s, arg) != NULL) {
            lr_code code = lr_settings_assign(s, find_letter(s, arg), LR_STR_LIT("true"),
                                              LR_FROM_FLAG, arg, err);
            if (code != LR_OK)
                return code;
        } else if (arg[1] != '-') {
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "unknown flag %.40s; flags are written --name", arg);
        } else {
            bool used_next;
            lr_code code = settings_read_flag(
                s, lr_str_z(arg + 2), i + 1 < argc ? argv[i + 1] : NULL, &used_next, err);
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

/* A value for a row of another command is checked and then dropped, so that a mistake in a
 * shared file is reported by every command that reads it. */
static lr_code check_foreign(struct lr_settings *s, const struct lr_setting *row,
                             struct lr_str text, const char *where, struct lr_error *err)
{
    struct lr_setting_value ignored;
    return lr_setting_parse(row, &s->arena, text, where, &ignored, err);
}

/* A warning, not an error: Kubernetes sets LLM_ROUTER_PORT and similar variables in every
 * container when a service is called llm-router. */
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

static lr_code fail_renamed_env(struct lr_str variable, const char *renamed,
                                struct lr_error *err)
{
    char meant[64];
    lr_setting_env_name(renamed, meant);
    return lr_fail(err, LR_INVALID_ARGUMENT, LR_STR_FMT " was renamed to %s",
                   LR_STR_ARG(lr_str_sub(variable, 0, 79)), meant);
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
        struct lr_settings_entry *entry = lr_settings_find(s, lr_str_z(name));
        const struct lr_setting *foreign = lr_settings_find_foreign(s, lr_str_z(name));
        lr_code code = LR_OK;
        if (entry != NULL && !entry->row->flag_only)
            code = lr_settings_assign(s, entry, value, LR_FROM_ENV, where, err);
        else if (foreign != NULL)
            code = check_foreign(s, foreign, value, where, err);
        else if (find_renamed(s, lr_str_z(name)) != NULL)
            code = fail_renamed_env(variable, find_renamed(s, lr_str_z(name)), err);
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
    struct lr_settings_entry *entry = lr_settings_find(s, key);
    const struct lr_setting *foreign = lr_settings_find_foreign(s, key);
    const struct lr_setting *row = entry != NULL ? entry->row : foreign;
    if (row == NULL)
        return lr_settings_fail_unknown(s, key, where, "", err);
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
    return lr_settings_assign(s, entry, text, LR_FROM_FILE, where, err);
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
    struct lr_settings_entry *config = lr_settings_find(s, LR_STR_LIT("config"));
    if (code == LR_OK && config != NULL && config->value.text != NULL)
        code = lr_settings_read_file(s, config->value.text, err);
    return code;
}
