/* hub/build.h - shared by the files that build a manifest. */
#ifndef HUB_BUILD_H
#define HUB_BUILD_H

#include "hub/manifest.h"

struct hub_builder {
    const struct hub_build_input *in;
    const struct hub_listing *listing; /* in->listing */
    const struct hub_request *request;
    struct hub_manifest *manifest; /* being built */
    size_t file_cap;
    struct lr_error *err; /* never NULL */
};

/* A manifest entry: its source file and its marks. */
struct hub_entry {
    const struct hub_listing *listing;
    const struct hub_file *file;
    const char *name; /* NULL: the file's own */
    int32_t priority;
    bool optional;
    bool is_artifact;
    const char *const *runtimes; /* NULL: the manifest's */
    const char *const *backends; /* NULL: none */
    const char *sha256;          /* NULL: the listing's */
};

lr_code hub_build_add(struct hub_builder *b, const struct hub_entry *entry);

/* Adds the weights, index first. */
lr_code hub_build_safetensors(struct hub_builder *b);
lr_code hub_build_gguf(struct hub_builder *b);
/* Files that are not taken are logged; that is no error. */
lr_code hub_build_artifacts(struct hub_builder *b);

/* True for a file in the root folder of the repository. */
bool hub_build_is_root(struct lr_str name);

/* Writes "a, b and 3 more": as many names as fit an error message. */
void hub_build_names(struct lr_buf *out, const struct lr_str *names, size_t count);

/* "model-00001-of-00003.safetensors" -> stem "model", number 1, last 3. */
struct hub_shard {
    struct lr_str stem;
    uint64_t number, total;
};
bool hub_build_shard(struct lr_str name, const char *suffix, struct hub_shard *out);

#endif
