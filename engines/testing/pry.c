/* engines/testing/pry.c - tries what a confined engine must not do, for tests. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engines/testing/testing.h"

struct report {
    char *out;
    size_t size, len;
};

static void tell(struct report *r, const char *name, const char *result)
{
    if (r->len < r->size)
        r->len += (size_t)snprintf(r->out + r->len, r->size - r->len, "%s=%s\n", name, result);
}

static void tell_errno(struct report *r, const char *name, bool ok)
{
    int number = errno;
    tell(r, name, ok ? "ok" : number != 0 ? strerrorname_np(number) : "failed");
}

static void try_open(struct report *r, const char *name, const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    tell_errno(r, name, fd >= 0);
    if (fd >= 0)
        (void)close(fd);
}

/* The environment of another process may contain secrets. */
static void try_environ_of_node(struct report *r)
{
    char path[64], byte;
    (void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)getppid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    tell_errno(r, "node_environ", fd >= 0 && read(fd, &byte, 1) == 1);
    if (fd >= 0)
        (void)close(fd);
}

static void try_network(struct report *r, uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tell_errno(r, "connect",
               fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0);
    if (fd >= 0)
        (void)close(fd);
    fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    tell_errno(r, "udp6", fd >= 0);
    if (fd >= 0)
        (void)close(fd);
    fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0);
    tell_errno(r, "netlink", fd >= 0);
    if (fd >= 0)
        (void)close(fd);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    tell_errno(r, "unix", fd >= 0);
    if (fd >= 0)
        (void)close(fd);
}

static void try_processes(struct report *r)
{
    char path[] = "/bin/true";
    char *const argv[] = {path, NULL};
    int status = 0;
    errno = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    tell_errno(r, "fork", child > 0);
    if (child > 0)
        (void)waitpid(child, &status, 0);
    errno = 0;
    child = vfork();
    if (child == 0) {
        (void)execv(path, argv);
        _exit(1);
    }
    bool ran = child > 0 && waitpid(child, &status, 0) == child && status == 0;
    tell_errno(r, "exec", ran);
    errno = 0;
    /* Not PTRACE_ATTACH, which would stop the node. */
    char byte;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    bool may = process_vm_readv(getppid(), &here, 1, &there, 1, 0) == 1 || errno == EFAULT;
    tell_errno(r, "read_memory", may);
    tell_errno(r, "ptrace",
               ptrace(PTRACE_PEEKUSER, getppid(), NULL, NULL) == 0 || errno == ESRCH);
    tell_errno(r, "signal", kill(getppid(), 0) == 0);
}

static void *on_thread(void *arg)
{
    *(bool *)arg = true;
    return NULL;
}

static void try_threads(struct report *r)
{
    pthread_t thread;
    bool ran = false;
    errno = pthread_create(&thread, NULL, on_thread, &ran);
    if (errno == 0)
        (void)pthread_join(thread, NULL);
    tell_errno(r, "thread", ran);
}

void testing_pry(const struct testing_options *options, char *out, size_t size)
{
    struct report r = {.out = out, .size = size};
    char path[4096];
    const char *scratch = getenv("TMPDIR");
    try_open(&r, "shadow", "/etc/shadow", O_RDONLY);
    try_open(&r, "read_outside", options->pry_file, O_RDONLY);
    (void)snprintf(path, sizeof(path), "%s.new", options->pry_file);
    try_open(&r, "write_outside", path, O_WRONLY | O_CREAT);
    tell_errno(&r, "chmod_outside", chmod(options->pry_file, 0644) == 0);
    (void)snprintf(path, sizeof(path), "%s/config.json", options->pry_model);
    try_open(&r, "read_model", path, O_RDONLY);
    try_open(&r, "write_model", path, O_WRONLY);
    (void)snprintf(path, sizeof(path), "%s/made-by-engine", options->pry_model);
    try_open(&r, "make_in_model", path, O_WRONLY | O_CREAT);
    (void)snprintf(path, sizeof(path), "%s/kept", scratch != NULL ? scratch : "");
    try_open(&r, "write_scratch", path, O_WRONLY | O_CREAT);
    tell(&r, "token", getenv("HF_TOKEN") != NULL ? "ok" : "absent");
    try_environ_of_node(&r);
    try_network(&r, (uint16_t)options->pry_port);
    try_processes(&r);
    try_threads(&r);
    tell(&r, "dumpable", prctl(PR_GET_DUMPABLE) != 0 ? "ok" : "no");
}
