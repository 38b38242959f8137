/* native/vulkan/vulkan.c - the device made of Vulkan's host with the kernels. */
#include "engines/devices/vulkan/vulkan.h"

#include "engines/native/gpu/gpu.h"

static const struct gpu_host vulkan_host = VULKAN_HOST(&native_vulkan_programs);

NATIVE_GPU_BACKEND(vulkan, &vulkan_host)
