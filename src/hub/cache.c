#include "hub/cache.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/file.h"

enum { NAME_BYTES = 256 }; /* of a file name */

/* The commit refs/main names; without one, the only snapshot there is. */
static lr_code find_commit(const char *entry, char out[NAME_BYTES], struct lr_error *err)
{
    char path[LR_PATH_MAX + 32];
    struct lr_buf text;
    (void)snprintf(path, sizeof(path), "%s/refs/main", entry);
    lr_buf_init(&text, NAME_BYTES - 1);
    out[0] = '\0';
    if (lr_file_read_buf(path, &text, err) == LR_OK) {
        struct lr_str commit = lr_str_trim(lr_buf_str(&text));
        if (lr_path_safe(commit))
            (void)snprintf(out, NAME_BYTES, LR_STR_FMT, LR_STR_ARG(commit));
        lr_buf_free(&text);
        return out[0] != '\0' ? LR_OK
                              : lr_fail(err, LR_MODEL_CORRUPT, "%s names no commit", path);
    }
    lr_buf_free(&text);
    (void)snprintf(path, sizeof(path), "%s/snapshots", entry);
    unsigned count = 0;
    struct lr_dir *folder = lr_dir_open(path);
    for (const char *name; folder != NULL && (name = lr_dir_next(folder)) != NULL;) {
        if (name[0] == '.')
            continue;
        count++;
        (void)snprintf(out, NAME_BYTES, "%s", name);
    }
    lr_dir_close(folder);
    return count == 1 ? LR_OK
                      : lr_fail(err, LR_MODEL_CORRUPT,
                                "%s has %u snapshots and no refs/main that says which one to "
                                "use: download the model again",
                                entry, count);
}

/* models--org--name/{refs/main,snapshots/<commit>/}. */
static void look_at(const char *cache, const char *name, hub_cache_fn fn, void *arg)
{
    char entry[LR_PATH_MAX], path[LR_PATH_MAX], commit[NAME_BYTES], id[NAME_BYTES];
    struct lr_error err;
    (void)snprintf(id, sizeof(id), "%s", name + strlen("models--"));
    char *dashes = strstr(id, "--");
    if (dashes != NULL) {
        *dashes = '/';
        memmove(dashes + 1, dashes + 2, strlen(dashes + 2) + 1);
    }
    lr_code code = lr_path_join(entry, cache, lr_str_z(name), &err);
    if (code == LR_OK)
        code = find_commit(entry, commit, &err);
    int n = code == LR_OK ? snprintf(path, sizeof(path), "%s/snapshots/%s", entry, commit) : 0;
    if (code == LR_OK && (n < 0 || (size_t)n >= sizeof(path) || !lr_dir_exists(path)))
        code = lr_fail(&err, LR_MODEL_CORRUPT, "%s has no snapshot %s, which refs/main names",
                       entry, commit);
    fn(arg, id, code == LR_OK ? path : entry, code == LR_OK ? NULL : &err);
}

static bool find_cache(char dir[LR_PATH_MAX])
{
    const char *cache = getenv("HF_HUB_CACHE"), *home = getenv("HF_HOME");
    const char *user = lr_user_dir();
    if (cache != NULL && cache[0] != '\0')
        (void)snprintf(dir, LR_PATH_MAX, "%s", cache);
    else if (home != NULL && home[0] != '\0')
        (void)snprintf(dir, LR_PATH_MAX, "%s/hub", home);
    else if (user != NULL)
        (void)snprintf(dir, LR_PATH_MAX, "%s/.cache/huggingface/hub", user);
    else
        return false;
    return true;
}

bool hub_cache_has(const char *dir, char blobs[LR_PATH_MAX])
{
    char cache[LR_PATH_MAX], real[LR_PATH_MAX];
    if (!find_cache(cache) || lr_realpath(cache, real) == NULL)
        return false;
    /* CACHE/models--org--name/snapshots/COMMIT */
    size_t len = strlen(real);
    if (strncmp(dir, real, len) != 0 || !lr_str_starts(lr_str_z(dir + len), "/models--"))
        return false;
    const char *entry_end = strchr(dir + len + 1, '/');
    if (entry_end == NULL || !lr_str_starts(lr_str_z(entry_end), "/snapshots/"))
        return false;
    int n = snprintf(blobs, LR_PATH_MAX, "%.*s/blobs", (int)(entry_end - dir), dir);
    return n > 0 && n < LR_PATH_MAX;
}

void hub_cache_each(hub_cache_fn fn, void *arg)
{
    char dir[LR_PATH_MAX];
    if (!find_cache(dir))
        return;
    struct lr_dir *folder = lr_dir_open(dir);
    for (const char *name; folder != NULL && (name = lr_dir_next(folder)) != NULL;)
        if (lr_str_starts(lr_str_z(name), "models--"))
            look_at(dir, name, fn, arg);
    lr_dir_close(folder);
}
