/* node/fetch/storage_scan.c - the places models are found in: folders the operator named, the
 * models root, an existing Hugging Face cache, and a folder that a router's operator registers
 * by its path. */
#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/os/file.h"
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
    return has_safetensors(dir) || lr_dir_has(dir, ".gguf") || node_is_directml(dir, NULL);
}

/* ---- the models root ---- */

/* False: it is no model, but perhaps an organisation's folder. */
typedef bool (*folder_fn)(struct node_storage *storage, const char *dir, const char *id);

/* DIR/<name> and DIR/<org>/<name>. */
static void storage_scan_walk(struct node_storage *storage, const char *dir, const char *org,
                              folder_fn fn)
{
    struct lr_dir *folder = lr_dir_open(dir);
    for (const char *name; folder != NULL && (name = lr_dir_next(folder)) != NULL;) {
        char path[LR_PATH_MAX], id[600];
        int n = snprintf(path, sizeof(path), "%s/%s", dir, name);
        if (name[0] == '.' || n < 0 || (size_t)n >= sizeof(path) || !lr_dir_exists(path))
            continue;
        (void)snprintf(id, sizeof(id), "%s%s%s", org, org[0] != '\0' ? "/" : "", name);
        if (!fn(storage, path, id) && org[0] == '\0')
            storage_scan_walk(storage, path, name, fn);
    }
    lr_dir_close(folder);
}

/* A folder this node has fetched: its manifest says what it is, and its files are offered
 * only as they were verified. */
static void add_fetched(struct node_storage *storage, const char *id, const char *dir,
                        struct hub_manifest *manifest)
{
    const struct node_model *known = node_find_model(storage->models, lr_str_z(id));
    bool is_news = known == NULL || known->state == NODE_MODEL_ABSENT;
    if (is_news && !hub_download_is_whole(manifest, dir, node_storage_filter(storage))) {
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
        lr_log_error(LR_LOG_OF(&err), "revision.not_installed model=%s reason=%s", id,
                     err.text);
    hub_manifest_destroy(manifest);
    return false;
}

void node_storage_recover(struct node_storage *storage)
{
    char incoming[LR_PATH_MAX];
    if (lr_path_join(incoming, storage->root, LR_STR_LIT(".incoming"), NULL) == LR_OK)
        storage_scan_walk(storage, incoming, "", recover);
}

/* ---- all of them ---- */

static void add_cached(void *arg, const char *id, const char *dir, struct lr_error *why)
{
    if (why == NULL)
        (void)node_storage_add(arg, id, dir, NULL, NULL);
    else
        node_storage_refuse(arg, id, dir, why);
}

/* A model is called as its folder; real has room for LR_PATH_MAX bytes. */
static const char *name_of_folder(const char *folder, char *real)
{
    return lr_path_base(lr_realpath(folder, real) != NULL ? real : folder);
}

struct node_model *node_storage_named(const struct node_storage *storage, const char *folder)
{
    char real[LR_PATH_MAX];
    return node_find_model(storage->models, lr_str_z(name_of_folder(folder, real)));
}

void node_storage_scan(struct node_storage *storage)
{
    char real[LR_PATH_MAX];
    size_t named = lr_settings_list_count(storage->settings, "model");
    for (size_t i = 0; i < named; i++) {
        const char *dir = lr_settings_list_item(storage->settings, "model", i);
        (void)node_storage_add(storage, name_of_folder(dir, real), dir, NULL, NULL);
    }
    storage_scan_walk(storage, storage->root, "", add_folder);
    if (lr_settings_bool(storage->settings, "hf-cache"))
        hub_cache_each(add_cached, storage);
    node_storage_resolve(storage);
}

/* ---- a folder that somebody names as a model ----
 * Only what lies below the models roots (the models folder and the folders named by --model) is
 * looked at, symbolic links resolved: a path is no way to read the rest of the disk. */

/* Below root, or root itself.  The rest of the path, "" for root. */
static const char *below(const char *path, const char *root)
{
    size_t len = strlen(root);
    if (strncmp(path, root, len) != 0 || (path[len] != '\0' && path[len] != '/'))
        return NULL;
    return path[len] == '/' ? path + len + 1 : path + len;
}

/* The model's name as a scan of the models folder would give it: "name" or "org/name". */
static void storage_scan_name_of(const char *rest, const char *path, char *out, size_t size)
{
    const char *slash = strchr(rest, '/');
    bool is_listed = rest[0] != '\0' && (slash == NULL || strchr(slash + 1, '/') == NULL);
    (void)snprintf(out, size, "%s", is_listed ? rest : lr_path_base(path));
}

/* Finds the root of a real path; the text of the refusal names all of them. */
static lr_code find_root(const struct node_storage *storage, const char *path,
                         const char **rest, struct lr_error *err)
{
    char real[LR_PATH_MAX];
    struct lr_buf roots;
    *rest = lr_realpath(storage->root, real) != NULL ? below(path, real) : NULL;
    lr_buf_init(&roots, 2048);
    lr_buf_add_z(&roots, storage->root);
    size_t named = lr_settings_list_count(storage->settings, "model");
    for (size_t i = 0; i < named && *rest == NULL; i++) {
        const char *item = lr_settings_list_item(storage->settings, "model", i);
        lr_buf_addf(&roots, ", %s", item);
        if (lr_realpath(item, real) != NULL && below(path, real) != NULL)
            *rest = ""; /* called as its last folder */
    }
    lr_code code = *rest != NULL ? LR_OK
                                 : lr_fail(err, LR_PERMISSION_DENIED,
                                           "%.200s is not below this node's models roots "
                                           "(settings models-dir and model): %.600s",
                                           path, lr_buf_z(&roots));
    lr_buf_free(&roots);
    return code;
}

/* Whole, and of the format that was asked for; opened and closed again, so that a folder
 * with a fault leaves nothing behind. */
static lr_code check_folder(const char *dir, struct lr_str format, char guessed[16],
                            struct lr_error *err)
{
    static const enum model_format both[] = {MODEL_FORMAT_SAFETENSORS, MODEL_FORMAT_GGUF};
    struct lr_error first = {0};
    for (size_t i = 0; i < 2; i++) {
        struct model_descriptor *d = NULL;
        struct lr_error why;
        const char *name = model_format_name(both[i]);
        if (format.len != 0 && !lr_str_eq_z(format, name))
            continue;
        if (model_descriptor_open(dir, both[i], NULL, &d, &why) == LR_OK) {
            model_descriptor_close(d);
            (void)snprintf(guessed, 16, "%s", name);
            return LR_OK;
        }
        if (first.code == LR_OK)
            first = why;
    }
    return lr_fail(err, LR_INVALID_ARGUMENT, "%s: %s", dir, first.text);
}

lr_code node_storage_inspect(struct node_storage *storage, struct lr_str path,
                             struct lr_str name, struct lr_str format, struct node_model **out,
                             struct lr_error *err)
{
    char text[LR_PATH_MAX], real[LR_PATH_MAX], id[600], found[16];
    const char *rest;
    *out = NULL;
    bool is_absolute = path.len != 0 && path.ptr[0] == '/';
    int n =
        snprintf(text, sizeof(text), "%.4000s%s" LR_STR_FMT, is_absolute ? "" : storage->root,
                 is_absolute ? "" : "/", LR_STR_ARG(path));
    if (path.len == 0 || n < 0 || (size_t)n >= sizeof(text) ||
        lr_str_find_char(path, '\0') != LR_STR_NONE)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"path\" must be a folder's path");
    if (lr_realpath(text, real) == NULL || !lr_dir_exists(real))
        return lr_fail_as(err, no_folder, text);
    lr_code code = find_root(storage, real, &rest, err);
    if (code == LR_OK)
        code = check_folder(real, format, found, err);
    if (code != LR_OK)
        return code;
    if (name.len != 0)
        (void)snprintf(id, sizeof(id), LR_STR_FMT, LR_STR_ARG(lr_str_sub(name, 0, 500)));
    else
        storage_scan_name_of(rest, real, id, sizeof(id));
    struct node_model *m = node_find_model(storage->models, lr_str_z(id));
    if (m != NULL && m->descriptor != NULL && strcmp(m->descriptor->model_dir, real) != 0)
        return lr_fail_as(err, model_elsewhere, id, m->descriptor->model_dir, real);
    m = node_storage_add(storage, id, real, found, NULL);
    if (format.len != 0)
        node_storage_registered(m, format);
    *out = m;
    return LR_OK;
}
