/* model/config.h - config.json and generation_config.json of a Hugging Face snapshot.
 *
 * There are two levels: model_identity says what any snapshot is (architecture, runtime), and
 * model_config holds what the gpt-oss engine needs, with every value range-checked.  Texts are
 * copied, so the structs borrow nothing and may be copied freely.  No other file decides what a
 * model is.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/sampling.h"
#include "base/str.h"

enum {
    MODEL_CONFIG_BYTES_MAX = 64 << 20,  /* lists of modules of a quantized model are long */
    MODEL_CONFIG_ARENA_MAX = 256 << 20, /* its tree */
    MODEL_LAYERS_MAX = 512,
    MODEL_EOS_MAX = 16,
    MODEL_NAME_MAX = 64,
};

/* What a snapshot is. runtime is "gptoss" for gpt-oss, else a short name made from model_type
 * or architecture ("nemotron", "llama"), so that an error can say "no engine for runtime X". */
struct model_identity {
    char architecture[MODEL_NAME_MAX]; /* "GptOssForCausalLM"; "" when only model_type is given
                                        */
    char model_type[MODEL_NAME_MAX];   /* "gpt_oss"; may be "" */
    char runtime[MODEL_NAME_MAX];
    uint64_t context_tokens; /* max_position_embeddings or a similar member; 0: not given */
    uint64_t kv_bytes;       /* KV memory of one whole context at 16 bits; 0: not known */
    /* What kv_bytes is made of: a token in layers that see everything before it, in layers with
     * a window, and the window. */
    uint64_t kv_token_bytes, kv_window_bytes, kv_window;
    uint32_t requests; /* kinds that the name of the architecture promises, 1 <<
                          LR_REQUEST_...; 0: it promises none */
    bool has_answers;  /* "classifier_from_token": the model ranks by an answer */
};

/* The model ranks documents by its answer, yes or no: its config says so, or the folder is that
 * of a Qwen3-Reranker, whose files do not say it. */
bool model_ranks_by_answer(const char *dir, bool has_answers);

LR_MUST_USE lr_code model_identity_parse(struct lr_str text, struct model_identity *out,
                                         struct lr_error *err);

enum model_rope_kind { MODEL_ROPE_PLAIN, MODEL_ROPE_YARN };

struct model_rope {
    enum model_rope_kind kind;
    double theta;
    /* YaRN only */
    double factor;
    double beta_fast;
    double beta_slow;
    double attention_factor; /* factor of sine and cosine; never 0 */
    uint32_t original_context;
    bool truncate; /* round the ramp's ends; false in gpt-oss */
};

struct model_token_ids {
    uint32_t eos[MODEL_EOS_MAX];
    uint32_t eos_count;
    int64_t bos; /* -1: not given */
    int64_t pad; /* -1: not given */
};

struct model_config {
    struct model_identity identity;
    uint32_t layers;
    uint32_t hidden;       /* multiple of 32 */
    uint32_t intermediate; /* per expert; multiple of 32 */
    uint32_t heads;        /* multiple of kv_heads */
    uint32_t kv_heads;
    uint32_t head_dim; /* even */
    uint32_t experts;
    uint32_t experts_per_token; /* 1..experts */
    uint32_t vocab;
    uint32_t window;  /* keys that a sliding layer sees, its own included */
    uint32_t context; /* max_position_embeddings */
    double rms_eps;
    double swiglu_limit;
    struct model_rope rope;
    bool sliding[MODEL_LAYERS_MAX]; /* by layer; default: even layers slide */
    struct model_token_ids tokens;
};

/* UNSUPPORTED: another architecture, or an option that the engine does not support (tied
 * embeddings, no attention bias, other quantisation).  MODEL_CORRUPT: a missing or absurd
 * value; names the field, the value and the limits. */
LR_MUST_USE lr_code model_config_parse(struct lr_str text, struct model_config *out,
                                       struct lr_error *err);

/* Reads dir/config.json, and no other file. */
LR_MUST_USE lr_code model_config_read(const char *dir, struct model_config *out,
                                      struct lr_error *err);

/* generation_config.json: stop tokens, and the publisher's sampling defaults.  Where the file
 * says "do_sample": false, the temperature is 0. */
struct model_generation {
    struct model_token_ids tokens;
    struct lr_sampling_defaults sampling;
};

LR_MUST_USE lr_code model_generation_parse(struct lr_str text, struct model_generation *out,
                                           struct lr_error *err);

/* Reads dir/generation_config.json; without that file all members say "not given". */
LR_MUST_USE lr_code model_generation_read(const char *dir, struct model_generation *out,
                                          struct lr_error *err);

#endif
