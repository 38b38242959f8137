/* base/os/posix/process.c - signals of this process to itself, and its standard streams. */
#include "base/os/process.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/os/posix/internal.h"

void lr_os_open_streams(void)
{
    /* Standard output cannot be written to, so that lost output is an error. */
    static const int modes[] = {O_RDONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", modes[fd]) != fd)
            abort(); /* open gives the lowest free number */
}

void lr_process_kill_self(void)
{
    (void)kill(getpid(), SIGKILL);
}

void lr_process_lower(void)
{
    enum { STEPS = 10 }; /* of 19: where all are busy, about a tenth of a processor */
    (void)setpriority(PRIO_PROCESS, 0, STEPS);
}

void lr_process_stop_self(void)
{
    (void)kill(getpid(), SIGSTOP);
}

void lr_ignore_broken_pipes(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
}

void lr_process_on_stop(void (*fn)(void *arg), void *arg)
{
    (void)fn;
    (void)arg;
}

void lr_os_after_fork(void (*fn)(void))
{
    if (pthread_atfork(NULL, NULL, fn) != 0)
        abort();
}
