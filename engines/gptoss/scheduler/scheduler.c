/* gptoss/scheduler/scheduler.c - see scheduler.h. */
#include "engines/gptoss/scheduler/scheduler.h"

#include <stdlib.h>

#include "base/fail.h"

/* ---- order and lists ---- */

static bool goes_before(const struct gptoss_sequence *a, const struct gptoss_sequence *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->arrival < b->arrival;
}

static void insert(struct gptoss_sequence **list, struct gptoss_sequence *seq)
{
    while (*list != NULL && !goes_before(seq, *list))
        list = &(*list)->next;
    seq->next = *list;
    *list = seq;
}

static bool unlink_from(struct gptoss_sequence **list, struct gptoss_sequence *seq)
{
    for (; *list != NULL; list = &(*list)->next)
        if (*list == seq) {
            *list = seq->next;
            seq->next = NULL;
            return true;
        }
    return false;
}

/* ---- pages ---- */

static uint32_t pages_for(const struct gptoss_scheduler *s, uint32_t ids)
{
    return (ids + s->plan.page_tokens - 1) / s->plan.page_tokens;
}

static void give_pages(struct gptoss_scheduler *s, struct gptoss_sequence *seq)
{
    for (uint32_t i = 0; i < seq->page_count; i++) {
        gptoss_pages_give(&s->full, seq->full_pages[i]);
        gptoss_pages_give(&s->windowed, seq->window_pages[i]);
        seq->full_pages[i] = GPTOSS_NO_PAGE;
        seq->window_pages[i] = GPTOSS_NO_PAGE;
    }
    seq->page_count = 0;
    seq->window_first = 0;
    seq->computed = 0;
    seq->take = 0;
}

/* Full pages for `ids` ids; takes all or none. */
static bool take_full(struct gptoss_scheduler *s, struct gptoss_sequence *seq, uint32_t ids)
{
    uint32_t pages = pages_for(s, ids);

    if (pages > seq->page_count && pages - seq->page_count > s->full.free_count)
        return false;
    if (!gptoss_sequence_reserve_pages(seq, pages))
        return false;
    while (seq->page_count < pages)
        seq->full_pages[seq->page_count++] = gptoss_pages_take(&s->full);
    return true;
}

void gptoss_scheduler_slide(struct gptoss_scheduler *s, struct gptoss_sequence *seq)
{
    uint32_t oldest = seq->computed + 1 > s->window ? seq->computed + 1 - s->window : 0;
    uint32_t first = oldest / s->plan.page_tokens;
    uint32_t end = pages_for(s, seq->computed + seq->take);

    for (; seq->window_first < first && seq->window_first < seq->page_count;
         seq->window_first++) {
        gptoss_pages_give(&s->windowed, seq->window_pages[seq->window_first]);
        seq->window_pages[seq->window_first] = GPTOSS_NO_PAGE;
    }
    for (uint32_t i = seq->window_first; i < end; i++)
        if (seq->window_pages[i] == GPTOSS_NO_PAGE)
            seq->window_pages[i] = gptoss_pages_take(&s->windowed);
}

/* ---- running ---- */

static uint32_t free_slot(const struct gptoss_scheduler *s)
{
    uint32_t slot = 0;

    while (slot < s->plan.max_sequences && s->by_slot[slot] != NULL)
        slot++;
    return slot;
}

static bool enter(struct gptoss_scheduler *s, struct gptoss_sequence *seq)
{
    uint32_t slot = free_slot(s);

    if (slot == s->plan.max_sequences || !take_full(s, seq, seq->count))
        return false;
    seq->slot = slot;
    s->by_slot[slot] = seq;
    return true;
}

static void leave(struct gptoss_scheduler *s, struct gptoss_sequence *seq)
{
    give_pages(s, seq);
    s->by_slot[seq->slot] = NULL;
}

static void suspend(struct gptoss_scheduler *s, struct gptoss_sequence *seq)
{
    unlink_from(&s->running, seq);
    leave(s, seq);
    seq->state = GPTOSS_QUEUED;
    insert(&s->queue, seq);
}

static struct gptoss_sequence *last_running(const struct gptoss_scheduler *s)
{
    struct gptoss_sequence *seq = s->running;

    while (seq != NULL && seq->next != NULL)
        seq = seq->next;
    return seq;
}

static void let_in(struct gptoss_scheduler *s)
{
    while (s->queue != NULL) {
        struct gptoss_sequence *seq = s->queue;
        /* One page of growth for each of the running, or it would be back at once. */
        uint32_t growth = 0;
        for (const struct gptoss_sequence *r = s->running; r != NULL; r = r->next)
            growth++;
        if (s->running != NULL && pages_for(s, seq->count) + growth > s->full.free_count)
            return;
        if (!enter(s, seq))
            return;
        s->queue = seq->next;
        seq->state = GPTOSS_RUNNING;
        insert(&s->running, seq);
    }
}

/* Pages for the ids of everyone who decodes, taken from the last in order where needed. */
static void grow(struct gptoss_scheduler *s)
{
    struct gptoss_sequence *seq = s->running;

    while (seq != NULL) {
        struct gptoss_sequence *next = seq->next;
        while (!take_full(s, seq, seq->count)) {
            struct gptoss_sequence *victim = last_running(s);
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
    uint32_t chunk = s->plan.prefill_chunk, tokens = 0;

    grow(s);
    let_in(s);
    for (struct gptoss_sequence *seq = s->running; seq != NULL; seq = seq->next) {
        uint32_t left = seq->count - seq->computed;
        if (gptoss_sequence_decodes(seq)) {
            seq->take = 1;
        } else {
            seq->take = left < chunk ? left : chunk;
            chunk -= seq->take;
        }
        if (seq->take > 0)
            gptoss_scheduler_slide(s, seq);
        tokens += seq->take;
    }
    return tokens;
}

void gptoss_scheduler_advance(struct gptoss_scheduler *s)
{
    for (struct gptoss_sequence *seq = s->running; seq != NULL; seq = seq->next) {
        seq->computed += seq->take;
        seq->take = 0;
        gptoss_scheduler_slide(s, seq);
    }
}

/* ---- arriving and ending ---- */

lr_code gptoss_scheduler_init(struct gptoss_scheduler *s, const struct gptoss_plan *plan,
                              uint32_t window, struct lr_error *err)
{
    *s = (struct gptoss_scheduler){.plan = *plan, .window = window};
    s->by_slot = calloc(plan->max_sequences, sizeof(*s->by_slot));
    if (s->by_slot == NULL || !gptoss_pages_init(&s->full, plan->full_pages) ||
        !gptoss_pages_init(&s->windowed, plan->window_pages)) {
        gptoss_scheduler_deinit(s);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the lists of %u pages",
                       plan->full_pages + plan->window_pages);
    }
    return LR_OK;
}

static void destroy_list(struct gptoss_sequence *list)
{
    while (list != NULL) {
        struct gptoss_sequence *next = list->next;
        gptoss_sequence_destroy(list);
        list = next;
    }
}

void gptoss_scheduler_deinit(struct gptoss_scheduler *s)
{
    destroy_list(s->queue);
    destroy_list(s->running);
    free(s->by_slot);
    gptoss_pages_deinit(&s->full);
    gptoss_pages_deinit(&s->windowed);
    *s = (struct gptoss_scheduler){0};
}

void gptoss_scheduler_add(struct gptoss_scheduler *s, struct gptoss_sequence *seq)
{
    seq->arrival = s->arrivals++;
    seq->state = GPTOSS_QUEUED;
    insert(&s->queue, seq);
    s->live++;
}

struct gptoss_sequence *gptoss_scheduler_find(const struct gptoss_scheduler *s, uint64_t id)
{
    for (struct gptoss_sequence *q = s->running; q != NULL; q = q->next)
        if (q->id == id)
            return q;
    for (struct gptoss_sequence *q = s->queue; q != NULL; q = q->next)
        if (q->id == id)
            return q;
    return NULL;
}

void gptoss_scheduler_end(struct gptoss_scheduler *s, struct gptoss_sequence *seq)
{
    if (seq->state == GPTOSS_RUNNING) {
        unlink_from(&s->running, seq);
        leave(s, seq);
    } else if (seq->state == GPTOSS_QUEUED) {
        unlink_from(&s->queue, seq);
    } else {
        return;
    }
    seq->state = GPTOSS_ENDED;
    s->live--;
}

/* ---- beside the others ---- */

lr_code gptoss_scheduler_borrow(struct gptoss_scheduler *s, struct gptoss_sequence *seq,
                                struct lr_error *err)
{
    while (!enter(s, seq)) {
        struct gptoss_sequence *victim = last_running(s);
        if (victim == NULL)
            return lr_fail(err, LR_OUT_OF_RAM,
                           "%u tokens need %u pages of KV cache; the model has %u", seq->count,
                           pages_for(s, seq->count), s->full.total);
        suspend(s, victim);
    }
    return LR_OK;
}

void gptoss_scheduler_return(struct gptoss_scheduler *s, struct gptoss_sequence *seq)
{
    leave(s, seq);
}
