/* serving/engine.c - the part of the ABI's table that is the same for every engine, and its
 * small members.
 *
 * open.c, request.c, step.c and memory.c hold the rest.
 */
#include "engines/serving/engine.h"

#include <string.h>

#include "engines/serving/model.h"

void serving_engine_stats(const struct lr_engine_model *m, struct lr_engine_stats *out)
{
    const struct serving_cache *c = &m->scheduler.cache;
    struct lr_engine_stats st = {
        .size = out->size,
        .sequences = m->scheduler.queue.live,
        .weights_bytes = m->plan.weights,
        .workspace_bytes = m->plan.workspace,
        .fixed_bytes =
            m->plan.fixed +
            (m->vocabulary.tokenizer != NULL ? tokenizer_memory(m->vocabulary.tokenizer) : 0),
        .steps = m->session.step_count,
        .prompt_tokens = m->session.prompt_tokens,
        .generated_tokens = m->session.generated_tokens,
    };

    for (uint32_t kind = 0; kind < SERVING_POOLS; kind++) {
        const struct serving_pages *p = &c->pages[kind];
        uint64_t bytes = serving_plan_bytes(&m->plan, kind);
        uint32_t used = p->total - p->free_count;
        if (bytes == 0 && kind >= m->plan.kind_count)
            continue; /* no memory of the device */
        st.kv_bytes += p->total * bytes;
        st.kv_bytes_in_use += used * bytes;
        st.pages_total += p->total;
        st.pages_in_use += used;
        st.kv_bytes_cached += p->cached_count * bytes;
        st.kv_bytes_reclaimable += serving_elastic_excess(p, 0) * bytes;
    }
    memcpy(out, &st, out->size < sizeof(st) ? out->size : sizeof(st));
}

static lr_code vocab(const struct lr_engine_model *m, uint32_t id, const char **bytes,
                     uint32_t *len, uint32_t *flags)
{
    if (id >= m->vocabulary.rows)
        return LR_INVALID_ARGUMENT;
    struct lr_str text = serving_vocabulary_bytes(&m->vocabulary, id, flags);
    *bytes = text.ptr;
    *len = (uint32_t)text.len;
    return LR_OK;
}

struct lr_engine_api serving_engine_api(void)
{
    return (struct lr_engine_api){
        .size = sizeof(struct lr_engine_api),
        .abi = LR_ENGINE_ABI,
        .close = serving_engine_close,
        .submit = serving_engine_submit,
        .cancel = serving_engine_cancel,
        .step = serving_engine_step,
        .stats = serving_engine_stats,
        .tokenize = serving_engine_tokenize,
        .vocab = vocab,
        .logits = serving_engine_logits,
        .limit_kv = serving_engine_limit_kv,
        .count_tokens = serving_engine_count,
    };
}
