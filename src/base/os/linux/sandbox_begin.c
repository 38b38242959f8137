/* base/os/linux/sandbox_begin.c - limits of a child process that need no list of files. */
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sandbox.h"

/* Makes this process the first that the kernel kills when memory runs out.  Best effort: where
 * a container forbids it, the kernel chooses by size. */
static void volunteer_for_oom(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t ignored = write(fd, "500", 3);
    (void)ignored;
    (void)close(fd);
}

static void ignore(int number)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    (void)sigaction(number, &action, NULL);
}

/* Kernels before 5.9, and emulators, lack close_range. */
static void close_above(int last)
{
#if defined(SYS_close_range)
    if (syscall(SYS_close_range, (unsigned)last + 1, ~0U, 0) == 0)
        return;
#endif
    struct rlimit limit;
    rlim_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
    for (int fd = last + 1; fd < 65536 && (rlim_t)fd < most; fd++)
        (void)close(fd);
}

lr_code lr_sandbox_begin(int parent, int last_fd, struct lr_error *err)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return lr_fail_errno(err, LR_INTERNAL, "prctl(PR_SET_PDEATHSIG)");
    /* The parent may have died between fork and the line above. */
    if (parent != 0 && getppid() != (pid_t)parent)
        return lr_fail(err, LR_UNAVAILABLE, "the node (process %d) has gone", parent);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    lr_no_core_dumps();
    volunteer_for_oom();
    /* A Ctrl-C or a service manager's TERM reaches the whole process group.  The parent drains
     * first and then ends this process itself. */
    ignore(SIGINT);
    ignore(SIGTERM);
    ignore(SIGHUP);
    ignore(SIGPIPE);
    (void)umask(077);
    close_above(last_fd);
    /* Processes started by foreign code must not inherit the pipes. */
    (void)fcntl(0, F_SETFD, FD_CLOEXEC);
    (void)fcntl(last_fd, F_SETFD, FD_CLOEXEC);
    return LR_OK;
}
