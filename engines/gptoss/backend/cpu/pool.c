/* gptoss/backend/cpu/pool.c - see pool.h.
 *
 * A run is announced by a new epoch.  Threads look for it by spinning for a few
 * microseconds, which is the usual gap between two operations of a step, and then
 * sleep on a condition, so that an idle model costs nothing.
 */
#include "engines/gptoss/backend/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* About 20 microseconds of looking: longer than the gap between operations, far
 * shorter than what another process would notice. */
enum { SPINS = 4000 };

struct worker {
    struct cpu_pool *pool; /* borrowed */
    uint32_t index;
    pthread_t thread;
};

struct cpu_pool {
    uint32_t threads;
    uint32_t started; /* threads to join */
    struct worker *workers;
    pthread_mutex_t lock; /* guards sleeping only */
    pthread_cond_t wake;
    _Atomic uint32_t epoch;
    _Atomic uint32_t busy; /* workers that have not finished this epoch */
    _Atomic uint32_t next; /* task to take */
    _Atomic int stop;
    cpu_task_fn fn; /* written before epoch, read after it */
    void *ctx;
    uint32_t count;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void take_tasks(struct cpu_pool *pool, uint32_t worker)
{
    for (;;) {
        uint32_t task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= pool->count)
            return;
        pool->fn(pool->ctx, task, worker);
    }
}

static uint32_t await_epoch(struct cpu_pool *pool, uint32_t seen)
{
    for (int i = 0; i < SPINS; i++) {
        uint32_t now = atomic_load_explicit(&pool->epoch, memory_order_acquire);
        if (now != seen)
            return now;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->epoch, memory_order_acquire) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
    return atomic_load_explicit(&pool->epoch, memory_order_acquire);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;
    struct cpu_pool *pool = w->pool;
    uint32_t seen = 0;

    for (;;) {
        seen = await_epoch(pool, seen);
        if (atomic_load_explicit(&pool->stop, memory_order_acquire))
            return NULL;
        take_tasks(pool, w->index);
        atomic_fetch_sub_explicit(&pool->busy, 1, memory_order_release);
    }
}

static void announce(struct cpu_pool *pool)
{
    /* Under the lock, so that a thread about to sleep cannot miss it. */
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add_explicit(&pool->epoch, 1, memory_order_release);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

void cpu_pool_run(struct cpu_pool *pool, cpu_task_fn fn, void *ctx, uint32_t count)
{
    if (count <= 1 || pool->threads == 1) {
        for (uint32_t i = 0; i < count; i++)
            fn(ctx, i, 0);
        return;
    }
    pool->fn = fn;
    pool->ctx = ctx;
    pool->count = count;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->busy, pool->threads - 1, memory_order_relaxed);
    announce(pool);
    take_tasks(pool, 0);
    for (uint32_t i = 0; atomic_load_explicit(&pool->busy, memory_order_acquire) != 0; i++) {
        if (i < SPINS)
            relax();
        else
            sched_yield(); /* the others were descheduled: let them have this core */
    }
}

struct cpu_pool *cpu_pool_create(uint32_t threads)
{
    struct cpu_pool *pool = calloc(1, sizeof(*pool));

    if (pool == NULL)
        return NULL;
    pool->threads = threads > 0 ? threads : 1;
    pool->workers = calloc(pool->threads, sizeof(*pool->workers));
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (uint32_t i = 1; pool->workers != NULL && i < pool->threads; i++) {
        struct worker *w = &pool->workers[i];
        w->pool = pool;
        w->index = i;
        if (pthread_create(&w->thread, NULL, worker_main, w) != 0)
            break;
        pool->started++;
    }
    if (pool->workers == NULL || pool->started != pool->threads - 1) {
        cpu_pool_destroy(pool);
        return NULL;
    }
    return pool;
}

void cpu_pool_destroy(struct cpu_pool *pool)
{
    if (pool == NULL)
        return;
    atomic_store_explicit(&pool->stop, 1, memory_order_release);
    announce(pool);
    for (uint32_t i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    free(pool);
}

uint32_t cpu_pool_threads(const struct cpu_pool *pool)
{
    return pool->threads;
}

uint32_t cpu_pool_cores(void)
{
#if defined(__linux__)
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) > 0)
        return (uint32_t)CPU_COUNT(&set);
#endif
#if defined(_SC_NPROCESSORS_ONLN)
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
#else
    return 1;
#endif
}
