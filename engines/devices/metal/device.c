/* devices/metal/device.c - describes, opens and closes the GPU; its buffers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/memory.h"
#include "engines/devices/metal/metal.h"

enum {
    ALIGNMENT = 16,         /* of an offset: of the largest type of the `device` arguments */
    THREADS_OF_GROUP = 1024 /* of every GPU of Apple; a kernel may allow fewer */
};

/* ---- describe ---- */

/* The width of a SIMD group is known of a compiled kernel only. */
static lr_code read_width(struct gpu_device *d, uint32_t *out, struct lr_error *err)
{
    static const char source[] = "// kernel probe\n"
                                 "#include <metal_stdlib>\n"
                                 "kernel void main0(device uint& out [[buffer(0)]])\n"
                                 "{ out = 1; }\n";
    metal_id state;
    lr_code code = metal_compile(d, "probe", source, NULL, &state, err);
    if (code != LR_OK)
        return code;
    *out = (uint32_t)METAL_GET(d->objc, uint64_t, state, width);
    metal_release(d->objc, state);
    return LR_OK;
}

static lr_code read_limits(struct gpu_device *d, struct gpu_limits *out, struct lr_error *err)
{
    const struct metal_objc *objc = d->objc;
    metal_id name = METAL_GET(objc, metal_id, d->handle, name);
    uint64_t total = METAL_GET(objc, uint64_t, d->handle, working_set);
    uint64_t used = METAL_GET(objc, uint64_t, d->handle, allocated);
    uint64_t longest = METAL_GET(objc, uint64_t, d->handle, buffer_most);

    *out = (struct gpu_limits){
        .unified = METAL_GET(objc, bool, d->handle, has_unified_memory),
        .total_bytes = total,
        .free_bytes = total > used ? total - used : 0,
        .binding_bytes = longest,
        .allocation_bytes = longest,
        .alignment = ALIGNMENT,
        .threads = THREADS_OF_GROUP,
        .shared_bytes = (uint32_t)METAL_GET(objc, uint64_t, d->handle, shared_most),
    };
    (void)snprintf(out->name, sizeof(out->name), "%s",
                   METAL_GET(objc, const char *, name, text));
    if (!out->unified)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s has memory of its own; the Metal backend is for Macs with Apple "
                       "silicon, whose GPU shares the memory of the processor",
                       out->name);
    return read_width(d, &out->subgroup, err);
}

/* The default device; the caller closes it. */
static lr_code metal_device_find(const char *device, struct gpu_device **out,
                                 struct lr_error *err)
{
    struct gpu_device *d = calloc(1, sizeof(*d));
    lr_code code;

    *out = NULL;
    if (d == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a device");
    (void)pthread_mutex_init(&d->lock, NULL);
    code = metal_objc_get(&d->objc, err);
    if (code == LR_OK && device != NULL && strcmp(device, "metal") != 0)
        code = lr_fail(err, LR_UNSUPPORTED, "device \"%s\": a Mac has one, named \"metal\"",
                       device);
    if (code == LR_OK && (d->handle = d->objc->default_device()) == NULL)
        code = lr_fail(err, LR_UNSUPPORTED,
                       "Metal finds no GPU; in a virtual machine or without a login session "
                       "there may be none");
    if (code != LR_OK) {
        (void)pthread_mutex_destroy(&d->lock);
        free(d);
        return code;
    }
    *out = d;
    return LR_OK;
}

lr_code metal_describe(const char *device, struct gpu_limits *out, struct lr_error *err)
{
    struct gpu_device *d;
    lr_code code = metal_device_find(device, &d, err);
    if (code != LR_OK)
        return code;
    void *pool = d->objc->push_pool();
    code = read_limits(d, out, err);
    d->objc->pop_pool(pool);
    metal_close(d);
    return code;
}

/* ---- open and close ---- */

lr_code metal_open(const char *device, const struct gpu_programs *programs,
                   struct gpu_device **out, struct lr_error *err)
{
    struct gpu_device *d;
    lr_code code = metal_device_find(device, &d, err);
    *out = NULL;
    if (code != LR_OK)
        return code;
    d->programs = programs;
    void *pool = d->objc->push_pool();
    d->queue = METAL_GET(d->objc, metal_id, d->handle, new_queue);
    metal_archive_open(d);
    d->objc->pop_pool(pool);
    if (d->queue == NULL) {
        metal_close(d);
        return lr_fail(err, LR_INTERNAL, "Metal made no command queue");
    }
    *out = d;
    return LR_OK;
}

void metal_close(struct gpu_device *d)
{
    struct lr_error ignored;
    if (d == NULL)
        return;
    (void)metal_wait(d, d->submitted, &ignored);
    for (uint32_t i = 0; i < METAL_IN_FLIGHT; i++)
        metal_release(d->objc, d->in_flight[i]);
    while (d->recordings != NULL)
        metal_forget(d, d->recordings);
    while (d->buffers != NULL)
        metal_free_buffer(d, d->buffers);
    while (d->pipelines != NULL) {
        struct gpu_pipeline *next = d->pipelines->next;
        metal_release(d->objc, d->pipelines->state);
        free(d->pipelines);
        d->pipelines = next;
    }
    metal_release(d->objc, d->archive);
    metal_release(d->objc, d->queue);
    metal_release(d->objc, d->handle);
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
}

/* ---- buffers ---- */

static struct gpu_buffer *metal_device_keep(struct gpu_device *d, struct gpu_buffer *b)
{
    b->next = d->buffers;
    if (b->next != NULL)
        b->next->previous = b;
    d->buffers = b;
    return b;
}

lr_code metal_allocate(struct gpu_device *d, uint64_t bytes, enum gpu_place place,
                       struct gpu_buffer **out, struct lr_error *err)
{
    struct gpu_buffer *b = calloc(1, sizeof(*b));

    (void)place; /* CPU and GPU share all of it */
    *out = NULL;
    if (b == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a buffer");
    b->bytes = (bytes + 15) / 16 * 16;
    b->handle = METAL_CALL(d->objc, metal_id, (metal_id, metal_sel, uint64_t, uint64_t),
                           d->handle, new_buffer, b->bytes, METAL_STORAGE_SHARED);
    if (b->handle == NULL) {
        lr_fail(err, LR_OUT_OF_VRAM,
                "Metal has no memory for a buffer of %llu bytes: close other programs, or use "
                "a smaller --max-context",
                (unsigned long long)b->bytes);
        free(b);
        return LR_OUT_OF_VRAM;
    }
    *out = metal_device_keep(d, b);
    return LR_OK;
}

struct gpu_buffer *metal_wrap(struct gpu_device *d, const void *from, uint64_t bytes)
{
    uint64_t page = lr_page_bytes();
    struct gpu_buffer *b = calloc(1, sizeof(*b));

    if (b == NULL || (uintptr_t)from % page != 0) {
        free(b);
        return NULL;
    }
    b->bytes = (bytes + page - 1) / page * page; /* Metal takes whole pages */
    b->handle = METAL_CALL(d->objc, metal_id,
                           (metal_id, metal_sel, const void *, uint64_t, uint64_t, metal_id),
                           d->handle, wrap_buffer, from, b->bytes, METAL_STORAGE_SHARED, NULL);
    if (b->handle == NULL) {
        free(b);
        return NULL;
    }
    return metal_device_keep(d, b);
}

void *metal_mapped(const struct gpu_buffer *buffer)
{
    const struct metal_objc *objc;
    /* A buffer exists, so the runtime is open. */
    return metal_objc_get(&objc, NULL) == LR_OK
               ? METAL_GET(objc, void *, buffer->handle, contents)
               : NULL;
}

void metal_free_buffer(struct gpu_device *d, struct gpu_buffer *b)
{
    if (b == NULL)
        return;
    if (b->previous != NULL)
        b->previous->next = b->next;
    else
        d->buffers = b->next;
    if (b->next != NULL)
        b->next->previous = b->previous;
    metal_release(d->objc, b->handle);
    free(b);
}
