/* gptoss/backend/metal/kernels.c - the kernels as MSL. */
#include "engines/gptoss/backend/gpu/gpu.h"

/* gptoss_msl_<name>[] of every kernel; the build writes this file. */
#include "msl.h"

static const struct gpu_program kernels[] = {
#define KERNEL(kernel, file, define, buffers, push)                                            \
    {.name = #kernel, .msl = gptoss_msl_##kernel},
#define MATRIX_KERNEL(kernel, file, define, buffers, push) {.name = #kernel, .msl = ""},
#include "engines/gptoss/backend/shaders/kernels.def"
};

const struct gpu_programs gptoss_metal_programs = {"gptoss", GPU_KERNEL_COUNT, kernels};
