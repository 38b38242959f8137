#include "engines/devices/cuda/driver.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/library.h"

/* Programmatic launches inside captured graphs need a driver of this CUDA version.  PTX needs
 * one as new as the nvcc that made it (cuda_code_refused). */
enum { OLDEST_DRIVER = 12030 };

/* For "%d.%d". */
#define VERSION(n) (n) / 1000, (n) % 1000 / 10

#define NAME_OF(x)  NAME_OF_(x)
#define NAME_OF_(x) #x

static lr_code driver_load(struct cuda_driver *cu, struct lr_error *err)
{
    void *library = lr_library_open_known(LR_LIBRARY_CUDA);
    if (library == NULL)
        return lr_fail(
            err,
            LR_INTERNAL, /* a driver may be installed later: says nothing about the model */
            "no NVIDIA driver: %s cannot be loaded (%s); install the NVIDIA driver, or use "
            "--device cpu",
            lr_library_name(LR_LIBRARY_CUDA), lr_library_error());
        /* NAME_OF expands cuMemAlloc to cuMemAlloc_v2 first, as cuda.h defines it. */
#define X(name)                                                                                \
    *(void **)&cu->name = lr_library_symbol(library, NAME_OF(name));                           \
    if (cu->name == NULL)                                                                      \
        return lr_fail(err, LR_UNSUPPORTED,                                                    \
                       "the NVIDIA driver is too old: it lacks %s; update it to one for CUDA " \
                       "12.3 or later",                                                        \
                       NAME_OF(name));
    CUDA_FUNCTIONS(X)
#undef X
    CUresult result = cu->cuInit(0);
    if (result == CUDA_ERROR_NO_DEVICE)
        return lr_fail(err, LR_INTERNAL, "the NVIDIA driver finds no GPU on this machine");
    if (result != CUDA_SUCCESS)
        return lr_fail(err, LR_INTERNAL, "the NVIDIA driver does not start (cuInit: %d)",
                       (int)result);
    int version = 0;
    CUDA_TRY(cu, cuDriverGetVersion(&version), err);
    if (version < OLDEST_DRIVER)
        return lr_fail(
            err, LR_UNSUPPORTED,
            "the NVIDIA driver is for CUDA %d.%d, needed is %d.%d or later: update it",
            VERSION(version), VERSION(OLDEST_DRIVER));
    return LR_OK;
}

lr_code cuda_driver_get(const struct cuda_driver **out, struct lr_error *err)
{
    /* Loaded once and kept: one thread calls an engine, and unloading a driver that may still
     * own threads is never safe. */
    static struct cuda_driver driver;
    static int loaded;
    *out = NULL;
    if (!loaded) {
        lr_code code = driver_load(&driver, err);
        if (code != LR_OK)
            return code;
        loaded = 1;
    }
    *out = &driver;
    return LR_OK;
}

lr_code cuda_fail(const struct cuda_driver *cu, CUresult result, const char *call,
                  struct lr_error *err)
{
    const char *text = NULL;
    int name = (int)strcspn(call, "(");
    if (cu->cuGetErrorString(result, &text) != CUDA_SUCCESS || text == NULL)
        text = "unknown error";
    lr_code code = result == CUDA_ERROR_OUT_OF_MEMORY ? LR_OUT_OF_VRAM : LR_INTERNAL;
    return lr_fail(err, code, "CUDA: %.*s: %s (%d)", name, call, text, (int)result);
}

lr_code cuda_code_refused(CUresult result, int driver, const struct cuda_device *device,
                          struct lr_error *err)
{
    if (result == CUDA_ERROR_NO_BINARY_FOR_GPU)
        return lr_fail(err, LR_UNSUPPORTED,
                       "this build has no code for %s (compute capability %d.%d): build with "
                       "LR_CUDA_ARCHS naming it",
                       device->name, device->major, device->minor);
    return lr_fail(err, LR_UNSUPPORTED,
                   "the NVIDIA driver is for CUDA %d.%d and cannot compile this build's code "
                   "for %s (compute capability %d.%d), which needs one for CUDA %d.%d or "
                   "later: install a newer driver, or use a build with machine code for this "
                   "GPU (preset release-all-gpus)",
                   VERSION(driver), device->name, device->major, device->minor,
                   VERSION(CUDA_VERSION));
}

static void uuid_text(const CUuuid *uuid, char out[41])
{
    const unsigned char *b = (const unsigned char *)uuid->bytes;
    (void)snprintf(out, 41,
                   "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                   b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11],
                   b[12], b[13], b[14], b[15]);
}

static lr_code driver_describe(const struct cuda_driver *cu, CUdevice device,
                               struct cuda_device *out, struct lr_error *err)
{
    size_t total = 0;
    *out = (struct cuda_device){.handle = device};
    CUDA_TRY(cu, cuDeviceGetName(out->name, (int)sizeof(out->name), device), err);
    CUDA_TRY(cu, cuDeviceTotalMem(&total, device), err);
    out->total_bytes = total;
    CUDA_TRY(
        cu,
        cuDeviceGetAttribute(&out->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
        err);
    CUDA_TRY(
        cu,
        cuDeviceGetAttribute(&out->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device),
        err);
    CUDA_TRY(cu,
             cuDeviceGetAttribute(&out->multiprocessors,
                                  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
             err);
    CUDA_TRY(cu,
             cuDeviceGetAttribute(&out->shared_per_block,
                                  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                                  device),
             err);
    if (out->major < 8)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s has compute capability %d.%d, needed is 8.0 or later: use it with "
                       "--device vulkan",
                       out->name, out->major, out->minor);
    return LR_OK;
}

lr_code cuda_device_find(const struct cuda_driver *cu, const char *name,
                         struct cuda_device *out, struct lr_error *err)
{
    int count = 0;
    CUDA_TRY(cu, cuDeviceGetCount(&count), err);
    char *end = NULL;
    long number = strncmp(name, "cuda:", 5) == 0 ? strtol(name + 5, &end, 10) : 0;
    bool by_number =
        strcmp(name, "cuda") == 0 || (end != NULL && end != name + 5 && *end == '\0');
    for (int i = 0; i < count; i++) {
        CUdevice device;
        CUuuid uuid;
        char text[41];
        CUDA_TRY(cu, cuDeviceGet(&device, i), err);
        CUDA_TRY(cu, cuDeviceGetUuid(&uuid, device), err);
        uuid_text(&uuid, text);
        if (by_number ? number == i : strcmp(text, name) == 0)
            return driver_describe(cu, device, out, err);
    }
    return lr_fail(err, LR_UNSUPPORTED,
                   "device \"%s\" does not exist; this machine has %d NVIDIA GPU(s): cuda:0%s",
                   name, count, count > 1 ? " and on" : "");
}
