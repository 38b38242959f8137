/* gptoss/scheduler/pages.h - which KV pages are free.
 *
 * Numbers only: the memory belongs to the backend.  Every page is either free or in
 * exactly one sequence's table.  Thread: the engine's caller.
 */
#ifndef GPTOSS_SCHEDULER_PAGES_H
#define GPTOSS_SCHEDULER_PAGES_H

#include <stdbool.h>
#include <stdint.h>

struct gptoss_pages {
    uint32_t total;
    uint32_t free_count;
    uint32_t *free; /* owned; a stack, so that warm pages are used again first */
};

bool gptoss_pages_init(struct gptoss_pages *pages, uint32_t total); /* false: no memory */
void gptoss_pages_deinit(struct gptoss_pages *pages);

uint32_t gptoss_pages_take(struct gptoss_pages *pages); /* GPTOSS_NO_PAGE: none is free */
void gptoss_pages_give(struct gptoss_pages *pages, uint32_t page);

#endif
