/* llamacpp/scheduler.c - see sequence.h: who is computed next. */
#include <stdlib.h>

#include "engines/llamacpp/sequence.h"

/* Cells kept free for each of the running when another is let in, or it would have to
 * leave again at once. */
enum { GROWTH = 16 };

static bool goes_before(const struct llamacpp_sequence *a, const struct llamacpp_sequence *b)
{
    if (a->priority != b->priority)
        return a->priority > b->priority;
    return a->arrival < b->arrival;
}

static void insert(struct llamacpp_sequence **list, struct llamacpp_sequence *seq)
{
    while (*list != NULL && !goes_before(seq, *list))
        list = &(*list)->next;
    seq->next = *list;
    *list = seq;
}

static void unlink_from(struct llamacpp_sequence **list, struct llamacpp_sequence *seq)
{
    while (*list != NULL && *list != seq)
        list = &(*list)->next;
    if (*list == seq)
        *list = seq->next;
    seq->next = NULL;
}

/* Every running sequence counts with all its ids, computed or not. */
static uint64_t cells_used(const struct llamacpp_scheduler *s, uint32_t *running)
{
    uint64_t used = 0;

    *running = 0;
    for (const struct llamacpp_sequence *seq = s->running; seq != NULL; seq = seq->next) {
        used += seq->count;
        ++*running;
    }
    return used;
}

static void leave(struct llamacpp_scheduler *s, struct llamacpp_sequence *seq)
{
    unlink_from(&s->running, seq);
    s->forget(s->ctx, seq->slot);
    s->taken[seq->slot] = false;
    seq->computed = 0;
    seq->take = 0;
}

bool llamacpp_scheduler_yield(struct llamacpp_scheduler *s)
{
    struct llamacpp_sequence *last = s->running;

    if (last == NULL || last->next == NULL)
        return false;
    while (last->next != NULL)
        last = last->next;
    leave(s, last);
    last->state = LLAMACPP_QUEUED;
    insert(&s->queue, last);
    return true;
}

static bool enter(struct llamacpp_scheduler *s, struct llamacpp_sequence *seq)
{
    uint32_t slot = 0, running;
    uint64_t used = cells_used(s, &running);

    while (slot < s->plan->max_sequences && s->taken[slot])
        slot++;
    if (slot == s->plan->max_sequences)
        return false;
    if (running > 0 &&
        used + seq->count + ((uint64_t)running + 1) * GROWTH > s->plan->kv_tokens)
        return false;
    unlink_from(&s->queue, seq);
    s->taken[slot] = true;
    seq->slot = slot;
    seq->state = LLAMACPP_RUNNING;
    insert(&s->running, seq);
    return true;
}

uint32_t llamacpp_scheduler_choose(struct llamacpp_scheduler *s)
{
    uint32_t chunk = s->plan->prefill_chunk, tokens = 0, running;

    while (cells_used(s, &running) > s->plan->kv_tokens && llamacpp_scheduler_yield(s)) {
    }
    while (s->queue != NULL && enter(s, s->queue)) {
    }
    for (struct llamacpp_sequence *seq = s->running; seq != NULL; seq = seq->next) {
        uint32_t left = seq->count - seq->computed;
        if (left == 1 && seq->count > seq->prompt_count) {
            seq->take = 1;
        } else {
            seq->take = left < chunk ? left : chunk;
            chunk -= seq->take;
        }
        tokens += seq->take;
    }
    return tokens;
}

/* ---- arriving and ending ---- */

bool llamacpp_scheduler_init(struct llamacpp_scheduler *s, const struct llamacpp_plan *plan,
                             void (*forget)(void *ctx, uint32_t slot), void *ctx)
{
    *s = (struct llamacpp_scheduler){.plan = plan, .forget = forget, .ctx = ctx};
    s->taken = calloc(plan->max_sequences, sizeof(*s->taken));
    return s->taken != NULL;
}

static void destroy_list(struct llamacpp_sequence *list)
{
    while (list != NULL) {
        struct llamacpp_sequence *next = list->next;
        llamacpp_sequence_destroy(list);
        list = next;
    }
}

void llamacpp_scheduler_deinit(struct llamacpp_scheduler *s)
{
    destroy_list(s->queue);
    destroy_list(s->running);
    free(s->taken);
    *s = (struct llamacpp_scheduler){0};
}

void llamacpp_scheduler_add(struct llamacpp_scheduler *s, struct llamacpp_sequence *seq)
{
    seq->arrival = s->arrivals++;
    seq->state = LLAMACPP_QUEUED;
    insert(&s->queue, seq);
    s->live++;
}

struct llamacpp_sequence *llamacpp_scheduler_find(const struct llamacpp_scheduler *s,
                                                  uint64_t id)
{
    const struct llamacpp_sequence *const lists[] = {s->running, s->queue};

    for (size_t i = 0; i < 2; i++)
        for (const struct llamacpp_sequence *seq = lists[i]; seq != NULL; seq = seq->next)
            if (seq->id == id)
                return (struct llamacpp_sequence *)(uintptr_t)seq;
    return NULL;
}

void llamacpp_scheduler_end(struct llamacpp_scheduler *s, struct llamacpp_sequence *seq)
{
    if (seq->state == LLAMACPP_RUNNING)
        leave(s, seq);
    else if (seq->state == LLAMACPP_QUEUED)
        unlink_from(&s->queue, seq);
    else
        return;
    seq->state = LLAMACPP_ENDED;
    s->live--;
}
