/* base/slots.h - a table with numbers for objects that come and go.
 *
 * A number consists of a slot's index and a use count.  So lookup takes one step, and the
 * number of an object that has ended never finds the next object in the same slot.  0 is no
 * number.
 */
#ifndef BASE_SLOTS_H
#define BASE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

struct lr_slot {
    void *item;         /* NULL: free */
    uint32_t turn;      /* use count */
    uint32_t next_free; /* index + 1; 0: none */
};

/* Zeroed: empty. */
struct lr_slots {
    struct lr_slot *all; /* owned */
    uint32_t count;      /* of slots, free ones too */
    uint32_t free;       /* the first free one's index + 1; 0: none */
    uint32_t used;
};

/* Stores the item (not NULL) and returns its number; 0: no memory. */
uint64_t lr_slots_take(struct lr_slots *slots, void *item);
void lr_slots_give(struct lr_slots *slots, uint64_t number);
/* NULL: the item was removed. */
void *lr_slots_find(const struct lr_slots *slots, uint64_t number);
/* Frees the table; the items belong to the caller. */
void lr_slots_free(struct lr_slots *slots);

#endif
