/* base/os/windows/socket_local.c - Unix sockets are for systems of POSIX. */
#include <errno.h>

#include "base/os/socket.h"

int lr_socket_listen_local(const char *path, unsigned mode, int backlog)
{
    (void)path;
    (void)mode;
    (void)backlog;
    errno = EAFNOSUPPORT;
    return -1;
}

bool lr_socket_is_local(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_UNIX;
}

void lr_socket_local_path(const struct sockaddr_storage *address, char out[LR_LOCAL_PATH_MAX])
{
    (void)address;
    out[0] = '\0';
}

bool lr_socket_adopt(int fd)
{
    (void)fd;
    return false;
}
