/* devices/cpu/pool.c - see pool.h.
 *
 * A run is one atomic word: the run's number and how many of its tasks are still to be taken.
 * A thread takes a task by counting the word down.  That fails once the number has changed, so
 * a thread that comes late finds no task, or the tasks of the next run.  The fields of a run do
 * not change until every task that was taken is done.
 *
 * Threads spin for a few tens of microseconds before they sleep on a condition.  Spinning
 * bridges the usual gap between two operations of a step; sleeping makes an idle model cost
 * nothing.
 */
#include "engines/devices/cpu/pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/os/cpu.h"
#include "base/os/memory.h"

/* Waking a sleeping thread takes 5 to 50 us.  Spinning for about as long costs at most twice as
 * much as the better of spinning and sleeping. */
enum { SPIN_NS = 50000, LOOKS_PER_CLOCK = 32 };

struct worker {
    struct engine_pool *pool; /* borrowed */
    uint32_t index;
    pthread_t thread;
};

struct engine_pool {
    uint32_t threads;
    uint32_t started; /* threads to join */
    bool spins;       /* every thread has a processor to itself */
    struct worker *workers;
    pthread_mutex_t lock; /* guards sleeping only */
    pthread_cond_t wake;
    engine_task_fn
        fn; /* of the run: written before the run's number, read by threads that took a task */
    void *ctx;
    uint32_t count;
    _Atomic int stop;
    _Atomic uint32_t sleepers;
    _Alignas(64) _Atomic uint64_t run; /* number << 32 | tasks left to take */
    _Alignas(64) _Atomic uint32_t done;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- tasks ---- */

static uint32_t pool_number_of(uint64_t run)
{
    return (uint32_t)(run >> 32);
}

/* Takes tasks until there are none and returns the number of the run that had none left.  Takes
 * many tasks at a time at first, single tasks at the end, when the other threads may be about
 * to finish. */
static uint32_t take_tasks(struct engine_pool *pool, uint32_t worker)
{
    uint64_t run = atomic_load_explicit(&pool->run, memory_order_acquire);

    while ((uint32_t)run != 0) {
        uint32_t left = (uint32_t)run, mine = left / (4 * pool->threads);
        mine = mine > 0 ? mine : 1;
        if (!atomic_compare_exchange_weak_explicit(&pool->run, &run, run - mine,
                                                   memory_order_acq_rel, memory_order_acquire))
            continue;
        for (uint32_t task = pool->count - left, end = task + mine; task < end; task++)
            pool->fn(pool->ctx, task, worker);
        atomic_fetch_add_explicit(&pool->done, mine, memory_order_release);
        run = atomic_load_explicit(&pool->run, memory_order_acquire);
    }
    return pool_number_of(run);
}

/* ---- waiting ---- */

static bool has_ended(struct engine_pool *pool)
{
    return atomic_load_explicit(&pool->stop, memory_order_acquire) != 0;
}

static bool is_new(struct engine_pool *pool, uint32_t seen)
{
    return pool_number_of(atomic_load_explicit(&pool->run, memory_order_seq_cst)) != seen;
}

/* Waits for a run after number `seen`, or for the end of the pool.  The thread may already have
 * seen the number with which engine_pool_destroy() wakes the threads: no other run follows it,
 * so the thread asks for the end itself. */
static void await_run(struct engine_pool *pool, uint32_t seen)
{
    if (pool->spins) {
        uint64_t until = now_ns() + SPIN_NS;
        do {
            for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
                if (is_new(pool, seen))
                    return;
                relax();
            }
        } while (now_ns() < until);
    }
    pthread_mutex_lock(&pool->lock);
    /* Count this thread before the last look: then either announce() sees a sleeper or this
     * thread sees the new run. */
    atomic_fetch_add_explicit(&pool->sleepers, 1, memory_order_seq_cst);
    while (!is_new(pool, seen) && !has_ended(pool))
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub_explicit(&pool->sleepers, 1, memory_order_seq_cst);
    pthread_mutex_unlock(&pool->lock);
}

static void announce(struct engine_pool *pool, uint32_t tasks)
{
    uint64_t run = atomic_load_explicit(&pool->run, memory_order_relaxed);

    run = ((uint64_t)(pool_number_of(run) + 1) << 32) | tasks;
    atomic_store_explicit(&pool->run, run, memory_order_seq_cst);
    if (atomic_load_explicit(&pool->sleepers, memory_order_seq_cst) == 0)
        return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

static void *worker_main(void *arg)
{
    struct worker *w = arg;

    while (!has_ended(w->pool))
        await_run(w->pool, take_tasks(w->pool, w->index));
    return NULL;
}

/* ---- runs ---- */

void engine_pool_run(struct engine_pool *pool, engine_task_fn fn, void *ctx, uint32_t count)
{
    if (count <= 1 || pool->threads == 1) {
        for (uint32_t i = 0; i < count; i++)
            fn(ctx, i, 0);
        return;
    }
    pool->fn = fn;
    pool->ctx = ctx;
    pool->count = count;
    atomic_store_explicit(&pool->done, 0, memory_order_relaxed);
    announce(pool, count);
    (void)take_tasks(pool, 0);
    uint64_t until = 0;
    while (atomic_load_explicit(&pool->done, memory_order_acquire) != count) {
        relax();
        if (until == 0)
            until = now_ns() + (pool->spins ? SPIN_NS : 0);
        else if (now_ns() >= until)
            sched_yield(); /* the thread with the last task was descheduled: give it this core
                            */
    }
}

struct engine_pool *engine_pool_create(uint32_t threads)
{
    struct engine_pool *pool = lr_aligned_alloc(64, sizeof(*pool));

    if (pool == NULL)
        return NULL;
    memset(pool, 0, sizeof(*pool));
    pool->threads = threads > 0 ? threads : 1;
    pool->spins = pool->threads <= engine_pool_cores();
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
        engine_pool_destroy(pool);
        return NULL;
    }
    return pool;
}

void engine_pool_destroy(struct engine_pool *pool)
{
    if (pool == NULL)
        return;
    atomic_store_explicit(&pool->stop, 1, memory_order_release);
    announce(pool, 0);
    for (uint32_t i = 1; i <= pool->started; i++)
        pthread_join(pool->workers[i].thread, NULL);
    pthread_cond_destroy(&pool->wake);
    pthread_mutex_destroy(&pool->lock);
    free(pool->workers);
    lr_aligned_free(pool);
}

uint32_t engine_pool_cores(void)
{
    return lr_cpu_allowed();
}
