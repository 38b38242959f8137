/* serving/cache.h - the KV pages and the prefix cache.
 *
 * A completely computed page is stored under its tokens and the page before it, so that a later
 * prompt with the same prefix finds it.  A page stays findable while its request lives and
 * after that, until the page is needed for something else (docs/promises.md: pages-back; cached
 * pages without a holder count as free).  Blocks of page_tokens ids form chains: a chain starts
 * at a scope (of one API key, never shared with another) and names each block after its parent.
 * A match is exact: ids are compared, not their hashes.
 *
 * The pages of all kinds of a block are found together, and so is the snapshot of the state
 * behind its last token.  A sequence can continue after block n if every kind has the pages
 * that the next query sees: of all n blocks, or of those within its window; and, where the
 * model has state, if block n has a snapshot.
 *
 * Blocks are found one after the other, so each needs a page of a kind that covers all
 * positions.  A model without such a kind gets one here, whose pages have no memory.
 *
 * Thread: the engine's caller.
 */
#ifndef ENGINES_SERVING_CACHE_H
#define ENGINES_SERVING_CACHE_H

#include "engines/serving/backend.h"
#include "engines/serving/pages.h"
#include "llm-router/status.h"

/* A cached block of ids: stored in at least one page. */
struct serving_memory {
    uint64_t name;   /* unique for ever */
    uint64_t parent; /* name of the previous block, or the scope */
    uint32_t page[SERVING_POOLS];
    uint32_t next; /* in its bucket, or unused */
};

/* The memory behind the pages. */
struct serving_page_device {
    void *ctx;
    /* As in backend.h; NULL: the number of pages is fixed.  False: the memory is not there. */
    bool (*resize)(void *ctx, uint32_t kind, uint32_t pages);
    void (*move)(void *ctx, uint32_t kind, const struct serving_move *moves, uint32_t count);
};

struct serving_cache {
    uint32_t page_tokens;
    uint32_t kinds;                     /* that have tables */
    uint32_t window[SERVING_KINDS_MAX]; /* positions that a query sees; 0: all */
    bool has_state;
    struct serving_pages pages[SERVING_POOLS]; /* of the kinds, and the snapshots */
    struct serving_page_device device;
    struct serving_memory *memories; /* owned, one for each page that there can be */
    uint32_t *ids;                   /* owned, page_tokens for each memory */
    uint32_t *buckets;               /* owned: first memory of each */
    uint32_t bucket_count;           /* a power of two */
    uint32_t unused;                 /* list of memories that were used before */
    uint32_t fresh;                  /* memories from here on were never used */
    uint64_t names;                  /* names given so far */
};

/* How much of a prompt is cached. */
struct serving_match {
    uint32_t pages; /* blocks that a sequence can continue after */
    uint64_t chain; /* name of the last of them */
    uint32_t
        snapshot;   /* of its end; SERVING_NONE: the model has no state, or no block matches */
    uint32_t known; /* blocks with pages of all positions: another prompt began like this */
};

LR_MUST_USE lr_code serving_cache_init(struct serving_cache *c, const struct serving_plan *plan,
                                       struct lr_error *err);
void serving_cache_deinit(struct serving_cache *c);

/* First table entry of a kind that a query at `position` needs. */
uint32_t serving_cache_first(const struct serving_cache *c, uint32_t kind, uint32_t position);

/* SERVING_NO_PAGE: none is free.  The page is empty: its old content leaves the cache.  The
 * pool grows before a cached page is taken. */
uint32_t serving_cache_take(struct serving_cache *c, uint32_t kind);
void serving_cache_give(struct serving_cache *c, uint32_t kind, uint32_t page);
/* A page without holders loses its content. */
void serving_cache_forget(struct serving_cache *c, uint32_t kind, uint32_t page);

/* A page that nobody holds loses its content, and is the next one to be taken.  SERVING_NO_PAGE
 * and held pages are fine: nothing happens. */
void serving_cache_drop(struct serving_cache *c, uint32_t kind, uint32_t page);

/* The longest cached prefix of ids[] that a new sequence can continue from; at least one id
 * short of all, because the logits of the last id are needed. */
struct serving_match serving_cache_match(const struct serving_cache *c, uint64_t scope,
                                         const uint32_t *ids, uint32_t count);
/* Holds the pages of a match and writes them to the tables of the kinds (match.pages entries;
 * entries that are not needed are SERVING_NO_PAGE).  Holds its snapshot, too. */
void serving_cache_hold(struct serving_cache *c, uint64_t scope, const uint32_t *ids,
                        struct serving_match match, uint32_t *const *tables);

/* Caches a computed block after `chain` (a scope or a block's name) with its pages and its
 * snapshot, by pool; any of them may be SERVING_NO_PAGE.  Returns the block's name. */
uint64_t serving_cache_remember(struct serving_cache *c, uint64_t chain, const uint32_t *ids,
                                const uint32_t pages[SERVING_POOLS]);

#endif
