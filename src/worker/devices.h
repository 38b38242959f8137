/* worker/devices.h - lists the Vulkan devices of this machine (`worker --devices`).
 * Loads every Vulkan driver into the calling process.  Thread: one.
 */
#ifndef WORKER_DEVICES_H
#define WORKER_DEVICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What the kernels of the gpt-oss engine need of a Vulkan device. */
struct worker_gpu {
    uint32_t api;                   /* Vulkan's version, in Vulkan's own coding */
    uint32_t subgroup_stages;       /* Vulkan's bits */
    uint32_t subgroup_operations;   /* Vulkan's bits */
    uint32_t subgroup;              /* invocations of a subgroup of a kernel */
    uint32_t threads, shared_bytes; /* of a work group */
    bool has_compute_queue;
};

/* Writes why the engine cannot use the device, and "" where it can.  Pure. */
void worker_gpu_lacks(const struct worker_gpu *gpu, char *out, size_t size);

/* Prints one line as in wire/device.h; without Vulkan an empty list.  Returns the exit code. */
int worker_print_devices(void);

#endif
