/* model/descriptor.c - see descriptor.h. */
#include "model/descriptor.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "model/descriptor_build.h"
#include "model/map.h"

enum { KEEP_MAX = 64 << 20, SCRATCH_MAX = 256 << 20 };

static const char *const format_names[] = {
    [MODEL_FORMAT_SAFETENSORS] = "safetensors",
    [MODEL_FORMAT_GGUF] = "gguf",
};

const char *model_format_name(enum model_format format)
{
    return format_names[format];
}

bool model_format_find(struct lr_str name, enum model_format *out)
{
    for (size_t i = 0; i < sizeof(format_names) / sizeof(format_names[0]); i++) {
        if (lr_str_eq_z(name, format_names[i])) {
            *out = (enum model_format)i;
            return true;
        }
    }
    return false;
}

lr_code model_build_text(struct model_build *b, struct lr_str text, const char **out)
{
    *out = lr_arena_copy(b->keep, text);
    if (*out == NULL)
        return lr_fail(b->err, LR_OUT_OF_RAM, "%s: no memory to describe the model", b->dir);
    return LR_OK;
}

static bool file_size(const char *path, uint64_t *out)
{
    return lr_file_exists(path) && lr_file_size(path, out, NULL) == LR_OK;
}

lr_code model_build_file(struct model_build *b, struct lr_str name, bool weights)
{
    struct model_descriptor *d = b->d;
    char path[LR_PATH_MAX];
    if (d->file_count == b->file_cap) {
        size_t cap = b->file_cap != 0 ? b->file_cap * 2 : 16;
        struct model_file *files = lr_arena_array(b->keep, cap, sizeof(*files));
        if (files == NULL)
            return lr_fail(b->err, LR_OUT_OF_RAM, "%s: no memory for the file list", b->dir);
        if (d->file_count != 0)
            memcpy(files, b->files, d->file_count * sizeof(*files));
        b->files = files;
        b->file_cap = cap;
        d->files = files;
    }
    struct model_file *file = &b->files[d->file_count];
    lr_code code = model_path(path, b->dir, name, b->err);
    if (code == LR_OK)
        code = model_build_text(b, name, &file->name);
    if (code != LR_OK)
        return code;
    if (!file_size(path, &file->size))
        return lr_fail(b->err, LR_MODEL_CORRUPT, "%s is gone or no plain file", path);
    d->file_count++;
    if (weights)
        d->weight_bytes += file->size;
    return LR_OK;
}

lr_code model_build_missing(struct model_build *b, const struct lr_str *names, size_t count)
{
    struct lr_buf list;
    lr_buf_init(&list, 1024);
    model_list_names(&list, names, count);
    lr_code code =
        lr_fail(b->err, LR_MODEL_CORRUPT, "%s: the %s snapshot is incomplete, missing: %s",
                b->dir, model_format_name(b->d->format), lr_buf_z(&list));
    lr_buf_free(&list);
    return code;
}

/* Adds official encodings beside the safetensors; files with unsafe names are skipped. */
static lr_code find_artifacts(struct model_build *b)
{
    static const struct {
        const char *name;
        const char *backend;
        enum model_artifact_kind kind;
    } places[MODEL_ARTIFACTS_MAX] = {
        {"metal/model.bin", "metal", MODEL_ARTIFACT_METAL},
        {"model.directml.bin", "directml", MODEL_ARTIFACT_DIRECTML},
        {"model.dml.bin", "directml", MODEL_ARTIFACT_DIRECTML},
    };
    for (size_t i = 0; i < MODEL_ARTIFACTS_MAX; i++) {
        struct model_artifact *a = &b->d->artifacts[b->d->artifact_count];
        char path[LR_PATH_MAX];
        lr_code code = model_path(path, b->dir, lr_str_z(places[i].name), b->err);
        if (code != LR_OK)
            return code;
        if (!file_size(path, &a->size))
            continue;
        a->kind = places[i].kind;
        a->backend = places[i].backend;
        code = model_build_text(b, lr_str_z(path), &a->path);
        if (code != LR_OK)
            return code;
        b->d->artifact_count++;
    }
    return LR_OK;
}

static lr_code build(struct model_build *b, const char *dir)
{
    lr_code code = model_build_text(b, lr_str_z(dir), &b->d->model_dir);
    if (code == LR_OK)
        code = model_folder_list(b->scratch, dir, &b->folder, b->err);
    if (code != LR_OK)
        return code;
    if (b->d->format == MODEL_FORMAT_GGUF)
        return model_build_gguf(b);
    code = model_build_safetensors(b);
    return code == LR_OK ? find_artifacts(b) : code;
}

lr_code model_descriptor_open(const char *dir, enum model_format format, const char *filename,
                              struct model_descriptor **out, struct lr_error *err)
{
    *out = NULL;
    struct model_descriptor *d = calloc(1, sizeof(*d));
    struct lr_arena *keep = calloc(1, sizeof(*keep));
    if (d == NULL || keep == NULL) {
        free(d);
        free(keep);
        return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory to describe the model", dir);
    }
    struct lr_arena scratch;
    lr_arena_init(keep, KEEP_MAX);
    lr_arena_init(&scratch, SCRATCH_MAX);
    d->format = format;
    d->storage = keep;
    struct model_build b = {.d = d,
                            .keep = keep,
                            .scratch = &scratch,
                            .dir = dir,
                            .filename = filename,
                            .err = err};
    lr_code code = build(&b, dir);
    lr_arena_free(&scratch);
    if (code != LR_OK) {
        model_descriptor_close(d);
        return code;
    }
    *out = d;
    return LR_OK;
}

void model_descriptor_close(struct model_descriptor *d)
{
    if (d == NULL)
        return;
    struct lr_arena *keep = d->storage;
    lr_arena_free(keep);
    free(keep);
    free(d);
}
