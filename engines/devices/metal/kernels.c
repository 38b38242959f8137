/* devices/metal/kernels.c - MSL becomes pipelines, and the archive that keeps them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/sha256.h"
#include "engines/devices/metal/metal.h"

/* ---- one kernel ---- */

static metal_id make_library(struct gpu_device *d, const char *source, metal_id *error)
{
    const struct metal_objc *objc = d->objc;
    metal_id options = metal_new(objc, objc->MTLCompileOptions);
    /* Sums keep their order, and infinities their meaning. */
    METAL_CALL(objc, void, (metal_id, metal_sel, bool), options, set_fast_math, false);
    METAL_CALL(objc, void, (metal_id, metal_sel, uint64_t), options, set_language,
               METAL_LANGUAGE_2_3);
    metal_id library =
        METAL_CALL(objc, metal_id, (metal_id, metal_sel, metal_id, metal_id, metal_id *),
                   d->handle, new_library, metal_string(objc, source), options, error);
    metal_release(objc, options);
    return library;
}

static metal_id make_function(struct gpu_device *d, metal_id library, const uint32_t *constants,
                              metal_id *error)
{
    const struct metal_objc *objc = d->objc;
    metal_id values = metal_new(objc, objc->MTLFunctionConstantValues);
    for (uint64_t i = 0; constants != NULL && i < GPU_CONSTANTS; i++)
        METAL_CALL(objc, void, (metal_id, metal_sel, const void *, uint64_t, uint64_t), values,
                   set_constant, &constants[i], METAL_TYPE_UINT, i);
    metal_id function =
        METAL_CALL(objc, metal_id, (metal_id, metal_sel, metal_id, metal_id, metal_id *),
                   library, new_function, metal_string(objc, "main0"), values, error);
    metal_release(objc, values);
    return function;
}

static metal_id make_state(struct gpu_device *d, metal_id function, metal_id *error)
{
    const struct metal_objc *objc = d->objc;
    metal_id descriptor = metal_new(objc, objc->MTLComputePipelineDescriptor), ignored = NULL;
    METAL_CALL(objc, void, (metal_id, metal_sel, metal_id), descriptor, set_function, function);
    if (d->archive != NULL)
        METAL_CALL(objc, void, (metal_id, metal_sel, metal_id), descriptor, set_archives,
                   METAL_CALL(objc, metal_id, (metal_id, metal_sel, metal_id), objc->NSArray,
                              array, d->archive));
    metal_id state = METAL_CALL(
        objc, metal_id, (metal_id, metal_sel, metal_id, uint64_t, metal_id *, metal_id *),
        d->handle, new_pipeline, descriptor, 0, NULL, error);
    if (state != NULL && d->archive != NULL && d->archive_is_new)
        (void)METAL_CALL(objc, bool, (metal_id, metal_sel, metal_id, metal_id *), d->archive,
                         add_to_archive, descriptor, &ignored);
    metal_release(objc, descriptor);
    return state;
}

lr_code metal_compile(struct gpu_device *d, const char *name, const char *source,
                      const uint32_t *constants, metal_id *out, struct lr_error *err)
{
    const struct metal_objc *objc = d->objc;
    metal_id error = NULL;
    void *pool = objc->push_pool();
    metal_id library = make_library(d, source, &error);
    metal_id function = library != NULL ? make_function(d, library, constants, &error) : NULL;
    lr_code code = LR_OK;

    (void)pthread_mutex_lock(&d->lock); /* an archive is for one thread at a time */
    *out = function != NULL ? make_state(d, function, &error) : NULL;
    (void)pthread_mutex_unlock(&d->lock);
    if (*out == NULL)
        code = lr_fail(err, LR_INTERNAL,
                       "Metal did not compile the kernel %s: %s. Please report this with the "
                       "output of `llm-router doctor --device metal`",
                       name, metal_reason(objc, error));
    metal_release(objc, function);
    metal_release(objc, library);
    objc->pop_pool(pool);
    return code;
}

lr_code metal_pipeline(struct gpu_device *d, uint32_t kernel, uint32_t threads, uint32_t mode,
                       struct gpu_pipeline **out, struct lr_error *err)
{
    const uint32_t constants[GPU_CONSTANTS] = {threads, mode};
    const struct gpu_program *program = &d->programs->at[kernel];
    struct gpu_pipeline *p = calloc(1, sizeof(*p));
    lr_code code;

    *out = NULL;
    if (p == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a pipeline");
    code = metal_compile(d, program->name, program->msl, constants, &p->state, err);
    if (code != LR_OK) {
        free(p);
        return code;
    }
    p->threads = threads;
    (void)pthread_mutex_lock(&d->lock);
    p->next = d->pipelines;
    d->pipelines = p;
    (void)pthread_mutex_unlock(&d->lock);
    uint64_t most = METAL_GET(d->objc, uint64_t, p->state, threads_most);
    if (most < threads)
        return lr_fail(err, LR_UNSUPPORTED,
                       "the kernel %s needs %u threads in a group, and this GPU allows %llu",
                       program->name, threads, (unsigned long long)most);
    *out = p;
    return LR_OK;
}

/* ---- the archive ---- */

/* A file for these kernels and this GPU, in the engine's folder for temporary files. */
static void set_archive_path(struct gpu_device *d)
{
    const char *folder = getenv("TMPDIR");
    const char *gpu =
        METAL_GET(d->objc, const char *, METAL_GET(d->objc, metal_id, d->handle, name), text);
    struct lr_sha256 sum;
    unsigned char digest[LR_SHA256_LEN];
    char hex[LR_SHA256_HEX_LEN + 1];

    if (folder == NULL || folder[0] == '\0')
        return;
    lr_sha256_init(&sum);
    lr_sha256_add(&sum, gpu, strlen(gpu));
    for (uint32_t i = 0; i < d->programs->count; i++)
        lr_sha256_add(&sum, d->programs->at[i].msl, strlen(d->programs->at[i].msl));
    lr_sha256_end(&sum, digest);
    lr_sha256_hex(digest, hex);
    int n = snprintf(d->archive_path, sizeof(d->archive_path), "%s/%s-metal-%.16s.archive",
                     folder, d->programs->owner, hex);
    if (n < 0 || (size_t)n >= sizeof(d->archive_path))
        d->archive_path[0] = '\0';
}

static metal_id path_url(const struct gpu_device *d)
{
    return METAL_CALL(d->objc, metal_id, (metal_id, metal_sel, metal_id), d->objc->NSURL,
                      file_url, metal_string(d->objc, d->archive_path));
}

/* With the content of the file, or empty. */
static metal_id make_archive(struct gpu_device *d, bool from_file)
{
    const struct metal_objc *objc = d->objc;
    metal_id descriptor = metal_new(objc, objc->MTLBinaryArchiveDescriptor), error = NULL;
    if (from_file)
        METAL_CALL(objc, void, (metal_id, metal_sel, metal_id), descriptor, set_url,
                   path_url(d));
    metal_id archive = METAL_CALL(objc, metal_id, (metal_id, metal_sel, metal_id, metal_id *),
                                  d->handle, new_archive, descriptor, &error);
    metal_release(objc, descriptor);
    return archive;
}

void metal_archive_open(struct gpu_device *d)
{
    set_archive_path(d);
    if (d->archive_path[0] == '\0')
        return;
    /* Metal refuses an archive of another system version. */
    if (lr_file_exists(d->archive_path))
        d->archive = make_archive(d, true);
    if (d->archive != NULL)
        return;
    d->archive = make_archive(d, false);
    d->archive_is_new = d->archive != NULL;
}

void metal_archive_save(struct gpu_device *d)
{
    metal_id error = NULL;
    if (!d->archive_is_new)
        return;
    d->archive_is_new = false;
    (void)METAL_CALL(d->objc, bool, (metal_id, metal_sel, metal_id, metal_id *), d->archive,
                     save_archive, path_url(d), &error);
}
