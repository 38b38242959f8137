/* node/models/library.c - private copies of engine libraries, named by their content.
 *
 * An engine may bring libraries of its own beside it (found through $ORIGIN), so a copy
 * holds every plain file of the folder but the manifest.  A copy is made under a
 * temporary name and renamed when it is whole; a folder that exists is whole.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/random.h"
#include "base/strmap.h"
#include "node/workers/engines.h"

enum { FILES_MAX = 256 };

struct file_list {
    struct dirent **entries;
    int count;
};

static int is_member(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && strcmp(entry->d_name, "manifest.json") != 0;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void list_free(struct file_list *list)
{
    for (int i = 0; i < list->count; i++)
        free(list->entries[i]);
    if (list->count >= 0)
        free(list->entries);
}

static lr_code hash_file(struct lr_sha256 *hash, const char *path, struct lr_error *err)
{
    struct lr_file_map map;
    lr_code code = lr_file_map(path, &map, err);
    if (code != LR_OK)
        return code;
    lr_sha256_add(hash, map.data, map.len);
    lr_file_unmap(&map);
    return LR_OK;
}

static bool is_plain_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

/* The whole folder's digest, and the main library's own. */
static lr_code hash_folder(const char *folder, const struct file_list *list,
                           const char *library, char whole[LR_SHA256_HEX_LEN + 1],
                           char own[LR_SHA256_HEX_LEN + 1], struct lr_error *err)
{
    struct lr_sha256 all;
    unsigned char digest[LR_SHA256_LEN];
    char path[LR_PATH_MAX + 300];

    lr_sha256_init(&all);
    own[0] = '\0';
    for (int i = 0; i < list->count; i++) {
        const char *name = list->entries[i]->d_name;
        struct lr_sha256 one;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
        if (!is_plain_file(path))
            continue;
        lr_sha256_init(&one);
        lr_code code = hash_file(&one, path, err);
        if (code != LR_OK)
            return code;
        lr_sha256_end(&one, digest);
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
    int fd = open(to, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0700);
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
        lr_log_warn(NULL, "engine.cache_left reason=%s", err.text);
}

static lr_code copy_folder(const char *folder, const struct file_list *list, const char *target,
                           struct lr_error *err)
{
    char temporary[LR_PATH_MAX + 64];
    char suffix[9];
    lr_random_hex(suffix, 8);
    (void)snprintf(temporary, sizeof(temporary), "%s.%s.tmp", target, suffix);
    lr_code code = lr_dir_create(temporary, err);
    for (int i = 0; code == LR_OK && i < list->count; i++) {
        char from[LR_PATH_MAX + 300], to[LR_PATH_MAX + 400];
        (void)snprintf(from, sizeof(from), "%s/%s", folder, list->entries[i]->d_name);
        (void)snprintf(to, sizeof(to), "%s/%s", temporary, list->entries[i]->d_name);
        if (is_plain_file(from))
            code = copy_file(from, to, err);
    }
    if (code == LR_OK && rename(temporary, target) != 0 && errno != ENOTEMPTY &&
        errno != EEXIST)
        code = lr_fail_errno(err, LR_IO, "%s", target);
    if (lr_dir_exists(temporary))
        discard(temporary);
    return code;
}

/* Whatever lies beside the library may be loaded by it: the same rules for all. */
static lr_code check_files(const struct plugin_manifest *m, const struct file_list *list,
                           struct lr_error *err)
{
    char path[LR_PATH_MAX + 300];
    lr_code code = LR_OK;
    for (int i = 0; code == LR_OK && i < list->count; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", m->folder, list->entries[i]->d_name);
        if (is_plain_file(path))
            code = plugin_manifest_check_file(m, list->entries[i]->d_name, err);
    }
    return code;
}

static lr_code check_hash(const struct plugin_manifest *m, const char *own,
                          struct lr_error *err)
{
    if (own[0] == '\0')
        return lr_fail(err, LR_NOT_FOUND, "%s/%s has gone", m->folder, m->library);
    if (m->library_sha256 == NULL || strcmp(m->library_sha256, own) == 0)
        return LR_OK;
    return lr_fail(err, LR_UNAVAILABLE,
                   "%s/%s has sha256 %.12s..., its manifest says %.12s...: it is still being "
                   "copied, or one of the two is old",
                   m->folder, m->library, own, m->library_sha256);
}

static lr_code make_copy(const struct node_engines *engines, const struct plugin_manifest *m,
                         struct node_library *lib, struct lr_error *err)
{
    char own[LR_SHA256_HEX_LEN + 1];
    char target[LR_PATH_MAX + 80], copied[LR_SHA256_HEX_LEN + 1];
    struct file_list list = {0};

    list.count = scandir(m->folder, &list.entries, is_member, by_name);
    if (list.count < 0)
        return lr_fail_errno(err, LR_IO, "%s", m->folder);
    lr_code code = list.count <= FILES_MAX
                       ? LR_OK
                       : lr_fail(err, LR_TOO_LARGE, "%s holds %d files, the limit is %d",
                                 m->folder, list.count, FILES_MAX);
    if (code == LR_OK)
        code = check_files(m, &list, err);
    if (code == LR_OK)
        code = hash_folder(m->folder, &list, m->library, lib->sha256, own, err);
    if (code == LR_OK)
        code = check_hash(m, own, err);
    if (code == LR_OK)
        code = lr_dir_create(engines->cache_dir, err);
    (void)snprintf(target, sizeof(target), "%s/%s", engines->cache_dir, lib->sha256);
    if (code == LR_OK && !lr_dir_exists(target))
        code = copy_folder(m->folder, &list, target, err);
    /* A file that changed while it was copied has another digest now: not whole. */
    if (code == LR_OK)
        code = hash_folder(target, &list, m->library, copied, own, err);
    if (code == LR_OK && strcmp(copied, lib->sha256) != 0) {
        discard(target);
        code = lr_fail(err, LR_UNAVAILABLE, "%s changed while it was being copied", m->folder);
    }
    list_free(&list);
    int n = snprintf(lib->path, sizeof(lib->path), "%s/%s", target, m->library);
    if (code == LR_OK && (n < 0 || (size_t)n >= sizeof(lib->path)))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "%s: the path is too long", target);
    return code;
}

/* The folder of a private copy. */
static void folder_of(const struct node_library *lib, char out[LR_PATH_MAX])
{
    (void)snprintf(out, LR_PATH_MAX, "%s", lib->path);
    char *slash = strrchr(out, '/');
    if (slash != NULL)
        *slash = '\0';
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
    char copy[LR_PATH_MAX];
    folder_of(lib, copy);
    lib->signature = node_folder_signature(copy);
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
    char copy[LR_PATH_MAX];
    folder_of(old, copy);
    uint64_t now = node_folder_signature(copy);
    /* A folder that cannot be listed for want of a descriptor is not for that gone. */
    if (now == old->signature || (now == 0 && is_plain_file(old->path)))
        return LR_OK;
    lr_log_warn(NULL, "engine.copy_changed id=%s copy=%s", engine->name, copy);
    if (lr_dir_exists(copy))
        discard(copy);
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

uint64_t node_folder_signature(const char *folder)
{
    struct dirent **entries;
    uint64_t sum = 0;
    int count = scandir(folder, &entries, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char path[LR_PATH_MAX + 300];
        struct stat info;
        (void)snprintf(path, sizeof(path), "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && stat(path, &info) == 0) {
            uint64_t facts[] = {(uint64_t)info.st_ino, (uint64_t)info.st_size,
                                (uint64_t)info.st_mtim.tv_sec, (uint64_t)info.st_mtim.tv_nsec};
            sum = sum * 1000003 + lr_hash(lr_str((const char *)facts, sizeof(facts)));
        }
        free(entries[i]);
    }
    if (count >= 0)
        free(entries);
    return sum;
}
