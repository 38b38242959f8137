/* gptoss/backend/vulkan/vulkan.c - the backend made of Vulkan's host with the kernels. */
#include "engines/devices/vulkan/vulkan.h"

#include "engines/gptoss/backend/gpu/gpu.h"

static const struct gpu_host vulkan_host = VULKAN_HOST(&gptoss_vulkan_programs);

const struct gpu_host *gptoss_vulkan_host(void)
{
    return &vulkan_host;
}

GPU_BACKEND(vulkan, &vulkan_host)
