/* serving/logits.c - the logits of every position of a prompt, for comparisons.
 *
 * Option of extra_json: "beside": N computes the prompt in the same batches as N other prompts
 * of its length, so that a test can ask whether a batch changes a result.
 */
#include <stdlib.h>

#include "base/fail.h"
#include "base/json.h"
#include "engines/serving/model.h"

/* The prompt and those beside it. */
struct logits_run {
    struct engine_sequence *seqs[1 + SERVING_BESIDE_MAX];
    struct serving_step steps[1 + SERVING_BESIDE_MAX];
    uint32_t count; /* of seqs that have slots */
};

uint32_t serving_logits_beside(const char *extra_json)
{
    const struct lr_json *extra;
    struct lr_arena arena;
    uint64_t beside = 0;

    if (extra_json == NULL)
        return 0;
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, lr_str_z(extra_json), NULL, &extra, NULL) != LR_OK ||
        !lr_json_u64(lr_json_get(extra, "beside"), &beside) || beside > SERVING_BESIDE_MAX)
        beside = 0;
    lr_arena_free(&arena);
    return (uint32_t)beside;
}

/* A slot for ids; prompt n > 0 has other ids than the first. */
static lr_code add(struct lr_engine_model *m, struct logits_run *run, const uint32_t *ids,
                   size_t n, struct lr_error *err)
{
    const struct lr_engine_request request = {.size = sizeof(request)};
    uint32_t vocab = m->vocabulary.rows, number = run->count;
    uint32_t *own = calloc(n, sizeof(*own));
    struct engine_sequence *seq = NULL;

    if (own == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu ids", n);
    for (size_t i = 0; i < n; i++)
        own[i] = (uint32_t)((ids[i] + (uint64_t)number * (i + 1)) % vocab);
    lr_code code =
        engine_sequence_create(&request, own, n, m->plan.max_context, vocab, &seq, err);
    free(own);
    if (code == LR_OK)
        code = serving_scheduler_borrow(&m->scheduler, seq, err);
    if (code == LR_OK)
        run->seqs[run->count++] = seq;
    else
        engine_sequence_destroy(seq);
    return code;
}

/* All prompts have the same length, so they are in step. */
static lr_code compute(struct lr_engine_model *m, struct logits_run *run, float *out,
                       struct lr_error *err)
{
    uint32_t chunk = m->plan.prefill_chunk / run->count, total = run->seqs[0]->count;
    size_t vocab = m->vocabulary.rows;

    chunk = chunk > 0 ? chunk : 1;
    for (uint32_t at = 0, take; at < total; at += take) {
        take = total - at < chunk ? total - at : chunk;
        for (uint32_t i = 0; i < run->count; i++) {
            run->seqs[i]->take = take;
            serving_scheduler_slide(&m->scheduler, run->seqs[i]);
            run->steps[i] = serving_scheduler_part(&m->scheduler, run->seqs[i]);
        }
        run->steps[0].logits = out + at * vocab;
        const struct serving_batch batch = {
            .steps = run->steps, .count = run->count, .tokens = take * run->count};
        if (m->backend_api->forward(m->backend, &batch, err) != LR_OK)
            return serving_engine_die(m, err);
        for (uint32_t i = 0; i < run->count; i++) {
            run->seqs[i]->computed += take;
            run->seqs[i]->take = 0;
        }
    }
    return LR_OK;
}

lr_code serving_engine_logits(struct lr_engine_model *m, const uint32_t *ids, size_t n,
                              float *out, struct lr_error *err)
{
    struct logits_run run = {.count = 0};

    lr_code code = engine_session_alive(&m->session, err);
    if (code == LR_OK && m->session.dimensions > 0)
        code = lr_fail(err, LR_UNSUPPORTED, "a model of embeddings has no logits");
    if (code == LR_OK && (n == 0 || n > m->plan.max_context))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "%zu tokens; the context holds 1 to %u", n,
                       m->plan.max_context);
    if (code == LR_OK && m->beside >= m->plan.max_sequences)
        code = lr_fail(err, LR_INVALID_ARGUMENT, "%u prompts beside one; the model takes %u",
                       m->beside, m->plan.max_sequences);
    if (code == LR_OK)
        code = engine_session_check_ids(&m->session, "ids", ids, n, err);
    for (uint32_t i = 0; code == LR_OK && i <= m->beside; i++)
        code = add(m, &run, ids, n, err);
    if (code == LR_OK) {
        code = compute(m, &run, out, err);
        /* The device's tokens are those of this computation: no step follows the last one. */
        m->needs_forward = m->needs_forward || m->rounds_in_flight != 0;
    }
    for (uint32_t i = 0; i < run.count; i++) {
        serving_scheduler_return(&m->scheduler, run.seqs[i]);
        engine_sequence_destroy(run.seqs[i]);
    }
    return code;
}
