/* devices/cpu/region.c - see region.h. */
#include "engines/devices/cpu/region.h"

#include <string.h>

#include "base/fail.h"
#include "base/os/memory.h"

static size_t whole_pages(uint64_t bytes)
{
    size_t page = lr_page_bytes();

    return ((size_t)bytes + page - 1) / page * page;
}

static bool set_usable(struct engine_region *r, size_t bytes)
{
    if (bytes > r->usable && !lr_region_commit(r->base + r->usable, bytes - r->usable))
        return false;
    if (bytes < r->usable)
        lr_region_decommit(r->base + bytes, r->usable - bytes);
    r->usable = bytes;
    return true;
}

bool engine_region_open(struct engine_region *r, uint32_t pages, uint32_t most,
                        uint64_t page_bytes)
{
    most = most > pages ? most : pages;
    *r = (struct engine_region){.page_bytes = page_bytes};
    r->reserved = whole_pages(most * page_bytes + 1);
    r->base = lr_region_reserve(r->reserved);
    return r->base != NULL && set_usable(r, whole_pages(pages * page_bytes));
}

void engine_region_close(struct engine_region *r)
{
    lr_region_free(r->base, r->reserved);
    *r = (struct engine_region){0};
}

lr_code engine_region_resize(struct engine_region *r, uint32_t pages, struct lr_error *err)
{
    size_t bytes = whole_pages(pages * r->page_bytes);

    if (bytes > r->reserved || !set_usable(r, bytes))
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a KV cache of %zu bytes", bytes);
    return LR_OK;
}

void engine_region_move(struct engine_region *r, uint32_t from, uint32_t to)
{
    memcpy(r->base + to * r->page_bytes, r->base + from * r->page_bytes, (size_t)r->page_bytes);
}
