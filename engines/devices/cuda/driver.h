/* devices/cuda/driver.h - the CUDA driver, loaded at run time.
 *
 * Nothing is linked against libcuda: the library is opened on first use, so that the plugin
 * starts on any machine and can report what is missing.  One device and one context per open
 * model.  Thread: the engine's caller.
 */
#ifndef ENGINES_DEVICES_CUDA_DRIVER_H
#define ENGINES_DEVICES_CUDA_DRIVER_H

#include <cuda.h>

#include "base/fail.h"

/* clang-format off */
#define CUDA_FUNCTIONS(X)                                                                  \
    X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName)  \
    X(cuDeviceGetAttribute) X(cuDeviceGetUuid) X(cuDeviceTotalMem)                         \
    X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent)            \
    X(cuMemGetInfo) X(cuMemAlloc) X(cuMemFree) X(cuMemAllocHost) X(cuMemFreeHost)          \
    X(cuMemcpyHtoDAsync) X(cuMemcpyDtoHAsync) X(cuMemsetD8Async) X(cuMemsetD16Async)      \
    X(cuMemcpyDtoDAsync) X(cuMemAddressReserve) X(cuMemAddressFree) X(cuMemCreate)         \
    X(cuMemRelease) X(cuMemMap) X(cuMemUnmap) X(cuMemSetAccess)                            \
    X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuFuncSetAttribute)     \
    X(cuFuncGetAttribute)                                                                  \
    X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamQuery)           \
    X(cuEventCreate) X(cuEventDestroy) X(cuEventRecord) X(cuEventSynchronize)              \
    X(cuLaunchKernelEx) X(cuStreamBeginCapture) X(cuStreamEndCapture)                      \
    X(cuGraphInstantiateWithFlags) X(cuGraphLaunch) X(cuGraphDestroy) X(cuGraphExecDestroy)\
    X(cuGetErrorString)
/* clang-format on */

struct cuda_driver {
#define X(name) __typeof__(&name) name;
    CUDA_FUNCTIONS(X)
#undef X
};

/* The loaded, initialised driver.  UNSUPPORTED says what to install if there is no driver or if
 * it is too old. */
LR_MUST_USE lr_code cuda_driver_get(const struct cuda_driver **out, struct lr_error *err);

/* Properties of a device that are known before it is used. */
struct cuda_device {
    CUdevice handle;
    char name[96];
    int multiprocessors;
    int major, minor;
    int shared_per_block; /* bytes a block may opt in to */
    uint64_t total_bytes;
};

/* "cuda" and "cuda:0": by number; "GPU-...": by UUID.  UNSUPPORTED names the available devices,
 * or says that the GPU is too old (compute capability below 8.0). */
LR_MUST_USE lr_code cuda_device_find(const struct cuda_driver *cu, const char *name,
                                     struct cuda_device *out, struct lr_error *err);

/* INTERNAL with the call and CUDA's message; OUT_OF_VRAM for a failed allocation. */
lr_code cuda_fail(const struct cuda_driver *cu, CUresult result, const char *call,
                  struct lr_error *err);

/* UNSUPPORTED for the two results of cuModuleLoadData that say that this build's code does not
 * run here: NO_BINARY_FOR_GPU, and UNSUPPORTED_PTX_VERSION where the driver's compiler (of the
 * CUDA version `driver`, as cuDriverGetVersion gives it) is older than the nvcc of the build.
 */
lr_code cuda_code_refused(CUresult result, int driver, const struct cuda_device *device,
                          struct lr_error *err);

/* Returns from the calling function unless the call succeeds. */
#define CUDA_TRY(cu, call, err)                                                                \
    do {                                                                                       \
        CUresult result_ = (cu)->call;                                                         \
        if (result_ != CUDA_SUCCESS)                                                           \
            return cuda_fail((cu), result_, #call, (err));                                     \
    } while (0)

#endif
