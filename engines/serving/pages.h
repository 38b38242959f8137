/* serving/pages.h - reference counts and the free list of KV pages.
 *
 * Numbers only: the memory belongs to the backend.  Every sequence with a page in its tables
 * holds that page; a page without holders is free.  A free page keeps its content until it is
 * taken, so the free list is ordered by age: cached pages go to its end, useless ones to its
 * beginning.  The pages have the numbers 0 .. total - 1; `total` changes (elastic.h).
 * Thread: the engine's caller.
 */
#ifndef ENGINES_SERVING_PAGES_H
#define ENGINES_SERVING_PAGES_H

#include <stdbool.h>
#include <stdint.h>

struct serving_page {
    uint32_t holders;
    uint32_t older, newer; /* in the list of free pages; SERVING_NO_PAGE: the end */
    uint32_t memory;       /* its entry in cache.c; SERVING_NO_PAGE: none */
};

struct serving_pages {
    uint32_t total;
    uint32_t least, limit,
        most; /* least <= limit <= most; total stays within limit if it can */
    uint32_t free_count;
    uint32_t cached_count;   /* of them, with content */
    uint32_t oldest, newest; /* free */
    struct serving_page *at; /* owned, `most` of them */
};

/* limit and least are `total`.  False: no memory. */
bool serving_pages_init(struct serving_pages *pages, uint32_t total, uint32_t most);
void serving_pages_deinit(struct serving_pages *pages);

/* Adds free pages, up to `most` in all. */
void serving_pages_add(struct serving_pages *pages, uint32_t count);
/* Links a page without holders at the end of the list of free pages. */
void serving_pages_link(struct serving_pages *pages, uint32_t page);

uint32_t serving_pages_take(struct serving_pages *pages); /* SERVING_NO_PAGE: none is free */
/* Adds a holder, also to a free page. */
void serving_pages_hold(struct serving_pages *pages, uint32_t page);
/* A free page lost its content: it is the next one that is taken. */
void serving_pages_empty(struct serving_pages *pages, uint32_t page);
/* Removes a holder; SERVING_NO_PAGE is fine. */
void serving_pages_give(struct serving_pages *pages, uint32_t page);

#endif
