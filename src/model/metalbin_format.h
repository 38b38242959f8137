/* model/metalbin_format.h - constants and layout shared by reader and writer of a model.bin. */
#ifndef MODEL_METALBIN_FORMAT_H
#define MODEL_METALBIN_FORMAT_H

#include "model/metalbin.h"

enum {
    METALBIN_HEADER = 148, /* bytes before the special-token UUIDs */
    METALBIN_ALIGN = 16,
    METALBIN_PAGE = 16384,
};

#define METALBIN_MAGIC "GPT-OSS v1.0"

extern const unsigned char model_metalbin_uuid_model[16];
extern const unsigned char model_metalbin_uuid_layout[16];
extern const unsigned char model_metalbin_uuid_tokenizer[16];

/* The UUID of a control token by its text; all zero if it has none. */
const unsigned char *model_metalbin_uuid_special(struct lr_str name);

struct model_metalbin_yarn {
    double interpolation, offset, scale, multiplier;
};
void model_metalbin_yarn(const struct model_config *c, struct model_metalbin_yarn *out);

/* Computes all offsets; header_end is the first byte after the token texts. */
void model_metalbin_compute(const struct model_config *c, uint32_t vocab_rows,
                            uint64_t header_end, struct model_metalbin_layout *out);

/* UNSUPPORTED when the encoding cannot express this config. */
LR_MUST_USE lr_code model_metalbin_supported(const struct model_config *c,
                                             struct lr_error *err);

#endif
