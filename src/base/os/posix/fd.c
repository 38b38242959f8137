/* base/os/posix/fd.c - waiting for descriptors, pipes. */
#include "base/os/fd.h"

#include <poll.h>

int lr_fd_wait(int fd, unsigned events, int timeout_ms)
{
    struct pollfd ready = {.fd = fd};
    ready.events = (short)(((events & LR_FD_READABLE) != 0 ? POLLIN : 0) |
                           ((events & LR_FD_WRITABLE) != 0 ? POLLOUT : 0));
    return poll(&ready, 1, timeout_ms);
}

bool lr_fd_is_broken(int fd)
{
    struct pollfd state = {.fd = fd, .events = 0};
    return poll(&state, 1, 0) > 0 && (state.revents & (POLLHUP | POLLERR)) != 0;
}

void lr_sleep_ms(unsigned ms)
{
    (void)poll(NULL, 0, (int)ms);
}
