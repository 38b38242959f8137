/* native/metal/metal.c - the device made of Metal's host with the kernels. */
#include "engines/devices/metal/metal.h"

#include "engines/native/gpu/gpu.h"

static const struct gpu_host metal_host = METAL_HOST(&native_metal_programs);

NATIVE_GPU_BACKEND(metal, &metal_host)
