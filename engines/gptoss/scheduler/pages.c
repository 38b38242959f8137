/* gptoss/scheduler/pages.c - see pages.h. */
#include "engines/gptoss/scheduler/pages.h"

#include <stdlib.h>

#include "engines/gptoss/backend/backend.h"

bool gptoss_pages_init(struct gptoss_pages *pages, uint32_t total)
{
    *pages = (struct gptoss_pages){.total = total, .free_count = total};
    pages->free = calloc((size_t)total + 1, sizeof(*pages->free));
    if (pages->free == NULL)
        return false;
    for (uint32_t i = 0; i < total; i++)
        pages->free[i] = total - 1 - i;
    return true;
}

void gptoss_pages_deinit(struct gptoss_pages *pages)
{
    free(pages->free);
    *pages = (struct gptoss_pages){0};
}

uint32_t gptoss_pages_take(struct gptoss_pages *pages)
{
    return pages->free_count > 0 ? pages->free[--pages->free_count] : GPTOSS_NO_PAGE;
}

void gptoss_pages_give(struct gptoss_pages *pages, uint32_t page)
{
    if (page != GPTOSS_NO_PAGE && pages->free_count < pages->total)
        pages->free[pages->free_count++] = page;
}
