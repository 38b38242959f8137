/* gptoss/scheduler/pages.h - which KV pages are free, and who holds the others.
 *
 * Numbers only: the memory belongs to the backend.  A page has as many holders as sequences
 * have it in their tables; without one it is free.  A free page keeps what it held until it
 * is taken, so the list of free pages is kept by age: what may still be wanted goes to its
 * end, what is worthless to its beginning.  Thread: the engine's caller.
 */
#ifndef GPTOSS_SCHEDULER_PAGES_H
#define GPTOSS_SCHEDULER_PAGES_H

#include <stdbool.h>
#include <stdint.h>

struct gptoss_page {
    uint32_t holders;
    uint32_t older, newer; /* in the list of free pages; GPTOSS_NO_PAGE: the end */
    uint32_t memory;       /* what cache.c remembers of it; GPTOSS_NO_PAGE: nothing */
};

struct gptoss_pages {
    uint32_t total;
    uint32_t free_count;
    uint32_t oldest, newest; /* free */
    struct gptoss_page *at;  /* owned, `total` of them */
};

bool gptoss_pages_init(struct gptoss_pages *pages, uint32_t total); /* false: no memory */
void gptoss_pages_deinit(struct gptoss_pages *pages);

uint32_t gptoss_pages_take(struct gptoss_pages *pages); /* GPTOSS_NO_PAGE: none is free */
/* One more holder, of a free page too. */
void gptoss_pages_hold(struct gptoss_pages *pages, uint32_t page);
/* One holder less; GPTOSS_NO_PAGE is fine. */
void gptoss_pages_give(struct gptoss_pages *pages, uint32_t page);

#endif
