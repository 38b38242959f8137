/* hub/runtime.c - the engine a config.json asks for.
 *
 * The node decides the same from the file on its disk (src/model); this is the router's
 * hint, so that a node without such an engine need not fetch the weights.
 */
#include <ctype.h>

#include "hub/manifest.h"

enum { CONFIG_BYTES_MAX = 4 << 20, CONFIG_ARENA_MAX = 64 << 20 };

static const struct {
    const char *architecture;
    const char *model_type;
    const char *runtime;
} known[] = {
    {"GptOssForCausalLM", "gpt_oss", "gptoss"},
};

static bool usable(struct lr_str name)
{
    if (name.len == 0 || name.len >= HUB_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (!isalnum(c) && c != '_' && c != '-' && c != '.')
            return false;
    }
    return true;
}

static struct lr_str choose(struct lr_str architecture, struct lr_str type)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (architecture.len != 0 ? lr_str_eq_z(architecture, known[i].architecture)
                                  : lr_str_eq_z(type, known[i].model_type))
            return lr_str_z(known[i].runtime);
    }
    return type.len != 0 ? type : architecture;
}

static lr_code read_names(const struct lr_json *config, char out[HUB_NAME_MAX],
                          struct lr_error *err)
{
    const struct lr_json *list = lr_json_get(config, "architectures");
    struct lr_str architecture = {0}, type = {0};
    if (lr_json_is(list, LR_JSON_ARRAY) && list->count != 0)
        (void)lr_json_str(&list->items[0], &architecture);
    (void)lr_json_str(lr_json_get(config, "model_type"), &type);
    struct lr_str runtime = choose(architecture, type);
    if (!usable(runtime))
        return lr_fail(err, LR_UNSUPPORTED,
                       "config.json names no architecture (\"architectures\" or "
                       "\"model_type\"), so no engine can be chosen");
    memcpy(out, runtime.ptr, runtime.len);
    out[runtime.len] = '\0';
    return LR_OK;
}

lr_code hub_runtime_of(struct lr_str config_json, char out[HUB_NAME_MAX], struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json_limits limits = {.max_bytes = CONFIG_BYTES_MAX};
    const struct lr_json *config;
    struct lr_error why;
    out[0] = '\0';
    lr_arena_init(&arena, CONFIG_ARENA_MAX);
    lr_code code = lr_json_parse(&arena, config_json, &limits, &config, &why);
    if (code != LR_OK)
        code = lr_fail(err, LR_INVALID_ARGUMENT, "config.json: %s", why.text);
    else
        code = read_names(config, out, err);
    lr_arena_free(&arena);
    return code;
}
