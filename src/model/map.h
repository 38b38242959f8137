/* model/map.h - reads model files with the error codes that an engine may return.
 *
 * The codes of base/file.h belong to the daemons.  A plugin uses this library too and may only
 * return the ten ABI codes (status.h).  A missing or oversized file is MODEL_CORRUPT, an
 * unreadable file is INTERNAL.
 */
#ifndef MODEL_MAP_H
#define MODEL_MAP_H

#include "base/arena.h"
#include "base/file.h"

LR_MUST_USE lr_code model_map(const char *path, struct lr_file_map *out, struct lr_error *err);

LR_MUST_USE lr_code model_read_text(struct lr_arena *arena, const char *path, size_t limit,
                                    struct lr_str *out, struct lr_error *err);

/* dir + "/" + name; MODEL_CORRUPT when that is too long for a path. */
LR_MUST_USE lr_code model_path(char out[LR_PATH_MAX], const char *dir, struct lr_str name,
                               struct lr_error *err);

/* Most bytes of an untrusted name in a message; leaves room for the numbers. */
enum { MODEL_QUOTE_MAX = 120 };
#define MODEL_QUOTE(s)                                                                         \
    (int)((s).len < MODEL_QUOTE_MAX ? (s).len : MODEL_QUOTE_MAX),                              \
        ((s).ptr != NULL ? (s).ptr : "")

#endif
