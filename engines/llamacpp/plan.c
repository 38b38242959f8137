/* llamacpp/plan.c - see plan.h. */
#include "engines/llamacpp/plan.h"

#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/os/cpu.h"

enum {
    DEFAULT_SEQUENCES = 16,
    SEQUENCES_MAX = 256, /* of libllama */
    DEFAULT_CHUNK = 512,
    CHUNK_MAX = 8192,
    THREADS_MAX = 256,
    DEFAULT_KV_TOKENS = 32768,
    CELLS = 256,           /* libllama rounds the cache up to this many */
    VECTOR_CONTEXT = 4096, /* of a text that becomes a vector, unless the operator says more */
    VECTOR_CONTEXT_LEAST = 512,
};

/* Libraries, backend and threads, and the memory of a token of the vocabulary in libllama's
 * tables and in ours; measured, rounded up. */
static const uint64_t FIXED_BYTES = 24ull << 20;
static const uint64_t BYTES_PER_VOCAB_ENTRY = 320;

/* What a GPU's driver takes: its context, compiled kernels, buffers for copies; measured on one
 * GPU (CUDA 615 MiB, Vulkan less than could be told), rounded up. */
static const uint64_t DRIVER_BYTES = 700ull << 20;
static const uint64_t VULKAN_BYTES = 128ull << 20;
/* With a GPU the processor only looks up embeddings. */
enum { DEVICE_THREADS = 4 };

static uint32_t llamacpp_plan_pick(uint64_t asked, uint64_t otherwise, uint64_t low,
                                   uint64_t high)
{
    uint64_t v = asked != 0 ? asked : otherwise;

    v = v < low ? low : v;
    return (uint32_t)(v > high ? high : v);
}

/* ggml's threads meet after every operation, spinning.  One more thread
 * pays off when it reads at least this number of weights; on busy cores it is expensive. */
static const uint64_t WEIGHTS_PER_THREAD = 4ull << 20;

static uint64_t llamacpp_plan_round_up(uint64_t tokens)
{
    return (tokens + CELLS - 1) / CELLS * CELLS;
}

/* ---- the engine's own options ---- */

static lr_code read_kv_type(const struct lr_json *value, enum llamacpp_kv_type *out,
                            struct lr_error *err)
{
    struct lr_str text = {0};

    (void)lr_json_str(value, &text);
    if (lr_str_eq_z(text, "f16"))
        *out = LLAMACPP_KV_F16;
    else if (lr_str_eq_z(text, "f32"))
        *out = LLAMACPP_KV_F32;
    else if (lr_str_eq_z(text, "q8_0"))
        *out = LLAMACPP_KV_Q8_0;
    else
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "engine option \"kv_type\" must be \"f16\", \"f32\" or \"q8_0\"");
    return LR_OK;
}

static lr_code read_extra(const char *text, struct llamacpp_plan *p, struct lr_error *err)
{
    struct lr_arena arena;
    const struct lr_json *root = NULL;

    if (text == NULL || text[0] == '\0')
        return LR_OK;
    lr_arena_init(&arena, 64 << 10);
    lr_code code = lr_json_parse(&arena, lr_str_z(text), NULL, &root, err);
    if (code == LR_OK && root->type != LR_JSON_OBJECT)
        code = lr_fail(err, LR_INVALID_ARGUMENT, "engine options must be a JSON object");
    for (uint32_t i = 0; code == LR_OK && i < root->count; i++) {
        const struct lr_json_member *m = &root->members[i];
        if (lr_str_eq_z(m->key, "kv_type"))
            code = read_kv_type(&m->value, &p->kv_type, err);
        else
            code = lr_fail(err, LR_INVALID_ARGUMENT,
                           "engine option \"%.*s\" is not known to llama_cpp; it has "
                           "\"kv_type\"",
                           (int)(m->key.len < 64 ? m->key.len : 64), m->key.ptr);
    }
    lr_arena_free(&arena);
    return code >= 100 ? (err->code = LR_INVALID_ARGUMENT) : code;
}

/* ---- bytes ---- */

static uint64_t kv_bytes(enum llamacpp_kv_type type, uint64_t values)
{
    switch (type) {
    case LLAMACPP_KV_F32:
        return values * 4;
    case LLAMACPP_KV_Q8_0:
        return (values + 31) / 32 * 34;
    default:
        return values * 2;
    }
}

/* libllama's graph for one batch: a few rows as wide as the model, the feed-forward part and
 * the mask, and the requested logits. */
static uint64_t workspace_bytes(const struct llamacpp_header *h, const struct llamacpp_plan *p)
{
    uint64_t row = (uint64_t)h->width * 8 + (uint64_t)h->feed_forward * 3;
    uint64_t cells = p->shared ? p->kv_tokens : llamacpp_plan_round_up(p->max_context);
    uint64_t mask = cells * p->step_tokens * 6; /* in float32 and in half precision */
    uint64_t logits = (uint64_t)h->vocab * p->max_sequences * 3 * sizeof(float);

    if (p->is_vector)
        logits = ((uint64_t)h->vocab + h->width) * p->step_tokens * sizeof(float);
    return row * p->step_tokens * sizeof(float) + mask + logits + (8u << 20);
}

static void count(const struct llamacpp_header *h, struct llamacpp_plan *p, uint64_t kv_tokens)
{
    uint64_t each = llamacpp_plan_round_up(p->max_context);

    p->shared = kv_tokens < each * p->max_sequences;
    p->kv_tokens = p->shared ? llamacpp_plan_round_up(kv_tokens) : each * p->max_sequences;
    p->kv = p->kv_tokens * p->kv_per_token + p->max_sequences * p->kv_per_sequence;
    p->workspace = workspace_bytes(h, p);
    p->total = p->weights + p->kv + p->workspace + p->fixed;
}

static lr_code llamacpp_plan_fit(const struct llamacpp_header *h,
                                 const struct lr_engine_options *o, struct llamacpp_plan *p,
                                 uint64_t kv_tokens, struct lr_error *err)
{
    uint64_t limit = p->on_device ? o->vram_limit : o->ram_limit;

    count(h, p, kv_tokens);
    /* Reduces the KV tokens if the operator gave no number. */
    uint64_t least = o->max_context != 0 ? p->max_context : 1024;
    while (limit != 0 && p->total > limit && o->max_tokens == 0 && kv_tokens / 2 >= least) {
        kv_tokens /= 2;
        p->max_context = p->max_context < kv_tokens ? p->max_context : (uint32_t)kv_tokens;
        if (p->is_vector)
            p->step_tokens = (uint32_t)kv_tokens;
        count(h, p, kv_tokens);
    }
    if (limit == 0 || p->total <= limit)
        return LR_OK;
    return lr_fail(
        err, p->on_device ? LR_OUT_OF_VRAM : LR_OUT_OF_RAM,
        "the model needs %llu bytes of memory (weights %llu, KV cache %llu, workspace "
        "%llu) and may use %llu: raise the limit, or lower the context length or the "
        "number of sequences",
        (unsigned long long)p->total, (unsigned long long)p->weights, (unsigned long long)p->kv,
        (unsigned long long)p->workspace, (unsigned long long)limit);
}

/* libllama's largest buffer for a vector are the logits of its tokens: the context is short
 * enough that they fit into this. */
static const uint64_t VECTOR_LOGITS_BYTES = 512ull << 20;

static uint32_t vector_context(const struct llamacpp_header *h)
{
    uint64_t tokens = VECTOR_LOGITS_BYTES / ((uint64_t)h->vocab * sizeof(float));
    uint32_t usual = llamacpp_plan_pick(tokens, 0, VECTOR_CONTEXT_LEAST, VECTOR_CONTEXT);

    return usual < h->context ? usual : h->context;
}

lr_code llamacpp_plan_make(const struct llamacpp_header *h, const struct lr_engine_options *o,
                           bool on_device, struct llamacpp_plan *out, struct lr_error *err)
{
    struct llamacpp_plan p = {.on_device = on_device,
                              .is_vector = llamacpp_header_is_vector(h),
                              .pooling = h->pooling};

    if (o->artifact_path != NULL)
        return lr_fail(err, LR_UNSUPPORTED, "a GGUF model has no artifacts: %s",
                       o->artifact_path);
    lr_code code = read_extra(o->extra_json, &p, err);
    if (code != LR_OK)
        return code;
    p.max_sequences = llamacpp_plan_pick(o->max_sequences, DEFAULT_SEQUENCES, 1, SEQUENCES_MAX);
    p.prefill_chunk = llamacpp_plan_pick(o->prefill_chunk, DEFAULT_CHUNK, 1, CHUNK_MAX);
    p.step_tokens = p.prefill_chunk + p.max_sequences;
    p.threads = llamacpp_plan_pick(o->threads, lr_cpu_allowed(), 1, THREADS_MAX);
    if (p.threads > h->weights / WEIGHTS_PER_THREAD + 1)
        p.threads = (uint32_t)(h->weights / WEIGHTS_PER_THREAD) + 1;
    if (on_device && o->threads == 0 && p.threads > DEVICE_THREADS)
        p.threads = DEVICE_THREADS;
    p.max_context = llamacpp_plan_pick(
        o->max_context, p.is_vector ? vector_context(h) : h->context, 1, h->context);
    if (p.is_vector)
        p.step_tokens = p.max_context > p.prefill_chunk ? p.max_context : p.prefill_chunk;
    uint64_t whole = llamacpp_plan_round_up(p.max_context) * p.max_sequences;
    uint64_t usual = o->max_context > DEFAULT_KV_TOKENS ? p.max_context : DEFAULT_KV_TOKENS;
    uint64_t wanted = o->max_tokens != 0 ? o->max_tokens : usual < whole ? usual : whole;
    if (p.is_vector)
        wanted = p.step_tokens; /* nothing outlives its step */
    if (wanted > INT32_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT, "max_tokens is %llu; the limit is %d",
                       (unsigned long long)wanted, INT32_MAX);
    if (p.max_context > wanted)
        p.max_context = (uint32_t)wanted;
    p.kv_per_token = kv_bytes(p.kv_type, h->kv_values);
    p.kv_per_sequence = h->state_per_sequence;
    p.weights = h->weights;
    p.fixed = FIXED_BYTES + h->vocab * BYTES_PER_VOCAB_ENTRY;
    if (on_device)
        p.fixed += strncmp(o->devices[0], "vulkan", 6) == 0 ? VULKAN_BYTES : DRIVER_BYTES;
    code = llamacpp_plan_fit(h, o, &p, wanted, err);
    if (code == LR_OK)
        *out = p;
    return code;
}
