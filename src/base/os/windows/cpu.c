/* base/os/windows/cpu.c - processors, threads, conditions. */
#include "base/os/cpu.h"

#include <errno.h>
#include <time.h>
#include <windows.h>

#include "base/clock.h"

uint32_t lr_cpu_online(void)
{
    DWORD count = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return count != 0 ? count : 1;
}

uint32_t lr_cpu_allowed(void)
{
    DWORD_PTR ours = 0, all = 0;
    uint32_t count = 0;
    /* With several groups of processors there is no single mask. */
    if (!GetProcessAffinityMask(GetCurrentProcess(), &ours, &all) || ours == 0 || ours == all)
        return lr_cpu_online();
    for (; ours != 0; ours &= ours - 1)
        count++;
    return count;
}

bool lr_cpu_has_dot_products(void)
{
    return IsProcessorFeaturePresent(43) != 0; /* PF_ARM_V82_DP_INSTRUCTIONS_AVAILABLE */
}

int lr_cpu_here(void)
{
    return -1;
}

void lr_thread_avoid(pthread_t thread, int cpu)
{
    (void)thread;
    (void)cpu;
}

void lr_thread_move_to(pthread_t thread, int cpu)
{
    (void)thread;
    (void)cpu;
}

int lr_thread_start(pthread_t *out, void *(*main)(void *), void *arg, const char *name)
{
    (void)name;
    return pthread_create(out, NULL, main, arg);
}

void lr_cond_init(pthread_cond_t *cond)
{
    (void)pthread_cond_init(cond, NULL);
}

/* Conditions wait by the wall clock here. */
int lr_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
    uint64_t now = lr_clock_ns(NULL);
    struct timespec until;
    if (now >= until_ns)
        return ETIMEDOUT;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    uint64_t ns = (uint64_t)until.tv_nsec + (until_ns - now) % 1000000000;
    until.tv_sec += (time_t)((until_ns - now) / 1000000000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    return pthread_cond_timedwait(cond, lock, &until);
}
