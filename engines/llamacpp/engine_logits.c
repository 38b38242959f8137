/* llamacpp/engine_logits.c - logits of every position.
 *
 * Uses a temporary context, so that the KV cache of live requests is not touched and the result
 * is what a plain libllama program computes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "engines/llamacpp/model.h"

static lr_code decode_chunk(struct lr_engine_model *m, struct llama_context *context,
                            const uint32_t *ids, size_t from, uint32_t count, float *out,
                            struct lr_error *err)
{
    struct llama_batch *b = &m->batch;
    size_t vocab = m->vocabulary.count;

    b->n_tokens = (int32_t)count;
    for (uint32_t i = 0; i < count; i++) {
        b->token[i] = (llama_token)ids[from + i];
        b->pos[i] = (llama_pos)(from + i);
        b->n_seq_id[i] = 1;
        b->seq_id[i][0] = 0;
        b->logits[i] = 1;
    }
    int32_t result = m->lib->llama_decode(context, *b);
    if (result != 0)
        return lr_fail(err, LR_INTERNAL, "llama_decode() failed with %d", result);
    for (uint32_t i = 0; i < count; i++) {
        const float *row = m->lib->llama_get_logits_ith(context, (int32_t)i);
        if (row == NULL)
            return lr_fail(err, LR_INTERNAL, "libllama gives no logits for row %u", i);
        memcpy(out + (from + i) * vocab, row, vocab * sizeof(*out));
    }
    return LR_OK;
}

lr_code llamacpp_engine_logits(struct lr_engine_model *m, const uint32_t *ids, size_t n,
                               float *out, struct lr_error *err)
{
    struct llamacpp_plan plan = m->plan;

    lr_code code = engine_session_alive(&m->session, err);
    if (code == LR_OK && m->plan.is_vector)
        code = lr_fail(err, LR_UNSUPPORTED, "this model gives vectors and has no logits");
    if (code == LR_OK && (n == 0 || n > m->plan.max_context))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "%zu tokens; the context holds 1 to %u", n,
                       m->plan.max_context);
    if (code == LR_OK)
        code = engine_session_check_ids(&m->session, "ids", ids, n, err);
    if (code != LR_OK)
        return code;
    plan.kv_tokens = n;
    plan.max_sequences = 1;
    plan.shared = false;
    plan.step_tokens = plan.prefill_chunk;
    struct llama_context_params params = llamacpp_context_params(m->lib, &plan);
    params.n_outputs_max = plan.prefill_chunk;
    params.n_outputs_max_per_seq = plan.prefill_chunk;
    struct llama_context *context = m->lib->llama_init_from_model(m->llama, params);
    if (context == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a second context of %zu tokens", n);
    for (size_t done = 0; code == LR_OK && done < n; done += plan.prefill_chunk) {
        size_t left = n - done;
        uint32_t take = left < plan.prefill_chunk ? (uint32_t)left : plan.prefill_chunk;
        code = decode_chunk(m, context, ids, done, take, out, err);
    }
    m->lib->llama_free(context);
    return code;
}
