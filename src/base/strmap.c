#include "base/strmap.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

struct lr_strmap_entry {
    uint64_t hash;
    char *key; /* owned, terminated */
    size_t len;
    void *value;
};

static pthread_once_t seed_once = PTHREAD_ONCE_INIT;
static uint64_t seed[2];

static void make_seed(void)
{
    lr_random_bytes(seed, sizeof(seed));
}

static uint64_t strmap_rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = strmap_rotate(v[1], 13) ^ v[0];
    v[3] = strmap_rotate(v[3], 16) ^ v[2];
    v[0] = strmap_rotate(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = strmap_rotate(v[1], 17) ^ v[2];
    v[3] = strmap_rotate(v[3], 21) ^ v[0];
    v[2] = strmap_rotate(v[2], 32);
}

uint64_t lr_hash(struct lr_str bytes)
{
    (void)pthread_once(&seed_once, make_seed);
    uint64_t v[4] = {seed[0] ^ 0x736f6d6570736575u, seed[1] ^ 0x646f72616e646f6du,
                     seed[0] ^ 0x6c7967656e657261u, seed[1] ^ 0x7465646279746573u};
    size_t at = 0;
    uint64_t word;
    for (; bytes.len - at >= sizeof(word); at += sizeof(word)) {
        memcpy(&word, bytes.ptr + at, sizeof(word));
        v[3] ^= word;
        sip_round(v);
        v[0] ^= word;
    }
    word = (uint64_t)bytes.len << 56;
    for (size_t i = 0; at + i < bytes.len; i++)
        word |= (uint64_t)(unsigned char)bytes.ptr[at + i] << (8 * i);
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void lr_strmap_init(struct lr_strmap *map)
{
    *map = (struct lr_strmap){0};
}

void lr_strmap_free(struct lr_strmap *map)
{
    for (size_t i = 0; i < map->count; i++)
        free(map->entries[i].key);
    free(map->entries);
    free(map->slots);
    lr_strmap_init(map);
}

/* The slot that holds the key, or the free slot where it belongs.  There is always a
 * free slot: at most half are used. */
static size_t find_slot(const struct lr_strmap *map, uint64_t hash, struct lr_str key)
{
    size_t mask = map->slot_count - 1;
    size_t slot = (size_t)hash & mask;
    for (; map->slots[slot] != 0; slot = (slot + 1) & mask) {
        const struct lr_strmap_entry *entry = &map->entries[map->slots[slot] - 1];
        if (entry->hash == hash && lr_str_eq(lr_str(entry->key, entry->len), key))
            break;
    }
    return slot;
}

static struct lr_strmap_entry *strmap_find(const struct lr_strmap *map, struct lr_str key)
{
    if (map->count == 0)
        return NULL;
    uint32_t index = map->slots[find_slot(map, lr_hash(key), key)];
    return index != 0 ? &map->entries[index - 1] : NULL;
}

void *lr_strmap_get(const struct lr_strmap *map, struct lr_str key)
{
    const struct lr_strmap_entry *entry = strmap_find(map, key);
    return entry != NULL ? entry->value : NULL;
}

bool lr_strmap_has(const struct lr_strmap *map, struct lr_str key)
{
    return strmap_find(map, key) != NULL;
}

static void fill_slots(struct lr_strmap *map)
{
    memset(map->slots, 0, map->slot_count * sizeof(*map->slots));
    size_t mask = map->slot_count - 1;
    for (size_t i = 0; i < map->count; i++) {
        size_t slot = (size_t)map->entries[i].hash & mask;
        while (map->slots[slot] != 0)
            slot = (slot + 1) & mask;
        map->slots[slot] = (uint32_t)i + 1;
    }
}

static bool strmap_grow(struct lr_strmap *map)
{
    size_t capacity = map->capacity == 0 ? 8 : map->capacity * 2;
    if (capacity > UINT32_MAX / 2)
        return false;
    struct lr_strmap_entry *entries = realloc(map->entries, capacity * sizeof(*entries));
    if (entries == NULL)
        return false;
    map->entries = entries;
    uint32_t *slots = malloc(capacity * 2 * sizeof(*slots));
    if (slots == NULL)
        return false; /* the longer entries array does no harm */
    free(map->slots);
    map->slots = slots;
    map->slot_count = capacity * 2;
    map->capacity = capacity;
    fill_slots(map);
    return true;
}

bool lr_strmap_put(struct lr_strmap *map, struct lr_str key, void *value, void **old)
{
    struct lr_strmap_entry *present = strmap_find(map, key);
    if (old != NULL)
        *old = present != NULL ? present->value : NULL;
    if (present != NULL) {
        present->value = value;
        return true;
    }
    if (map->count == map->capacity && !strmap_grow(map))
        return false;
    char *copy = key.len < SIZE_MAX ? malloc(key.len + 1) : NULL;
    if (copy == NULL)
        return false;
    if (key.len != 0)
        memcpy(copy, key.ptr, key.len);
    copy[key.len] = '\0';
    uint64_t hash = lr_hash(key);
    map->slots[find_slot(map, hash, key)] = (uint32_t)map->count + 1;
    map->entries[map->count++] = (struct lr_strmap_entry){hash, copy, key.len, value};
    return true;
}

/* Fills the free slot `hole` by moving entries back that could otherwise not be found. */
static void close_hole(struct lr_strmap *map, size_t hole)
{
    size_t mask = map->slot_count - 1;
    for (size_t slot = (hole + 1) & mask; map->slots[slot] != 0; slot = (slot + 1) & mask) {
        size_t home = (size_t)map->entries[map->slots[slot] - 1].hash & mask;
        /* The entry may move unless its home slot lies in (hole, slot]. */
        if (((slot - home) & mask) >= ((slot - hole) & mask)) {
            map->slots[hole] = map->slots[slot];
            hole = slot;
        }
    }
    map->slots[hole] = 0;
}

void *lr_strmap_remove(struct lr_strmap *map, struct lr_str key)
{
    struct lr_strmap_entry *entry = strmap_find(map, key);
    if (entry == NULL)
        return NULL;
    size_t index = (size_t)(entry - map->entries);
    void *value = entry->value;
    char *owned = entry->key; /* `key` may point into it, so it is freed last */
    close_hole(map, find_slot(map, entry->hash, key));
    size_t last = --map->count;
    if (index != last) {
        struct lr_strmap_entry *moved = &map->entries[last];
        /* find_slot compares keys, so the entry must still be at `last`. */
        size_t slot = find_slot(map, moved->hash, lr_str(moved->key, moved->len));
        map->slots[slot] = (uint32_t)index + 1;
        *entry = *moved;
    }
    free(owned);
    return value;
}

bool lr_strmap_at(const struct lr_strmap *map, size_t index, struct lr_str *key, void **value)
{
    if (index >= map->count)
        return false;
    *key = lr_str(map->entries[index].key, map->entries[index].len);
    *value = map->entries[index].value;
    return true;
}
