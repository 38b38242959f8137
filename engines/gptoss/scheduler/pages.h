/* gptoss/scheduler/pages.h - reference counts and the free list of KV pages.
 *
 * Numbers only: the memory belongs to the backend.  Every sequence with a page in its tables
 * holds that page; a page without holders is free.  A free page keeps its content until it is
 * taken, so the free list is ordered by age: cached pages go to its end, useless ones to its
 * beginning.  The pages have the numbers 0 .. total - 1; `total` changes (elastic.h).
 * Thread: the engine's caller.
 */
#ifndef GPTOSS_SCHEDULER_PAGES_H
#define GPTOSS_SCHEDULER_PAGES_H

#include <stdbool.h>
#include <stdint.h>

struct gptoss_page {
    uint32_t holders;
    uint32_t older, newer; /* in the list of free pages; GPTOSS_NO_PAGE: the end */
    uint32_t memory;       /* its entry in cache.c; GPTOSS_NO_PAGE: none */
};

struct gptoss_pages {
    uint32_t total;
    uint32_t least, limit,
        most; /* least <= limit <= most; total stays within limit if it can */
    uint32_t free_count;
    uint32_t cached_count;   /* of them, with content */
    uint32_t oldest, newest; /* free */
    struct gptoss_page *at;  /* owned, `most` of them */
};

/* limit and least are `total`.  False: no memory. */
bool gptoss_pages_init(struct gptoss_pages *pages, uint32_t total, uint32_t most);
void gptoss_pages_deinit(struct gptoss_pages *pages);

/* Adds free pages, up to `most` in all. */
void gptoss_pages_add(struct gptoss_pages *pages, uint32_t count);
/* Links a page without holders at the end of the list of free pages. */
void gptoss_pages_link(struct gptoss_pages *pages, uint32_t page);

uint32_t gptoss_pages_take(struct gptoss_pages *pages); /* GPTOSS_NO_PAGE: none is free */
/* Adds a holder, also to a free page. */
void gptoss_pages_hold(struct gptoss_pages *pages, uint32_t page);
/* Removes a holder; GPTOSS_NO_PAGE is fine. */
void gptoss_pages_give(struct gptoss_pages *pages, uint32_t page);

#endif
