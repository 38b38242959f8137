/* base/os/windows/fd.h - descriptor functions that Windows' C library lacks. */
#ifndef BASE_OS_WINDOWS_FD_H
#define BASE_OS_WINDOWS_FD_H

#include <io.h>
#include <stddef.h>
#include <sys/types.h>

int fsync(int fd);
ssize_t pread(int fd, void *bytes, size_t len, off_t at);
ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at);

#endif
