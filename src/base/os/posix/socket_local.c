/* base/os/posix/socket_local.c - Unix sockets, and sockets that came from another process. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/socket.h"

static void set_flags(int fd)
{
    (void)(fcntl(fd, F_SETFD, FD_CLOEXEC) + fcntl(fd, F_SETFL, O_NONBLOCK));
}

/* A program that was killed leaves the file of its socket behind: nobody answers there. */
static bool is_left_behind(const struct sockaddr_un *address)
{
    struct stat info;
    if (lstat(address->sun_path, &info) != 0 || !S_ISSOCK(info.st_mode))
        return false;
    int fd = lr_socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return false;
    set_flags(fd);
    bool is_refused = connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0 &&
                      errno == ECONNREFUSED;
    (void)close(fd);
    return is_refused;
}

int lr_socket_listen_local(const char *path, unsigned mode, int backlog)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = lr_socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0)
        return -1;
    set_flags(fd);
    if (is_left_behind(&address))
        (void)unlink(path);
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0 &&
        chmod(path, (mode_t)mode) == 0 && listen(fd, backlog) == 0)
        return fd;
    int saved = errno;
    (void)close(fd);
    errno = saved;
    return -1;
}

bool lr_socket_is_local(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_UNIX;
}

void lr_socket_local_path(const struct sockaddr_storage *address, char out[LR_LOCAL_PATH_MAX])
{
    struct sockaddr_un local;
    memcpy(&local, address, sizeof(local));
    size_t len =
        lr_socket_is_local(address) ? strnlen(local.sun_path, sizeof(local.sun_path)) : 0;
    len = len < LR_LOCAL_PATH_MAX ? len : LR_LOCAL_PATH_MAX - 1;
    memcpy(out, local.sun_path, len);
    out[len] = '\0';
}

bool lr_socket_adopt(int fd)
{
    int type = 0, is_listening = 0;
    socklen_t len = sizeof(type);
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) != 0 || type != SOCK_STREAM)
        return false;
    len = sizeof(is_listening);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &is_listening, &len) != 0 || !is_listening)
        return false;
    set_flags(fd);
    return true;
}
