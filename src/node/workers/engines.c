#include "node/workers/engines.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/strmap.h"

static void refuse(struct node_engine *e, const struct lr_error *err)
{
    (void)snprintf(e->reason, sizeof(e->reason), "%s", err->text);
    e->reason_code = err->code;
    lr_log_warn(NULL, "engine.refused folder=%s code=%s reason=%s", e->folder,
                lr_code_name(err->code), err->text);
}

static void append(struct node_engines *engines, struct node_engine *e)
{
    struct node_engine **link = &engines->first;
    while (*link != NULL)
        link = &(*link)->next;
    *link = e;
}

static lr_code check_duplicate(const struct node_engines *engines, const struct node_engine *e,
                               struct lr_error *err)
{
    for (const struct node_engine *o = engines->first; o != NULL; o = o->next)
        if (o->library != NULL && strcmp(o->manifest.engine_id, e->manifest.engine_id) == 0)
            return lr_fail(err, LR_CONFLICT,
                           "engine id \"%s\" is already taken by %s: remove one of the two",
                           e->manifest.engine_id, o->folder);
    return LR_OK;
}

static void scan_folder(struct node_engines *engines, const char *folder)
{
    struct lr_error err;
    struct node_engine *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return;
    (void)snprintf(e->folder, sizeof(e->folder), "%s", folder);
    (void)snprintf(e->name, sizeof(e->name), "%.64s", lr_path_base(folder));
    e->signature = node_folder_signature(folder);
    lr_code code = plugin_manifest_read(&e->manifest, folder, &err);
    if (code == LR_OK) {
        (void)snprintf(e->name, sizeof(e->name), "%s", e->manifest.engine_id);
        code = plugin_manifest_check_abi(&e->manifest, &err);
    }
    if (code == LR_OK)
        code = check_duplicate(engines, e, &err);
    if (code == LR_OK) {
        plugin_manifest_free(&e->manifest);
        code = node_library_take(engines, folder, &e->manifest, &e->library, &err);
    }
    if (code != LR_OK)
        refuse(e, &err);
    else
        lr_log_info(NULL, "engine.found id=%s version=%s abi=%u sha256=%s", e->name,
                    e->manifest.engine_version, e->manifest.abi_version, e->library->sha256);
    append(engines, e);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool is_known(const struct node_engines *engines, const char *folder)
{
    for (const struct node_engine *e = engines->first; e != NULL; e = e->next)
        if (strcmp(e->folder, folder) == 0)
            return true;
    return false;
}

void node_engines_scan(struct node_engines *engines, const char *dir)
{
    struct dirent **entries;
    int count = scandir(dir, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char folder[LR_PATH_MAX + 300];
        char manifest[LR_PATH_MAX + 320];
        (void)snprintf(folder, sizeof(folder), "%s/%s", dir, entries[i]->d_name);
        (void)snprintf(manifest, sizeof(manifest), "%s/manifest.json", folder);
        if (entries[i]->d_name[0] != '.' && strlen(folder) < LR_PATH_MAX &&
            lr_file_exists(manifest) && !is_known(engines, folder))
            scan_folder(engines, folder);
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    else
        lr_log_warn(NULL, "engine.no_folder dir=%s", dir);
}

void node_engines_free(struct node_engines *engines)
{
    while (engines->first != NULL) {
        struct node_engine *e = engines->first;
        engines->first = e->next;
        node_library_unref(e->library);
        node_library_unref(e->previous);
        plugin_manifest_free(&e->manifest);
        free(e);
    }
}

struct node_engine *node_engines_find(const struct node_engines *engines, const char *id)
{
    for (struct node_engine *e = engines->first; e != NULL; e = e->next)
        if (strcmp(e->name, id) == 0)
            return e;
    return NULL;
}

static lr_code explain_missing(const struct node_engines *engines, const char *runtime,
                               struct lr_error *err)
{
    struct lr_buf list;
    lr_buf_init(&list, 1024);
    for (const struct node_engine *e = engines->first; e != NULL; e = e->next)
        for (const char *const *r = e->manifest.runtimes; r != NULL && *r != NULL; r++)
            lr_buf_addf(&list, "%s%s", list.len != 0 ? ", " : "", *r);
    lr_code code =
        lr_fail(err, LR_UNSUPPORTED, "no engine for runtime \"%s\"; engines here: %s", runtime,
                list.len != 0 ? lr_buf_z(&list) : "none");
    lr_buf_free(&list);
    return code;
}

static lr_code check_fit(const struct node_engine *e, const struct node_wish *wish,
                         struct lr_error *err)
{
    if (e->library == NULL)
        return lr_fail(err, LR_UNSUPPORTED, "engine \"%s\" is refused: %s", e->name, e->reason);
    if (!plugin_list_has(e->manifest.formats, wish->format))
        return lr_fail(err, LR_UNSUPPORTED, "engine \"%s\" does not run format %s", e->name,
                       wish->format);
    if (wish->architecture != NULL &&
        !plugin_list_has(e->manifest.architectures, wish->architecture))
        return lr_fail(
            err, LR_UNSUPPORTED,
            "engine \"%s\" does not run architecture \"%s\" (its manifest.json names "
            "%s%s)",
            e->name, wish->architecture, e->manifest.architectures[0],
            e->manifest.architectures[1] != NULL ? " and others" : "");
    if (!plugin_list_has(e->manifest.backends, wish->device))
        return lr_fail(err, LR_UNSUPPORTED, "engine \"%s\" has no %s backend in this build",
                       e->name, wish->device);
    return LR_OK;
}

lr_code node_engines_resolve(const struct node_engines *engines, const struct node_wish *wish,
                             struct node_engine **out, struct lr_error *err)
{
    const char *wanted = strcmp(wish->runtime, "gptoss_cpp") == 0 ? "gptoss" : wish->runtime;
    lr_code code = LR_OK;

    *out = NULL;
    for (struct node_engine *e = engines->first; e != NULL; e = e->next) {
        /* A refused manifest may have no lists; its folder's name is all we know. */
        bool matches = plugin_list_has(e->manifest.runtimes, wanted) ||
                       (e->library == NULL && strcmp(e->name, wanted) == 0);
        if (!matches)
            continue;
        code = check_fit(e, wish, err);
        if (code == LR_OK) {
            *out = e;
            return LR_OK;
        }
    }
    return code != LR_OK ? code : explain_missing(engines, wanted, err);
}
