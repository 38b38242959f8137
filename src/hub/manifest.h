/* hub/manifest.h - the list of files that a node fetches for a model.
 *
 * A manifest is built once, at registration, from a listing and its small files.  It pins
 * commits, sizes and hashes, so a later outage of the hub changes nothing.  It is sent as JSON,
 * and every reader checks it again: names are safe and unique, sizes are whole numbers, hashes
 * are hashes.  The manifest owns its strings.  Pure.  Thread: any.
 */
#ifndef HUB_MANIFEST_H
#define HUB_MANIFEST_H

#include "base/buf.h"
#include "base/sha256.h"
#include "hub/listing.h"
#include "hub/supported.h"

enum {
    HUB_MANIFEST_VERSION = 1,
    HUB_MANIFEST_BYTES_MAX = 16 << 20,
    HUB_MANIFEST_FILES_MAX = 4096,
    HUB_LIST_MAX = 8, /* runtimes or backends of one entry */
    HUB_NAME_MAX = 64,
};

enum hub_format { HUB_FORMAT_NONE, HUB_FORMAT_SAFETENSORS, HUB_FORMAT_GGUF };
const char *hub_format_name(enum hub_format format);            /* "" for NONE */
bool hub_format_find(struct lr_str name, enum hub_format *out); /* not for NONE */

#define HUB_FILE_SIZE_MAX (1ull << 50) /* bytes of a file */

struct hub_manifest_file {
    const char *name; /* path below the model's folder */
    const char *url;
    uint64_t size;
    const char *sha256;          /* NULL where the hub gave none */
    int32_t priority;            /* higher is fetched earlier */
    bool optional;               /* the model works without it */
    bool is_artifact;            /* "kind": "artifact" */
    const char *const *backends; /* NULL-terminated; empty: every backend */
    const char *const *runtimes; /* NULL-terminated; empty: the manifest's */
    const char *repo;            /* of an artifact; NULL: the model's repository */
    const char *revision;        /* commit of another repository; NULL: the manifest's */
};

struct hub_manifest {
    struct lr_arena arena;
    const char *id;
    const char *repo; /* "" when it was not given */
    enum hub_format format;
    const char *revision;            /* commit */
    const char *const *runtimes;     /* NULL-terminated */
    const char *chat_template;       /* the manifest's file that contains it, or NULL */
    struct hub_manifest_file *files; /* highest priority first, then by name */
    size_t file_count;
};

/* A registration request.  Empty strings: not given. */
struct hub_request {
    enum hub_format format;
    struct lr_str filename;
    struct lr_str quant; /* of a GGUF model, where no file is named */
    struct lr_str name;  /* the id; empty: the repository's name */
};

struct hub_build_input {
    const struct hub_policy *policy; /* for the URLs */
    const struct hub_listing *listing;
    const struct hub_listing *const *artifact_listings; /* other repositories, or NULL */
    size_t artifact_listing_count;
    const struct hub_supported *supported; /* may be NULL */
    const char *const *publishers;         /* allowlist; NULL: hub_default_publishers */
};

/* All of openai and of nvidia, NULL-terminated. */
extern const char *const hub_default_publishers[];

/* INVALID_ARGUMENT names the missing files, the candidates or the ambiguous shards;
 * UNSUPPORTED: config.json names no architecture. */
LR_MUST_USE lr_code hub_manifest_build(const struct hub_build_input *in,
                                       const struct hub_request *request,
                                       struct hub_manifest **out, struct lr_error *err);
void hub_manifest_destroy(struct hub_manifest *manifest); /* NULL is fine */

void hub_manifest_encode(const struct hub_manifest *manifest, struct lr_buf *out);
/* INVALID_ARGUMENT names the wrong member. */
LR_MUST_USE lr_code hub_manifest_decode(struct lr_str json, struct hub_manifest **out,
                                        struct lr_error *err);
/* Sha256 of its JSON, as the router tells it with its list: the same text, the same files. */
void hub_manifest_digest(const struct hub_manifest *manifest, char out[LR_SHA256_HEX_LEN + 1]);
/* The file a GGUF manifest is about; NULL for safetensors. */
const char *hub_manifest_gguf(const struct hub_manifest *manifest);

/* Selects the files that a node needs.  NULL lists: all files. */
struct hub_filter {
    const char *const *runtimes; /* engines this node has; NULL-terminated */
    const char *const *backends; /* "cuda", "vulkan", "metal", "cpu" */
    bool no_artifacts;
};
/* UNSUPPORTED names the runtimes when the node has none of them. */
LR_MUST_USE lr_code hub_manifest_wanted(const struct hub_manifest *manifest,
                                        const struct hub_filter *filter, struct lr_error *err);
bool hub_manifest_file_wanted(const struct hub_manifest *manifest,
                              const struct hub_manifest_file *file,
                              const struct hub_filter *filter);

#endif
