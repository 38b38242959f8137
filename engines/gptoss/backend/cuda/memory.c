/* gptoss/backend/cuda/memory.c - memory for a number of KV pages that changes, and the
 * embedding table in host memory.
 *
 * The addresses for the most pages are reserved once, so kernels and captured graphs see the
 * same address for ever.  Memory is created and mapped behind them in pieces of PIECE_BYTES,
 * from the beginning on, and unmapped from the end.  On a device without virtual memory the
 * pages of the plan are one allocation, which stays.
 */
#include <stdlib.h>

#include "engines/gptoss/backend/cuda/cuda.h"

enum { PIECE_BYTES = 32 << 20 };

static CUmemAllocationProp properties(const struct gptoss_backend *b)
{
    return (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = b->device.handle},
    };
}

static uint64_t cuda_memory_round_up(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

/* The next piece.  OUT_OF_VRAM: nothing has changed. */
static lr_code map_piece(struct gptoss_backend *b, struct cuda_pages *p, struct lr_error *err)
{
    const struct cuda_driver *cu = b->cu;
    const CUmemAllocationProp prop = properties(b);
    const CUmemAccessDesc access = {.location = prop.location,
                                    .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = p->base + p->mapped * p->piece;
    CUmemGenericAllocationHandle handle;

    CUDA_TRY(cu, cuMemCreate(&handle, p->piece, &prop, 0), err);
    CUresult result = cu->cuMemMap(at, p->piece, 0, handle, 0);
    if (result == CUDA_SUCCESS) {
        result = cu->cuMemSetAccess(at, p->piece, &access, 1);
        if (result != CUDA_SUCCESS)
            (void)cu->cuMemUnmap(at, p->piece);
    }
    if (result != CUDA_SUCCESS) {
        (void)cu->cuMemRelease(handle);
        return cuda_fail(cu, result, "cuMemMap", err);
    }
    p->handles[p->mapped++] = handle;
    return LR_OK;
}

static lr_code unmap_to(struct gptoss_backend *b, struct cuda_pages *p, uint32_t pieces,
                        struct lr_error *err)
{
    const struct cuda_driver *cu = b->cu;

    while (p->mapped > pieces) {
        p->mapped--;
        CUDA_TRY(cu, cuMemUnmap(p->base + p->mapped * p->piece, p->piece), err);
        CUDA_TRY(cu, cuMemRelease(p->handles[p->mapped]), err);
    }
    return LR_OK;
}

lr_code cuda_resize(struct gptoss_backend *b, enum gptoss_kind kind, uint32_t pages,
                    struct lr_error *err)
{
    struct cuda_pages *p = &b->pages[kind];
    uint64_t bytes = pages * p->page_bytes;
    uint32_t pieces = (uint32_t)(cuda_memory_round_up(bytes, PIECE_BYTES) / PIECE_BYTES);
    uint32_t before = p->mapped;
    lr_code code = LR_OK;

    CUDA_TRY(b->cu, cuCtxSetCurrent(b->context), err);
    if (p->handles == NULL || pieces > p->most)
        return bytes <= p->reserved
                   ? LR_OK
                   : lr_fail(err, LR_OUT_OF_VRAM, "the KV memory of this device is fixed");
    CUDA_TRY(b->cu, cuStreamSynchronize(b->stream), err);
    while (code == LR_OK && p->mapped < pieces)
        code = map_piece(b, p, err);
    if (code != LR_OK) {
        struct lr_error ignored;
        (void)unmap_to(b, p, before, &ignored);
        return code;
    }
    code = unmap_to(b, p, pieces, err);
    /* Masked keys are multiplied by zero, so a page must never contain a NaN. */
    if (code == LR_OK && pieces > before)
        CUDA_TRY(b->cu,
                 cuMemsetD8Async(p->base + before * p->piece, 0, (pieces - before) * p->piece,
                                 b->stream),
                 err);
    return code;
}

lr_code cuda_move(struct gptoss_backend *b, enum gptoss_kind kind,
                  const struct gptoss_move *moves, uint32_t count, struct lr_error *err)
{
    const struct cuda_pages *p = &b->pages[kind];

    CUDA_TRY(b->cu, cuCtxSetCurrent(b->context), err);
    for (uint32_t i = 0; i < count && p->page_bytes != 0; i++)
        CUDA_TRY(b->cu,
                 cuMemcpyDtoDAsync(p->base + moves[i].to * p->page_bytes,
                                   p->base + moves[i].from * p->page_bytes, p->page_bytes,
                                   b->stream),
                 err);
    CUDA_TRY(b->cu, cuStreamSynchronize(b->stream), err);
    return LR_OK;
}

/* ---- open and close ---- */

static lr_code open_fixed(struct gptoss_backend *b, struct cuda_pages *p, uint64_t bytes,
                          struct lr_error *err)
{
    p->reserved = bytes != 0 ? bytes : 256;
    CUDA_TRY(b->cu, cuMemAlloc(&p->base, p->reserved), err);
    CUDA_TRY(b->cu, cuMemsetD8Async(p->base, 0, p->reserved, b->stream), err);
    return LR_OK;
}

lr_code cuda_pages_open(struct gptoss_backend *b, enum gptoss_kind kind, struct lr_error *err)
{
    const struct gptoss_plan *plan = &b->plan;
    struct cuda_pages *p = &b->pages[kind];
    uint32_t pages = kind == GPTOSS_FULL ? plan->full_pages : plan->window_pages;
    uint64_t most = plan->most_pages[kind] > pages ? plan->most_pages[kind] : pages;
    int has_virtual = 0;

    *p = (struct cuda_pages){.piece = PIECE_BYTES};
    p->page_bytes = kind == GPTOSS_FULL ? plan->full_page_bytes : plan->window_page_bytes;
    CUDA_TRY(b->cu,
             cuDeviceGetAttribute(&has_virtual,
                                  CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
                                  b->device.handle),
             err);
    uint64_t reserved = cuda_memory_round_up(most * p->page_bytes, p->piece);
    if (!has_virtual || reserved == 0 ||
        b->cu->cuMemAddressReserve(&p->base, reserved, 0, 0, 0) != CUDA_SUCCESS)
        return open_fixed(b, p, pages * p->page_bytes, err);
    p->reserved = reserved;
    p->most = (uint32_t)(reserved / p->piece);
    p->handles = calloc(p->most, sizeof(*p->handles));
    if (p->handles == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the list of the KV memory");
    return cuda_resize(b, kind, pages, err);
}

void cuda_pages_close(struct gptoss_backend *b, enum gptoss_kind kind)
{
    struct cuda_pages *p = &b->pages[kind];
    struct lr_error ignored;

    if (p->base == 0)
        return;
    if (p->most == 0) {
        (void)b->cu->cuMemFree(p->base);
    } else {
        (void)unmap_to(b, p, 0, &ignored);
        (void)b->cu->cuMemAddressFree(p->base, p->reserved);
    }
    free(p->handles);
    *p = (struct cuda_pages){0};
}

lr_code cuda_embed_open(struct gptoss_backend *b, struct lr_error *err)
{
    uint64_t bytes = (uint64_t)b->config->vocab * b->config->hidden * 2;

    if (!b->plan.embed_on_host)
        return LR_OK;
    /* Pinned memory has one address for host and device. */
    CUDA_TRY(b->cu, cuMemAllocHost((void **)&b->host_embed, bytes), err);
    b->embed = b->host_embed;
    return LR_OK;
}
