/* hub/fields.h - reads members of a JSON object into an arena, with errors that name the place:
 * "files[3].size is string, expected a number". */
#ifndef HUB_FIELDS_H
#define HUB_FIELDS_H

#include "base/arena.h"
#include "base/json.h"

struct hub_fields {
    struct lr_arena *arena;
    const struct lr_json *object;
    const char *where; /* "files[3]." or "" */
    struct lr_error *err;
};

/* An absent or null member leaves *out unchanged; with `needed` that is an error.  Strings are
 * terminated copies of at most max bytes, without control characters. */
lr_code hub_field_text(const struct hub_fields *f, const char *key, bool needed, size_t max,
                       const char **out);
lr_code hub_field_u64(const struct hub_fields *f, const char *key, bool needed, uint64_t max,
                      uint64_t *out);
lr_code hub_field_int(const struct hub_fields *f, const char *key, int32_t min, int32_t max,
                      int32_t *out);
lr_code hub_field_bool(const struct hub_fields *f, const char *key, bool *out);
/* A list of at most HUB_LIST_MAX names of letters, digits and "-_."; NULL-terminated,
 * empty when absent. */
lr_code hub_field_names(const struct hub_fields *f, const char *key, const char *const **out);
/* 64 hex digits, converted to lower case. */
lr_code hub_field_sha256(const struct hub_fields *f, const char *key, const char **out);

lr_code hub_field_fail(const struct hub_fields *f, const char *key, const char *expected);

#endif
