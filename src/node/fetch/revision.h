/* node/fetch/revision.h - another revision of a model that is here already.
 *
 * A model that was deleted and registered again names other files.  They are fetched into a
 * folder beside (ROOT/.incoming/ID), together with links to those that stayed the same,
 * while the old ones go on being served.  Once all are verified the new manifest is written
 * into that folder: from then on the change is decided.  The files are put in place when
 * nobody is opening the old ones; a node that was killed in between does it at its start.
 * Thread: the node's loop.
 */
#ifndef NODE_FETCH_REVISION_H
#define NODE_FETCH_REVISION_H

#include "base/file.h"
#include "base/str.h"

struct hub_manifest;
struct node;
struct node_model;

/* What lies here of this model was fetched by another manifest than the one with this
 * digest, or it is not known by which.  False for files that this node did not fetch: they are
 * the operator's. */
bool node_revision_is_other(const struct node_model *model, struct lr_str digest);

/* The folder the next revision is put together in. */
LR_MUST_USE lr_code node_revision_dir(const struct node *node, const char *id,
                                      char out[LR_PATH_MAX], struct lr_error *err);

/* True when the files here are those of the manifest, whose text is another one: it is kept. */
bool node_revision_adopt(const struct hub_manifest *manifest, const char *home);
/* Fills that folder with what need not be fetched, and takes an earlier decision back. */
void node_revision_prepare(const struct hub_manifest *manifest, const char *home,
                           const char *incoming);
/* Everything is there: the change is decided. */
LR_MUST_USE lr_code node_revision_decide(const struct hub_manifest *manifest,
                                         const char *incoming, struct lr_error *err);
/* A worker or a probe is opening its files: not now. */
bool node_revision_must_wait(const struct node_model *model);
/* Puts the files in place; the folder beside is gone then. */
LR_MUST_USE lr_code node_revision_install(const struct hub_manifest *manifest, const char *home,
                                          const char *incoming, struct lr_error *err);

/* At the start, before models are looked for: does what was decided and not done. */
void node_revision_recover(const struct node *node);

#endif
