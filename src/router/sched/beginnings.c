#include "router/sched/beginnings.h"

#include <stdlib.h>

#include "base/strmap.h"

/* Marks lie this far apart at first, and a sixteenth of the way further on: some 95 of them
 * reach half a million bytes, which is more than the longest context. */
enum { FIRST_STEP = 256, STEP_SHARE = 16 };

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ (b * 0x9E3779B97F4A7C15u)) * 0xD6E8FEB86659FD93u;

    return h ^ h >> 32;
}

void router_beginnings_init(struct router_beginnings *b)
{
    b->noted = calloc(ROUTER_BEGINNINGS, sizeof(*b->noted));
}

void router_beginnings_free(struct router_beginnings *b)
{
    free(b->noted);
    b->noted = NULL;
}

/* ---- marks ---- */

struct walk {
    struct router_marks *out;
    uint64_t digest, done, next; /* bytes */
};

/* Takes a run of the prompt in, with a mark at each place that lies in it. */
static void add(struct walk *w, struct lr_str text, bool is_control)
{
    while (text.len > 0 && w->out->count < ROUTER_MARKS_MAX) {
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

bool router_marks_pay(const struct chat_prompt *prompt)
{
    return bytes_of(prompt) >= FIRST_STEP;
}

void router_marks_make(struct router_marks *out, struct lr_str model, struct lr_str scope,
                       const struct chat_prompt *prompt)
{
    struct walk w = {out, mix(lr_hash(model), lr_hash(scope)), 0, FIRST_STEP};

    out->count = 0;
    out->total_bytes = bytes_of(prompt);
    if (prompt->ids != NULL)
        add(&w, (struct lr_str){(const char *)prompt->ids, (size_t)out->total_bytes}, false);
    for (size_t i = 0; prompt->ids == NULL && i < prompt->segment_count; i++) {
        const struct lr_segment *s = &prompt->segments[i];
        add(&w, (struct lr_str){s->text, s->len}, s->control != 0);
    }
}

/* ---- the table ---- */

static uint64_t name_of(const void *node, uint64_t digest)
{
    return mix(digest, (uint64_t)(uintptr_t)node) | 1; /* 0 stands for nothing */
}

static uint64_t *place_of(const struct router_beginnings *b, uint64_t name)
{
    return &b->noted[(name >> 1) % ROUTER_BEGINNINGS];
}

void router_beginnings_note(struct router_beginnings *b, const void *node,
                            const struct router_marks *marks)
{
    for (uint32_t i = 0; b->noted != NULL && i < marks->count; i++) {
        uint64_t name = name_of(node, marks->at[i].digest);
        *place_of(b, name) = name;
    }
}

double router_beginnings_share(const struct router_beginnings *b, const void *node,
                               const struct router_marks *marks)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; b->noted != NULL && i < marks->count; i++) {
        uint64_t name = name_of(node, marks->at[i].digest);
        if (*place_of(b, name) != name)
            break;
        bytes = marks->at[i].bytes;
    }
    return bytes != 0 ? (double)bytes / (double)marks->total_bytes : 0;
}
