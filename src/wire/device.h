/* wire/device.h - the Vulkan devices of a machine, as `worker --devices` tells them to a node.
 *
 * A driver is foreign code that may crash or hang, so a process of its own loads it, prints one
 * line of JSON and ends.
 */
#ifndef WIRE_DEVICE_H
#define WIRE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/fail.h"

enum { WIRE_VULKAN_MAX = 16 };

struct wire_device {
    uint32_t number; /* N of "vulkan:N": its place in the loader's list */
    char title[96];  /* for people: "AMD Radeon RX 7900 XT" */
    char type[16];   /* "discrete", "integrated", "virtual", "cpu", "other" */
    char api[24];    /* Vulkan's version, "1.3.230" */
    char uuid[40];   /* as NVML writes it, without "GPU-" */
    uint64_t memory; /* bytes of its largest heap that is its own */
    uint64_t budget; /* of these, what a process may use now; memory: the driver does not say */
    char why[160];   /* why the gpt-oss engine cannot use it; "": it can */
};

/* The device computes on the processor. */
bool wire_device_is_cpu(const struct wire_device *device);

void wire_devices_write(struct lr_buf *out, const struct wire_device *devices, size_t count);
/* At most WIRE_VULKAN_MAX.  INVALID_ARGUMENT: not what wire_devices_write writes. */
LR_MUST_USE lr_code wire_devices_parse(struct lr_str text,
                                       struct wire_device out[WIRE_VULKAN_MAX], size_t *count,
                                       struct lr_error *err);

#endif
