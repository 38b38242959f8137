/* base/os/linux/wake.c - a waker is an eventfd. */
#include "base/os/wake.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

bool lr_waker_open(struct lr_waker *out)
{
    *out = LR_WAKER_NONE;
    out->handle = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return out->handle >= 0;
}

void lr_waker_close(struct lr_waker *waker)
{
    if (waker->handle >= 0)
        (void)close((int)waker->handle);
    *waker = LR_WAKER_NONE;
}

void lr_waker_ring(const struct lr_waker *waker)
{
    static const uint64_t one = 1;
    (void)!write((int)waker->handle, &one, sizeof(one));
}

void lr_waker_clear(const struct lr_waker *waker)
{
    uint64_t count;
    (void)!read((int)waker->handle, &count, sizeof(count));
}

struct lr_woken lr_waker_wait(const struct lr_waker *waker, int fd)
{
    struct pollfd fds[] = {{.fd = (int)waker->handle, .events = POLLIN},
                           {.fd = fd, .events = POLLIN}};
    (void)poll(fds, 2, -1);
    return (struct lr_woken){.by_ring = fds[0].revents != 0, .by_fd = fds[1].revents != 0};
}
