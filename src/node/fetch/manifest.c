/* node/fetch/manifest.c - see node/fetch/manifest.h. */
#include "node/fetch/manifest.h"

#include <stdio.h>
#include <unistd.h>

#include "node/state.h"

#define NAME ".manifest.json"

void node_models_root(const struct node *node, char out[LR_PATH_MAX])
{
    const char *set = lr_settings_str(node->settings, "models-dir");
    (void)snprintf(out, LR_PATH_MAX, "%.4000s%s", set != NULL ? set : node->data_dir,
                   set != NULL ? "" : "/models");
}

lr_code node_models_dir_of(const struct node *node, const char *id, char out[LR_PATH_MAX],
                           struct lr_error *err)
{
    char root[LR_PATH_MAX];
    node_models_root(node, root);
    return lr_path_join(out, root, lr_str_z(id), err);
}

struct hub_manifest *node_manifest_read(const char *dir, const char *id)
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
    lr_log_warn(NULL, "manifest.ignored file=%s reason=%s", path, err.text);
    hub_manifest_destroy(manifest);
    return NULL;
}

lr_code node_manifest_write(const char *dir, const struct hub_manifest *manifest,
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

void node_manifest_remove(const char *dir)
{
    char path[LR_PATH_MAX];
    if (lr_path_join(path, dir, LR_STR_LIT(NAME), NULL) == LR_OK)
        (void)unlink(path);
}

void node_manifest_digest(const struct hub_manifest *manifest, char out[LR_SHA256_HEX_LEN + 1])
{
    unsigned char digest[LR_SHA256_LEN];
    struct lr_buf text;
    lr_buf_init(&text, HUB_MANIFEST_BYTES_MAX);
    hub_manifest_encode(manifest, &text);
    lr_sha256_of(lr_buf_str(&text), digest);
    lr_sha256_hex(digest, out);
    lr_buf_free(&text);
}

const char *node_manifest_gguf(const struct hub_manifest *manifest)
{
    for (size_t i = 0; manifest->format == HUB_FORMAT_GGUF && i < manifest->file_count; i++)
        if (lr_str_ends(lr_str_z(manifest->files[i].name), ".gguf"))
            return manifest->files[i].name;
    return NULL;
}

void node_filter_init(struct node_filter *filter, const struct node *node)
{
    size_t count = 0;
    for (const struct node_engine *e = node->engines.first; e != NULL; e = e->next)
        for (size_t i = 0; e->library != NULL && e->manifest.runtimes[i] != NULL; i++)
            if (count < NODE_RUNTIMES_MAX)
                filter->runtimes[count++] = e->manifest.runtimes[i];
    filter->runtimes[count] = NULL;
    filter->backends[0] = node->device;
    filter->backends[1] = NULL;
    filter->hub = (struct hub_filter){
        .runtimes = filter->runtimes,
        .backends = filter->backends,
        .no_artifacts = !lr_settings_bool(node->settings, "artifacts"),
    };
}
