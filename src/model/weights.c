/* model/weights.c - see weights.h.
 *
 * Opening maps every shard and checks that index and shards agree; tensors are found by binary
 * search over their names.
 */
#include "model/weights.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/os/file.h"
#include "model/folder.h"
#include "model/map.h"
#include "model/safetensors.h"

/* Index text and tree, file names, and one pointer per tensor. */
enum { WEIGHTS_ARENA_MAX = 512 << 20 };

struct model_weights {
    struct lr_arena arena;
    struct model_safetensors **files; /* owned; in the arena */
    size_t file_count;
    const struct model_tensor **tensors; /* sorted by name; borrowed from files */
    size_t count;
    uint64_t bytes;
};

static int by_tensor_name(const void *left, const void *right)
{
    const struct model_tensor *const *a = left, *const *b = right;
    return lr_str_cmp((*a)->name, (*b)->name);
}

static lr_code out_of_ram(const char *dir, struct lr_error *err)
{
    return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory for the list of tensors", dir);
}

static lr_code open_file(struct model_weights *w, const char *dir, struct lr_str name,
                         struct lr_error *err)
{
    char path[LR_PATH_MAX];
    lr_code code = model_path(path, dir, name, err);
    if (code != LR_OK)
        return code;
    code = model_safetensors_open(path, &w->files[w->file_count], err);
    if (code == LR_OK)
        w->file_count++;
    return code;
}

/* One sorted list over all files; a name in two files is an error. */
static lr_code merge(struct model_weights *w, const char *dir, struct lr_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < w->file_count; i++)
        total += model_safetensors_count(w->files[i]);
    w->tensors = lr_arena_array(&w->arena, total + 1, sizeof(*w->tensors));
    if (w->tensors == NULL)
        return out_of_ram(dir, err);
    for (size_t i = 0; i < w->file_count; i++) {
        for (size_t j = 0; j < model_safetensors_count(w->files[i]); j++) {
            const struct model_tensor *t = model_safetensors_at(w->files[i], j);
            w->tensors[w->count++] = t;
            w->bytes += t->bytes;
        }
    }
    qsort(w->tensors, w->count, sizeof(const struct model_tensor *), by_tensor_name);
    for (size_t i = 1; i < w->count; i++) {
        const struct model_tensor *a = w->tensors[i - 1], *b = w->tensors[i];
        if (lr_str_eq(a->name, b->name))
            return lr_fail(err, LR_MODEL_CORRUPT, "tensor \"%.*s\" is in two files: %s and %s",
                           MODEL_QUOTE(a->name), a->file, lr_path_base(b->file));
    }
    return LR_OK;
}

static const struct model_tensor *weights_find(const struct model_weights *w,
                                               struct lr_str name)
{
    const struct model_tensor key = {.name = name}, *wanted = &key;
    const struct model_tensor *const *hit =
        w->count == 0 ? NULL
                      : bsearch(&wanted, w->tensors, w->count,
                                sizeof(const struct model_tensor *), by_tensor_name);
    return hit != NULL ? *hit : NULL;
}

/* Every tensor must lie in the shard that the index names. */
static lr_code check_index(const struct model_weights *w, const struct model_index *index,
                           struct lr_error *err)
{
    for (size_t i = 0; i < index->count; i++) {
        const struct model_index_entry *entry = &index->entries[i];
        struct lr_str shard = index->shards[entry->shard];
        const struct model_tensor *t = weights_find(w, entry->tensor);
        if (t == NULL)
            return lr_fail(err, LR_MODEL_CORRUPT,
                           "tensor \"%.*s\": the index places it in %.*s, which lacks it",
                           MODEL_QUOTE(entry->tensor), MODEL_QUOTE(shard));
        if (!lr_str_eq_z(shard, lr_path_base(t->file)))
            return lr_fail(err, LR_MODEL_CORRUPT,
                           "tensor \"%.*s\": the index places it in %.*s, but it lies in %s",
                           MODEL_QUOTE(entry->tensor), MODEL_QUOTE(shard),
                           lr_path_base(t->file));
    }
    return LR_OK;
}

static lr_code check_shards_exist(struct lr_arena *arena, const struct model_folder *folder,
                                  const struct model_index *index, const char *dir,
                                  struct lr_str index_name, struct lr_error *err)
{
    struct lr_str *missing = lr_arena_array(arena, index->shard_count, sizeof(*missing));
    size_t count = 0;
    if (missing == NULL)
        return out_of_ram(dir, err);
    for (size_t i = 0; i < index->shard_count; i++) {
        if (!model_folder_has(folder, index->shards[i]))
            missing[count++] = index->shards[i];
    }
    if (count == 0)
        return LR_OK;
    struct lr_buf list;
    lr_buf_init(&list, 1024);
    model_list_names(&list, missing, count);
    lr_code code = lr_fail(err, LR_MODEL_CORRUPT, "%s: %s names %s that %s missing: %s", dir,
                           index_name.ptr, count == 1 ? "a shard" : "shards",
                           count == 1 ? "is" : "are", lr_buf_z(&list));
    lr_buf_free(&list);
    return code;
}

static lr_code open_indexed(struct model_weights *w, const char *dir,
                            const struct model_folder *folder, struct lr_str index_name,
                            struct lr_error *err)
{
    char path[LR_PATH_MAX];
    struct lr_str text;
    struct model_index index;
    lr_code code = model_path(path, dir, index_name, err);
    if (code == LR_OK)
        code = model_read_text(&w->arena, path, MODEL_INDEX_BYTES_MAX, &text, err);
    if (code != LR_OK)
        return code;
    code = model_index_parse(&w->arena, text, &index, err);
    if (code != LR_OK) {
        (void)lr_fail_prefix(err, "%s", path);
        return code;
    }
    code = check_shards_exist(&w->arena, folder, &index, dir, index_name, err);
    if (code != LR_OK)
        return code;
    w->files = lr_arena_array(&w->arena, index.shard_count, sizeof(*w->files));
    if (w->files == NULL)
        return out_of_ram(dir, err);
    for (size_t i = 0; i < index.shard_count && code == LR_OK; i++)
        code = open_file(w, dir, index.shards[i], err);
    if (code == LR_OK)
        code = merge(w, dir, err);
    return code == LR_OK ? check_index(w, &index, err) : code;
}

static lr_code open_all(struct model_weights *w, const char *dir, struct lr_error *err)
{
    struct model_folder folder;
    struct model_weight_files where;
    lr_code code = model_folder_list(&w->arena, dir, &folder, err);
    if (code == LR_OK)
        code = model_folder_weights(&folder, dir, &where, err);
    if (code != LR_OK)
        return code;
    if (where.index.len != 0)
        return open_indexed(w, dir, &folder, where.index, err);
    if (where.single.len == 0)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: no weights: neither model.safetensors.index.json nor a "
                       ".safetensors file",
                       dir);
    w->files = lr_arena_array(&w->arena, 1, sizeof(*w->files));
    if (w->files == NULL)
        return out_of_ram(dir, err);
    code = open_file(w, dir, where.single, err);
    return code == LR_OK ? merge(w, dir, err) : code;
}

lr_code model_weights_open(const char *dir, struct model_weights **out, struct lr_error *err)
{
    *out = NULL;
    struct model_weights *w = calloc(1, sizeof(*w));
    if (w == NULL)
        return out_of_ram(dir, err);
    lr_arena_init(&w->arena, WEIGHTS_ARENA_MAX);
    lr_code code = open_all(w, dir, err);
    if (code != LR_OK) {
        model_weights_close(w);
        return code;
    }
    *out = w;
    return LR_OK;
}

void model_weights_close(struct model_weights *w)
{
    if (w == NULL)
        return;
    for (size_t i = 0; i < w->file_count; i++)
        model_safetensors_close(w->files[i]);
    lr_arena_free(&w->arena);
    free(w);
}

const struct model_tensor *model_weights_find(const struct model_weights *w, const char *name)
{
    return weights_find(w, lr_str_z(name));
}

lr_code model_weights_expect(const struct model_weights *w, const char *name,
                             enum model_dtype dtype, uint32_t rank, const uint64_t *shape,
                             const struct model_tensor **out, struct lr_error *err)
{
    *out = NULL;
    const struct model_tensor *t = model_weights_find(w, name);
    if (t == NULL)
        return lr_fail(err, LR_MODEL_CORRUPT, "tensor \"%s\" is missing from the weights",
                       name);
    if (t->dtype != dtype)
        return lr_fail(err, LR_MODEL_CORRUPT, "%s: tensor \"%s\" is %s, expected %s", t->file,
                       name, model_dtype_name(t->dtype), model_dtype_name(dtype));
    if (t->rank != rank || memcmp(t->shape, shape, rank * sizeof(*shape)) != 0) {
        char got[MODEL_SHAPE_TEXT], want[MODEL_SHAPE_TEXT];
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: tensor \"%s\" has shape %s, config.json asks for %s", t->file, name,
                       model_shape_text(t->shape, t->rank, got),
                       model_shape_text(shape, rank, want));
    }
    unsigned align = model_dtype_bits(dtype) / 8;
    if (align > 1 && t->offset % align != 0)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: tensor \"%s\" begins at byte %" PRIu64
                       ", which is not a multiple of the %u bytes of %s",
                       t->file, name, t->offset, align, model_dtype_name(dtype));
    *out = t;
    return LR_OK;
}

size_t model_weights_count(const struct model_weights *w)
{
    return w->count;
}

const struct model_tensor *model_weights_at(const struct model_weights *w, size_t i)
{
    return w->tensors[i];
}

uint64_t model_weights_bytes(const struct model_weights *w)
{
    return w->bytes;
}

void model_advise(const void *data, uint64_t bytes, enum model_advice advice)
{
    static const enum lr_advice advices[] = {
        [MODEL_ADVICE_SEQUENTIAL] = LR_ADVICE_SEQUENTIAL,
        [MODEL_ADVICE_WILLNEED] = LR_ADVICE_WILLNEED,
        [MODEL_ADVICE_RANDOM] = LR_ADVICE_RANDOM,
        [MODEL_ADVICE_DONTNEED] = LR_ADVICE_DONTNEED,
    };
    lr_map_advise(data, bytes, advices[advice]);
}

void model_weights_advise(const struct model_weights *w, enum model_advice advice)
{
    for (size_t i = 0; i < w->file_count; i++) {
        if (model_safetensors_count(w->files[i]) == 0)
            continue;
        const struct model_tensor *first = model_safetensors_at(w->files[i], 0);
        model_advise((const char *)first->data - first->offset,
                     model_safetensors_file_size(w->files[i]), advice);
    }
}
