/* llamacpp/engine_step.c - one step: choose, compute, draw, tell.
 *
 * Callbacks may cancel or submit.  A sequence that ends during a step is kept on the
 * `ended` list until the step is over, and LLAMACPP_ENDED tells the loops to pass it by.
 */
#include <string.h>

#include "base/fail.h"
#include "engines/llamacpp/model.h"

static bool is_stop(const struct lr_engine_model *m, const struct llamacpp_sequence *seq,
                    uint32_t id)
{
    for (size_t i = 0; i < seq->stop_id_count; i++)
        if (seq->stop_ids[i] == id)
            return true;
    return !seq->ignore_stop && (m->vocabulary.flags[id] & LR_VOCAB_STOP) != 0;
}

/* Continuations may arrive complete: everything generated elsewhere, only the end not
 * yet told.  They end before they cost a step. */
static void finish_complete(struct lr_engine_model *m)
{
    struct llamacpp_sequence *next;

    for (struct llamacpp_sequence *seq = m->scheduler.queue; seq != NULL; seq = next) {
        next = seq->next;
        if (llamacpp_sequence_generated(seq) > 0 && is_stop(m, seq, seq->ids[seq->count - 1]))
            llamacpp_engine_finish(m, seq, LR_FINISH_STOP, NULL);
        else if (seq->count >= seq->limit)
            llamacpp_engine_finish(m, seq, LR_FINISH_LENGTH, NULL);
        else
            continue;
        next = m->scheduler.queue; /* a callback may have changed the list */
    }
}

/* ---- computing ---- */

/* Puts what was chosen into the batch; m->drawn lists the sequences in it. */
static uint32_t build(struct lr_engine_model *m)
{
    struct llama_batch *b = &m->batch;
    uint32_t count = 0;

    b->n_tokens = 0;
    for (struct llamacpp_sequence *seq = m->scheduler.running; seq != NULL; seq = seq->next) {
        if (seq->take == 0)
            continue;
        bool draws = seq->computed + seq->take == seq->count;
        for (uint32_t i = 0; i < seq->take; i++, b->n_tokens++) {
            b->token[b->n_tokens] = (llama_token)seq->ids[seq->computed + i];
            b->pos[b->n_tokens] = (llama_pos)(seq->computed + i);
            b->n_seq_id[b->n_tokens] = 1;
            b->seq_id[b->n_tokens][0] = (llama_seq_id)seq->slot;
            b->logits[b->n_tokens] = 0;
        }
        seq->row = draws ? b->n_tokens - 1 : -1;
        if (draws)
            b->logits[b->n_tokens - 1] = 1;
        m->drawn[count++] = seq;
    }
    return count;
}

static lr_code die(struct lr_engine_model *m, int32_t result, struct lr_error *err)
{
    char complaint[256];

    llamacpp_library_complaint(complaint, sizeof(complaint));
    lr_fail(&m->dead, LR_INTERNAL, "llama_decode() failed with %d: %s", result, complaint);
    return lr_fail(err, LR_INTERNAL, "%s", m->dead.text);
}

/* libllama found no cells for the batch, and left its cache as it was.  By our count
 * there were enough; a cache with windows or states of its own may count otherwise. */
static void make_room(struct lr_engine_model *m)
{
    struct lr_error error;

    for (struct llamacpp_sequence *seq = m->scheduler.running; seq != NULL; seq = seq->next)
        seq->take = 0;
    if (llamacpp_scheduler_yield(&m->scheduler))
        return;
    lr_fail(&error, m->plan.on_device ? LR_OUT_OF_VRAM : LR_OUT_OF_RAM,
            "the KV cache of %llu tokens has no room for this request: raise max_tokens",
            (unsigned long long)m->plan.kv_tokens);
    if (m->scheduler.running != NULL)
        llamacpp_engine_finish(m, m->scheduler.running, LR_FINISH_ERROR, &error);
}

/* ---- telling ---- */

static void tell_prefill(struct lr_engine_model *m, struct llamacpp_sequence *seq)
{
    uint32_t done = seq->computed < seq->prompt_count ? seq->computed : seq->prompt_count;

    if (done <= seq->reported)
        return;
    m->prompt_tokens += done - seq->reported;
    seq->reported = done;
    if (m->host.on_prefill != NULL)
        m->host.on_prefill(m->host.ctx, seq->id, done, seq->prompt_count);
}

/* Asks the host which tokens are legal; false when the sequence ended over it. */
static bool fill_mask(struct lr_engine_model *m, struct llamacpp_sequence *seq)
{
    size_t words = ((size_t)m->vocabulary.count + 31) / 32;
    struct lr_error error;

    if (seq->mask == NULL)
        return true;
    memset(seq->mask, 0, words * sizeof(*seq->mask));
    lr_code code = m->host.fill_mask(m->host.ctx, seq->id, seq->mask, words);
    if (seq->state == LLAMACPP_ENDED)
        return false;
    if (code == LR_OK)
        return true;
    lr_fail(&error, code, "no mask of legal tokens could be made for the constrained output");
    llamacpp_engine_finish(m, seq, LR_FINISH_ERROR, &error);
    return false;
}

static void tell_token(struct lr_engine_model *m, struct llamacpp_sequence *seq,
                       const struct gptoss_sampled *sampled)
{
    uint32_t id = sampled->id;
    struct lr_str bytes = llamacpp_vocabulary_bytes(&m->vocabulary, id);
    const struct lr_token token = {
        .size = sizeof(token),
        .id = id,
        .bytes = bytes.ptr,
        .len = (uint32_t)bytes.len,
        .special = (m->vocabulary.flags[id] & LR_VOCAB_SPECIAL) != 0,
        .logprob = sampled->logprob,
        .top_count = sampled->top_count,
        .top = sampled->top,
    };

    if (!llamacpp_sequence_append(seq, id)) {
        struct lr_error error;
        lr_fail(&error, LR_OUT_OF_RAM, "no memory for token %u of the answer",
                llamacpp_sequence_generated(seq));
        llamacpp_engine_finish(m, seq, LR_FINISH_ERROR, &error);
        return;
    }
    m->generated_tokens++;
    m->host.on_token(m->host.ctx, seq->id, &token);
    if (seq->state == LLAMACPP_ENDED)
        return;
    if (is_stop(m, seq, id))
        llamacpp_engine_finish(m, seq, LR_FINISH_STOP, NULL);
    else if (seq->count >= seq->limit)
        llamacpp_engine_finish(m, seq, LR_FINISH_LENGTH, NULL);
}

/* The rows of logits stay in libllama until the next decode. */
static void draw(struct lr_engine_model *m, struct llamacpp_sequence *seq)
{
    struct gptoss_sampled sampled;
    const float *row = m->lib->llama_get_logits_ith(m->context, seq->row);
    struct lr_error error;

    if (row == NULL) {
        lr_fail(&error, LR_INTERNAL, "libllama gives no logits for row %d", seq->row);
        llamacpp_engine_finish(m, seq, LR_FINISH_ERROR, &error);
        return;
    }
    if (!fill_mask(m, seq))
        return;
    const struct gptoss_sample how = {
        .sampling = &seq->sampling,
        .index = llamacpp_sequence_generated(seq),
        .prompt_count = seq->prompt_count,
        .history_count = seq->count,
        .history = seq->ids,
        .mask = seq->mask,
    };
    gptoss_sample(m->sampler, row, m->vocabulary.usable, &how, &sampled);
    tell_token(m, seq, &sampled);
}

/* ---- the step ---- */

static lr_code compute(struct lr_engine_model *m, struct lr_error *err)
{
    if (llamacpp_scheduler_choose(&m->scheduler) == 0)
        return LR_OK;
    uint32_t count = build(m);
    llamacpp_library_forget_complaint();
    int32_t result = m->lib->llama_decode(m->context, m->batch);
    if (result == 1) {
        make_room(m);
        return LR_OK;
    }
    if (result != 0)
        return die(m, result, err);
    m->step_count++;
    for (uint32_t i = 0; i < count; i++) {
        m->drawn[i]->computed += m->drawn[i]->take;
        m->drawn[i]->take = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct llamacpp_sequence *seq = m->drawn[i];
        if (seq->state == LLAMACPP_RUNNING)
            tell_prefill(m, seq);
        if (seq->state == LLAMACPP_RUNNING && seq->row >= 0)
            draw(m, seq);
    }
    return LR_OK;
}

static void free_ended(struct lr_engine_model *m)
{
    while (m->ended != NULL) {
        struct llamacpp_sequence *seq = m->ended;
        m->ended = seq->next;
        llamacpp_sequence_destroy(seq);
    }
}

lr_code llamacpp_engine_step(struct lr_engine_model *m, int32_t *busy, struct lr_error *err)
{
    *busy = 0;
    if (m->dead.code != LR_OK)
        return lr_fail(err, LR_INTERNAL, "%s", m->dead.text);
    m->stepping = true;
    finish_complete(m);
    lr_code code = compute(m, err);
    m->stepping = false;
    free_ended(m);
    *busy = m->scheduler.live > 0 ? 1 : 0;
    return code;
}
