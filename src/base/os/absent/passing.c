/* base/os/absent/passing.c - Windows and macOS: no messages with descriptors between processes.
 */
#include "base/passing.h"

static lr_code passing_fail(struct lr_error *err)
{
    return lr_fail(err, LR_NOT_FOUND, "this system passes no sockets between processes");
}

lr_code lr_passing_listen(const char *folder, const char *name, int *out, struct lr_error *err)
{
    (void)folder;
    (void)name;
    *out = -1;
    return passing_fail(err);
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
    return passing_fail(err);
}

lr_code lr_passing_send(int fd, struct lr_str text, const int *fds, size_t count,
                        struct lr_error *err)
{
    (void)fd;
    (void)text;
    (void)fds;
    (void)count;
    return passing_fail(err);
}

lr_code lr_passing_receive(int fd, bool waits, struct lr_passed *out, struct lr_error *err)
{
    (void)fd;
    (void)waits;
    (void)out;
    return passing_fail(err);
}

lr_code lr_passing_file(struct lr_str bytes, int *out, struct lr_error *err)
{
    (void)bytes;
    *out = -1;
    return passing_fail(err);
}
