/* base/json_set.c - see base/json.h: the strings of a list, found by hash. */
#include <stdlib.h>

#include "base/json.h"
#include "base/strmap.h"

/* Shorter lists are searched from the front, which is as fast and needs no memory. */
enum { INDEX_FROM = 12 };

bool lr_json_set_init(struct lr_json_set *set, const struct lr_json *list)
{
    *set = (struct lr_json_set){.list = lr_json_is(list, LR_JSON_ARRAY) ? list : NULL};
    if (set->list == NULL || list->count < INDEX_FROM)
        return true;
    size_t size = lr_json_slots(list->count);
    set->slots = malloc(size * sizeof(*set->slots));
    if (set->slots == NULL) {
        set->list = NULL;
        return false;
    }
    memset(set->slots, 0xFF, size * sizeof(*set->slots));
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->items[i].type != LR_JSON_STRING)
            continue;
        size_t slot = lr_hash(list->items[i].text) & (size - 1);
        while (set->slots[slot] != UINT32_MAX &&
               !lr_str_eq(list->items[set->slots[slot]].text, list->items[i].text))
            slot = (slot + 1) & (size - 1);
        set->slots[slot] = i;
    }
    return true;
}

bool lr_json_set_has(const struct lr_json_set *set, struct lr_str text)
{
    const struct lr_json *list = set->list;
    if (list == NULL)
        return false;
    if (set->slots == NULL) {
        for (uint32_t i = 0; i < list->count; i++)
            if (list->items[i].type == LR_JSON_STRING && lr_str_eq(list->items[i].text, text))
                return true;
        return false;
    }
    size_t mask = lr_json_slots(list->count) - 1, slot = lr_hash(text) & mask;
    for (; set->slots[slot] != UINT32_MAX; slot = (slot + 1) & mask)
        if (lr_str_eq(list->items[set->slots[slot]].text, text))
            return true;
    return false;
}

void lr_json_set_free(struct lr_json_set *set)
{
    free(set->slots);
    *set = (struct lr_json_set){0};
}
