#include "prefix/index.h"

#include <stdlib.h>

#include "base/strmap.h"

/* Hashes lie this far apart at first, and a sixteenth of the way further on: some 95 of them
 * reach half a million bytes, which is more than the longest context. */
enum { FIRST_STEP = 256, STEP_SHARE = 16 };

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;

    return h ^ h >> 32;
}

void prefix_index_init(struct prefix_index *index)
{
    index->noted = calloc(PREFIX_ENTRIES, sizeof(*index->noted));
}

void prefix_index_free(struct prefix_index *index)
{
    free(index->noted);
    index->noted = NULL;
}

/* ---- hashes ---- */

struct walk {
    struct prefix_hashes *out;
    uint64_t digest, done, next; /* bytes */
};

/* Takes a piece of the prompt in, with a hash at each position that lies in the piece. */
static void prefix_index_add(struct walk *w, struct lr_str text, bool is_control)
{
    while (text.len > 0 && w->out->count < PREFIX_HASHES_MAX) {
        uint64_t room = w->next - w->done;
        struct lr_str piece = lr_str_sub(text, 0, room < text.len ? (size_t)room : text.len);
        w->digest = mix(w->digest + (is_control ? 1 : 0), lr_hash(piece));
        text = lr_str_sub(text, piece.len, text.len);
        w->done += piece.len;
        if (w->done != w->next)
            return;
        w->out->at[w->out->count].digest = w->digest;
        w->out->at[w->out->count++].bytes = w->done;
        uint64_t step = w->done / STEP_SHARE;
        w->next += step > FIRST_STEP ? step : FIRST_STEP;
    }
}

static uint64_t bytes_of(const struct chat_prompt *prompt)
{
    return prompt->ids != NULL ? prompt->id_count * sizeof(*prompt->ids) : prompt->bytes;
}

bool prefix_fits(const struct chat_prompt *prompt)
{
    return bytes_of(prompt) >= FIRST_STEP;
}

void prefix_hashes_make(struct prefix_hashes *out, struct lr_str model, struct lr_str scope,
                        const struct chat_prompt *prompt)
{
    struct walk w = {out, mix(lr_hash(model), lr_hash(scope)), 0, FIRST_STEP};

    out->count = 0;
    out->total_bytes = bytes_of(prompt);
    if (prompt->ids != NULL)
        prefix_index_add(
            &w, (struct lr_str){(const char *)prompt->ids, (size_t)out->total_bytes}, false);
    for (size_t i = 0; prompt->ids == NULL && i < prompt->segment_count; i++) {
        const struct lr_segment *s = &prompt->segments[i];
        prefix_index_add(&w, (struct lr_str){s->text, s->len}, s->control != 0);
    }
}

/* ---- the index ---- */

static uint64_t prefix_index_name_of(const void *place, uint64_t digest)
{
    return mix(digest, (uint64_t)(uintptr_t)place) | 1; /* 0 stands for nothing */
}

static uint64_t *entry_of(const struct prefix_index *index, uint64_t name)
{
    return &index->noted[(name >> 1) % PREFIX_ENTRIES];
}

void prefix_index_note(struct prefix_index *index, const void *place,
                       const struct prefix_hashes *hashes)
{
    for (uint32_t i = 0; index->noted != NULL && i < hashes->count; i++) {
        uint64_t name = prefix_index_name_of(place, hashes->at[i].digest);
        *entry_of(index, name) = name;
    }
}

double prefix_index_share(const struct prefix_index *index, const void *place,
                          const struct prefix_hashes *hashes)
{
    uint64_t bytes = 0;
    uint32_t missing = 0; /* in a row: a single one may have lost its entry to another hash */

    for (uint32_t i = 0; index->noted != NULL && i < hashes->count && missing < 2; i++) {
        uint64_t name = prefix_index_name_of(place, hashes->at[i].digest);
        bool is_noted = *entry_of(index, name) == name;
        missing = is_noted ? 0 : missing + 1;
        if (is_noted)
            bytes = hashes->at[i].bytes;
    }
    return bytes != 0 ? (double)bytes / (double)hashes->total_bytes : 0;
}
