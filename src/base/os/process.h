/* base/os/process.h - this process: its end, its standard streams, its random numbers.
 *
 * base/subprocess.h has child processes, base/sandbox.h the limits of a process.
 */
#ifndef BASE_OS_PROCESS_H
#define BASE_OS_PROCESS_H

#include <stddef.h>

/* Ends or stops this process as a failure from outside would (SIGKILL, SIGSTOP). */
void lr_process_kill_self(void);
void lr_process_stop_self(void);

/* Other processes compute first, from now on. */
void lr_process_lower(void);

/* Processes of the same user cannot read this one's memory, environment and descriptors, nor
 * attach to it; root can.  A program that is executed later is as open as before.  Linux only.
 */
void lr_process_close_to_others(void);

/* Writing to a pipe or socket whose other end is closed gives an error instead of a signal. */
void lr_ignore_broken_pipes(void);

/* Called first by main: arguments and environment become UTF-8, standard streams pass bytes on
 * unchanged, and a standard stream that is closed becomes an empty one (POSIX). */
void lr_process_begin(int *argc, char ***argv);

/* Windows: fn(arg) runs on a thread of its own when another process of ours asks this one to
 * stop (lr_subprocess_signal with SIGTERM).  Elsewhere nothing happens: SIGTERM is a signal
 * there. NULL: no more; when this returns, fn does not run. */
void lr_process_on_stop(void (*fn)(void *arg), void *arg);

/* Random bytes of the system's generator; ends the process when there are none. */
void lr_os_random(unsigned char *out, size_t len);
/* The function runs in a child after fork(); never where there is no fork(). */
void lr_os_after_fork(void (*fn)(void));

/* What the system counts for this process; negative: it does not tell. */
struct lr_process_figures {
    double cpu_s; /* processor time of all threads */
    double resident_bytes, virtual_bytes;
    double open_fds, max_fds;
    double start_s; /* since 1970 */
};
void lr_process_figures(struct lr_process_figures *out);

#endif
