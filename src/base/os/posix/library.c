/* base/os/posix/library.c - shared libraries by dlopen. */
#include "base/os/library.h"

#include <dlfcn.h>
#include <string.h>

void *lr_library_open(const char *path)
{
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

void *lr_library_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

void lr_library_close(void *library)
{
    (void)dlclose(library);
}

const char *lr_library_error(void)
{
    const char *text = dlerror();
    return text != NULL ? text : "no reason given";
}

bool lr_library_of(const void *address, char out[LR_PATH_MAX])
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL ||
        strlen(info.dli_fname) >= LR_PATH_MAX)
        return false;
    memcpy(out, info.dli_fname, strlen(info.dli_fname) + 1);
    return true;
}
