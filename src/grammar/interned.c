/* grammar/interned.c - see grammar/matcher.h: frames and sets are interned: equal ones are
 * stored once. */
#include <stdlib.h>

#include "grammar/matcher.h"

enum { TEXTS_MAX = 64 << 20, FIRST = 64 };

static uint32_t frame_hash(const struct frame *f)
{
    return matcher_mix(matcher_mix(f->next, f->parent), f->set);
}

static uint32_t member_hash(const struct member *m)
{
    return matcher_mix(m->hash, m->parent);
}

static void put_slot(uint32_t *slots, uint32_t mask, uint32_t hash, uint32_t index)
{
    uint32_t at = hash & mask;
    while (slots[at] != 0)
        at = (at + 1) & mask;
    slots[at] = index + 1;
}

static bool grow_frames(struct kept *k)
{
    uint32_t capacity = k->frame_capacity != 0 ? 2 * k->frame_capacity : FIRST;
    struct frame *items = realloc(k->frames, capacity * sizeof(*items));
    if (items == NULL)
        return false;
    k->frames = items;
    uint32_t *slots = calloc((size_t)2 * capacity, sizeof(*slots));
    if (slots == NULL)
        return false;
    free(k->frame_slots);
    k->frame_slots = slots;
    k->frame_capacity = capacity;
    for (uint32_t i = 1; i < k->frame_count; i++)
        put_slot(slots, 2 * capacity - 1, frame_hash(&items[i]), i);
    return true;
}

static bool grow_members(struct kept *k)
{
    uint32_t capacity = k->member_capacity != 0 ? 2 * k->member_capacity : FIRST;
    struct member *items = realloc(k->members, capacity * sizeof(*items));
    if (items == NULL)
        return false;
    k->members = items;
    uint32_t *slots = calloc((size_t)2 * capacity, sizeof(*slots));
    if (slots == NULL)
        return false;
    free(k->member_slots);
    k->member_slots = slots;
    k->member_capacity = capacity;
    for (uint32_t i = 1; i < k->member_count; i++)
        put_slot(slots, 2 * capacity - 1, member_hash(&items[i]), i);
    return true;
}

bool grammar_kept_init(struct kept *k)
{
    *k = (struct kept){0};
    if (!grow_frames(k) || !grow_members(k)) {
        grammar_kept_free(k);
        return false;
    }
    k->frames[0] = (struct frame){0};
    k->members[0] = (struct member){0};
    k->frame_count = k->member_count = 1;
    return true;
}

void grammar_kept_free(struct kept *k)
{
    free(k->frames);
    free(k->members);
    free(k->texts);
    free(k->bits);
    free(k->frame_slots);
    free(k->member_slots);
    *k = (struct kept){0};
}

uint32_t grammar_kept_frame(struct kept *k, uint32_t next, uint32_t parent, uint32_t set)
{
    if (k->frame_count == k->frame_capacity && (k->frame_count >= KEPT_MAX || !grow_frames(k)))
        return 0;
    struct frame wanted = {next, parent, set, k->frames[parent].depth + 1};
    uint32_t mask = 2 * k->frame_capacity - 1, at = frame_hash(&wanted) & mask;
    for (; k->frame_slots[at] != 0; at = (at + 1) & mask) {
        const struct frame *f = &k->frames[k->frame_slots[at] - 1];
        if (f->next == next && f->parent == parent && f->set == set)
            return k->frame_slots[at] - 1;
    }
    k->frames[k->frame_count] = wanted;
    k->frame_slots[at] = ++k->frame_count;
    return k->frame_count - 1;
}

static bool reserve_text(struct kept *k, size_t len)
{
    if (k->text_len + len <= k->text_capacity)
        return true;
    size_t capacity = 2 * (k->text_len + len) + 256;
    char *grown = capacity <= TEXTS_MAX ? realloc(k->texts, capacity) : NULL;
    if (grown == NULL)
        return false;
    k->texts = grown;
    k->text_capacity = (uint32_t)capacity;
    return true;
}

/* The declared properties of a set: those of its parent, and one more. */
static bool add_bits(struct kept *k, struct member *m)
{
    const struct member *parent = &k->members[m->parent];
    m->words = parent->words;
    m->bits = parent->bits;
    if (m->index == GRAMMAR_NO_INDEX)
        return true;
    if (m->index / 64 + 1 > m->words)
        m->words = m->index / 64 + 1;
    if (k->bit_count + m->words > k->bit_capacity) {
        uint32_t capacity = 2 * (k->bit_count + m->words) + 64;
        uint64_t *grown = realloc(k->bits, capacity * sizeof(*grown));
        if (grown == NULL)
            return false;
        k->bits = grown;
        k->bit_capacity = capacity;
    }
    m->bits = k->bit_count;
    k->bit_count += m->words;
    for (uint32_t i = 0; i < m->words; i++)
        k->bits[m->bits + i] = i < parent->words ? k->bits[parent->bits + i] : 0;
    k->bits[m->bits + m->index / 64] |= UINT64_C(1) << (m->index % 64);
    return true;
}

bool grammar_kept_has_index(const struct kept *k, uint32_t set, uint32_t index)
{
    const struct member *m = &k->members[set];
    return index / 64 < m->words && (k->bits[m->bits + index / 64] >> (index % 64) & 1) != 0;
}

static struct lr_str kept_text_of(const struct kept *k, const struct member *m)
{
    return m->len != 0 ? lr_str(k->texts + m->begin, m->len) : lr_str("", 0);
}

static uint32_t kept_add(struct kept *k, struct member wanted, struct lr_str text)
{
    bool counted = wanted.len == SET_COUNTED;
    if (k->member_count == k->member_capacity &&
        (k->member_count >= KEPT_MAX || !grow_members(k)))
        return 0;
    uint32_t mask = 2 * k->member_capacity - 1, at = member_hash(&wanted) & mask;
    for (; k->member_slots[at] != 0; at = (at + 1) & mask) {
        const struct member *m = &k->members[k->member_slots[at] - 1];
        if (m->parent == wanted.parent && m->hash == wanted.hash && m->len == wanted.len &&
            m->index == wanted.index && (counted || lr_str_eq(kept_text_of(k, m), text)))
            return k->member_slots[at] - 1;
    }
    if (!counted) {
        if (!reserve_text(k, text.len))
            return 0;
        wanted.begin = k->text_len;
        if (text.len != 0)
            memcpy(k->texts + k->text_len, text.ptr, text.len);
        k->text_len += (uint32_t)text.len;
    }
    if (!add_bits(k, &wanted))
        return 0;
    k->members[k->member_count] = wanted;
    k->member_slots[at] = ++k->member_count;
    return k->member_count - 1;
}

uint32_t grammar_kept_add(struct kept *k, uint32_t set, struct lr_str text, uint32_t index)
{
    return kept_add(k,
                    (struct member){.parent = set,
                                    .count = k->members[set].count + 1,
                                    .hash = grammar_name_hash(text),
                                    .index = index,
                                    .len = (uint32_t)text.len},
                    text);
}

uint32_t grammar_kept_count(struct kept *k, uint32_t set)
{
    return kept_add(
        k,
        (struct member){.parent = set, .count = k->members[set].count + 1, .len = SET_COUNTED},
        (struct lr_str){0});
}

bool grammar_kept_has(const struct kept *k, uint32_t set, struct lr_str text, uint32_t hash)
{
    for (; set != 0; set = k->members[set].parent) {
        const struct member *m = &k->members[set];
        if (m->len == text.len && m->hash == hash && lr_str_eq(kept_text_of(k, m), text))
            return true;
    }
    return false;
}

uint32_t grammar_kept_begins(const struct kept *k, uint32_t set, struct lr_str prefix,
                             const struct dfa *d)
{
    uint32_t count = 0;
    for (; set != 0; set = k->members[set].parent) {
        const struct member *m = &k->members[set];
        if (m->len != SET_COUNTED && m->len >= prefix.len &&
            (prefix.len == 0 || memcmp(k->texts + m->begin, prefix.ptr, prefix.len) == 0) &&
            grammar_dfa_accepts(d, DFA_JSON, kept_text_of(k, m)))
            count++;
    }
    return count;
}

/* ---- forgetting ---- */

/* What is needed is marked from the newest on (what a frame or set refers to is older), then
 * moved to a new store from the oldest on. */
static void mark(const struct kept *k, const struct thread *threads, uint32_t count,
                 uint32_t *frames, uint32_t *sets)
{
    for (uint32_t i = 0; i < count; i++) {
        frames[threads[i].frame] = 1;
        sets[threads[i].set] = 1;
    }
    for (uint32_t i = k->frame_count; i-- > 1;)
        if (frames[i] != 0) {
            frames[k->frames[i].parent] = 1;
            sets[k->frames[i].set] = 1;
        }
    for (uint32_t i = k->member_count; i-- > 1;)
        if (sets[i] != 0)
            sets[k->members[i].parent] = 1;
}

static bool kept_move(const struct kept *from, struct kept *to, uint32_t *frames,
                      uint32_t *sets)
{
    sets[0] = frames[0] = 0;
    for (uint32_t i = 1; i < from->member_count; i++) {
        struct member m = from->members[i];
        if (sets[i] == 0)
            continue;
        m.parent = sets[m.parent];
        sets[i] =
            kept_add(to, m, m.len == SET_COUNTED ? (struct lr_str){0} : kept_text_of(from, &m));
        if (sets[i] == 0)
            return false;
    }
    for (uint32_t i = 1; i < from->frame_count; i++) {
        const struct frame *f = &from->frames[i];
        if (frames[i] == 0)
            continue;
        frames[i] = grammar_kept_frame(to, f->next, frames[f->parent], sets[f->set]);
        if (frames[i] == 0)
            return false;
    }
    return true;
}

bool grammar_kept_forget(struct kept *k, struct thread *threads, uint32_t count)
{
    struct kept fresh;
    uint32_t *frames = calloc(k->frame_count, sizeof(*frames));
    uint32_t *sets = calloc(k->member_count, sizeof(*sets));
    bool ok = frames != NULL && sets != NULL && grammar_kept_init(&fresh);
    if (ok) {
        mark(k, threads, count, frames, sets);
        ok = kept_move(k, &fresh, frames, sets);
        for (uint32_t i = 0; ok && i < count; i++) {
            threads[i].frame = frames[threads[i].frame];
            threads[i].set = sets[threads[i].set];
        }
        grammar_kept_free(ok ? k : &fresh);
        if (ok)
            *k = fresh;
    }
    free(frames);
    free(sets);
    return ok;
}
