/* base/os/windows/share.c - files as memory that survives its process: not on Windows. */
#include "base/file.h"

lr_code lr_file_share(const char *path, size_t bytes, void **out, struct lr_error *err)
{
    (void)bytes;
    *out = NULL;
    return lr_fail(err, LR_UNSUPPORTED, "%.400s: not on this system", path);
}

void lr_file_unshare(void *memory, size_t bytes)
{
    (void)memory;
    (void)bytes;
}
