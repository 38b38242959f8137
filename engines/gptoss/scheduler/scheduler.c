/* gptoss/scheduler/scheduler.c - see scheduler.h. */
#include "engines/gptoss/scheduler/scheduler.h"

#include <stdlib.h>

#include "base/fail.h"

/* ---- pages ---- */

static uint32_t scheduler_pages_for(const struct gptoss_scheduler *s, uint32_t ids)
{
    return (ids + s->plan.page_tokens - 1) / s->plan.page_tokens;
}

static uint32_t free_full(const struct gptoss_scheduler *s)
{
    return gptoss_elastic_available(&s->cache.pages[GPTOSS_FULL]);
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

/* Makes room in both tables for `pages` entries.  False: no memory. */
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
    uint32_t pages = scheduler_pages_for(s, ids);

    if (pages > slot->page_count && pages - slot->page_count > free_full(s))
        return false;
    if (!reserve(slot, pages) ||
        (pages > slot->page_count &&
         !gptoss_elastic_room(&s->cache, GPTOSS_FULL, pages - slot->page_count)))
        return false;
    while (slot->page_count < pages)
        slot->full_pages[slot->page_count++] = gptoss_cache_take(&s->cache, GPTOSS_FULL);
    return true;
}

void gptoss_scheduler_slide(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    struct gptoss_slot *slot = &s->slots[seq->slot];
    uint32_t first = gptoss_cache_window_first(&s->cache, seq->computed);
    uint32_t end = scheduler_pages_for(s, seq->computed + seq->take);

    for (; slot->window_first < first && slot->window_first < slot->page_count;
         slot->window_first++) {
        gptoss_cache_give(&s->cache, GPTOSS_WINDOW, slot->window_pages[slot->window_first]);
        slot->window_pages[slot->window_first] = GPTOSS_NO_PAGE;
    }
    for (uint32_t i = slot->window_first; i < end; i++)
        if (slot->window_pages[i] == GPTOSS_NO_PAGE)
            slot->window_pages[i] = gptoss_cache_take(&s->cache, GPTOSS_WINDOW);
}

/* Fills the tables of an empty slot with the cached prefix of the sequence. */
static bool begin_from_cache(struct gptoss_scheduler *s, struct gptoss_slot *slot,
                             struct engine_sequence *seq)
{
    struct gptoss_match match =
        gptoss_cache_match(&s->cache, seq->cache_scope, seq->ids, seq->count);

    if (!reserve(slot, match.pages))
        return false;
    gptoss_cache_hold(&s->cache, seq->cache_scope, seq->ids, match, slot->full_pages,
                      slot->window_pages);
    slot->page_count = slot->remembered = match.pages;
    slot->chain = match.chain;
    seq->computed = match.pages * s->plan.page_tokens;
    slot->window_first = gptoss_cache_window_first(&s->cache, seq->computed);
    return true;
}

static void remember(struct gptoss_scheduler *s, const struct engine_sequence *seq)
{
    struct gptoss_slot *slot = &s->slots[seq->slot];
    uint32_t complete = seq->computed / s->plan.page_tokens;

    for (; seq->cache_scope != 0 && slot->remembered < complete; slot->remembered++)
        slot->chain = gptoss_cache_remember(
            &s->cache, slot->chain, seq->ids + slot->remembered * s->plan.page_tokens,
            slot->full_pages[slot->remembered], slot->window_pages[slot->remembered]);
}

/* ---- running ---- */

static void scheduler_leave(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    struct gptoss_slot *slot = &s->slots[seq->slot];

    /* Frees the end first, so that the beginning of a chain stays cached longest. */
    for (uint32_t i = slot->page_count; i-- > 0;) {
        gptoss_cache_give(&s->cache, GPTOSS_FULL, slot->full_pages[i]);
        gptoss_cache_give(&s->cache, GPTOSS_WINDOW, slot->window_pages[i]);
        slot->full_pages[i] = GPTOSS_NO_PAGE;
        slot->window_pages[i] = GPTOSS_NO_PAGE;
    }
    slot->page_count = slot->window_first = slot->remembered = 0;
    slot->taken = false;
    seq->computed = 0;
    seq->take = 0;
}

static bool scheduler_enter(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    uint32_t i = 0;

    while (i < s->plan.max_sequences && s->slots[i].taken)
        i++;
    if (i == s->plan.max_sequences)
        return false;
    seq->slot = i;
    if (seq->cache_scope != 0 && !begin_from_cache(s, &s->slots[i], seq))
        return false;
    if (!take_full(s, &s->slots[i], seq->count)) {
        scheduler_leave(s, seq);
        return false;
    }
    s->slots[i].taken = true;
    engine_sequence_found(seq);
    return true;
}

static void suspend(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    scheduler_leave(s, seq);
    engine_queue_suspend(&s->queue, seq);
}

static void let_in(struct gptoss_scheduler *s)
{
    while (s->queue.queued != NULL) {
        struct engine_sequence *seq = s->queue.queued;
        /* Keeps one page of growth for each running sequence; otherwise the new one would be
         * preempted at once. */
        uint32_t growth = 0;
        for (const struct engine_sequence *r = s->queue.running; r != NULL; r = r->next)
            growth++;
        if (s->queue.running != NULL &&
            scheduler_pages_for(s, seq->count) + growth > free_full(s))
            return;
        if (!scheduler_enter(s, seq))
            return;
        engine_queue_run(&s->queue, seq);
    }
}

/* Takes pages for every decoding sequence; preempts the last in order if necessary. */
static void scheduler_grow(struct gptoss_scheduler *s)
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

/* Sequences of `decoding` that this step leaves out, because it is faster without them. */
static uint32_t surplus(const struct gptoss_plan *plan, uint32_t decoding)
{
    for (int i = 0; i < GPTOSS_DIPS; i++)
        if (decoding > plan->dips[i].rows && decoding < plan->dips[i].enough)
            return decoding - plan->dips[i].rows;
    return 0;
}

/* True when the decoding sequence at a place is one of the `left` that wait next: places turn
 * .. turn + left - 1, around the end. */
static bool is_in_turn(const struct gptoss_scheduler *s, uint32_t place, uint32_t decoding,
                       uint32_t left)
{
    return (place + decoding - s->turn % decoding) % decoding < left;
}

/* Every decoding sequence in turn waits a step where more of them would be slower. */
static uint32_t leave_out(struct gptoss_scheduler *s, uint32_t decoding)
{
    uint32_t left = surplus(&s->plan, decoding), at = 0;

    if (left == 0)
        return 0;
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next)
        if (engine_sequence_decodes(seq) && is_in_turn(s, at++, decoding, left))
            seq->take = 0;
    s->turn = s->turn % decoding + left;
    return left;
}

/* Sets `take` of every running sequence: one token for each that decodes, and the prompts share
 * a chunk.  Returns the sum. */
static uint32_t share(struct gptoss_scheduler *s)
{
    struct gptoss_crowd crowd = {.live = s->queue.live, .least_work = UINT64_MAX};
    uint32_t prompts = 0;

    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        if (engine_sequence_decodes(seq)) {
            seq->take = 1;
            crowd.decoding++;
            continue;
        }
        struct gptoss_claim claim = gptoss_claim_of(&s->pace, seq);
        if (claim.work < crowd.least_work)
            crowd.least_work = claim.work;
        s->claims[prompts++] = claim;
    }
    s->kind = gptoss_pace_kind(&s->pace, &crowd);
    s->shared = gptoss_share(&s->pace, s->kind, s->claims, prompts);
    if (prompts == 0)
        crowd.decoding -= leave_out(s, crowd.decoding);
    return crowd.decoding + s->shared.tokens;
}

uint32_t gptoss_scheduler_choose(struct gptoss_scheduler *s)
{
    scheduler_grow(s);
    let_in(s);
    uint32_t tokens = share(s);
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next)
        if (seq->take > 0)
            gptoss_scheduler_slide(s, seq);
    return tokens;
}

bool gptoss_scheduler_look_ahead(struct gptoss_scheduler *s)
{
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        if (!take_full(s, &s->slots[seq->slot], seq->count + 1))
            return false;
        seq->take++;
        gptoss_scheduler_slide(s, seq);
        seq->take--;
    }
    return true;
}

bool gptoss_scheduler_change(struct gptoss_scheduler *s, struct gptoss_change *out)
{
    uint32_t decoding = 0, left_out = 0, at = 0;

    *out = (struct gptoss_change){0};
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        if (!engine_sequence_decodes(seq))
            return false;
        decoding++;
        if (seq->take != 0)
            continue;
        if (left_out == GPTOSS_DIP_WIDTH)
            return false;
        out->come[left_out++] = seq;
    }
    uint32_t left = surplus(&s->plan, decoding);
    if (left != left_out || 2 * left > decoding)
        return false;
    for (struct engine_sequence *seq = s->queue.running; seq != NULL && left != 0;
         seq = seq->next)
        if (is_in_turn(s, at++, decoding, left))
            out->wait[out->count++] = seq;
    if (left != 0)
        s->turn = s->turn % decoding + left;
    return true;
}

void gptoss_scheduler_advance(struct gptoss_scheduler *s, uint64_t step_ns)
{
    gptoss_pace_measured(&s->pace, s->kind, s->shared.work, s->shared.is_full, step_ns);
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        seq->computed += seq->take;
        seq->take = 0;
        remember(s, seq);
        gptoss_scheduler_slide(s, seq);
    }
}

/* ---- beginning and ending ---- */

lr_code gptoss_scheduler_init(struct gptoss_scheduler *s, const struct gptoss_plan *plan,
                              uint32_t window, struct lr_error *err)
{
    *s = (struct gptoss_scheduler){.plan = *plan};
    gptoss_scheduler_set_pace(s, 0, GPTOSS_DEPTH_IS_FREE);
    s->slots = calloc(plan->max_sequences, sizeof(*s->slots));
    s->claims = calloc(plan->max_sequences, sizeof(*s->claims));
    if (s->slots == NULL || s->claims == NULL) {
        gptoss_scheduler_deinit(s);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u slots", plan->max_sequences);
    }
    const uint32_t pages[GPTOSS_KINDS] = {plan->full_pages, plan->window_pages};
    lr_code code =
        gptoss_cache_init(&s->cache, plan->page_tokens, window, pages, plan->most_pages, err);
    if (code != LR_OK)
        gptoss_scheduler_deinit(s);
    return code;
}

void gptoss_scheduler_set_device(struct gptoss_scheduler *s,
                                 const struct gptoss_page_device *device)
{
    s->cache.device = *device;
    for (int kind = 0; kind < GPTOSS_KINDS; kind++)
        s->cache.pages[kind].least = s->plan.least_pages[kind];
}

/* Pages have moved: writes their new numbers to the tables. */
static void renumber(struct gptoss_scheduler *s, enum gptoss_kind kind, const uint32_t *moved)
{
    uint32_t total = s->cache.pages[kind].total;

    for (uint32_t i = 0; i < s->plan.max_sequences; i++) {
        const struct gptoss_slot *slot = &s->slots[i];
        uint32_t *table = kind == GPTOSS_FULL ? slot->full_pages : slot->window_pages;
        for (uint32_t k = 0; k < slot->page_count; k++)
            if (table[k] != GPTOSS_NO_PAGE && table[k] >= total)
                table[k] = moved[table[k] - total];
    }
}

static void shrink(struct gptoss_scheduler *s, enum gptoss_kind kind)
{
    uint32_t *moved = gptoss_elastic_shrink(&s->cache, kind);

    if (moved != NULL)
        renumber(s, kind, moved);
    free(moved);
}

void gptoss_scheduler_limit(struct gptoss_scheduler *s, const struct gptoss_kv_share *share)
{
    for (int kind = 0; kind < GPTOSS_KINDS; kind++) {
        s->cache.pages[kind].limit = share->pages[kind];
        shrink(s, (enum gptoss_kind)kind);
    }
}

void gptoss_scheduler_settle(struct gptoss_scheduler *s)
{
    /* The work grows with the pool: single pages wait until a part of it can go, or the last.
     */
    enum { PART = 32 };
    for (int kind = 0; kind < GPTOSS_KINDS; kind++) {
        const struct gptoss_pages *p = &s->cache.pages[kind];
        uint32_t excess = gptoss_elastic_excess(p, p->limit);
        if (excess != 0 && (excess >= p->total / PART || p->total - excess <= p->limit))
            shrink(s, (enum gptoss_kind)kind);
    }
}

void gptoss_scheduler_set_pace(struct gptoss_scheduler *s, uint32_t target_gap_ms,
                               uint32_t depth_unit)
{
    gptoss_pace_init(&s->pace, s->plan.least_chunk, s->plan.prefill_chunk, target_gap_ms,
                     depth_unit);
    gptoss_pace_begin(&s->pace, s->plan.first_chunk);
}

void gptoss_scheduler_deinit(struct gptoss_scheduler *s)
{
    engine_queue_deinit(&s->queue);
    for (uint32_t i = 0; s->slots != NULL && i < s->plan.max_sequences; i++) {
        free(s->slots[i].full_pages);
        free(s->slots[i].window_pages);
    }
    free(s->slots);
    free(s->claims);
    gptoss_cache_deinit(&s->cache);
    *s = (struct gptoss_scheduler){0};
}

void gptoss_scheduler_end(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    if (seq->state == ENGINE_RUNNING)
        scheduler_leave(s, seq);
    engine_queue_end(&s->queue, seq);
}

/* ---- beside live sequences ---- */

lr_code gptoss_scheduler_borrow(struct gptoss_scheduler *s, struct engine_sequence *seq,
                                struct lr_error *err)
{
    while (!scheduler_enter(s, seq)) {
        struct engine_sequence *victim = engine_queue_last_running(&s->queue);
        if (victim == NULL)
            return lr_fail(err, LR_OUT_OF_RAM,
                           "%u tokens need %u pages of KV cache; the model has %u", seq->count,
                           scheduler_pages_for(s, seq->count),
                           s->cache.pages[GPTOSS_FULL].total);
        suspend(s, victim);
    }
    return LR_OK;
}

void gptoss_scheduler_return(struct gptoss_scheduler *s, struct engine_sequence *seq)
{
    scheduler_leave(s, seq);
}
