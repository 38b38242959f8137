/* serving/step.c - one step: choose sequences, compute, report.
 *
 * Callbacks may cancel or submit.  A sequence that ends during a step stays in memory until the
 * step is over (session.h); the loops skip sequences in state ENGINE_ENDED.
 */
#include "base/clock.h"
#include "base/fail.h"
#include "engines/serving/model.h"

/* Lists the chosen sequences in m->round. */
static struct serving_batch step_build(struct lr_engine_model *m)
{
    struct serving_round *r = &m->round;
    struct serving_batch batch = {.steps = r->steps};

    for (struct engine_sequence *seq = m->scheduler.queue.running; seq != NULL;
         seq = seq->next) {
        if (seq->take == 0)
            continue;
        uint32_t i = batch.count++;
        r->samples[i] = engine_session_sample(seq);
        r->batch[i] = seq;
        r->steps[i] = serving_scheduler_part(&m->scheduler, seq);
        bool ends = engine_sequence_samples(seq);
        bool generates = seq->kind == LR_REQUEST_GENERATE;
        r->steps[i].sample = ends && generates ? &r->samples[i] : NULL;
        r->steps[i].vector =
            ends && !generates ? r->vectors + (size_t)i * m->session.dimensions : NULL;
        r->steps[i].sampled = &r->sampled[i];
        batch.tokens += seq->take;
    }
    r->count = batch.count;
    r->began_ns = lr_clock_ns(NULL);
    return batch;
}

lr_code serving_engine_die(struct lr_engine_model *m, struct lr_error *err)
{
    m->session.dead = *err;
    m->session.dead.code = err->code = LR_INTERNAL;
    return LR_INTERNAL;
}

/* While the device computes: a step whose mask is not ready is not sampled. */
static void step_fill_masks(void *ctx)
{
    struct lr_engine_model *m = ctx;
    struct serving_round *r = &m->round;

    for (uint32_t i = 0; i < r->count; i++)
        if (r->steps[i].sample != NULL && r->batch[i]->mask != NULL &&
            !engine_session_fill_mask(&m->session, r->batch[i]))
            r->steps[i].sample = NULL;
}

/* The last token of a step that was not sampled is computed again in the next step. */
static void take_back(struct lr_engine_model *m)
{
    const struct serving_round *r = &m->round;

    for (uint32_t i = 0; i < r->count; i++)
        if (r->batch[i] != NULL && r->batch[i]->state == ENGINE_RUNNING &&
            r->steps[i].sample == NULL && r->steps[i].vector == NULL &&
            engine_sequence_samples(r->batch[i]))
            r->batch[i]->take--;
}

/* Takes over the prompts that were tokenized meanwhile. */
static void take_texts(struct lr_engine_model *m)
{
    struct serving_text *text;

    while ((text = serving_reading_take(&m->reading)) != NULL) {
        struct engine_sequence *seq = m->scheduler.queue.reading;
        while (seq != NULL && seq->arrival != text->number)
            seq = seq->next;
        if (seq != NULL)
            engine_session_read(&m->session, seq, text->ids.items, text->ids.count, text->code,
                                &text->err);
        serving_text_destroy(text);
    }
}

/* Chooses sequences and computes their step, or begins it (m->rounds_in_flight).  *sequences:
 * how many. */
static lr_code step_start(struct lr_engine_model *m, uint32_t *sequences, struct lr_error *err)
{
    enum { LOOK_US = 1000 }; /* the caller looks for new requests as often */
    /* A state takes in a token once: a step that may be computed again is not for it. */
    bool late = m->plan.late_masks != 0 && m->plan.state_bytes == 0;

    *sequences = 0;
    if (serving_scheduler_choose(&m->scheduler) == 0) {
        serving_reading_await(&m->reading, LOOK_US);
        return LR_OK;
    }
    engine_session_enter(&m->session);
    if (!late)
        engine_session_fill_masks(&m->session, m->round.batch);
    struct serving_batch batch = step_build(m);
    if (batch.count == 0)
        return LR_OK;
    *sequences = batch.count;
    lr_code code = serving_ahead_begin(m, &batch, err);
    if (code != LR_UNSUPPORTED)
        return code;
    if (late) {
        batch.fill_masks = step_fill_masks;
        batch.ctx = m;
    }
    m->needs_forward = false;
    return m->backend_api->forward(m->backend, &batch, err);
}

/* The tokens of the round. */
static void step_tell(struct lr_engine_model *m, uint32_t sequences)
{
    const struct serving_round *r = &m->round;

    engine_session_computed(&m->session, sequences);
    for (uint32_t i = 0; i < r->count; i++) {
        struct engine_sequence *seq = r->batch[i];
        if (seq == NULL)
            continue;
        if (seq->state == ENGINE_RUNNING)
            engine_session_tell_prefill(&m->session, seq);
        if (seq->state == ENGINE_RUNNING && r->steps[i].sample != NULL)
            engine_session_tell_token(&m->session, seq, &r->sampled[i]);
        if (seq->state == ENGINE_RUNNING && r->steps[i].vector != NULL)
            engine_session_tell_vector(&m->session, seq, r->steps[i].vector,
                                       m->session.dimensions);
    }
}

static lr_code compute(struct lr_engine_model *m, struct lr_error *err)
{
    uint32_t sequences = 0;
    lr_code code = LR_OK;

    if (m->rounds_in_flight != 0)
        code = serving_ahead_resume(m, &sequences, err);
    if (code == LR_OK && m->rounds_in_flight != 0 && sequences == 0)
        code = serving_ahead_finish(m, err); /* all its sequences have ended */
    if (code == LR_OK && m->rounds_in_flight == 0)
        code = step_start(m, &sequences, err);
    if (code == LR_OK && sequences != 0 && m->rounds_in_flight != 0) {
        code = serving_ahead_finish(m, err);
        for (uint32_t i = 0; i < m->round.count; i++)
            m->needs_forward = m->needs_forward || m->round.steps[i].sample == NULL;
    }
    if (code != LR_OK)
        return serving_engine_die(m, err);
    if (sequences == 0)
        return LR_OK;
    take_back(m);
    serving_scheduler_advance(&m->scheduler, lr_clock_ns(NULL) - m->round.began_ns);
    step_tell(m, sequences);
    serving_ahead_pass(m);
    return LR_OK;
}

lr_code serving_engine_step(struct lr_engine_model *m, int32_t *busy, struct lr_error *err)
{
    *busy = 0;
    lr_code code = engine_session_alive(&m->session, err);
    if (code != LR_OK)
        return code;
    take_texts(m); /* before begin: a continuation may be complete */
    engine_session_begin(&m->session);
    code = compute(m, err);
    engine_session_end(&m->session);
    if (code == LR_OK) {
        serving_scheduler_settle(&m->scheduler);
        code = engine_session_alive(&m->session, err); /* the pages' memory may have failed */
    }
    *busy = m->scheduler.queue.live > 0 ? 1 : 0;
    return code;
}
