/* model/descriptor_build.h - building a descriptor; private to src/model.
 *
 * A build has two arenas: one that the descriptor keeps, and one for parse trees that is freed
 * after the build.
 */
#ifndef MODEL_DESCRIPTOR_BUILD_H
#define MODEL_DESCRIPTOR_BUILD_H

#include "base/arena.h"
#include "base/json.h"
#include "model/config.h"
#include "model/descriptor.h"
#include "model/folder.h"
#include "model/gguf.h"

enum { MODEL_MISSING_MAX = 4096, MODEL_TEMPLATE_MAX = 1 << 20 };

struct model_build {
    struct model_descriptor *d;
    struct lr_arena *keep;
    struct lr_arena *scratch;
    const char *dir;
    const char *filename; /* may be NULL */
    struct model_folder folder;
    struct model_token_ids tokens; /* of generation_config.json */
    struct model_file *files;      /* d->files, writable */
    size_t file_cap;
    struct lr_error *err;
};

/* Adds a file of the folder; does not check whether it belongs to the model. */
LR_MUST_USE lr_code model_build_file(struct model_build *b, struct lr_str name, bool weights);

/* A terminated copy that the descriptor keeps; OUT_OF_RAM. */
LR_MUST_USE lr_code model_build_text(struct model_build *b, struct lr_str text,
                                     const char **out);

/* "DIR: the snapshot is incomplete, missing: a, b" */
lr_code model_build_missing(struct model_build *b, const struct lr_str *names, size_t count);

/* chat_template and special-token texts of a Hugging Face snapshot. */
LR_MUST_USE lr_code model_build_prompt(struct model_build *b);

/* tool_use: the template for requests with tools; empty: the same. */
LR_MUST_USE lr_code model_build_template(struct model_build *b, struct lr_str text,
                                         struct lr_str tool_use, const char *source);

/* d->control; a list that cannot be read stays empty. */
LR_MUST_USE lr_code model_build_added_tokens(struct model_build *b, const struct lr_json *root);
LR_MUST_USE lr_code model_build_control(struct model_build *b);
LR_MUST_USE lr_code model_build_gguf_control(struct model_build *b, const struct model_gguf *g);
/* d->stops, from the numbers of generation_config.json, else from the text of eos_token. */
LR_MUST_USE lr_code model_build_stops(struct model_build *b);

LR_MUST_USE lr_code model_build_safetensors(struct model_build *b);
LR_MUST_USE lr_code model_build_gguf(struct model_build *b);

#endif
