/* devices/gpu/host.h - what an API for GPUs (Vulkan, Metal) brings to an engine: memory,
 * kernels and launches.
 *
 * A host knows no model: the engine gives the compiled kernels to open(), and names them by
 * their places in that list.  docs/backends.md tells how to add a host.
 *
 * Commands of a recording run in their order.  A command with `after` begins when everything
 * before it has ended and its writes are visible; without it, the command may run beside its
 * predecessors.  Recordings run in the order of submit().  Nothing is read by the host before
 * wait() has returned for the recording that wrote it.
 *
 * Thread: the engine's caller.
 */
#ifndef ENGINES_DEVICES_GPU_HOST_H
#define ENGINES_DEVICES_GPU_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "llm-router/status.h"

/* The host's own. */
struct gpu_device;
struct gpu_buffer;
struct gpu_pipeline;
struct gpu_recording;

enum { GPU_SPANS_MAX = 8, GPU_PUSH_MAX = 128, GPU_CONSTANTS = 2 };

/* A compiled kernel. */
struct gpu_program {
    const char *name;
    const uint32_t *spirv; /* for Vulkan; NULL: this build could not compile it */
    size_t spirv_bytes;
    const char *msl;     /* for Metal; "": not for Metal */
    uint32_t bindings;   /* storage buffers, from 0 on */
    uint32_t push_bytes; /* of its push constants */
};

/* The kernels of an engine.  Static and const. */
struct gpu_programs {
    const char *owner; /* in the names of the files that keep what the drivers made of them */
    uint32_t count;
    const struct gpu_program *at;
};

/* What plan.c must know of a device. */
struct gpu_limits {
    char name[256];
    bool is_cpu;               /* computed by the processor: its memory is the machine's */
    bool unified;              /* device memory is mapped: no staging */
    uint64_t total_bytes;      /* memory of the device */
    uint64_t free_bytes;       /* that this process may use now; equal to total: not known */
    uint64_t binding_bytes;    /* of a span of a launch */
    uint64_t allocation_bytes; /* of a buffer */
    uint32_t alignment;        /* of a span's offset; a power of two */
    uint32_t subgroup;         /* invocations that compute together: 8 to 64 */
    uint32_t threads;          /* of a work group */
    uint32_t shared_bytes;     /* of a work group */
    bool matrices;             /* kernels *_m run: subgroups of 32, cooperative matrices */
};

enum gpu_place {
    GPU_ON_DEVICE, /* mapped only where limits.unified */
    GPU_TO_DEVICE, /* mapped: the host writes, copies read */
    GPU_TO_HOST,   /* mapped: copies write, the host reads */
};

/* A part of a buffer.
 * bytes 0: to the end of the buffer. */
struct gpu_span {
    struct gpu_buffer *buffer;
    uint64_t at, bytes;
};

enum gpu_command_kind { GPU_LAUNCH, GPU_COPY, GPU_ZERO };

struct gpu_command {
    enum gpu_command_kind kind;
    bool after;
    const struct gpu_pipeline *pipeline; /* of a launch */
    uint32_t grid[3];                    /* work groups */
    uint32_t push_bytes;
    uint32_t span_count;
    struct gpu_span spans[GPU_SPANS_MAX]; /* bindings 0, 1, ...; copy: from, to; zero: what */
    uint32_t push[GPU_PUSH_MAX / 4];
    uint64_t work; /* multiply-adds, about; hosts do not need it */
};

/* Static and const, with the kernels of an engine.  All functions but describe() and open() are
 * called with an open device.  OUT_OF_VRAM: no memory (OUT_OF_RAM where limits.is_cpu).
 * INTERNAL: the device is dead and every later call fails. */
struct gpu_host {
    const char *name;                    /* "vulkan" */
    const struct gpu_programs *programs; /* what the engine gives to open() */

    /* The device of that name ("vulkan:1"), without opening it.  UNSUPPORTED: no library, no
     * such device, or a device that lacks something; says what to install or to do. */
    lr_code (*describe)(const char *device, struct gpu_limits *out, struct lr_error *err);
    lr_code (*open)(const char *device, const struct gpu_programs *programs,
                    struct gpu_device **out, struct lr_error *err);
    void (*close)(struct gpu_device *device); /* and all that was made with it; NULL is fine */

    lr_code (*allocate)(struct gpu_device *device, uint64_t bytes, enum gpu_place place,
                        struct gpu_buffer **out, struct lr_error *err);
    /* A buffer over `bytes` of the host's memory that only launches read, without a copy; the
     * memory stays until the buffer is released.  `from` is the first byte of a page.  NULL:
     * the device cannot use this memory.  The function is NULL where the host has no such
     * buffers. */
    struct gpu_buffer *(*wrap)(struct gpu_device *device, const void *from, uint64_t bytes);
    void *(*mapped)(const struct gpu_buffer *buffer); /* NULL: not mapped */
    /* No submitted recording may use it any more.  NULL is fine. */
    void (*release)(struct gpu_device *device, struct gpu_buffer *buffer);

    /* kernel: its place in the programs.  threads: constant 0, the invocations of a work group;
     * mode: constant 1.  Several threads may call this at a time. */
    lr_code (*pipeline)(struct gpu_device *device, uint32_t kernel, uint32_t threads,
                        uint32_t mode, struct gpu_pipeline **out, struct lr_error *err);

    /* The commands are copied; the recording may be submitted many times. */
    lr_code (*record)(struct gpu_device *device, const struct gpu_command *commands,
                      uint32_t count, struct gpu_recording **out, struct lr_error *err);
    void (*forget)(struct gpu_device *device, struct gpu_recording *recording);

    /* *ticket counts submissions; wait() returns when that one and all before it have ended. */
    lr_code (*submit)(struct gpu_device *device, struct gpu_recording *recording,
                      uint64_t *ticket, struct lr_error *err);
    lr_code (*wait)(struct gpu_device *device, uint64_t ticket, struct lr_error *err);
};

#endif
