/* serving/ahead.c - a step is launched before the host has seen the tokens of the step
 * before it.
 *
 * The tokens stay on the device: a step whose sequences all decode, none of them with a mask or
 * another need of the host, is begun while the step before it is computed.  So the device does
 * not wait while the host reads tokens, tells them and prepares.
 *
 * A step that is ahead is a guess.  Nothing in the scheduler says that it was computed until it
 * is finished, so its results can be dropped at any time: the same tokens are then computed
 * again.  Results are dropped
 *   - of a sequence that ended meanwhile (end token, cancelled): one row of one step is wasted;
 *   - of a sequence that lost its pages, or whose token the device could not sample.
 * Pages of a sequence that ended may be given to others while the device still writes its
 * surplus token: that position is in no cached page, and a later step writes later.
 *
 * A model with recurrent state has no step ahead: its state cannot take a token back.
 *
 * No step is ahead while a request waits to be admitted: it would wait for that step too.
 */
#include "base/clock.h"
#include "engines/serving/model.h"

/* True when the results of the step belong to the sequence as it is now. */
static bool is_current(const struct serving_round *r, uint32_t i)
{
    const struct engine_sequence *seq = r->batch[i];

    return seq != NULL && seq->state == ENGINE_RUNNING &&
           seq->computed == r->steps[i].position && seq->count == seq->computed + 1;
}

/* True when the sequences of the next step are known, whatever their tokens are. */
static bool can_follow(struct lr_engine_model *m, struct serving_change *change)
{
    const struct engine_queue *q = &m->scheduler.queue;
    const struct serving_round *r = &m->round;

    if (q->queued != NULL || q->reading != NULL || m->needs_forward)
        return false;
    for (uint32_t i = 0; i < r->count; i++)
        if (!is_current(r, i) || r->batch[i]->count + 1 >= r->batch[i]->limit)
            return false;
    return serving_scheduler_look_ahead(&m->scheduler) &&
           serving_scheduler_change(&m->scheduler, change);
}

/* Fills place i of the next step.  A sequence that was left out takes the place of a sequence
 * that waits now, and brings its token.  Every other sequence keeps its place; its token is the
 * result of the step before at that place. */
static void ahead_place(struct lr_engine_model *m, uint32_t i,
                        const struct serving_change *change)
{
    struct serving_round *next = &m->next;
    struct engine_sequence *seq = m->round.batch[i];
    bool stays = true;

    for (uint32_t k = 0; k < change->count && stays; k++)
        if (seq == change->wait[k]) {
            seq = change->come[k];
            stays = false;
        }
    struct serving_step *step = &next->steps[i];
    next->batch[i] = seq;
    next->samples[i] = engine_session_sample(seq);
    next->samples[i].index += stays ? 1 : 0;
    *step = serving_scheduler_part(&m->scheduler, seq);
    step->position += stays ? 1 : 0;
    step->count = 1;
    step->tokens = stays ? NULL : step->tokens;
    step->sample = &next->samples[i];
    step->sampled = &next->sampled[i];
}

/* Begins the step behind m->round, if it can be. */
static lr_code ahead_follow(struct lr_engine_model *m, struct lr_error *err)
{
    struct serving_round *next = &m->next;
    struct serving_change change;
    struct lr_error ignored;

    if (!can_follow(m, &change))
        return LR_OK;
    next->count = m->round.count;
    for (uint32_t i = 0; i < next->count; i++)
        ahead_place(m, i, &change);
    next->began_ns = lr_clock_ns(NULL);
    const struct serving_batch batch = {
        .steps = next->steps, .count = next->count, .tokens = next->count, .follows = 1};
    lr_code code = m->backend_api->begin(m->backend, &batch, &ignored);
    if (code == LR_UNSUPPORTED)
        return LR_OK;
    if (code != LR_OK)
        *err = ignored;
    else
        m->rounds_in_flight++;
    return code;
}

lr_code serving_ahead_begin(struct lr_engine_model *m, const struct serving_batch *batch,
                            struct lr_error *err)
{
    if (m->backend_api->begin == NULL || m->needs_forward || m->plan.state_bytes != 0)
        return LR_UNSUPPORTED;
    lr_code code = m->backend_api->begin(m->backend, batch, err);
    if (code != LR_OK)
        return code;
    m->rounds_in_flight = 1;
    return ahead_follow(m, err);
}

lr_code serving_ahead_resume(struct lr_engine_model *m, uint32_t *live, struct lr_error *err)
{
    struct serving_round *r = &m->round;

    *live = 0;
    for (uint32_t i = 0; i < r->count; i++) {
        if (!is_current(r, i)) {
            r->batch[i] = NULL;
            continue;
        }
        r->batch[i]->take = 1;
        ++*live;
    }
    return *live != 0 ? ahead_follow(m, err) : LR_OK;
}

lr_code serving_ahead_finish(struct lr_engine_model *m, struct lr_error *err)
{
    m->rounds_in_flight--;
    return m->backend_api->finish(m->backend, err);
}

void serving_ahead_pass(struct lr_engine_model *m)
{
    struct serving_round told = m->round;

    if (m->rounds_in_flight == 0)
        return;
    m->round = m->next;
    m->next = told;
}

void serving_ahead_forget(struct lr_engine_model *m, const struct engine_sequence *seq)
{
    struct serving_round *rounds[] = {&m->round, &m->next};

    /* During a step an ended sequence stays in memory, and the loops look at its state; but a
     * round that is ahead outlives the step. */
    for (uint32_t k = m->session.stepping ? 1 : 0; k < 2; k++)
        for (uint32_t i = 0; i < rounds[k]->count; i++)
            if (rounds[k]->batch[i] == seq)
                rounds[k]->batch[i] = NULL;
}
