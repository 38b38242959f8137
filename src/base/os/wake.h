/* base/os/wake.h - wakes a thread that waits for a pipe.
 *
 * Thread: ring from any; the other functions from the thread that waits.
 */
#ifndef BASE_OS_WAKE_H
#define BASE_OS_WAKE_H

#include <stdbool.h>
#include <stdint.h>

struct lr_waker {
    intptr_t handle; /* the system's; -1: not open */
    intptr_t other;  /* a second one where the system needs it */
};

#define LR_WAKER_NONE ((struct lr_waker){-1, -1})

bool lr_waker_open(struct lr_waker *out); /* false: errno */
void lr_waker_close(struct lr_waker *waker);
void lr_waker_ring(const struct lr_waker *waker);
/* Forgets rings; does not wait. */
void lr_waker_clear(const struct lr_waker *waker);

/* Waits until the waker rings or fd (-1: none) can be read or is closed.  Both, one or, after a
 * signal, none may be true. */
struct lr_woken {
    bool by_ring, by_fd;
};
struct lr_woken lr_waker_wait(const struct lr_waker *waker, int fd);

#endif
