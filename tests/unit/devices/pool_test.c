/* The thread pool runs every task once, on any thread, does not wait for a thread without a
 * task, and costs nothing while idle. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "engines/devices/cpu/pool.h"

enum { MOST_TASKS = 300 };

struct count {
    _Atomic uint32_t times[MOST_TASKS];
    _Atomic uint32_t bad;
    uint32_t threads;
};

static void count_task(void *ctx, uint32_t task, uint32_t worker)
{
    struct count *c = ctx;

    c->bad += task >= MOST_TASKS || worker >= c->threads;
    c->times[task]++;
}

static void every_task_runs_once_in_every_run(void **state)
{
    (void)state;
    for (uint32_t threads = 1; threads <= 6; threads++) {
        struct engine_pool *pool = engine_pool_create(threads);
        assert_non_null(pool);
        for (uint32_t run = 0; run < 2000; run++) {
            struct count c = {.threads =
                                  threads}; /* on the stack: a late task would be detected */
            uint32_t tasks = run * 7 % MOST_TASKS;
            engine_pool_run(pool, count_task, &c, tasks);
            for (uint32_t i = 0; i < MOST_TASKS; i++)
                assert_int_equal(c.times[i], i < tasks ? 1 : 0);
            assert_int_equal(c.bad, 0);
        }
        engine_pool_destroy(pool);
    }
}

/* Plain memory: a task sees what was written before the run, and its own writes are visible
 * after the run. */
static void sum_task(void *ctx, uint32_t task, uint32_t worker)
{
    uint64_t *cells = ctx;

    (void)worker;
    cells[task] = cells[task] * 3 + task;
}

static void runs_follow_each_other_without_tearing(void **state)
{
    struct engine_pool *pool = engine_pool_create(3);
    uint64_t cells[MOST_TASKS] = {0}, want[MOST_TASKS] = {0};

    (void)state;
    assert_non_null(pool);
    for (uint32_t run = 0; run < 20000; run++) {
        uint32_t tasks = 2 + run % 11;
        engine_pool_run(pool, sum_task, cells, tasks);
        for (uint32_t i = 0; i < tasks; i++)
            want[i] = want[i] * 3 + i;
        cells[0] += run; /* the caller's write, between runs */
        want[0] += run;
    }
    assert_memory_equal(cells, want, sizeof(want));
    engine_pool_destroy(pool);
}

struct held {
    sem_t taken, release;
    _Atomic int first;
};

/* The first task on another thread holds that thread. */
static void hold_task(void *ctx, uint32_t task, uint32_t worker)
{
    struct held *h = ctx;

    (void)task;
    if (worker == 0 || atomic_fetch_add(&h->first, 1) != 0)
        return;
    sem_post(&h->taken);
    while (sem_wait(&h->release) != 0 && errno == EINTR)
        ;
}

struct runner {
    struct engine_pool *pool;
    struct held *held;
    _Atomic int ended;
};

static void *run_many(void *arg)
{
    struct runner *r = arg;

    while (atomic_load(&r->held->first) == 0)
        engine_pool_run(r->pool, hold_task, r->held, 8);
    atomic_store(&r->ended, 1);
    return NULL;
}

static void a_run_ends_only_when_a_task_that_was_taken_is_done(void **state)
{
    struct held h = {0};
    struct runner r = {.pool = engine_pool_create(2), .held = &h};
    pthread_t thread;

    (void)state;
    assert_non_null(r.pool);
    sem_init(&h.taken, 0, 0);
    sem_init(&h.release, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, run_many, &r), 0);
    while (sem_wait(&h.taken) != 0 && errno == EINTR)
        ;
    assert_int_equal(atomic_load(&r.ended), 0);
    sem_post(&h.release);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&r.ended), 1);
    engine_pool_destroy(r.pool);
    sem_destroy(&h.taken);
    sem_destroy(&h.release);
}

/* ---- a thread that makes no progress ---- */

static int entered[2], leave[2];

struct other {
    _Atomic int known;
    pid_t tid;
    pthread_t thread;
};

static void know_task(void *ctx, uint32_t task, uint32_t worker)
{
    struct other *o = ctx;

    (void)task;
    if (worker == 0 || atomic_load(&o->known) != 0)
        return;
    o->tid = gettid();
    o->thread = pthread_self();
    atomic_store(&o->known, 1);
}

static void stay_here(int number)
{
    char c = 0;

    (void)number;
    (void)!write(entered[1], &c, 1);
    (void)!read(leave[0], &c, 1);
}

static bool sleeps(pid_t tid)
{
    char path[64], state = 0;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    (void)!fscanf(f, "%*d (%*[^)]) %c", &state);
    fclose(f);
    return state == 'S';
}

static void a_thread_kept_from_its_processor_is_not_waited_for(void **state)
{
    struct engine_pool *pool = engine_pool_create(2);
    const struct sigaction stay = {.sa_handler = stay_here};
    struct other o = {0};
    char c = 0;

    (void)state;
    assert_non_null(pool);
    assert_true(pipe(entered) == 0 && pipe(leave) == 0 && sigaction(SIGUSR1, &stay, NULL) == 0);
    while (atomic_load(&o.known) == 0)
        engine_pool_run(pool, know_task, &o, 64);
    while (!sleeps(o.tid)) /* on its condition: it holds no lock */
        sched_yield();
    assert_int_equal(pthread_kill(o.thread, SIGUSR1), 0);
    assert_int_equal(read(entered[0], &c, 1), 1);
    for (uint32_t run = 0; run < 100; run++) {
        struct count done = {.threads = 1}; /* the caller did all tasks */
        engine_pool_run(pool, count_task, &done, 50);
        assert_int_equal(done.bad, 0);
        assert_int_equal(done.times[49], 1);
    }
    assert_int_equal(write(leave[1], &c, 1), 1);
    engine_pool_destroy(pool);
}

static double cpu_seconds(void)
{
    struct rusage u;

    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void an_idle_pool_takes_no_processor_time(void **state)
{
    struct engine_pool *pool = engine_pool_create(4);
    struct count c = {.threads = 4};
    const struct timespec pause = {.tv_nsec = 300000000};

    (void)state;
    assert_non_null(pool);
    engine_pool_run(pool, count_task, &c, 100);
    double before = cpu_seconds();
    nanosleep(&pause, NULL); /* the measured time, not a wait */
    double used = cpu_seconds() - before;
    if (used > 0.03)
        fail_msg("%.3f s of processor time in 0.3 s of nothing", used);
    engine_pool_destroy(pool);
}

/* ---- a pool that ends while a thread is on its way to sleep ---- */

#if defined(__x86_64__)
enum { MOST_STEPS = 400, TRAP_FLAG = 0x100 };

static _Thread_local uint32_t steps, pause_at; /* instructions since the task set the trap */
static _Atomic int ends;                       /* the caller is about to end the pool */

static void on_instruction(int number, siginfo_t *info, void *context)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    ucontext_t *at = context;

    (void)number;
    (void)info;
    if (++steps < pause_at && atomic_load(&ends) == 0)
        return;
    at->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    nanosleep(&pause, NULL); /* the caller ends the pool meanwhile */
}

struct traps {
    uint32_t pause_at;
    sem_t taken;
};

/* The other thread's task sets the processor's trap flag: from there on each instruction of the
 * thread raises SIGTRAP.  The caller's task waits until the other thread has its task. */
static void trap_task(void *ctx, uint32_t task, uint32_t worker)
{
    struct traps *t = ctx;

    (void)task;
    if (worker == 0) {
        while (sem_wait(&t->taken) != 0)
            assert_int_equal(errno, EINTR);
        return;
    }
    sem_post(&t->taken);
    steps = 0;
    pause_at = t->pause_at;
    __asm__ volatile(
        "subq $128, %%rsp\n\tpushfq\n\torq %0, (%%rsp)\n\tpopfq\n\taddq $128, %%rsp"
        :
        : "i"(TRAP_FLAG)
        : "memory", "cc");
}

static void a_pool_that_ends_at_any_instruction_of_a_thread_joins_the_thread(void **state)
{
    const struct sigaction trap = {.sa_sigaction = on_instruction, .sa_flags = SA_SIGINFO};

    (void)state;
    assert_int_equal(sigaction(SIGTRAP, &trap, NULL), 0);
    alarm(600); /* a thread that sleeps for ever: the program ends here */
    for (uint32_t step = 1; step <= MOST_STEPS; step++) {
        struct engine_pool *pool = engine_pool_create(2);
        struct traps t = {.pause_at = step};
        assert_non_null(pool);
        assert_int_equal(sem_init(&t.taken, 0, 0), 0);
        atomic_store(&ends, 0);
        engine_pool_run(pool, trap_task, &t, 2);
        atomic_store(&ends, 1);
        engine_pool_destroy(pool);
        sem_destroy(&t.taken);
    }
    alarm(0);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_task_runs_once_in_every_run),
        cmocka_unit_test(runs_follow_each_other_without_tearing),
        cmocka_unit_test(a_run_ends_only_when_a_task_that_was_taken_is_done),
        cmocka_unit_test(a_thread_kept_from_its_processor_is_not_waited_for),
        cmocka_unit_test(an_idle_pool_takes_no_processor_time),
#if defined(__x86_64__)
        cmocka_unit_test(a_pool_that_ends_at_any_instruction_of_a_thread_joins_the_thread),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
