/* model/folder.h - the files in the root folder of a snapshot: plain names, sorted. */
#ifndef MODEL_FOLDER_H
#define MODEL_FOLDER_H

#include "base/arena.h"
#include "base/fail.h"
#include "base/str.h"

enum { MODEL_FOLDER_MAX = 100000 };

struct model_folder {
    struct lr_str *names; /* in the arena; terminated; sorted by bytes */
    size_t count;
};

/* Regular files and links to such, without hidden files and folders.  INVALID_ARGUMENT: no such
 * folder. */
LR_MUST_USE lr_code model_folder_list(struct lr_arena *arena, const char *dir,
                                      struct model_folder *out, struct lr_error *err);

bool model_folder_has(const struct model_folder *folder, struct lr_str name);

/* The weight files.  After OK one of index and single is set, or neither when there are no
 * weights.
 *   MODEL_CORRUPT  two indexes, several .safetensors and no index ("ambiguous", naming
 *                  them), or one shard of several alone */
struct model_weight_files {
    struct lr_str index;
    struct lr_str single;
};
LR_MUST_USE lr_code model_folder_weights(const struct model_folder *folder, const char *dir,
                                         struct model_weight_files *out, struct lr_error *err);

/* Appends "a, b, c" to a message, as many names as fit, then "and N more". */
struct lr_buf;
void model_list_names(struct lr_buf *buf, const struct lr_str *names, size_t count);

#endif
