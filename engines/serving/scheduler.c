/* serving/scheduler.c - see scheduler.h. */
#include "engines/serving/scheduler.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"

/* ---- pages ---- */

static uint32_t scheduler_pages_for(const struct serving_scheduler *s, uint32_t ids)
{
    return (ids + s->plan.page_tokens - 1) / s->plan.page_tokens;
}

static bool is_whole(const struct serving_scheduler *s, uint32_t kind)
{
    return s->cache.window[kind] == 0;
}

/* Pages that can be free of every kind that covers all positions. */
static uint32_t free_whole(const struct serving_scheduler *s)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t kind = 0; kind < s->cache.kinds; kind++) {
        uint32_t pages = serving_elastic_available(&s->cache.pages[kind]);
        if (is_whole(s, kind) && pages < least)
            least = pages;
    }
    return least;
}

static bool grow_table(uint32_t **table, uint32_t from, uint32_t to)
{
    uint32_t *grown = realloc(*table, to * sizeof(*grown));

    if (grown == NULL)
        return false;
    for (uint32_t i = from; i < to; i++)
        grown[i] = SERVING_NO_PAGE;
    *table = grown;
    return true;
}

/* Makes room in the tables for `pages` entries.  False: no memory. */
static bool reserve(const struct serving_scheduler *s, struct serving_slot *slot,
                    uint32_t pages)
{
    if (pages <= slot->page_capacity)
        return true;
    uint32_t to = pages + pages / 2 + 8;
    for (uint32_t kind = 0; kind < s->cache.kinds; kind++)
        if (!grow_table(&slot->tables[kind], slot->page_capacity, to))
            return false;
    slot->page_capacity = to;
    return true;
}

/* Room for `pages` more pages of every kind that covers all positions. */
static bool make_room(struct serving_scheduler *s, uint32_t pages)
{
    for (uint32_t kind = 0; kind < s->cache.kinds; kind++)
        if (is_whole(s, kind) && !serving_elastic_room(&s->cache, kind, pages))
            return false;
    return true;
}

/* Pages for `ids` ids, of every kind that covers all positions; takes all or none. */
static bool take_whole(struct serving_scheduler *s, struct serving_slot *slot, uint32_t ids)
{
    uint32_t pages = scheduler_pages_for(s, ids);

    if (pages > slot->page_count && pages - slot->page_count > free_whole(s))
        return false;
    if (!reserve(s, slot, pages) ||
        (pages > slot->page_count && !make_room(s, pages - slot->page_count)))
        return false;
    for (; slot->page_count < pages; slot->page_count++)
        for (uint32_t kind = 0; kind < s->cache.kinds; kind++)
            if (is_whole(s, kind))
                slot->tables[kind][slot->page_count] = serving_cache_take(&s->cache, kind);
    return true;
}

static void slide_kind(struct serving_scheduler *s, struct serving_slot *slot, uint32_t kind,
                       uint32_t first, uint32_t end)
{
    uint32_t *table = slot->tables[kind];

    for (; slot->first[kind] < first && slot->first[kind] < slot->page_count;
         slot->first[kind]++) {
        serving_cache_give(&s->cache, kind, table[slot->first[kind]]);
        table[slot->first[kind]] = SERVING_NO_PAGE;
    }
    for (uint32_t i = slot->first[kind]; i < end; i++)
        if (table[i] == SERVING_NO_PAGE)
            table[i] = serving_cache_take(&s->cache, kind);
}

void serving_scheduler_slide(struct serving_scheduler *s, struct engine_sequence *seq)
{
    uint32_t end = scheduler_pages_for(s, seq->computed + seq->take);

    for (uint32_t kind = 0; kind < s->cache.kinds; kind++)
        if (!is_whole(s, kind))
            slide_kind(s, &s->slots[seq->slot], kind,
                       serving_cache_first(&s->cache, kind, seq->computed), end);
}

/* Where keys depend on the length of their prompt, only prompts of one class share pages: those
 * up to the limit, and beyond it all others, or those of the same length. */
static uint64_t scope_for(const struct serving_scheduler *s, const struct engine_sequence *seq)
{
    const uint64_t odd = 0x9E3779B97F4A7C15u;
    uint64_t length = s->lengths.limit != 0 && seq->prompt_count > s->lengths.limit
                          ? (s->lengths.exact ? seq->prompt_count : 1)
                          : 0;

    return seq->cache_scope ^ length * 2 * odd; /* even, as scopes are */
}

/* What a text computes depends on all of it where it is computed at once. */
static bool shares_prefix(const struct serving_scheduler *s, const struct engine_sequence *seq)
{
    return seq->cache_scope != 0 && s->plan.whole_texts == 0;
}

/* Fills the tables of an empty slot with the cached prefix of the sequence. */
static bool begin_from_cache(struct serving_scheduler *s, struct serving_slot *slot,
                             struct engine_sequence *seq)
{
    uint64_t scope = scope_for(s, seq);
    struct serving_match match = serving_cache_match(&s->cache, scope, seq->ids, seq->count);

    if (!reserve(s, slot, match.pages))
        return false;
    serving_cache_hold(&s->cache, scope, seq->ids, match, slot->tables);
    slot->page_count = slot->remembered = match.pages;
    slot->chain = match.chain;
    serving_state_enter(&slot->state, &s->cache, &match);
    seq->computed = match.pages * s->plan.page_tokens;
    for (uint32_t kind = 0; kind < s->cache.kinds; kind++)
        slot->first[kind] = serving_cache_first(&s->cache, kind, seq->computed);
    return true;
}

static void remember(struct serving_scheduler *s, const struct engine_sequence *seq)
{
    struct serving_slot *slot = &s->slots[seq->slot];
    uint32_t complete = seq->computed / s->plan.page_tokens;
    uint32_t pages[SERVING_POOLS];

    for (; shares_prefix(s, seq) && slot->remembered < complete; slot->remembered++) {
        for (uint32_t pool = 0; pool < SERVING_POOLS; pool++)
            pages[pool] =
                pool < s->cache.kinds ? slot->tables[pool][slot->remembered] : SERVING_NO_PAGE;
        /* A step saves the state of its last token. */
        if ((slot->remembered + 1) * s->plan.page_tokens == seq->computed)
            pages[SERVING_SNAPSHOTS] = slot->state.save;
        slot->chain = serving_cache_remember(
            &s->cache, slot->chain, seq->ids + slot->remembered * s->plan.page_tokens, pages);
    }
}

/* ---- running ---- */

static void scheduler_leave(struct serving_scheduler *s, struct engine_sequence *seq)
{
    struct serving_slot *slot = &s->slots[seq->slot];

    /* Frees the end first, so that the beginning of a chain stays cached longest. */
    for (uint32_t i = slot->page_count; i-- > 0;)
        for (uint32_t kind = 0; kind < s->cache.kinds; kind++) {
            serving_cache_give(&s->cache, kind, slot->tables[kind][i]);
            slot->tables[kind][i] = SERVING_NO_PAGE;
        }
    serving_state_leave(&slot->state, &s->cache);
    slot->page_count = slot->remembered = 0;
    memset(slot->first, 0, sizeof(slot->first));
    slot->taken = false;
    seq->computed = 0;
    seq->take = 0;
}

static bool scheduler_enter(struct serving_scheduler *s, struct engine_sequence *seq)
{
    uint32_t i = 0;

    while (i < s->plan.max_sequences && s->slots[i].taken)
        i++;
    if (i == s->plan.max_sequences)
        return false;
    seq->slot = i;
    if (shares_prefix(s, seq) && !begin_from_cache(s, &s->slots[i], seq))
        return false;
    if (!take_whole(s, &s->slots[i], seq->count)) {
        scheduler_leave(s, seq);
        return false;
    }
    s->slots[i].taken = true;
    engine_sequence_found(seq);
    return true;
}

static void suspend(struct serving_scheduler *s, struct engine_sequence *seq)
{
    scheduler_leave(s, seq);
    engine_queue_suspend(&s->queue, seq);
}

static void let_in(struct serving_scheduler *s)
{
    while (s->queue.queued != NULL) {
        struct engine_sequence *seq = s->queue.queued;
        /* Keeps one page of growth for each running sequence; otherwise the new one would be
         * preempted at once. */
        uint32_t growth = 0;
        for (const struct engine_sequence *r = s->queue.running; r != NULL; r = r->next)
            growth++;
        if (s->queue.running != NULL &&
            scheduler_pages_for(s, seq->count) + growth > free_whole(s))
            return;
        if (!scheduler_enter(s, seq))
            return;
        engine_queue_run(&s->queue, seq);
    }
}

/* Takes pages for every decoding sequence; preempts the last in order if necessary. */
static void scheduler_grow(struct serving_scheduler *s)
{
    struct engine_sequence *seq = s->queue.running;

    while (seq != NULL) {
        struct engine_sequence *next = seq->next;
        while (!take_whole(s, &s->slots[seq->slot], seq->count)) {
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
static uint32_t surplus(const struct serving_plan *plan, uint32_t decoding)
{
    for (int i = 0; i < SERVING_DIPS; i++)
        if (decoding > plan->dips[i].rows && decoding < plan->dips[i].enough)
            return decoding - plan->dips[i].rows;
    return 0;
}

/* True when the decoding sequence at a place is one of the `left` that wait next: places turn
 * .. turn + left - 1, around the end. */
static bool is_in_turn(const struct serving_scheduler *s, uint32_t place, uint32_t decoding,
                       uint32_t left)
{
    return (place + decoding - s->turn % decoding) % decoding < left;
}

/* Every decoding sequence in turn waits a step where more of them would be slower. */
static uint32_t leave_out(struct serving_scheduler *s, uint32_t decoding)
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
static uint32_t share(struct serving_scheduler *s)
{
    struct serving_crowd crowd = {.live = s->queue.live, .least_work = UINT64_MAX};
    uint32_t prompts = 0;

    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        if (engine_sequence_decodes(seq)) {
            seq->take = 1;
            crowd.decoding++;
            continue;
        }
        struct serving_claim claim = serving_claim_of(
            &s->pace, seq, serving_state_next(&s->slots[seq->slot].state, &s->cache, seq));
        if (claim.work < crowd.least_work)
            crowd.least_work = claim.work;
        s->claims[prompts++] = claim;
    }
    s->kind = serving_pace_kind(&s->pace, &crowd);
    s->shared = s->plan.whole_texts != 0 ? serving_share_whole(&s->pace, s->claims, prompts)
                                         : serving_share(&s->pace, s->kind, s->claims, prompts);
    if (prompts == 0)
        crowd.decoding -= leave_out(s, crowd.decoding);
    return crowd.decoding + s->shared.tokens;
}

uint32_t serving_scheduler_choose(struct serving_scheduler *s)
{
    scheduler_grow(s);
    let_in(s);
    uint32_t tokens = share(s);
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next)
        if (seq->take > 0)
            serving_scheduler_slide(s, seq);
    return tokens;
}

bool serving_scheduler_look_ahead(struct serving_scheduler *s)
{
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        if (!take_whole(s, &s->slots[seq->slot], seq->count + 1))
            return false;
        seq->take++;
        serving_scheduler_slide(s, seq);
        seq->take--;
    }
    return true;
}

bool serving_scheduler_change(struct serving_scheduler *s, struct serving_change *out)
{
    uint32_t decoding = 0, left_out = 0, at = 0;

    *out = (struct serving_change){0};
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        if (!engine_sequence_decodes(seq))
            return false;
        decoding++;
        if (seq->take != 0)
            continue;
        if (left_out == SERVING_DIP_WIDTH)
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

struct serving_step serving_scheduler_part(struct serving_scheduler *s,
                                           const struct engine_sequence *seq)
{
    struct serving_slot *slot = &s->slots[seq->slot];
    struct serving_step step = {
        .slot = seq->slot,
        .position = seq->computed,
        .count = seq->take,
        .page_count = slot->page_count,
        .prompt = seq->prompt_count,
        .second = seq->second,
        .tokens = seq->ids + seq->computed,
        .snapshot_load = SERVING_NONE,
        .snapshot_save = SERVING_NONE,
    };

    for (uint32_t kind = 0; kind < s->cache.kinds; kind++)
        step.pages[kind] = slot->tables[kind];
    serving_state_part(&slot->state, &s->cache, seq, &step);
    return step;
}

void serving_scheduler_advance(struct serving_scheduler *s, uint64_t step_ns)
{
    serving_pace_measured(&s->pace, s->kind, s->shared.work, s->shared.is_full, step_ns);
    for (struct engine_sequence *seq = s->queue.running; seq != NULL; seq = seq->next) {
        bool took_part = seq->take != 0;
        seq->computed += seq->take;
        seq->take = 0;
        remember(s, seq);
        if (took_part)
            serving_state_computed(&s->slots[seq->slot].state, &s->cache, seq);
        serving_scheduler_slide(s, seq);
    }
}

/* ---- beginning and ending ---- */

lr_code serving_scheduler_init(struct serving_scheduler *s, const struct serving_plan *plan,
                               struct lr_error *err)
{
    *s = (struct serving_scheduler){.plan = *plan};
    serving_scheduler_set_pace(s, 0, SERVING_DEPTH_IS_FREE);
    s->slots = calloc(plan->max_sequences, sizeof(*s->slots));
    s->claims = calloc(plan->max_sequences, sizeof(*s->claims));
    if (s->slots == NULL || s->claims == NULL) {
        serving_scheduler_deinit(s);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u slots", plan->max_sequences);
    }
    for (uint32_t i = 0; i < plan->max_sequences; i++)
        serving_state_init(&s->slots[i].state);
    lr_code code = serving_cache_init(&s->cache, plan, err);
    if (code != LR_OK)
        serving_scheduler_deinit(s);
    return code;
}

void serving_scheduler_set_device(struct serving_scheduler *s,
                                  const struct serving_page_device *device)
{
    s->cache.device = *device;
    for (uint32_t kind = 0; kind < s->plan.kind_count; kind++)
        s->cache.pages[kind].least = s->plan.kinds[kind].least;
    s->cache.pages[SERVING_SNAPSHOTS].least = 0;
}

/* Pages have moved: writes their new numbers to the tables. */
static void renumber(struct serving_scheduler *s, uint32_t kind, const uint32_t *moved)
{
    uint32_t total = s->cache.pages[kind].total;

    for (uint32_t i = 0; i < s->plan.max_sequences; i++) {
        struct serving_slot *slot = &s->slots[i];
        if (kind == SERVING_SNAPSHOTS) {
            serving_state_renumber(&slot->state, total, moved);
            continue;
        }
        uint32_t *table = slot->tables[kind];
        for (uint32_t k = 0; k < slot->page_count; k++)
            if (table[k] != SERVING_NO_PAGE && table[k] >= total)
                table[k] = moved[table[k] - total];
    }
}

static void shrink(struct serving_scheduler *s, uint32_t kind)
{
    uint32_t *moved = serving_elastic_shrink(&s->cache, kind);

    if (moved != NULL)
        renumber(s, kind, moved);
    free(moved);
}

void serving_scheduler_limit(struct serving_scheduler *s, const struct serving_kv_share *share)
{
    for (uint32_t pool = 0; pool < SERVING_POOLS; pool++) {
        if (serving_plan_bytes(&s->plan, pool) == 0 && pool >= s->plan.kind_count)
            continue; /* no memory of the device */
        s->cache.pages[pool].limit = share->pages[pool];
        shrink(s, pool);
    }
}

void serving_scheduler_settle(struct serving_scheduler *s)
{
    /* The work grows with the pool: single pages wait until a part of it can go, or the last.
     */
    enum { PART = 32 };
    for (uint32_t kind = 0; kind < SERVING_POOLS; kind++) {
        const struct serving_pages *p = &s->cache.pages[kind];
        uint32_t excess = serving_elastic_excess(p, p->limit);
        if (excess != 0 && (excess >= p->total / PART || p->total - excess <= p->limit))
            shrink(s, kind);
    }
}

void serving_scheduler_set_lengths(struct serving_scheduler *s, struct serving_lengths lengths)
{
    s->lengths = lengths;
}

void serving_scheduler_set_pace(struct serving_scheduler *s, uint32_t target_gap_ms,
                                uint32_t depth_unit)
{
    serving_pace_init(&s->pace, s->plan.least_chunk, s->plan.prefill_chunk, target_gap_ms,
                      depth_unit);
    serving_pace_begin(&s->pace, s->plan.first_chunk);
}

void serving_scheduler_deinit(struct serving_scheduler *s)
{
    engine_queue_deinit(&s->queue);
    for (uint32_t i = 0; s->slots != NULL && i < s->plan.max_sequences; i++) {
        for (uint32_t kind = 0; kind < SERVING_KINDS_MAX; kind++)
            free(s->slots[i].tables[kind]);
    }
    free(s->slots);
    free(s->claims);
    serving_cache_deinit(&s->cache);
    *s = (struct serving_scheduler){0};
}

void serving_scheduler_end(struct serving_scheduler *s, struct engine_sequence *seq)
{
    if (seq->state == ENGINE_RUNNING)
        scheduler_leave(s, seq);
    engine_queue_end(&s->queue, seq);
}

/* ---- beside live sequences ---- */

/* Pages of the model, of a kind that covers all positions. */
static uint32_t scheduler_whole_pages(const struct serving_scheduler *s)
{
    uint32_t kind = 0;

    while (!is_whole(s, kind))
        kind++;
    return s->cache.pages[kind].total;
}

lr_code serving_scheduler_borrow(struct serving_scheduler *s, struct engine_sequence *seq,
                                 struct lr_error *err)
{
    while (!scheduler_enter(s, seq)) {
        struct engine_sequence *victim = engine_queue_last_running(&s->queue);
        if (victim == NULL)
            return lr_fail(err, LR_OUT_OF_RAM,
                           "%u tokens need %u pages of KV cache; the model has %u", seq->count,
                           scheduler_pages_for(s, seq->count), scheduler_whole_pages(s));
        suspend(s, victim);
    }
    return LR_OK;
}

void serving_scheduler_return(struct serving_scheduler *s, struct engine_sequence *seq)
{
    scheduler_leave(s, seq);
}
