/* base/os/windows/absent.c - what Windows does not have: a service manager with descriptors,
 * Unix sockets that pass descriptors, files as memory that survives its process. */
#include <errno.h>

#include "base/file.h"
#include "base/os/socket.h"
#include "base/passing.h"
#include "base/service.h"

/* ---- base/file.h ---- */

lr_code lr_file_share(const char *path, size_t bytes, void **out, struct lr_error *err)
{
    (void)bytes;
    *out = NULL;
    return lr_fail(err, LR_UNSUPPORTED, "%.400s: not on this system", path);
}

void lr_file_unshare(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
}

/* ---- base/service.h ---- */

void lr_service_read(void)
{
}

size_t lr_service_sockets(int out[LR_SERVICE_SOCKETS_MAX])
{
    (void)out;
    return 0;
}

void lr_service_store(int fd)
{
    (void)fd;
}

int lr_service_take_stored(void)
{
    return -1;
}

void lr_service_tell(const char *format, ...)
{
    (void)format;
}

uint64_t lr_service_watchdog_ms(void)
{
    return 0;
}

void lr_service_env(char notify[LR_SERVICE_ENV_MAX], char watchdog[LR_SERVICE_ENV_MAX])
{
    notify[0] = watchdog[0] = '\0';
}

/* ---- base/passing.h ---- */

static lr_code fail(struct lr_error *err)
{
    return lr_fail(err, LR_NOT_FOUND, "Windows passes no sockets between processes");
}

lr_code lr_passing_listen(const char *folder, const char *name, int *out, struct lr_error *err)
{
    (void)folder;
    (void)name;
    *out = -1;
    return fail(err);
}

int lr_passing_accept(int listener, pid_t *pid)
{
    (void)listener;
    (void)pid;
    return -1;
}

lr_code lr_passing_connect(const char *folder, const char *name, int timeout_ms, int *out,
                           pid_t *pid, struct lr_error *err)
{
    (void)folder;
    (void)name;
    (void)timeout_ms;
    (void)pid;
    *out = -1;
    return fail(err);
}

lr_code lr_passing_send(int fd, struct lr_str text, const int *fds, size_t count,
                        struct lr_error *err)
{
    (void)fd;
    (void)text;
    (void)fds;
    (void)count;
    return fail(err);
}

lr_code lr_passing_receive(int fd, bool waits, struct lr_passed *out, struct lr_error *err)
{
    (void)fd;
    (void)waits;
    (void)out;
    return fail(err);
}

lr_code lr_passing_file(struct lr_str bytes, int *out, struct lr_error *err)
{
    (void)bytes;
    *out = -1;
    return fail(err);
}

/* ---- Unix sockets of base/os/socket.h ---- */

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
