/* base/os/linux/spawn.c - fork and exec.
 *
 * Everything that allocates happens before fork: between fork and exec only calls are made that
 * are safe after a fork in a program with threads.  The child reports a failed step through a
 * close-on-exec pipe; a successful exec reads as end of file.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "base/os/posix/internal.h"

static void close_on_exec_above(int first)
{
#if defined(SYS_close_range)
    if (syscall(SYS_close_range, (unsigned)first, ~0u, 4u /* CLOSE_RANGE_CLOEXEC */) == 0)
        return;
#endif
    struct rlimit limit;
    rlim_t most = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : 1024;
    for (int fd = first; fd < 65536 && (rlim_t)fd < most; fd++)
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
}

static void report_and_exit(int report, int error)
{
    (void)!write(report, &error, sizeof(error));
    _exit(127);
}

/* Moves in two steps: first every source to a number above all targets, then each to its
 * target, so that no target overwrites a source that is still needed. */
static bool place_fds(struct lr_os_plan *plan)
{
    plan->report = fcntl(plan->report, F_DUPFD_CLOEXEC, plan->highest + 1);
    if (plan->report < 0)
        return false;
    for (int i = 0; i < plan->count; i++) {
        plan->from[i] = fcntl(plan->from[i], F_DUPFD_CLOEXEC, plan->highest + 1);
        if (plan->from[i] < 0)
            return false;
    }
    close_on_exec_above(3);
    for (int i = 0; i < plan->count; i++)
        if (dup2(plan->from[i], plan->to[i]) < 0)
            return false;
    return true;
}

static void reset_signals(void)
{
    struct sigaction action = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++)
        (void)sigaction(number, &action, NULL);
    sigset_t none;
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

/* In the child; never returns. */
static void run_child(struct lr_os_plan *plan, pid_t parent)
{
    if (!plan->spawn->shares_terminal)
        (void)setpgid(0, 0);
    if (plan->spawn->dies_with_parent) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
            report_and_exit(plan->report, errno);
        /* If the parent died before, no signal will come. */
        if (getppid() != parent)
            _exit(127);
    }
    int report = plan->report;
    if (!place_fds(plan))
        report_and_exit(plan->report >= 0 ? plan->report : report, errno);
    if (plan->spawn->cwd != NULL && chdir(plan->spawn->cwd) != 0)
        report_and_exit(plan->report, errno);
    reset_signals();
    /* exec does not write to these; its prototype is older than const. */
    char *const *argv, *const *env;
    memcpy(&argv, &plan->spawn->argv, sizeof(argv));
    memcpy(&env, &plan->env, sizeof(env));
    (void)execve(plan->path, argv, env);
    report_and_exit(plan->report, errno);
}

lr_code lr_os_spawn(struct lr_os_plan *plan, pid_t *pid, struct lr_error *err)
{
    int report[2], child_error = 0;
    if (!lr_pipe(report, 0))
        return lr_fail_errno(err, LR_IO, "cannot create a pipe");
    plan->report = report[1];
    pid_t parent = getpid();
    /* None of our signal handlers may run in the child before they are reset. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    *pid = fork();
    if (*pid == 0)
        run_child(plan, parent);
    int saved = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)close(report[1]);
    errno = saved;
    if (*pid < 0) {
        lr_code code = lr_fail_errno(err, LR_OUT_OF_RAM, "cannot fork");
        (void)close(report[0]);
        return code;
    }
    ssize_t got;
    do
        got = read(report[0], &child_error, sizeof(child_error));
    while (got < 0 && errno == EINTR);
    (void)close(report[0]);
    if (got != (ssize_t)sizeof(child_error))
        return LR_OK;
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR) {
    }
    return lr_os_spawn_failed(plan, child_error, err);
}
