/* base/os/linux/thread.c - names of threads, conditions on the monotonic clock. */
#include <pthread.h>
#include <time.h>

#include "base/os/cpu.h"
#include "base/os/posix/internal.h"

void lr_os_name_thread(pthread_t thread, const char *name)
{
    (void)pthread_setname_np(thread, name);
}

void lr_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(cond, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

int lr_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000),
                                   .tv_nsec = (long)(until_ns % 1000000000)};
    return pthread_cond_timedwait(cond, lock, &until);
}
