/* base/os/windows/folder.c - removing folders, locks, maps, free space: functions of
 * base/file.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <windows.h>

#include "base/file.h"
#include "base/file_internal.h"
#include "base/os/windows/internal.h"

enum { MOST_NESTING = 64 };

static bool empty_folder(const char *path, int depth)
{
    struct lr_dir *dir = lr_dir_open(path);
    bool ok = dir != NULL;
    for (const char *name; ok && (name = lr_dir_next(dir)) != NULL;) {
        char inside[LR_PATH_MAX];
        struct lr_stat info;
        int len = snprintf(inside, sizeof(inside), "%s/%s", path, name);
        if (len < 0 || (size_t)len >= sizeof(inside)) {
            errno = ENAMETOOLONG;
            ok = false;
        } else if (lr_lstat(inside, &info) && info.kind == LR_KIND_FOLDER) {
            ok = depth < MOST_NESTING && empty_folder(inside, depth + 1) && lr_rmdir(inside);
        } else { /* a link to a folder is removed like a folder */
            ok = lr_unlink(inside) || lr_rmdir(inside);
        }
    }
    int saved = errno;
    lr_dir_close(dir);
    errno = saved;
    return ok;
}

lr_code lr_dir_remove(const char *path, struct lr_error *err)
{
    struct lr_stat info;
    if (!lr_lstat(path, &info))
        return lr_fail_file(err, "open folder", path);
    errno = ENOTDIR;
    if (info.kind != LR_KIND_FOLDER)
        return lr_fail_file(err, "open folder", path);
    if (!empty_folder(path, 0) || !lr_rmdir(path))
        return lr_fail_file(err, "remove folder", path);
    return LR_OK;
}

/* NTFS writes names in order by itself. */
lr_code lr_file_sync_dir(const char *path, struct lr_error *err)
{
    (void)path;
    (void)err;
    return LR_OK;
}

lr_code lr_disk_free(const char *path, uint64_t *out, struct lr_error *err)
{
    ULARGE_INTEGER bytes = {.QuadPart = 0};
    wchar_t *wide = lr_os_wide_path(path);
    bool ok = wide != NULL && GetDiskFreeSpaceExW(wide, &bytes, NULL, NULL);
    *out = bytes.QuadPart;
    if (wide != NULL && !ok)
        lr_os_set_errno();
    free(wide);
    return ok ? LR_OK : lr_fail_file(err, "ask for the free space of", path);
}

/* A byte far behind the text is locked, so that others can read the text. */
lr_code lr_file_lock(const char *path, struct lr_file_lock *out, struct lr_error *err)
{
    char text[32] = "";
    OVERLAPPED at = {.Offset = 1 << 30};
    out->fd = -1;
    int fd = lr_open(path, LR_OPEN_READ_WRITE | LR_OPEN_CREATE, 0600);
    if (fd < 0)
        return lr_fail_file(err, "open lock file", path);
    if (!LockFileEx((HANDLE)_get_osfhandle(fd),
                    LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)) {
        int got = read(fd, text, sizeof(text) - 1);
        (void)close(fd);
        text[got > 0 ? strcspn(text, "\n") : 0] = '\0';
        return lr_fail(err, LR_CONFLICT,
                       "%.300s is held by process %s: stop it, or choose another --data-dir",
                       path, text[0] != '\0' ? text : "(unknown)");
    }
    out->fd = fd;
    lr_file_lock_sign(out);
    return LR_OK;
}

void lr_file_lock_sign(const struct lr_file_lock *lock)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (_chsize_s(lock->fd, 0) == 0)
        (void)!pwrite(lock->fd, text, (size_t)len, 0);
}

void lr_file_unlock(struct lr_file_lock *lock)
{
    if (lock->fd >= 0)
        (void)close(lock->fd);
    lock->fd = -1;
}

lr_code lr_file_map_fd(int fd, const char *name, struct lr_file_map *out, struct lr_error *err)
{
    struct lr_stat info;
    *out = (struct lr_file_map){(const unsigned char *)"", 0};
    if (!lr_fstat(fd, &info))
        return lr_fail_file(err, "look at", name);
    if (info.kind != LR_KIND_FILE)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%.400s is not a regular file", name);
    if (info.size == 0)
        return LR_OK;
    HANDLE map =
        CreateFileMappingW((HANDLE)_get_osfhandle(fd), NULL, PAGE_READONLY, 0, 0, NULL);
    void *data = map != NULL ? MapViewOfFile(map, FILE_MAP_READ, 0, 0, 0) : NULL;
    if (data == NULL)
        lr_os_set_errno();
    if (map != NULL)
        (void)CloseHandle(map); /* the view keeps it */
    if (data == NULL)
        return lr_fail_file(err, "map", name);
    *out = (struct lr_file_map){data, (size_t)info.size};
    return LR_OK;
}

void lr_file_unmap(struct lr_file_map *map)
{
    if (map->len != 0)
        (void)UnmapViewOfFile(map->data);
    *map = (struct lr_file_map){(const unsigned char *)"", 0};
}

/* Windows reads ahead by itself. */
void lr_map_advise(const void *data, uint64_t bytes, enum lr_advice advice)
{
    (void)data;
    (void)bytes;
    (void)advice;
}

/* Access lists say who may write; they are not looked at. */
lr_code lr_file_check_owner(const char *path, bool is_parent, struct lr_error *err)
{
    struct lr_stat info;
    (void)is_parent;
    if (!lr_stat(path, &info))
        return lr_fail_errno(err, LR_IO, "%s", path);
    return LR_OK;
}

/* The value of a variable that names a folder, with slashes; NULL: it is missing or no path. */
static const char *folder_in(const char *name, char out[LR_PATH_MAX])
{
    const char *text = getenv(name);
    if (text == NULL || !lr_path_is_absolute(text) || strlen(text) >= LR_PATH_MAX)
        return NULL;
    for (size_t i = 0; i <= strlen(text); i++)
        out[i] = (char)(text[i] == '\\' ? '/' : text[i]);
    return out;
}

const char *lr_user_dir(void)
{
    static char user[LR_PATH_MAX];
    return folder_in("USERPROFILE", user);
}

const char *lr_home_dir(void)
{
    static char home[LR_PATH_MAX];
    const char *local = folder_in("LOCALAPPDATA", home);
    return local != NULL ? local : lr_user_dir();
}
