/* base/os/library.h - shared libraries that are opened at run time.
 *
 * A library stays private to the caller: its symbols are not used for other libraries.
 * Thread: any; lr_library_error is the reason of the calling thread's last failure.
 */
#ifndef BASE_OS_LIBRARY_H
#define BASE_OS_LIBRARY_H

#include <stdbool.h>

#include "base/file.h"

void *lr_library_open(const char *path); /* a path, or a name that the system looks for */
/* In the library or in those that it needs; NULL: there is none. */
void *lr_library_symbol(void *library, const char *name);
void lr_library_close(void *library);
const char *lr_library_error(void);

/* Libraries that have another name on each system. */
enum lr_known_library {
    LR_LIBRARY_CUDA,   /* NVIDIA's driver */
    LR_LIBRARY_NVML,   /* its management library */
    LR_LIBRARY_VULKAN, /* the loader of every Vulkan driver */
    LR_LIBRARY_METAL,  /* Apple's GPU API; macOS only */
    LR_LIBRARY_OBJC,   /* the Objective-C runtime; macOS only */
    LR_LIBRARY_CURL,
    LR_LIBRARY_PQ, /* PostgreSQL's client; Linux only */
};
void *lr_library_open_known(enum lr_known_library which);
/* The first name that lr_library_open_known tries; "" where the system has no such library. */
const char *lr_library_name(enum lr_known_library which);

/* True where an NVIDIA GPU is visible; systems without files for devices go by the driver. */
bool lr_gpu_device_exists(bool has_driver);

/* The file that holds this address: the library or program of the caller. */
bool lr_library_of(const void *address, char out[LR_PATH_MAX]);

#endif
