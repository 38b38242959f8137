/* base/os/windows/socket.c - sockets of Winsock. */
#include "base/os/socket.h"

#include <errno.h>
#include <windows.h>

#include "base/os/windows/internal.h"

static int socket_fail(void)
{
    errno = lr_os_errno((unsigned long)WSAGetLastError());
    return -1;
}

int lr_socket(int family, int type, int protocol)
{
    SOCKET s = WSASocketW(family, type, protocol, NULL, 0,
                          WSA_FLAG_OVERLAPPED | WSA_FLAG_NO_HANDLE_INHERIT);
    return s != INVALID_SOCKET ? (int)s : socket_fail();
}

static int unblock(int fd)
{
    u_long on = 1;
    if (fd >= 0)
        (void)ioctlsocket((SOCKET)fd, (long)FIONBIO, &on);
    return fd;
}

int lr_socket_listen(const struct sockaddr *address, socklen_t len, int backlog)
{
    BOOL on = TRUE;
    DWORD off = 0;
    int fd = unblock(lr_socket(address->sa_family, SOCK_STREAM, IPPROTO_TCP));
    if (fd < 0)
        return -1;
    /* SO_REUSEADDR would let two processes listen on the same port here. */
    (void)setsockopt((SOCKET)fd, SOL_SOCKET, SO_EXCLUSIVEADDRUSE, (const char *)&on,
                     sizeof(on));
    if (address->sa_family == AF_INET6) /* all interfaces are those of IPv4, too */
        (void)setsockopt((SOCKET)fd, IPPROTO_IPV6, IPV6_V6ONLY, (const char *)&off,
                         sizeof(off));
    if (bind((SOCKET)fd, address, len) == 0 && listen((SOCKET)fd, backlog) == 0)
        return fd;
    int failed = socket_fail(), saved = errno;
    lr_socket_close(fd);
    errno = saved;
    return failed;
}

int lr_socket_connect(const struct sockaddr *address, socklen_t len, int timeout_ms)
{
    int fd = unblock(lr_socket(address->sa_family, SOCK_STREAM, IPPROTO_TCP));
    int why = 0, size = sizeof(why);
    if (fd < 0)
        return -1;
    if (connect((SOCKET)fd, address, len) != 0) {
        WSAPOLLFD state = {.fd = (SOCKET)fd, .events = POLLOUT};
        why = WSAGetLastError();
        if (why == WSAEWOULDBLOCK) {
            why = WSAETIMEDOUT;
            if (WSAPoll(&state, 1, timeout_ms) > 0)
                (void)getsockopt((SOCKET)fd, SOL_SOCKET, SO_ERROR, (char *)&why, &size);
        }
    }
    if (why == 0)
        return fd;
    lr_socket_close(fd);
    errno = why == WSAETIMEDOUT ? ETIMEDOUT : lr_os_errno((unsigned long)why);
    return -1;
}

int lr_socket_accept(int listener, struct sockaddr_storage *address)
{
    int len = sizeof(*address);
    SOCKET s = accept((SOCKET)listener, (struct sockaddr *)address, &len);
    if (s == INVALID_SOCKET)
        return socket_fail();
    (void)SetHandleInformation((HANDLE)s, HANDLE_FLAG_INHERIT, 0);
    return unblock((int)s);
}

void lr_socket_close(int fd)
{
    (void)closesocket((SOCKET)fd);
}

ssize_t lr_socket_send(int fd, const void *bytes, size_t len)
{
    int n = send((SOCKET)fd, bytes, len > 1 << 30 ? 1 << 30 : (int)len, 0);
    return n >= 0 ? n : -lr_os_errno((unsigned long)WSAGetLastError());
}

void lr_socket_end(int fd)
{
    (void)shutdown((SOCKET)fd, SD_SEND);
}

bool lr_socket_is_over(int fd)
{
    WSAPOLLFD state = {.fd = (SOCKET)fd, .events = 0};
    return WSAPoll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
}

uint64_t lr_descriptors_raise(uint64_t most)
{
    (void)most;
    return UINT64_MAX;
}

bool lr_host_name(char *out, size_t size)
{
    return gethostname(out, (int)size) == 0;
}
