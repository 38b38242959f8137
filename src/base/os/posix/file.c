/* base/os/posix/file.c - files by their paths: the system takes UTF-8 as it is. */
#include "base/os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/os/posix/internal.h"

int lr_open(const char *path, unsigned flags, unsigned mode)
{
    static const int access[] = {O_RDONLY, O_WRONLY, O_RDWR};
    int how = access[flags & 3] | O_CLOEXEC;
    how |= (flags & (LR_OPEN_CREATE | LR_OPEN_NEW)) != 0 ? O_CREAT : 0;
    how |= (flags & LR_OPEN_NEW) != 0 ? O_EXCL : 0;
    how |= (flags & LR_OPEN_APPEND) != 0 ? O_APPEND : 0;
    how |= (flags & LR_OPEN_NO_LINK) != 0 ? O_NOFOLLOW : 0;
    how |= (flags & LR_OPEN_NO_WAIT) != 0 ? O_NONBLOCK : 0;
    return open(path, how, (mode_t)mode);
}

FILE *lr_fopen(const char *path, const char *mode)
{
    return fopen(path, mode);
}

static bool fill(int rc, const struct stat *info, struct lr_stat *out)
{
    if (rc != 0)
        return false;
    *out = (struct lr_stat){
        .kind = S_ISREG(info->st_mode)   ? LR_KIND_FILE
                : S_ISDIR(info->st_mode) ? LR_KIND_FOLDER
                : S_ISLNK(info->st_mode) ? LR_KIND_LINK
                                         : LR_KIND_OTHER,
        .size = (uint64_t)info->st_size,
        .device = (uint64_t)info->st_dev,
        .inode = (uint64_t)info->st_ino,
        .changed_ns = lr_os_changed_ns(info),
        .owner = (uint32_t)info->st_uid,
        .group = (uint32_t)info->st_gid,
        .mode = (uint32_t)info->st_mode,
    };
    return true;
}

bool lr_stat(const char *path, struct lr_stat *out)
{
    struct stat info;
    return fill(stat(path, &info), &info, out);
}

bool lr_lstat(const char *path, struct lr_stat *out)
{
    struct stat info;
    return fill(lstat(path, &info), &info, out);
}

bool lr_fstat(int fd, struct lr_stat *out)
{
    struct stat info;
    return fill(fstat(fd, &info), &info, out);
}

bool lr_unlink(const char *path)
{
    return unlink(path) == 0;
}

bool lr_rename(const char *from, const char *to)
{
    return rename(from, to) == 0;
}

bool lr_link(const char *from, const char *to)
{
    return link(from, to) == 0;
}

bool lr_mkdir(const char *path)
{
    return mkdir(path, 0700) == 0;
}

bool lr_rmdir(const char *path)
{
    return rmdir(path) == 0;
}

bool lr_can_read(const char *path)
{
    return access(path, R_OK) == 0;
}

bool lr_can_write(const char *path)
{
    return access(path, W_OK) == 0;
}

char *lr_realpath(const char *path, char out[LR_PATH_MAX])
{
    char *real = realpath(path, NULL);
    if (real == NULL)
        return NULL;
    bool fits = strlen(real) < LR_PATH_MAX;
    if (fits)
        memcpy(out, real, strlen(real) + 1);
    free(real);
    errno = ENAMETOOLONG;
    return fits ? out : NULL;
}

bool lr_path_is_absolute(const char *path)
{
    return path[0] == '/';
}

/* ---- folders ---- */

/* A DIR under another name. */
struct lr_dir;

struct lr_dir *lr_dir_open(const char *path)
{
    return (struct lr_dir *)opendir(path);
}

const char *lr_dir_next(struct lr_dir *dir)
{
    const struct dirent *entry;
    do
        entry = readdir((DIR *)dir);
    while (entry != NULL &&
           (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0));
    return entry != NULL ? entry->d_name : NULL;
}

void lr_dir_close(struct lr_dir *dir)
{
    if (dir != NULL)
        (void)closedir((DIR *)dir);
}
