/* jinja/dict.c - dictionaries: insertion order, any hashable key. */
#include <math.h>

#include "jinja/run.h"

/* Shorter dictionaries are searched linearly, which is as fast and needs no memory. */
enum { INDEX_FROM = 12 };

/* Equal keys hash alike: 1, 1.0 and true are one key, as in Python. */
static bool hash_value(struct run *run, struct value v, uint32_t *out)
{
    switch ((enum kind)v.kind) {
    case K_TEXT:
        *out = jinja_text_hash(v.text);
        return true;
    case K_BOOL:
    case K_INT:
        *out = (uint32_t)((uint64_t)integer_of(v) * 0x9E3779B97F4A7C15u >> 32);
        return true;
    case K_FLOAT:
        if (v.real == floor(v.real) && fabs(v.real) < 9e18)
            return hash_value(run, value_int((int64_t)v.real), out);
        *out = (uint32_t)(fmod(fabs(v.real), 1.0) * 4e9);
        return true;
    case K_TUPLE: {
        if (!jinja_enter(run))
            return false;
        uint32_t h = 17, part = 0;
        bool ok = true;
        for (size_t i = 0; ok && i < v.list->count; i++) {
            ok = hash_value(run, v.list->items[i], &part);
            h = h * 31 + part;
        }
        jinja_leave(run);
        *out = h;
        return ok;
    }
    case K_LIST:
    case K_DICT:
        (void)jinja_error(run, "unhashable type: '%s'", jinja_type_name(v));
        return false;
    default:
        *out = v.kind;
        return true;
    }
}

struct dict *jinja_dict_new(struct run *run, size_t expected)
{
    struct dict *dict = jinja_alloc(run, sizeof(*dict));
    if (dict == NULL)
        return NULL;
    *dict = (struct dict){.capacity = expected};
    if (expected > 0) {
        dict->entries = jinja_array(run, expected, sizeof(*dict->entries));
        if (dict->entries == NULL)
            return NULL;
    }
    return dict;
}

static bool find_entry(struct run *run, const struct dict *dict, struct value key,
                       uint32_t hash, size_t *out)
{
    bool same = false;
    *out = SIZE_MAX;
    if (dict->index == NULL) {
        for (size_t i = 0; i < dict->count; i++) {
            if (!jinja_equal(run, dict->entries[i].key, key, &same))
                return false;
            if (same) {
                *out = i;
                return true;
            }
        }
        return true;
    }
    size_t mask = dict->index_size - 1;
    for (size_t at = hash & mask; dict->index[at] != 0; at = (at + 1) & mask) {
        size_t i = dict->index[at] - 1;
        if (!jinja_charge(run, 1) || !jinja_equal(run, dict->entries[i].key, key, &same))
            return false;
        if (same) {
            *out = i;
            return true;
        }
    }
    return true;
}

static bool build_index(struct run *run, struct dict *dict, size_t size)
{
    uint32_t *index = jinja_array(run, size, sizeof(*index));
    if (index == NULL)
        return false;
    memset(index, 0, size * sizeof(*index));
    for (size_t i = 0; i < dict->count; i++) {
        uint32_t hash;
        if (!hash_value(run, dict->entries[i].key, &hash))
            return false;
        size_t at = hash & (size - 1);
        while (index[at] != 0)
            at = (at + 1) & (size - 1);
        index[at] = (uint32_t)(i + 1);
    }
    dict->index = index;
    dict->index_size = size;
    return true;
}

static bool dict_grow(struct run *run, struct dict *dict)
{
    if (dict->count == dict->capacity) {
        size_t capacity = dict->capacity < 4 ? 4 : dict->capacity * 2;
        struct dict_entry *entries = jinja_array(run, capacity, sizeof(*entries));
        if (entries == NULL)
            return false;
        if (dict->count > 0)
            memcpy(entries, dict->entries, dict->count * sizeof(*entries));
        dict->entries = entries;
        dict->capacity = capacity;
    }
    if (dict->count + 1 < INDEX_FROM || (dict->count + 1) * 2 <= dict->index_size)
        return true;
    return build_index(run, dict, dict->index_size == 0 ? 64 : dict->index_size * 2);
}

bool jinja_dict_set(struct run *run, struct dict *dict, struct value key, struct value value)
{
    uint32_t hash;
    size_t i;
    if (is_fail(key) || is_fail(value) || !hash_value(run, key, &hash) ||
        !find_entry(run, dict, key, hash, &i))
        return false;
    if (i != SIZE_MAX) {
        dict->entries[i].value = value;
        return true;
    }
    if (!dict_grow(run, dict))
        return false;
    if (dict->index != NULL) {
        size_t at = hash & (dict->index_size - 1);
        while (dict->index[at] != 0)
            at = (at + 1) & (dict->index_size - 1);
        dict->index[at] = (uint32_t)(dict->count + 1);
    }
    dict->entries[dict->count++] = (struct dict_entry){key, value};
    return true;
}

bool jinja_dict_get(struct run *run, const struct dict *dict, struct value key,
                    const struct value **out)
{
    uint32_t hash;
    size_t i;
    *out = NULL;
    if (key.kind == K_TEXT) {
        *out = jinja_dict_find_text(dict, key);
        return true;
    }
    if (!hash_value(run, key, &hash) || !find_entry(run, dict, key, hash, &i))
        return false;
    if (i != SIZE_MAX)
        *out = &dict->entries[i].value;
    return true;
}

/* The tag rules out most different texts without comparing bytes. */
static inline bool same_key(const struct value *k, struct value key)
{
    return k->kind == K_TEXT && k->tag == key.tag && jinja_text_eq(k->text, key.text);
}

const struct value *jinja_dict_find_text(const struct dict *dict, struct value key)
{
    if (dict->index == NULL) {
        for (size_t i = 0; i < dict->count; i++)
            if (same_key(&dict->entries[i].key, key))
                return &dict->entries[i].value;
        return NULL;
    }
    size_t mask = dict->index_size - 1;
    for (size_t at = jinja_text_hash(key.text) & mask; dict->index[at] != 0;
         at = (at + 1) & mask) {
        const struct dict_entry *e = &dict->entries[dict->index[at] - 1];
        if (same_key(&e->key, key))
            return &e->value;
    }
    return NULL;
}

const struct value *jinja_dict_find(const struct dict *dict, struct lr_str key)
{
    struct text text = {.ptr = key.ptr != NULL ? key.ptr : "", .len = key.len};
    return jinja_dict_find_text(dict, value_text(&text));
}
