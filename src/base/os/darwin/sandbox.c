/* base/os/darwin/sandbox.c - a worker watches its node; absent/sandbox.c has the rest. */
#include "base/sandbox.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/darwin/internal.h"

lr_code lr_sandbox_begin(int parent, int last_fd, struct lr_error *err)
{
    /* These reach the whole process group.  The parent drains first and then ends this process
     * itself. */
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
    struct rlimit limit;
    if (parent != 0 && !lr_os_watch_parent((pid_t)parent))
        return lr_fail(err, LR_UNAVAILABLE, "the node (process %d) has gone", parent);
    lr_no_core_dumps();
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        (void)signal(ignored[i], SIG_IGN);
    (void)umask(077);
    rlim_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
    /* Others are the kqueue of the thread above and those of the system's libraries: they stay
     * open, and processes that foreign code starts inherit none. */
    for (int fd = last_fd + 1; fd < 65536 && (rlim_t)fd < most; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)fcntl(0, F_SETFD, FD_CLOEXEC);
    (void)fcntl(last_fd, F_SETFD, FD_CLOEXEC);
    return LR_OK;
}

void lr_no_core_dumps(void)
{
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
}
