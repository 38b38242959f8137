/* llamacpp/engine_request.c - requests: checked and taken in, tokenized, ended. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "engines/llamacpp/model.h"

/* ---- tokenizing ---- */

/* More bytes than this cannot fit whatever they say, so they are not tokenized at all:
 * it bounds the time that a submit can take. */
static size_t text_limit(const struct lr_engine_model *m)
{
    uint64_t bytes = (uint64_t)m->plan.max_context * m->vocabulary.longest;

    return bytes < INT32_MAX / 4 ? (size_t)bytes : INT32_MAX / 4;
}

lr_code llamacpp_engine_tokenize(const struct lr_engine_model *m,
                                 const struct lr_segment *segments, size_t segment_count,
                                 uint32_t *ids, size_t capacity, size_t *count,
                                 struct lr_error *err)
{
    struct llamacpp_ids list;
    lr_code code =
        llamacpp_tokenize(&m->vocabulary, segments, segment_count, INT32_MAX / 4, &list, err);

    *count = 0;
    if (code != LR_OK)
        return code;
    *count = list.count;
    size_t n = list.count < capacity ? list.count : capacity;
    if (n > 0)
        memcpy(ids, list.items, n * sizeof(*ids));
    free(list.items);
    return LR_OK;
}

/* ---- checking ---- */

static lr_code check_ids(const struct lr_engine_model *m, const char *what, const uint32_t *ids,
                         size_t count, struct lr_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= m->vocabulary.count)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "%s: token %u at place %zu; the model has %u", what, ids[i], i,
                           m->vocabulary.count);
    return LR_OK;
}

static lr_code check_sampling(const struct lr_sampling *p, struct lr_error *err)
{
    const struct {
        const char *name;
        float value, low, high;
    } ranges[] = {
        {"temperature", p->temperature, 0.0f, 100.0f},
        {"top_p", p->top_p, 0.0f, 1.0f},
        {"min_p", p->min_p, 0.0f, 1.0f},
        {"repetition_penalty", p->repetition_penalty, 0.0f, 100.0f},
        {"presence_penalty", p->presence_penalty, -100.0f, 100.0f},
        {"frequency_penalty", p->frequency_penalty, -100.0f, 100.0f},
    };

    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (!(ranges[i].value >= ranges[i].low && ranges[i].value <= ranges[i].high))
            return lr_fail(err, LR_INVALID_ARGUMENT, "%s is %g; it must lie in %g to %g",
                           ranges[i].name, (double)ranges[i].value, (double)ranges[i].low,
                           (double)ranges[i].high);
    for (uint32_t i = 0; i < p->logit_bias_count; i++)
        if (isnan(p->logit_bias[i].bias))
            return lr_fail(err, LR_INVALID_ARGUMENT, "logit_bias of token %u is not a number",
                           p->logit_bias[i].token);
    if (p->top_logprobs > GPTOSS_TOP_LOGPROBS_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "top_logprobs is %u; the limit is %d",
                       p->top_logprobs, GPTOSS_TOP_LOGPROBS_MAX);
    return LR_OK;
}

static lr_code too_long(const struct lr_engine_model *m, uint64_t amount, const char *unit,
                        struct lr_error *err)
{
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "the prompt has %llu %s; the context holds %u tokens, and at least one must "
                   "be left for the answer: shorten the conversation",
                   (unsigned long long)amount, unit, m->plan.max_context);
}

static lr_code check(const struct lr_engine_model *m, const struct lr_engine_request *r,
                     size_t prompt, struct lr_error *err)
{
    uint64_t total = (uint64_t)prompt + r->generated_count;

    if (prompt == 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the prompt is empty");
    if (total >= m->plan.max_context)
        return too_long(m, total, "tokens", err);
    if (r->constrained && m->host.fill_mask == NULL)
        return lr_fail(err, LR_UNSUPPORTED, "constrained output is not offered by this host");
    if (llamacpp_scheduler_find(&m->scheduler, r->id) != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "request %llu is already running",
                       (unsigned long long)r->id);
    return check_ids(m, "generated", r->generated, r->generated_count, err);
}

/* ---- submit, cancel, finish ---- */

static lr_code enqueue(struct lr_engine_model *m, const struct lr_engine_request *r,
                       const uint32_t *ids, size_t count, struct lr_error *err)
{
    struct llamacpp_sequence *seq = NULL;
    lr_code code = check_ids(m, "prompt", ids, count, err);

    if (code == LR_OK)
        code = check(m, r, count, err);
    if (code == LR_OK)
        code = llamacpp_sequence_create(r, ids, count, m->plan.max_context, m->vocabulary.count,
                                        &seq, err);
    if (code == LR_OK)
        llamacpp_scheduler_add(&m->scheduler, seq);
    return code;
}

static lr_code submit_text(struct lr_engine_model *m, const struct lr_engine_request *r,
                           struct lr_error *err)
{
    struct llamacpp_ids list;
    uint64_t bytes = 0;

    for (size_t i = 0; i < r->segment_count; i++)
        bytes += r->segments[i].len;
    if (bytes > text_limit(m))
        return too_long(m, bytes, "bytes", err);
    lr_code code = llamacpp_tokenize(&m->vocabulary, r->segments, r->segment_count,
                                     text_limit(m), &list, err);
    if (code != LR_OK)
        return code;
    code = enqueue(m, r, list.items, list.count, err);
    free(list.items);
    return code;
}

lr_code llamacpp_engine_submit(struct lr_engine_model *m,
                               const struct lr_engine_request *request, struct lr_error *err)
{
    struct lr_engine_request r;

    LLAMACPP_COPY_SIZED(&r, request);
    if (m->dead.code != LR_OK)
        return lr_fail(err, LR_INTERNAL, "the model is dead: %s", m->dead.text);
    if (r.kind != LR_REQUEST_GENERATE)
        return lr_fail(err, LR_UNSUPPORTED, "requests of kind %u are not offered", r.kind);
    lr_code code = check_sampling(&r.sampling, err);
    if (code != LR_OK)
        return code;
    return r.prompt_ids != NULL ? enqueue(m, &r, r.prompt_ids, r.prompt_id_count, err)
                                : submit_text(m, &r, err);
}

void llamacpp_engine_finish(struct lr_engine_model *m, struct llamacpp_sequence *seq,
                            enum lr_finish reason, const struct lr_error *error)
{
    const struct lr_usage usage = {
        .size = sizeof(usage),
        .prompt_tokens = seq->prompt_count,
        .completion_tokens = llamacpp_sequence_generated(seq),
    };
    const struct lr_error none = {.code = LR_OK};

    llamacpp_scheduler_end(&m->scheduler, seq);
    m->host.on_done(m->host.ctx, seq->id, reason, &usage, error != NULL ? error : &none);
    /* The step that is going on may still hold it. */
    if (m->stepping) {
        seq->next = m->ended;
        m->ended = seq;
    } else {
        llamacpp_sequence_destroy(seq);
    }
}

void llamacpp_engine_cancel(struct lr_engine_model *m, uint64_t id)
{
    struct llamacpp_sequence *seq = llamacpp_scheduler_find(&m->scheduler, id);

    if (seq != NULL)
        llamacpp_engine_finish(m, seq, LR_FINISH_CANCELLED, NULL);
}
