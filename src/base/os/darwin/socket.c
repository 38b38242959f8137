/* base/os/darwin/socket.c - sockets: flags after the call, no SIGPIPE, the state of a
 * connection. */
#include "base/os/socket.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "base/os/darwin/internal.h"

static int socket_prepare(int fd, bool waits)
{
    int on = 1;
    if (fd < 0)
        return -1;
    lr_os_set_flags(fd, waits);
    (void)setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof(on));
    return fd;
}

int lr_socket(int family, int type, int protocol)
{
    return socket_prepare(socket(family, type, protocol), true);
}

int lr_socket_listen(const struct sockaddr *address, socklen_t len, int backlog)
{
    int on = 1, off = 0;
    int fd = socket_prepare(socket(address->sa_family, SOCK_STREAM, 0), false);
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
    return socket_prepare(accept(listener, (struct sockaddr *)address, &len), false);
}

bool lr_socket_is_over(int fd)
{
    enum { ESTABLISHED = 4, FIN_WAIT_1 = 6, FIN_WAIT_2 = 9 }; /* netinet/tcp_fsm.h */
    struct tcp_connection_info info;
    socklen_t len = sizeof(info);
    return getsockopt(fd, IPPROTO_TCP, TCP_CONNECTION_INFO, &info, &len) == 0 &&
           info.tcpi_state != ESTABLISHED && info.tcpi_state != FIN_WAIT_1 &&
           info.tcpi_state != FIN_WAIT_2;
}
