/* base/file.c - reading, atomic writing, locking and mapping files (POSIX). */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/failpoint.h"
#include "base/file_internal.h"
#include "base/random.h"

lr_code lr_file_code(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return LR_NOT_FOUND;
    case EACCES:
    case EPERM:
    case EROFS:
        return LR_PERMISSION_DENIED;
    default:
        return LR_IO;
    }
}

lr_code lr_fail_file(struct lr_error *err, const char *verb, const char *path)
{
    return lr_fail_errno(err, lr_file_code(errno), "cannot %s %.400s", verb, path);
}

static lr_code open_read(const char *path, int *fd, struct lr_error *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    return *fd >= 0 ? LR_OK : lr_fail_file(err, "open", path);
}

static lr_code read_all(int fd, const char *path, struct lr_buf *out, struct lr_error *err)
{
    struct stat info;
    uint64_t expected =
        fstat(fd, &info) == 0 && S_ISREG(info.st_mode) ? (uint64_t)info.st_size : 0;
    if (expected > out->limit - out->len)
        return lr_fail(err, LR_TOO_LARGE, "%.400s has %llu bytes, limit %zu", path,
                       (unsigned long long)expected, out->limit);
    /* One byte more than expected, so that end of file is seen without another allocation.
     * Files under /proc report size 0 and are read in steps. */
    for (size_t step = (size_t)expected + 1;; step = 65536) {
        size_t room = out->limit - out->len;
        char probe;
        char *to = room != 0 ? lr_buf_reserve(out, step < room ? step : room) : &probe;
        if (to == NULL)
            return lr_fail(err, LR_OUT_OF_RAM, "no memory to read %.400s", path);
        ssize_t got = read(fd, to, room == 0 ? 1 : step < room ? step : room);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return lr_fail_file(err, "read", path);
        if (got == 0)
            return LR_OK;
        if (room == 0)
            return lr_fail(err, LR_TOO_LARGE, "%.400s is larger than the limit of %zu bytes",
                           path, out->limit);
        lr_buf_commit(out, (size_t)got);
    }
}

lr_code lr_file_read_buf(const char *path, struct lr_buf *out, struct lr_error *err)
{
    int fd;
    lr_code code = open_read(path, &fd, err);
    if (code != LR_OK)
        return code;
    code = read_all(fd, path, out, err);
    (void)close(fd);
    return code;
}

lr_code lr_file_read(struct lr_arena *arena, const char *path, size_t limit, struct lr_str *out,
                     struct lr_error *err)
{
    struct lr_buf buf;
    *out = lr_str(NULL, 0);
    lr_buf_init(&buf, limit);
    lr_code code = lr_file_read_buf(path, &buf, err);
    if (code == LR_OK) {
        char *copy = lr_arena_copy(arena, lr_buf_str(&buf));
        if (copy != NULL)
            *out = lr_str(copy, buf.len);
        else
            code = lr_fail(err, LR_OUT_OF_RAM, "no room for the %zu bytes of %.400s", buf.len,
                           path);
    }
    lr_buf_free(&buf);
    return code;
}

static bool write_all(int fd, struct lr_str bytes)
{
    while (bytes.len != 0) {
        ssize_t wrote = write(fd, bytes.ptr, bytes.len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return false;
        bytes = lr_str_sub(bytes, (size_t)wrote, bytes.len);
    }
    return true;
}

/* The folder of a path; "." when the path has none. */
static void parent_of(const char *path, char out[LR_PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    size_t len = slash != NULL ? (size_t)(slash - path) : 0;
    if (slash == path)
        len = 1;
    if (len == 0) {
        memcpy(out, ".", 2);
        return;
    }
    if (len >= LR_PATH_MAX)
        len = LR_PATH_MAX - 1;
    memcpy(out, path, len);
    out[len] = '\0';
}

lr_code lr_file_sync_dir(const char *path, struct lr_error *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return lr_fail_file(err, "open folder", path);
    /* Some file systems cannot sync a folder and return EINVAL; they keep the order
     * themselves. */
    bool ok = fsync(fd) == 0 || errno == EINVAL;
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return ok ? LR_OK : lr_fail_file(err, "sync folder", path);
}

lr_code lr_file_rename(const char *from, const char *to, struct lr_error *err)
{
    char folder[LR_PATH_MAX];
    if (rename(from, to) != 0)
        return lr_fail_errno(err, lr_file_code(errno), "cannot rename %.200s to %.200s", from,
                             to);
    parent_of(to, folder);
    return lr_file_sync_dir(folder, err);
}

lr_code lr_file_write_atomic(const char *path, struct lr_str bytes, unsigned mode,
                             struct lr_error *err)
{
    char folder[LR_PATH_MAX], temp[LR_PATH_MAX], tag[9];
    parent_of(path, folder);
    lr_random_hex(tag, sizeof(tag) - 1);
    int len = snprintf(temp, sizeof(temp), "%s.tmp-%s", path, tag);
    if (len < 0 || (size_t)len >= sizeof(temp))
        return lr_fail(err, LR_INVALID_ARGUMENT, "path %.200s... is too long", path);
    int fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, (mode_t)mode);
    if (fd < 0)
        return lr_fail_file(err, "create", temp);
    bool ok = write_all(fd, bytes) && fsync(fd) == 0;
    int saved = errno;
    if (close(fd) != 0 && ok) {
        ok = false;
        saved = errno;
    }
    errno = saved;
    lr_code code = ok ? LR_OK : lr_fail_file(err, "write", temp);
    (void)LR_FAILPOINT("file.before_rename");
    if (code == LR_OK)
        code = lr_file_rename(temp, path, err);
    if (code != LR_OK)
        (void)unlink(temp);
    return code;
}

bool lr_file_exists(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

lr_code lr_file_size(const char *path, uint64_t *out, struct lr_error *err)
{
    struct stat info;
    *out = 0;
    if (stat(path, &info) != 0)
        return lr_fail_file(err, "look at", path);
    *out = (uint64_t)info.st_size;
    return LR_OK;
}

lr_code lr_disk_free(const char *path, uint64_t *out, struct lr_error *err)
{
    struct statvfs info;
    *out = 0;
    if (statvfs(path, &info) != 0)
        return lr_fail_file(err, "ask for the free space of", path);
    *out = (uint64_t)info.f_bavail * info.f_frsize;
    return LR_OK;
}

lr_code lr_file_lock(const char *path, struct lr_file_lock *out, struct lr_error *err)
{
    char text[32] = "";
    out->fd = -1;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return lr_fail_file(err, "open lock file", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        ssize_t got = errno == EWOULDBLOCK ? read(fd, text, sizeof(text) - 1) : -1;
        int saved = errno;
        (void)close(fd);
        errno = saved;
        if (got < 0)
            return lr_fail_file(err, "lock", path);
        text[strcspn(text, "\n")] = '\0';
        return lr_fail(err, LR_CONFLICT,
                       "%.300s is held by process %s: stop it, or choose another --data-dir",
                       path, text[0] != '\0' ? text : "(unknown)");
    }
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    /* The process id only serves the message above; the lock holds without it. */
    if (ftruncate(fd, 0) == 0)
        (void)!pwrite(fd, text, (size_t)len, 0);
    out->fd = fd;
    return LR_OK;
}

void lr_file_unlock(struct lr_file_lock *lock)
{
    if (lock->fd >= 0)
        (void)close(lock->fd);
    lock->fd = -1;
}

lr_code lr_file_map_fd(int fd, const char *name, struct lr_file_map *out, struct lr_error *err)
{
    struct stat info;
    *out = (struct lr_file_map){(const unsigned char *)"", 0};
    if (fstat(fd, &info) != 0)
        return lr_fail_file(err, "look at", name);
    if (!S_ISREG(info.st_mode))
        return lr_fail(err, LR_INVALID_ARGUMENT, "%.400s is not a regular file", name);
    if (info.st_size == 0)
        return LR_OK;
    void *data = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return lr_fail_file(err, "map", name);
    *out = (struct lr_file_map){data, (size_t)info.st_size};
    return LR_OK;
}

lr_code lr_file_map(const char *path, struct lr_file_map *out, struct lr_error *err)
{
    int fd;
    *out = (struct lr_file_map){(const unsigned char *)"", 0};
    lr_code code = open_read(path, &fd, err);
    if (code != LR_OK)
        return code;
    code = lr_file_map_fd(fd, path, out, err);
    (void)close(fd);
    return code;
}

void lr_file_unmap(struct lr_file_map *map)
{
    if (map->len != 0) {
        void *data;
        memcpy(&data, &map->data, sizeof(data)); /* munmap's argument is not const */
        (void)munmap(data, map->len);
    }
    *map = (struct lr_file_map){(const unsigned char *)"", 0};
}
