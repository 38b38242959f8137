/* base/os/linux/process.c - the parts of processes, pipes and files that are Linux's own. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "base/os/posix/internal.h"
#include "base/os/process.h"
#include "base/subprocess.h"

int64_t lr_os_changed_ns(const struct stat *info)
{
    return (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
}

void lr_os_await_exit(struct lr_os_exit_watch *watch, pid_t pid, int timeout_ms)
{
    if (watch->fd < 0)
        watch->fd = (int)syscall(SYS_pidfd_open, pid, 0);
    /* Kernels without pidfd (before 5.3) are polled every few milliseconds. */
    struct pollfd wait = {.fd = watch->fd, .events = POLLIN};
    (void)poll(&wait, watch->fd >= 0,
               watch->fd >= 0                      ? timeout_ms
               : timeout_ms >= 0 && timeout_ms < 5 ? timeout_ms
                                                   : 5);
}

lr_code lr_self_path(char *out, size_t len, struct lr_error *err)
{
    ssize_t got = readlink("/proc/self/exe", out, len);
    if (got < 0)
        return lr_fail_errno(err, LR_IO, "cannot read /proc/self/exe");
    if ((size_t)got >= len)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the path of this program is too long");
    out[got] = '\0';
    return LR_OK;
}

void lr_process_close_to_others(void)
{
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

bool lr_pipe(int out[2], int bytes)
{
    if (pipe2(out, O_CLOEXEC) != 0)
        return false;
    if (bytes != 0) /* where the system allows less, less */
        (void)fcntl(out[1], F_SETPIPE_SZ, bytes);
    return true;
}

int lr_fd_copy(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

bool lr_fd_replace(int from, int to)
{
    return dup3(from, to, O_CLOEXEC) >= 0;
}

void lr_os_random(unsigned char *out, size_t len)
{
    while (len != 0) {
        /* getrandom never interrupts or shortens requests of up to 256 bytes. */
        ssize_t got = getrandom(out, len < 256 ? len : 256, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort();
        out += got;
        len -= (size_t)got;
    }
}

void lr_process_begin(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    lr_os_open_streams();
}
