/* base/settings_internal.h - what the settings files share. */
#ifndef BASE_SETTINGS_INTERNAL_H
#define BASE_SETTINGS_INTERNAL_H

#include "base/arena.h"
#include "base/settings.h"

enum { LR_SETTINGS_MOST = 512 }; /* rows of all tables together */

struct lr_setting_value {
    const char *text; /* as written (a path with ~/ replaced); NULL: not set */
    union {
        int64_t integer; /* INT */
        uint64_t amount; /* SIZE, DURATION */
        double real;     /* FLOAT */
        bool boolean;    /* BOOL */
    };
    const char **items; /* LIST */
    size_t item_count;
};

/* Checks text against the row; memory comes from the arena.  where names the place in
 * the error: "--listen", "LLM_ROUTER_LISTEN", "router.conf line 3: listen". */
lr_code lr_setting_parse(const struct lr_setting *row, struct lr_arena *arena,
                         struct lr_str text, const char *where, struct lr_setting_value *out,
                         struct lr_error *err);

bool lr_setting_applies(const struct lr_setting *row, const char *command);

struct lr_settings_entry {
    const struct lr_setting *row;
    struct lr_setting_value value;
    enum lr_setting_source source;
    size_t line; /* line in the file, to report a repeated key */
};

struct lr_settings {
    struct lr_arena arena;
    const char *command; /* borrowed; NULL: all rows */
    struct lr_settings_entry *entries;
    size_t entry_count;
    const struct lr_setting **foreign; /* rows of other commands */
    size_t foreign_count;
    const char **positional;
    size_t positional_count;
    bool is_help;
};

/* NULL when the command has no such setting; foreign: a row of another command. */
struct lr_settings_entry *lr_settings_find(const struct lr_settings *s, struct lr_str name);
const struct lr_setting *lr_settings_find_foreign(const struct lr_settings *s,
                                                  struct lr_str name);

/* Stores the value unless a higher source has given one. */
lr_code lr_settings_assign(struct lr_settings *s, struct lr_settings_entry *entry,
                           struct lr_str text, enum lr_setting_source source, const char *where,
                           struct lr_error *err);

/* "unknown setting X; did you mean Y?"; prefix is "--" for flags. */
lr_code lr_settings_fail_unknown(const struct lr_settings *s, struct lr_str name,
                                 const char *where, const char *prefix, struct lr_error *err);

#endif
