/* gptoss/backend/vulkan/kernels.c - the kernels as SPIR-V. */
#include "engines/gptoss/backend/gpu/gpu.h"

/* gptoss_spirv_<name>[] of every kernel; the build writes this file. */
#include "spirv.h"

static const struct gpu_program kernels[] = {
#define KERNEL(kernel, file, define, buffers, push)                                            \
    {.name = #kernel,                                                                          \
     .spirv = gptoss_spirv_##kernel,                                                           \
     .spirv_bytes = sizeof(gptoss_spirv_##kernel),                                             \
     .bindings = (buffers),                                                                    \
     .push_bytes = sizeof(struct push)},
#ifndef GPU_MATRICES
#define MATRIX_KERNEL(kernel, file, define, buffers, push)                                     \
    {.name = #kernel, .bindings = (buffers), .push_bytes = sizeof(struct push)},
#endif
#include "engines/gptoss/backend/shaders/kernels.def"
};

const struct gpu_programs gptoss_vulkan_programs = {"gptoss", GPU_KERNEL_COUNT, kernels};
