/* base/os/posix/process.c - signals of this process to itself. */
#include "base/os/process.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

void lr_process_kill_self(void)
{
    (void)kill(getpid(), SIGKILL);
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
