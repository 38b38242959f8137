/* base/os/darwin/library_names.c - what macOS calls the libraries of base/os/library.h.  It has
 * no driver of NVIDIA's, and PostgreSQL's client is for Linux.  Vulkan's loader is there where
 * an operator has installed it (MoltenVK). */
#include <stddef.h>

#include "base/os/library.h"

static const char *const names[] = {
    [LR_LIBRARY_CUDA] = "",
    [LR_LIBRARY_NVML] = "",
    [LR_LIBRARY_VULKAN] = "libvulkan.1.dylib",
    [LR_LIBRARY_METAL] = "/System/Library/Frameworks/Metal.framework/Metal",
    [LR_LIBRARY_OBJC] = "/usr/lib/libobjc.A.dylib",
    [LR_LIBRARY_CURL] = "/usr/lib/libcurl.4.dylib",
    [LR_LIBRARY_PQ] = "",
};

const char *lr_library_name(enum lr_known_library which)
{
    return names[which];
}

void *lr_library_open_known(enum lr_known_library which)
{
    return names[which][0] != '\0' ? lr_library_open(names[which]) : NULL;
}

bool lr_gpu_device_exists(bool has_driver)
{
    return has_driver;
}
