/* base/os/posix/subprocess.c - fork and exec.
 *
 * Everything that allocates happens before fork: between fork and exec only calls are made that
 * are safe after a fork in a program with threads.  The child reports a failed step through a
 * close-on-exec pipe; a successful exec reads as end of file.
 */
#include "base/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/os/posix/internal.h"

extern char **environ;

enum { MOST_PASSED = 16, MOST_FDS = MOST_PASSED + 3 };

/* Everything that the child needs, prepared before fork. */
struct plan {
    const struct lr_spawn *spawn;
    char path[LR_PATH_MAX];
    const char **env; /* owned */
    pid_t parent;
    int from[MOST_FDS]; /* our descriptor ... */
    int to[MOST_FDS];   /* ... becomes this one */
    int count;
    int report;  /* write end of the report pipe */
    int highest; /* of to[] */
    int pipes[3][2];
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd);
    *fd = -1;
}

/* argv[0] as execvp would find it, looked up before fork. */
static lr_code find_program(const char *name, char out[LR_PATH_MAX], struct lr_error *err)
{
    if (strchr(name, '/') != NULL) {
        if (strlen(name) >= LR_PATH_MAX)
            return lr_fail(err, LR_INVALID_ARGUMENT, "program path is too long");
        memcpy(out, name, strlen(name) + 1);
        return LR_OK;
    }
    const char *path = getenv("PATH");
    struct lr_str rest = lr_str_z(path != NULL ? path : "/usr/bin:/bin"), folder;
    while (lr_str_split(&rest, ':', &folder)) {
        int len = snprintf(out, LR_PATH_MAX, LR_STR_FMT "/%s", LR_STR_ARG(folder), name);
        if (folder.len != 0 && len > 0 && len < LR_PATH_MAX && access(out, X_OK) == 0)
            return LR_OK;
    }
    return lr_fail(err, LR_NOT_FOUND, "program \"%.200s\" is not in PATH", name);
}

static bool same_name(const char *a, const char *b)
{
    size_t len = strcspn(a, "=");
    return strncmp(a, b, len) == 0 && b[len] == '=';
}

/* Our environment, with `added` replacing variables of the same name. */
static const char **merge_env(const char *const *added)
{
    size_t ours = 0, extra = 0;
    while (environ != NULL && environ[ours] != NULL)
        ours++;
    while (added != NULL && added[extra] != NULL)
        extra++;
    const char **out = malloc((ours + extra + 1) * sizeof(*out));
    if (out == NULL)
        return NULL;
    size_t n = 0;
    for (size_t i = 0; i < ours; i++) {
        bool replaced = false;
        for (size_t j = 0; j < extra && !replaced; j++)
            replaced = same_name(added[j], environ[i]);
        if (!replaced)
            out[n++] = environ[i];
    }
    for (size_t j = 0; j < extra; j++)
        out[n++] = added[j];
    out[n] = NULL;
    return out;
}

static void plan_fd(struct plan *plan, int from, int to)
{
    plan->from[plan->count] = from;
    plan->to[plan->count++] = to;
    if (to > plan->highest)
        plan->highest = to;
}

/* stdio: pipes[i] is {ours, child's}. */
static bool plan_stdio(struct plan *plan, int number, enum lr_stdio kind)
{
    int *ends = plan->pipes[number];
    if (kind == LR_STDIO_NULL) {
        ends[1] = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (ends[1] < 0)
            return false;
        plan_fd(plan, ends[1], number);
    } else if (kind == LR_STDIO_PIPE) {
        int both[2];
        if (!lr_pipe(both, 0))
            return false;
        ends[0] = both[number == 0 ? 1 : 0];
        ends[1] = both[number == 0 ? 0 : 1];
        plan_fd(plan, ends[1], number);
    }
    return true;
}

static void report_and_exit(int report, int error)
{
    (void)!write(report, &error, sizeof(error));
    _exit(127);
}

/* Moves in two steps: first every source to a number above all targets, then each to its
 * target, so that no target overwrites a source that is still needed. */
static bool place_fds(struct plan *plan)
{
    plan->report = fcntl(plan->report, F_DUPFD_CLOEXEC, plan->highest + 1);
    if (plan->report < 0)
        return false;
    for (int i = 0; i < plan->count; i++) {
        plan->from[i] = fcntl(plan->from[i], F_DUPFD_CLOEXEC, plan->highest + 1);
        if (plan->from[i] < 0)
            return false;
    }
    lr_os_close_on_exec_above(3);
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
static void run_child(struct plan *plan)
{
    (void)setpgid(0, 0);
    if (plan->spawn->dies_with_parent) {
        if (!lr_os_die_with_parent())
            report_and_exit(plan->report, errno);
        /* If the parent died before, no signal will come. */
        if (getppid() != plan->parent)
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

static lr_code fork_and_report(struct plan *plan, pid_t *pid, struct lr_error *err)
{
    int report[2], child_error = 0;
    if (!lr_pipe(report, 0))
        return lr_fail_errno(err, LR_IO, "cannot create a pipe");
    plan->report = report[1];
    plan->parent = getpid();
    /* None of our signal handlers may run in the child before they are reset. */
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    *pid = fork();
    if (*pid == 0)
        run_child(plan);
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
    errno = child_error;
    lr_code code = child_error == ENOENT                             ? LR_NOT_FOUND
                   : child_error == EACCES || child_error == ENOEXEC ? LR_PERMISSION_DENIED
                                                                     : LR_IO;
    return lr_fail_errno(err, code, "cannot run %.300s", plan->path);
}

lr_code lr_subprocess_start(const struct lr_spawn *spawn, struct lr_subprocess *out,
                            struct lr_error *err)
{
    struct plan plan = {.spawn = spawn, .highest = 2};
    *out = (struct lr_subprocess){.in = -1, .out = -1, .err = -1};
    if (spawn->pass_count > MOST_PASSED)
        return lr_fail(err, LR_INVALID_ARGUMENT, "at most %d descriptors can be passed",
                       MOST_PASSED);
    lr_code code = find_program(spawn->argv[0], plan.path, err);
    if (code != LR_OK)
        return code;
    for (int i = 0; i < 3; i++)
        plan.pipes[i][0] = plan.pipes[i][1] = -1;
    plan.env = merge_env(spawn->env);
    if (plan.env == NULL)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for an environment");
    else if (!plan_stdio(&plan, 0, spawn->in) || !plan_stdio(&plan, 1, spawn->out) ||
             !plan_stdio(&plan, 2, spawn->err))
        code = lr_fail_errno(err, LR_IO, "cannot open the child's stdio");
    for (uint32_t i = 0; i < spawn->pass_count; i++)
        plan_fd(&plan, spawn->pass[i].fd, spawn->pass[i].number);

    pid_t pid = 0;
    if (code == LR_OK)
        code = fork_and_report(&plan, &pid, err);
    for (int i = 0; i < 3; i++) {
        close_fd(&plan.pipes[i][1]);
        if (code != LR_OK)
            close_fd(&plan.pipes[i][0]);
    }
    free(plan.env);
    if (code != LR_OK)
        return code;
    *out = (struct lr_subprocess){
        .pid = pid, .in = plan.pipes[0][0], .out = plan.pipes[1][0], .err = plan.pipes[2][0]};
    return LR_OK;
}

bool lr_subprocess_poll(struct lr_subprocess *child)
{
    if (child->pid == 0 || child->exited)
        return true;
    pid_t got = waitpid(child->pid, &child->status, WNOHANG);
    /* ECHILD: the child was reaped elsewhere, or SIGCHLD is ignored; either way it has
     * ended. */
    child->exited = got == child->pid || (got < 0 && errno == ECHILD);
    return child->exited;
}

bool lr_subprocess_wait(struct lr_subprocess *child, int timeout_ms)
{
    uint64_t start = lr_clock_ms(NULL);
    struct lr_os_exit_watch watch = {.fd = -1};
    while (!lr_subprocess_poll(child)) {
        int left = -1;
        if (timeout_ms >= 0) {
            uint64_t passed = lr_clock_ms(NULL) - start;
            if (passed >= (uint64_t)timeout_ms)
                break;
            left = timeout_ms - (int)passed;
        }
        lr_os_await_exit(&watch, child->pid, left);
    }
    if (watch.fd >= 0)
        (void)close(watch.fd);
    return child->pid == 0 || child->exited;
}

/* A child that is not reaped keeps its process id, so the signal cannot reach another
 * process. */
void lr_subprocess_signal(struct lr_subprocess *child, int signal_number)
{
    if (child->pid > 0 && !child->exited)
        (void)kill(child->pid, signal_number);
}

void lr_subprocess_signal_group(struct lr_subprocess *child, int signal_number)
{
    if (child->pid > 0 && !child->exited && kill(-child->pid, signal_number) != 0)
        (void)kill(child->pid,
                   signal_number); /* the child has not created its process group yet */
}

void lr_subprocess_close(struct lr_subprocess *child)
{
    if (child->pid > 0) {
        lr_subprocess_signal_group(child, SIGKILL);
        (void)lr_subprocess_wait(child, -1);
        close_fd(&child->in);
        close_fd(&child->out);
        close_fd(&child->err);
    }
    child->pid = 0;
}

int lr_exit_status(int64_t code, int signal_number)
{
    return signal_number != 0 ? signal_number : (int)(code & 0xff) << 8;
}

/* The names of signals; sigabbrev_np is too new for the oldest C library. */
static const struct {
    int number;
    const char *name;
} signals[] = {
    {SIGHUP, "HUP"},   {SIGINT, "INT"},   {SIGQUIT, "QUIT"}, {SIGILL, "ILL"},
    {SIGTRAP, "TRAP"}, {SIGABRT, "ABRT"}, {SIGBUS, "BUS"},   {SIGFPE, "FPE"},
    {SIGKILL, "KILL"}, {SIGUSR1, "USR1"}, {SIGSEGV, "SEGV"}, {SIGUSR2, "USR2"},
    {SIGPIPE, "PIPE"}, {SIGALRM, "ALRM"}, {SIGTERM, "TERM"}, {SIGCHLD, "CHLD"},
    {SIGXCPU, "XCPU"}, {SIGXFSZ, "XFSZ"}, {SIGSYS, "SYS"},
};

const char *lr_exit_text(int status, char out[LR_EXIT_TEXT_LEN])
{
    if (!WIFSIGNALED(status)) {
        (void)snprintf(out, LR_EXIT_TEXT_LEN, "exited with %d", WEXITSTATUS(status));
        return out;
    }
    const char *core = WCOREDUMP(status) ? " (core dumped)" : "";
    (void)snprintf(out, LR_EXIT_TEXT_LEN, "killed by signal %d%s", WTERMSIG(status), core);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (signals[i].number == WTERMSIG(status))
            (void)snprintf(out, LR_EXIT_TEXT_LEN, "killed by SIG%s%s", signals[i].name, core);
    return out;
}
