/* worker/devices.h - lists the Vulkan devices of this machine (`worker --devices`).
 * Loads every Vulkan driver into the calling process.  Thread: one.
 */
#ifndef WORKER_DEVICES_H
#define WORKER_DEVICES_H

/* Prints one line as in wire/device.h; without Vulkan an empty list.  Returns the exit code. */
int worker_print_devices(void);

#endif
