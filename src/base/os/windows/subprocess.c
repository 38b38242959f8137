/* base/os/windows/subprocess.c - child processes: CreateProcess, and a job object that ends
 * them with this process. */
#include "base/subprocess.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "base/buf.h"
#include "base/os/fd.h"
#include "base/os/windows/internal.h"

enum { TERM = 15, KILL = 9, COMMAND_BYTES = 32 << 10, ENVIRONMENT_BYTES = 1 << 20 };

/* ---- job ---- */

static HANDLE job; /* its handle is inherited by nobody: it closes when this process ends */
static DWORD job_error; /* why there is none */
static pthread_once_t job_once = PTHREAD_ONCE_INIT;

static void create_job(void)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
    limits.BasicLimitInformation.LimitFlags =
        JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_SILENT_BREAKAWAY_OK;
    HANDLE made = CreateJobObjectW(NULL, NULL);
    if (made != NULL && SetInformationJobObject(made, JobObjectExtendedLimitInformation,
                                                &limits, sizeof(limits))) {
        job = made;
        return;
    }
    job_error = GetLastError();
    if (made != NULL)
        (void)CloseHandle(made);
}

/* From now on the process ends with this one; false: GetLastError says why not. */
static bool add_to_job(HANDLE process)
{
    (void)pthread_once(&job_once, create_job);
    if (job == NULL)
        SetLastError(job_error);
    return job != NULL && AssignProcessToJobObject(job, process);
}

/* ---- texts ---- */

/* One argument as CommandLineToArgvW reads it back. */
static void add_argument(struct lr_buf *line, const char *text)
{
    if (line->len != 0)
        lr_buf_add_char(line, ' ');
    if (text[0] != '\0' && strpbrk(text, " \t\"") == NULL) {
        lr_buf_add_z(line, text);
        return;
    }
    size_t slashes = 0;
    lr_buf_add_char(line, '"');
    for (const char *p = text;; p++) {
        if (*p == '\\') {
            slashes++;
            continue;
        }
        /* Backslashes count twice before a quote. */
        for (size_t i = 0; i < (*p == '"' || *p == '\0' ? 2 * slashes : slashes); i++)
            lr_buf_add_char(line, '\\');
        slashes = 0;
        if (*p == '\0')
            break;
        if (*p == '"')
            lr_buf_add_char(line, '\\');
        lr_buf_add_char(line, *p);
    }
    lr_buf_add_char(line, '"');
}

static bool subprocess_is_replaced(const char *variable, const char *const *added)
{
    size_t len = strcspn(variable, "=");
    for (; added != NULL && *added != NULL; added++)
        if (_strnicmp(variable, *added, len) == 0 && (*added)[len] == '=')
            return true;
    return false;
}

/* Our variables and `added`, each ended by a NUL, as wide text. */
static wchar_t *environment(const char *const *added)
{
    struct lr_buf all;
    wchar_t *out = NULL;
    lr_buf_init(&all, ENVIRONMENT_BYTES);
    for (char **e = _environ; *e != NULL; e++)
        if (!subprocess_is_replaced(*e, added))
            lr_buf_add(&all, *e, strlen(*e) + 1);
    for (; added != NULL && *added != NULL; added++)
        lr_buf_add(&all, *added, strlen(*added) + 1);
    lr_buf_add(&all, "", 1);
    if (!all.failed) {
        int len = MultiByteToWideChar(CP_UTF8, 0, all.data, (int)all.len, NULL, 0);
        out = malloc(((size_t)len + 1) * sizeof(*out));
        if (out != NULL) {
            (void)MultiByteToWideChar(CP_UTF8, 0, all.data, (int)all.len, out, len);
            out[len] = 0;
        }
    }
    lr_buf_free(&all);
    return out;
}

/* ---- standard streams ---- */

struct streams {
    HANDLE child[3];
    int ours[3];   /* our ends of pipes */
    int theirs[3]; /* the child's ends, closed after the start */
};

static HANDLE inheritable(HANDLE handle)
{
    HANDLE copy = NULL;
    (void)DuplicateHandle(GetCurrentProcess(), handle, GetCurrentProcess(), &copy, 0, TRUE,
                          DUPLICATE_SAME_ACCESS);
    return copy;
}

static bool open_stream(struct streams *s, int number, enum lr_stdio kind)
{
    static const DWORD standard[] = {STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};
    int both[2];
    if (kind == LR_STDIO_INHERIT) {
        s->child[number] = inheritable(GetStdHandle(standard[number]));
        return true; /* there may be none */
    }
    if (kind == LR_STDIO_NULL) {
        int fd = _open("NUL", _O_RDWR | _O_NOINHERIT);
        s->theirs[number] = fd;
        s->child[number] = fd >= 0 ? inheritable((HANDLE)_get_osfhandle(fd)) : NULL;
        return fd >= 0;
    }
    if (!lr_pipe(both, 0))
        return false;
    s->ours[number] = both[number == 0 ? 1 : 0];
    s->theirs[number] = both[number == 0 ? 0 : 1];
    s->child[number] = inheritable((HANDLE)_get_osfhandle(s->theirs[number]));
    return s->child[number] != NULL;
}

static void close_streams(struct streams *s, bool is_ok)
{
    for (int i = 0; i < 3; i++) {
        if (s->child[i] != NULL)
            (void)CloseHandle(s->child[i]);
        if (s->theirs[i] >= 0)
            (void)close(s->theirs[i]);
        if (!is_ok && s->ours[i] >= 0)
            (void)close(s->ours[i]);
    }
}

/* ---- start ---- */

static lr_code subprocess_create(const struct lr_spawn *spawn, struct streams *s,
                                 PROCESS_INFORMATION *out, struct lr_error *err)
{
    struct lr_buf line;
    lr_buf_init(&line, COMMAND_BYTES);
    for (size_t i = 0; spawn->argv[i] != NULL; i++)
        add_argument(&line, spawn->argv[i]);
    bool is_path = strchr(spawn->argv[0], '/') != NULL || strchr(spawn->argv[0], '\\') != NULL;
    wchar_t *program = is_path ? lr_os_wide_path(spawn->argv[0]) : NULL;
    wchar_t *wide = line.failed ? NULL : lr_os_wide(lr_buf_z(&line));
    wchar_t *env = environment(spawn->env);
    wchar_t *cwd = spawn->cwd != NULL ? lr_os_wide_path(spawn->cwd) : NULL;
    STARTUPINFOW start = {.cb = sizeof(start), .dwFlags = STARTF_USESTDHANDLES};
    start.hStdInput = s->child[0];
    start.hStdOutput = s->child[1];
    start.hStdError = s->child[2];
    lr_code code = LR_OK;
    if (wide == NULL || env == NULL) {
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for a process");
    } else if (!CreateProcessW(program, wide, NULL, NULL, TRUE,
                               CREATE_UNICODE_ENVIRONMENT | CREATE_NEW_PROCESS_GROUP |
                                   CREATE_SUSPENDED,
                               env, cwd, &start, out)) {
        lr_os_set_errno();
        code = errno == ENOENT                       ? LR_NOT_FOUND
               : errno == EACCES || errno == ENOEXEC ? LR_PERMISSION_DENIED
                                                     : LR_IO;
        code = lr_fail_errno(err, code, "cannot run %.300s", spawn->argv[0]);
    } else if (spawn->dies_with_parent && !add_to_job(out->hProcess)) {
        /* It waits for its first instruction, and could outlive us. */
        lr_os_set_errno();
        code = lr_fail_errno(err, LR_IO, "cannot make %.300s end together with this process",
                             spawn->argv[0]);
        (void)TerminateProcess(out->hProcess, LR_WINDOWS_KILLED);
        (void)CloseHandle(out->hThread);
        (void)CloseHandle(out->hProcess);
    }
    free(program);
    free(wide);
    free(env);
    free(cwd);
    lr_buf_free(&line);
    return code;
}

lr_code lr_subprocess_start(const struct lr_spawn *spawn, struct lr_subprocess *out,
                            struct lr_error *err)
{
    struct streams s = {.ours = {-1, -1, -1}, .theirs = {-1, -1, -1}};
    PROCESS_INFORMATION process;
    *out = (struct lr_subprocess){.in = -1, .out = -1, .err = -1};
    if (spawn->pass_count != 0)
        return lr_fail(err, LR_UNSUPPORTED, "descriptors cannot be passed on Windows");
    lr_code code = LR_OK;
    if (!open_stream(&s, 0, spawn->in) || !open_stream(&s, 1, spawn->out) ||
        !open_stream(&s, 2, spawn->err))
        code = lr_fail_errno(err, LR_IO, "cannot open the child's stdio");
    if (code == LR_OK)
        code = subprocess_create(spawn, &s, &process, err);
    close_streams(&s, code == LR_OK);
    if (code != LR_OK)
        return code;
    (void)ResumeThread(process.hThread);
    (void)CloseHandle(process.hThread);
    *out = (struct lr_subprocess){
        .pid = (pid_t)process.dwProcessId,
        .handle = process.hProcess,
        .in = s.ours[0],
        .out = s.ours[1],
        .err = s.ours[2],
    };
    return LR_OK;
}

/* ---- end ---- */

bool lr_subprocess_poll(struct lr_subprocess *child)
{
    return lr_subprocess_wait(child, 0);
}

bool lr_subprocess_wait(struct lr_subprocess *child, int timeout_ms)
{
    DWORD code = 0;
    if (child->pid == 0 || child->exited)
        return true;
    if (WaitForSingleObject(child->handle, timeout_ms < 0 ? INFINITE : (DWORD)timeout_ms) !=
        WAIT_OBJECT_0)
        return false;
    (void)GetExitCodeProcess(child->handle, &code);
    child->exited = true;
    child->status = lr_exit_status((int64_t)code, 0);
    return true;
}

/* SIGTERM sets the event that lr_process_on_stop waits for.  Other signals do not exist here.
 */
void lr_subprocess_signal(struct lr_subprocess *child, int signal_number)
{
    if (child->pid <= 0 || child->exited)
        return;
    if (signal_number == KILL)
        (void)TerminateProcess(child->handle, LR_WINDOWS_KILLED);
    if (signal_number != TERM)
        return;
    if (!lr_os_ask_to_stop((unsigned long)child->pid)) /* it does not wait for the event yet */
        (void)TerminateProcess(child->handle, LR_WINDOWS_KILLED);
}

void lr_subprocess_signal_group(struct lr_subprocess *child, int signal_number)
{
    lr_subprocess_signal(child, signal_number);
}

void lr_subprocess_close(struct lr_subprocess *child)
{
    int *ends[] = {&child->in, &child->out, &child->err};
    if (child->pid > 0) {
        lr_subprocess_signal(child, KILL);
        (void)lr_subprocess_wait(child, -1);
        (void)CloseHandle(child->handle);
        for (int i = 0; i < 3; i++) {
            if (*ends[i] >= 0)
                (void)close(*ends[i]);
            *ends[i] = -1;
        }
    }
    child->pid = 0;
}

/* The low seven bits are a signal, as of waitpid(2). */
int lr_exit_status(int64_t code, int signal_number)
{
    static const struct {
        uint32_t code;
        int signal_number;
    } deaths[] = {
        {LR_WINDOWS_KILLED, KILL}, {0xC0000005u, 11}, /* access violation */
        {0xC00000FDu, 11},                            /* stack overflow */
        {0xC000001Du, 4},                             /* illegal instruction */
        {0xC0000094u, 8},                             /* division by zero */
        {0xC0000409u, 6},                             /* abort with a check of the stack */
        {0xC000013Au, 2},                             /* Ctrl-C */
    };
    if (signal_number != 0)
        return signal_number;
    for (size_t i = 0; i < sizeof(deaths) / sizeof(deaths[0]); i++)
        if (deaths[i].code == (uint32_t)code)
            return deaths[i].signal_number;
    return (int)(code & 0xff) << 8;
}

const char *lr_exit_text(int status, char out[LR_EXIT_TEXT_LEN])
{
    static const char *const names[] = {[2] = "INT",  [4] = "ILL",   [6] = "ABRT", [8] = "FPE",
                                        [9] = "KILL", [11] = "SEGV", [15] = "TERM"};
    unsigned number = (unsigned)status & 0x7f;
    if (number == 0)
        (void)snprintf(out, LR_EXIT_TEXT_LEN, "exited with %d", status >> 8 & 0xff);
    else if (number < sizeof(names) / sizeof(names[0]) && names[number] != NULL)
        (void)snprintf(out, LR_EXIT_TEXT_LEN, "killed by SIG%s", names[number]);
    else
        (void)snprintf(out, LR_EXIT_TEXT_LEN, "killed by signal %u", number);
    return out;
}
