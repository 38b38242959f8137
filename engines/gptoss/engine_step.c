/* gptoss/engine_step.c - one step: choose, compute, tell.
 *
 * Callbacks may cancel or submit.  A sequence that ends during a step is kept on the
 * `ended` list until the step is over, and GPTOSS_ENDED tells the loops to pass it by.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "engines/gptoss/engine_model.h"

static bool is_stop(const struct lr_engine_model *m, const struct gptoss_sequence *seq,
                    uint32_t id)
{
    for (size_t i = 0; i < seq->stop_id_count; i++)
        if (seq->stop_ids[i] == id)
            return true;
    return !seq->ignore_stop && gptoss_vocabulary_is_stop(&m->vocabulary, id);
}

/* Continuations may arrive complete: everything generated elsewhere, only the end not
 * yet told.  They end before they cost a step. */
static void finish_complete(struct lr_engine_model *m)
{
    struct gptoss_sequence *next;

    for (struct gptoss_sequence *seq = m->scheduler.queue; seq != NULL; seq = next) {
        next = seq->next;
        if (gptoss_sequence_generated(seq) > 0 && is_stop(m, seq, seq->ids[seq->count - 1]))
            gptoss_engine_finish(m, seq, LR_FINISH_STOP, NULL);
        else if (seq->count >= seq->limit)
            gptoss_engine_finish(m, seq, LR_FINISH_LENGTH, NULL);
        else
            continue;
        next = m->scheduler.queue; /* a callback may have changed the list */
    }
}

/* Asks the host for the mask where a token is to be drawn; false when it cannot say. */
static bool fill_mask(struct lr_engine_model *m, struct gptoss_sequence *seq)
{
    size_t words = ((size_t)m->vocabulary.rows + 31) / 32;

    if (seq->mask == NULL)
        return true;
    memset(seq->mask, 0, words * sizeof(*seq->mask));
    lr_code code = m->host.fill_mask(m->host.ctx, seq->id, seq->mask, words);
    if (code == LR_OK || seq->state == GPTOSS_ENDED)
        return true;
    struct lr_error error;
    lr_fail(&error, code, "no mask of legal tokens could be made for the constrained output");
    gptoss_engine_finish(m, seq, LR_FINISH_ERROR, &error);
    return false;
}

static void describe_sample(struct gptoss_sequence *seq)
{
    seq->sample = (struct gptoss_sample){
        .sampling = &seq->sampling,
        .index = gptoss_sequence_generated(seq),
        .prompt_count = seq->prompt_count,
        .history_count = seq->count,
        .history = seq->ids,
        .mask = seq->mask,
    };
}

static void ask_masks(struct lr_engine_model *m)
{
    uint32_t count = 0;

    for (struct gptoss_sequence *seq = m->scheduler.running; seq != NULL; seq = seq->next)
        if (seq->mask != NULL && seq->take > 0 && seq->computed + seq->take == seq->count)
            m->batch[count++] = seq;
    for (uint32_t i = 0; i < count; i++)
        if (m->batch[i]->state == GPTOSS_RUNNING)
            (void)fill_mask(m, m->batch[i]);
}

/* Lists the chosen sequences in m->batch and m->steps. */
static struct gptoss_batch build(struct lr_engine_model *m)
{
    struct gptoss_batch batch = {.steps = m->steps};

    for (struct gptoss_sequence *seq = m->scheduler.running; seq != NULL; seq = seq->next) {
        if (seq->take == 0)
            continue;
        bool draws = seq->computed + seq->take == seq->count;
        if (draws)
            describe_sample(seq);
        m->batch[batch.count] = seq;
        m->steps[batch.count++] = (struct gptoss_step){
            .slot = seq->slot,
            .position = seq->computed,
            .count = seq->take,
            .page_count = seq->page_count,
            .tokens = seq->ids + seq->computed,
            .full_pages = seq->full_pages,
            .window_pages = seq->window_pages,
            .sample = draws ? &seq->sample : NULL,
            .sampled = &seq->sampled,
        };
        batch.tokens += seq->take;
    }
    return batch;
}

static void tell_prefill(struct lr_engine_model *m, struct gptoss_sequence *seq)
{
    uint32_t done = seq->computed < seq->prompt_count ? seq->computed : seq->prompt_count;

    if (done <= seq->reported)
        return;
    m->prompt_tokens += done - seq->reported;
    seq->reported = done;
    if (m->host.on_prefill != NULL)
        m->host.on_prefill(m->host.ctx, seq->id, done, seq->prompt_count);
}

static void tell_token(struct lr_engine_model *m, struct gptoss_sequence *seq)
{
    uint32_t flags, id = seq->sampled.id;
    struct lr_str bytes = gptoss_vocabulary_bytes(&m->vocabulary, id, &flags);
    const struct lr_token token = {
        .size = sizeof(token),
        .id = id,
        .bytes = bytes.ptr,
        .len = (uint32_t)bytes.len,
        .special = (flags & LR_VOCAB_SPECIAL) != 0,
        .logprob = seq->sampled.logprob,
        .top_count = seq->sampled.top_count,
        .top = seq->sampled.top,
    };

    if (!gptoss_sequence_append(seq, id)) {
        struct lr_error error;
        lr_fail(&error, LR_OUT_OF_RAM, "no memory for token %u of the answer",
                gptoss_sequence_generated(seq));
        gptoss_engine_finish(m, seq, LR_FINISH_ERROR, &error);
        return;
    }
    m->generated_tokens++;
    m->host.on_token(m->host.ctx, seq->id, &token);
    if (seq->state == GPTOSS_ENDED)
        return;
    if (is_stop(m, seq, id))
        gptoss_engine_finish(m, seq, LR_FINISH_STOP, NULL);
    else if (seq->count >= seq->limit)
        gptoss_engine_finish(m, seq, LR_FINISH_LENGTH, NULL);
}

static void free_ended(struct lr_engine_model *m)
{
    while (m->ended != NULL) {
        struct gptoss_sequence *seq = m->ended;
        m->ended = seq->next;
        gptoss_sequence_destroy(seq);
    }
}

static lr_code compute(struct lr_engine_model *m, struct lr_error *err)
{
    if (gptoss_scheduler_choose(&m->scheduler) == 0)
        return LR_OK;
    ask_masks(m);
    struct gptoss_batch batch = build(m);
    if (batch.count == 0)
        return LR_OK;
    lr_code code = m->backend_api->forward(m->backend, &batch, err);
    if (code != LR_OK) {
        m->dead = *err;
        m->dead.code = err->code = LR_INTERNAL; /* sticky, whatever the device called it */
        return LR_INTERNAL;
    }
    gptoss_scheduler_advance(&m->scheduler);
    m->step_count++;
    for (uint32_t i = 0; i < batch.count; i++) {
        struct gptoss_sequence *seq = m->batch[i];
        if (seq->state == GPTOSS_RUNNING)
            tell_prefill(m, seq);
        if (seq->state == GPTOSS_RUNNING && m->steps[i].sample != NULL)
            tell_token(m, seq);
    }
    return LR_OK;
}

lr_code gptoss_engine_step(struct lr_engine_model *m, int32_t *busy, struct lr_error *err)
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

/* ---- logits ---- */

static lr_code logits_chunks(struct lr_engine_model *m, struct gptoss_sequence *seq, float *out,
                             struct lr_error *err)
{
    size_t vocab = m->vocabulary.rows;

    while (seq->computed < seq->count) {
        uint32_t left = seq->count - seq->computed;
        seq->take = left < m->plan.prefill_chunk ? left : m->plan.prefill_chunk;
        gptoss_scheduler_slide(&m->scheduler, seq);
        struct gptoss_step step = {
            .slot = seq->slot,
            .position = seq->computed,
            .count = seq->take,
            .page_count = seq->page_count,
            .tokens = seq->ids + seq->computed,
            .full_pages = seq->full_pages,
            .window_pages = seq->window_pages,
            .logits = out + seq->computed * vocab,
        };
        struct gptoss_batch batch = {&step, 1, step.count};
        lr_code code = m->backend_api->forward(m->backend, &batch, err);
        if (code != LR_OK) {
            m->dead = *err;
            m->dead.code = err->code = LR_INTERNAL;
            return LR_INTERNAL;
        }
        seq->computed += seq->take;
        seq->take = 0;
    }
    return LR_OK;
}

lr_code gptoss_engine_logits(struct lr_engine_model *m, const uint32_t *ids, size_t n,
                             float *out, struct lr_error *err)
{
    struct lr_engine_request request = {.size = sizeof(request)};
    struct gptoss_sequence *seq = NULL;

    if (m->dead.code != LR_OK)
        return lr_fail(err, LR_INTERNAL, "%s", m->dead.text);
    if (n == 0 || n > m->plan.max_context)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%zu tokens; the context holds 1 to %u", n,
                       m->plan.max_context);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= m->vocabulary.rows)
            return lr_fail(err, LR_INVALID_ARGUMENT, "token %u at place %zu; the model has %u",
                           ids[i], i, m->vocabulary.rows);
    lr_code code = gptoss_sequence_create(&request, ids, n, m->plan.max_context,
                                          m->plan.page_tokens, m->vocabulary.rows, &seq, err);
    if (code == LR_OK)
        code = gptoss_scheduler_borrow(&m->scheduler, seq, err);
    if (code == LR_OK) {
        code = logits_chunks(m, seq, out, err);
        gptoss_scheduler_return(&m->scheduler, seq);
    }
    gptoss_sequence_destroy(seq);
    return code;
}
