/* base/file.c - reading and atomic writing of files. */
#include "base/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

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
    *fd = lr_open(path, LR_OPEN_READ, 0);
    return *fd >= 0 ? LR_OK : lr_fail_file(err, "open", path);
}

static lr_code file_read_all(int fd, const char *path, struct lr_buf *out, struct lr_error *err)
{
    struct lr_stat info;
    uint64_t expected = lr_fstat(fd, &info) && info.kind == LR_KIND_FILE ? info.size : 0;
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
    code = file_read_all(fd, path, out, err);
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

static bool file_write_all(int fd, struct lr_str bytes)
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

lr_code lr_file_rename(const char *from, const char *to, struct lr_error *err)
{
    char folder[LR_PATH_MAX];
    if (!lr_rename(from, to))
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
    int fd = lr_open(temp, LR_OPEN_WRITE | LR_OPEN_NEW, mode);
    if (fd < 0)
        return lr_fail_file(err, "create", temp);
    bool ok = file_write_all(fd, bytes) && fsync(fd) == 0;
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
        (void)lr_unlink(temp);
    return code;
}

bool lr_file_exists(const char *path)
{
    struct lr_stat info;
    return lr_stat(path, &info) && info.kind == LR_KIND_FILE;
}

lr_code lr_file_size(const char *path, uint64_t *out, struct lr_error *err)
{
    struct lr_stat info;
    *out = 0;
    if (!lr_stat(path, &info))
        return lr_fail_file(err, "look at", path);
    *out = info.size;
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

bool lr_file_lock_is_of(const struct lr_file_lock *lock, const char *path)
{
    struct lr_stat file, held;
    return lock->fd >= 0 && lr_fstat(lock->fd, &held) && lr_stat(path, &file) &&
           file.device == held.device && file.inode == held.inode;
}
