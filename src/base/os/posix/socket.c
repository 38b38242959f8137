/* base/os/posix/socket.c - sockets: what Linux and macOS do alike. */
#include "base/os/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/os/fd.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* macOS: lr_ignore_broken_pipes does the same for the process */
#endif

void lr_socket_close(int fd)
{
    (void)close(fd);
}

int lr_socket_connect(const struct sockaddr *address, socklen_t len, int timeout_ms)
{
    int fd = lr_socket(address->sa_family, SOCK_STREAM, 0), rc = 0;
    socklen_t size = sizeof(rc);
    if (fd < 0)
        return -1;
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || connect(fd, address, len) != 0)
        rc = errno;
    if (rc == EINPROGRESS) {
        rc = ETIMEDOUT;
        if (lr_fd_wait(fd, LR_FD_WRITABLE, timeout_ms) == 1)
            (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &rc, &size);
    }
    if (rc == 0)
        return fd;
    lr_socket_close(fd);
    errno = rc;
    return -1;
}

ssize_t lr_socket_send(int fd, const void *bytes, size_t len)
{
    ssize_t n;
    do
        n = send(fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -errno : n;
}

void lr_socket_end(int fd)
{
    (void)shutdown(fd, SHUT_WR);
}

uint64_t lr_descriptors_raise(uint64_t most)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return UINT64_MAX;
    rlim_t wanted = limit.rlim_max > most ? (rlim_t)most : limit.rlim_max;
    if (limit.rlim_cur < wanted) {
        struct rlimit raised = {.rlim_cur = wanted, .rlim_max = limit.rlim_max};
        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit.rlim_cur = wanted;
    }
    return limit.rlim_cur;
}

bool lr_host_name(char *out, size_t size)
{
    return gethostname(out, size) == 0;
}
