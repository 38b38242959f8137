/* base/os/darwin/wake.c - a waker is a pipe that does not block. */
#include "base/os/wake.h"

#include <poll.h>
#include <unistd.h>

#include "base/os/darwin/internal.h"

bool lr_waker_open(struct lr_waker *out)
{
    int ends[2];
    *out = LR_WAKER_NONE;
    if (pipe(ends) != 0)
        return false;
    lr_os_set_flags(ends[0], false);
    lr_os_set_flags(ends[1], false);
    *out = (struct lr_waker){.handle = ends[0], .other = ends[1]};
    return true;
}

void lr_waker_close(struct lr_waker *waker)
{
    if (waker->handle >= 0) {
        (void)close((int)waker->handle);
        (void)close((int)waker->other);
    }
    *waker = LR_WAKER_NONE;
}

/* A full pipe has rung already. */
void lr_waker_ring(const struct lr_waker *waker)
{
    (void)!write((int)waker->other, "", 1);
}

void lr_waker_clear(const struct lr_waker *waker)
{
    char bytes[512];
    while (read((int)waker->handle, bytes, sizeof(bytes)) == (ssize_t)sizeof(bytes))
        continue;
}

struct lr_woken lr_waker_wait(const struct lr_waker *waker, int fd)
{
    struct pollfd fds[] = {{.fd = (int)waker->handle, .events = POLLIN},
                           {.fd = fd, .events = POLLIN}};
    (void)poll(fds, 2, -1);
    return (struct lr_woken){.by_ring = fds[0].revents != 0, .by_fd = fds[1].revents != 0};
}
