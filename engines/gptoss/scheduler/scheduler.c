/* gptoss/scheduler/scheduler.c - see scheduler.h. */
#include "engines/gptoss/scheduler/scheduler.h"

#include <stdlib.h>

#include "base/fail.h"

/* ---- pages ---- */

static uint32_t pages_for(const struct gptoss_scheduler *s, uint32_t ids)
{
    return (ids + s->plan.page_tokens - 1) / s->plan.page_tokens;
}

static bool grow_table(uint32_t **table, uint32_t from, uint32_t to)
{
    uint32_t *grown = realloc(*table, to * sizeof(*grown));

    if (grown == NULL)
        return false;
    for (uint32_t i = from; i < to; i++)
        grown[i] = GPTOSS_NO_PAGE;
    *table = grown;
    return true;
}

/* Room in both tables for `pages` entries.  False: no memory. */
static bool reserve(struct gptoss_slot *slot, uint32_t pages)
{
    if (pages <= slot->page_capacity)
        return true;
    uint32_t to = pages + pages / 2 + 8;
    if (!grow_table(&slot->full_pages, slot->page_capacity, to) ||
        !grow_table(&slot->window_pages, slot->page_capacity, to))
        return false;
    slot->page_capacity = to;
    return true;
}

/* Full pages for `ids` ids; takes all or none. */
static bool take_full(struct gptoss_scheduler *s, struct gptoss_slot *slot, uint32_t ids)
{
    uint32_t pages = pages_for(s, ids);

    if (pages > slot->page_count && pages - slot->page_count > s->full.free_count)
        return false;
    if (!reserve(slot, pages))
        return false;
    while (slot->page_count < pages)
        slot->full_pages[slot->page_count++] = gptoss_pages_take(&s->full);
    return true;
}

void gptoss_scheduler_slide(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    struct gptoss_slot *slot = &s->slots[seq->slot];
    uint32_t oldest = seq->computed + 1 > s->window ? seq->computed + 1 - s->window : 0;
    uint32_t first = oldest / s->plan.page_tokens;
    uint32_t end = pages_for(s, seq->computed + seq->take);

    for (; slot->window_first < first && slot->window_first < slot->page_count;
         slot->window_first++) {
        gptoss_pages_give(&s->windowed, slot->window_pages[slot->window_first]);
        slot->window_pages[slot->window_first] = GPTOSS_NO_PAGE;
    }
    for (uint32_t i = slot->window_first; i < end; i++)
        if (slot->window_pages[i] == GPTOSS_NO_PAGE)
            slot->window_pages[i] = gptoss_pages_take(&s->windowed);
}

/* ---- running ---- */

static bool enter(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    uint32_t i = 0;

    while (i < s->plan.max_sequences && s->slots[i].taken)
        i++;
    if (i == s->plan.max_sequences || !take_full(s, &s->slots[i], seq->count))
        return false;
    s->slots[i].taken = true;
    seq->slot = i;
    return true;
}

static void leave(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    struct gptoss_slot *slot = &s->slots[seq->slot];

    for (uint32_t i = 0; i < slot->page_count; i++) {
        gptoss_pages_give(&s->full, slot->full_pages[i]);
        gptoss_pages_give(&s->windowed, slot->window_pages[i]);
        slot->full_pages[i] = GPTOSS_NO_PAGE;
        slot->window_pages[i] = GPTOSS_NO_PAGE;
    }
    slot->page_count = 0;
    slot->window_first = 0;
    slot->taken = false;
    seq->computed = 0;
    seq->take = 0;
}

static void suspend(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    leave(s, seq);
    engine_queue_suspend(&s->queue, seq);
}

static void let_in(struct gptoss_scheduler *s)
{
    while (s->queue.queued != NULL) {
        struct engine_sequence *seq = s->queue.queued;
        /* One page of growth for each of the running, or it would be back at once. */
        uint32_t growth = 0;
        for (const struct engine_sequence *r = s->queue.running; r != NULL; r = r->next)
            growth++;
        if (s->queue.running != NULL && pages_for(s, seq->count) + growth > s->full.free_count)
            return;
        if (!enter(s, seq))
            return;
        engine_queue_run(&s->queue, seq);
    }
}

/* Pages for the ids of everyone who decodes, taken from the last in order where needed. */
static void grow(struct gptoss_scheduler *s)
{
    struct engine_sequence *seq = s->queue.running;

    while (seq != NULL) {
        struct engine_sequence *next = seq->next;
        while (!take_full(s, &s->slots[seq->slot], seq->count)) {
            struct engine_sequence *victim = engine_queue_last_running(&s->queue);
            if (victim == next)
                next = NULL; /* it was the last */
            suspend(s, victim);
            if (victim == seq)
                break;
        }
        seq = next;
    }
}

uint32_t gptoss_scheduler_choose(struct gptoss_scheduler *s)
{
    grow(s);
    let_in(s);
    uint32_t tokens = engine_queue_share(&s->queue, s->plan.prefill_chunk);
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next)
        if (seq->take > 0)
            gptoss_scheduler_slide(s, seq);
    return tokens;
}

void gptoss_scheduler_advance(struct gptoss_scheduler *s)
{
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        seq->computed += seq->take;
        seq->take = 0;
        gptoss_scheduler_slide(s, seq);
    }
}

/* ---- beginning and ending ---- */

lr_code gptoss_scheduler_init(struct gptoss_scheduler *s, const struct gptoss_plan *plan,
                              uint32_t window, struct lr_error *err)
{
    *s = (struct gptoss_scheduler){.plan = *plan, .window = window};
    s->slots = calloc(plan->max_sequences, sizeof(*s->slots));
    if (s->slots == NULL || !gptoss_pages_init(&s->full, plan->full_pages) ||
        !gptoss_pages_init(&s->windowed, plan->window_pages)) {
        gptoss_scheduler_deinit(s);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the lists of %u pages",
                       plan->full_pages + plan->window_pages);
    }
    return LR_OK;
}

void gptoss_scheduler_deinit(struct gptoss_scheduler *s)
{
    engine_queue_deinit(&s->queue);
    for (uint32_t i = 0; s->slots != NULL && i < s->plan.max_sequences; i++) {
        free(s->slots[i].full_pages);
        free(s->slots[i].window_pages);
    }
    free(s->slots);
    gptoss_pages_deinit(&s->full);
    gptoss_pages_deinit(&s->windowed);
    *s = (struct gptoss_scheduler){0};
}

void gptoss_scheduler_end(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    if (seq->state == ENGINE_RUNNING)
        leave(s, seq);
    engine_queue_end(&s->queue, seq);
}

/* ---- beside the others ---- */

lr_code gptoss_scheduler_borrow(struct gptoss_scheduler *s, struct engine_sequence *seq,
                                struct lr_error *err)
{
    while (!enter(s, seq)) {
        struct engine_sequence *victim = engine_queue_last_running(&s->queue);
        if (victim == NULL)
            return lr_fail(err, LR_OUT_OF_RAM,
                           "%u tokens need %u pages of KV cache; the model has %u", seq->count,
                           pages_for(s, seq->count), s->full.total);
        suspend(s, victim);
    }
    return LR_OK;
}

void gptoss_scheduler_return(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    leave(s, seq);
}
