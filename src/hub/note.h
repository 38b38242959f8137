/* hub/note.h - what a partial file is a part of, kept beside it (internal to this folder).
 *
 * DIR/.download/NAME.part holds the bytes, DIR/.download/NAME.json the note.  The note is
 * on disk before the first byte is, so bytes without a note are nobody's and are dropped.
 * When the file is whole the note stays and says which file was verified (size and time
 * of its last change), so that a restart need not read gigabytes again.
 */
#ifndef HUB_NOTE_H
#define HUB_NOTE_H

#include "base/file.h"
#include "hub/manifest.h"

struct hub_note {
    uint64_t size;
    char sha256[65]; /* "" when the manifest gives none */
    char etag[256];  /* of the answer the bytes come from; "" */
    char url[HUB_URL_MAX];
    int64_t verified_ns; /* last change of the whole file; 0: it is not whole */
};

struct hub_paths {
    char whole[LR_PATH_MAX];
    char part[LR_PATH_MAX];
    char note[LR_PATH_MAX];
};

/* Checks the name; touches nothing. */
LR_MUST_USE lr_code hub_paths_make(struct hub_paths *paths, const char *dir, const char *name,
                                   struct lr_error *err);
/* Creates the folders the three lie in. */
LR_MUST_USE lr_code hub_paths_create(const struct hub_paths *paths, struct lr_error *err);

/* False when there is none or it makes no sense. */
bool hub_note_read(const char *path, struct hub_note *out);
LR_MUST_USE lr_code hub_note_write(const char *path, const struct hub_note *note,
                                   struct lr_error *err);
void hub_note_of(const struct hub_manifest_file *file, struct hub_note *out);
/* Are bytes with this note bytes of this file?  The hash decides, else the address, which
 * names a commit. */
bool hub_note_fits(const struct hub_note *note, const struct hub_manifest_file *file);

/* Notes that the whole file, as it lies there now, was verified. */
LR_MUST_USE lr_code hub_note_seal(const struct hub_paths *paths,
                                  const struct hub_manifest_file *file, struct lr_error *err);
/* True when the whole file is there and was verified, by this note. */
bool hub_note_proves(const struct hub_paths *paths, const struct hub_manifest_file *file);

#endif
