#include "node/models/nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/library.h"

/* NVML's numbers, by hand. */
enum {
    NVML_NO_PERMISSION = 4,
    NVML_INSUFFICIENT_POWER = 8,
    NVML_GPU_IS_LOST = 15,
};

static bool nvml_find(void *handle, const char *name, void *out, size_t size)
{
    void *symbol = lr_library_symbol(handle, name);
    if (symbol != NULL)
        memcpy(out, &symbol, size);
    return symbol != NULL;
}

static bool find_needed(struct node_nvml *n)
{
    void *handle = n->handle;
    return nvml_find(handle, "nvmlInit_v2", &n->init, sizeof(n->init)) &&
           nvml_find(handle, "nvmlShutdown", &n->shutdown, sizeof(n->shutdown)) &&
           nvml_find(handle, "nvmlDeviceGetCount_v2", &n->count, sizeof(n->count)) &&
           nvml_find(handle, "nvmlDeviceGetHandleByIndex_v2", &n->by_index,
                     sizeof(n->by_index)) &&
           nvml_find(handle, "nvmlDeviceGetUUID", &n->uuid, sizeof(n->uuid)) &&
           nvml_find(handle, "nvmlDeviceGetName", &n->name, sizeof(n->name)) &&
           nvml_find(handle, "nvmlDeviceGetMemoryInfo", &n->memory, sizeof(n->memory));
}

static void find_optional(struct node_nvml *n)
{
    void *handle = n->handle;
    (void)nvml_find(handle, "nvmlErrorString", &n->error_text, sizeof(n->error_text));
    (void)nvml_find(handle, "nvmlDeviceGetComputeRunningProcesses_v3", &n->processes,
                    sizeof(n->processes));
    (void)nvml_find(handle, "nvmlDeviceGetMigMode", &n->mig_mode, sizeof(n->mig_mode));
    (void)nvml_find(handle, "nvmlDeviceGetMaxMigDeviceCount", &n->mig_count,
                    sizeof(n->mig_count));
    (void)nvml_find(handle, "nvmlDeviceGetMigDeviceHandleByIndex", &n->mig_by_index,
                    sizeof(n->mig_by_index));
}

struct node_nvml *node_nvml_open(const char *path)
{
    void *handle =
        path != NULL ? lr_library_open(path) : lr_library_open_known(LR_LIBRARY_NVML);
    if (handle == NULL)
        return NULL;
    struct node_nvml *n = calloc(1, sizeof(*n));
    if (n != NULL)
        n->handle = handle;
    if (n == NULL || !find_needed(n) || n->init() != 0) {
        free(n);
        lr_library_close(handle);
        return NULL;
    }
    find_optional(n);
    return n;
}

void node_nvml_close(struct node_nvml *nvml)
{
    if (nvml == NULL)
        return;
    (void)nvml->shutdown();
    lr_library_close(nvml->handle);
    free(nvml);
}

/* ---- the list ---- */

static const char *advice(int code)
{
    switch (code) {
    case NVML_NO_PERMISSION:
        return "give the user or the container of this process access to the GPU";
    case NVML_INSUFFICIENT_POWER:
        return "attach the GPU's power cables";
    case NVML_GPU_IS_LOST:
        return "the GPU has fallen off the bus, which only a restart of the machine repairs";
    default:
        return "look at nvidia-smi and the kernel's log, and restart the machine";
    }
}

static void tell_closed(const struct node_nvml *n, unsigned number, int code,
                        node_nvml_closed *on_closed, void *ctx)
{
    char reason[256];
    (void)snprintf(reason, sizeof(reason), "NVML cannot open GPU %u: %.80s (error %d): %s",
                   number, n->error_text != NULL ? n->error_text(code) : "it says no more",
                   code, advice(code));
    on_closed(ctx, number, reason);
}

/* A GPU that is split into parts gives its parts, any other GPU itself. */
static int list_gpu(const struct node_nvml *n, unsigned number, struct node_gpu *all,
                    size_t *count)
{
    struct node_gpu gpu = {.number = number};
    unsigned mode = 0, pending, parts = 0;
    int code = n->by_index(number, &gpu.whole);
    if (code == 0)
        code = n->uuid(gpu.whole, gpu.uuid, sizeof(gpu.uuid));
    if (code != 0)
        return code;
    bool is_split = n->mig_mode != NULL && n->mig_count != NULL && n->mig_by_index != NULL &&
                    n->mig_mode(gpu.whole, &mode, &pending) == 0 && mode == 1 &&
                    n->mig_count(gpu.whole, &parts) == 0;
    gpu.device = gpu.whole;
    if (!is_split && *count < NODE_GPUS_MAX)
        all[(*count)++] = gpu;
    /* NVML counts the parts that a GPU may have; most are not there. */
    for (unsigned i = 0; is_split && i < parts && *count < NODE_GPUS_MAX; i++) {
        struct node_gpu part = gpu;
        memcpy(part.whole_uuid, gpu.uuid, sizeof(part.whole_uuid));
        if (n->mig_by_index(gpu.whole, i, &part.device) == 0 &&
            n->uuid(part.device, part.uuid, sizeof(part.uuid)) == 0)
            all[(*count)++] = part;
    }
    return 0;
}

size_t node_nvml_list(const struct node_nvml *nvml, struct node_gpu all[NODE_GPUS_MAX],
                      node_nvml_closed *on_closed, void *ctx)
{
    unsigned numbers = 0;
    size_t count = 0;
    if (nvml->count(&numbers) != 0)
        return 0;
    for (unsigned i = 0; i < numbers; i++) {
        int code = list_gpu(nvml, i, all, &count);
        if (code != 0)
            tell_closed(nvml, i, code, on_closed, ctx);
    }
    return count;
}
