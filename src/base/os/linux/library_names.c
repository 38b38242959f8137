/* base/os/linux/library_names.c - what Linux calls the libraries of base/os/library.h, and
 * where it shows GPUs. */
#include <stddef.h>
#include <unistd.h>

#include "base/os/library.h"

enum { NAMES = 3 };

static const char *const names[][NAMES] = {
    [LR_LIBRARY_CUDA] = {"libcuda.so.1"},
    [LR_LIBRARY_NVML] = {"libnvidia-ml.so.1"},
    [LR_LIBRARY_VULKAN] = {"libvulkan.so.1"},
    [LR_LIBRARY_CURL] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.so"},
    [LR_LIBRARY_PQ] = {"libpq.so.5"},
    [LR_LIBRARY_METAL] = {NULL},
    [LR_LIBRARY_OBJC] = {NULL},
};

void *lr_library_open_known(enum lr_known_library which)
{
    void *library = NULL;
    for (size_t i = 0; library == NULL && i < NAMES && names[which][i] != NULL; i++)
        library = lr_library_open(names[which][i]);
    return library;
}

const char *lr_library_name(enum lr_known_library which)
{
    return names[which][0] != NULL ? names[which][0] : "";
}

bool lr_gpu_device_exists(bool has_driver)
{
    (void)has_driver;
    return access("/dev/nvidiactl", F_OK) == 0 || access("/dev/dxg", F_OK) == 0;
}
