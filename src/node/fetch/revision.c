/* node/fetch/revision.c - see node/fetch/revision.h.
 *
 * Failpoints: revision.fetched, .decided, .moved, .written.
 */
#include "node/fetch/revision.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "hub/download.h"
#include "node/fetch/manifest.h"
#include "node/state.h"

#define INCOMING ".incoming"

/* Without a manifest: killed between the last file and that. */
static bool was_fetched(const char *home)
{
    char notes[LR_PATH_MAX];
    return lr_path_join(notes, home, LR_STR_LIT(".download"), NULL) == LR_OK &&
           lr_dir_exists(notes);
}

bool node_revision_is_other(const struct node_model *model, struct lr_str digest)
{
    char home[LR_PATH_MAX], ours[LR_SHA256_HEX_LEN + 1];
    struct lr_error err;
    if (digest.len == 0 || node_models_dir_of(model->node, model->id, home, &err) != LR_OK)
        return false;
    struct hub_manifest *manifest = node_manifest_read(home, model->id);
    if (manifest == NULL)
        return was_fetched(home);
    node_manifest_digest(manifest, ours);
    hub_manifest_destroy(manifest);
    return !lr_str_eq_z(digest, ours);
}

lr_code node_revision_dir(const struct node *node, const char *id, char out[LR_PATH_MAX],
                          struct lr_error *err)
{
    char root[LR_PATH_MAX], incoming[LR_PATH_MAX];
    node_models_root(node, root);
    lr_code code = lr_path_join(incoming, root, LR_STR_LIT(INCOMING), err);
    return code == LR_OK ? lr_path_join(out, incoming, lr_str_z(id), err) : code;
}

static bool is_same_text(const char *a, const char *b)
{
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool has_same_files(const struct hub_manifest *a, const struct hub_manifest *b)
{
    bool is_same = a->format == b->format && a->file_count == b->file_count &&
                   is_same_text(a->chat_template, b->chat_template);
    for (size_t i = 0; is_same && i < a->file_count; i++)
        is_same = strcmp(a->files[i].name, b->files[i].name) == 0 &&
                  a->files[i].size == b->files[i].size &&
                  is_same_text(a->files[i].sha256, b->files[i].sha256) &&
                  (a->files[i].sha256 != NULL || strcmp(a->files[i].url, b->files[i].url) == 0);
    return is_same;
}

bool node_revision_adopt(const struct hub_manifest *manifest, const char *home)
{
    struct lr_error err;
    struct hub_manifest *old = node_manifest_read(home, manifest->id);
    bool is_same = old != NULL && has_same_files(old, manifest);
    if (is_same && node_manifest_write(home, manifest, &err) != LR_OK)
        lr_log_warn(NULL, "manifest.not_kept model=%s reason=%s", manifest->id, err.text);
    hub_manifest_destroy(old);
    return is_same;
}

void node_revision_prepare(const struct hub_manifest *manifest, const char *home,
                           const char *incoming)
{
    node_manifest_remove(incoming);
    hub_download_reuse(manifest, home, incoming);
}

lr_code node_revision_decide(const struct hub_manifest *manifest, const char *incoming,
                             struct lr_error *err)
{
    LR_FAILPOINT("revision.fetched");
    lr_code code = node_manifest_write(incoming, manifest, err);
    LR_FAILPOINT("revision.decided");
    return code;
}

bool node_revision_must_wait(const struct node_model *model)
{
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        if (model->replicas[i].candidate != NULL)
            return true;
    return model->probe != NULL || model->state == NODE_MODEL_STARTING ||
           model->state == NODE_MODEL_LOADING;
}

static lr_code remove_incoming(const char *incoming, struct lr_error *err)
{
    char parent[LR_PATH_MAX];
    lr_code code = lr_dir_remove(incoming, err);
    (void)snprintf(parent, sizeof(parent), "%s", incoming);
    /* Its organisation's folder, and .incoming itself, go with their last model. */
    for (char *slash; (slash = strrchr(parent, '/')) != NULL && code == LR_OK;) {
        *slash = '\0';
        if (strstr(parent, "/" INCOMING) == NULL || rmdir(parent) != 0)
            break;
    }
    return code;
}

lr_code node_revision_install(const struct hub_manifest *manifest, const char *home,
                              const char *incoming, struct lr_error *err)
{
    struct hub_manifest *old = node_manifest_read(home, manifest->id);
    lr_code code = hub_download_move(manifest, incoming, home, err);
    LR_FAILPOINT("revision.moved");
    if (code == LR_OK && old != NULL)
        hub_download_drop(old, manifest, home);
    if (code == LR_OK)
        code = node_manifest_write(home, manifest, err);
    LR_FAILPOINT("revision.written");
    if (code == LR_OK)
        code = remove_incoming(incoming, err);
    hub_manifest_destroy(old);
    if (code == LR_OK)
        lr_log_info(NULL, "revision.installed model=%s revision=%s dir=%s", manifest->id,
                    manifest->revision, home);
    return code;
}

/* ---- at the start ---- */

static void recover(const struct node *node, const char *incoming, const char *id)
{
    char home[LR_PATH_MAX];
    struct lr_error err;
    struct hub_manifest *manifest = node_manifest_read(incoming, id);
    if (manifest == NULL)
        return; /* not decided: what was fetched of it is kept */
    lr_code code = node_models_dir_of(node, id, home, &err);
    if (code == LR_OK)
        code = node_revision_install(manifest, home, incoming, &err);
    if (code != LR_OK)
        lr_log_error(NULL, "revision.not_installed model=%s reason=%s", id, err.text);
    hub_manifest_destroy(manifest);
}

/* .incoming/<name> and .incoming/<org>/<name>. */
static void recover_below(const struct node *node, const char *dir, const char *org)
{
    DIR *folder = opendir(dir);
    for (struct dirent *e; folder != NULL && (e = readdir(folder)) != NULL;) {
        char path[LR_PATH_MAX], id[600];
        int n = snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
        if (e->d_name[0] == '.' || n < 0 || (size_t)n >= sizeof(path) || !lr_dir_exists(path))
            continue;
        (void)snprintf(id, sizeof(id), "%s%s%s", org, org[0] != '\0' ? "/" : "", e->d_name);
        recover(node, path, id);
        if (org[0] == '\0')
            recover_below(node, path, e->d_name);
    }
    if (folder != NULL)
        (void)closedir(folder);
}

void node_revision_recover(const struct node *node)
{
    char root[LR_PATH_MAX], incoming[LR_PATH_MAX];
    node_models_root(node, root);
    if (lr_path_join(incoming, root, LR_STR_LIT(INCOMING), NULL) == LR_OK)
        recover_below(node, incoming, "");
}
