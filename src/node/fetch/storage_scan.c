/* node/fetch/storage_scan.c - the places models are found in: folders the operator named, the
 * models root, an existing Hugging Face cache. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "hub/cache.h"
#include "hub/download.h"
#include "hub/installed.h"
#include "node/fetch/fetch.h"
#include "node/fetch/storage.h"
#include "node/models/models.h"

static bool has_safetensors(const char *dir)
{
    char config[LR_PATH_MAX + 16];
    (void)snprintf(config, sizeof(config), "%s/config.json", dir);
    return lr_file_exists(config) || lr_dir_has(dir, ".safetensors");
}

enum model_format node_storage_guess_format(const char *dir)
{
    return !has_safetensors(dir) && lr_dir_has(dir, ".gguf") ? MODEL_FORMAT_GGUF
                                                             : MODEL_FORMAT_SAFETENSORS;
}

static bool looks_like_model(const char *dir)
{
    return has_safetensors(dir) || lr_dir_has(dir, ".gguf") || node_directml_in(dir) != NULL;
}

/* ---- the models root ---- */

/* False: it is no model, but perhaps an organisation's folder. */
typedef bool (*folder_fn)(struct node_storage *storage, const char *dir, const char *id);

/* DIR/<name> and DIR/<org>/<name>. */
static void walk(struct node_storage *storage, const char *dir, const char *org, folder_fn fn)
{
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        char path[LR_PATH_MAX], id[600];
        int n = snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof(path) || !lr_dir_exists(path))
            continue;
        (void)snprintf(id, sizeof(id), "%s%s%s", org, org[0] != '\0' ? "/" : "", e->d_name);
        if (!fn(storage, path, id) && org[0] == '\0')
            walk(storage, path, e->d_name, fn);
    }
    if (folder != NULL)
        (void)closedir(folder);
}

/* A folder this node has fetched: its manifest says what it is, and its files are offered
 * only as they were verified. */
static void add_fetched(struct node_storage *storage, const char *id, const char *dir,
                        struct hub_manifest *manifest)
{
    struct node_filter filter;
    const struct node_model *known = node_find_model(storage->models, lr_str_z(id));
    bool is_news = known == NULL || known->state == NODE_MODEL_ABSENT;
    node_filter_init(&filter, storage->models);
    if (is_news && !hub_download_is_whole(manifest, dir, &filter.hub)) {
        node_fetch_take(storage->fetch, manifest, "");
        return;
    }
    (void)node_storage_add(storage, id, dir, hub_format_name(manifest->format),
                           hub_manifest_gguf(manifest));
    hub_manifest_destroy(manifest);
}

static bool add_folder(struct node_storage *storage, const char *dir, const char *id)
{
    struct hub_manifest *manifest = hub_installed_read(dir, id);
    bool is_model = manifest != NULL || looks_like_model(dir);
    if (manifest != NULL)
        add_fetched(storage, id, dir, manifest);
    else if (is_model)
        (void)node_storage_add(storage, id, dir, NULL, NULL);
    return is_model;
}

/* Without a manifest nothing was decided: what was fetched of it is kept. */
static bool recover(struct node_storage *storage, const char *incoming, const char *id)
{
    char home[LR_PATH_MAX];
    struct lr_error err;
    struct hub_manifest *manifest = hub_installed_read(incoming, id);
    if (manifest != NULL &&
        (lr_path_join(home, storage->root, lr_str_z(id), &err) != LR_OK ||
         hub_installed_replace(home, manifest, incoming, storage->root, &err) != LR_OK))
        lr_log_error(NULL, "revision.not_installed model=%s reason=%s", id, err.text);
    hub_manifest_destroy(manifest);
    return false;
}

void node_storage_recover(struct node_storage *storage)
{
    char incoming[LR_PATH_MAX];
    if (lr_path_join(incoming, storage->root, LR_STR_LIT(".incoming"), NULL) == LR_OK)
        walk(storage, incoming, "", recover);
}

/* ---- all of them ---- */

static void add_named(struct node_storage *storage, const char *dir)
{
    char real[PATH_MAX];
    const char *path = realpath(dir, real) != NULL ? real : dir;
    (void)node_storage_add(storage, lr_path_base(path), dir, NULL, NULL);
}

static void add_cached(void *arg, const char *id, const char *dir, struct lr_error *why)
{
    if (why == NULL)
        (void)node_storage_add(arg, id, dir, NULL, NULL);
    else
        node_storage_refuse(arg, id, dir, why);
}

void node_storage_scan(struct node_storage *storage)
{
    size_t named = lr_settings_list_count(storage->settings, "model");
    for (size_t i = 0; i < named; i++)
        add_named(storage, lr_settings_list_item(storage->settings, "model", i));
    walk(storage, storage->root, "", add_folder);
    if (lr_settings_bool(storage->settings, "hf-cache"))
        hub_cache_each(add_cached, storage);
    node_storage_resolve(storage);
}
