/* gptoss/scheduler/cache.h - the KV pages and the prefix cache.
 *
 * A completely computed page is stored under its tokens and the page before it, so that a later
 * prompt with the same prefix finds it.  A page stays findable while its request lives and
 * after that, until the page is needed for something else (docs/promises.md: pages-back; cached
 * pages without a holder count as free).  Blocks of page_tokens ids form chains: a chain starts
 * at a scope (of one API key, never shared with another) and names each block after its parent.
 * A match is exact: ids are compared, not their hashes.
 *
 * Full and window pages of one block are found together.  A sequence can continue after block n
 * if the full pages of all n blocks and the window pages that its next query sees are cached.
 *
 * Thread: the engine's caller.
 */
#ifndef GPTOSS_SCHEDULER_CACHE_H
#define GPTOSS_SCHEDULER_CACHE_H

#include "engines/gptoss/backend/backend.h"
#include "engines/gptoss/scheduler/pages.h"
#include "llm-router/status.h"

/* A cached block of ids: stored in at least one page. */
struct gptoss_memory {
    uint64_t name;   /* unique for ever */
    uint64_t parent; /* name of the previous block, or the scope */
    uint32_t page[GPTOSS_KINDS];
    uint32_t next; /* in its bucket, or unused */
};

/* The memory behind the pages. */
struct gptoss_page_device {
    void *ctx;
    /* As in backend.h; NULL: the number of pages is fixed.  False: the memory is not there. */
    bool (*resize)(void *ctx, enum gptoss_kind kind, uint32_t pages);
    void (*move)(void *ctx, enum gptoss_kind kind, const struct gptoss_move *moves,
                 uint32_t count);
};

struct gptoss_cache {
    uint32_t page_tokens;
    uint32_t window; /* keys that a sliding layer sees */
    struct gptoss_pages pages[GPTOSS_KINDS];
    struct gptoss_page_device device;
    struct gptoss_memory *memories; /* owned, one for each page that there can be */
    uint32_t *ids;                  /* owned, page_tokens for each memory */
    uint32_t *buckets;              /* owned: first memory of each */
    uint32_t bucket_count;          /* a power of two */
    uint32_t unused;                /* list of memories that were used before */
    uint32_t fresh;                 /* memories from here on were never used */
    uint64_t names;                 /* names given so far */
};

/* How much of a prompt is cached. */
struct gptoss_match {
    uint32_t pages;
    uint64_t chain; /* name of the last block */
};

LR_MUST_USE lr_code gptoss_cache_init(struct gptoss_cache *c, uint32_t page_tokens,
                                      uint32_t window, const uint32_t pages[GPTOSS_KINDS],
                                      const uint32_t most[GPTOSS_KINDS], struct lr_error *err);
void gptoss_cache_deinit(struct gptoss_cache *c);

/* First table entry that a query at `position` needs in a sliding layer. */
uint32_t gptoss_cache_window_first(const struct gptoss_cache *c, uint32_t position);

/* GPTOSS_NO_PAGE: none is free.  The page is empty: its old content leaves the cache.  The pool
 * grows before a cached page is taken. */
uint32_t gptoss_cache_take(struct gptoss_cache *c, enum gptoss_kind kind);
void gptoss_cache_give(struct gptoss_cache *c, enum gptoss_kind kind, uint32_t page);
/* A page without holders loses its content. */
void gptoss_cache_forget(struct gptoss_cache *c, enum gptoss_kind kind, uint32_t page);

/* The longest cached prefix of ids[] that a new sequence can continue from; at least one id
 * short of all, because the logits of the last id are needed. */
struct gptoss_match gptoss_cache_match(const struct gptoss_cache *c, uint64_t scope,
                                       const uint32_t *ids, uint32_t count);
/* Holds the pages of a match and writes them to the tables (match.pages entries; window entries
 * that are not needed are GPTOSS_NO_PAGE). */
void gptoss_cache_hold(struct gptoss_cache *c, uint64_t scope, const uint32_t *ids,
                       struct gptoss_match match, uint32_t *full_pages, uint32_t *window_pages);

/* Caches a computed block after `chain` (a scope or a block's name) with its pages, either of
 * which may be GPTOSS_NO_PAGE.  Returns the block's name. */
uint64_t gptoss_cache_remember(struct gptoss_cache *c, uint64_t chain, const uint32_t *ids,
                               uint32_t full_page, uint32_t window_page);

#endif
