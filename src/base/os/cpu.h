/* base/os/cpu.h - processors, and threads on them.  Thread: any. */
#ifndef BASE_OS_CPU_H
#define BASE_OS_CPU_H

#include <pthread.h>
#include <sched.h> /* sched_yield */
#include <stdbool.h>
#include <stdint.h>

/* Processors that this process may use; in a container fewer than the machine has.  At least
 * 1. */
uint32_t lr_cpu_allowed(void);
/* Processors of the machine that are switched on; at least 1. */
uint32_t lr_cpu_online(void);

/* True on an arm64 processor with dot products of bytes, which code must not use without
 * asking. */
bool lr_cpu_has_dot_products(void);

/* The processor of the calling thread; -1: this system does not say, and the two functions
 * below do nothing. */
int lr_cpu_here(void);
void lr_thread_avoid(pthread_t thread, int cpu);   /* any other processor that is allowed */
void lr_thread_move_to(pthread_t thread, int cpu); /* this processor only */

/* Starts a thread on which no signal is handled; `name` is for debuggers.  0 or an errno. */
int lr_thread_start(pthread_t *out, void *(*main)(void *), void *arg, const char *name);

/* A condition whose waits are measured by the clock of lr_clock_ns.  The wait is over at
 * until_ns: ETIMEDOUT. */
void lr_cond_init(pthread_cond_t *cond);
int lr_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);

#endif
