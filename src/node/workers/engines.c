/* node/workers/engines.c - see node/workers/engines.h.
 *
 * An engine may bring libraries of its own beside it (found through $ORIGIN), so a private copy
 * holds every plain file of the folder but the manifest.  A copy is made under a temporary name
 * and renamed when it is whole.  The node compares a copy of an earlier start with its name,
 * the digest, before it runs the copy; a damaged one is copied again.
 */
#include "node/workers/engines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strmap.h"

enum { FILES_MAX = 256, FILE_PATH_MAX = LR_PATH_MAX + 400 };

/* ---- files ---- */

struct file_list {
    char **names; /* owned; sorted */
    int count;    /* -1: the folder cannot be read */
};

static const char *in_folder(char out[FILE_PATH_MAX], const char *folder, const char *name)
{
    (void)snprintf(out, FILE_PATH_MAX, "%.4300s/%s", folder, name);
    return out;
}

static int by_name(const void *a, const void *b)
{
    const char *const *left = a, *const *right = b;
    return strcmp(*left, *right);
}

static void list_free(struct file_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->names[i]);
    free(list->names);
}

static bool add_name(struct file_list *list, const char *name)
{
    char **longer = realloc(list->names, ((size_t)list->count + 1) * sizeof(*longer));
    if (longer == NULL)
        return false;
    list->names = longer;
    return (longer[list->count] = strdup(name)) != NULL && ++list->count > 0;
}

static void list_folder(struct file_list *list, const char *folder)
{
    struct lr_dir *dir = lr_dir_open(folder);
    bool is_whole = dir != NULL;
    *list = (struct file_list){0};
    for (const char *name; is_whole && (name = lr_dir_next(dir)) != NULL;)
        is_whole = name[0] == '.' || add_name(list, name);
    lr_dir_close(dir);
    if (!is_whole) {
        list_free(list);
        *list = (struct file_list){.count = -1};
    }
    if (list->count > 0)
        qsort(list->names, (size_t)list->count, sizeof(*list->names), by_name);
}

uint64_t node_folder_signature(const char *folder)
{
    struct file_list list;
    uint64_t sum = 0;
    list_folder(&list, folder);
    for (int i = 0; i < list.count; i++) {
        char path[FILE_PATH_MAX];
        struct lr_stat info;
        if (lr_stat(in_folder(path, folder, list.names[i]), &info)) {
            uint64_t facts[] = {info.inode, info.size, (uint64_t)info.changed_ns};
            sum = sum * 1000003 + lr_hash(lr_str((const char *)facts, sizeof(facts)));
        }
    }
    list_free(&list);
    return sum;
}

/* ---- private copies ---- */

/* What a copy holds.  Whatever lies beside the library may be loaded by it: the same rules for
 * all. */
static lr_code list_members(struct file_list *list, const struct plugin_manifest *m,
                            struct lr_error *err)
{
    char path[FILE_PATH_MAX];
    lr_code code = LR_OK;
    int kept = 0;
    list_folder(list, m->folder);
    if (list->count < 0)
        return lr_fail_errno(err, LR_IO, "%s", m->folder);
    for (int i = 0; i < list->count; i++) {
        const char *name = list->names[i];
        if (strcmp(name, "manifest.json") == 0 ||
            !lr_file_exists(in_folder(path, m->folder, name))) {
            free(list->names[i]);
            continue;
        }
        if (code == LR_OK)
            code = plugin_manifest_check_file(m, name, err);
        list->names[kept++] = list->names[i];
    }
    list->count = kept;
    if (code == LR_OK && kept > FILES_MAX)
        code = lr_fail(err, LR_TOO_LARGE, "%s holds %d files, the limit is %d", m->folder, kept,
                       FILES_MAX);
    return code;
}

/* The whole folder's digest, and the main library's own; "" where the library has gone. */
static lr_code hash_folder(const char *folder, const struct file_list *list,
                           const char *library, char whole[LR_SHA256_HEX_LEN + 1],
                           char own[LR_SHA256_HEX_LEN + 1], struct lr_error *err)
{
    struct lr_sha256 all;
    unsigned char digest[LR_SHA256_LEN];
    char path[FILE_PATH_MAX];
    lr_sha256_init(&all);
    own[0] = '\0';
    for (int i = 0; i < list->count; i++) {
        const char *name = list->names[i];
        struct lr_file_map map;
        lr_code code = lr_file_map(in_folder(path, folder, name), &map, err);
        if (code != LR_OK)
            return code;
        lr_sha256_of(lr_str((const char *)map.data, map.len), digest);
        lr_file_unmap(&map);
        lr_sha256_add(&all, name, strlen(name) + 1);
        lr_sha256_add(&all, digest, sizeof(digest));
        if (strcmp(name, library) == 0)
            lr_sha256_hex(digest, own);
    }
    lr_sha256_end(&all, digest);
    lr_sha256_hex(digest, whole);
    return LR_OK;
}

static lr_code copy_file(const char *from, const char *to, struct lr_error *err)
{
    struct lr_file_map map;
    lr_code code = lr_file_map(from, &map, err);
    if (code != LR_OK)
        return code;
    int fd = lr_open(to, LR_OPEN_WRITE | LR_OPEN_NEW, 0700);
    if (fd < 0)
        code = lr_fail_errno(err, LR_IO, "%s", to);
    for (size_t done = 0; code == LR_OK && done < map.len;) {
        ssize_t n = write(fd, map.data + done, map.len - done);
        if (n < 0 && errno != EINTR)
            code = lr_fail_errno(err, LR_IO, "%s", to);
        done += n > 0 ? (size_t)n : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    lr_file_unmap(&map);
    return code;
}

static void discard(const char *folder)
{
    struct lr_error err;
    if (lr_dir_remove(folder, &err) != LR_OK)
        lr_log_warn(LR_LOG_OF(&err), "engine.cache_left reason=%s", err.text);
}

static lr_code copy_folder(const char *folder, const struct file_list *list, const char *target,
                           struct lr_error *err)
{
    char temporary[LR_PATH_MAX + 64], from[FILE_PATH_MAX], to[FILE_PATH_MAX], suffix[9];
    lr_random_hex(suffix, 8);
    (void)snprintf(temporary, sizeof(temporary), "%.4100s.%s.tmp", target, suffix);
    lr_code code = lr_dir_create(temporary, err);
    for (int i = 0; code == LR_OK && i < list->count; i++) {
        const char *name = list->names[i];
        code = copy_file(in_folder(from, folder, name), in_folder(to, temporary, name), err);
    }
    if (code == LR_OK && !lr_rename(temporary, target) && errno != ENOTEMPTY && errno != EEXIST)
        code = lr_fail_errno(err, LR_IO, "%s", target);
    if (lr_dir_exists(temporary))
        discard(temporary);
    return code;
}

static lr_code check_hash(const struct plugin_manifest *m, const char *own,
                          struct lr_error *err)
{
    if (own[0] == '\0')
        return lr_fail(err, LR_NOT_FOUND, "%s/%s has gone", m->folder, m->library);
    if (m->library_sha256 == NULL || strcmp(m->library_sha256, own) == 0)
        return LR_OK;
    return lr_fail_as(err, library_differs, m->folder, m->library, own, m->library_sha256);
}

/* The copy has every file, as it was when the engine's folder was hashed. */
static bool is_whole(const struct node_library *lib, const struct file_list *list,
                     const char *library)
{
    char whole[LR_SHA256_HEX_LEN + 1], own[LR_SHA256_HEX_LEN + 1];
    return hash_folder(lib->folder, list, library, whole, own, NULL) == LR_OK &&
           strcmp(whole, lib->sha256) == 0;
}

static lr_code make_copy(const struct node_engines *engines, const struct plugin_manifest *m,
                         struct node_library *lib, struct lr_error *err)
{
    char own[LR_SHA256_HEX_LEN + 1];
    struct file_list list;
    lr_code code = list_members(&list, m, err);
    if (code == LR_OK)
        code = hash_folder(m->folder, &list, m->library, lib->sha256, own, err);
    if (code == LR_OK)
        code = check_hash(m, own, err);
    if (code == LR_OK)
        code = lr_dir_create(engines->cache_dir, err);
    (void)snprintf(lib->folder, LR_PATH_MAX, "%.4020s/%s", engines->cache_dir, lib->sha256);
    bool is_kept = code == LR_OK && lr_dir_exists(lib->folder);
    if (is_kept && !is_whole(lib, &list, m->library)) {
        lr_log_warn(NULL, "engine.copy_damaged id=%s copy=%s", m->engine_id, lib->folder);
        discard(lib->folder);
        is_kept = false;
    }
    if (code == LR_OK && !is_kept)
        code = copy_folder(m->folder, &list, lib->folder, err);
    if (code == LR_OK && !is_kept && !is_whole(lib, &list, m->library)) {
        discard(lib->folder);
        code = lr_fail(err, LR_UNAVAILABLE, "%s changed while it was being copied", m->folder);
    }
    list_free(&list);
    int n = snprintf(lib->path, sizeof(lib->path), "%s/%s", lib->folder, m->library);
    if (code == LR_OK && (n < 0 || (size_t)n >= sizeof(lib->path)))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "%s: the path is too long", lib->folder);
    return code;
}

lr_code node_library_take(const struct node_engines *engines, const char *folder,
                          struct plugin_manifest *manifest, struct node_library **out,
                          struct lr_error *err)
{
    *out = NULL;
    lr_code code = plugin_manifest_read(manifest, folder, err);
    if (code != LR_OK)
        return code;
    code = plugin_manifest_check_abi(manifest, err);
    struct node_library *lib = calloc(1, sizeof(*lib));
    if (code == LR_OK && lib == NULL)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for an engine");
    if (code == LR_OK)
        code = make_copy(engines, manifest, lib, err);
    if (code != LR_OK) {
        free(lib);
        plugin_manifest_free(manifest);
        return code;
    }
    lib->signature = node_folder_signature(lib->folder);
    lib->refs = 1;
    lib->abi = manifest->abi_version;
    (void)snprintf(lib->engine_id, sizeof(lib->engine_id), "%s", manifest->engine_id);
    (void)snprintf(lib->version, sizeof(lib->version), "%s", manifest->engine_version);
    *out = lib;
    return LR_OK;
}

lr_code node_library_restore(const struct node_engines *engines, struct node_engine *engine,
                             struct lr_error *err)
{
    struct node_library *old = engine->library, *fresh;
    struct plugin_manifest manifest = {0};
    uint64_t now = node_folder_signature(old->folder);
    /* A folder that cannot be listed for want of a descriptor is not for that gone. */
    if (now == old->signature || (now == 0 && lr_file_exists(old->path)))
        return LR_OK;
    lr_log_warn(NULL, "engine.copy_changed id=%s copy=%s", engine->name, old->folder);
    if (lr_dir_exists(old->folder))
        discard(old->folder);
    lr_code code = node_library_take(engines, engine->folder, &manifest, &fresh, err);
    if (code != LR_OK)
        return lr_fail_prefix(err, "the private copy of engine \"%.60s\" is gone",
                              engine->name);
    if (strcmp(fresh->sha256, old->sha256) == 0) {
        old->signature = fresh->signature; /* the same files at the same path */
        node_library_unref(fresh);
        plugin_manifest_free(&manifest);
        return LR_OK;
    }
    /* The engine's folder holds another version by now, and the old one exists no more. */
    node_library_unref(old);
    engine->library = fresh;
    plugin_manifest_free(&engine->manifest);
    engine->manifest = manifest;
    return LR_OK;
}

struct node_library *node_library_ref(struct node_library *library)
{
    library->refs++;
    return library;
}

/* The copy on disk stays: the next start of this node finds it whole. */
void node_library_unref(struct node_library *library)
{
    if (library != NULL && --library->refs == 0)
        free(library);
}

/* ---- the registry ---- */

static void engines_refuse(struct node_engine *e, const struct lr_error *err)
{
    e->refusal = *err;
    lr_log_warn(LR_LOG_OF(err), "engine.refused folder=%s code=%s reason=%s", e->folder,
                lr_code_name(err->code), err->text);
}

static lr_code check_duplicate(const struct node_engines *engines, const struct node_engine *e,
                               struct lr_error *err)
{
    for (const struct node_engine *o = engines->first; o != NULL; o = o->next)
        if (o->library != NULL && strcmp(o->manifest.engine_id, e->manifest.engine_id) == 0)
            return lr_fail_as(err, engine_taken, e->manifest.engine_id, o->folder);
    return LR_OK;
}

static bool scan_folder(struct node_engines *engines, const char *folder)
{
    struct lr_error err;
    struct node_engine *e = calloc(1, sizeof(*e));
    if (e == NULL)
        return false;
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
        engines_refuse(e, &err);
    else
        lr_log_info(NULL, "engine.found id=%s version=%s abi=%u sha256=%s", e->name,
                    e->manifest.engine_version, e->manifest.abi_version, e->library->sha256);
    struct node_engine **link = &engines->first;
    while (*link != NULL)
        link = &(*link)->next;
    *link = e;
    return true;
}

static bool is_known(const struct node_engines *engines, const char *folder)
{
    for (const struct node_engine *e = engines->first; e != NULL; e = e->next)
        if (strcmp(e->folder, folder) == 0)
            return true;
    return false;
}

bool node_engines_scan(struct node_engines *engines)
{
    struct file_list list;
    bool has_more = false;
    char folder[FILE_PATH_MAX], manifest[FILE_PATH_MAX];
    list_folder(&list, engines->dir);
    if (list.count < 0)
        lr_log_warn(NULL, "engine.no_folder dir=%s", engines->dir);
    for (int i = 0; i < list.count; i++) {
        (void)in_folder(folder, engines->dir, list.names[i]);
        if (strlen(folder) < LR_PATH_MAX &&
            lr_file_exists(in_folder(manifest, folder, "manifest.json")) &&
            !is_known(engines, folder))
            has_more = scan_folder(engines, folder) || has_more;
    }
    list_free(&list);
    return has_more;
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

struct node_engine *node_engines_find(const struct node_engines *engines, struct lr_str id)
{
    struct node_engine *e = engines->first;
    while (e != NULL && !lr_str_eq_z(id, e->name))
        e = e->next;
    return e;
}

static lr_code explain_missing(const struct node_engines *engines, const char *runtime,
                               struct lr_error *err)
{
    struct lr_buf list;
    bool is_gguf = strcmp(runtime, "llama_cpp") == 0;
    lr_buf_init(&list, 1024);
    for (const struct node_engine *e = engines->first; e != NULL; e = e->next)
        lr_buf_addf(&list, "%s%s", list.len != 0 ? ", " : "", e->name);
    lr_buf_addf(&list, "%s; %s", list.len != 0 ? "" : "none",
                is_gguf ? "llama.cpp's engine for GGUF comes with \"tools/setup llama && "
                          "tools/build release\" in the source folder, and is in the package "
                          "and the archives"
                        : "GGUF weights of such a model may run by llama.cpp's engine "
                          "(llm-router search)");
    lr_code code = lr_fail_as(err, no_engine, runtime, lr_buf_z(&list));
    lr_buf_free(&list);
    return code;
}

static lr_code explain_backend(const struct node_engine *e, const char *device,
                               struct lr_error *err)
{
    char list[100] = "";
    size_t at = 0;
    for (const char *const *b = e->manifest.backends; *b != NULL && at < sizeof(list); b++)
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", at != 0 ? ", " : "", *b);
    if (strcmp(device, "cuda") == 0 && plugin_list_has(e->manifest.trial_backends, "vulkan"))
        return lr_fail(
            err, LR_UNSUPPORTED,
            "engine \"%s\" has no CUDA; it could compute on this GPU through Vulkan, "
            "which has not been run on a GPU yet: start the node with --device vulkan "
            "to try it, or with another device (it has %s)",
            e->name, list);
    if (plugin_list_has(e->manifest.trial_backends, device))
        return lr_fail_as(err, engine_trial, e->name, device, device, list);
    return lr_fail_as(err, engine_no_backend, e->name, device, list);
}

static lr_code check_fit(const struct node_engine *e, const struct node_wish *wish,
                         struct lr_error *err)
{
    char names[200];
    if (e->library == NULL)
        return lr_fail_as(err, engine_refused, e->name, &e->refusal);
    if (!plugin_list_has(e->manifest.formats, wish->format))
        return lr_fail_as(err, engine_no_format, e->name, wish->format);
    if (wish->architecture != NULL &&
        !plugin_list_has(e->manifest.architectures, wish->architecture)) {
        (void)snprintf(names, sizeof(names), "%.160s%s", e->manifest.architectures[0],
                       e->manifest.architectures[1] != NULL ? " and others" : "");
        return lr_fail_as(err, engine_no_architecture, e->name, wish->architecture, names);
    }
    if (!plugin_manifest_computes_on(&e->manifest, wish->device, wish->is_named))
        return explain_backend(e, wish->device, err);
    return LR_OK;
}

lr_code node_engines_resolve(const struct node_engines *engines, const struct node_wish *wish,
                             struct node_engine **out, struct lr_error *err)
{
    const char *wanted = strcmp(wish->runtime, "gptoss_cpp") == 0 ? "gptoss" : wish->runtime;
    const struct node_engine *refused = NULL;
    struct lr_error reason = {0}, kept = {0};

    *out = NULL;
    for (struct node_engine *e = engines->first; e != NULL; e = e->next) {
        /* A refused manifest may have no lists; its folder's name is all we know. */
        bool matches = plugin_list_has(e->manifest.runtimes, wanted) ||
                       (e->library == NULL && strcmp(e->name, wanted) == 0);
        if (!matches)
            continue;
        if (check_fit(e, wish, &reason) == LR_OK) {
            if (*out == NULL || e->manifest.priority > (*out)->manifest.priority)
                *out = e;
        } else if (refused == NULL || e->manifest.priority > refused->manifest.priority) {
            refused = e; /* the largest priority says why none fits */
            kept = reason;
        }
    }
    if (*out != NULL)
        return LR_OK;
    if (refused == NULL)
        return explain_missing(engines, wanted, err);
    return lr_fail(err, kept.code, "%s", kept.text);
}

bool node_resolve_by_vulkan(const struct node_engines *engines, const struct node_wish *wish,
                            struct node_engine **out)
{
    struct node_wish other = *wish;
    struct lr_error ignored;

    other.device = "vulkan";
    other.is_named = false;
    return strcmp(wish->device, "cuda") == 0 &&
           node_engines_resolve(engines, &other, out, &ignored) == LR_OK;
}

/* ---- DirectML ---- */

bool node_is_directml(const char *path, struct lr_error *err)
{
    static const char *const names[] = {"model.directml.bin", "model.dml.bin"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char inside[FILE_PATH_MAX];
        if (strcmp(lr_path_base(path), names[i]) != 0 &&
            !lr_file_exists(in_folder(inside, path, names[i])))
            continue;
        (void)lr_fail(
            err, LR_UNSUPPORTED,
            "%s is a DirectML artifact and the DirectML runtime is not here: it is "
            "experimental and runs on Windows only, with DirectML.dll from "
            "https://github.com/microsoft/DirectML; use the model's safetensors, on Windows "
            "with --device vulkan",
            names[i]);
        return true;
    }
    return false;
}
