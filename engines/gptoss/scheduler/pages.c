/* gptoss/scheduler/pages.c - see pages.h. */
#include "engines/gptoss/scheduler/pages.h"

#include <stdlib.h>

#include "engines/gptoss/backend/backend.h"

/* ---- the list of free pages ---- */

static void link_between(struct gptoss_pages *p, uint32_t page, uint32_t older, uint32_t newer)
{
    p->at[page].older = older;
    p->at[page].newer = newer;
    *(older != GPTOSS_NO_PAGE ? &p->at[older].newer : &p->oldest) = page;
    *(newer != GPTOSS_NO_PAGE ? &p->at[newer].older : &p->newest) = page;
    p->free_count++;
}

static void unlink_page(struct gptoss_pages *p, uint32_t page)
{
    uint32_t older = p->at[page].older, newer = p->at[page].newer;

    *(older != GPTOSS_NO_PAGE ? &p->at[older].newer : &p->oldest) = newer;
    *(newer != GPTOSS_NO_PAGE ? &p->at[newer].older : &p->newest) = older;
    p->free_count--;
}

/* ---- pages ---- */

bool gptoss_pages_init(struct gptoss_pages *pages, uint32_t total, uint32_t most)
{
    most = most > total ? most : total;
    *pages = (struct gptoss_pages){.least = total,
                                   .limit = total,
                                   .most = most,
                                   .oldest = GPTOSS_NO_PAGE,
                                   .newest = GPTOSS_NO_PAGE};
    pages->at = calloc((size_t)most + 1, sizeof(*pages->at));
    if (pages->at == NULL)
        return false;
    gptoss_pages_add(pages, total);
    return true;
}

void gptoss_pages_link(struct gptoss_pages *pages, uint32_t page)
{
    pages->cached_count += pages->at[page].memory != GPTOSS_NO_PAGE;
    link_between(pages, page, pages->newest, GPTOSS_NO_PAGE);
}

/* New pages come first: they are taken before a cached page loses its content. */
void gptoss_pages_add(struct gptoss_pages *pages, uint32_t count)
{
    for (uint32_t i = pages->total + count; i-- > pages->total;) {
        pages->at[i] = (struct gptoss_page){.memory = GPTOSS_NO_PAGE};
        link_between(pages, i, GPTOSS_NO_PAGE, pages->oldest);
    }
    pages->total += count;
}

void gptoss_pages_deinit(struct gptoss_pages *pages)
{
    free(pages->at);
    *pages = (struct gptoss_pages){0};
}

uint32_t gptoss_pages_take(struct gptoss_pages *pages)
{
    uint32_t page = pages->oldest;

    if (page != GPTOSS_NO_PAGE)
        gptoss_pages_hold(pages, page);
    return page;
}

void gptoss_pages_hold(struct gptoss_pages *pages, uint32_t page)
{
    if (pages->at[page].holders++ != 0)
        return;
    pages->cached_count -= pages->at[page].memory != GPTOSS_NO_PAGE;
    unlink_page(pages, page);
}

void gptoss_pages_give(struct gptoss_pages *pages, uint32_t page)
{
    if (page == GPTOSS_NO_PAGE || --pages->at[page].holders != 0)
        return;
    /* A page that is not in the cache is reused first: cached pages live longer, and this one
     * is still warm. */
    if (pages->at[page].memory == GPTOSS_NO_PAGE)
        link_between(pages, page, GPTOSS_NO_PAGE, pages->oldest);
    else
        gptoss_pages_link(pages, page);
}
