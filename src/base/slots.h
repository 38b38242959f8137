/* base/slots.h - numbers for things that come and go: found in one step, and never mistaken for
 * the next thing in the same slot.
 *
 * A number is a slot's index and how often the slot was used, so a word about something that
 * has ended finds nothing.  0 is no number.
 */
#ifndef BASE_SLOTS_H
#define BASE_SLOTS_H

#include <stddef.h>
#include <stdint.h>

struct lr_slot {
    void *item;         /* NULL: free */
    uint32_t turn;      /* how often it was used */
    uint32_t next_free; /* index + 1; 0: none */
};

/* Zeroed: empty. */
struct lr_slots {
    struct lr_slot *all; /* owned */
    uint32_t count;      /* of slots, free ones too */
    uint32_t free;       /* the first free one's index + 1; 0: none */
    uint32_t used;
};

/* The number of the item, which is not NULL; 0: no memory. */
uint64_t lr_slots_take(struct lr_slots *slots, void *item);
void lr_slots_give(struct lr_slots *slots, uint64_t number);
/* NULL: the item has left. */
void *lr_slots_find(const struct lr_slots *slots, uint64_t number);
/* Leaves no slots; the items are the caller's. */
void lr_slots_free(struct lr_slots *slots);

#endif
