/* gptoss/backend/vulkan/vulkan.c - the host's table, and the backend made of it. */
#include "engines/gptoss/backend/vulkan/vulkan.h"

#include "engines/gptoss/backend/gpu/gpu.h"

static const struct gpu_host vulkan_host = {
    .name = "vulkan",
    .describe = vulkan_describe,
    .open = vulkan_open,
    .close = vulkan_close,
    .allocate = vulkan_allocate,
    .mapped = vulkan_mapped,
    .release = vulkan_release,
    .pipeline = vulkan_pipeline,
    .record = vulkan_record,
    .forget = vulkan_forget,
    .submit = vulkan_submit,
    .wait = vulkan_wait,
};

const struct gpu_host *gptoss_vulkan_host(void)
{
    return &vulkan_host;
}

GPU_BACKEND(vulkan, &vulkan_host)
