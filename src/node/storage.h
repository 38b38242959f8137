/* node/storage.h - ModelStorage: which models lie on this machine.
 *
 * Three places: folders named by the operator, the models directory, and an existing
 * Hugging Face cache, which is used in place and never written.  Everything found is
 * listed, the unusable with the reason.  Thread: the node's loop.
 */
#ifndef NODE_STORAGE_H
#define NODE_STORAGE_H

#include "base/fail.h"

struct node;
struct node_model;

/* Looks at all places again; adds what is new, leaves what is loaded alone. */
void node_storage_scan(struct node *node);

/* Adds one folder.  format NULL: the one that is there, safetensors before gguf. */
struct node_model *node_storage_add(struct node *node, const char *id, const char *dir,
                                    const char *format, const char *filename);

/* A model that is nothing but an engine (`--engine echo` without a model). */
struct node_model *node_storage_add_engine(struct node *node, const char *engine_id);

/* Finds an engine for every model that lacks one. */
void node_storage_resolve(struct node *node);

void node_storage_free(struct node *node);

#endif
