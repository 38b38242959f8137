/* node/fetch/storage_scan.c - the places models are found in: folders the operator named, the
 * models root, an existing Hugging Face cache. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "hub/download.h"
#include "node/fetch/fetch.h"
#include "node/fetch/manifest.h"
#include "node/fetch/storage.h"
#include "node/state.h"

static bool has_suffix_file(const char *dir, const char *suffix)
{
    bool found = false;
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder != NULL && !found && (e = readdir(folder)) != NULL;)
        found = lr_str_ends(lr_str_z(e->d_name), suffix);
    if (folder != NULL)
        (void)closedir(folder);
    return found;
}

static bool has_safetensors(const char *dir)
{
    char config[LR_PATH_MAX + 16];
    (void)snprintf(config, sizeof(config), "%s/config.json", dir);
    return lr_file_exists(config) || has_suffix_file(dir, ".safetensors");
}

enum model_format node_storage_guess_format(const char *dir)
{
    return !has_safetensors(dir) && has_suffix_file(dir, ".gguf") ? MODEL_FORMAT_GGUF
                                                                  : MODEL_FORMAT_SAFETENSORS;
}

static bool looks_like_model(const char *dir)
{
    return has_safetensors(dir) || has_suffix_file(dir, ".gguf") ||
           node_directml_in(dir) != NULL;
}

/* ---- the models root ---- */

/* A folder this node has fetched: its manifest says what it is, and its files are offered
 * only as they were verified. */
static void add_fetched(struct node *node, const char *id, const char *dir,
                        struct hub_manifest *manifest)
{
    struct node_filter filter;
    const struct node_model *known = node_find_model(node, lr_str_z(id));
    bool is_news = known == NULL || known->state == NODE_MODEL_ABSENT;
    node_filter_init(&filter, node);
    if (is_news && !hub_download_is_whole(manifest, dir, &filter.hub)) {
        node_fetch_take(node->fetch, manifest, NULL);
        return;
    }
    (void)node_storage_add(node, id, dir, hub_format_name(manifest->format),
                           node_manifest_gguf(manifest));
    hub_manifest_destroy(manifest);
}

/* models/<name> and models/<org>/<name>. */
static void scan_models_root(struct node *node, const char *dir, const char *org)
{
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        char path[LR_PATH_MAX], id[600];
        int n = snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof(path) || !lr_dir_exists(path))
            continue;
        (void)snprintf(id, sizeof(id), "%s%s%s", org, org[0] != '\0' ? "/" : "", e->d_name);
        struct hub_manifest *manifest = node_manifest_read(path, id);
        if (manifest != NULL)
            add_fetched(node, id, path, manifest);
        else if (looks_like_model(path))
            (void)node_storage_add(node, id, path, NULL, NULL);
        else if (org[0] == '\0')
            scan_models_root(node, path, e->d_name);
    }
    if (folder != NULL)
        (void)closedir(folder);
}

/* ---- a Hugging Face cache ---- */

/* The commit refs/main names; without one, the only snapshot there is. */
static lr_code find_commit(const char *entry, char out[NAME_MAX + 1], struct lr_error *err)
{
    char path[LR_PATH_MAX + 32];
    struct lr_buf text;
    (void)snprintf(path, sizeof(path), "%s/refs/main", entry);
    lr_buf_init(&text, NAME_MAX);
    out[0] = '\0';
    if (lr_file_read_buf(path, &text, err) == LR_OK) {
        struct lr_str commit = lr_str_trim(lr_buf_str(&text));
        if (lr_path_safe(commit))
            (void)snprintf(out, NAME_MAX + 1, LR_STR_FMT, LR_STR_ARG(commit));
        lr_buf_free(&text);
        return out[0] != '\0' ? LR_OK
                              : lr_fail(err, LR_MODEL_CORRUPT, "%s names no commit", path);
    }
    lr_buf_free(&text);
    (void)snprintf(path, sizeof(path), "%s/snapshots", entry);
    unsigned count = 0;
    DIR *folder = opendir(path);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        if (e->d_name[0] == '.')
            continue;
        count++;
        (void)snprintf(out, NAME_MAX + 1, "%s", e->d_name);
    }
    if (folder != NULL)
        (void)closedir(folder);
    return count == 1 ? LR_OK
                      : lr_fail(err, LR_MODEL_CORRUPT,
                                "%s has %u snapshots and no refs/main that says which one to "
                                "use: download the model again",
                                entry, count);
}

/* models--org--name/{refs/main,snapshots/<commit>/}. */
static void scan_cache_entry(struct node *node, const char *dir, const char *name)
{
    char entry[LR_PATH_MAX], path[LR_PATH_MAX], commit[NAME_MAX + 1], id[NAME_MAX + 1];
    struct lr_error err;
    (void)snprintf(id, sizeof(id), "%s", name + strlen("models--"));
    char *dashes = strstr(id, "--");
    if (dashes != NULL) {
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    lr_code code = lr_path_join(entry, dir, lr_str_z(name), &err);
    if (code == LR_OK)
        code = find_commit(entry, commit, &err);
    int n = code == LR_OK ? snprintf(path, sizeof(path), "%s/snapshots/%s", entry, commit) : 0;
    if (code == LR_OK && (n < 0 || (size_t)n >= sizeof(path) || !lr_dir_exists(path)))
        code = lr_fail(&err, LR_MODEL_CORRUPT, "%s has no snapshot %s, which refs/main names",
                       entry, commit);
    if (code == LR_OK)
        (void)node_storage_add(node, id, path, NULL, NULL);
    else
        node_storage_refuse(node, id, entry, &err);
}

static void scan_hf_cache(struct node *node)
{
    char dir[LR_PATH_MAX];
    const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME");
    const char *user = lr_home_dir();
    if (cache != NULL && cache[0] != '\0')
        (void)snprintf(dir, sizeof(dir), "%s", cache);
    else if (home != NULL && home[0] != '\0')
        (void)snprintf(dir, sizeof(dir), "%s/hub", home);
    else if (user != NULL)
        (void)snprintf(dir, sizeof(dir), "%s/.cache/huggingface/hub", user);
    else
        return;
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;)
        if (lr_str_starts(lr_str_z(e->d_name), "models--"))
            scan_cache_entry(node, dir, e->d_name);
    if (folder != NULL)
        (void)closedir(folder);
}

/* ---- all of them ---- */

static void add_named(struct node *node, const char *dir)
{
    char real[PATH_MAX];
    const char *path = realpath(dir, real) != NULL ? real : dir;
    (void)node_storage_add(node, lr_path_base(path), dir, NULL, NULL);
}

void node_storage_scan(struct node *node)
{
    char root[LR_PATH_MAX];
    const char *engine = lr_settings_str(node->settings, "engine");
    size_t named = lr_settings_list_count(node->settings, "model");
    for (size_t i = 0; i < named; i++)
        add_named(node, lr_settings_list_item(node->settings, "model", i));
    node_models_root(node, root);
    scan_models_root(node, root, "");
    if (lr_settings_bool(node->settings, "hf-cache"))
        scan_hf_cache(node);
    if (engine != NULL && named == 0)
        (void)node_storage_add_engine(node, engine);
    node_storage_resolve(node);
}
