/* base/strmap.h - hash map from byte strings to pointers.
 *
 * Keys are copied; values belong to the caller.  The hash is seeded per process, so that a
 * client cannot choose keys that collide.  Iteration order is insertion order as long as
 * nothing is removed.  Thread: one at a time.
 */
#ifndef BASE_STRMAP_H
#define BASE_STRMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct lr_strmap_entry;

struct lr_strmap {
    struct lr_strmap_entry *entries; /* owned, dense: [0, count) */
    uint32_t *slots;                 /* owned: index + 1 into entries, 0 is free */
    size_t count;
    size_t capacity;   /* of entries */
    size_t slot_count; /* a power of two */
};

void lr_strmap_init(struct lr_strmap *map); /* allocates nothing */
void lr_strmap_free(struct lr_strmap *map); /* the keys; values are the caller's */

void *lr_strmap_get(const struct lr_strmap *map, struct lr_str key); /* NULL: absent */
bool lr_strmap_has(const struct lr_strmap *map, struct lr_str key);

/* Adds or replaces.  *old (old may be NULL) is the previous value, NULL for a new key.  False:
 * no memory, and the map is unchanged. */
bool lr_strmap_put(struct lr_strmap *map, struct lr_str key, void *value, void **old);

/* Returns the removed value or NULL. Moves the last entry into the gap. */
void *lr_strmap_remove(struct lr_strmap *map, struct lr_str key);

/* for (size_t i = 0; lr_strmap_at(map, i, &key, &value); i++).  key is borrowed until
 * its removal and is terminated.  To remove while iterating, remove key i and look at
 * i again. */
bool lr_strmap_at(const struct lr_strmap *map, size_t index, struct lr_str *key, void **value);

/* SipHash-1-3 with the process's seed, for other tables whose keys come from outside. */
uint64_t lr_hash(struct lr_str bytes);

#endif
