/* bench/node/write_floor.c - the time that the machine alone needs for a batch of tokens.
 *
 * A producer writes 64 tokens into a pipe every 50 ms, each with its time.  A forwarder reads
 * them, sends a fixed event to each of 64 connections of this machine, and does nothing else.
 * This is a node without its work, so no real node is faster.  With two writers the forwarder
 * shares the sends with a second thread, which it keeps on another processor.
 *
 *   write_floor [STREAMS] [BYTES] [WRITERS]
 *   prints write_us=... p50_ms=... p99_ms=...   (the time of a send; from produced to sent)
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { STREAMS_MAX = 1024, BATCHES = 120, WARM_BATCHES = 10, BATCH_US = 50000, REST_US = 2000 };
enum { BATCH_LEAST = 8 /* tokens in one read for which the second writer is woken */ };

struct token {
    uint64_t made_ns;
    uint32_t stream, batch;
};

static int ours[STREAMS_MAX], theirs[STREAMS_MAX];
static char bytes[4096];
static size_t size = 230;
static double waits[STREAMS_MAX * BATCHES]; /* ms */
static _Atomic uint64_t sending_ns;
static _Atomic uint32_t wait_count;

/* The tokens of one read; a number is taken by one of the writers. */
static struct token tokens[STREAMS_MAX];
static _Atomic uint32_t put, taken, done;
static _Atomic bool is_awake;
static sem_t wake;

static void connect_all(uint32_t count)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, len) != 0 || listen(listener, 128) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) != 0)
        exit(1);
    for (uint32_t i = 0; i < count; i++) {
        theirs[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(theirs[i], (struct sockaddr *)&address, sizeof(address)) != 0)
            exit(1);
        ours[i] = accept(listener, NULL, NULL);
        (void)setsockopt(ours[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
}

/* The clients: they look every 2 ms, as the load generator does. */
static void read_for_ever(uint32_t count)
{
    static char read_bytes[65536];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        for (uint32_t i = 0; i < count; i++)
            while (recv(theirs[i], read_bytes, sizeof(read_bytes), MSG_DONTWAIT) > 0)
                ;
        (void)usleep(REST_US);
    }
}

/* One write for each token, as a worker does. */
static void make_tokens(int out, uint32_t count)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (uint32_t batch = 0; batch < BATCHES; batch++) {
        (void)usleep(BATCH_US);
        for (uint32_t i = 0; i < count; i++) {
            struct token token = {lr_clock_ns(NULL), i, batch};
            if (write(out, &token, sizeof(token)) != (ssize_t)sizeof(token))
                exit(1);
        }
    }
    exit(0);
}

static bool send_one(void)
{
    uint32_t at = atomic_load(&taken);
    do {
        if (at == atomic_load(&put))
            return false;
    } while (!atomic_compare_exchange_weak(&taken, &at, at + 1));
    const struct token *token = &tokens[at % STREAMS_MAX];
    uint64_t begun = lr_clock_ns(NULL);
    if (send(ours[token->stream], bytes, size, MSG_NOSIGNAL) != (ssize_t)size)
        exit(1);
    uint64_t now = lr_clock_ns(NULL);
    if (token->batch >= WARM_BATCHES) {
        waits[atomic_fetch_add(&wait_count, 1)] = (double)(now - token->made_ns) / 1e6;
        atomic_fetch_add(&sending_ns, now - begun);
    }
    atomic_fetch_add(&done, 1);
    return true;
}

static void *second_writer(void *arg)
{
    (void)arg;
    for (;;) {
        (void)sem_wait(&wake);
        atomic_store(&is_awake, true);
        while (atomic_load(&done) != atomic_load(&put))
            (void)send_one();
        atomic_store(&is_awake, false);
    }
    return NULL;
}

/* Some kernels wake a thread where its waker runs; there it could only take turns. */
static void keep_apart(pthread_t thread)
{
    static int from = -1;
    cpu_set_t others;
    int here = sched_getcpu();
    if (here == from || sched_getaffinity(0, sizeof(others), &others) != 0)
        return;
    CPU_CLR((size_t)here, &others);
    if (CPU_COUNT(&others) != 0)
        (void)pthread_setaffinity_np(thread, sizeof(others), &others);
    from = here;
}

static void pass_on(int in, unsigned writers)
{
    static struct token read_tokens[STREAMS_MAX / 2];
    pthread_t thread;
    (void)sem_init(&wake, 0, 0);
    if (writers > 1 && pthread_create(&thread, NULL, second_writer, NULL) != 0)
        exit(1);
    for (ssize_t got; (got = read(in, read_tokens, sizeof(read_tokens))) > 0;) {
        size_t count = (size_t)got / sizeof(read_tokens[0]);
        bool is_shared = writers > 1 && count >= BATCH_LEAST;
        for (size_t i = 0; i < count; i++)
            tokens[(atomic_load(&put) + i) % STREAMS_MAX] = read_tokens[i];
        atomic_fetch_add(&put, (uint32_t)count);
        if (is_shared) {
            keep_apart(thread);
            (void)sem_post(&wake);
        }
        while (send_one())
            ;
        while (atomic_load(&done) != atomic_load(&put))
            ;
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 64;
    int event_bytes = argc > 2 ? atoi(argv[2]) : 230;
    unsigned writers = argc > 3 ? (unsigned)atoi(argv[3]) : 1;
    int pipe_ends[2];
    if (count < 2 || count > STREAMS_MAX / 2 || event_bytes < 1 ||
        event_bytes > (int)sizeof(bytes) || writers < 1 || writers > 2 || pipe(pipe_ends) != 0)
        return 2;
    size = (size_t)event_bytes;
    memset(bytes, 'x', sizeof(bytes));
    connect_all((uint32_t)count);
    pid_t reader = fork();
    if (reader == 0) {
        (void)close(pipe_ends[1]);
        read_for_ever((uint32_t)count);
    }
    pid_t maker = fork();
    if (maker == 0)
        make_tokens(pipe_ends[1], (uint32_t)count);
    (void)close(pipe_ends[1]);
    pass_on(pipe_ends[0], writers);
    (void)kill(reader, SIGKILL);
    (void)waitpid(reader, NULL, 0);
    (void)waitpid(maker, NULL, 0);
    uint32_t n = atomic_load(&wait_count);
    qsort(waits, n, sizeof(waits[0]), by_size);
    printf("write_us=%.2f p50_ms=%.3f p99_ms=%.3f\n",
           (double)atomic_load(&sending_ns) / n / 1e3, waits[n / 2], waits[n / 100 * 99]);
    return 0;
}
