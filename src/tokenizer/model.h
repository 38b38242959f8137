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

/* tokenizer_open_text with a tokenizer_config.json (NULL: none). */
LR_MUST_USE lr_code tokenizer_open_with(struct lr_str json, const struct lr_json *config,
                                        struct tokenizer **out, struct lr_error *err);
/* *list, added_tokens or NULL, with those of the config that it lacks. */
LR_MUST_USE lr_code tokenizer_config_added(struct lr_arena *arena, const struct lr_json *config,
                                           const struct lr_json **list, struct lr_error *err);
/* Adds or takes out BOS and EOS as the config says. */
LR_MUST_USE lr_code tokenizer_config_wrapping(struct tokenizer *t, const struct lr_json *config,
                                              struct lr_error *err);
/* The id of an added token by its text as in the file. */
bool tokenizer_find_added(const struct tokenizer *t, struct lr_str text, uint32_t *id);

LR_MUST_USE lr_code tokenizer_model_kind(const struct model_source *s, enum model_kind *out);
LR_MUST_USE lr_code tokenizer_model_read(struct tokenizer *t, const struct model_source *s);

#endif
