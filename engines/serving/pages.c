/* serving/pages.c - see pages.h. */
#include "engines/serving/pages.h"

#include <stdlib.h>

#include "engines/serving/backend.h"

/* ---- the list of free pages ---- */

static void link_between(struct serving_pages *p, uint32_t page, uint32_t older, uint32_t newer)
{
    p->at[page].older = older;
    p->at[page].newer = newer;
    *(older != SERVING_NO_PAGE ? &p->at[older].newer : &p->oldest) = page;
    *(newer != SERVING_NO_PAGE ? &p->at[newer].older : &p->newest) = page;
    p->free_count++;
}

static void unlink_page(struct serving_pages *p, uint32_t page)
{
    uint32_t older = p->at[page].older, newer = p->at[page].newer;

    *(older != SERVING_NO_PAGE ? &p->at[older].newer : &p->oldest) = newer;
    *(newer != SERVING_NO_PAGE ? &p->at[newer].older : &p->newest) = older;
    p->free_count--;
}

/* ---- pages ---- */

bool serving_pages_init(struct serving_pages *pages, uint32_t total, uint32_t most)
{
    most = most > total ? most : total;
    *pages = (struct serving_pages){.least = total,
                                    .limit = total,
                                    .most = most,
                                    .oldest = SERVING_NO_PAGE,
                                    .newest = SERVING_NO_PAGE};
    pages->at = calloc((size_t)most + 1, sizeof(*pages->at));
    if (pages->at == NULL)
        return false;
    serving_pages_add(pages, total);
    return true;
}

void serving_pages_link(struct serving_pages *pages, uint32_t page)
{
    pages->cached_count += pages->at[page].memory != SERVING_NO_PAGE;
    link_between(pages, page, pages->newest, SERVING_NO_PAGE);
}

/* New pages come first: they are taken before a cached page loses its content. */
void serving_pages_add(struct serving_pages *pages, uint32_t count)
{
    for (uint32_t i = pages->total + count; i-- > pages->total;) {
        pages->at[i] = (struct serving_page){.memory = SERVING_NO_PAGE};
        link_between(pages, i, SERVING_NO_PAGE, pages->oldest);
    }
    pages->total += count;
}

void serving_pages_deinit(struct serving_pages *pages)
{
    free(pages->at);
    *pages = (struct serving_pages){0};
}

uint32_t serving_pages_take(struct serving_pages *pages)
{
    uint32_t page = pages->oldest;

    if (page != SERVING_NO_PAGE)
        serving_pages_hold(pages, page);
    return page;
}

void serving_pages_hold(struct serving_pages *pages, uint32_t page)
{
    if (pages->at[page].holders++ != 0)
        return;
    pages->cached_count -= pages->at[page].memory != SERVING_NO_PAGE;
    unlink_page(pages, page);
}

void serving_pages_empty(struct serving_pages *pages, uint32_t page)
{
    if (pages->at[page].memory == SERVING_NO_PAGE)
        return;
    pages->at[page].memory = SERVING_NO_PAGE;
    if (pages->at[page].holders != 0)
        return;
    pages->cached_count--;
    unlink_page(pages, page);
    link_between(pages, page, SERVING_NO_PAGE, pages->oldest);
}

void serving_pages_give(struct serving_pages *pages, uint32_t page)
{
    if (page == SERVING_NO_PAGE || --pages->at[page].holders != 0)
        return;
    /* A page that is not in the cache is reused first: cached pages live longer, and this one
     * is still warm. */
    if (pages->at[page].memory == SERVING_NO_PAGE)
        link_between(pages, page, SERVING_NO_PAGE, pages->oldest);
    else
        serving_pages_link(pages, page);
}
