/* engines/devices/cpu/pool.h - a thread pool that shares the tasks of one operation.
 *
 * engine_pool_run() hands task numbers 0..count-1 to whichever thread is free, the caller
 * included, and returns when all tasks are done.  Every task writes memory of its own, so a
 * task's result does not depend on the thread that runs it.  Thread: one caller.
 *
 * The caller waits for tasks, never for threads: when a thread sleeps or has lost its processor
 * to another program, the other threads do its share.
 */
#ifndef ENGINES_DEVICES_CPU_POOL_H
#define ENGINES_DEVICES_CPU_POOL_H

#include <stdint.h>

struct engine_pool;

typedef void (*engine_task_fn)(void *ctx, uint32_t task, uint32_t worker);

/* threads counts the caller.  NULL: no memory, or a thread could not be started. */
struct engine_pool *engine_pool_create(uint32_t threads);
void engine_pool_destroy(struct engine_pool *pool); /* NULL is fine; joins every thread */

/* worker is 0..threads-1 and names the thread's scratch. */
void engine_pool_run(struct engine_pool *pool, engine_task_fn fn, void *ctx, uint32_t count);

/* Processors that this process may use. */
uint32_t engine_pool_cores(void);

#endif
