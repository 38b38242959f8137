/* gptoss/backend/cuda/cuda.c - open and close of the CUDA device. */
#include "engines/gptoss/backend/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fatbins, embedded by embed.S. */
#define MODULE(name) extern const char gptoss_cuda_##name[];
#include "engines/gptoss/backend/cuda/kernels.def"

/* ---- open and close ---- */

static void cuda_close(struct gptoss_backend *b)
{
    if (b == NULL)
        return;
    const struct cuda_driver *cu = b->cu;
    if (b->context != NULL) {
        (void)cu->cuCtxSetCurrent(b->context);
        if (b->stream != NULL)
            (void)cu->cuStreamSynchronize(b->stream);
        for (int i = 0; i <= CUDA_GRAPH_ROWS; i++)
            if (b->graphs[i] != NULL)
                (void)cu->cuGraphExecDestroy(b->graphs[i]);
        cuda_pages_close(b, GPTOSS_FULL);
        cuda_pages_close(b, GPTOSS_WINDOW);
        const CUdeviceptr memory[] = {b->weight_memory, b->workspace_memory};
        for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
            if (memory[i] != 0)
                (void)cu->cuMemFree(memory[i]);
        for (int i = 0; i < CUDA_TURNS; i++)
            if (b->turn_inputs[i] != NULL)
                (void)cu->cuMemFreeHost(b->turn_inputs[i]);
        if (b->sampled != NULL)
            (void)cu->cuMemFreeHost(b->sampled);
        if (b->host_embed != NULL)
            (void)cu->cuMemFreeHost(b->host_embed);
        cuda_host_sampling_close(b);
        cuda_filter_close(b);
        for (int i = 0; i < CUDA_MODULE_COUNT; i++)
            if (b->modules[i] != NULL)
                (void)cu->cuModuleUnload(b->modules[i]);
        if (b->stream != NULL)
            (void)cu->cuStreamDestroy(b->stream);
        (void)cu->cuDevicePrimaryCtxRelease(b->device.handle);
    }
    free(b->layers);
    free(b);
}

enum kernel_code { COMMON, HOPPER }; /* as kernels.def says */

static const struct {
    enum cuda_module module;
    enum kernel_code code;
    const char *name;
} kernels[] = {
#define KERNEL(module, name, code) {CUDA_MODULE_##module, code, #name},
#include "engines/gptoss/backend/cuda/kernels.def"
};

const char *cuda_kernel_name(enum cuda_kernel kernel)
{
    return kernels[kernel].name;
}

enum cuda_module cuda_kernel_module(enum cuda_kernel kernel)
{
    return kernels[kernel].module;
}

static lr_code load_modules(struct gptoss_backend *b, struct lr_error *err)
{
    static const char *const images[] = {
#define MODULE(name) gptoss_cuda_##name,
#include "engines/gptoss/backend/cuda/kernels.def"
    };
    for (int i = 0; i < CUDA_MODULE_COUNT; i++) {
        CUresult result = b->cu->cuModuleLoadData(&b->modules[i], images[i]);
        if (result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
            result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION) {
            int driver = 0;
            CUDA_TRY(b->cu, cuDriverGetVersion(&driver), err);
            return cuda_code_refused(result, driver, &b->device, err);
        }
        if (result != CUDA_SUCCESS)
            return cuda_fail(b->cu, result, "cuModuleLoadData", err);
    }
    for (int i = 0; i < CUDA_KERNEL_COUNT; i++) {
        CUresult result = b->cu->cuModuleGetFunction(
            &b->kernels[i], b->modules[kernels[i].module], kernels[i].name);
        if (result == CUDA_ERROR_NOT_FOUND && kernels[i].code == HOPPER)
            b->kernels[i] = NULL;
        else if (result != CUDA_SUCCESS)
            return cuda_fail(b->cu, result, kernels[i].name, err);
    }
    return cuda_prepare_kernels(b, err);
}

static lr_code cuda_allot(struct gptoss_backend *b, struct lr_error *err)
{
    const struct cuda_driver *cu = b->cu;
    const struct gptoss_plan *p = &b->plan;
    size_t available = 0, total = 0;
    CUDA_TRY(cu, cuMemGetInfo(&available, &total), err);
    uint64_t needed = p->weights + p->workspace + p->kv;
    if (needed > available)
        return lr_fail(err, LR_OUT_OF_VRAM,
                       "the model needs %llu bytes of GPU memory and %llu are free on %s",
                       (unsigned long long)needed, (unsigned long long)available,
                       b->device.name);
    CUDA_TRY(cu, cuMemAlloc(&b->weight_memory, p->weights), err);
    CUDA_TRY(cu, cuMemAlloc(&b->workspace_memory, p->workspace), err);
    (void)cuda_place_weights(b, b->config, b->weight_memory);
    (void)cuda_place_workspace(b, b->config, p, b->workspace_memory);
    /* Tickets and the padding of the vocabulary start at zero. */
    CUDA_TRY(cu, cuMemsetD8Async(b->workspace_memory, 0, p->workspace, b->stream), err);
    for (int i = 0; i < CUDA_TURNS; i++)
        CUDA_TRY(cu, cuMemAllocHost((void **)&b->turn_inputs[i], b->at.end), err);
    b->host_inputs = b->turn_inputs[b->turn];
    CUDA_TRY(cu, cuMemAllocHost((void **)&b->sampled, sizeof(*b->sampled)), err);
    CUDA_TRY(cu,
             cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)b->ws.usable, b->usable,
                               (size_t)(b->vocab_rows + 31) / 32 * 4, b->stream),
             err);
    CUDA_TRY(cu, cuStreamSynchronize(b->stream), err);
    lr_code code = cuda_embed_open(b, err);
    if (code == LR_OK)
        code = cuda_filter_open(b, err);
    return code == LR_OK ? cuda_host_sampling_open(b, err) : code;
}

/* After the weights: until then their staging buffers need memory. */
static lr_code allot_pages(struct gptoss_backend *b, struct lr_error *err)
{
    lr_code code = cuda_pages_open(b, GPTOSS_FULL, err);
    if (code == LR_OK)
        code = cuda_pages_open(b, GPTOSS_WINDOW, err);
    b->full_memory = b->pages[GPTOSS_FULL].base;
    b->window_memory = b->pages[GPTOSS_WINDOW].base;
    return code;
}

static lr_code cuda_start(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                          const struct gptoss_backend_options *o, struct lr_error *err)
{
    lr_code code = cuda_driver_get(&b->cu, err);
    if (code == LR_OK)
        code =
            cuda_device_find(b->cu, o->device != NULL ? o->device : "cuda:0", &b->device, err);
    if (code != LR_OK)
        return code;
    CUDA_TRY(b->cu, cuDevicePrimaryCtxRetain(&b->context, b->device.handle), err);
    CUDA_TRY(b->cu, cuCtxSetCurrent(b->context), err);
    CUDA_TRY(b->cu, cuStreamCreate(&b->stream, CU_STREAM_NON_BLOCKING), err);
    if (host->progress != NULL && host->progress(host->ctx, "compile", 0, 1) != 0)
        return lr_fail(err, LR_CANCELLED, "loading was cancelled");
    code = load_modules(b, err);
    if (code == LR_OK)
        code = cuda_allot(b, err);
    if (code == LR_OK)
        code = cuda_load_weights(b, host, err);
    if (code == LR_OK)
        code = allot_pages(b, err);
    if (code == LR_OK)
        code = cuda_token_open(b, err);
    if (code == LR_OK && o->measure_memory)
        code = cuda_measure_memory(b, host, err);
    if (code == LR_OK && host->log != NULL) {
        char text[160];
        (void)snprintf(text, sizeof(text), "device=\"%s\" weights=%llu kv=%llu workspace=%llu",
                       b->device.name, (unsigned long long)b->plan.weights,
                       (unsigned long long)b->plan.kv, (unsigned long long)b->plan.workspace);
        host->log(host->ctx, 1, "cuda.open", text);
    }
    return code;
}

static lr_code cuda_open(const struct gptoss_backend_host *host,
                         const struct model_gptoss *weights, const uint32_t *usable,
                         const struct gptoss_backend_options *options,
                         const struct gptoss_plan *plan, struct gptoss_backend **out,
                         struct lr_error *err)
{
    *out = NULL;
    struct gptoss_backend *b = calloc(1, sizeof(*b));
    if (b == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the CUDA backend");
    b->weights = weights;
    b->usable = usable;
    b->config = &weights->config;
    b->trace = options->trace;
    b->plan = *plan;
    b->q_width = b->config->heads * 64;
    b->vocab_rows = weights->vocab_rows;
    b->layers = calloc(b->config->layers, sizeof(*b->layers));
    lr_code code = b->layers != NULL ? cuda_start(b, host, options, err)
                                     : lr_fail(err, LR_OUT_OF_RAM, "no memory for %u layers",
                                               b->config->layers);
    if (code != LR_OK) {
        cuda_close(b);
        return code;
    }
    *out = b;
    return LR_OK;
}

const struct gptoss_backend_api *gptoss_backend_cuda(void)
{
    static const struct gptoss_backend_api api = {.name = "cuda",
                                                  .plan = cuda_plan,
                                                  .open = cuda_open,
                                                  .close = cuda_close,
                                                  .forward = cuda_forward,
                                                  .resize = cuda_resize,
                                                  .move = cuda_move,
                                                  .begin = cuda_begin,
                                                  .finish = cuda_finish};
    return &api;
}
