/* base/os/posix/subprocess.c - what a child process gets, and its end.  lr_os_spawn of the
 * system starts it. */
#include "base/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/os/posix/internal.h"

extern char **environ;

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

static void plan_fd(struct lr_os_plan *plan, int from, int to)
{
    plan->from[plan->count] = from;
    plan->to[plan->count++] = to;
    if (to > plan->highest)
        plan->highest = to;
}

/* stdio: pipes[i] is {ours, child's}. */
static bool plan_stdio(struct lr_os_plan *plan, int number, enum lr_stdio kind)
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

lr_code lr_os_spawn_failed(const struct lr_os_plan *plan, int error, struct lr_error *err)
{
    lr_code code = error == ENOENT                       ? LR_NOT_FOUND
                   : error == EACCES || error == ENOEXEC ? LR_PERMISSION_DENIED
                                                         : LR_IO;
    errno = error;
    return lr_fail_errno(err, code, "cannot run %.300s", plan->path);
}

lr_code lr_subprocess_start(const struct lr_spawn *spawn, struct lr_subprocess *out,
                            struct lr_error *err)
{
    struct lr_os_plan plan = {.spawn = spawn, .highest = 2};
    *out = (struct lr_subprocess){.in = -1, .out = -1, .err = -1};
    if (spawn->pass_count > LR_OS_MOST_PASSED)
        return lr_fail(err, LR_INVALID_ARGUMENT, "at most %d descriptors can be passed",
                       LR_OS_MOST_PASSED);
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
        code = lr_os_spawn(&plan, &pid, err);
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
