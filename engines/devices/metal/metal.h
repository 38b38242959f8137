/* devices/metal/metal.h - Metal as a host of kernels (gpu/host.h), for Macs with Apple
 * silicon.
 *
 * Plain C over the Objective-C runtime (objc.h).  The kernels are MSL that the build makes of
 * the same GLSL as for Vulkan.  Metal compiles them when a model is opened; an archive in the
 * engine's folder for temporary files keeps the result.  Memory is shared by CPU and GPU, so
 * nothing is staged.  Built, and tested with a stand-in for Metal; not run on a Mac by us
 * (docs/metal.md).
 */
#ifndef ENGINES_DEVICES_METAL_METAL_H
#define ENGINES_DEVICES_METAL_METAL_H

#include <pthread.h>

#include "base/fail.h"
#include "engines/devices/gpu/host.h"
#include "engines/devices/metal/objc.h"

enum {
    METAL_IN_FLIGHT = 8,
    METAL_PUSH_INDEX = 8, /* [[buffer(8)]] of every kernel: its push constants */
};

struct gpu_buffer {
    metal_id handle; /* owned */
    uint64_t bytes;
    struct gpu_buffer *next, *previous;
};

struct gpu_pipeline {
    metal_id state; /* owned */
    uint64_t threads;
    struct gpu_pipeline *next;
};

struct gpu_recording {
    struct gpu_command *commands; /* owned */
    uint32_t count;
    struct gpu_recording *next, *previous;
};

struct gpu_device {
    const struct metal_objc *objc;
    const struct gpu_programs *programs; /* borrowed until close; NULL: only described */
    metal_id handle, queue;              /* owned */
    pthread_mutex_t lock;   /* of archive and pipelines: several threads make them */
    metal_id archive;       /* owned; NULL: compiled kernels are not kept */
    bool archive_is_new;    /* kernels were added that are not in the file */
    char archive_path[512]; /* "": there is no folder for it */
    metal_id in_flight[METAL_IN_FLIGHT]; /* owned: command buffers, by ticket */
    uint64_t submitted, ended;
    bool is_dead;               /* a command buffer failed */
    struct gpu_buffer *buffers; /* owned lists */
    struct gpu_pipeline *pipelines;
    struct gpu_recording *recordings;
};

/* ---- device.c ---- */
lr_code metal_describe(const char *device, struct gpu_limits *out, struct lr_error *err);
lr_code metal_open(const char *device, const struct gpu_programs *programs,
                   struct gpu_device **out, struct lr_error *err);
void metal_close(struct gpu_device *d);
lr_code metal_allocate(struct gpu_device *d, uint64_t bytes, enum gpu_place place,
                       struct gpu_buffer **out, struct lr_error *err);
struct gpu_buffer *metal_wrap(struct gpu_device *d, const void *from, uint64_t bytes);
void *metal_mapped(const struct gpu_buffer *buffer);
void metal_free_buffer(struct gpu_device *d, struct gpu_buffer *buffer);

/* ---- kernels.c ---- */
/* A pipeline of MSL text, owned by the caller.  constants: the values of function constants 0
 * and 1, NULL: none. */
lr_code metal_compile(struct gpu_device *d, const char *name, const char *source,
                      const uint32_t *constants, metal_id *out, struct lr_error *err);
lr_code metal_pipeline(struct gpu_device *d, uint32_t kernel, uint32_t threads, uint32_t mode,
                       struct gpu_pipeline **out, struct lr_error *err);
/* Best effort: without an archive the kernels are compiled each time. */
void metal_archive_open(struct gpu_device *d);
void metal_archive_save(struct gpu_device *d);

/* ---- record.c ---- */
lr_code metal_record(struct gpu_device *d, const struct gpu_command *commands, uint32_t count,
                     struct gpu_recording **out, struct lr_error *err);
void metal_forget(struct gpu_device *d, struct gpu_recording *recording);
lr_code metal_submit(struct gpu_device *d, struct gpu_recording *recording, uint64_t *ticket,
                     struct lr_error *err);
lr_code metal_wait(struct gpu_device *d, uint64_t ticket, struct lr_error *err);

/* A struct gpu_host with the kernels of an engine. */
#define METAL_HOST(kernels)                                                                    \
    {                                                                                          \
        .name = "metal", .programs = (kernels), .describe = metal_describe,                    \
        .open = metal_open, .close = metal_close, .allocate = metal_allocate,                  \
        .wrap = metal_wrap, .mapped = metal_mapped, .release = metal_free_buffer,              \
        .pipeline = metal_pipeline, .record = metal_record, .forget = metal_forget,            \
        .submit = metal_submit, .wait = metal_wait,                                            \
    }

#endif
