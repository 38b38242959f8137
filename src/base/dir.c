/* base/dir.c - looking at folders and making them. */
#include <errno.h>

#include "base/file.h"
#include "base/file_internal.h"

bool lr_dir_exists(const char *path)
{
    struct lr_stat info;
    return lr_stat(path, &info) && info.kind == LR_KIND_FOLDER;
}

bool lr_dir_has(const char *path, const char *suffix)
{
    bool found = false;
    struct lr_dir *folder = lr_dir_open(path);
    for (const char *name; folder != NULL && !found && (name = lr_dir_next(folder)) != NULL;)
        found = name[0] != '.' && lr_str_ends(lr_str_z(name), suffix);
    lr_dir_close(folder);
    return found;
}

lr_code lr_dir_create(const char *path, struct lr_error *err)
{
    char copy[LR_PATH_MAX];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof(copy))
        return lr_fail(err, LR_INVALID_ARGUMENT, "folder name \"%.200s\" is %s", path,
                       len == 0 ? "empty" : "too long");
    memcpy(copy, path, len + 1);
    for (size_t i = 1; i <= len; i++) {
        if (copy[i] != '/' && copy[i] != '\0')
            continue;
        copy[i] = '\0';
        /* Whether EEXIST is an error is decided at the end: a parent may exist where this
         * process cannot look at it. */
        int why = lr_mkdir(copy) ? 0 : errno;
        if (why != 0 && why != EEXIST && !lr_dir_exists(copy)) {
            errno = why; /* looking has changed errno */
            return lr_fail_file(err, "create folder", copy);
        }
        copy[i] = path[i];
    }
    if (!lr_dir_exists(path))
        return lr_fail(err, LR_CONFLICT, "%.400s exists and is not a folder", path);
    return LR_OK;
}
