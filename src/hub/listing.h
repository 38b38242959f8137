/* hub/listing.h - the files of a repository at one commit, with sizes and hashes.
 *
 * A listing is a snapshot: the commit is pinned, and later requests use that commit.  The small
 * files that a registration reads (config.json, the index, ...) are fetched with it, each below
 * a limit.  The listing owns everything it points to. hub_list blocks: call it on a thread that
 * may wait.  All other functions are pure.
 */
#ifndef HUB_LISTING_H
#define HUB_LISTING_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/json.h"
#include "hub/client.h"

enum {
    HUB_FILES_MAX = 100000,
    HUB_PAGES_MAX = 100,
    HUB_LISTING_BYTES_MAX = 64 << 20, /* JSON of one page */
    HUB_SMALL_BYTES_MAX = 16 << 20,   /* one small file; the 120b index has 90 KB */
    HUB_COMMIT_MAX = 65,
};

struct hub_file {
    struct lr_str name; /* relative, '/' between folders; always lr_path_safe */
    uint64_t size;
    bool has_size;
    char sha256[65]; /* lower case; "" where the hub gives none */
};

struct hub_text {
    struct lr_str name;
    struct lr_str text; /* terminated */
};

struct hub_listing {
    struct lr_arena arena;
    char repo[HUB_REPO_MAX]; /* as the hub spells it */
    char commit[HUB_COMMIT_MAX];
    struct hub_file *files; /* sorted by name, no name twice */
    size_t file_count;
    struct hub_text *texts;
    size_t text_count;
};

/* revision "" is the repository's default branch.
 *   NOT_FOUND          no such repository or revision
 *   PERMISSION_DENIED  gated or private: the message says "set HF_TOKEN"; or a refused host
 *   RATE_LIMITED       *retry_after_s (may be NULL) is the hub's Retry-After, 0 without one
 *   UPSTREAM           unreachable, 5xx, or a malformed answer */
LR_MUST_USE lr_code hub_list(const struct hub_client *client, const char *repo,
                             const char *revision, struct hub_listing **out,
                             uint32_t *retry_after_s, struct lr_error *err);

/* Fetches the files of names[] that the listing has and that are not fetched yet; each is
 * checked against its listed size and hash.  A file without a listed hash gets the hash of its
 * content, so that nodes check for the same content.  Errors as hub_list, and TOO_LARGE. */
LR_MUST_USE lr_code hub_list_fetch(const struct hub_client *client, struct hub_listing *listing,
                                   const char *const *names, size_t count,
                                   uint32_t *retry_after_s, struct lr_error *err);

/* The first bytes of a file, as many as `head` may hold: a transfer is ended then.  Errors as
 * hub_list. */
LR_MUST_USE lr_code hub_list_head(const struct hub_client *client,
                                  const struct hub_listing *listing, struct lr_str name,
                                  struct lr_buf *head, struct lr_error *err);

/* ---- without network ---- */
struct hub_listing *hub_listing_create(const char *repo); /* NULL without memory */
void hub_listing_destroy(struct hub_listing *listing);    /* NULL is fine */

/* Adds one page of the hub's JSON. UPSTREAM: malformed.  Unsafe file names are skipped. */
LR_MUST_USE lr_code hub_listing_add_json(struct hub_listing *listing, struct lr_str json,
                                         struct lr_error *err);
LR_MUST_USE lr_code hub_listing_add_text(struct hub_listing *listing, struct lr_str name,
                                         struct lr_str text, struct lr_error *err);

const struct hub_file *hub_listing_find(const struct hub_listing *listing, struct lr_str name);
/* NULL when it was not fetched. */
const struct hub_text *hub_listing_text(const struct hub_listing *listing, const char *name);

#endif
