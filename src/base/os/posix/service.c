/* base/os/posix/service.c - the variables and the datagrams of a service manager. */
#include "base/service.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/socket.h"
#include "base/str.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS: lr_ignore_broken_pipes does the same for the process */
#endif

enum { FIRST = 3 }; /* the manager passes descriptors from here on */

/* The manager keeps the name of a stored descriptor; the names of sockets are the operator's.
 */
static const char stored_name[] = "llm-router-memory";

static struct {
    bool is_read;
    char notify[sizeof(((struct sockaddr_un *)NULL)->sun_path)]; /* "": none */
    uint64_t watchdog_us;                                        /* 0: none */
    int sockets[LR_SERVICE_SOCKETS_MAX];
    size_t socket_count;
    int stored; /* 0: none */
} service;

static uint64_t service_number_of(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t number;
    return text != NULL && lr_str_u64(lr_str_z(text), &number) ? number : 0;
}

/* A variable for another process has come here by inheritance. */
static bool service_is_ours(const char *variable)
{
    return service_number_of(variable) == (uint64_t)getpid();
}

static void read_descriptors(void)
{
    const char *names = getenv("LISTEN_FDNAMES");
    struct lr_str rest = lr_str_z(names), name = {0};
    uint64_t count = service_is_ours("LISTEN_PID") ? service_number_of("LISTEN_FDS") : 0;
    for (int fd = FIRST; (uint64_t)(fd - FIRST) < count; fd++) {
        bool has_name = lr_str_split(&rest, ':', &name);
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
            return;
        if (has_name && lr_str_eq_z(name, stored_name))
            service.stored = fd;
        else if (service.socket_count < LR_SERVICE_SOCKETS_MAX)
            service.sockets[service.socket_count++] = fd;
    }
}

static void read_variables(void)
{
    const char *notify = getenv("NOTIFY_SOCKET");
    bool is_usable =
        notify != NULL && (notify[0] == '/' || notify[0] == '@') && notify[1] != '\0';
    if (is_usable && strlen(notify) < sizeof(service.notify))
        memcpy(service.notify, notify, strlen(notify) + 1);
    if (getenv("WATCHDOG_PID") == NULL || service_is_ours("WATCHDOG_PID"))
        service.watchdog_us = service_number_of("WATCHDOG_USEC");
    read_descriptors();
}

void lr_service_read(void)
{
    static const char *const variables[] = {"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
                                            "LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES"};
    if (service.is_read)
        return;
    service.is_read = true;
    read_variables();
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
        (void)unsetenv(variables[i]);
}

size_t lr_service_sockets(int out[LR_SERVICE_SOCKETS_MAX])
{
    memcpy(out, service.sockets, sizeof(service.sockets));
    return service.socket_count;
}

/* A manager that does not read loses the message: this process never waits for it. */
static void send_text(char *text, size_t len, int fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t name_len = strlen(service.notify);
    struct iovec part = {.iov_base = text, .iov_len = len};
    union {
        struct cmsghdr head;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control = {0};
    struct msghdr message = {
        .msg_name = &address,
        .msg_namelen = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name_len),
        .msg_iov = &part,
        .msg_iovlen = 1,
    };
    int sender = name_len != 0 ? lr_socket(AF_UNIX, SOCK_DGRAM, 0) : -1;
    if (sender < 0)
        return;
    memcpy(address.sun_path, service.notify, name_len);
    if (address.sun_path[0] == '@') /* a name that is no file */
        address.sun_path[0] = '\0';
    if (fd >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(head), &fd, sizeof(int));
    }
    (void)!sendmsg(sender, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    (void)close(sender);
}

void lr_service_tell(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (n > 0)
        send_text(text, n < (int)sizeof(text) ? (size_t)n : sizeof(text) - 1, -1);
}

void lr_service_store(int fd)
{
    char text[64];
    int n = snprintf(text, sizeof(text), "FDSTORE=1\nFDNAME=%s", stored_name);
    send_text(text, (size_t)n, fd);
}

int lr_service_take_stored(void)
{
    int fd = service.stored;
    if (fd == 0)
        return -1;
    service.stored = 0;
    lr_service_tell("FDSTOREREMOVE=1\nFDNAME=%s", stored_name);
    return fd;
}

/* Half of the limit: a message may be late. */
uint64_t lr_service_watchdog_ms(void)
{
    uint64_t ms = service.watchdog_us / 2000;
    return service.watchdog_us != 0 && ms == 0 ? 1 : ms;
}

void lr_service_env(char notify[LR_SERVICE_ENV_MAX], char watchdog[LR_SERVICE_ENV_MAX])
{
    notify[0] = watchdog[0] = '\0';
    if (service.notify[0] != '\0')
        (void)snprintf(notify, LR_SERVICE_ENV_MAX, "NOTIFY_SOCKET=%s", service.notify);
    if (service.watchdog_us != 0)
        (void)snprintf(watchdog, LR_SERVICE_ENV_MAX, "WATCHDOG_USEC=%llu",
                       (unsigned long long)service.watchdog_us);
}
