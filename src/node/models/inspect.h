/* node/models/inspect.h - a folder that somebody names as a model.
 *
 * A router's operator registers a model by its path on this machine.  Only what lies
 * below the models roots (the models folder and the folders named by --model) is looked
 * at, symbolic links resolved: a path is no way to read the rest of the disk.
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_INSPECT_H
#define NODE_MODELS_INSPECT_H

#include "base/fail.h"
#include "base/str.h"

struct node;
struct node_model;

/* Adds the model in `path` (absolute, or below the models folder) under `name`; empty: as
 * its folder is called.  format empty: the one that is there.  *out is borrowed.
 *   PERMISSION_DENIED  the path is outside the roots, which the text names
 *   NOT_FOUND          there is no such folder
 *   INVALID_ARGUMENT   the folder holds no whole model: the text names the file or fact
 *   CONFLICT           another folder has this name here */
LR_MUST_USE lr_code node_inspect(struct node *node, struct lr_str path, struct lr_str name,
                                 struct lr_str format, struct node_model **out,
                                 struct lr_error *err);

#endif
