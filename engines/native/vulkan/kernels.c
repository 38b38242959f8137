/* native/vulkan/kernels.c - the kernels as SPIR-V. */
#include "engines/native/gpu/gpu.h"

/* native_spirv_<name>[] of every kernel; the build writes this file. */
#include "spirv.h"

static const struct gpu_program kernels[] = {
#define KERNEL(kernel, file, define, buffers, push)                                            \
    {.name = #kernel,                                                                          \
     .spirv = native_spirv_##kernel,                                                           \
     .spirv_bytes = sizeof(native_spirv_##kernel),                                             \
     .bindings = (buffers),                                                                    \
     .push_bytes = sizeof(struct push)},
#include "engines/native/shaders/kernels.def"
};

const struct gpu_programs native_vulkan_programs = {"native", NATIVE_GPU_KERNELS, kernels};
