/* hub/installed.h - a folder with the files of a model, and the manifest beside them.
 *
 * The manifest is written into the folder once every file was verified.  A node that starts
 * without its router so still knows what lies there and which bytes it must be.  A folder
 * without a manifest is the operator's: it is used as it is.
 *
 * The files of another revision are put together in a second folder of the same file system,
 * with links to those that stayed the same.  Once all are verified the new manifest is written
 * into that folder: from then on the change is decided.  Then the files are moved over the old
 * ones; a process that was killed in between moves the rest when it starts again.
 *
 * Failpoints: revision.fetched, .decided, .moved, .written.  Thread: any; one at a time for a
 * folder.
 */
#ifndef HUB_INSTALLED_H
#define HUB_INSTALLED_H

#include "hub/manifest.h"

/* NULL when there is none, or it makes no sense, or it is another model's (a folder that
 * was copied).  The caller destroys it. */
struct hub_manifest *hub_installed_read(const char *dir, const char *id);
LR_MUST_USE lr_code hub_installed_write(const char *dir, const struct hub_manifest *manifest,
                                        struct lr_error *err);

/* A download into this folder has begun, and perhaps ended. */
bool hub_installed_was_fetched(const char *dir);
/* The files were fetched by another manifest than the one with this digest, or it is not known
 * by which.  False for the operator's files. */
bool hub_installed_is_other(const char *dir, const char *id, struct lr_str digest);

/* True when the files here are those of the manifest, whose text is another one: it is kept. */
bool hub_installed_adopt(const char *dir, const struct hub_manifest *manifest);
/* Fills the second folder with what need not be fetched, and takes an earlier decision back. */
void hub_installed_prepare(const char *dir, const struct hub_manifest *manifest,
                           const char *incoming);
/* Everything is in the second folder: the change is decided. */
LR_MUST_USE lr_code hub_installed_decide(const struct hub_manifest *manifest,
                                         const char *incoming, struct lr_error *err);
/* Moves the files; the second folder is gone then, and the folders above it that are empty,
 * up to `root`. */
LR_MUST_USE lr_code hub_installed_replace(const char *dir, const struct hub_manifest *manifest,
                                          const char *incoming, const char *root,
                                          struct lr_error *err);

#endif
