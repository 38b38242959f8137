/* model/descriptor.h - describes a snapshot on disk, for the node that runs it.
 *
 * Built only from the registered format and Hugging Face metadata.  If both formats lie in one
 * folder, the registered one is described.  Only a complete snapshot is described; otherwise
 * one message names every missing file.  The descriptor owns its strings.  Thread: any, once
 * opened.
 */
#ifndef MODEL_DESCRIPTOR_H
#define MODEL_DESCRIPTOR_H

#include <stdbool.h>

#include "base/fail.h"
#include "model/config.h"

enum model_format { MODEL_FORMAT_SAFETENSORS, MODEL_FORMAT_GGUF };

const char *model_format_name(enum model_format format); /* "safetensors", "gguf" */
bool model_format_find(struct lr_str name, enum model_format *out);

struct model_file {
    const char *name; /* relative to model_dir, '/' between folders */
    uint64_t size;
};

enum model_artifact_kind { MODEL_ARTIFACT_METAL, MODEL_ARTIFACT_DIRECTML };

struct model_artifact {
    enum model_artifact_kind kind;
    const char *backend; /* "metal", "directml" */
    const char *path;    /* absolute, or relative if model_dir is */
    uint64_t size;
};

enum { MODEL_ARTIFACTS_MAX = 3, MODEL_STOPS_MAX = 16 };

/* A token with a meaning of its own: "<|im_start|>". */
struct model_control {
    const char *text;
    uint32_t id;
};

struct model_descriptor {
    enum model_format format;
    const char *runtime;      /* "gptoss", "llama_cpp", or a name without an engine */
    const char *architecture; /* "GptOssForCausalLM"; general.architecture of a GGUF */
    const char *model_dir;
    const char *primary; /* path of the index, the single weights file, or the GGUF */
    const struct model_file *files; /* all files of the model except for artifacts */
    size_t file_count;
    uint64_t weight_bytes; /* sizes of the weight files */
    uint32_t requests; /* kinds of requests the model takes, as in lr_engine_need; 0: only the
                          engine knows */
    uint64_t context_tokens;          /* 0: not given */
    uint64_t kv_bytes;                /* KV memory of one whole context; 0: not known */
    const char *chat_template;        /* text; NULL: none, use the default */
    const char *chat_template_source; /* "chat_template.jinja", "tokenizer_config.json", ... */
    const char *bos_token;            /* texts of tokens; NULL: not given */
    const char *eos_token;
    const char *pad_token;
    const char *unk_token;
    struct lr_sampling_defaults sampling; /* of generation_config.json */
    const struct model_control *control;  /* the added and control tokens, as far as known */
    size_t control_count;
    bool has_vocabulary; /* `control` is the model's; false: nothing is known of its tokens */
    const char *stops[MODEL_STOPS_MAX]; /* texts of the tokens that end an answer */
    size_t stop_count;
    struct model_artifact artifacts[MODEL_ARTIFACTS_MAX];
    size_t artifact_count;
    void *storage; /* owned */
};

/* `filename` (may be NULL) chooses one GGUF of several; it must be a plain relative path.  For
 * safetensors it must be the file with the weights or their index.  Headers of all weight files
 * are checked, so an incomplete shard is found here.
 *   MODEL_CORRUPT     something is missing or broken; every missing file is named
 *   UNSUPPORTED       config.json names no architecture
 *   INVALID_ARGUMENT  no such folder, several GGUF files and no filename, a filename
 *                     that does not fit
 * An architecture without an engine is no error: `runtime` names it. */
LR_MUST_USE lr_code model_descriptor_open(const char *dir, enum model_format format,
                                          const char *filename, struct model_descriptor **out,
                                          struct lr_error *err);
/* The control token of a text; NULL: the model has none, or none is known. */
const struct model_control *model_control_find(const struct model_descriptor *d,
                                               struct lr_str text);
/* The longest control token that a text begins with; NULL likewise. */
const struct model_control *model_control_at(const struct model_descriptor *d,
                                             struct lr_str text);

void model_descriptor_close(struct model_descriptor *d); /* NULL is fine */

#endif
