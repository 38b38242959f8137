/* model/metalbin.h - the official metal/model.bin encoding of gpt-oss weights.
 *
 * The same weights as the safetensors in another order: Q and K rows of each head are
 * interleaved (row 2i was i, row 2i+1 was i + head_dim/2) and scaled by 1/2 and 1/4, scale
 * bytes are +14, one expert's parts are adjacent, and embeddings are cut to the tokenizer's
 * vocabulary.  Readable on every backend; engines use it through model/gptoss.h.
 */
#ifndef MODEL_METALBIN_H
#define MODEL_METALBIN_H

#include "base/fail.h"
#include "model/config.h"
#include "model/gptoss.h"

enum { MODEL_METALBIN_SCALE_EXCESS = 14 };

/* Absolute offsets of one block's dense part. */
struct model_metalbin_block {
    uint64_t attn_norm, qkv_weight, qkv_bias, sinks, out_weight, out_bias;
    uint64_t mlp_norm, gate_weight, gate_bias;
    uint64_t experts; /* first expert; the next follows after expert_stride */
};

struct model_metalbin_layout {
    uint32_t vocab_rows; /* text tokens + special tokens */
    uint64_t weights_start;
    uint64_t embed, norm, unembed;
    struct model_metalbin_block blocks[MODEL_LAYERS_MAX];
    /* within an expert */
    uint64_t mlp1_blocks, mlp1_scales, mlp1_bias, mlp2_blocks, mlp2_scales, mlp2_bias;
    uint64_t expert_stride;
    uint64_t file_size; /* exact size of the file */
};

/* Checks the header in bytes[0..available) against config and file_size and computes all
 * offsets.  Pure (fuzzed).  MODEL_CORRUPT names the field and both values; UNSUPPORTED for
 * another layout or tokenizer UUID. */
LR_MUST_USE lr_code model_metalbin_parse(const void *bytes, size_t available,
                                         uint64_t file_size, const char *file,
                                         const struct model_config *config,
                                         struct model_metalbin_layout *out,
                                         struct lr_error *err);

/* The tokenizer section of a file to be written.  Text tokens are ids 0..text_count-1. */
struct model_metalbin_tokenizer {
    uint32_t text_count;
    uint32_t special_count;
    const char *regex;
    const struct lr_str *text;          /* text_count byte strings */
    const struct lr_str *special_names; /* special_count: "<|start|>", ...; "": no name */
};

/* Writes `m` (opened from safetensors) as a model.bin at `path`, which must not exist.
 * Without a tokenizer the text tokens are empty and none is special.
 *   UNSUPPORTED  head_dim is not 64, layers do not alternate, a scale byte above 241 */
LR_MUST_USE lr_code model_metalbin_write(const struct model_gptoss *m,
                                         const struct model_metalbin_tokenizer *tokenizer,
                                         const char *path, struct lr_error *err);

#endif
