/* base/os/darwin/cpu.c - processors by sysctl.  Threads cannot be bound to one. */
#include "base/os/cpu.h"

#include <sys/sysctl.h>

static int64_t cpu_number_of(const char *name)
{
    int64_t number = 0;
    size_t len = sizeof(number);
    return sysctlbyname(name, &number, &len, NULL, 0) == 0 ? number : -1;
}

uint32_t lr_cpu_online(void)
{
    int64_t count = cpu_number_of("hw.activecpu");
    return count > 0 ? (uint32_t)count : 1;
}

uint32_t lr_cpu_allowed(void)
{
    return lr_cpu_online();
}

/* Every processor of Apple's for Macs has them; macOS 11 has no such name yet. */
bool lr_cpu_has_dot_products(void)
{
#if defined(__aarch64__)
    return cpu_number_of("hw.optional.arm.FEAT_DotProd") != 0;
#else
    return false;
#endif
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
