/* gptoss/engine.c - the ABI's table and its small members.
 *
 * engine_open.c, engine_request.c and engine_step.c hold the rest.
 */
#include "engines/gptoss/engine.h"

#include <string.h>

#include "engines/gptoss/engine_model.h"

static const struct lr_engine_facts *gptoss_engine_describe(void)
{
    static const char *const runtimes[] = {"gptoss", NULL};
    static const char *const formats[] = {"safetensors", NULL};
    static const char *const architectures[] = {"GptOssForCausalLM", NULL};
    static const char *const backends[] = {"cpu",
#ifdef GPTOSS_CUDA
                                           "cuda",
#endif
#ifdef GPTOSS_VULKAN
                                           "vulkan",
#endif
#ifdef GPTOSS_METAL
                                           "metal",
#endif
                                           NULL};
    static const struct lr_engine_facts facts = {
        .size = sizeof(facts),
        .id = "gptoss",
        .version = GPTOSS_VERSION,
        .runtimes = runtimes,
        .formats = formats,
        .architectures = architectures,
        .backends = backends,
    };
    return &facts;
}

void gptoss_engine_stats(const struct lr_engine_model *m, struct lr_engine_stats *out)
{
    const struct gptoss_scheduler *s = &m->scheduler;
    const struct gptoss_pages *pages = s->cache.pages;
    uint64_t full = pages[GPTOSS_FULL].total - pages[GPTOSS_FULL].free_count;
    uint64_t window = pages[GPTOSS_WINDOW].total - pages[GPTOSS_WINDOW].free_count;
    const uint64_t bytes[GPTOSS_KINDS] = {m->plan.full_page_bytes, m->plan.window_page_bytes};
    uint64_t kv = 0, cached = 0, reclaimable = 0;

    for (int kind = 0; kind < GPTOSS_KINDS; kind++) {
        kv += pages[kind].total * bytes[kind];
        cached += pages[kind].cached_count * bytes[kind];
        reclaimable += gptoss_elastic_excess(&pages[kind], 0) * bytes[kind];
    }
    struct lr_engine_stats st = {
        .size = out->size,
        .sequences = s->queue.live,
        .weights_bytes = m->plan.weights,
        .kv_bytes = kv,
        .kv_bytes_in_use = full * bytes[GPTOSS_FULL] + window * bytes[GPTOSS_WINDOW],
        .workspace_bytes = m->plan.workspace,
        .fixed_bytes =
            m->plan.fixed +
            (m->vocabulary.tokenizer != NULL ? tokenizer_memory(m->vocabulary.tokenizer) : 0),
        .pages_total = (uint64_t)pages[GPTOSS_FULL].total + pages[GPTOSS_WINDOW].total,
        .pages_in_use = full + window,
        .steps = m->session.step_count,
        .prompt_tokens = m->session.prompt_tokens,
        .generated_tokens = m->session.generated_tokens,
        .kv_bytes_reclaimable = reclaimable,
        .kv_bytes_cached = cached,
    };
    memcpy(out, &st, out->size < sizeof(st) ? out->size : sizeof(st));
}

static lr_code vocab(const struct lr_engine_model *m, uint32_t id, const char **bytes,
                     uint32_t *len, uint32_t *flags)
{
    if (id >= m->vocabulary.rows)
        return LR_INVALID_ARGUMENT;
    struct lr_str text = gptoss_vocabulary_bytes(&m->vocabulary, id, flags);
    *bytes = text.ptr;
    *len = (uint32_t)text.len;
    return LR_OK;
}

const struct lr_engine_api *gptoss_engine_api(void)
{
    static const struct lr_engine_api api = {
        .size = sizeof(api),
        .abi = LR_ENGINE_ABI,
        .describe = gptoss_engine_describe,
        .probe = gptoss_engine_probe,
        .open = gptoss_engine_open,
        .close = gptoss_engine_close,
        .submit = gptoss_engine_submit,
        .cancel = gptoss_engine_cancel,
        .step = gptoss_engine_step,
        .stats = gptoss_engine_stats,
        .tokenize = gptoss_engine_tokenize,
        .vocab = vocab,
        .logits = gptoss_engine_logits,
        .limit_kv = gptoss_engine_limit_kv,
        .count_tokens = gptoss_engine_count,
    };
    return &api;
}
