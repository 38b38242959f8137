/* llm-router/engine.h - the contract between a worker and an engine plugin.
 *
 * An engine is a shared library that exports exactly one symbol,
 * lr_engine_entry(), and a manifest.json beside it whose "abi_version" equals
 * LR_ENGINE_ABI.  docs/engine-authors.md walks through a complete engine.
 *
 * Rules, for both sides:
 *  1. Strings and arrays are borrowed for the duration of the call unless a
 *     comment says otherwise.  Each side frees what it allocated.
 *  2. Every struct begins with `size`, its sizeof where it was compiled.  Members
 *     are only ever appended; a reader treats what lies past `size` as zero, and a
 *     writer writes nothing past it.  So either side may be older than the other:
 *     a host tells what an engine offers by LR_ENGINE_HAS and by members that are
 *     not zero, an engine tells what a host takes by LR_HOST_HAS.
 *  3. One thread calls the engine: the worker's loop.  The engine may use threads
 *     of its own, but every host callback except `log` runs on the calling thread,
 *     inside `open` or `step`, and never after `close`.
 *  4. No function may exit, abort, install signal handlers, longjmp across the
 *     boundary, or write to stdout or stderr.
 *  5. On failure a function returns a code of status.h and fills *err (never NULL)
 *     with a sentence that lets the operator act.
 *  6. A device error is sticky: once `step` returned LR_INTERNAL the model is dead,
 *     and only `close` may still be called.
 *
 * Compiles as C17, as C++17 and under nvcc.
 */
#ifndef LLM_ROUTER_ENGINE_H
#define LLM_ROUTER_ENGINE_H

#include <stddef.h>
#include <stdint.h>

#include "llm-router/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LR_ENGINE_ABI 1u /* bumped only when an existing member changes its meaning */

struct lr_engine_model; /* opaque, owned by the engine */

/* Static facts.  The arrays end with NULL and live as long as the library. */
struct lr_engine_facts {
    uint32_t size;
    uint32_t reserved;
    const char *id;                   /* equals engine_id of the manifest */
    const char *version;              /* equals engine_version of the manifest */
    const char *const *runtimes;      /* "gptoss" */
    const char *const *formats;       /* "safetensors", "gguf" */
    const char *const *architectures; /* as config.json names them */
    const char *const *backends; /* "cpu", "cuda", "vulkan", "metal": what was compiled in */
};

/* How a model is to be opened.  A zero means "the engine chooses". */
struct lr_engine_options {
    uint32_t size;
    uint32_t device_count;
    const char *const *devices; /* "cpu", GPU UUIDs ("GPU-..."), "cuda:N", "vulkan:N" with
                                 * the N-th device that Vulkan lists, or "metal" */
    uint64_t vram_limit;        /* bytes of device memory this model may use; 0: no limit */
    uint64_t ram_limit;         /* bytes of host memory this model may use; 0: no limit */
    uint64_t max_tokens;        /* KV tokens in all, over all sequences */
    uint32_t max_sequences;     /* requests decoded together */
    uint32_t max_context;       /* tokens of one sequence */
    uint32_t prefill_chunk;     /* prompt tokens per step */
    uint32_t threads;           /* host threads for computing */
    const char *artifact_path;  /* run these weights instead; NULL: the model's own */
    const char *filename;       /* one file of the model directory (GGUF); NULL: the only one */
    const char *extra_json;     /* engine-specific options, a JSON object; NULL: none */
    uint32_t target_gap_ms;     /* time between two tokens of a running answer that prompts in
                                 * the same step should leave it; engines may ignore this */
    uint32_t reserved;
};

/* What a model needs, in bytes. */
struct lr_engine_need {
    uint32_t size;
    uint32_t on_device; /* 1: the figures are device memory, 0: host memory */
    uint64_t weights;
    uint64_t kv_per_token;    /* grows with every token of a sequence */
    uint64_t kv_per_sequence; /* taken once per sequence (sliding windows) */
    uint64_t workspace;
    uint64_t fixed;       /* contexts, compiled kernels, tokenizer */
    uint64_t kv;          /* KV cache that open() will allot under these options */
    uint64_t total;       /* what the host reserves: the sum under these options */
    uint32_t max_context; /* the longest sequence under these options */
    uint32_t max_sequences;
    uint32_t vocab_size;
    uint32_t reserved;
    uint32_t requests;   /* kinds that submit() of this model takes: bit 1 << LR_REQUEST_...;
                          * 0: GENERATE alone (an engine that does not know this member) */
    uint32_t dimensions; /* values of a whole embedding, where requests has EMBED */
    uint64_t kv_most; /* the most that limit_kv can raise the KV memory to, kv or more; 0: the
                       * KV memory of this model cannot change */
    uint64_t ram;     /* host memory beside the device memory, on_device 1: pinned tables */
};

/* A piece of prompt text.  Control tokens are recognised only where all their
 * bytes lie in segments with control != 0 (docs/promises.md: trusted-text); the text between
 * recognised control tokens is joined across segment borders and tokenized as one run. */
struct lr_segment {
    const char *text; /* UTF-8; invalid bytes become U+FFFD */
    size_t len;
    uint32_t control;
    uint32_t reserved;
};

struct lr_logit_bias {
    uint32_t token;
    float bias;
};

/* The next token is a pure function of (seed, index, logits, generated ids). */
struct lr_sampling {
    uint32_t size;
    float temperature;                      /* 0: greedy */
    float top_p;                            /* 1: off */
    float min_p;                            /* 0: off */
    uint32_t top_k;                         /* 0: off */
    float repetition_penalty;               /* 1: off; over prompt and generated tokens */
    float presence_penalty;                 /* 0: off; over generated tokens */
    float frequency_penalty;                /* 0: off; over generated tokens */
    uint64_t seed;                          /* always set by the caller */
    const struct lr_logit_bias *logit_bias; /* copied by submit */
    uint32_t logit_bias_count;
    uint32_t top_logprobs; /* alternatives reported per token */
    uint32_t logprobs;     /* 1: report the log probability of each token */
    uint32_t reserved;
};

/* What a request asks for.  A kind that the model does not offer, and every number that is not
 * listed: submit() returns UNSUPPORTED.
 *
 * EMBED and RERANK give numbers instead of tokens: one request is one text, or one pair of
 * query and document, and gets exactly one on_vector, then on_done(LR_FINISH_STOP) with
 * completion_tokens 0.  on_enter, on_prefill, cancel, cache_scope and priority work as for
 * GENERATE; sampling, generated, max_tokens, the stop members and constrained are not read.  A
 * text beyond the context is INVALID_ARGUMENT: an engine never cuts it.
 *
 *   EMBED    the embedding of segments (or prompt_ids), scaled to length 1.
 *   RERANK   how well `document` answers the query in segments: one number from 0 to 1, larger
 *            is better, to be compared among documents of one query.  The engine joins both
 *            texts as the model wants it; prompt_ids, where given, are the joined text. */
enum { LR_REQUEST_GENERATE = 0, LR_REQUEST_EMBED = 1, LR_REQUEST_RERANK = 2 };

struct lr_engine_request {
    uint32_t size;
    uint32_t kind;
    uint64_t id;                       /* chosen by the host, unique among live requests */
    const struct lr_segment *segments; /* used when prompt_ids is NULL */
    size_t segment_count;
    const uint32_t *prompt_ids; /* already tokenized prompt, or NULL */
    size_t prompt_id_count;
    /* Tokens that the client already has, from another node: they follow the prompt, count as
     * completion, and are not emitted again.  Sampling continues at index generated_count, with
     * the same result as an uninterrupted run. */
    const uint32_t *generated;
    size_t generated_count;
    struct lr_sampling sampling;
    uint32_t max_tokens;  /* completion tokens, generated[] included; 0: to the context's end */
    uint32_t ignore_stop; /* 1: do not end at the model's stop tokens (benchmarks) */
    const uint32_t *stop_ids; /* beside the model's own */
    size_t stop_id_count;
    const char *cache_scope; /* a prefix is shared only within one scope; NULL: not at all */
    uint32_t constrained;    /* 1: ask host->try_mask or fill_mask before each token */
    int32_t priority;        /* larger first; 0 is ordinary */
    const struct lr_segment *document; /* RERANK: the text to be scored */
    size_t document_count;             /* segments of it */
    uint32_t dimensions; /* EMBED: number of leading values, scaled to length 1 again; 0: all.
                          * INVALID_ARGUMENT beyond need->dimensions */
    uint32_t reserved;
};

enum lr_finish {
    LR_FINISH_STOP = 0,      /* a stop token; it was emitted */
    LR_FINISH_LENGTH = 1,    /* max_tokens or the context is full */
    LR_FINISH_CANCELLED = 2, /* cancel() */
    LR_FINISH_ERROR = 3,     /* this request failed, the model lives on */
};

struct lr_usage {
    uint32_t size;
    uint32_t prompt_tokens;
    uint32_t completion_tokens; /* generated[] included */
    uint32_t cached_tokens;     /* of the prompt, not computed again */
};

struct lr_logprob {
    uint32_t token;
    float logprob;
};

/* One generated token.  Borrowed for the callback. */
struct lr_token {
    uint32_t size;
    uint32_t id;
    const char *bytes; /* raw bytes, possibly part of a UTF-8 sequence; a special
                        * token gives its name ("<|end|>") */
    uint32_t len;
    uint32_t special; /* 1: a control token */
    float logprob;    /* where sampling.logprobs asked for it */
    uint32_t top_count;
    const struct lr_logprob *top; /* most likely first */
};

/* The result of an EMBED or RERANK request.  Borrowed for the callback. */
struct lr_vector {
    uint32_t size;
    uint32_t count;      /* EMBED: dimensions; RERANK: 1 */
    const float *values; /* finite */
};

/* What one step did.  Borrowed for the callback. */
struct lr_step_report {
    uint32_t size;
    uint32_t sequences; /* requests that took part, at least 1 */
    uint32_t waiting; /* live requests that did not: for want of a slot, KV memory or a mask */
    uint32_t prompt_tokens;    /* computed of prompts; cached ones do not count */
    uint32_t generated_tokens; /* told by on_token */
    uint32_t reserved;
    uint64_t duration_ns; /* of step() up to this call, callbacks included */
    uint64_t kv_bytes;    /* as in lr_engine_stats, after the step */
    uint64_t kv_bytes_in_use;
};

/* What stands in one hole of an error's sentence. */
struct lr_error_value {
    const char *name; /* "limit" */
    const char *value;
};

/* Lent by the worker; outlives the model.  Members marked optional may be NULL. */
struct lr_engine_host {
    uint32_t size;
    uint32_t reserved;
    void *ctx;
    /* level: 0 debug, 1 info, 2 warning, 3 error.  Any thread. */
    void (*log)(void *ctx, int32_t level, const char *event, const char *text);
    /* From open(): phase is a short word ("read", "compile"); done and total in bytes or steps.
     * A non-zero return asks the engine to stop: open returns CANCELLED. */
    int32_t (*progress)(void *ctx, const char *phase, uint64_t done, uint64_t total);
    /* From step(): tokens in order of generation, then exactly one on_done. */
    void (*on_token)(void *ctx, uint64_t request_id, const struct lr_token *token);
    void (*on_done)(void *ctx, uint64_t request_id, enum lr_finish reason,
                    const struct lr_usage *usage, const struct lr_error *error);
    /* From step(): `done` of `total` prompt tokens are computed.  Optional. */
    void (*on_prefill)(void *ctx, uint64_t request_id, uint32_t done, uint32_t total);
    /* Which tokens are legal next: bit (i & 31) of mask[i >> 5].  Optional. */
    lr_code (*fill_mask)(void *ctx, uint64_t request_id, uint32_t *mask, size_t words);
    /* From step(), before anything of the step is computed: the requests that take part in a
     * step for the first time since their submit().  Several calls in one step add up.  If the
     * engine dies in that step, the host suspects only these requests.  If an engine never
     * calls it, the host assumes that a request enters with the first step after its submit().
     * Optional. */
    void (*on_enter)(void *ctx, const uint64_t *request_ids, size_t count);
    /* From step(): the result of an EMBED or RERANK request, before its on_done.  Optional: if
     * the host does not offer it, an engine refuses such requests with UNSUPPORTED. */
    void (*on_vector)(void *ctx, uint64_t request_id, const struct lr_vector *vector);
    /* From step(), as the last callback of a step in which a request took part: at most once a
     * step.  Sums over all reports equal the differences of the same members of
     * lr_engine_stats.  An engine need not call it; the host then uses only stats().
     * Optional. */
    void (*on_step)(void *ctx, const struct lr_step_report *report);
    /* As fill_mask, for an engine whose requests can sit out a step; such an engine calls this
     * instead of fill_mask.  The host spends only a few milliseconds on all masks of one step.
     * *ready 0 (with OK): the mask is not finished.  The engine then leaves the token that
     * needs the mask out of this step and asks again in the next one, where the host goes on
     * with the same mask.  If nothing is left to compute, the step is empty, and the model is
     * busy.  Optional. */
    lr_code (*try_mask)(void *ctx, uint64_t request_id, uint32_t *mask, size_t words,
                        int32_t *ready);
    /* Which error comes next: called right before an open, submit or step that fails, or before
     * on_done(LR_FINISH_ERROR).  id is one of docs/errors.md; the values, in any order, are
     * what stands in the holes of its sentence, and the host makes that sentence instead of
     * err->text. With an id the client gets the codes that its API has for the error, such as
     * "context_length_exceeded" for prompt_too_long.  What the host does not know is ignored:
     * then it has err->code and err->text, as from an engine that does not call this. Optional.
     */
    void (*tell_error)(void *ctx, const char *id, const struct lr_error_value *values,
                       size_t count);
};

/* True when the host offers an optional member. */
#define LR_HOST_HAS(host, fn)                                                                  \
    ((host)->size >= offsetof(struct lr_engine_host, fn) + sizeof((host)->fn) &&               \
     (host)->fn != NULL)

struct lr_engine_stats {
    uint32_t size;
    uint32_t sequences; /* live requests, queued ones included */
    uint64_t weights_bytes;
    uint64_t kv_bytes;        /* allotted */
    uint64_t kv_bytes_in_use; /* held by live requests; 0 when there are none */
    uint64_t workspace_bytes;
    uint64_t fixed_bytes;
    uint64_t pages_total;
    uint64_t pages_in_use;
    uint64_t steps;
    uint64_t prompt_tokens; /* computed since open */
    uint64_t generated_tokens;
    uint64_t kv_bytes_reclaimable; /* the part of kv_bytes that limit_kv(0) would free now; 0
                                      without limit_kv */
    uint64_t kv_bytes_cached; /* the part that holds prefixes of requests that have ended */
};

enum { LR_VOCAB_SPECIAL = 1, LR_VOCAB_STOP = 2, LR_VOCAB_UNUSED = 4 };

/* Static and const in the plugin. */
struct lr_engine_api {
    uint32_t size;
    uint32_t abi; /* LR_ENGINE_ABI */

    const struct lr_engine_facts *(*describe)(void);

    /* Whether this engine can run the model on this machine, and what the model needs.  Reads
     * headers only. need->size is set by the caller. */
    lr_code (*probe)(const char *model_dir, const struct lr_engine_options *options,
                     struct lr_engine_need *need, struct lr_error *err);

    /* Loads the model.  Stays within vram_limit and ram_limit, or returns OUT_OF_VRAM or
     * OUT_OF_RAM with both numbers.  *model is NULL on failure. */
    lr_code (*open)(const struct lr_engine_host *host, const char *model_dir,
                    const struct lr_engine_options *options, struct lr_engine_model **model,
                    struct lr_error *err);

    /* Stops every thread of the model and frees everything.  Legal at any time and with NULL;
     * live requests end without a callback. */
    void (*close)(struct lr_engine_model *model);

    /* Copies what it needs and returns at once; step() does the work.  An engine may tokenize a
     * long prompt later: what is wrong with the prompt then comes as on_done(LR_FINISH_ERROR)
     * from step(). */
    lr_code (*submit)(struct lr_engine_model *model, const struct lr_engine_request *request,
                      struct lr_error *err);

    /* Ends a request.  When this returns, its KV pages are free, on_done(CANCELLED) was called
     * with the usage so far, and no further callback comes.  An unknown id is ignored, because
     * the request may just have ended. */
    void (*cancel)(struct lr_engine_model *model, uint64_t request_id);

    /* One iteration of continuous batching.  *busy is 1 while there is more work. */
    lr_code (*step)(struct lr_engine_model *model, int32_t *busy, struct lr_error *err);

    void (*stats)(const struct lr_engine_model *model, struct lr_engine_stats *out);

    /* Tokenizes by the rule of struct lr_segment.  *count is the number of ids; at
     * most `capacity` are written.  Optional. */
    lr_code (*tokenize)(const struct lr_engine_model *model, const struct lr_segment *segments,
                        size_t segment_count, uint32_t *ids, size_t capacity, size_t *count,
                        struct lr_error *err);

    /* The bytes of a token, borrowed until close, and its LR_VOCAB_ flags.
     * INVALID_ARGUMENT beyond the vocabulary.  Optional. */
    lr_code (*vocab)(const struct lr_engine_model *model, uint32_t id, const char **bytes,
                     uint32_t *len, uint32_t *flags);

    /* Logits of every position of ids[], n * vocab_size floats.  Live requests are not
     * affected.  Optional. */
    lr_code (*logits)(struct lr_engine_model *model, const uint32_t *ids, size_t n, float *out,
                      struct lr_error *err);

    /* From now on the KV memory (kv_bytes of stats) must stay within `bytes`; until the first
     * call the limit is need->kv.  *kv_bytes is the allocated amount on return.  A lower limit
     * asks for memory back: unused memory is freed before this returns, including cached
     * prefixes, the least useful ones first.  Live requests neither end nor wait for that:
     * their memory stays, and is freed when they end.  The memory that one request of
     * max_context needs may always stay, so *kv_bytes can exceed `bytes`; this is no error.  A
     * higher limit allows the engine to allocate more when needed, as far as the device has it.
     * Called between steps.  Optional: an engine without it keeps need->kv from open to close.
     * INTERNAL: the device failed, as in step(). */
    lr_code (*limit_kv)(struct lr_engine_model *model, uint64_t bytes, uint64_t *kv_bytes,
                        struct lr_error *err);

    /* The number of tokens of a prompt for a model that is not open: what submit() would count
     * as its prompt_tokens.  Reads the tokenizer and no weights.  A process calls it many times
     * for the same model, so what was read may be kept: a process ends before the files of its
     * model are replaced.  Optional. */
    lr_code (*count_tokens)(const char *model_dir, const struct lr_engine_options *options,
                            const struct lr_segment *segments, size_t segment_count,
                            uint64_t *count, struct lr_error *err);
};

/* True when the engine offers an optional member. */
#define LR_ENGINE_HAS(api, fn)                                                                 \
    ((api)->size >= offsetof(struct lr_engine_api, fn) + sizeof((api)->fn) && (api)->fn != NULL)

#if defined(_WIN32)
#define LR_ENGINE_EXPORT __declspec(dllexport)
#elif defined(__GNUC__)
#define LR_ENGINE_EXPORT __attribute__((visibility("default")))
#else
#define LR_ENGINE_EXPORT
#endif

/* The only symbol a plugin exports. */
LR_ENGINE_EXPORT const struct lr_engine_api *lr_engine_entry(void);

#ifdef __cplusplus
}
#endif

#endif
