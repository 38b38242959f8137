#include "cli/demo.h"

#include <stdio.h>
#include <string.h>

#include "hub/cache.h"

static void demo_note(void *arg, const char *id, const char *dir, struct lr_error *why)
{
    (void)id;
    (void)dir;
    (void)why;
    *(bool *)arg = true;
}

bool cli_has_models(const struct lr_settings *s, const char *data_dir)
{
    char dir[LR_PATH_MAX];
    const char *models = lr_settings_str(s, "models-dir");
    bool has_cached = false;
    if (lr_settings_list_count(s, "model") != 0 || lr_settings_has(s, "engine"))
        return true;
    (void)snprintf(dir, sizeof(dir), "%.4000s%s", models != NULL ? models : data_dir,
                   models != NULL ? "" : "/models");
    if (lr_settings_bool(s, "hf-cache"))
        hub_cache_each(demo_note, &has_cached);
    return has_cached || lr_dir_has(dir, "");
}

bool cli_find_demo(const char *self, char out[LR_PATH_MAX])
{
    static const char *const places[] = {"share/llm-router/models/demo", "../../models/demo"};
    struct lr_str root = lr_str_z(self);
    for (int parts = 0; parts < 2; parts++) /* bin/llm-router */
        while (root.len != 0 && root.ptr[--root.len] != '/')
            continue;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        (void)snprintf(out, LR_PATH_MAX, "%.*s/%s", (int)(root.len < 3900 ? root.len : 3900),
                       root.ptr, places[i]);
        if (lr_dir_exists(out))
            return true;
    }
    return false;
}
