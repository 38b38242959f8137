/* router/observe/key_usage.h - requests and tokens by key and model, for GET /metrics.
 *
 * The sums begin at the router's start; the database has all usage (GET /v0/usage).  The table
 * is bounded: what does not fit counts under the key and model "other".
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_OBSERVE_KEY_USAGE_H
#define ROUTER_OBSERVE_KEY_USAGE_H

#include "base/buf.h"
#include "base/strmap.h"
#include "router/store/keys.h"
#include "router/store/store.h"

enum { ROUTER_KEY_USAGES_MAX = 1000 }; /* pairs of key and model: series of each metric */

struct router_key_usage {
    const struct router_key *key; /* NULL: requests without a key */
    char model[160];
    uint64_t requests, prompt_tokens, completion_tokens, cached_tokens;
};

struct router_key_usages {
    struct lr_strmap by_pair; /* "key model" -> struct router_key_usage, owned */
    struct router_key_usage other;
};

void router_key_usages_init(struct router_key_usages *usages);
void router_key_usages_free(struct router_key_usages *usages);
void router_key_usages_add(struct router_key_usages *usages, const struct router_key *key,
                           const struct router_usage *row);

/* The rows of all four metrics, from a copy: writing takes longer than the lock is held.  NULL:
 * no memory. */
struct router_key_usage_row {
    struct router_key_usage sums;
    char key[24], name[64]; /* the key's id and name as they are now */
};
struct router_key_usage_row *router_key_usages_copy(const struct router_key_usages *usages,
                                                    size_t *count); /* owned by the caller */
/* Thread: any, without the lock. */
void router_key_usages_write(struct lr_buf *out, const struct router_key_usage_row *rows,
                             size_t count);

#endif
