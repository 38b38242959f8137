/* net/burst.c - a small ring of send jobs, each taken by the sending thread or by the loop.
 *
 * The loop adds jobs, both take them, and the loop settles them in the order of adding.  The
 * three counters only grow. docs/adr/0016 says why there is a thread, why it stays on another
 * processor, and why it is woken before there is anything to send.
 */
#include "net/burst.h"

#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/os/cpu.h"
#include "base/os/memory.h"
#include "base/os/socket.h"
#include "base/os/wake.h"

enum {
    JOBS = 16, /* a power of two: the counters wrap */
    AHEAD = 4, /* the loop sends a job itself when this many wait: as many as the thread sends
                  while the loop does other work; 2 and 8 were not better */
    CACHE_LINE = 64,
    SPIN_NS = 200000, /* without a job, before the thread treats the burst as over */
    WAIT_NS = 100000, /* as long as ten sends: the thread has lost its processor */
};

struct job {
    alignas(CACHE_LINE) atomic_bool is_done;
    int fd;
    size_t len;
    ssize_t sent;
    net_burst_fn done;
    void *arg;
    char bytes[NET_BURST_BYTES];
};

struct net_burst {
    struct job jobs[JOBS];
    alignas(CACHE_LINE) _Atomic uint32_t put; /* written by the loop */
    atomic_bool is_begun;
    atomic_bool is_stopping;
    atomic_int source; /* descriptor of the last burst's source; -1: none */
    alignas(CACHE_LINE) _Atomic uint32_t taken; /* written by both */
    atomic_bool is_awake;
    _Atomic uint64_t shared;
    alignas(CACHE_LINE) uint32_t settled; /* from here on: used by the loop only */
    int apart_from; /* processor that the thread must not use; -1: not known */
    struct lr_waker wake;
    pthread_t thread;
};

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* ---- jobs: both threads ---- */

static struct job *burst_take(struct net_burst *b)
{
    uint32_t at = atomic_load(&b->taken);
    do {
        if (at == atomic_load(&b->put))
            return NULL;
    } while (!atomic_compare_exchange_weak(&b->taken, &at, at + 1));
    return &b->jobs[at % JOBS];
}

static void perform(struct job *job)
{
    job->sent = lr_socket_send(job->fd, job->bytes, job->len);
    atomic_store_explicit(&job->is_done, true, memory_order_release);
}

/* ---- the thread ---- */

/* Sleeps until a burst begins, or until the source of the last burst becomes readable.  The
 * second comes sooner: the loop still has to read and parse.  The descriptor is only a hint and
 * may have been closed or reused. */
static bool await_wake(struct net_burst *b)
{
    struct lr_woken woken = lr_waker_wait(&b->wake, atomic_load(&b->source));
    if (woken.by_ring)
        lr_waker_clear(&b->wake);
    return woken.by_fd;
}

/* Sends while the burst lasts.  False: no job came. */
static bool help(struct net_burst *b)
{
    uint64_t idle_since = 0;
    bool is_begun = false;
    for (;;) {
        if (atomic_load(&b->is_begun))
            is_begun = true;
        else if (is_begun)
            return true;
        struct job *job = burst_take(b);
        if (job != NULL) {
            perform(job);
            atomic_fetch_add_explicit(&b->shared, 1, memory_order_relaxed);
            idle_since = 0;
            continue;
        }
        uint64_t now = lr_clock_ns(NULL);
        if (idle_since == 0)
            idle_since = now;
        if (now - idle_since > SPIN_NS)
            return is_begun;
        relax();
    }
}

static void *thread_main(void *arg)
{
    struct net_burst *b = arg;
    for (;;) {
        bool is_early = await_wake(b);
        if (atomic_load(&b->is_stopping))
            return NULL;
        if (!is_early && !atomic_load(&b->is_begun))
            continue;
        atomic_store(&b->is_awake, true);
        /* A source that brings less than a burst would wake the thread for nothing, again and
         * again. */
        if (!help(b))
            atomic_store(&b->source, -1);
        atomic_store(&b->is_awake, false);
    }
}

/* Some kernels wake a thread on the processor of the waking thread though another one is idle.
 * There it could only alternate with the loop (bench/results/node-2026-11-15.md). */
static void keep_apart(struct net_burst *b)
{
    int here = lr_cpu_here();
    if (here < 0 || here == b->apart_from)
        return;
    lr_thread_avoid(b->thread, here);
    b->apart_from = here;
}

/* The thread has lost its processor in the middle of a send.  Moves it to the loop's processor,
 * where the loop only waits for it. */
static void call_here(struct net_burst *b)
{
    int here = lr_cpu_here();
    if (here < 0)
        return;
    lr_thread_move_to(b->thread, here);
    b->apart_from = -1;
}

/* ---- the loop ---- */

static void await(struct net_burst *b, struct job *job)
{
    uint64_t since = 0;
    bool is_called = false;
    while (!atomic_load_explicit(&job->is_done, memory_order_acquire)) {
        uint64_t now = lr_clock_ns(NULL);
        if (since == 0)
            since = now;
        if (now - since <= WAIT_NS) {
            relax();
            continue;
        }
        if (!is_called)
            call_here(b);
        is_called = true;
        (void)sched_yield();
    }
}

/* Settles finished jobs from the oldest on; with is_all waits for all jobs. */
static void burst_settle(struct net_burst *b, bool is_all)
{
    while (b->settled != atomic_load_explicit(&b->put, memory_order_relaxed)) {
        struct job *job = &b->jobs[b->settled % JOBS];
        if (is_all)
            await(b, job);
        else if (!atomic_load_explicit(&job->is_done, memory_order_acquire))
            return;
        b->settled++;
        job->done(job->arg, job->sent, lr_str(job->bytes, job->len));
    }
}

void net_burst_begin(struct net_burst *b, int source)
{
    if (b == NULL || atomic_load(&b->is_begun))
        return;
    keep_apart(b);
    atomic_store(&b->source, source);
    atomic_store(&b->is_begun, true);
    if (!atomic_load(&b->is_awake))
        lr_waker_ring(&b->wake);
}

bool net_burst_is_begun(const struct net_burst *b)
{
    return b != NULL && atomic_load_explicit(&b->is_begun, memory_order_relaxed);
}

/* Frees a place in the ring.  The loop sends the oldest job itself when enough jobs wait for
 * the thread, so that no job waits long if the thread does not wake. */
static struct job *burst_make_room(struct net_burst *b, uint32_t put)
{
    struct job *oldest = put - atomic_load(&b->taken) >= AHEAD ? burst_take(b) : NULL;
    if (oldest != NULL)
        perform(oldest);
    burst_settle(b, false);
    if (put - b->settled == JOBS) {
        await(b, &b->jobs[b->settled % JOBS]);
        burst_settle(b, false);
    }
    return &b->jobs[put % JOBS];
}

bool net_burst_send(struct net_burst *b, int fd, const struct lr_str *parts, unsigned count,
                    net_burst_fn done, void *arg)
{
    size_t len = 0;
    for (unsigned i = 0; i < count; i++)
        len += parts[i].len;
    if (!net_burst_is_begun(b) || len > NET_BURST_BYTES)
        return false;
    uint32_t put = atomic_load_explicit(&b->put, memory_order_relaxed);
    struct job *job = burst_make_room(b, put);
    job->fd = fd;
    job->len = 0;
    for (unsigned i = 0; i < count; i++) {
        memcpy(job->bytes + job->len, parts[i].ptr, parts[i].len);
        job->len += parts[i].len;
    }
    job->done = done;
    job->arg = arg;
    atomic_store_explicit(&job->is_done, false, memory_order_relaxed);
    atomic_store(&b->put, put + 1);
    return true;
}

void net_burst_settle(struct net_burst *b)
{
    if (b == NULL)
        return;
    for (struct job *job; (job = burst_take(b)) != NULL;)
        perform(job);
    burst_settle(b, true);
}

void net_burst_end(struct net_burst *b)
{
    if (!net_burst_is_begun(b))
        return;
    net_burst_settle(b);
    atomic_store(&b->is_begun, false);
}

uint64_t net_burst_shared(const struct net_burst *b)
{
    return b != NULL ? atomic_load_explicit(&b->shared, memory_order_relaxed) : 0;
}

/* ---- life ---- */

lr_code net_burst_create(struct net_burst **out, struct lr_error *err)
{
    *out = NULL;
    if (lr_cpu_here() < 0 || lr_cpu_allowed() < 2)
        return LR_OK;
    struct net_burst *b = lr_aligned_alloc(CACHE_LINE, sizeof(*b));
    if (b == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a sending thread");
    memset(b, 0, sizeof(*b));
    b->apart_from = -1;
    atomic_store(&b->source, -1);
    int rc =
        lr_waker_open(&b->wake) ? lr_thread_start(&b->thread, thread_main, b, "sender") : errno;
    if (rc != 0) {
        lr_waker_close(&b->wake);
        lr_aligned_free(b);
        return lr_fail(err, LR_INTERNAL, "cannot start a sending thread: %s", strerror(rc));
    }
    *out = b;
    return LR_OK;
}

void net_burst_destroy(struct net_burst *b)
{
    if (b == NULL)
        return;
    atomic_store(&b->is_stopping, true);
    lr_waker_ring(&b->wake);
    (void)pthread_join(b->thread, NULL);
    lr_waker_close(&b->wake);
    lr_aligned_free(b);
}
