/* model/map.c - see map.h. */
#include "model/map.h"

#include <stdio.h>

#include "base/fail.h"

static lr_code to_abi(lr_code code, struct lr_error *err)
{
    lr_code abi = code;
    switch (code) {
    case LR_NOT_FOUND:
    case LR_TOO_LARGE:
    case LR_INVALID_ARGUMENT:
        abi = LR_MODEL_CORRUPT;
        break;
    case LR_PERMISSION_DENIED:
    case LR_CONFLICT:
    case LR_IO:
        abi = LR_INTERNAL;
        break;
    default:
        break;
    }
    if (err != NULL)
        err->code = abi;
    return abi;
}

lr_code model_map(const char *path, struct lr_file_map *out, struct lr_error *err)
{
    lr_code code = lr_file_map(path, out, err);
    return code == LR_OK ? LR_OK : to_abi(code, err);
}

lr_code model_read_text(struct lr_arena *arena, const char *path, size_t limit,
                        struct lr_str *out, struct lr_error *err)
{
    lr_code code = lr_file_read(arena, path, limit, out, err);
    return code == LR_OK ? LR_OK : to_abi(code, err);
}

lr_code model_path(char out[LR_PATH_MAX], const char *dir, struct lr_str name,
                   struct lr_error *err)
{
    int len = snprintf(out, LR_PATH_MAX, "%s/" LR_STR_FMT, dir, LR_STR_ARG(name));
    if (len < 0 || len >= LR_PATH_MAX)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "the path of \"%.*s\" is longer than the limit of %d bytes",
                       MODEL_QUOTE(name), LR_PATH_MAX - 1);
    return LR_OK;
}
