/* bench/router/load.c - the load generator: one thread, epoll, no library; every answer is
 * checked, and only right answers count.
 *
 *   router_load requests NAME=VALUE...   many requests over kept connections
 *   router_load streams  NAME=VALUE...   one streamed request on each connection
 *
 *   port=N path=/... key=TEXT            the server and the route
 *   body=FILE[,FILE...]                  the request; of several, one at random
 *   expect=TEXT[,TEXT...]                the content of each answer; without it each token
 *                                        says its time (echo's say_time)
 *   count=N                              connections at most (open loop), or exactly
 *   seconds=S rate=R warmup=S            rate: open loop, each latency counted from when the
 *                                        request was due; without it a closed loop
 *   poisson=1 seed=N                     open loop: arrivals at random, the same for one seed
 *   tokens=N skip=N                      streams: tokens of each; the first `skip` of each
 *                                        are not measured
 *   rest=MS                              streams: after reading its sockets the generator
 *                                        sleeps, so that it is not woken for each token
 * One line of result: key=value words.  Exit 1 where an answer was wrong.
 *
 * A token is timed at two points: `arrive`, when its bytes were in this socket (the kernel's
 * own time stamp), and `delay`, when this program had read them.  The second includes the time
 * until the generator itself ran.  `gap` is the time from one arrival to the next.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench/router/answer.h"

enum { READ_BYTES = 65536, EVENTS = 256, STALL_S = 20, QUESTIONS_MAX = 64 };

struct link {
    struct answer answer;
    struct link *next_idle;
    int fd; /* -1: not connected */
    uint64_t due_ns, got_ns;
    bool is_busy;
};

struct samples {
    uint64_t *ns;
    size_t count, cap;
};

static struct {
    uint16_t port;
    const char *path, *key;
    char *body, *expect;
    unsigned count;
    double seconds, warmup, rate;
    bool is_poisson;
    uint64_t tokens, skip;
    double rest_ms;
} args = {.path = "/v1/chat/completions", .count = 64, .seconds = 5};

static struct question {
    struct answer_expected expected;
    char *request;
    size_t len;
} questions[QUESTIONS_MAX];
static unsigned question_count;
static struct link *links, *idle;
static unsigned made; /* links connected so far */
static int ep;
static uint64_t now_ns, measured_from_ns;
static uint64_t right_count, refused_count, wrong_count, sent_count, in_flight;
static uint64_t arrived_ns; /* monotonic: when the newest bytes of the present read came */
static struct samples latency, first, arrive, delay, gap;
static char buffer[READ_BYTES];

static void die(const char *what)
{
    perror(what);
    exit(1);
}

/* ---- samples ---- */

static void note(struct samples *s, uint64_t ns)
{
    if (s->count == s->cap) {
        s->cap = s->cap != 0 ? 2 * s->cap : 65536;
        s->ns = realloc(s->ns, s->cap * sizeof(*s->ns));
        if (s->ns == NULL)
            die("realloc");
    }
    s->ns[s->count++] = ns;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void print_samples(const char *name, struct samples *s)
{
    static const double shares[] = {0.5, 0.9, 0.99, 0.999};
    static const char *const names[] = {"p50", "p90", "p99", "p999"};
    if (s->count == 0)
        return;
    qsort(s->ns, s->count, sizeof(*s->ns), by_size);
    for (size_t i = 0; i < 4; i++) {
        size_t at = (size_t)((double)s->count * shares[i]);
        printf(" %s_%s_ms=%.3f", name, names[i],
               (double)s->ns[at < s->count ? at : s->count - 1] / 1e6);
    }
    printf(" %s_max_ms=%.3f %s_count=%zu", name, (double)s->ns[s->count - 1] / 1e6, name,
           s->count);
}

/* ---- connections ---- */

static void on_first(void *arg)
{
    struct link *l = arg;
    if (l->due_ns >= measured_from_ns)
        note(&first, now_ns - l->due_ns);
}

static void on_time(void *arg, uint64_t said_ns)
{
    struct link *l = arg;
    if (l->answer.times > args.skip) {
        note(&arrive, arrived_ns > said_ns ? arrived_ns - said_ns : 0);
        note(&delay, lr_clock_ns(NULL) - said_ns);
        note(&gap, arrived_ns > l->got_ns ? arrived_ns - l->got_ns : 0);
    }
    l->got_ns = arrived_ns;
}

static void dial(struct link *l)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(args.port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1;
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || connect(l->fd, (struct sockaddr *)&address, sizeof(address)) != 0)
        die("connect");
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(l->fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = l};
    if (epoll_ctl(ep, EPOLL_CTL_ADD, l->fd, &event) != 0)
        die("epoll_ctl");
    l->answer.on_time = on_time;
    l->answer.on_first = on_first;
    l->answer.arg = l;
}

static struct link *take_link(void)
{
    struct link *l = idle;
    if (l != NULL)
        idle = l->next_idle;
    else if (made < args.count)
        l = &links[made++];
    if (l != NULL && l->fd < 0)
        dial(l);
    return l;
}

static void ask(struct link *l, uint64_t due_ns)
{
    const struct question *q = &questions[question_count > 1 ? lrand48() % question_count : 0];
    answer_begin(&l->answer, &q->expected);
    l->due_ns = l->got_ns = due_ns;
    l->is_busy = true;
    sent_count++;
    in_flight++;
    if (send(l->fd, q->request, q->len, MSG_NOSIGNAL) != (ssize_t)q->len)
        die("send");
}

static void count_answer(const struct link *l)
{
    bool counts = l->due_ns >= measured_from_ns;
    if (answer_is_right(&l->answer)) {
        right_count += counts;
        if (counts)
            note(&latency, now_ns - l->due_ns);
    } else if (l->answer.status == 429 && l->answer.has_retry_after) {
        refused_count += counts;
    } else if (wrong_count++ < 3) {
        (void)fprintf(stderr, "wrong answer, status %d, %llu tokens:\n%.500s\n%.*s\n%.*s\n",
                      l->answer.status, (unsigned long long)l->answer.times, l->answer.head,
                      (int)l->answer.line_len, l->answer.line, (int)l->answer.text_len,
                      l->answer.text);
    }
}

static uint64_t clock_ns(clockid_t id)
{
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* The kernel stamps with the wall clock, tokens say the monotonic one. */
static void note_arrival(struct msghdr *message)
{
    struct timespec t;
    arrived_ns = lr_clock_ns(NULL);
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c != NULL; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS)
            continue;
        memcpy(&t, CMSG_DATA(c), sizeof(t));
        uint64_t ago = clock_ns(CLOCK_REALTIME) -
                       ((uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec);
        arrived_ns -= ago < arrived_ns ? ago : 0;
    }
}

static ssize_t receive(struct link *l)
{
    char control[128];
    struct iovec into = {.iov_base = buffer, .iov_len = sizeof(buffer)};
    struct msghdr message = {.msg_iov = &into,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof(control)};
    ssize_t got = recvmsg(l->fd, &message, MSG_DONTWAIT);
    if (got > 0)
        note_arrival(&message);
    return got;
}

/* True when the link is free again. */
static bool read_link(struct link *l)
{
    ssize_t got = receive(l);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    bool ended = got > 0 && l->is_busy && answer_take(&l->answer, buffer, (size_t)got);
    bool keeps = got > 0 && (!ended || (l->answer.keeps_alive && !l->answer.is_wrong));
    if (got > 0 && !l->is_busy)
        wrong_count++; /* bytes nobody asked for */
    if (!keeps) {
        (void)close(l->fd);
        l->fd = -1;
    }
    if (!l->is_busy || (!ended && keeps))
        return false;
    l->is_busy = false;
    in_flight--;
    count_answer(l);
    return true;
}

static int wait_events(struct epoll_event *events, uint64_t until_ns)
{
    uint64_t wait = until_ns > now_ns ? until_ns - now_ns : 0;
    struct timespec left = {.tv_sec = (time_t)(wait / 1000000000),
                            .tv_nsec = (long)(wait % 1000000000)};
    int ready = epoll_pwait2(ep, events, EVENTS, &left, NULL);
    if (ready < 0 && errno != EINTR)
        die("epoll_pwait2");
    now_ns = lr_clock_ns(NULL);
    return ready;
}

/* ---- the two ways ---- */

static void put_idle(struct link *l)
{
    l->next_idle = idle;
    idle = l;
}

/* Time to the next arrival. */
static double next_gap(double mean_ns)
{
    return args.is_poisson ? -mean_ns * log(1 - drand48()) : mean_ns;
}

static void run_requests(void)
{
    struct epoll_event events[EVENTS];
    uint64_t begun = lr_clock_ns(NULL);
    uint64_t end = begun + (uint64_t)((args.warmup + args.seconds) * 1e9);
    uint64_t last_end = end + STALL_S * UINT64_C(1000000000);
    double gap_ns = args.rate > 0 ? 1e9 / args.rate : 0;
    double due_at = (double)begun;
    uint64_t backlog_max = 0;
    now_ns = begun;
    measured_from_ns = begun + (uint64_t)(args.warmup * 1e9);
    while (now_ns < end || (in_flight != 0 && now_ns < last_end)) {
        uint64_t next = now_ns < end ? end : now_ns + 100000000;
        while (now_ns < end) {
            uint64_t due = gap_ns > 0 ? (uint64_t)due_at : now_ns;
            struct link *l = due <= now_ns ? take_link() : NULL;
            if (l == NULL) {
                next = due > now_ns && due < end ? due : next;
                break;
            }
            due_at += next_gap(gap_ns);
            if (now_ns - due > backlog_max)
                backlog_max = now_ns - due;
            ask(l, due);
        }
        int ready = wait_events(events, next);
        for (int i = 0; i < ready; i++)
            if (read_link(events[i].data.ptr))
                put_idle(events[i].data.ptr);
    }
    wrong_count += in_flight; /* never answered */
    printf("right=%llu refused=%llu wrong=%llu sent=%llu rps=%.0f late_max_ms=%.3f",
           (unsigned long long)right_count, (unsigned long long)refused_count,
           (unsigned long long)wrong_count, (unsigned long long)sent_count,
           (double)right_count / args.seconds, (double)backlog_max / 1e6);
}

/* With rest=MS it never waits in the kernel for a byte: whoever does is woken by the first one,
 * on the processor of whoever sent it, and takes it from the rest of the step. */
static int look(struct epoll_event *events)
{
    uint64_t until = now_ns + STALL_S * UINT64_C(1000000000);
    if (args.rest_ms <= 0)
        return wait_events(events, until);
    int ready;
    do {
        (void)usleep((useconds_t)(args.rest_ms * 1000));
        ready = wait_events(events, 0);
    } while (ready == 0 && now_ns < until);
    return ready;
}

static void run_streams(void)
{
    struct epoll_event events[EVENTS];
    unsigned open_count = args.count;
    bool told = false;
    now_ns = lr_clock_ns(NULL);
    for (unsigned i = 0; i < args.count; i++) {
        struct link *l = take_link();
        ask(l, lr_clock_ns(NULL));
    }
    while (open_count != 0) {
        int ready = look(events);
        if (ready == 0) {
            wrong_count += open_count;
            break;
        }
        for (int i = 0; i < ready; i++)
            open_count -= read_link(events[i].data.ptr);
        if (!told && first.count == args.count) {
            printf("running\n"); /* whoever measures memory waits for this */
            (void)fflush(stdout);
            told = true;
        }
    }
    printf("right=%llu wrong=%llu", (unsigned long long)right_count,
           (unsigned long long)wrong_count);
}

/* ---- arguments ---- */

static const char *value_of(int argc, char **argv, const char *name, const char *otherwise)
{
    size_t len = strlen(name);
    for (int i = 2; i < argc; i++)
        if (strncmp(argv[i], name, len) == 0 && argv[i][len] == '=')
            return argv[i] + len + 1;
    return otherwise;
}

static char *copy_of(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

static void read_args(int argc, char **argv)
{
    args.port = (uint16_t)atoi(value_of(argc, argv, "port", "0"));
    args.path = value_of(argc, argv, "path", args.path);
    args.key = value_of(argc, argv, "key", "none");
    args.body = copy_of(value_of(argc, argv, "body", NULL));
    args.expect = copy_of(value_of(argc, argv, "expect", NULL));
    args.count = (unsigned)atoi(value_of(argc, argv, "count", "64"));
    args.seconds = atof(value_of(argc, argv, "seconds", "5"));
    args.warmup = atof(value_of(argc, argv, "warmup", "0.5"));
    args.rate = atof(value_of(argc, argv, "rate", "0"));
    srand48(atol(value_of(argc, argv, "seed", "1")));
    args.is_poisson = atoi(value_of(argc, argv, "poisson", "0")) != 0;
    args.rest_ms = atof(value_of(argc, argv, "rest", "0"));
    args.tokens = (uint64_t)atoll(value_of(argc, argv, "tokens", "0"));
    args.skip = (uint64_t)atoll(value_of(argc, argv, "skip", "5"));
}

static void make_question(const char *path, const char *expect)
{
    char body[65536];
    struct question *q = &questions[question_count++];
    FILE *file = fopen(path, "rbe");
    if (file == NULL)
        die(path);
    size_t len = fread(body, 1, sizeof(body) - 1, file);
    (void)fclose(file);
    body[len] = '\0';
    q->request = malloc(len + 1024);
    if (q->request == NULL)
        die("malloc");
    int head = snprintf(q->request, 1024,
                        "POST %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: router_load\r\n"
                        "Accept: */*\r\nAuthorization: Bearer %s\r\n"
                        "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                        args.path, args.key, len);
    memcpy(q->request + head, body, len);
    q->len = (size_t)head + len;
    q->expected =
        (struct answer_expected){.text = expect,
                                 .tokens = args.tokens,
                                 .is_stream = strstr(body, "\"stream\":true") != NULL};
}

static void make_questions(char *bodies, char *expects)
{
    char *body, *expect = NULL;
    while (question_count < QUESTIONS_MAX && (body = strsep(&bodies, ",")) != NULL) {
        expect = expects != NULL ? strsep(&expects, ",") : expect;
        make_question(body, expect);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fputs("usage: router_load requests|streams port=N body=FILE ...\n", stderr);
        return 2;
    }
    struct rlimit files;
    (void)getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
    read_args(argc, argv);
    make_questions(args.body, args.expect);
    ep = epoll_create1(EPOLL_CLOEXEC);
    links = calloc(args.count, sizeof(*links));
    if (ep < 0 || links == NULL)
        die("memory");
    for (unsigned i = 0; i < args.count; i++)
        links[i].fd = -1;
    if (strcmp(argv[1], "streams") == 0)
        run_streams();
    else
        run_requests();
    struct rusage used;
    (void)getrusage(RUSAGE_SELF, &used);
    print_samples("latency", &latency);
    print_samples("first", &first);
    print_samples("arrive", &arrive);
    print_samples("delay", &delay);
    print_samples("gap", &gap);
    printf(" cpu_s=%.3f\n", (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                                (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6);
    return wrong_count != 0;
}
