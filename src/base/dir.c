/* base/dir.c - making and removing folders (POSIX). */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/file_internal.h"

bool lr_dir_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool lr_dir_has(const char *path, const char *suffix)
{
    bool found = false;
    DIR *folder = opendir(path);
    for (struct dirent *e; folder != NULL && !found && (e = readdir(folder)) != NULL;)
        found = e->d_name[0] != '.' && lr_str_ends(lr_str_z(e->d_name), suffix);
    if (folder != NULL)
        (void)closedir(folder);
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
        int why = mkdir(copy, 0700) == 0 ? 0 : errno;
        if (why != 0 && why != EEXIST && !lr_dir_exists(copy)) {
            errno = why; /* stat() has changed errno */
            return lr_fail_file(err, "create folder", copy);
        }
        copy[i] = path[i];
    }
    if (!lr_dir_exists(path))
        return lr_fail(err, LR_CONFLICT, "%.400s exists and is not a folder", path);
    return LR_OK;
}

enum { MOST_NESTING = 64 };

/* Empties the folder behind fd (taken over).  errno tells why it failed. */
static bool empty_folder(int fd, int depth)
{
    DIR *folder = fdopendir(fd);
    if (folder == NULL) {
        (void)close(fd);
        return false;
    }
    bool ok = true;
    for (struct dirent *entry; ok && (entry = readdir(folder)) != NULL;) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        if (unlinkat(fd, name, 0) == 0 || errno == ENOENT)
            continue;
        /* For a folder unlink fails with EISDIR on Linux and with EPERM by POSIX. */
        ok = (errno == EISDIR || errno == EPERM) && depth < MOST_NESTING;
        int child = ok ? openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
        ok = child >= 0 && empty_folder(child, depth + 1) &&
             (unlinkat(fd, name, AT_REMOVEDIR) == 0 || errno == ENOENT);
    }
    int saved = errno;
    (void)closedir(folder);
    errno = saved;
    return ok;
}

lr_code lr_dir_remove(const char *path, struct lr_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return lr_fail_file(err, "open folder", path);
    if (!empty_folder(fd, 0) || rmdir(path) != 0)
        return lr_fail_file(err, "remove folder", path);
    return LR_OK;
}
