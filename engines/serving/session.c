/* serving/session.c - see session.h: the callbacks of a step. */
#include "engines/serving/session.h"

#include "base/clock.h"
#include "base/errors.h"
#include "base/fail.h"

void engine_session_deinit(struct engine_session *s)
{
    while (s->ended != NULL) {
        struct engine_sequence *seq = s->ended;
        s->ended = seq->next;
        engine_sequence_destroy(seq);
    }
}

lr_code engine_session_alive(const struct engine_session *s, struct lr_error *err)
{
    return s->dead.code == LR_OK
               ? LR_OK
               : lr_fail(err, LR_INTERNAL, "the model is dead: %s", s->dead.text);
}

void engine_session_finish(struct engine_session *s, struct engine_sequence *seq,
                           enum lr_finish reason, const struct lr_error *error)
{
    const struct lr_usage usage = {
        .size = sizeof(usage),
        .prompt_tokens = seq->prompt_count,
        .completion_tokens = engine_sequence_generated(seq),
        .cached_tokens = seq->cached,
    };
    const struct lr_error none = {.code = LR_OK};

    s->release(s->ctx, seq);
    if (error != NULL)
        lr_error_tell(&s->host, error);
    s->host.on_done(s->host.ctx, seq->id, reason, &usage, error != NULL ? error : &none);
    /* The current step may still use the sequence. */
    if (s->stepping) {
        seq->next = s->ended;
        s->ended = seq;
    } else {
        engine_sequence_destroy(seq);
    }
}

static bool is_stop(const struct engine_session *s, const struct engine_sequence *seq,
                    uint32_t id)
{
    uint32_t flags;

    for (size_t i = 0; i < seq->stop_id_count; i++)
        if (seq->stop_ids[i] == id)
            return true;
    if (seq->ignore_stop)
        return false;
    (void)s->token(s->ctx, id, &flags);
    return (flags & LR_VOCAB_STOP) != 0;
}

/* True when the sequence was complete and has been ended. */
static bool finish_complete(struct engine_session *s, struct engine_sequence *seq)
{
    if (seq->kind != LR_REQUEST_GENERATE)
        return false;
    if (engine_sequence_generated(seq) > 0 && is_stop(s, seq, seq->ids[seq->count - 1]))
        engine_session_finish(s, seq, LR_FINISH_STOP, NULL);
    else if (seq->count >= seq->limit)
        engine_session_finish(s, seq, LR_FINISH_LENGTH, NULL);
    else
        return false;
    return true;
}

void engine_session_begin(struct engine_session *s)
{
    s->stepping = true;
    s->began_ns = lr_clock_ns(NULL);
    s->report = (struct lr_step_report){.size = sizeof(s->report)};
    for (struct engine_sequence *seq = s->queue->queued; seq != NULL;) {
        struct engine_sequence *next = seq->next;
        /* A callback may have changed the list: start from the beginning again. */
        seq = finish_complete(s, seq) ? s->queue->queued : next;
    }
}

void engine_session_enter(struct engine_session *s)
{
    enum { AT_ONCE = 64 };
    uint64_t ids[AT_ONCE];
    size_t count = 0;

    for (struct engine_sequence *seq = s->queue->running; seq != NULL; seq = seq->next) {
        if (seq->take == 0 || seq->has_entered)
            continue;
        seq->has_entered = true;
        ids[count++] = seq->id;
        if (count == AT_ONCE && s->host.on_enter != NULL)
            s->host.on_enter(s->host.ctx, ids, count);
        count %= AT_ONCE;
    }
    if (count != 0 && s->host.on_enter != NULL)
        s->host.on_enter(s->host.ctx, ids, count);
}

void engine_session_computed(struct engine_session *s, uint32_t sequences)
{
    s->step_count++;
    s->report.sequences = sequences;
    s->report.waiting = s->queue->live - sequences;
}

static void report_step(struct engine_session *s)
{
    struct lr_engine_stats stats = {.size = sizeof(stats)};

    s->stats(s->ctx, &stats);
    s->report.kv_bytes = stats.kv_bytes;
    s->report.kv_bytes_in_use = stats.kv_bytes_in_use;
    s->report.duration_ns = lr_elapsed(s->began_ns, lr_clock_ns(NULL));
    s->host.on_step(s->host.ctx, &s->report);
}

void engine_session_end(struct engine_session *s)
{
    if (s->report.sequences != 0 && s->host.on_step != NULL)
        report_step(s);
    s->stepping = false;
    engine_session_deinit(s);
}

/* Asks the worker which tokens may follow.  True: the mask is complete. */
static bool ask_for_mask(struct engine_session *s, struct engine_sequence *seq)
{
    size_t words = ((size_t)s->vocab + 31) / 32;
    const struct lr_engine_host *host = &s->host;
    struct lr_error error;
    int32_t ready = 1;

    memset(seq->mask, 0, words * sizeof(*seq->mask));
    lr_code code = host->try_mask != NULL
                       ? host->try_mask(host->ctx, seq->id, seq->mask, words, &ready)
                       : host->fill_mask(host->ctx, seq->id, seq->mask, words);
    if (seq->state == ENGINE_ENDED)
        return false;
    if (code == LR_OK)
        return ready != 0;
    lr_fail(&error, code, "no mask of legal tokens could be made for the constrained output");
    engine_session_finish(s, seq, LR_FINISH_ERROR, &error);
    return false;
}

bool engine_session_fill_mask(struct engine_session *s, struct engine_sequence *seq)
{
    if (seq->state != ENGINE_RUNNING)
        return false;
    if (seq->masked != seq->count && ask_for_mask(s, seq))
        seq->masked = seq->count;
    return seq->masked == seq->count;
}

void engine_session_fill_masks(struct engine_session *s, struct engine_sequence **list)
{
    uint32_t count = 0;

    for (struct engine_sequence *seq = s->queue->running; seq != NULL; seq = seq->next)
        if (seq->mask != NULL && engine_sequence_samples(seq))
            list[count++] = seq; /* callbacks may change the queue */
    for (uint32_t i = 0; i < count; i++)
        if (!engine_session_fill_mask(s, list[i]) && list[i]->state == ENGINE_RUNNING)
            list[i]->take--;
}

struct sampler_input engine_session_sample(const struct engine_sequence *seq)
{
    return (struct sampler_input){
        .sampling = &seq->sampling,
        .index = engine_sequence_generated(seq),
        .prompt_count = seq->prompt_count,
        .history_count = seq->count,
        .history = seq->ids,
        .mask = seq->mask,
    };
}

void engine_session_tell_prefill(struct engine_session *s, struct engine_sequence *seq)
{
    uint32_t done = seq->computed < seq->prompt_count ? seq->computed : seq->prompt_count;

    if (done <= seq->reported)
        return;
    s->prompt_tokens += done - seq->reported;
    s->report.prompt_tokens += done - seq->reported;
    seq->reported = done;
    if (s->host.on_prefill != NULL)
        s->host.on_prefill(s->host.ctx, seq->id, done, seq->prompt_count);
}

void engine_session_tell_token(struct engine_session *s, struct engine_sequence *seq,
                               const struct sampler_result *sampled)
{
    struct lr_error error;
    uint32_t flags;

    if (sampled->id == SAMPLER_NO_ID) {
        lr_fail(&error, LR_INTERNAL,
                "the model computed logits that are not finite behind %u tokens: a weight is "
                "damaged or too large: compare the files with those of the repository",
                seq->count);
        engine_session_finish(s, seq, LR_FINISH_ERROR, &error);
        return;
    }
    struct lr_str bytes = s->token(s->ctx, sampled->id, &flags);
    const struct lr_token token = {
        .size = sizeof(token),
        .id = sampled->id,
        .bytes = bytes.ptr,
        .len = (uint32_t)bytes.len,
        .special = (flags & LR_VOCAB_SPECIAL) != 0,
        .logprob = sampled->logprob,
        .top_count = sampled->top_count,
        .top = sampled->top,
    };

    if (!engine_sequence_append(seq, sampled->id)) {
        lr_fail(&error, LR_OUT_OF_RAM, "no memory for token %u of the answer",
                engine_sequence_generated(seq));
        engine_session_finish(s, seq, LR_FINISH_ERROR, &error);
        return;
    }
    s->generated_tokens++;
    s->report.generated_tokens++;
    s->host.on_token(s->host.ctx, seq->id, &token);
    if (seq->state != ENGINE_ENDED)
        (void)finish_complete(s, seq);
}
