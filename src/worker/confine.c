#include "worker/confine.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fail.h"
#include "worker/worker.h"

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

lr_code worker_confine(pid_t parent, struct lr_error *err)
{
    struct rlimit no_core = {0, 0};

    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        return lr_fail_errno(err, LR_INTERNAL, "prctl(PR_SET_PDEATHSIG)");
    /* The parent may have died between fork and the line above. */
    if (parent != 0 && getppid() != parent)
        return lr_fail(err, LR_UNAVAILABLE, "the node (process %d) has gone", (int)parent);
    (void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    (void)setrlimit(RLIMIT_CORE, &no_core);
    volunteer_for_oom();
    /* A Ctrl-C or a service manager's TERM reaches the whole process group.  The node drains
     * first and then ends its workers itself. */
    ignore(SIGINT);
    ignore(SIGTERM);
    ignore(SIGHUP);
    ignore(SIGPIPE);
    (void)umask(077);
    if (close_range(WORKER_OUT_FD + 1, ~0U, 0) != 0)
        return lr_fail_errno(err, LR_INTERNAL, "close_range");
    /* Processes started by the plugin must not inherit the pipes. */
    (void)fcntl(WORKER_IN_FD, F_SETFD, FD_CLOEXEC);
    (void)fcntl(WORKER_OUT_FD, F_SETFD, FD_CLOEXEC);
    return LR_OK;
}
