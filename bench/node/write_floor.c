/* bench/node/write_floor.c - what the kernel alone takes for a batch of tokens: one small write
 * to each of many connections of this machine, every 50 ms, by a program that does nothing
 * else.  A server that gives each client its token in a write of its own cannot be faster.
 *
 *   write_floor [STREAMS] [BYTES]      prints write_us=... median_ms=...
 *
 * median_ms: when the middle one of the batch has been written.
 */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { STREAMS_MAX = 1024, BATCHES = 60, BATCH_US = 50000, REST_US = 2000 };

static int ours[STREAMS_MAX], theirs[STREAMS_MAX];

static void connect_all(int count)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(address);
    int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, len) != 0 || listen(listener, 128) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &len) != 0)
        exit(1);
    for (int i = 0; i < count; i++) {
        theirs[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(theirs[i], (struct sockaddr *)&address, sizeof(address)) != 0)
            exit(1);
        ours[i] = accept(listener, NULL, NULL);
        (void)setsockopt(ours[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
}

/* The clients: they look every 2 ms, as the load generator does. */
static void read_for_ever(int count)
{
    static char bytes[65536];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        for (int i = 0; i < count; i++)
            while (recv(theirs[i], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
                ;
        (void)usleep(REST_US);
    }
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(int argc, char **argv)
{
    static char bytes[4096];
    double whole[BATCHES], half[BATCHES];
    int count = argc > 1 ? atoi(argv[1]) : 64;
    int size = argc > 2 ? atoi(argv[2]) : 230;
    if (count < 2 || count > STREAMS_MAX || size < 1 || size > (int)sizeof(bytes))
        return 2;
    memset(bytes, 'x', sizeof(bytes));
    connect_all(count);
    pid_t reader = fork();
    if (reader == 0)
        read_for_ever(count);
    for (int batch = 0; batch < BATCHES; batch++) {
        (void)usleep(BATCH_US);
        uint64_t begun = lr_clock_ns(NULL), middle = begun;
        for (int i = 0; i < count; i++) {
            if (send(ours[i], bytes, (size_t)size, MSG_NOSIGNAL) != size)
                return 1;
            if (i == count / 2)
                middle = lr_clock_ns(NULL);
        }
        whole[batch] = (double)(lr_clock_ns(NULL) - begun) / 1e3 / count;
        half[batch] = (double)(middle - begun) / 1e6;
    }
    (void)kill(reader, SIGKILL);
    (void)waitpid(reader, NULL, 0);
    qsort(whole, BATCHES, sizeof(whole[0]), by_size);
    qsort(half, BATCHES, sizeof(half[0]), by_size);
    printf("write_us=%.2f median_ms=%.3f\n", whole[BATCHES / 2], half[BATCHES / 2]);
    return 0;
}
