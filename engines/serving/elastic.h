/* serving/elastic.h - the number of KV pages follows the memory that there is.
 *
 * Each kind of pages has a limit.  The pool grows towards the limit when all free pages hold
 * cached prefixes: memory is taken before a prefix is lost.  A lower limit shrinks the pool at
 * once: the prefixes that were not used for longest leave the cache, pages with higher numbers
 * move into the holes below, and the memory behind the end is given back.  Pages of live
 * sequences always stay; once they are free, serving_elastic_shrink() gives them back, too.
 *
 * The pages are always numbered 0 .. total - 1, so the memory has one end and no holes.
 * Thread: the engine's caller.
 */
#ifndef ENGINES_SERVING_ELASTIC_H
#define ENGINES_SERVING_ELASTIC_H

#include "engines/serving/cache.h"

/* Pages that can be free: those that are, and those that the pool can grow by. */
uint32_t serving_elastic_available(const struct serving_pages *pages);

/* Grows until `count` pages are free, if the limit and the device allow it.  False: fewer are.
 */
bool serving_elastic_room(struct serving_cache *c, uint32_t kind, uint32_t count);

/* Pages that a limit of `limit` pages would take away now. */
uint32_t serving_elastic_excess(const struct serving_pages *pages, uint32_t limit);

/* Gives back everything over the limit that no sequence holds.  *moved is the new number of the
 * pages total .. old total - 1, SERVING_NO_PAGE for those that were free; the caller writes it
 * to the tables and frees it.  NULL: nothing has changed. */
uint32_t *serving_elastic_shrink(struct serving_cache *c, uint32_t kind);

/* How a limit of the whole KV memory is divided: pages of each kind, and snapshots. */
struct serving_kv_share {
    uint32_t pages[SERVING_POOLS];
};
struct serving_kv_share serving_elastic_divide(const struct serving_plan *plan, uint64_t bytes);

#endif
