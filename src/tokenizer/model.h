/* tokenizer/model.h - "model" of a tokenizer.json: its members, and one loader for each type.
 */
#ifndef TOKENIZER_MODEL_H
#define TOKENIZER_MODEL_H

#include "tokenizer/internal.h"

struct member {
    const char *name;
    struct lr_str text;         /* as written; empty when absent */
    const struct lr_json *tree; /* NULL for the large ones */
    bool is_big;
};

enum {
    MODEL_TYPE,
    MODEL_DROPOUT,
    MODEL_UNK_TOKEN,
    MODEL_PREFIX,
    MODEL_SUFFIX,
    MODEL_IGNORE_MERGES,
    MODEL_BYTE_FALLBACK,
    MODEL_FUSE_UNK,
    MODEL_UNK_ID,
    MODEL_MAX_CHARS,
    MODEL_VOCAB,
    MODEL_MERGES,
    MODEL_MEMBERS,
};

/* What a loader reads.  All borrowed for the call. */
struct model_source {
    struct lr_str whole; /* the file */
    const struct member *model;
    const struct lr_json *added_tokens;
    bool has_bytes; /* the pre-tokenizer makes letters of bytes */
    struct lr_error *err;
};

LR_MUST_USE lr_code tokenizer_model_kind(const struct model_source *s, enum model_kind *out);
LR_MUST_USE lr_code tokenizer_model_read(struct tokenizer *t, const struct model_source *s);

#endif
