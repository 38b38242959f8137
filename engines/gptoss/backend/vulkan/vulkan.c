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

static lr_code plan(const struct model_config *config,
                    const struct gptoss_backend_options *options, struct gptoss_plan *out,
                    struct lr_error *err)
{
    return gpu_plan(&vulkan_host, config, options, out, err);
}

static lr_code open_model(const struct gptoss_backend_host *host,
                          const struct model_gptoss *weights, const uint32_t *usable,
                          const struct gptoss_backend_options *options,
                          const struct gptoss_plan *plan, struct gptoss_backend **out,
                          struct lr_error *err)
{
    return gpu_open(&vulkan_host, host, weights, usable, options, plan, out, err);
}

const struct gptoss_backend_api *gptoss_backend_vulkan(void)
{
    static const struct gptoss_backend_api api = {
        .name = "vulkan",
        .plan = plan,
        .open = open_model,
        .close = gpu_close,
        .forward = gpu_forward,
        .resize = gpu_resize,
        .move = gpu_move,
    };
    return &api;
}
