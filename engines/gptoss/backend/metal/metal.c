/* gptoss/backend/metal/metal.c - the host's table, and the backend made of it. */
#include "engines/gptoss/backend/metal/metal.h"

#include "engines/gptoss/backend/gpu/gpu.h"

static const struct gpu_host metal_host = {
    .name = "metal",
    .describe = metal_describe,
    .open = metal_open,
    .close = metal_close,
    .allocate = metal_allocate,
    .wrap = metal_wrap,
    .mapped = metal_mapped,
    .release = metal_free_buffer,
    .pipeline = metal_pipeline,
    .record = metal_record,
    .forget = metal_forget,
    .submit = metal_submit,
    .wait = metal_wait,
};

const struct gpu_host *gptoss_metal_host(void)
{
    return &metal_host;
}

GPU_BACKEND(metal, &metal_host)
