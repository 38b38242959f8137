/* hub/download_move.c - a download built in one folder and used in another. */
#include <errno.h>

#include "base/log.h"
#include "base/os/file.h"
#include "hub/download.h"
#include "hub/note.h"

void hub_download_reuse(const struct hub_manifest *manifest, const char *from, const char *dir)
{
    for (size_t i = 0; i < manifest->file_count; i++) {
        const struct hub_manifest_file *file = &manifest->files[i];
        struct hub_paths there, here;
        struct lr_error err;
        if (hub_paths_make(&there, from, file->name, &err) != LR_OK ||
            hub_paths_make(&here, dir, file->name, &err) != LR_OK ||
            !hub_note_proves(&there, file) || hub_note_proves(&here, file) ||
            hub_paths_create(&here, &err) != LR_OK)
            continue;
        (void)lr_unlink(here.whole);
        if (!lr_link(there.whole, here.whole) || hub_note_seal(&here, file, &err) != LR_OK)
            lr_log_info(NULL, "download.not_linked file=%s errno=%d", there.whole, errno);
    }
}

/* False: already moved, or never there. */
static bool exists(const char *path)
{
    struct lr_stat info;
    return lr_stat(path, &info);
}

lr_code hub_download_move(const struct hub_manifest *manifest, const char *from,
                          const char *dir, struct lr_error *err)
{
    for (size_t i = 0; i < manifest->file_count; i++) {
        const struct hub_manifest_file *file = &manifest->files[i];
        struct hub_paths there, here;
        lr_code code = hub_paths_make(&there, from, file->name, err);
        if (code == LR_OK)
            code = hub_paths_make(&here, dir, file->name, err);
        if (code == LR_OK)
            code = hub_paths_create(&here, err);
        if (code == LR_OK && exists(there.whole))
            code = lr_file_rename(there.whole, here.whole, err);
        if (code == LR_OK && exists(there.note))
            code = lr_file_rename(there.note, here.note, err);
        if (code != LR_OK)
            return code;
        /* The optional file was not fetched; a file of the old revision must not stay in its
         * place. */
        if (!hub_note_proves(&here, file))
            (void)lr_unlink(here.whole);
    }
    return LR_OK;
}

void hub_download_drop(const struct hub_manifest *old, const struct hub_manifest *kept,
                       const char *dir)
{
    for (size_t i = 0; i < old->file_count; i++) {
        struct hub_paths paths;
        size_t k = 0;
        while (k < kept->file_count && strcmp(kept->files[k].name, old->files[i].name) != 0)
            k++;
        if (k != kept->file_count ||
            hub_paths_make(&paths, dir, old->files[i].name, NULL) != LR_OK)
            continue;
        (void)lr_unlink(paths.whole);
        (void)lr_unlink(paths.part);
        (void)lr_unlink(paths.note);
    }
}
