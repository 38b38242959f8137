/* gptoss/backend/metal/metal.c - the backend made of Metal's host with the kernels. */
#include "engines/devices/metal/metal.h"

#include "engines/gptoss/backend/gpu/gpu.h"

static const struct gpu_host metal_host = METAL_HOST(&gptoss_metal_programs);

const struct gpu_host *gptoss_metal_host(void)
{
    return &metal_host;
}

GPU_BACKEND(metal, &metal_host)
