/* gptoss/backend/cuda/trace.c - reports the routers' choices, for tests. */
#include <stdlib.h>

#include "engines/gptoss/backend/cuda/cuda.h"

static lr_code bring(struct gptoss_backend *b, const void *device, void *host, size_t bytes,
                     struct lr_error *err)
{
    CUDA_TRY(b->cu, cuMemcpyDtoHAsync(host, (CUdeviceptr)(uintptr_t)device, bytes, b->stream),
             err);
    CUDA_TRY(b->cu, cuStreamSynchronize(b->stream), err);
    return LR_OK;
}

lr_code cuda_trace_routed(struct gptoss_backend *b, uint32_t layer, uint32_t rows,
                          struct lr_error *err)
{
    size_t cells = (size_t)rows * b->config->hidden,
           chosen = (size_t)rows * b->config->experts_per_token;
    float *residual = malloc(cells * sizeof(*residual));
    uint32_t *choice = malloc(chosen * sizeof(*choice));
    lr_code code = residual != NULL && choice != NULL
                       ? LR_OK
                       : lr_fail(err, LR_OUT_OF_RAM, "no memory to trace %u rows", rows);
    if (code == LR_OK)
        code = bring(b, b->ws.residual, residual, cells * sizeof(*residual), err);
    if (code == LR_OK)
        code = bring(b, b->ws.choice, choice, chosen * sizeof(*choice), err);
    if (code == LR_OK)
        b->trace->routed(b->trace->ctx, layer, rows, residual, choice);
    free(residual);
    free(choice);
    return code;
}
