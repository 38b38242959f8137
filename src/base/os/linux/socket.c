/* base/os/linux/socket.c - sockets: the flags of Linux, and the state of a connection. */
#include "base/os/socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <unistd.h>

int lr_socket(int family, int type, int protocol)
{
    return socket(family, type | SOCK_CLOEXEC, protocol);
}

int lr_socket_listen(const struct sockaddr *address, socklen_t len, int backlog)
{
    int on = 1, off = 0;
    int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->sa_family == AF_INET6) /* all interfaces are those of IPv4, too */
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, address, len) == 0 && listen(fd, backlog) == 0)
        return fd;
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

int lr_socket_accept(int listener, struct sockaddr_storage *address)
{
    socklen_t len = sizeof(*address);
    return accept4(listener, (struct sockaddr *)address, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

bool lr_socket_is_over(int fd)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);
    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           info.tcpi_state != TCP_ESTABLISHED && info.tcpi_state != TCP_FIN_WAIT1 &&
           info.tcpi_state != TCP_FIN_WAIT2;
}
