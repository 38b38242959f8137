/* base/os/posix/folder.c - removing folders, locks, maps, free space: functions of base/file.h.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "base/file.h"
#include "base/file_internal.h"

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
    out->fd = fd;
    lr_file_lock_sign(out);
    return LR_OK;
}

/* The process id only serves the message above; the lock holds without it. */
void lr_file_lock_sign(const struct lr_file_lock *lock)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%ld\n", (long)getpid());
    if (ftruncate(lock->fd, 0) == 0)
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
    void *data = mmap(NULL, (size_t)info.size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return lr_fail_file(err, "map", name);
    *out = (struct lr_file_map){data, (size_t)info.size};
    return LR_OK;
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

lr_code lr_file_share(const char *path, size_t bytes, void **out, struct lr_error *err)
{
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    *out = NULL;
    if (fd < 0)
        return lr_fail_file(err, "create", path);
    /* Written whole, because memory of a full disk would be a SIGBUS. */
    static const char zeros[64 << 10];
    size_t done = 0;
    for (ssize_t n = 1; done < bytes && n > 0; done += n > 0 ? (size_t)n : 0)
        n = write(fd, zeros, bytes - done < sizeof(zeros) ? bytes - done : sizeof(zeros));
    void *memory = done == bytes ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                                 : MAP_FAILED;
    lr_code code = memory != MAP_FAILED ? LR_OK : lr_fail_file(err, "map", path);
    (void)close(fd);
    if (code == LR_OK)
        *out = memory;
    else
        (void)unlink(path);
    return code;
}

void lr_file_unshare(void *memory, size_t bytes)
{
    if (memory != NULL)
        (void)munmap(memory, bytes);
}

void lr_map_advise(const void *data, uint64_t bytes, enum lr_advice advice)
{
    static const int flags[] = {
        [LR_ADVICE_SEQUENTIAL] = MADV_SEQUENTIAL,
        [LR_ADVICE_WILLNEED] = MADV_WILLNEED,
        [LR_ADVICE_RANDOM] = MADV_RANDOM,
        [LR_ADVICE_DONTNEED] = MADV_DONTNEED,
    };
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)data, end = begin + (uintptr_t)bytes;
    /* Pages shared with a neighbour are read ahead too, but never dropped. */
    if (advice == LR_ADVICE_DONTNEED) {
        begin = (begin + page - 1) / page * page;
        end = end / page * page;
    } else {
        begin = begin / page * page;
    }
    if (bytes != 0 && begin < end)
        (void)madvise((void *)begin, end - begin, flags[advice]);
}

const char *lr_home_dir(void)
{
    const char *home = getenv("HOME");
    if (home != NULL && home[0] == '/')
        return home;
    const struct passwd *entry = getpwuid(getuid());
    return entry != NULL && entry->pw_dir != NULL && entry->pw_dir[0] == '/' ? entry->pw_dir
                                                                             : NULL;
}

const char *lr_user_dir(void)
{
    return lr_home_dir();
}
