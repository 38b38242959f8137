#include "base/slots.h"

#include <stdlib.h>

enum { FIRST_COUNT = 64 };

uint64_t lr_slots_take(struct lr_slots *slots, void *item)
{
    if (slots->free == 0) {
        uint32_t count = slots->count != 0 ? 2 * slots->count : FIRST_COUNT;
        struct lr_slot *grown = realloc(slots->all, count * sizeof(*grown));
        if (grown == NULL)
            return 0;
        for (uint32_t i = slots->count; i < count; i++)
            grown[i] = (struct lr_slot){.next_free = i + 1 < count ? i + 2 : 0};
        slots->free = slots->count + 1;
        slots->all = grown;
        slots->count = count;
    }
    uint32_t index = slots->free - 1;
    struct lr_slot *slot = &slots->all[index];
    slots->free = slot->next_free;
    slots->used++;
    slot->item = item;
    slot->turn++;
    return (uint64_t)slot->turn << 32 | index;
}

void lr_slots_give(struct lr_slots *slots, uint64_t number)
{
    uint32_t index = (uint32_t)number;
    if (lr_slots_find(slots, number) == NULL)
        return;
    slots->all[index].item = NULL;
    slots->all[index].next_free = slots->free;
    slots->free = index + 1;
    slots->used--;
}

void *lr_slots_find(const struct lr_slots *slots, uint64_t number)
{
    uint32_t index = (uint32_t)number;
    if (index >= slots->count || slots->all[index].turn != (uint32_t)(number >> 32))
        return NULL;
    return slots->all[index].item;
}

void lr_slots_free(struct lr_slots *slots)
{
    free(slots->all);
    *slots = (struct lr_slots){0};
}
