/* llamacpp/engine.c - the ABI's table and its small members.
 *
 * engine_open.c, engine_request.c, engine_step.c, engine_vector.c and engine_logits.c hold the
 * rest.
 */
#include "engines/llamacpp/engine.h"

#include <string.h>

#include "engines/llamacpp/model.h"

static const struct lr_engine_facts *llamacpp_engine_describe(void)
{
    static const char *const runtimes[] = {"llama_cpp", NULL};
    static const char *const formats[] = {"gguf", NULL};
    /* general.architecture of common models. libllama decides whether it knows a file's
     * architecture; probe asks it. */
    static const char *const architectures[] = {"llama",
                                                "llama4",
                                                "qwen2",
                                                "qwen2moe",
                                                "qwen3",
                                                "qwen3moe",
                                                "gemma",
                                                "gemma2",
                                                "gemma3",
                                                "phi2",
                                                "phi3",
                                                "phimoe",
                                                "mistral3",
                                                "mistral4",
                                                "falcon",
                                                "gpt2",
                                                "gptneox",
                                                "starcoder",
                                                "stablelm",
                                                "bloom",
                                                "command-r",
                                                "cohere2",
                                                "olmo2",
                                                "deepseek2",
                                                "glm4",
                                                "granite",
                                                "exaone4",
                                                "nemotron",
                                                "gpt-oss",
                                                "mamba",
                                                "mamba2",
                                                "jamba",
                                                "rwkv7",
                                                "lfm2",
                                                "smollm3",
                                                "internlm2",
                                                "bert",
                                                "nomic-bert",
                                                "jina-bert-v2",
                                                "modern-bert",
                                                "gemma-embedding",
                                                NULL};
    static const char *const backends[] = {"cpu",
#ifdef LLAMACPP_CUDA
                                           "cuda",
#endif
#ifdef LLAMACPP_VULKAN
                                           "vulkan",
#endif
#ifdef LLAMACPP_METAL
                                           "metal",
#endif
                                           NULL};
    static const struct lr_engine_facts facts = {
        .size = sizeof(facts),
        .id = "llama_cpp",
        .version = LLAMACPP_VERSION,
        .runtimes = runtimes,
        .formats = formats,
        .architectures = architectures,
        .backends = backends,
    };
    return &facts;
}

/* Used cells of the KV cache, according to libllama. */
static uint64_t cells_in_use(const struct lr_engine_model *m)
{
    llama_memory_t memory = m->lib->llama_get_memory(m->context);
    uint64_t used = 0;

    for (uint32_t slot = 0; slot < m->plan.max_sequences; slot++) {
        llama_pos last = m->lib->llama_memory_seq_pos_max(memory, (llama_seq_id)slot);
        llama_pos first = m->lib->llama_memory_seq_pos_min(memory, (llama_seq_id)slot);
        if (last >= 0)
            used += (uint64_t)(last - (first > 0 ? first : 0)) + 1;
    }
    return used;
}

void llamacpp_engine_stats(const struct lr_engine_model *m, struct lr_engine_stats *out)
{
    uint64_t used = cells_in_use(m);
    struct lr_engine_stats st = {
        .size = out->size,
        .sequences = m->scheduler.queue.live,
        .weights_bytes = m->plan.weights,
        .kv_bytes = m->plan.kv,
        .kv_bytes_in_use = used * m->plan.kv_per_token,
        .workspace_bytes = m->plan.workspace,
        .fixed_bytes = m->plan.fixed,
        .pages_total = m->plan.kv_tokens,
        .pages_in_use = used,
        .steps = m->session.step_count,
        .prompt_tokens = m->session.prompt_tokens,
        .generated_tokens = m->session.generated_tokens,
    };
    memcpy(out, &st, out->size < sizeof(st) ? out->size : sizeof(st));
}

static lr_code vocab(const struct lr_engine_model *m, uint32_t id, const char **bytes,
                     uint32_t *len, uint32_t *flags)
{
    if (id >= m->vocabulary.count)
        return LR_INVALID_ARGUMENT;
    struct lr_str text = llamacpp_vocabulary_bytes(&m->vocabulary, id);
    *bytes = text.ptr;
    *len = (uint32_t)text.len;
    *flags = m->vocabulary.flags[id];
    return LR_OK;
}

const struct lr_engine_api *llamacpp_engine_api(void)
{
    static const struct lr_engine_api api = {
        .size = sizeof(api),
        .abi = LR_ENGINE_ABI,
        .describe = llamacpp_engine_describe,
        .probe = llamacpp_engine_probe,
        .open = llamacpp_engine_open,
        .close = llamacpp_engine_close,
        .submit = llamacpp_engine_submit,
        .cancel = llamacpp_engine_cancel,
        .step = llamacpp_engine_step,
        .stats = llamacpp_engine_stats,
        .tokenize = llamacpp_engine_tokenize,
        .vocab = vocab,
        .logits = llamacpp_engine_logits,
        .count_tokens = llamacpp_engine_count,
    };
    return &api;
}
