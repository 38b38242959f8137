#include "cli/demo.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool has_entry(const char *dir, const char *prefix)
{
    bool found = false;
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder != NULL && !found && (e = readdir(folder)) != NULL;)
        found = e->d_name[0] != '.' && lr_str_starts(lr_str_z(e->d_name), prefix);
    if (folder != NULL)
        (void)closedir(folder);
    return found;
}

bool cli_has_models(const struct lr_settings *s, const char *data_dir)
{
    char dir[LR_PATH_MAX];
    const char *models = lr_settings_str(s, "models-dir");
    const char *cache = getenv("HF_HOME"), *home = lr_home_dir();
    bool is_set = cache != NULL && cache[0] != '\0';
    if (lr_settings_list_count(s, "model") != 0 || lr_settings_has(s, "engine"))
        return true;
    (void)snprintf(dir, sizeof(dir), "%.4000s%s", models != NULL ? models : data_dir,
                   models != NULL ? "" : "/models");
    if (has_entry(dir, ""))
        return true;
    (void)snprintf(dir, sizeof(dir), "%.4000s%s/hub",
                   is_set         ? cache
                   : home != NULL ? home
                                  : "",
                   is_set ? "" : "/.cache/huggingface");
    return lr_settings_bool(s, "hf-cache") && has_entry(dir, "models--");
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
