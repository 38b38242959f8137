/* base/os/windows/text.c - UTF-8 and Windows' texts, errno and Windows' errors. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
#include <winsock2.h>

#include "base/os/windows/internal.h"

wchar_t *lr_os_wide(const char *text)
{
    int len = MultiByteToWideChar(CP_UTF8, 0, text, -1, NULL, 0);
    wchar_t *out = len > 0 ? malloc((size_t)len * sizeof(*out)) : NULL;
    if (out != NULL)
        (void)MultiByteToWideChar(CP_UTF8, 0, text, -1, out, len);
    else
        errno = len > 0 ? ENOMEM : EINVAL;
    return out;
}

/* Puts the mark of a long path before an absolute path: \\?\C:\folder, \\?\UNC\server\share.  A
 * path of a device, \\.\name, has no such form.  `path` has room for 8 characters more. */
static void mark_as_long(wchar_t *path)
{
    bool is_device = wcsncmp(path, L"\\\\.\\", 4) == 0 || wcsncmp(path, L"\\\\?\\", 4) == 0;
    bool is_server = !is_device && wcsncmp(path, L"\\\\", 2) == 0;
    const wchar_t *mark = is_server ? L"\\\\?\\UNC" : L"\\\\?\\";
    size_t replaced = is_server ? 1 : 0; /* of the two backslashes before a server */
    if (is_device)
        return;
    (void)wmemmove(path + wcslen(mark), path + replaced, wcslen(path + replaced) + 1);
    (void)wmemcpy(path, mark, wcslen(mark));
}

wchar_t *lr_os_wide_path(const char *path)
{
    enum { SHORT = 240 }; /* CreateDirectory takes 12 characters less than MAX_PATH */
    wchar_t *wide = lr_os_wide(path);
    if (wide == NULL)
        return NULL;
    for (wchar_t *p = wide; *p != 0; p++)
        if (*p == L'/')
            *p = L'\\';
    if (wcslen(wide) < SHORT || wcsncmp(wide, L"\\\\?\\", 4) == 0)
        return wide;
    /* Only an absolute path without "." and ".." may be longer, and must say so. */
    wchar_t *full = malloc((LR_WIDE_PATH + 8) * sizeof(*full));
    DWORD len = full != NULL ? GetFullPathNameW(wide, LR_WIDE_PATH, full, NULL) : 0;
    free(wide);
    if (len == 0 || len >= LR_WIDE_PATH) {
        free(full);
        errno = full == NULL ? ENOMEM : ENAMETOOLONG;
        return NULL;
    }
    mark_as_long(full);
    return full;
}

bool lr_os_narrow(const wchar_t *text, char *out, size_t size, bool is_path)
{
    if (is_path && wcsncmp(text, L"\\\\?\\UNC\\", 8) == 0) {
        if (size < 2)
            return false;
        *out++ = '/'; /* //server/share */
        size--;
        text += 7;
    } else if (is_path && wcsncmp(text, L"\\\\?\\", 4) == 0) {
        text += 4;
    }
    int len = WideCharToMultiByte(CP_UTF8, 0, text, -1, out, (int)size, NULL, NULL);
    if (len <= 0) {
        errno = ENAMETOOLONG;
        return false;
    }
    for (char *p = out; is_path && *p != '\0'; p++)
        if (*p == '\\')
            *p = '/';
    return true;
}

int lr_os_errno(unsigned long error)
{
    static const struct {
        unsigned long windows;
        int posix;
    } pairs[] = {
        {ERROR_FILE_NOT_FOUND, ENOENT},
        {ERROR_PATH_NOT_FOUND, ENOENT},
        {ERROR_INVALID_DRIVE, ENOENT},
        {ERROR_BAD_NETPATH, ENOENT},
        {ERROR_INVALID_NAME, ENOENT},
        {ERROR_MOD_NOT_FOUND, ENOENT},
        {ERROR_DIRECTORY, ENOTDIR},
        {ERROR_TOO_MANY_OPEN_FILES, EMFILE},
        {ERROR_ACCESS_DENIED, EACCES},
        {ERROR_SHARING_VIOLATION, EACCES},
        {ERROR_LOCK_VIOLATION, EACCES},
        {ERROR_WRITE_PROTECT, EROFS},
        {ERROR_FILE_EXISTS, EEXIST},
        {ERROR_ALREADY_EXISTS, EEXIST},
        {ERROR_DIR_NOT_EMPTY, ENOTEMPTY},
        {ERROR_NOT_ENOUGH_MEMORY, ENOMEM},
        {ERROR_OUTOFMEMORY, ENOMEM},
        {ERROR_COMMITMENT_LIMIT, ENOMEM},
        {ERROR_DISK_FULL, ENOSPC},
        {ERROR_HANDLE_DISK_FULL, ENOSPC},
        {ERROR_NOT_SAME_DEVICE, EXDEV},
        {ERROR_BROKEN_PIPE, EPIPE},
        {ERROR_NO_DATA, EPIPE},
        {ERROR_FILENAME_EXCED_RANGE, ENAMETOOLONG},
        {ERROR_BAD_EXE_FORMAT, ENOEXEC},
        {ERROR_INVALID_HANDLE, EBADF},
        {ERROR_NOT_SUPPORTED, ENOSYS},
        {WSAEWOULDBLOCK, EAGAIN},
        {WSAEINTR, EINTR},
        {WSAEADDRINUSE, EADDRINUSE},
        {WSAEACCES, EACCES},
        {WSAEADDRNOTAVAIL, EADDRNOTAVAIL},
        {WSAECONNABORTED, ECONNABORTED},
        {WSAECONNRESET, ECONNRESET},
        {WSAECONNREFUSED, ECONNREFUSED},
        {WSAENOTCONN, ENOTCONN},
        {WSAEMFILE, EMFILE},
        {WSAENOBUFS, ENOBUFS},
        {WSAEAFNOSUPPORT, EAFNOSUPPORT},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
        if (pairs[i].windows == error)
            return pairs[i].posix;
    return EIO;
}

void lr_os_set_errno(void)
{
    errno = lr_os_errno(GetLastError());
}
