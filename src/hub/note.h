/* hub/note.h - a note beside each partial file that says which file it belongs to (internal to
 * this folder).
 *
 * DIR/.download/NAME.part holds the bytes, DIR/.download/NAME.json the note.  The note is on
 * disk before the first byte, so bytes without a note belong to no file and are dropped.  When
 * the file is complete the note stays and records which file was verified (size and
 * modification time), so that a restart need not read gigabytes again.
 */
#ifndef HUB_NOTE_H
#define HUB_NOTE_H

#include "base/file.h"
#include "hub/manifest.h"

struct hub_note {
    uint64_t size;
    char sha256[65]; /* "" when the manifest gives none */
    char etag[256];  /* ETag of the answer that the bytes came from; "" */
    char url[HUB_URL_MAX];
    int64_t verified_ns; /* modification time of the complete file; 0: not complete */
};

struct hub_paths {
    char whole[LR_PATH_MAX];
    char part[LR_PATH_MAX];
    char note[LR_PATH_MAX];
};

/* Checks the name; creates nothing. */
LR_MUST_USE lr_code hub_paths_make(struct hub_paths *paths, const char *dir, const char *name,
                                   struct lr_error *err);
/* Creates the folders of the three paths. */
LR_MUST_USE lr_code hub_paths_create(const struct hub_paths *paths, struct lr_error *err);

/* False when the note is missing or malformed. */
bool hub_note_read(const char *path, struct hub_note *out);
LR_MUST_USE lr_code hub_note_write(const char *path, const struct hub_note *note,
                                   struct lr_error *err);
void hub_note_of(const struct hub_manifest_file *file, struct hub_note *out);
/* True when bytes with this note belong to this file: the hash decides, without a hash the
 * address, which contains a commit. */
bool hub_note_fits(const struct hub_note *note, const struct hub_manifest_file *file);

/* Records that the complete file, as it is now, was verified. */
LR_MUST_USE lr_code hub_note_seal(const struct hub_paths *paths,
                                  const struct hub_manifest_file *file, struct lr_error *err);
/* True when the complete file is there and this note says that it was verified. */
bool hub_note_proves(const struct hub_paths *paths, const struct hub_manifest_file *file);

#endif
