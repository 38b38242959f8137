/* native/cpu/memory.c - memory for a number of pages that changes.
 *
 * The addresses are reserved once.  Memory of the system is used when a page is first written,
 * so an unused context costs nothing; what is given back is zero when it is used again.
 */
#include <string.h>

#include "base/os/memory.h"
#include "engines/native/cpu/cpu.h"

static size_t whole_pages(uint64_t bytes)
{
    size_t page = lr_page_bytes();

    return ((size_t)bytes + page - 1) / page * page;
}

static bool set_usable(struct native_region *r, size_t bytes)
{
    if (bytes > r->usable && !lr_region_commit(r->base + r->usable, bytes - r->usable))
        return false;
    if (bytes < r->usable)
        lr_region_decommit(r->base + bytes, r->usable - bytes);
    r->usable = bytes;
    return true;
}

bool native_region_open(struct native_region *r, uint32_t pages, uint32_t most,
                        uint64_t page_bytes)
{
    most = most > pages ? most : pages;
    *r = (struct native_region){.page_bytes = page_bytes};
    r->reserved = whole_pages(most * page_bytes + 1);
    r->base = lr_region_reserve(r->reserved);
    return r->base != NULL && set_usable(r, whole_pages(pages * page_bytes));
}

void native_region_close(struct native_region *r)
{
    if (r->base != NULL)
        lr_region_free(r->base, r->reserved);
    *r = (struct native_region){0};
}

lr_code native_resize(struct serving_backend *b, uint32_t kind, uint32_t pages,
                      struct lr_error *err)
{
    struct native_region *r = &b->regions[kind];
    size_t bytes = whole_pages(pages * r->page_bytes);

    if (bytes > r->reserved || !set_usable(r, bytes))
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a KV cache of %zu bytes", bytes);
    return LR_OK;
}

lr_code native_move(struct serving_backend *b, uint32_t kind, const struct serving_move *moves,
                    uint32_t count, struct lr_error *err)
{
    const struct native_region *r = &b->regions[kind];

    (void)err;
    for (uint32_t i = 0; i < count; i++)
        memcpy(r->base + moves[i].to * r->page_bytes, r->base + moves[i].from * r->page_bytes,
               (size_t)r->page_bytes);
    return LR_OK;
}
