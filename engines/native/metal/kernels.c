/* native/metal/kernels.c - the kernels as MSL. */
#include "engines/native/gpu/gpu.h"

/* native_msl_<name>[] of every kernel; the build writes this file. */
#include "msl.h"

static const struct gpu_program kernels[] = {
#define KERNEL(kernel, file, define, buffers, push)                                            \
    {.name = #kernel, .msl = native_msl_##kernel},
#include "engines/native/shaders/kernels.def"
};

const struct gpu_programs native_metal_programs = {"native", NATIVE_GPU_KERNELS, kernels};
