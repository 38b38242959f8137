/* gptoss/backend/metal/metal.c - the host's table, and the backend made of it. */
#include "engines/gptoss/backend/metal/metal.h"

#include "engines/gptoss/backend/gpu/gpu.h"

static const struct gpu_host metal_host = {
    .name = "metal",
    .describe = metal_describe,
    .open = metal_open,
    .close = metal_close,
    .allocate = metal_allocate,
    .mapped = metal_mapped,
    .release = metal_free_buffer,
    .pipeline = metal_pipeline,
    .record = metal_record,
    .forget = metal_forget,
    .submit = metal_submit,
    .wait = metal_wait,
};

static lr_code plan(const struct model_config *config,
                    const struct gptoss_backend_options *options, struct gptoss_plan *out,
                    struct lr_error *err)
{
    return gpu_plan(&metal_host, config, options, out, err);
}

static lr_code open_model(const struct gptoss_backend_host *host,
                          const struct model_gptoss *weights, const uint32_t *usable,
                          const struct gptoss_backend_options *options,
                          const struct gptoss_plan *plan, struct gptoss_backend **out,
                          struct lr_error *err)
{
    return gpu_open(&metal_host, host, weights, usable, options, plan, out, err);
}

const struct gptoss_backend_api *gptoss_backend_metal(void)
{
    static const struct gptoss_backend_api api = {
        .name = "metal",
        .plan = plan,
        .open = open_model,
        .close = gpu_close,
        .forward = gpu_forward,
        .resize = gpu_resize,
        .move = gpu_move,
    };
    return &api;
}
