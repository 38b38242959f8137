/* base/os/windows/fd.c - waiting for pipes: Windows has no poll for them, so they are looked
 * at. */
#include "base/os/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <windows.h>

#include "base/os/windows/internal.h"

int fsync(int fd)
{
    return _commit(fd);
}

static ssize_t at_offset(int fd, void *bytes, size_t len, off_t at, bool is_write)
{
    OVERLAPPED where = {.Offset = (DWORD)at, .OffsetHigh = (DWORD)((uint64_t)at >> 32)};
    HANDLE handle = (HANDLE)_get_osfhandle(fd);
    DWORD done = 0, most = len > 1 << 30 ? 1 << 30 : (DWORD)len;
    bool ok = is_write ? WriteFile(handle, bytes, most, &done, &where)
                       : ReadFile(handle, bytes, most, &done, &where);
    if (ok || (!is_write && GetLastError() == ERROR_HANDLE_EOF))
        return (ssize_t)done;
    lr_os_set_errno();
    return -1;
}

ssize_t pread(int fd, void *bytes, size_t len, off_t at)
{
    return at_offset(fd, bytes, len, at, false);
}

ssize_t pwrite(int fd, const void *bytes, size_t len, off_t at)
{
    return at_offset(fd, (void *)(uintptr_t)bytes, len, at, true);
}

/* Not of a socket. */
int lr_fd_copy(int fd)
{
    return _dup(fd);
}

bool lr_fd_replace(int from, int to)
{
    return _dup2(from, to) == 0;
}

/* 1: there are bytes, or the other end is closed; 0: neither; -1: no pipe. */
static int pipe_state(int fd, bool *is_broken)
{
    DWORD bytes = 0;
    HANDLE handle = (HANDLE)_get_osfhandle(fd);
    *is_broken = false;
    if (PeekNamedPipe(handle, NULL, 0, NULL, &bytes, NULL))
        return bytes != 0;
    *is_broken =
        GetLastError() == ERROR_BROKEN_PIPE || GetLastError() == ERROR_PIPE_NOT_CONNECTED;
    if (!*is_broken)
        lr_os_set_errno();
    return *is_broken ? 1 : -1;
}

int lr_fd_wait(int fd, unsigned events, int timeout_ms)
{
    ULONGLONG begin = GetTickCount64();
    if ((events & LR_FD_WRITABLE) != 0)
        return 1; /* a write waits by itself */
    for (;;) {
        bool is_broken;
        int state = pipe_state(fd, &is_broken);
        if (state != 0)
            return state;
        if (timeout_ms >= 0 && GetTickCount64() - begin >= (ULONGLONG)timeout_ms)
            return 0;
        Sleep(1);
    }
}

bool lr_fd_is_broken(int fd)
{
    bool is_broken;
    (void)pipe_state(fd, &is_broken);
    return is_broken;
}

bool lr_pipe(int out[2], int bytes)
{
    return _pipe(out, bytes != 0 ? (unsigned)bytes : 1 << 16, _O_BINARY | _O_NOINHERIT) == 0;
}

void lr_sleep_ms(unsigned ms)
{
    Sleep(ms);
}
