/* gptoss/backend/cpu/pool.h - a few threads that share the tasks of one operation.
 *
 * cpu_pool_run() hands task numbers 0..count-1 to whichever thread is free, the caller
 * included, and returns when all are done.  Who runs a task never changes its result:
 * every task writes memory of its own.  Thread: one caller.
 */
#ifndef GPTOSS_BACKEND_CPU_POOL_H
#define GPTOSS_BACKEND_CPU_POOL_H

#include <stdint.h>

struct cpu_pool;

typedef void (*cpu_task_fn)(void *ctx, uint32_t task, uint32_t worker);

/* threads counts the caller; NULL when a thread or memory is not to be had. */
struct cpu_pool *cpu_pool_create(uint32_t threads);
void cpu_pool_destroy(struct cpu_pool *pool); /* NULL is fine; joins every thread */

/* worker is 0..threads-1 and names the thread's scratch. */
void cpu_pool_run(struct cpu_pool *pool, cpu_task_fn fn, void *ctx, uint32_t count);

uint32_t cpu_pool_threads(const struct cpu_pool *pool);

/* Cores this process may run on. */
uint32_t cpu_pool_cores(void);

#endif
