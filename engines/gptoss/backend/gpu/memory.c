/* gptoss/backend/gpu/memory.c - memory of the KV pages, whose number changes.
 *
 * Every layer has a buffer of its own, so a binding holds many tokens.  Another number of pages
 * means another buffer and a copy, layer after layer: the memory of one layer is needed twice
 * for a moment.  A layer for which there is no such memory keeps a buffer with more pages than
 * are used, which does no harm, until the number changes again.
 */
#include <string.h>

#include "engines/gptoss/backend/gpu/gpu.h"

static bool is_kind(const struct gpu_layer *l, enum gptoss_kind kind)
{
    return l->sliding == (kind == GPTOSS_WINDOW);
}

/* A kind without layers still gets page numbers. */
static uint64_t buffer_bytes(const struct gptoss_backend *b, uint32_t pages)
{
    return (pages != 0 ? pages : 1) * gpu_layer_page_bytes(b->config);
}

static lr_code resize_layer(struct gptoss_backend *b, struct gpu_layer *l, uint32_t before,
                            uint32_t pages, struct lr_error *err)
{
    uint64_t page = gpu_layer_page_bytes(b->config);
    uint32_t kept = before < pages ? before : pages;
    struct gpu_list list = {0};
    struct gpu_buffer *fresh;
    lr_code code =
        b->host->allocate(b->device, buffer_bytes(b, pages), GPU_ON_DEVICE, &fresh, err);

    if (code != LR_OK)
        return code;
    if (l->kv != NULL && kept > 0)
        gpu_list_copy(&list, (struct gpu_span){l->kv, 0, kept * page},
                      (struct gpu_span){fresh, 0, kept * page});
    if (pages > kept)
        gpu_list_zero(&list, (struct gpu_span){fresh, kept * page, (pages - kept) * page});
    if (list.count > 0)
        code = gpu_run(b, &list, err);
    gpu_list_free(&list);
    if (code != LR_OK) {
        b->host->release(b->device, fresh);
        return code;
    }
    b->host->release(b->device, l->kv);
    l->kv = fresh;
    return LR_OK;
}

static bool is_exhausted(lr_code code)
{
    return code == LR_OUT_OF_RAM || code == LR_OUT_OF_VRAM;
}

lr_code gpu_resize(struct gptoss_backend *b, enum gptoss_kind kind, uint32_t pages,
                   struct lr_error *err)
{
    uint32_t before = b->pages[kind], i;
    lr_code code = LR_OK;

    if (pages == before)
        return LR_OK;
    gpu_forget_kept(b); /* they name the buffers */
    for (i = 0; i < b->config->layers && code == LR_OK; i++) {
        if (!is_kind(&b->layers[i], kind))
            continue;
        code = resize_layer(b, &b->layers[i], before, pages, err);
        if (pages < before && is_exhausted(code))
            code = LR_OK;
    }
    if (code == LR_OK) {
        b->pages[kind] = pages;
        return LR_OK;
    }
    /* The layers before the one that failed give their new pages back. */
    for (uint32_t j = 0; j + 1 < i && is_exhausted(code); j++) {
        struct lr_error again = {0};
        if (is_kind(&b->layers[j], kind))
            (void)!resize_layer(b, &b->layers[j], pages, before, &again);
    }
    return code;
}

lr_code gpu_pages_open(struct gptoss_backend *b, struct lr_error *err)
{
    lr_code code = gpu_resize(b, GPTOSS_FULL, b->plan.full_pages, err);

    return code == LR_OK ? gpu_resize(b, GPTOSS_WINDOW, b->plan.window_pages, err) : code;
}

lr_code gpu_move(struct gptoss_backend *b, enum gptoss_kind kind,
                 const struct gptoss_move *moves, uint32_t count, struct lr_error *err)
{
    uint64_t page = gpu_layer_page_bytes(b->config);
    struct gpu_list list = {0};
    lr_code code = LR_OK;

    for (uint32_t i = 0; i < b->config->layers; i++) {
        struct gpu_buffer *kv = b->layers[i].kv;
        for (uint32_t m = 0; m < count && is_kind(&b->layers[i], kind); m++)
            gpu_list_copy(&list, (struct gpu_span){kv, moves[m].from * page, page},
                          (struct gpu_span){kv, moves[m].to * page, page});
    }
    if (list.count > 0)
        code = gpu_run(b, &list, err);
    gpu_list_free(&list);
    return code;
}
