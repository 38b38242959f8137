/* base/os/darwin/thread.c - names of threads, waits by the monotonic clock. */
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/os/cpu.h"
#include "base/os/posix/internal.h"

/* A thread can name only itself. */
void lr_os_name_thread(pthread_t thread, const char *name)
{
    if (pthread_equal(thread, pthread_self()))
        (void)pthread_setname_np(name);
}

void lr_cond_init(pthread_cond_t *cond)
{
    (void)pthread_cond_init(cond, NULL);
}

/* Conditions here have no monotonic clock, but can wait for a length of time. */
int lr_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    uint64_t now = lr_clock_ns(NULL);
    uint64_t left = until_ns > now ? until_ns - now : 0;
    const struct timespec wait = {.tv_sec = (time_t)(left / 1000000000),
                                  .tv_nsec = (long)(left % 1000000000)};
    return left != 0 ? pthread_cond_timedwait_relative_np(cond, lock, &wait) : ETIMEDOUT;
}
