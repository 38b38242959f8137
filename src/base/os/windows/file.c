/* base/os/windows/file.c - files by their paths: every path becomes wide, every file is shared.
 */
#include "base/os/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "base/os/windows/internal.h"

enum { SHARE_ALL = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, BUSY_TRIES = 50 };

static HANDLE open_handle(const char *path, DWORD access, DWORD how, DWORD attributes)
{
    wchar_t *wide = lr_os_wide_path(path);
    if (wide == NULL)
        return INVALID_HANDLE_VALUE;
    HANDLE handle = CreateFileW(wide, access, SHARE_ALL, NULL, how, attributes, NULL);
    DWORD error = GetLastError();
    free(wide);
    if (handle == INVALID_HANDLE_VALUE)
        errno = lr_os_errno(error);
    return handle;
}

int lr_open(const char *path, unsigned flags, unsigned mode)
{
    static const DWORD access[] = {GENERIC_READ, GENERIC_WRITE, GENERIC_READ | GENERIC_WRITE};
    struct lr_stat info;
    (void)mode;
    if ((flags & LR_OPEN_NO_LINK) != 0 && lr_lstat(path, &info) && info.kind == LR_KIND_LINK) {
        errno = ELOOP;
        return -1;
    }
    HANDLE handle = open_handle(path, access[flags & 3],
                                (flags & LR_OPEN_NEW) != 0      ? CREATE_NEW
                                : (flags & LR_OPEN_CREATE) != 0 ? OPEN_ALWAYS
                                                                : OPEN_EXISTING,
                                FILE_ATTRIBUTE_NORMAL);
    if (handle == INVALID_HANDLE_VALUE)
        return -1;
    int how = _O_BINARY | _O_NOINHERIT | ((flags & 3) == LR_OPEN_READ ? _O_RDONLY : 0);
    how |= (flags & LR_OPEN_APPEND) != 0 ? _O_APPEND : 0;
    int fd = _open_osfhandle((intptr_t)handle, how);
    if (fd < 0)
        (void)CloseHandle(handle);
    return fd;
}

FILE *lr_fopen(const char *path, const char *mode)
{
    bool is_write = strchr(mode, 'w') != NULL;
    unsigned flags = !is_write                   ? LR_OPEN_READ
                     : strchr(mode, 'x') != NULL ? LR_OPEN_WRITE | LR_OPEN_NEW
                                                 : LR_OPEN_WRITE | LR_OPEN_CREATE;
    int fd = lr_open(path, flags, 0666);
    if (fd >= 0 && is_write)
        (void)_chsize_s(fd, 0);
    FILE *file = fd >= 0 ? _fdopen(fd, is_write ? "wb" : "rb") : NULL;
    if (fd >= 0 && file == NULL)
        (void)close(fd);
    return file;
}

/* Windows counts 100 ns since 1601. */
static int64_t time_ns(FILETIME time)
{
    int64_t ticks = (int64_t)((uint64_t)time.dwHighDateTime << 32 | time.dwLowDateTime);
    return (ticks - INT64_C(116444736000000000)) * 100;
}

static bool fill(HANDLE handle, struct lr_stat *out)
{
    BY_HANDLE_FILE_INFORMATION info;
    if (GetFileType(handle) != FILE_TYPE_DISK) {
        *out = (struct lr_stat){.kind = LR_KIND_OTHER};
        return true;
    }
    if (!GetFileInformationByHandle(handle, &info)) {
        lr_os_set_errno();
        return false;
    }
    *out = (struct lr_stat){
        .kind = (info.dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT) != 0 ? LR_KIND_LINK
                : (info.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0   ? LR_KIND_FOLDER
                                                                            : LR_KIND_FILE,
        .size = (uint64_t)info.nFileSizeHigh << 32 | info.nFileSizeLow,
        .device = info.dwVolumeSerialNumber,
        .inode = (uint64_t)info.nFileIndexHigh << 32 | info.nFileIndexLow,
        .changed_ns = time_ns(info.ftLastWriteTime),
    };
    return true;
}

static bool file_look(const char *path, DWORD attributes, struct lr_stat *out)
{
    HANDLE handle = open_handle(path, FILE_READ_ATTRIBUTES, OPEN_EXISTING,
                                FILE_FLAG_BACKUP_SEMANTICS | attributes);
    if (handle == INVALID_HANDLE_VALUE)
        return false;
    bool ok = fill(handle, out);
    (void)CloseHandle(handle);
    return ok;
}

bool lr_stat(const char *path, struct lr_stat *out)
{
    bool ok = file_look(path, 0, out);
    if (ok && out->kind == LR_KIND_LINK) /* not a link, but some other reparse point */
        out->kind = LR_KIND_FILE;
    return ok;
}

bool lr_lstat(const char *path, struct lr_stat *out)
{
    return file_look(path, FILE_FLAG_OPEN_REPARSE_POINT, out);
}

bool lr_fstat(int fd, struct lr_stat *out)
{
    intptr_t handle = _get_osfhandle(fd);
    return handle != -1 && fill((HANDLE)handle, out);
}

static bool with_path(const char *path, BOOL (*call)(LPCWSTR))
{
    wchar_t *wide = lr_os_wide_path(path);
    bool ok = wide != NULL && call(wide);
    if (wide != NULL && !ok)
        lr_os_set_errno();
    free(wide);
    return ok;
}

static BOOL delete_file(LPCWSTR path)
{
    return DeleteFileW(path);
}

static BOOL remove_folder(LPCWSTR path)
{
    return RemoveDirectoryW(path);
}

static BOOL create_folder(LPCWSTR path)
{
    return CreateDirectoryW(path, NULL);
}

bool lr_unlink(const char *path)
{
    return with_path(path, delete_file);
}

bool lr_own_like(const char *path, const char *like)
{
    (void)path;
    (void)like;
    return true; /* a file has the rights of its folder */
}

bool lr_rmdir(const char *path)
{
    return with_path(path, remove_folder);
}

bool lr_mkdir(const char *path)
{
    return with_path(path, create_folder);
}

/* A virus scanner or an indexer may hold a new file for a moment: tries for a second. */
bool lr_rename(const char *from, const char *to)
{
    wchar_t *a = lr_os_wide_path(from), *b = lr_os_wide_path(to);
    bool ok = false;
    for (int i = 0; a != NULL && b != NULL && !ok && i < BUSY_TRIES; i++) {
        ok = MoveFileExW(a, b, MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH);
        DWORD error = GetLastError();
        if (ok)
            break;
        errno = lr_os_errno(error);
        if (GetFileAttributesW(b) != INVALID_FILE_ATTRIBUTES &&
            (GetFileAttributesW(b) & FILE_ATTRIBUTE_DIRECTORY) != 0) {
            errno = ENOTEMPTY; /* a folder is not replaced */
            break;
        }
        if (error != ERROR_ACCESS_DENIED && error != ERROR_SHARING_VIOLATION)
            break;
        Sleep(20);
    }
    free(a);
    free(b);
    return ok;
}

bool lr_link(const char *from, const char *to)
{
    wchar_t *a = lr_os_wide_path(from), *b = lr_os_wide_path(to);
    bool ok = a != NULL && b != NULL && CreateHardLinkW(b, a, NULL);
    if (!ok)
        lr_os_set_errno();
    free(a);
    free(b);
    return ok;
}

bool lr_can_read(const char *path)
{
    int fd = lr_open(path, LR_OPEN_READ, 0);
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

bool lr_can_write(const char *path)
{
    struct lr_stat info;
    if (!lr_stat(path, &info))
        return false;
    DWORD access = info.kind == LR_KIND_FOLDER ? FILE_ADD_FILE : GENERIC_WRITE;
    HANDLE handle = open_handle(path, access, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (handle != INVALID_HANDLE_VALUE)
        (void)CloseHandle(handle);
    return handle != INVALID_HANDLE_VALUE;
}

char *lr_realpath(const char *path, char out[LR_PATH_MAX])
{
    HANDLE handle = open_handle(path, 0, OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS);
    if (handle == INVALID_HANDLE_VALUE)
        return NULL;
    wchar_t *wide = malloc(LR_WIDE_PATH * sizeof(*wide));
    DWORD len = wide != NULL ? GetFinalPathNameByHandleW(handle, wide, LR_WIDE_PATH, 0) : 0;
    if (len == 0)
        lr_os_set_errno();
    bool ok = len != 0 && len < LR_WIDE_PATH && lr_os_narrow(wide, out, LR_PATH_MAX, true);
    (void)CloseHandle(handle);
    free(wide);
    return ok ? out : NULL;
}

bool lr_path_is_absolute(const char *path)
{
    bool has_drive = ((path[0] | 32) >= 'a' && (path[0] | 32) <= 'z') && path[1] == ':';
    const char *rest = has_drive ? path + 2 : path;
    return rest[0] == '/' || rest[0] == '\\';
}

/* ---- folders ---- */

struct lr_dir {
    HANDLE search;
    WIN32_FIND_DATAW found;
    bool has_next;
    char name[4 * MAX_PATH];
};

struct lr_dir *lr_dir_open(const char *path)
{
    size_t len = strlen(path);
    if (len == 0) { /* the pattern below would be the root's */
        errno = ENOENT;
        return NULL;
    }
    char *pattern = malloc(len + 3);
    struct lr_dir *dir = calloc(1, sizeof(*dir));
    wchar_t *wide = NULL;
    if (pattern != NULL && dir != NULL) {
        memcpy(pattern, path, len);
        memcpy(pattern + len, "/*", 3);
        wide = lr_os_wide_path(pattern);
    }
    if (wide != NULL) {
        dir->search = FindFirstFileW(wide, &dir->found);
        dir->has_next = dir->search != INVALID_HANDLE_VALUE;
        if (!dir->has_next)
            lr_os_set_errno();
    }
    bool ok = wide != NULL && dir->has_next;
    free(wide);
    free(pattern);
    if (ok)
        return dir;
    free(dir);
    return NULL;
}

const char *lr_dir_next(struct lr_dir *dir)
{
    while (dir->has_next) {
        bool fits = lr_os_narrow(dir->found.cFileName, dir->name, sizeof(dir->name), false);
        dir->has_next = FindNextFileW(dir->search, &dir->found);
        if (fits && strcmp(dir->name, ".") != 0 && strcmp(dir->name, "..") != 0)
            return dir->name;
    }
    return NULL;
}

void lr_dir_close(struct lr_dir *dir)
{
    if (dir == NULL)
        return;
    (void)FindClose(dir->search);
    free(dir);
}
