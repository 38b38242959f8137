/* base/settings.h - one table describes every setting.
 *
 * A row gives a setting its flag (--name value, --name=value, --no-name for a bool, and for
 * some a letter such as -f), its environment variable (LLM_ROUTER_NAME), its key in the config
 * file (name = value), its --help line and its entry in docs/settings.md.  A flag wins over the
 * environment, which wins over the file, which wins over the default.  An unknown flag or key,
 * and a value that is malformed or out of range, is an error that names it and says what is
 * allowed.
 *
 * A row belongs to the commands it lists; two rows may share a name when their commands
 * differ (another default, say).  Keys of other commands in a shared config file are
 * checked and then ignored.
 *
 * Values are asked for by name; asking for a name that is not in the table, or as
 * another type, is a defect and aborts.  Thread: one while loading, then any (read only).
 */
#ifndef BASE_SETTINGS_H
#define BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

enum lr_setting_type {
    LR_SETTING_STRING,
    LR_SETTING_INT,
    LR_SETTING_FLOAT,
    LR_SETTING_SIZE,     /* bytes: 4096, 64KiB, 4GiB, 1.5GB; 4G is 4GiB */
    LR_SETTING_DURATION, /* kept in ms: 250ms, 30s, 5m, 2h, 1d; a bare 0 is allowed */
    LR_SETTING_BOOL,     /* true/false, yes/no, on/off, 1/0; a bare --name is true */
    LR_SETTING_CHOICE,
    LR_SETTING_PATH, /* a leading ~/ becomes the home folder */
    LR_SETTING_LIST, /* comma-separated; a repeated flag adds */
};

struct lr_setting {
    const char *name; /* lower case with dashes */
    enum lr_setting_type type;
    const char *fallback; /* default, as an operator would write it; NULL: not set */
    const char *
        choices; /* "a|b|c" for CHOICE; "a[:N]": "a", or "a:" and a number; [:NAME]: any text */
    int64_t min, max;     /* INT, FLOAT, SIZE (bytes), DURATION (ms); max 0: no upper bound */
    const char *commands; /* "router up"; NULL: every command */
    const char *value;    /* word for --help: "ADDR"; NULL: by type */
    const char *help;     /* one sentence, no full stop needed */
    const char *was;      /* former name; using it is an error that names the new name */
    char letter;          /* 'f': -f is the same flag, without a value; 0: none */
    bool secret;          /* never printed or logged */
    bool flag_only;       /* neither environment nor file: --config itself */
};

struct lr_setting_table {
    const struct lr_setting *rows;
    size_t count;
};

enum lr_setting_source { LR_FROM_DEFAULT, LR_FROM_FILE, LR_FROM_ENV, LR_FROM_FLAG };

struct lr_settings; /* owned by the caller of create */

/* Several tables (common rows, a command's own) act as one.  Tables are borrowed and
 * must outlive the settings.  command may be NULL: all rows apply. */
LR_MUST_USE lr_code lr_settings_create(const struct lr_setting_table *tables,
                                       size_t table_count, const char *command,
                                       struct lr_settings **out, struct lr_error *err);
void lr_settings_destroy(struct lr_settings *s);

/* May be called in any order; precedence is by source, not by call.  An empty environment
 * variable counts as not set.  An unknown variable that starts with LLM_ROUTER_ is ignored,
 * with a warning when its name is close to a setting's.  The file holds `name = value` lines
 * and comments after '#'; a value may be in double quotes, with \" and \\ inside. */
LR_MUST_USE lr_code lr_settings_read_env(struct lr_settings *s, const char *const *env,
                                         struct lr_error *err); /* `environ` in production */
LR_MUST_USE lr_code lr_settings_read_text(struct lr_settings *s, struct lr_str text,
                                          const char *file_name, struct lr_error *err);
LR_MUST_USE lr_code lr_settings_read_file(struct lr_settings *s, const char *path,
                                          struct lr_error *err);

/* argv without program and command names.  Arguments that are not flags are positional, and so
 * is everything after "--".  Flags and positionals may be mixed. "--help" and "-h" set
 * is_help. */
LR_MUST_USE lr_code lr_settings_read_args(struct lr_settings *s, int argc,
                                          const char *const *argv, struct lr_error *err);
size_t lr_settings_positional_count(const struct lr_settings *s);
const char *lr_settings_positional(const struct lr_settings *s, size_t index);
bool lr_settings_is_help(const struct lr_settings *s);

/* What a command calls: reads arguments, environment, and then the file that the setting
 * "config" names (if the table has that row). */
LR_MUST_USE lr_code lr_settings_load(struct lr_settings *s, int argc, const char *const *argv,
                                     const char *const *env, struct lr_error *err);

/* Values.  Strings are borrowed from s. */
bool lr_settings_knows(const struct lr_settings *s, struct lr_str name); /* is a setting */
bool lr_settings_has(const struct lr_settings *s, const char *name);     /* has a value */
/* NULL: not set.  STRING, PATH and CHOICE; every other type as it was written. */
const char *lr_settings_str(const struct lr_settings *s, const char *name);
int64_t lr_settings_int(const struct lr_settings *s, const char *name);
double lr_settings_float(const struct lr_settings *s, const char *name);
uint64_t lr_settings_size(const struct lr_settings *s, const char *name);
uint64_t lr_settings_ms(const struct lr_settings *s, const char *name); /* DURATION */
bool lr_settings_bool(const struct lr_settings *s, const char *name);
size_t lr_settings_list_count(const struct lr_settings *s, const char *name);
const char *lr_settings_list_item(const struct lr_settings *s, const char *name, size_t i);
/* A secret from the setting NAME or from the file that NAME-file names; a newline at the end of
 * the file is dropped. "": neither is set.  Errors: both are set, or the secret has `size`
 * bytes or more. */
LR_MUST_USE lr_code lr_settings_secret(const struct lr_settings *s, const char *name, char *out,
                                       size_t size, struct lr_error *err);
enum lr_setting_source lr_settings_source(const struct lr_settings *s, const char *name);

/* Calls visit for each row that applies to the command, in the order of --help. */
typedef void lr_setting_visit(void *arg, const struct lr_setting *row);
void lr_settings_each(const struct lr_setting_table *tables, size_t table_count,
                      const char *command, lr_setting_visit *visit, void *arg);

/* The flag of a row ("--listen ADDR:PORT", "--[no-]preload"), its sentence in --help with the
 * choices and the default, and the allowed values in words ("1 to 1024"). */
void lr_setting_flag(const struct lr_setting *row, struct lr_buf *out);
void lr_setting_sentence(const struct lr_setting *row, struct lr_buf *out);
void lr_setting_allowed(const struct lr_setting *row, struct lr_buf *out);

/* The options block of --help, and the reference page (Markdown), from the tables. */
void lr_settings_help(const struct lr_setting_table *tables, size_t table_count,
                      const char *command, struct lr_buf *out);
void lr_settings_reference(const struct lr_setting_table *table, struct lr_buf *out);

/* "LLM_ROUTER_MAX_BODY_BYTES" for "max-body-bytes"; out has room for 64 bytes. */
void lr_setting_env_name(const char *name, char out[64]);

/* Sizes and durations with units, for others that parse these texts. */
bool lr_parse_size(struct lr_str text, uint64_t *bytes);
bool lr_parse_duration(struct lr_str text, uint64_t *ms);
void lr_format_size(uint64_t bytes, char out[32]); /* "12.8 GiB", "512 B" */

/* The candidate closest to word, or NULL when none is close.  Used for "did you mean". */
const char *lr_closest(const char *word, const char *const *candidates, size_t count);

#endif
