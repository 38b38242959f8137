/* base/os/fd.h - file descriptors: read, write, close, lseek, ftruncate, fsync, pread, pwrite,
 * isatty, getpid and _exit under their POSIX names.
 *
 * Windows' C library has descriptors too; its part of the layer adds the functions that it
 * lacks.
 */
#ifndef BASE_OS_FD_H
#define BASE_OS_FD_H

#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#ifdef _WIN32
#include "base/os/windows/fd.h"
#endif

/* `to` becomes a second number of the file behind `from`; children do not inherit it. */
bool lr_fd_replace(int from, int to);

/* Another number of the same file, which children do not inherit; -1: there is none. */
int lr_fd_copy(int fd);

/* Waits up to timeout_ms (-1: for ever) until a pipe or a socket can be read or written, or its
 * other end is closed.  1: it can, 0: not in this time, -1: errno says why not. */
enum { LR_FD_READABLE = 1, LR_FD_WRITABLE = 2 };
int lr_fd_wait(int fd, unsigned events, int timeout_ms);
/* True when the other end of a pipe is closed. */
bool lr_fd_is_broken(int fd);

/* A pipe between this process and a child: [0] is read, [1] is written.  A child gets an end
 * only where it is passed on.  `bytes`: the room that the system is asked for; 0: the usual. */
bool lr_pipe(int out[2], int bytes);

/* Sleeps; a signal may end the sleep early. */
void lr_sleep_ms(unsigned ms);

#endif
