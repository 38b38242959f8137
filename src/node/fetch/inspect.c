/* node/fetch/inspect.c - a folder that somebody names as a model.
 *
 * A router's operator registers a model by its path on this machine.  Only what lies below the
 * models roots (the models folder and the folders named by --model) is looked at, symbolic
 * links resolved: a path is no way to read the rest of the disk.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/fetch/storage.h"
#include "node/models/models.h"

/* Below root, or root itself.  The rest of the path, "" for root. */
static const char *below(const char *path, const char *root)
{
    size_t len = strlen(root);
    if (strncmp(path, root, len) != 0 || (path[len] != '\0' && path[len] != '/'))
        return NULL;
    return path[len] == '/' ? path + len + 1 : path + len;
}

/* The model's name as a scan of the models folder would give it: "name" or "org/name". */
static void name_of(const char *rest, const char *path, char *out, size_t size)
{
    const char *slash = strchr(rest, '/');
    bool is_listed = rest[0] != '\0' && (slash == NULL || strchr(slash + 1, '/') == NULL);
    (void)snprintf(out, size, "%s", is_listed ? rest : lr_path_base(path));
}

/* Finds the root of a real path; the text of the refusal names all of them. */
static lr_code find_root(const struct node_storage *storage, const char *path,
                         const char **rest, struct lr_error *err)
{
    char real[PATH_MAX];
    struct lr_buf roots;
    *rest = realpath(storage->root, real) != NULL ? below(path, real) : NULL;
    lr_buf_init(&roots, 2048);
    lr_buf_add_z(&roots, storage->root);
    size_t named = lr_settings_list_count(storage->settings, "model");
    for (size_t i = 0; i < named && *rest == NULL; i++) {
        const char *item = lr_settings_list_item(storage->settings, "model", i);
        lr_buf_addf(&roots, ", %s", item);
        if (realpath(item, real) != NULL && below(path, real) != NULL)
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
    char text[LR_PATH_MAX], real[PATH_MAX], id[600], found[16];
    const char *rest;
    *out = NULL;
    bool is_absolute = path.len != 0 && path.ptr[0] == '/';
    int n =
        snprintf(text, sizeof(text), "%.4000s%s" LR_STR_FMT, is_absolute ? "" : storage->root,
                 is_absolute ? "" : "/", LR_STR_ARG(path));
    if (path.len == 0 || n < 0 || (size_t)n >= sizeof(text) ||
        lr_str_find_char(path, '\0') != LR_STR_NONE)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"path\" must be a folder's path");
    if (realpath(text, real) == NULL || !lr_dir_exists(real))
        return lr_fail(err, LR_NOT_FOUND, "there is no folder %.300s", text);
    lr_code code = find_root(storage, real, &rest, err);
    if (code == LR_OK)
        code = check_folder(real, format, found, err);
    if (code != LR_OK)
        return code;
    if (name.len != 0)
        (void)snprintf(id, sizeof(id), LR_STR_FMT, LR_STR_ARG(lr_str_sub(name, 0, 500)));
    else
        name_of(rest, real, id, sizeof(id));
    struct node_model *m = node_find_model(storage->models, lr_str_z(id));
    if (m != NULL && m->descriptor != NULL && strcmp(m->descriptor->model_dir, real) != 0)
        return lr_fail(err, LR_CONFLICT, "model \"%s\" lies in %s on this node, not in %s", id,
                       m->descriptor->model_dir, real);
    m = node_storage_add(storage, id, real, found, NULL);
    if (format.len != 0)
        node_storage_registered(m, format);
    *out = m;
    return LR_OK;
}
