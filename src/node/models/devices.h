/* node/models/devices.h - which devices a node computes on: setting device, and what the
 * machine has.
 *
 *   cuda      the GPUs that NVML lists and setting gpus names; cuda:N is GPU N of nvidia-smi
 *   vulkan    the GPUs that Vulkan lists, discrete ones first; vulkan:N is device N of that
 *             list, vulkan:UUID and vulkan:NAME are the device with that UUID or part of a name
 *   metal     the GPU of a Mac; its memory is the machine's RAM
 *   cpu       the processor
 *   auto      cuda where NVIDIA's driver has a GPU, else metal on a Mac, else vulkan where
 * Vulkan lists a GPU
 *
 * Vulkan also lists drivers that compute on the processor (lavapipe).  Only the words vulkan
 * and vulkan:N choose one of these drivers, never auto, and the node counts as a node without a
 * GPU (docs/promises.md: cpu-by-word).
 */
#ifndef NODE_MODELS_DEVICES_H
#define NODE_MODELS_DEVICES_H

#include "base/fail.h"
#include "wire/device.h"

struct node_devices {
    char kind[16];  /* "cpu", "cuda", "vulkan", "metal": a backend of an engine */
    char name[24];  /* what an engine gets for a model in the machine's RAM: "vulkan:0" */
    bool is_cpu;    /* computes on the processor */
    bool is_named;  /* by the operator: not `auto` */
    uint32_t count; /* GPUs below */
    struct wire_device gpus[WIRE_VULKAN_MAX]; /* Vulkan's, each with memory of its own */
};

/* Vulkan's devices: a child process lists them.  Blocks until the list is there, at most some
 * seconds.  UNAVAILABLE: the child died or hung.  Thread: any. */
LR_MUST_USE lr_code node_vulkan_list(struct wire_device out[WIRE_VULKAN_MAX], size_t *count,
                                     struct lr_error *err);

/* The order in which devices are used, by their type: 0 for a discrete GPU. */
uint32_t node_device_rank(const struct wire_device *device);

/* This system has Metal, or LR_METAL_LIBRARY names a stand-in for it (tests). */
bool node_has_metal(void);

/* The GPUs of the machine, as its drivers list them. */
struct node_machine {
    bool has_nvidia, has_metal;
    const char *nvidia_closed; /* why an NVIDIA GPU cannot be opened; "": none is like that */
    const struct wire_device *vulkan; /* Vulkan's list */
    size_t vulkan_count;
};

/* The devices for a value of setting device.  UNSUPPORTED: there are none; the sentence names
 * what there is.  Pure. */
LR_MUST_USE lr_code node_devices_pick(const char *wanted, const struct node_machine *machine,
                                      struct node_devices *out, struct lr_error *err);

/* Both together; asks Vulkan only where the answer depends on it.  nvidia_closed as above. */
LR_MUST_USE lr_code node_devices_choose(const char *wanted, bool has_nvidia,
                                        const char *nvidia_closed, struct node_devices *out,
                                        struct lr_error *err);

/* The number of "cuda:N" as text; NULL: the word has none. */
const char *node_devices_gpu(const char *wanted);

#endif
