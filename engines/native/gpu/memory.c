/* native/gpu/memory.c - KV pages and snapshots, whose number changes.
 *
 * Each cache has a buffer with its pages, the snapshots have one.  A new number of pages is a
 * new buffer, and the pages that stay are copied: only this buffer takes memory twice, for a
 * moment.  A cache for which there is no such memory keeps a buffer with more pages than are
 * used, which does no harm, until the number changes again.
 */
#include "engines/native/gpu/gpu.h"

/* The buffers of a kind: its caches, or the snapshots. */
static uint32_t buffers_of(const struct serving_backend *b, uint32_t kind)
{
    return kind == SERVING_SNAPSHOTS ? 1 : b->spec->cache_count;
}

static struct gpu_buffer **buffer_at(struct serving_backend *b, uint32_t kind, uint32_t i,
                                     uint64_t *page)
{
    if (kind == SERVING_SNAPSHOTS) {
        *page = b->plan.state_bytes;
        return *page != 0 ? &b->snapshots : NULL;
    }
    *page = native_gpu_page_bytes(&b->spec->caches[i], b->wide);
    return b->spec->caches[i].kind == kind ? &b->caches[i] : NULL;
}

static lr_code resize_buffer(struct serving_backend *b, struct gpu_buffer **buffer,
                             uint64_t page, uint32_t before, uint32_t pages,
                             struct lr_error *err)
{
    uint32_t kept = *buffer == NULL ? 0 : before < pages ? before : pages;
    struct native_gpu_list list = {0};
    struct gpu_buffer *fresh;
    lr_code code = b->host->allocate(b->device, (pages != 0 ? pages : 1) * page, GPU_ON_DEVICE,
                                     &fresh, err);

    if (code != LR_OK)
        return code;
    if (kept > 0)
        native_gpu_copy(&list, (struct gpu_span){*buffer, 0, kept * page},
                        (struct gpu_span){fresh, 0, kept * page});
    if (pages > kept)
        native_gpu_zero(&list, (struct gpu_span){fresh, kept * page, (pages - kept) * page});
    code = native_gpu_flush(b, &list, err);
    native_gpu_list_free(&list);
    if (code != LR_OK) {
        b->host->release(b->device, fresh);
        return code;
    }
    b->host->release(b->device, *buffer);
    *buffer = fresh;
    return LR_OK;
}

static bool is_exhausted(lr_code code)
{
    return code == LR_OUT_OF_RAM || code == LR_OUT_OF_VRAM;
}

lr_code native_gpu_resize(struct serving_backend *b, uint32_t kind, uint32_t pages,
                          struct lr_error *err)
{
    uint32_t before = b->pages[kind], i, count = buffers_of(b, kind);
    struct gpu_buffer **buffer;
    lr_code code = LR_OK;
    uint64_t page;

    for (i = 0; i < count && code == LR_OK; i++) {
        buffer = buffer_at(b, kind, i, &page);
        if (buffer == NULL || (pages == before && *buffer != NULL))
            continue;
        code = resize_buffer(b, buffer, page, before, pages, err);
        if (pages < before && is_exhausted(code))
            code = LR_OK;
    }
    if (code == LR_OK) {
        b->pages[kind] = pages;
        return LR_OK;
    }
    /* The buffers before the one that failed give their new pages back. */
    for (uint32_t j = 0; j + 1 < i && is_exhausted(code); j++) {
        struct lr_error again = {0};
        buffer = buffer_at(b, kind, j, &page);
        if (buffer != NULL)
            (void)!resize_buffer(b, buffer, page, pages, before, &again);
    }
    return code;
}

lr_code native_gpu_move(struct serving_backend *b, uint32_t kind,
                        const struct serving_move *moves, uint32_t count, struct lr_error *err)
{
    struct native_gpu_list list = {0};

    for (uint32_t i = 0; i < buffers_of(b, kind); i++) {
        uint64_t page;
        struct gpu_buffer **buffer = buffer_at(b, kind, i, &page);
        for (uint32_t m = 0; m < count && buffer != NULL; m++)
            native_gpu_copy(&list, (struct gpu_span){*buffer, moves[m].from * page, page},
                            (struct gpu_span){*buffer, moves[m].to * page, page});
    }
    lr_code code = native_gpu_flush(b, &list, err);
    native_gpu_list_free(&list);
    return code;
}
