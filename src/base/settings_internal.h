/* base/settings_internal.h - what the settings files share: one parsed value. */
#ifndef BASE_SETTINGS_INTERNAL_H
#define BASE_SETTINGS_INTERNAL_H

#include "base/arena.h"
#include "base/settings.h"

struct lr_setting_value {
    const char *text; /* as written (a path: with its home folder); NULL: not set */
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

/* What a row allows, in words: "one of error, warn, info, debug", "1 to 1024". */
void lr_setting_allowed(const struct lr_setting *row, struct lr_buf *out);

bool lr_setting_applies(const struct lr_setting *row, const char *command);

#endif
