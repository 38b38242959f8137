/* serving/snapshots.c - see snapshots.h. */
#include "engines/serving/snapshots.h"

#include "engines/serving/elastic.h"

/* ---- places ---- */

/* The last end of a page that a prompt with this number of ids can continue from. */
static uint32_t last_end(const struct serving_cache *c, uint32_t ids)
{
    return ids == 0 ? 0 : (ids - 1) / c->page_tokens * c->page_tokens;
}

/* The first end of a page after `ids` that lies at or behind a multiple of the interval. */
static uint64_t next_regular(const struct serving_cache *c, uint32_t ids)
{
    uint64_t every = SERVING_SNAPSHOT_EVERY, page = c->page_tokens;
    uint64_t end = (ids / every * every + page - 1) / page * page;

    return end > ids ? end : ((ids / every + 1) * every + page - 1) / page * page;
}

static bool is_regular(const struct serving_cache *c, uint32_t ids)
{
    return next_regular(c, ids - 1) == ids;
}

static bool keeps_snapshots(const struct serving_cache *c, const struct engine_sequence *seq)
{
    const struct serving_pages *pool = &c->pages[SERVING_SNAPSHOTS];

    return c->has_state && seq->cache_scope != 0 &&
           (pool->total != 0 || serving_elastic_available(pool) != 0);
}

uint32_t serving_state_next(const struct serving_state *state, const struct serving_cache *c,
                            const struct engine_sequence *seq)
{
    uint32_t prompt = last_end(c, seq->prompt_count), all = last_end(c, seq->count);
    uint64_t regular = next_regular(c, seq->computed), next = UINT32_MAX;
    const uint64_t places[] = {prompt, prompt > c->page_tokens ? prompt - c->page_tokens : 0,
                               all, state->known, regular};

    if (!keeps_snapshots(c, seq))
        return UINT32_MAX;
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (places[i] > seq->computed && places[i] < next)
            next = places[i];
    return (uint32_t)next;
}

static bool is_place(const struct serving_state *state, const struct serving_cache *c,
                     const struct engine_sequence *seq)
{
    uint32_t end = seq->computed + seq->take;

    if (!keeps_snapshots(c, seq) || end % c->page_tokens != 0)
        return false;
    return engine_sequence_decodes(seq) || end == serving_state_next(state, c, seq);
}

/* ---- a sequence ---- */

void serving_state_init(struct serving_state *state)
{
    *state = (struct serving_state){.load = SERVING_NONE, .save = SERVING_NONE};
}

void serving_state_enter(struct serving_state *state, const struct serving_cache *c,
                         const struct serving_match *match)
{
    serving_state_init(state);
    state->load = match->snapshot;
    state->known = match->known * c->page_tokens;
}

void serving_state_leave(struct serving_state *state, struct serving_cache *c)
{
    if (state->load != SERVING_NONE)
        serving_cache_give(c, SERVING_SNAPSHOTS, state->load);
    if (state->save != SERVING_NONE)
        serving_cache_give(c, SERVING_SNAPSHOTS, state->save);
    serving_state_init(state);
}

void serving_state_part(struct serving_state *state, struct serving_cache *c,
                        const struct engine_sequence *seq, struct serving_step *step)
{
    if (state->save == SERVING_NONE && is_place(state, c, seq))
        state->save = serving_cache_take(c, SERVING_SNAPSHOTS);
    step->snapshot_load = state->load;
    step->snapshot_save = state->save;
}

/* The snapshot of an answer takes the place of the one before it. */
static void replace_answer(struct serving_state *state, struct serving_cache *c,
                           uint32_t snapshot)
{
    uint32_t memory = c->pages[SERVING_SNAPSHOTS].at[snapshot].memory;

    if (memory == SERVING_NONE)
        return; /* the block has one already */
    if (state->answer_name != 0 && c->memories[state->answer].name == state->answer_name)
        serving_cache_drop(c, SERVING_SNAPSHOTS,
                           c->memories[state->answer].page[SERVING_SNAPSHOTS]);
    state->answer = memory;
    state->answer_name = c->memories[memory].name;
}

void serving_state_computed(struct serving_state *state, struct serving_cache *c,
                            const struct engine_sequence *seq)
{
    uint32_t snapshot = state->save;

    if (state->load != SERVING_NONE)
        serving_cache_give(c, SERVING_SNAPSHOTS, state->load);
    state->load = state->save = SERVING_NONE;
    if (snapshot == SERVING_NONE)
        return;
    if (seq->computed > seq->prompt_count && !is_regular(c, seq->computed))
        replace_answer(state, c, snapshot);
    serving_cache_give(c, SERVING_SNAPSHOTS, snapshot);
}

void serving_state_renumber(struct serving_state *state, uint32_t total, const uint32_t *moved)
{
    if (state->load != SERVING_NONE && state->load >= total)
        state->load = moved[state->load - total];
    if (state->save != SERVING_NONE && state->save >= total)
        state->save = moved[state->save - total];
}
