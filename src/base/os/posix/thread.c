/* base/os/posix/thread.c - threads without signals. */
#include <pthread.h>
#include <signal.h>

#include "base/os/cpu.h"
#include "base/os/posix/internal.h"

int lr_thread_start(pthread_t *out, void *(*main)(void *), void *arg, const char *name)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(out, NULL, main, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc == 0)
        lr_os_name_thread(*out, name);
    return rc;
}
