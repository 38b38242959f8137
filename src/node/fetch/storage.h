/* node/fetch/storage.h - ModelStorage: which models lie on this machine.
 *
 * Three places: folders named by the operator, the models directory, and an existing
 * Hugging Face cache, which is used in place and never written.  Everything found is
 * listed, the unusable with the reason.  Thread: the node's loop.
 */
#ifndef NODE_FETCH_STORAGE_H
#define NODE_FETCH_STORAGE_H

#include "base/file.h"
#include "base/settings.h"
#include "hub/manifest.h"
#include "model/descriptor.h"

struct net_request;
struct node_model;
struct node_models;

enum { NODE_RUNTIMES_MAX = 512 };

struct node_storage {
    struct node_models *models;         /* borrowed; their list is changed here only */
    const struct lr_settings *settings; /* borrowed */
    struct node_fetch *fetch;           /* owned */
    char root[LR_PATH_MAX];             /* the folder of the models that this node fetches */
    const char *runtimes[NODE_RUNTIMES_MAX + 1], *backends[2]; /* of the filter */
    struct hub_filter filter;
};

/* Makes the rest of a storage that has its borrowed pointers, and adds all models. */
void node_storage_open(struct node_storage *storage);
/* Forgets all models; no worker and no request is left.  Fine if it was never opened. */
void node_storage_close(struct node_storage *storage);

/* The folder that the next revision of a model is put together in (hub/installed.h).
 * INVALID_ARGUMENT for an id that is no path. */
LR_MUST_USE lr_code node_storage_incoming(const struct node_storage *storage, const char *id,
                                          char out[LR_PATH_MAX], struct lr_error *err);

/* What this node takes of a manifest, until the next call. */
const struct hub_filter *node_storage_filter(struct node_storage *storage);

/* At the start, before models are looked for: puts revisions in place that were decided. */
void node_storage_recover(struct node_storage *storage);
/* Looks at all places again; adds what is new, leaves what is loaded alone. */
void node_storage_scan(struct node_storage *storage);
/* The model of a folder that --model names; NULL: there is none. */
struct node_model *node_storage_named(const struct node_storage *storage, const char *folder);
/* Once a second: files of models at rest that came back or changed. */
void node_storage_watch(struct node_storage *storage);

/* Adds one folder; never NULL.  format NULL: the one that is there, safetensors before gguf. */
struct node_model *node_storage_add(struct node_storage *storage, const char *id,
                                    const char *dir, const char *format, const char *filename);

/* A place that is no model: listed with the reason. */
void node_storage_refuse(struct node_storage *storage, const char *id, const char *dir,
                         struct lr_error *why);
/* Safetensors where there are any. */
enum model_format node_storage_guess_format(const char *dir);

/* A model by name alone, ABSENT until its files are added; never NULL. */
struct node_model *node_storage_name(struct node_storage *storage, const char *id);

/* A router has registered the model in this format.  If the folder has the files of the other
 * format too, they are not run.  Requests that run now finish first. */
void node_storage_registered(struct node_model *model, struct lr_str format);
/* Its files are others now, of another revision.  What runs now finishes first. */
void node_storage_replaced(struct node_model *model, const char *format);
/* The registered format takes effect, or the new files do.  False: its files are not usable. */
bool node_storage_reopen(struct node_model *model);

/* Marks a model whose files have changed since they were described: the next load describes
 * them anew. */
void node_storage_notice(struct node_model *model);
/* A worker reports that the files are not those described (`why`).  True: that is right, and
 * the model is marked in the same way. */
bool node_storage_is_replaced(struct node_model *model, const struct lr_error *why);
/* Looks at its folder again: what lacked files or was judged may be usable now.  Nothing runs.
 */
void node_storage_look(struct node_model *model);
/* Remembers what its folder looks like now, to see when that changes. */
void node_storage_note(struct node_model *model);
/* What lies here of this model was fetched by another manifest than the one with this digest,
 * or it is not known by which.  False for files that this node did not fetch. */
bool node_storage_is_other(const struct node_model *model, struct lr_str digest);
/* Whether its files are as they were when their hashes were checked. */
bool node_storage_is_verified(const struct node_model *model);

/* A model without workers and requests is forgotten. */
void node_storage_forget(struct node_model *model);

/* Deletes the files of a model of this node's own and forgets the model, then answers the
 * request.  Another code than OK is the answer (purge.c). */
LR_MUST_USE lr_code node_storage_purge(struct node_model *model, struct net_request *req,
                                       struct lr_error *err);

/* Adds the model in `path` (absolute, or below the models folder) under `name`; empty: as
 * its folder is called.  format empty: the one that is there.  *out is borrowed.
 *   PERMISSION_DENIED  the path is outside the roots, which the text names
 *   NOT_FOUND          there is no such folder
 *   INVALID_ARGUMENT   the folder holds no whole model: the text names the file or fact
 *   CONFLICT           another folder has this name here */
LR_MUST_USE lr_code node_storage_inspect(struct node_storage *storage, struct lr_str path,
                                         struct lr_str name, struct lr_str format,
                                         struct node_model **out, struct lr_error *err);

/* Finds an engine for every model that lacks one, and lists an engine that was named without
 * a model. */
void node_storage_resolve(struct node_storage *storage);

#endif
