/* node/models/inspect.c - a folder that somebody names as a model.
 *
 * A router's operator registers a model by its path on this machine.  Only what lies below the
 * models roots (the models folder and the folders named by --model) is looked at, symbolic
 * links resolved: a path is no way to read the rest of the disk.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "node/fetch/storage.h"
#include "node/http/api.h"

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
static lr_code find_root(const struct node *node, const char *path, const char **rest,
                         struct lr_error *err)
{
    char dir[LR_PATH_MAX], real[PATH_MAX];
    struct lr_buf roots;
    node_models_root(node, dir);
    *rest = realpath(dir, real) != NULL ? below(path, real) : NULL;
    lr_buf_init(&roots, 2048);
    lr_buf_add_z(&roots, dir);
    size_t named = lr_settings_list_count(node->settings, "model");
    for (size_t i = 0; i < named && *rest == NULL; i++) {
        const char *item = lr_settings_list_item(node->settings, "model", i);
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

lr_code node_inspect(struct node *node, struct lr_str path, struct lr_str name,
                     struct lr_str format, struct node_model **out, struct lr_error *err)
{
    char text[LR_PATH_MAX], dir[LR_PATH_MAX], real[PATH_MAX], id[600], found[16];
    const char *rest;
    *out = NULL;
    node_models_root(node, dir);
    bool is_absolute = path.len != 0 && path.ptr[0] == '/';
    int n = snprintf(text, sizeof(text), "%.4000s%s" LR_STR_FMT, is_absolute ? "" : dir,
                     is_absolute ? "" : "/", LR_STR_ARG(path));
    if (path.len == 0 || n < 0 || (size_t)n >= sizeof(text) ||
        lr_str_find_char(path, '\0') != LR_STR_NONE)
        return lr_fail(err, LR_INVALID_ARGUMENT, "\"path\" must be a folder's path");
    if (realpath(text, real) == NULL || !lr_dir_exists(real))
        return lr_fail(err, LR_NOT_FOUND, "there is no folder %.300s", text);
    lr_code code = find_root(node, real, &rest, err);
    if (code == LR_OK)
        code = check_folder(real, format, found, err);
    if (code != LR_OK)
        return code;
    if (name.len != 0)
        (void)snprintf(id, sizeof(id), LR_STR_FMT, LR_STR_ARG(lr_str_sub(name, 0, 500)));
    else
        name_of(rest, real, id, sizeof(id));
    struct node_model *m = node_find_model(node, lr_str_z(id));
    if (m != NULL && m->descriptor != NULL && strcmp(m->descriptor->model_dir, real) != 0)
        return lr_fail(err, LR_CONFLICT, "model \"%s\" lies in %s on this node, not in %s", id,
                       m->descriptor->model_dir, real);
    m = node_storage_add(node, id, real, found, NULL);
    if (format.len != 0)
        node_storage_registered(m, format);
    *out = m;
    return LR_OK;
}

/* ---- POST /v0/models/inspect {"path", "name"?, "format"?} ---- */

lr_code node_api_inspect(struct node *node, struct net_request *req, struct lr_error *err)
{
    static const char *const keys[] = {"path", "name", "format"};
    struct lr_str texts[3] = {0};
    const struct lr_json *body;
    struct node_model *m = NULL;
    lr_code code =
        lr_json_parse(net_request_arena(req), net_request_body(req), NULL, &body, err);
    for (size_t i = 0; code == LR_OK && i < 3; i++) {
        const struct lr_json *v = lr_json_get(body, keys[i]);
        if (v != NULL && !lr_json_str(v, &texts[i]))
            code = lr_fail(err, LR_INVALID_ARGUMENT, "\"%s\" must be a string", keys[i]);
    }
    if (code == LR_OK)
        code = node_inspect(node, texts[0], texts[1], texts[2], &m, err);
    return code == LR_OK ? node_api_put_model(req, m, err) : code;
}
