/* gptoss/extra.c - the engine's own options: the JSON object of extra_json. */
#include "engines/gptoss/extra.h"

#include <stdio.h>

#include "base/fail.h"
#include "base/json.h"

enum { EXTRA_MAX = 1 << 20 };

static lr_code read_members(const struct lr_json *root, struct gptoss_extra *out,
                            struct lr_error *err)
{
    const struct lr_json *shape = lr_json_get(root, "random_shape");
    const struct lr_json *measure = lr_json_get(root, "measure_memory");
    const struct lr_json *on_host = lr_json_get(root, "embed_on_host");
    struct lr_str name;

    if (shape != NULL) {
        if (!lr_json_str(shape, &name) || name.len == 0 ||
            name.len >= sizeof(out->random_shape))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "engine option \"random_shape\" must be \"20b\" or \"120b\"");
        snprintf(out->random_shape, sizeof(out->random_shape), LR_STR_FMT, LR_STR_ARG(name));
    }
    if (measure != NULL && !lr_json_bool(measure, &out->measure_memory))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "engine option \"measure_memory\" must be true or false");
    if (on_host != NULL && !lr_json_bool(on_host, &out->embed_on_host))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "engine option \"embed_on_host\" must be true or false");
    return LR_OK;
}

lr_code gptoss_extra_read(const char *json, struct gptoss_extra *out, struct lr_error *err)
{
    const struct lr_json *root;
    struct lr_arena arena;

    *out = (struct gptoss_extra){0};
    if (json == NULL)
        return LR_OK;
    lr_arena_init(&arena, EXTRA_MAX);
    lr_code code = lr_json_parse(&arena, lr_str_z(json), NULL, &root, err);
    if (code != LR_OK || !lr_json_is(root, LR_JSON_OBJECT))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "the engine's options are no JSON object");
    else
        code = read_members(root, out, err);
    lr_arena_free(&arena);
    return code;
}
