/* base/os/linux/cpu.c - processors by sched_getaffinity, which knows the limits of containers.
 */
#include "base/os/cpu.h"

#include <sched.h>
#include <unistd.h>

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

uint32_t lr_cpu_online(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count > 0 ? (uint32_t)count : 1;
}

uint32_t lr_cpu_allowed(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
    return lr_cpu_online();
}

bool lr_cpu_has_dot_products(void)
{
#if defined(__aarch64__)
    return (getauxval(AT_HWCAP) & 1u << 20) != 0; /* HWCAP_ASIMDDP */
#else
    return false;
#endif
}

int lr_cpu_here(void)
{
    return sched_getcpu();
}

void lr_thread_avoid(pthread_t thread, int cpu)
{
    cpu_set_t others;
    if (sched_getaffinity(0, sizeof(others), &others) != 0)
        return;
    CPU_CLR((size_t)cpu, &others);
    if (CPU_COUNT(&others) != 0)
        (void)pthread_setaffinity_np(thread, sizeof(others), &others);
}

void lr_thread_move_to(pthread_t thread, int cpu)
{
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET((size_t)cpu, &only);
    (void)pthread_setaffinity_np(thread, sizeof(only), &only);
}
