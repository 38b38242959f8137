/* llamacpp/engine_step.c - one step: choose sequences, compute, sample, report.
 *
 * Callbacks may cancel or submit.  A sequence that ends during a step stays in memory until the
 * step is over (session.h); the loops skip ended sequences by their state.
 */
#include "base/fail.h"
#include "engines/llamacpp/model.h"

/* ---- computing ---- */

/* Puts the chosen tokens into the batch; m->batched lists its sequences. */
static uint32_t llama_step_build(struct lr_engine_model *m)
{
    struct llama_batch *b = &m->batch;
    uint32_t count = 0;

    b->n_tokens = 0;
    for (struct engine_sequence *seq = m->scheduler.queue.running; seq != NULL;
         seq = seq->next) {
        if (seq->take == 0)
            continue;
        bool samples = engine_sequence_samples(seq);
        for (uint32_t i = 0; i < seq->take; i++, b->n_tokens++) {
            b->token[b->n_tokens] = (llama_token)seq->ids[seq->computed + i];
            b->pos[b->n_tokens] = (llama_pos)(seq->computed + i);
            b->n_seq_id[b->n_tokens] = 1;
            b->seq_id[b->n_tokens][0] = (llama_seq_id)seq->slot;
            b->logits[b->n_tokens] = m->plan.is_vector; /* libllama pools only outputs */
        }
        m->rows[count] = samples ? b->n_tokens - 1 : -1;
        if (samples)
            b->logits[b->n_tokens - 1] = 1;
        m->batched[count++] = seq;
    }
    return count;
}

static lr_code die(struct lr_engine_model *m, int32_t result, struct lr_error *err)
{
    char complaint[256];

    llamacpp_library_complaint(complaint, sizeof(complaint));
    lr_fail(&m->session.dead, LR_INTERNAL, "llama_decode() failed with %d: %s", result,
            complaint);
    return lr_fail(err, LR_INTERNAL, "%s", m->session.dead.text);
}

/* libllama found no cells for the batch and left its cache unchanged.  By our count there were
 * enough, but a cache with windows or recurrent states may count differently. */
static void llama_step_make_room(struct lr_engine_model *m)
{
    struct lr_error error;

    for (struct engine_sequence *seq = m->scheduler.queue.running; seq != NULL; seq = seq->next)
        seq->take = 0;
    if (llamacpp_scheduler_preempt(&m->scheduler))
        return;
    lr_fail(&error, m->plan.on_device ? LR_OUT_OF_VRAM : LR_OUT_OF_RAM,
            "the KV cache of %llu tokens has no room for this request: raise max_tokens",
            (unsigned long long)m->plan.kv_tokens);
    if (m->scheduler.queue.running != NULL)
        engine_session_finish(&m->session, m->scheduler.queue.running, LR_FINISH_ERROR, &error);
}

/* ---- reporting ---- */

/* The rows of logits stay valid in libllama until the next decode. */
static void sample(struct lr_engine_model *m, struct engine_sequence *seq, int32_t row)
{
    struct sampler_result sampled;
    const float *logits = m->lib->llama_get_logits_ith(m->context, row);
    struct lr_error error;

    if (logits == NULL) {
        lr_fail(&error, LR_INTERNAL, "libllama gives no logits for row %d", row);
        engine_session_finish(&m->session, seq, LR_FINISH_ERROR, &error);
        return;
    }
    const struct sampler_input how = engine_session_sample(seq);
    sampler_sample(m->sampler, logits, m->vocabulary.usable, &how, &sampled);
    engine_session_tell_token(&m->session, seq, &sampled);
}

/* ---- the step ---- */

static lr_code engine_step_compute(struct lr_engine_model *m, struct lr_error *err)
{
    if (llamacpp_scheduler_choose(&m->scheduler) == 0)
        return LR_OK;
    engine_session_enter(&m->session);
    engine_session_fill_masks(&m->session, m->batched);
    uint32_t count = llama_step_build(m);
    if (count == 0)
        return LR_OK;
    llamacpp_library_forget_complaint();
    int32_t result = m->header.has_cache ? m->lib->llama_decode(m->context, m->batch)
                                         : m->lib->llama_encode(m->context, m->batch);
    if (result == 1) {
        llama_step_make_room(m);
        return LR_OK;
    }
    if (result != 0)
        return die(m, result, err);
    engine_session_computed(&m->session, count);
    for (uint32_t i = 0; i < count; i++) {
        m->batched[i]->computed += m->batched[i]->take;
        m->batched[i]->take = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct engine_sequence *seq = m->batched[i];
        if (seq->state == ENGINE_RUNNING)
            engine_session_tell_prefill(&m->session, seq);
        if (seq->state != ENGINE_RUNNING || m->rows[i] < 0)
            continue;
        if (m->plan.is_vector)
            llamacpp_vector_tell(m, seq);
        else
            sample(m, seq, m->rows[i]);
    }
    return LR_OK;
}

lr_code llamacpp_engine_step(struct lr_engine_model *m, int32_t *busy, struct lr_error *err)
{
    *busy = 0;
    lr_code code = engine_session_alive(&m->session, err);
    if (code != LR_OK)
        return code;
    engine_session_begin(&m->session);
    code = engine_step_compute(m, err);
    engine_session_end(&m->session);
    *busy = m->scheduler.queue.live > 0 ? 1 : 0;
    return code;
}
