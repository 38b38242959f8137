/* model/folder.c - see folder.h. */
#include "model/folder.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file.h"
#include "model/map.h"

static int model_folder_by_name(const void *left, const void *right)
{
    return lr_str_cmp(*(const struct lr_str *)left, *(const struct lr_str *)right);
}

static bool is_file(const char *dir, const char *name)
{
    char path[LR_PATH_MAX];
    return model_path(path, dir, lr_str_z(name), NULL) == LR_OK && lr_file_exists(path);
}

/* Grows by doubling inside the arena; the old copies are small and freed with it. */
static bool add_name(struct lr_arena *arena, struct model_folder *out, size_t *capacity,
                     const char *name)
{
    if (out->count == *capacity) {
        size_t grown = *capacity != 0 ? *capacity * 2 : 32;
        struct lr_str *names = lr_arena_array(arena, grown, sizeof(*names));
        if (names == NULL)
            return false;
        if (out->count != 0)
            memcpy(names, out->names, out->count * sizeof(*names));
        out->names = names;
        *capacity = grown;
    }
    char *copy = lr_arena_copy(arena, lr_str_z(name));
    if (copy == NULL)
        return false;
    out->names[out->count++] = lr_str_z(copy);
    return true;
}

lr_code model_folder_list(struct lr_arena *arena, const char *dir, struct model_folder *out,
                          struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    struct lr_dir *folder = lr_dir_open(dir);
    if (folder == NULL)
        return lr_fail_errno(err, LR_INVALID_ARGUMENT, "model folder %s", dir);
    lr_code code = LR_OK;
    size_t capacity = 0;
    for (const char *name; code == LR_OK && (name = lr_dir_next(folder)) != NULL;) {
        if (name[0] == '.' || !is_file(dir, name))
            continue;
        if (out->count == MODEL_FOLDER_MAX)
            code = lr_fail(err, LR_INVALID_ARGUMENT, "model folder %s holds more than %d files",
                           dir, MODEL_FOLDER_MAX);
        else if (!add_name(arena, out, &capacity, name))
            code = lr_fail(err, LR_OUT_OF_RAM, "no memory for the file list of %s", dir);
    }
    lr_dir_close(folder);
    if (out->count != 0)
        qsort(out->names, out->count, sizeof(*out->names), model_folder_by_name);
    return code;
}

bool model_folder_has(const struct model_folder *folder, struct lr_str name)
{
    return folder->count != 0 && bsearch(&name, folder->names, folder->count,
                                         sizeof(*folder->names), model_folder_by_name) != NULL;
}

void model_list_names(struct lr_buf *buf, const struct lr_str *names, size_t count)
{
    /* A message holds 508 bytes; the text around the list needs some of them. */
    enum { LIST_MAX = 330 };
    for (size_t i = 0; i < count; i++) {
        if (buf->len + names[i].len > LIST_MAX && i != 0) {
            lr_buf_addf(buf, " and %zu more", count - i);
            return;
        }
        lr_buf_addf(buf, "%s%.*s", i != 0 ? ", " : "", MODEL_QUOTE(names[i]));
    }
}

static bool digits5(const char *p)
{
    for (int i = 0; i < 5; i++)
        if (!isdigit((unsigned char)p[i]))
            return false;
    return true;
}

/* "model-00001-of-00003.safetensors", but not "-00001-of-00001" or "-00000-of-00000". */
static bool is_shard_of_several(struct lr_str name)
{
    enum { TAIL = sizeof("-00001-of-00003.safetensors") - 1 };
    if (name.len < TAIL)
        return false;
    const char *p = name.ptr + name.len - TAIL;
    if (p[0] != '-' || !digits5(p + 1) || memcmp(p + 6, "-of-", 4) != 0 || !digits5(p + 10))
        return false;
    return memcmp(p + 10, "00001", 5) > 0 || memcmp(p + 1, p + 10, 5) != 0;
}

static lr_code fail_list(struct lr_error *err, const char *fmt, const char *dir,
                         const struct lr_str *names, size_t count)
{
    struct lr_buf list;
    lr_buf_init(&list, 1024);
    model_list_names(&list, names, count);
    lr_code code = lr_fail(err, LR_MODEL_CORRUPT, "%s: %s: %s", dir, fmt, lr_buf_z(&list));
    lr_buf_free(&list);
    return code;
}

lr_code model_folder_weights(const struct model_folder *folder, const char *dir,
                             struct model_weight_files *out, struct lr_error *err)
{
    memset(out, 0, sizeof(*out));
    enum { SHOWN = 64 };
    struct lr_str weights[SHOWN], indexes[SHOWN];
    size_t weight_count = 0, index_count = 0;
    for (size_t i = 0; i < folder->count; i++) {
        struct lr_str name = folder->names[i];
        if (lr_str_ends(name, ".safetensors") && weight_count < SHOWN)
            weights[weight_count++] = name;
        if (lr_str_ends(name, ".safetensors.index.json") && index_count < SHOWN)
            indexes[index_count++] = name;
    }
    if (index_count > 1)
        return fail_list(err, "ambiguous: several indexes, keep one", dir, indexes,
                         index_count);
    if (index_count == 1) {
        out->index = indexes[0];
        return LR_OK;
    }
    if (weight_count == 0)
        return LR_OK;
    if (weight_count > 1)
        return fail_list(err,
                         "ambiguous: several .safetensors files and no "
                         "model.safetensors.index.json",
                         dir, weights, weight_count);
    if (is_shard_of_several(weights[0]))
        return fail_list(err,
                         "model.safetensors.index.json is missing, and the one file there is "
                         "names itself a shard of several",
                         dir, weights, 1);
    out->single = weights[0];
    return LR_OK;
}
