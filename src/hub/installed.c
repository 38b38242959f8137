#include "hub/installed.h"

#include <stdio.h>

#include "base/failpoint.h"
#include "base/file.h"
#include "base/log.h"
#include "hub/download.h"

#define NAME ".manifest.json"

struct hub_manifest *hub_installed_read(const char *dir, const char *id)
{
    char path[LR_PATH_MAX];
    struct lr_error err;
    struct hub_manifest *manifest = NULL;
    struct lr_buf text;
    if (lr_path_join(path, dir, LR_STR_LIT(NAME), &err) != LR_OK || !lr_file_exists(path))
        return NULL;
    lr_buf_init(&text, HUB_MANIFEST_BYTES_MAX);
    lr_code code = lr_file_read_buf(path, &text, &err);
    if (code == LR_OK)
        code = hub_manifest_decode(lr_buf_str(&text), &manifest, &err);
    if (code == LR_OK && !lr_str_eq_nocase(lr_str_z(manifest->id), lr_str_z(id)))
        code =
            lr_fail(&err, LR_CONFLICT, "it is the manifest of %s, not of %s", manifest->id, id);
    lr_buf_free(&text);
    if (code == LR_OK)
        return manifest;
    lr_log_warn(LR_LOG_OF(&err), "manifest.ignored file=%s reason=%s", path, err.text);
    hub_manifest_destroy(manifest);
    return NULL;
}

lr_code hub_installed_write(const char *dir, const struct hub_manifest *manifest,
                            struct lr_error *err)
{
    char path[LR_PATH_MAX];
    struct lr_buf text;
    lr_buf_init(&text, HUB_MANIFEST_BYTES_MAX);
    hub_manifest_encode(manifest, &text);
    lr_code code = text.failed ? lr_fail(err, LR_OUT_OF_RAM, "no memory for a manifest")
                               : lr_path_join(path, dir, LR_STR_LIT(NAME), err);
    if (code == LR_OK)
        code = lr_file_write_atomic(path, lr_buf_str(&text), 0600, err);
    lr_buf_free(&text);
    return code;
}

bool hub_installed_was_fetched(const char *dir)
{
    char notes[LR_PATH_MAX];
    return lr_path_join(notes, dir, LR_STR_LIT(".download"), NULL) == LR_OK &&
           lr_dir_exists(notes);
}

bool hub_installed_is_other(const char *dir, const char *id, struct lr_str digest)
{
    char ours[LR_SHA256_HEX_LEN + 1];
    struct hub_manifest *manifest = hub_installed_read(dir, id);
    if (manifest == NULL) /* killed between the last file and the manifest, or never fetched */
        return hub_installed_was_fetched(dir);
    hub_manifest_digest(manifest, ours);
    hub_manifest_destroy(manifest);
    return !lr_str_eq_z(digest, ours);
}

/* ---- another revision ---- */

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

bool hub_installed_adopt(const char *dir, const struct hub_manifest *manifest)
{
    struct lr_error err;
    struct hub_manifest *old = hub_installed_read(dir, manifest->id);
    bool is_same = old != NULL && has_same_files(old, manifest);
    if (is_same && hub_installed_write(dir, manifest, &err) != LR_OK)
        lr_log_warn(LR_LOG_OF(&err), "manifest.not_kept model=%s reason=%s", manifest->id,
                    err.text);
    hub_manifest_destroy(old);
    return is_same;
}

void hub_installed_prepare(const char *dir, const struct hub_manifest *manifest,
                           const char *incoming)
{
    char path[LR_PATH_MAX];
    if (lr_path_join(path, incoming, LR_STR_LIT(NAME), NULL) == LR_OK)
        (void)lr_unlink(path);
    hub_download_reuse(manifest, dir, incoming);
}

lr_code hub_installed_decide(const struct hub_manifest *manifest, const char *incoming,
                             struct lr_error *err)
{
    LR_FAILPOINT("revision.fetched");
    lr_code code = hub_installed_write(incoming, manifest, err);
    LR_FAILPOINT("revision.decided");
    return code;
}

static lr_code remove_incoming(const char *incoming, const char *root, struct lr_error *err)
{
    char parent[LR_PATH_MAX];
    lr_code code = lr_dir_remove(incoming, err);
    (void)snprintf(parent, sizeof(parent), "%s", incoming);
    for (char *slash; (slash = strrchr(parent, '/')) != NULL && code == LR_OK;) {
        *slash = '\0';
        if (!lr_str_starts(lr_str_z(parent), root) || strcmp(parent, root) == 0 ||
            !lr_rmdir(parent))
            break;
    }
    return code;
}

lr_code hub_installed_replace(const char *dir, const struct hub_manifest *manifest,
                              const char *incoming, const char *root, struct lr_error *err)
{
    struct hub_manifest *old = hub_installed_read(dir, manifest->id);
    lr_code code = hub_download_move(manifest, incoming, dir, err);
    LR_FAILPOINT("revision.moved");
    if (code == LR_OK && old != NULL)
        hub_download_drop(old, manifest, dir);
    if (code == LR_OK)
        code = hub_installed_write(dir, manifest, err);
    LR_FAILPOINT("revision.written");
    if (code == LR_OK)
        code = remove_incoming(incoming, root, err);
    hub_manifest_destroy(old);
    if (code == LR_OK)
        lr_log_info(NULL, "revision.installed model=%s revision=%s dir=%s", manifest->id,
                    manifest->revision, dir);
    return code;
}
