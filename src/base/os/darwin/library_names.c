/* base/os/darwin/library_names.c - what macOS calls the libraries of base/os/library.h.  It has
 * no driver of NVIDIA's, and PostgreSQL's client is for Linux. */
#include <stddef.h>

#include "base/os/library.h"

const char *lr_library_name(enum lr_known_library which)
{
    return which == LR_LIBRARY_CURL ? "/usr/lib/libcurl.4.dylib" : "";
}

void *lr_library_open_known(enum lr_known_library which)
{
    const char *name = lr_library_name(which);
    return name[0] != '\0' ? lr_library_open(name) : NULL;
}

bool lr_gpu_device_exists(bool has_driver)
{
    return has_driver;
}
