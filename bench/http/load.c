/* bench/http/load.c - the load generator: one thread, epoll, no library.
 *
 *   net_load json PORT TARGET CONNECTIONS SECONDS   closed loop over kept connections
 *   net_load sse  PORT TARGET STREAMS               counts events until all streams end
 *   net_load idle PORT TARGET CONNECTIONS           one request each, then holds them open
 *                                                   until standard input ends
 * One line of result: key=value words.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { MAX_CONNECTIONS = 20000, READ_BYTES = 65536 };

struct link {
    int fd;
    size_t left;     /* of the answer's body; SIZE_MAX: the head is not complete */
    size_t head_len; /* bytes of `head` */
    char head[1024];
    unsigned head_end; /* streams: how much of CR LF CR LF was seen */
};

static struct link *links;
static char request[512];
static size_t request_len;
static uint16_t port;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void dial(struct link *l)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    l->fd = socket(AF_INET, SOCK_STREAM, 0);
    if (l->fd < 0 || connect(l->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        die("connect");
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

static void ask(struct link *l)
{
    l->left = SIZE_MAX;
    l->head_len = 0;
    if (send(l->fd, request, request_len, MSG_NOSIGNAL) != (ssize_t)request_len)
        die("send");
}

/* Takes a piece of an answer; true when the answer is complete. */
static int take(struct link *l, const char *bytes, size_t len)
{
    if (l->left != SIZE_MAX) {
        l->left -= len < l->left ? len : l->left;
        return l->left == 0;
    }
    if (l->head_len + len >= sizeof(l->head))
        die("answer too large");
    memcpy(l->head + l->head_len, bytes, len);
    l->head_len += len;
    l->head[l->head_len] = '\0';
    const char *end = strstr(l->head, "\r\n\r\n");
    if (end == NULL)
        return 0;
    const char *length = strcasestr(l->head, "content-length: ");
    if (strncmp(l->head + 9, "200", 3) != 0 || length == NULL) {
        (void)fprintf(stderr, "unexpected answer: %s\n", l->head);
        exit(1);
    }
    size_t body = strtoull(length + 16, NULL, 10);
    size_t got = l->head_len - (size_t)(end + 4 - l->head);
    l->left = body - got;
    return l->left == 0;
}

static int watch_all(unsigned count)
{
    int ep = epoll_create1(0);
    for (unsigned i = 0; i < count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &links[i]};
        if (epoll_ctl(ep, EPOLL_CTL_ADD, links[i].fd, &event) != 0)
            die("epoll_ctl");
    }
    return ep;
}

static char buffer[READ_BYTES];

static void run_json(unsigned count, double seconds)
{
    uint64_t done = 0;
    struct epoll_event events[256];
    int ep = watch_all(count);
    uint64_t begun = lr_clock_ns(NULL);
    uint64_t end = begun + (uint64_t)(seconds * 1e9);
    for (unsigned i = 0; i < count; i++)
        ask(&links[i]);
    uint64_t now = begun;
    while (now < end) {
        int ready = epoll_wait(ep, events, 256, 100);
        for (int i = 0; i < ready; i++) {
            struct link *l = events[i].data.ptr;
            ssize_t got = recv(l->fd, buffer, sizeof(buffer), 0);
            if (got <= 0)
                die("recv");
            if (take(l, buffer, (size_t)got)) {
                done++;
                ask(l);
            }
        }
        now = lr_clock_ns(NULL);
    }
    printf("requests=%llu seconds=%.3f rps=%.0f\n", (unsigned long long)done,
           (double)(now - begun) / 1e9, (double)done / ((double)(now - begun) / 1e9));
}

/* After the head, a colon comes once in each event ("data: xxx") and nowhere else: not in
 * chunk sizes, however a proxy has cut the chunks. */
static unsigned count_events(struct link *l, const char *bytes, size_t len)
{
    unsigned count = 0;
    for (size_t i = 0; i < len; i++) {
        if (l->head_end < 4)
            l->head_end = bytes[i] == "\r\n\r\n"[l->head_end] ? l->head_end + 1 : 0;
        else
            count += bytes[i] == ':';
    }
    return count;
}

static void run_sse(unsigned count)
{
    uint64_t total = 0;
    uint64_t reads = 0;
    unsigned open_count = count;
    struct epoll_event events[256];
    int ep = watch_all(count);
    uint64_t begun = lr_clock_ns(NULL);
    for (unsigned i = 0; i < count; i++)
        ask(&links[i]);
    while (open_count != 0) {
        int ready = epoll_wait(ep, events, 256, 10000);
        if (ready <= 0)
            die("streams stalled");
        for (int i = 0; i < ready; i++) {
            struct link *l = events[i].data.ptr;
            ssize_t got = recv(l->fd, buffer, sizeof(buffer), 0);
            if (got <= 0) {
                (void)close(l->fd);
                open_count--;
                continue;
            }
            reads++;
            total += count_events(l, buffer, (size_t)got);
        }
    }
    double seconds = (double)(lr_clock_ns(NULL) - begun) / 1e9;
    printf("events=%llu reads=%llu seconds=%.3f eps=%.0f\n", (unsigned long long)total,
           (unsigned long long)reads, seconds, (double)total / seconds);
}

static void run_idle(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        ask(&links[i]);
        ssize_t got;
        do {
            got = recv(links[i].fd, buffer, sizeof(buffer), 0);
            if (got <= 0)
                die("recv");
        } while (!take(&links[i], buffer, (size_t)got));
    }
    printf("ready=%u\n", count);
    (void)fflush(stdout);
    while (getchar() != EOF)
        ;
}

int main(int argc, char **argv)
{
    if (argc < 5) {
        (void)fputs("usage: net_load json|sse|idle PORT TARGET COUNT [SECONDS]\n", stderr);
        return 2;
    }
    struct rlimit files;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    int is_sse = strcmp(argv[1], "sse") == 0;
    port = (uint16_t)strtoul(argv[2], NULL, 10);
    unsigned count = (unsigned)strtoul(argv[4], NULL, 10);
    if (count == 0 || count > MAX_CONNECTIONS)
        return 2;
    request_len =
        (size_t)snprintf(request, sizeof(request),
                         "GET %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: net_load\r\n"
                         "Accept: */*\r\n%s\r\n",
                         argv[3], is_sse ? "Connection: close\r\n" : "");
    links = calloc(count, sizeof(*links));
    if (links == NULL)
        die("calloc");
    for (unsigned i = 0; i < count; i++)
        dial(&links[i]);
    if (is_sse)
        run_sse(count);
    else if (strcmp(argv[1], "idle") == 0)
        run_idle(count);
    else
        run_json(count, argc > 5 ? strtod(argv[5], NULL) : 3);
    return 0;
}
