/* gptoss/scheduler/elastic.h - the number of KV pages follows the memory that there is.
 *
 * Each kind of pages has a limit.  The pool grows towards the limit when all free pages hold
 * cached prefixes: memory is taken before a prefix is lost.  A lower limit shrinks the pool at
 * once: the prefixes that were not used for longest leave the cache, pages with higher numbers
 * move into the holes below, and the memory behind the end is given back.  Pages of live
 * sequences always stay; once they are free, gptoss_elastic_shrink() gives them back, too.
 *
 * The pages are always numbered 0 .. total - 1, so the memory has one end and no holes.
 * Thread: the engine's caller.
 */
#ifndef GPTOSS_SCHEDULER_ELASTIC_H
#define GPTOSS_SCHEDULER_ELASTIC_H

#include "engines/gptoss/scheduler/cache.h"

/* Pages that can be free: those that are, and those that the pool can grow by. */
uint32_t gptoss_elastic_available(const struct gptoss_pages *pages);

/* Grows until `count` pages are free, if the limit and the device allow it.  False: fewer are.
 */
bool gptoss_elastic_room(struct gptoss_cache *c, enum gptoss_kind kind, uint32_t count);

/* Pages that a limit of `limit` pages would take away now. */
uint32_t gptoss_elastic_excess(const struct gptoss_pages *pages, uint32_t limit);

/* Gives back everything over the limit that no sequence holds.  *moved is the new number of the
 * pages total .. old total - 1, GPTOSS_NO_PAGE for those that were free; the caller writes it
 * to the tables and frees it.  NULL: nothing has changed. */
uint32_t *gptoss_elastic_shrink(struct gptoss_cache *c, enum gptoss_kind kind);

/* How a limit of the whole KV memory is divided: pages of each kind. */
struct gptoss_kv_share {
    uint32_t pages[GPTOSS_KINDS];
};
struct gptoss_kv_share gptoss_elastic_divide(const struct gptoss_plan *plan, uint64_t bytes);

#endif
