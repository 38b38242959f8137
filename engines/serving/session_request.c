/* serving/session_request.c - see session.h: checking, submitting and cancelling
 * requests. */
#include <math.h>

#include "base/errors.h"
#include "base/fail.h"
#include "engines/serving/session.h"

lr_code engine_session_check_ids(const struct engine_session *s, const char *what,
                                 const uint32_t *ids, size_t count, struct lr_error *err)
{
    for (size_t i = 0; i < count; i++)
        if (ids[i] >= s->vocab)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "%s: token %u at position %zu is beyond the vocabulary of %u", what,
                           ids[i], i, s->vocab);
    return LR_OK;
}

static lr_code check_sampling(const struct lr_sampling *p, uint32_t vocab, struct lr_error *err)
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
    for (uint32_t i = 0; i < p->logit_bias_count; i++) {
        const struct lr_logit_bias *bias = &p->logit_bias[i];
        if (bias->token >= vocab)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "logit_bias: token %u is beyond the vocabulary of %u", bias->token,
                           vocab);
        if (isnan(bias->bias))
            return lr_fail(err, LR_INVALID_ARGUMENT, "logit_bias of token %u is not a number",
                           bias->token);
    }
    if (p->top_logprobs > SAMPLER_TOP_LOGPROBS_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "top_logprobs is %u; the limit is %d",
                       p->top_logprobs, SAMPLER_TOP_LOGPROBS_MAX);
    return LR_OK;
}

lr_code engine_session_too_long(const struct engine_session *s, uint64_t amount,
                                const char *unit, struct lr_error *err)
{
    bool answers = s->requests == 0 || (s->requests >> LR_REQUEST_GENERATE & 1) != 0;

    return answers ? lr_fail_as(err, prompt_too_long, amount, unit, s->max_context)
                   : lr_fail_as(err, text_too_long, amount, unit, s->max_context);
}

/* Whether the model offers what the request asks for. */
static lr_code check_kind(const struct engine_session *s, const struct lr_engine_request *r,
                          struct lr_error *err)
{
    static const char *const names[] = {"generated text", "embeddings", "reranking"};
    uint32_t offered = s->requests != 0 ? s->requests : 1u << LR_REQUEST_GENERATE;

    if (r->kind > LR_REQUEST_RERANK)
        return lr_fail(err, LR_UNSUPPORTED, "request kind %u is not supported", r->kind);
    if ((offered >> r->kind & 1) == 0)
        return lr_fail(err, LR_UNSUPPORTED, "this model offers no %s", names[r->kind]);
    if (r->kind != LR_REQUEST_GENERATE && s->host.on_vector == NULL)
        return lr_fail(err, LR_UNSUPPORTED, "%s are not supported by this host",
                       names[r->kind]);
    if (r->kind == LR_REQUEST_EMBED && r->dimensions > s->dimensions)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "dimensions is %u; an embedding of this model has %u", r->dimensions,
                       s->dimensions);
    return LR_OK;
}

lr_code engine_session_accept(const struct engine_session *s, const struct lr_engine_request *r,
                              struct lr_error *err)
{
    lr_code code = engine_session_alive(s, err);

    if (code == LR_OK)
        code = check_kind(s, r, err);
    return code == LR_OK && r->kind == LR_REQUEST_GENERATE
               ? check_sampling(&r->sampling, s->vocab, err)
               : code;
}

static lr_code check_prompt(const struct engine_session *s, uint32_t kind, const uint32_t *ids,
                            size_t count, size_t generated, struct lr_error *err)
{
    uint64_t total = (uint64_t)count + generated;
    lr_code code = engine_session_check_ids(s, "prompt", ids, count, err);

    if (code != LR_OK)
        return code;
    if (count == 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the prompt is empty");
    if (total > s->max_context - (kind == LR_REQUEST_GENERATE))
        return engine_session_too_long(s, total, "tokens", err);
    return LR_OK;
}

/* What the prompt has no part in. */
static lr_code check_rest(const struct engine_session *s, const struct lr_engine_request *r,
                          struct lr_error *err)
{
    if (r->constrained && s->host.fill_mask == NULL)
        return lr_fail(err, LR_UNSUPPORTED, "constrained output is not supported by this host");
    if (engine_queue_find(s->queue, r->id) != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "request %llu is already running",
                       (unsigned long long)r->id);
    return engine_session_check_ids(s, "generated", r->generated, r->generated_count, err);
}

/* Of a request for a vector nothing else may be read. */
static struct lr_engine_request relevant(const struct lr_engine_request *given)
{
    if (given->kind == LR_REQUEST_GENERATE)
        return *given;
    return (struct lr_engine_request){
        .size = sizeof(*given),
        .kind = given->kind,
        .id = given->id,
        .cache_scope = given->cache_scope,
        .priority = given->priority,
        .dimensions = given->dimensions,
    };
}

lr_code engine_session_submit(struct engine_session *s, const struct lr_engine_request *given,
                              const uint32_t *ids, size_t count, struct lr_error *err)
{
    const struct lr_engine_request r = relevant(given);
    struct engine_sequence *seq = NULL;
    lr_code code = check_prompt(s, r.kind, ids, count, r.generated_count, err);

    if (code == LR_OK)
        code = check_rest(s, &r, err);
    if (code == LR_OK)
        code = engine_sequence_create(&r, ids, count, s->max_context, s->vocab, &seq, err);
    if (code == LR_OK)
        engine_queue_add(s->queue, seq);
    return code;
}

lr_code engine_session_await(struct engine_session *s, const struct lr_engine_request *given,
                             struct engine_sequence **out, struct lr_error *err)
{
    const struct lr_engine_request r = relevant(given);

    *out = NULL;
    lr_code code = check_rest(s, &r, err);
    if (code == LR_OK)
        code = engine_sequence_create(&r, NULL, 0, s->max_context, s->vocab, out, err);
    if (code == LR_OK)
        engine_queue_read(s->queue, *out);
    return code;
}

void engine_session_read(struct engine_session *s, struct engine_sequence *seq,
                         const uint32_t *ids, size_t count, lr_code code, struct lr_error *err)
{
    if (code == LR_OK)
        code = check_prompt(s, seq->kind, ids, count, seq->count, err);
    if (code == LR_OK && !engine_sequence_prompt(seq, ids, count, s->max_context))
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for a prompt of %zu tokens", count);
    if (code == LR_OK)
        engine_queue_was_read(s->queue, seq);
    else
        engine_session_finish(s, seq, LR_FINISH_ERROR, err);
}

void engine_session_cancel(struct engine_session *s, uint64_t id)
{
    struct engine_sequence *seq = engine_queue_find(s->queue, id);

    if (seq != NULL)
        engine_session_finish(s, seq, LR_FINISH_CANCELLED, NULL);
}
