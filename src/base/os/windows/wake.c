/* base/os/windows/wake.c - a waker is an event object. */
#include "base/os/wake.h"

#include <windows.h>

#include "base/os/fd.h"
#include "base/os/windows/internal.h"

bool lr_waker_open(struct lr_waker *out)
{
    *out = LR_WAKER_NONE;
    HANDLE event = CreateEventW(NULL, TRUE, FALSE, NULL);
    if (event == NULL) {
        lr_os_set_errno();
        return false;
    }
    out->handle = (intptr_t)event;
    return true;
}

void lr_waker_close(struct lr_waker *waker)
{
    if (waker->handle != -1)
        (void)CloseHandle((HANDLE)waker->handle);
    *waker = LR_WAKER_NONE;
}

void lr_waker_ring(const struct lr_waker *waker)
{
    (void)SetEvent((HANDLE)waker->handle);
}

void lr_waker_clear(const struct lr_waker *waker)
{
    (void)ResetEvent((HANDLE)waker->handle);
}

/* A pipe cannot be waited for: it is looked at every millisecond. */
struct lr_woken lr_waker_wait(const struct lr_waker *waker, int fd)
{
    struct lr_woken woken = {false, false};
    while (!woken.by_ring && !woken.by_fd) {
        woken.by_ring =
            WaitForSingleObject((HANDLE)waker->handle, fd >= 0 ? 1 : INFINITE) == WAIT_OBJECT_0;
        woken.by_fd = fd >= 0 && lr_fd_wait(fd, LR_FD_READABLE, 0) != 0;
    }
    return woken;
}
