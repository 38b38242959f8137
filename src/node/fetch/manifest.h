/* node/fetch/manifest.h - the manifest beside a model's files.
 *
 * Written into a folder of this node's models root once every file of it was verified.
 * A node that starts without its router so still knows what lies there (id, format, the
 * one GGUF of several) and which bytes it must be.  A folder without one is the
 * operator's: it is used as it is.  Thread: the node's loop.
 */
#ifndef NODE_FETCH_MANIFEST_H
#define NODE_FETCH_MANIFEST_H

#include "base/file.h"
#include "base/sha256.h"
#include "hub/manifest.h"

struct node;

/* Where this node keeps models of its own: setting models-dir, else DATA-DIR/models. */
void node_models_root(const struct node *node, char out[LR_PATH_MAX]);
/* The folder of a model below it.  INVALID_ARGUMENT for an id that is no path. */
LR_MUST_USE lr_code node_models_dir_of(const struct node *node, const char *id,
                                       char out[LR_PATH_MAX], struct lr_error *err);

/* NULL when there is none, or it makes no sense, or it is another model's (a folder that
 * was copied).  The caller destroys it. */
struct hub_manifest *node_manifest_read(const char *dir, const char *id);
LR_MUST_USE lr_code node_manifest_write(const char *dir, const struct hub_manifest *manifest,
                                        struct lr_error *err);

void node_manifest_remove(const char *dir);

/* Sha256 of its JSON, as the router tells it with its list: the same text, the same files. */
void node_manifest_digest(const struct hub_manifest *manifest, char out[LR_SHA256_HEX_LEN + 1]);

/* The file a GGUF manifest is about; NULL for safetensors. */
const char *node_manifest_gguf(const struct hub_manifest *manifest);

enum { NODE_RUNTIMES_MAX = 64 };
/* What this node takes of a manifest.  The filter points into itself and the node. */
struct node_filter {
    const char *runtimes[NODE_RUNTIMES_MAX + 1];
    const char *backends[2];
    struct hub_filter hub;
};
void node_filter_init(struct node_filter *filter, const struct node *node);

#endif
