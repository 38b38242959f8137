/* base/subprocess.h - starting, watching and ending a child process.
 *
 * A child gets exactly the descriptors named here, its own process group, default signal
 * handlers and an empty signal mask.  With dies_with_parent the kernel kills the child
 * (SIGKILL) when the *thread* that started it ends: start such children from a thread that
 * lives long enough.  Thread: any for spawn; one at a time per struct.
 */
#ifndef BASE_SUBPROCESS_H
#define BASE_SUBPROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/fail.h"

enum lr_stdio {
    LR_STDIO_INHERIT,
    LR_STDIO_NULL, /* /dev/null */
    LR_STDIO_PIPE, /* the other end is in struct lr_subprocess */
};

struct lr_pass_fd {
    int fd;     /* ours; the caller closes it */
    int number; /* what the child sees; 3 or more */
};

struct lr_spawn {
    const char *const *argv; /* NULL-terminated; argv[0] is searched in PATH without '/' */
    const char *const *env;  /* NULL-terminated "NAME=value" added to ours, or NULL */
    enum lr_stdio in, out, err;
    const struct lr_pass_fd *pass;
    uint32_t pass_count;  /* at most 16 */
    const char *cwd;      /* NULL: ours */
    bool shares_terminal; /* no process group of its own: it reads the terminal, and gets Ctrl-C
                           */
    bool dies_with_parent; /* PR_SET_PDEATHSIG, parent re-checked */
};

struct lr_subprocess {
    pid_t pid;        /* 0: none */
    void *handle;     /* Windows' handle of the process */
    int in, out, err; /* our ends of pipes, close-on-exec; -1 where there is none */
    bool exited;      /* reaped; status is valid */
    int status;       /* as of waitpid(2) */
};

/* NOT_FOUND or PERMISSION_DENIED when the program cannot be executed: exec's own error
 * is reported, not a child that ends with 127. */
LR_MUST_USE lr_code lr_subprocess_start(const struct lr_spawn *spawn, struct lr_subprocess *out,
                                        struct lr_error *err);

/* True when the child has ended; child->status then says how.  Never blocks. */
bool lr_subprocess_poll(struct lr_subprocess *child);
/* Waits up to timeout_ms (-1: for ever).  True when the child has ended. */
bool lr_subprocess_wait(struct lr_subprocess *child, int timeout_ms);

/* Signals the process or its whole group.  Does nothing once the child is reaped. */
void lr_subprocess_signal(struct lr_subprocess *child, int signal_number);
void lr_subprocess_signal_group(struct lr_subprocess *child, int signal_number);

/* Kills the group, reaps the child and closes the pipes.  May be called for a zeroed or closed
 * struct. */
void lr_subprocess_close(struct lr_subprocess *child);

/* The status of a process that ended with this code, or by this signal (0: none). */
int lr_exit_status(int64_t code, int signal_number);
/* "exited with 0", "exited with 3", "killed by SIGKILL", "killed by SIGSEGV (core dumped)". */
enum { LR_EXIT_TEXT_LEN = 64 };
const char *lr_exit_text(int status, char out[LR_EXIT_TEXT_LEN]);

/* Path of the running executable, terminated; for starting ourselves again. */
LR_MUST_USE lr_code lr_self_path(char *out, size_t len, struct lr_error *err);

#endif
