/* base/os/darwin/process.c - the parts of processes, pipes and files that are macOS's own. */
#include <errno.h>
#include <fcntl.h>
#include <mach-o/dyld.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/event.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/darwin/internal.h"
#include "base/os/fd.h"
#include "base/os/posix/internal.h"
#include "base/os/process.h"
#include "base/subprocess.h"

int64_t lr_os_changed_ns(const struct stat *info)
{
    return (int64_t)info->st_mtimespec.tv_sec * 1000000000 + info->st_mtimespec.tv_nsec;
}

void lr_os_set_flags(int fd, bool waits)
{
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (!waits)
        (void)fcntl(fd, F_SETFL, O_NONBLOCK);
}

/* The event may come shortly before waitpid knows of the end, and only once: no wait is long.
 */
void lr_os_await_exit(struct lr_os_exit_watch *watch, pid_t pid, int timeout_ms)
{
    enum { LONGEST_MS = 50 };
    int ms = timeout_ms >= 0 && timeout_ms < LONGEST_MS ? timeout_ms : LONGEST_MS;
    struct timespec limit = {.tv_nsec = (long)ms * 1000000};
    struct kevent event;
    EV_SET(&event, (uintptr_t)pid, EVFILT_PROC, EV_ADD | EV_ONESHOT, NOTE_EXIT, 0, NULL);
    bool is_new = watch->fd < 0;
    if (is_new)
        watch->fd = kqueue();
    if (watch->fd >= 0)
        lr_os_set_flags(watch->fd, true);
    if (watch->fd < 0 || kevent(watch->fd, &event, is_new ? 1 : 0, &event, 1, &limit) < 0)
        (void)poll(NULL, 0, ms < 5 ? ms : 5);
}

void lr_process_close_to_others(void)
{
}

lr_code lr_self_path(char *out, size_t len, struct lr_error *err)
{
    char path[LR_PATH_MAX];
    uint32_t size = sizeof(path);
    char *real = _NSGetExecutablePath(path, &size) == 0 ? realpath(path, NULL) : NULL;
    if (real == NULL || strlen(real) >= len) {
        free(real);
        return lr_fail(err, LR_IO, "the path of this program is not known, or too long");
    }
    memcpy(out, real, strlen(real) + 1);
    free(real);
    return LR_OK;
}

/* The system chooses the size of a pipe. */
bool lr_pipe(int out[2], int bytes)
{
    (void)bytes;
    if (pipe(out) != 0)
        return false;
    lr_os_set_flags(out[0], true);
    lr_os_set_flags(out[1], true);
    return true;
}

int lr_fd_copy(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

bool lr_fd_replace(int from, int to)
{
    if (dup2(from, to) < 0)
        return false;
    lr_os_set_flags(to, true);
    return true;
}

void lr_os_random(unsigned char *out, size_t len)
{
    arc4random_buf(out, len);
}
